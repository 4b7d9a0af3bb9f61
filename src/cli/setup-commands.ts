/** The commands of the first hour: configuration, examination, forecast. A command's file is named after it. */
import { kindOption, type CommandRow } from './command-row.ts';

export const SETUP_COMMANDS: readonly CommandRow[] = [
  {
    name: 'init',
    description: 'Asks, checks the key against the service, and writes a commented configuration',
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
        description: 'refused: a command line is kept in histories and shown in process lists',
      },
      {
        flags: '--profile <name>',
        description: 'what is known about the deployment (default: by looking)',
        values: 'profile',
      },
      { flags: '--name <name>', description: 'name of the source (default: production)', values: 'free' },
      { flags: '--output <file>', description: 'the file to write (default: ./tidemark.yaml)' },
      { flags: '--force', description: 'replace the file where there is one' },
      { flags: '--no-check', description: 'write without asking the service anything' },
      { flags: '--sync', description: 'run the first sync afterwards' },
    ],
    notes: [
      'On a terminal it asks for what no option gives; elsewhere --url and a key by reference are needed. The key never',
      'stands in the configuration: it is named there as ${VARIABLE} or as a file that only you can read.',
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
    description: 'What the key reaches kind by kind, and how mirror, disk, clock and schedules are',
    options: [
      {
        flags: '--openapi <file>',
        description: 'instead: where this OpenAPI 3 document and the catalog differ; sends nothing',
      },
    ],
    notes: [
      'Sends GET only, within the rate limit: a page or two of each kind in at most 5 organizations, 5 roles and 5',
      'projects. Exit 0 all fine or only warnings, 3 something cannot be read, 5 everything is denied, 1 unreachable.',
      'With --openapi: 0 no differences, 2 differences.',
    ],
    examples: [
      'tidemark doctor',
      'tidemark doctor --source production --json',
      'tidemark doctor --openapi openapi.yaml',
    ],
    load: async () => (await import('./doctor.ts')).doctor,
  },
  {
    name: 'estimate',
    description: 'Requests, minutes and bytes of a sync, a live diff or a restore before it starts',
    arguments: [
      {
        name: '[what]',
        key: 'what',
        description: 'of what (default: sync)',
        choices: ['sync', 'diff', 'restore'],
      },
    ],
    options: [
      kindOption,
      { flags: '--full', description: 'of a sync that walks every list whole' },
      { flags: '--from <ref>', description: 'of a restore of this state (default: latest)', values: 'point' },
    ],
    notes: [
      'From what the last run cost, where there is a mirror: nothing is sent. Else from a look at the first pages, within',
      'the bounds of `tidemark doctor`. What is known and what is guessed stands below the table.',
    ],
    examples: [
      'tidemark estimate',
      'tidemark estimate diff --kind batch_exports',
      'tidemark estimate restore --from baseline',
    ],
    load: async () => (await import('./estimate.ts')).estimate,
  },
];
