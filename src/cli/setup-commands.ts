/** The rows of the commands that set Tidemark up: `init`, `doctor`, `estimate`. */
import { kindOption, type CommandRow, writtenFile } from './command-row.ts';

export const SETUP_COMMANDS: readonly CommandRow[] = [
  {
    name: 'init',
    group: 'Set up',
    description: 'Write a configuration, after checking the API key',
    options: [
      { flags: '--url <url>', description: 'address of the service' },
      {
        flags: '--key-env <name>',
        description: 'environment variable that holds the key (TIDEMARK_API_KEY)',
        values: 'free',
      },
      { flags: '--key-file <file>', description: 'file that holds the key' },
      {
        flags: '--key <key>',
        isHidden: true,
        description: 'refused: a command line is kept in histories and shown in process lists',
      },
      {
        flags: '--profile <name>',
        description: 'profile of the deployment (default: detected)',
        values: 'profile',
      },
      { flags: '--name <name>', description: 'name of the source (default: production)', values: 'free' },
      {
        flags: '--output <file>',
        description: 'file to write (default: ./tidemark.yaml)',
        parse: writtenFile,
      },
      { flags: '--force', description: 'replace an existing file' },
      { flags: '--no-check', description: 'write without contacting the service' },
      {
        flags: '--notify <channel>',
        description:
          'send notices there: TYPE:VARIABLE, TYPE:FILE or email:VARIABLE:ADDRESS; sends a test; repeatable',
        isRepeatable: true,
        values: 'free',
      },
      {
        flags: '--backup <target>',
        description: 'back up to this directory or s3:// address; repeatable',
        isRepeatable: true,
        values: 'free',
      },
      {
        flags: '--recipient <recipient>',
        description: 'encrypt backups for this age recipient; repeatable',
        isRepeatable: true,
        values: 'free',
      },
      { flags: '--recordings', description: 'mirror session recordings too (default: left out)' },
      {
        flags: '--schedule <cron>',
        description: 'when the daemon syncs (default: every half hour)',
        values: 'free',
      },
      {
        flags: '--service <form>',
        description:
          'write what starts it: a systemd unit (as root /etc/systemd/system/tidemark.service, else in ~/.config/systemd/user), or, beside the configuration, a cron line (tidemark.cron) or compose.yaml. Starts nothing: the command that does is printed',
        choices: ['systemd', 'cron', 'compose'],
      },
      { flags: '--sync', description: 'run the first sync afterwards, and with --backup the first backup' },
      { flags: '--baseline', description: 'the same, and make the run the baseline, pinned as approved' },
    ],
    notes: [
      'On a terminal it asks for whatever the options do not give; otherwise --url and --key-env or --key-file are required.',
      'The key is never written to the configuration, only ${VARIABLE} or the path of a file that only you can read. The same',
      'holds for the address of --notify, e.g. slack:SLACK_URL or slack:/run/secrets/slack.',
    ],
    examples: [
      'tidemark init',
      'tidemark init --url https://svc.example.com --key-env SVC_API_KEY',
      'tidemark init --url https://svc.example.com --key-file /run/secrets/svc --profile posthog --sync',
    ],
    load: async () => (await import('./init.ts')).init,
  },
  {
    name: 'doctor',
    group: 'Set up',
    description: 'Check the API key, the mirror, disk, clock and schedules',
    options: [
      {
        flags: '--openapi <file>',
        description: 'compare this OpenAPI 3 document with the catalog instead; sends nothing',
      },
    ],
    notes: [
      'Sends GET only, within the rate limit: a page or two of each kind in at most 5 organizations, 5 roles and 5',
      'projects. Exit 0 fine or only warnings, 3 something cannot be read, 5 everything is denied, 1 unreachable.',
      'With --openapi: 0 no differences, 2 differences.',
    ],
    examples: [
      'tidemark doctor',
      'tidemark doctor --source production --json',
      'tidemark doctor --openapi openapi.yaml',
    ],
    mirrors: { lists: ['sources', 'problems'] },
    outlivesOutput: () => true,
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    name: 'estimate',
    group: 'Set up',
    description: 'Estimate requests and time of a sync, diff or restore',
    arguments: [
      {
        name: '[what]',
        key: 'what',
        description: 'operation to estimate (default: sync)',
        choices: ['sync', 'diff', 'restore'],
      },
    ],
    options: [
      kindOption,
      { flags: '--full', description: 'estimate a full sync, which walks every list to its end' },
      {
        flags: '--from <ref>',
        description: 'estimate a restore of this state (default: latest)',
        values: 'point',
      },
    ],
    notes: [
      'With a mirror, the estimate uses the cost of the last run and sends nothing. Without one, it reads the first pages,',
      'within the limits of `tidemark doctor`. Below the table it says what is measured and what is assumed.',
    ],
    examples: [
      'tidemark estimate',
      'tidemark estimate diff --kind batch_exports',
      'tidemark estimate restore --from baseline',
    ],
    mirrors: { lists: ['sources'] },
    load: async () => (await import('./estimate.ts')).estimate,
  },
];
