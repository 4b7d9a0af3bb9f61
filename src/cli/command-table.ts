/** Every command, by group, as `--help` lists them. A command's file is named after it, or after its group. */
import {
  asOption,
  COMMAND_GROUPS,
  type CommandRow,
  type OptionRow,
  filterOptions,
  positiveNumber,
  kindOption,
  wholeNumber,
} from './command-row.ts';
import { SHELLS } from './completion/value-type.ts';
import { DIFF_COMMANDS } from './diff-commands.ts';
import { FLEET_COMMANDS } from './fleet-commands.ts';
import { RECORD_HISTORY_COMMANDS } from './history-commands.ts';
import { secretsOption } from './record-options.ts';
import { RESTORE_COMMANDS } from './restore-commands.ts';
import { RETENTION_COMMANDS } from './retention-commands.ts';
import { SETUP_COMMANDS } from './setup-commands.ts';
import { TOOL_COMMANDS } from './tool-commands.ts';

const COMPLETION_COMMANDS: readonly CommandRow[] = [
  {
    name: 'completion',
    group: 'Set up',
    description: 'Print a shell completion script',
    arguments: [{ name: '<shell>', key: 'shell', description: 'shell', choices: SHELLS }],
    notes: [
      'The script asks the program at each TAB, so commands and options match the installed version, and sources and',
      'references match the configuration. It sends nothing and only reads the mirror. It waits two seconds at most if the',
      'system has `timeout`. For zsh, load compinit first.',
    ],
    examples: [
      'tidemark completion bash > ~/.local/share/bash-completion/completions/tidemark',
      'tidemark completion bash > /etc/bash_completion.d/tidemark',
      'tidemark completion zsh > "${fpath[1]}/_tidemark"',
      'tidemark completion fish > ~/.config/fish/completions/tidemark.fish',
    ],
    load: async () => (await import('./completion.ts')).completion,
  },
  {
    name: 'man',
    group: 'Set up',
    description: 'Print the manual page as roff',
    examples: ['tidemark man | man -l -', 'tidemark man > /usr/local/share/man/man1/tidemark.1'],
    load: async () => (await import('./man.ts')).man(COMMANDS),
  },
  {
    name: '__complete',
    isHidden: true,
    description: 'Candidates for the last word; for the scripts of `tidemark completion`',
    arguments: [{ name: '[word...]', key: 'words', description: 'all words so far', values: 'free' }],
    options: [{ flags: '--shell <shell>', description: 'the shell to complete for', choices: SHELLS }],
    load: async () => (await import('./completion.ts')).complete(COMMANDS),
  },
];

const runsLimitOption: OptionRow = {
  flags: '--limit <n>',
  description: 'maximum number to list, newest first (default: 20)',
  parse: positiveNumber,
};

const MIRROR_COMMANDS: readonly CommandRow[] = [
  {
    name: 'sync',
    group: 'Back up',
    description: 'Sync the mirror from the service now',
    options: [
      kindOption,
      { flags: '--full', description: 'list all session recordings, not only the newest' },
      {
        flags: '--ignore-pause',
        description: 'try now, although the service asked to wait (429 or 503); it may ask again',
      },
      {
        flags: '--accept-removals <n>',
        description: 'carry out the held removals, if they are at most n records in all',
        parse: wholeNumber,
      },
      asOption,
    ],
    notes: [
      'If a daemon is running for this mirror, the daemon does the run and this command waits for its result, except',
      'with --accept-removals: who accepted removals is recorded in the audit log, with the run that carried them out.',
      'Where several sources are configured, --accept-removals needs --source: removals are accepted in no source that',
      'is not named.',
    ],
    examples: [
      'tidemark sync',
      'tidemark sync --kind batch_exports --json',
      'tidemark sync --accept-removals 12 --source production',
    ],
    outlivesOutput: () => true,
    mirrors: { lists: ['runs'], isNamed: true },
    load: async () => (await import('./sync.ts')).sync,
  },
  {
    name: 'status',
    group: 'Back up',
    description: 'Show whether the mirror is fresh, complete and verified',
    notes: [
      'Exits with 0 if the mirror of each source is complete, 3 if one is not, 1 if nothing was ever published or the',
      'mirror cannot be read. Its age, drift and whatever else needs attention do not count: `tidemark daemon --check`',
      'exits with 1 for what is failing.',
    ],
    examples: ['tidemark status', 'tidemark status --verbose', 'tidemark status --json'],
    mirrors: { lists: ['sources'], ofMirror: ['verified'] },
    outlivesOutput: () => true,
    load: async () => (await import('./status.ts')).status,
  },
  {
    name: 'runs',
    group: 'Back up',
    description: 'List past runs',
    options: [runsLimitOption],
    examples: ['tidemark runs', 'tidemark runs show 3'],
    mirrors: { lists: ['runs', 'warnings'] },
    load: async () => (await import('./runs.ts')).runs,
    commands: [
      {
        name: 'list',
        // `runs` alone does the same.
        isHidden: true,
        description: 'List past runs',
        options: [runsLimitOption],
        mirrors: { lists: ['runs', 'warnings'] },
        load: async () => (await import('./runs.ts')).runs,
      },
      {
        name: 'show',
        description: 'Show one run, and what it read of each collection',
        arguments: [{ name: '<run>', key: 'run', description: 'run number' }],
        options: [secretsOption],
        examples: ['tidemark runs show 3', 'tidemark runs show 3 --json'],
        locate: async () => (await import('./runs.ts')).locateRun,
        load: async () => (await import('./runs.ts')).showRun,
      },
    ],
  },
  {
    name: 'export',
    group: 'Back up',
    description: 'Export the records of the mirror',
    options: [
      {
        flags: '--format <format>',
        description: 'output format (default: that of the file which --output names, else ndjson)',
        choices: ['ndjson', 'json', 'yaml', 'csv', 'parquet', 'terraform-imports'],
      },
      {
        flags: '--output <path>',
        description:
          'write to this directory, or to this file if its name ends in that of a format (x.parquet), instead of stdout; in a directory, files of an earlier export that are no longer needed are removed',
      },
      { flags: '--at <ref>', description: 'state to read (default: latest)', values: 'point' },
      {
        flags: '--history',
        description:
          'every revision instead of one state: run, time, change, changed fields, body (ndjson, parquet); with --id, under all ids that the record had',
      },
      {
        flags: '--since <ref>',
        description: 'with --history: only what runs after this state, time or age changed',
        values: 'point',
      },
      ...filterOptions,
    ],
    notes: [
      'Records of a list that could not be read completely are exported as last read: stderr names the list, and the exit',
      'code is 3.',
      'An export as json, or into a directory, lists the collections that it holds completely, so that `diff file:PATH` can',
      'report added and removed records. ndjson and YAML on stdout cannot say so: records that they lack are not compared.',
      'Fields that change on their own (volatile) have no history: a state before the newest run is exported without them, and',
      'with --history a body has the values that were seen last while it lasted.',
      'terraform-imports writes import blocks of Terraform for what the provider PostHog/posthog covers: projects, roles, role',
      'memberships, members and proxy records. All other records are comments that say why. `terraform plan',
      '-generate-config-out=FILE` then writes the resources.',
    ],
    examples: [
      'tidemark export --format json > backup.json',
      "tidemark export --kind members | jq '.body.level'",
      'tidemark export --format yaml --output ./config-tree',
      'tidemark export --format csv --kind members > members.csv',
      'tidemark export --format parquet --output ./tables',
      'tidemark export --format parquet --kind members --output members.parquet',
      'tidemark export --history --format parquet > history.parquet',
      'tidemark export --history --since run:3 --format parquet > new.parquet',
      'tidemark export --format terraform-imports > imports.tf',
    ],
    mirrors: {
      lists: ['records', 'whole', 'stale', 'volatile_unknown', 'unread_by_source', 'not_read'],
      commons: ['unread'],
      isNamed: true,
      formats: ['json', 'ndjson', 'yaml'],
      directoryOption: 'output',
    },
    load: async () => (await import('./export.ts')).exportRecords,
  },
  {
    name: 'verify',
    group: 'Maintain',
    description: 'Verify the mirror: contents, histories, chain of runs',
    options: [
      {
        flags: '--root <hash>',
        description: 'also look for a root hash that was noted elsewhere, or the hash of an audit log entry',
        values: 'free',
      },
      { flags: '--backups', description: 'also compare the root hashes in the manifests of all backups' },
      {
        flags: '--audit <file>',
        description: 'also compare a file that `tidemark audit` wrote as CSV or JSON with the audit log',
        values: 'file',
      },
    ],
    examples: [
      ...['tidemark verify', 'tidemark verify --root 51c3…', 'tidemark verify --backups --json'],
      'tidemark verify --audit audit.csv',
    ],
    mirrors: {},
    outlivesOutput: () => true,
    load: async () => (await import('./verify.ts')).verify,
  },
];

const identityOption: OptionRow = {
  flags: '--identity <file>',
  description: 'age identity file that decrypts the backup, as written by `age-keygen`; repeatable',
  isRepeatable: true,
};

const BACKUP_COMMANDS: readonly CommandRow[] = [
  {
    name: 'backup',
    group: 'Back up',
    description: 'Back up the mirror elsewhere, verify and restore backups',
    examples: [
      'tidemark backup list',
      'tidemark backup create',
      'tidemark backup verify latest --identity ~/keys/tidemark.txt',
      'tidemark backup restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt',
    ],
    commands: [
      {
        name: 'list',
        description: 'List the backups in all targets, newest first',
        arguments: [
          {
            name: '[target]',
            key: 'target',
            values: 'directory',
            description: 'a directory, or s3://BUCKET/PREFIX (default: the configured targets)',
          },
        ],
        examples: ['tidemark backup list --json', 'tidemark backup list s3://backups/tidemark'],
        mirrors: { lists: ['backups'] },
        outlivesOutput: () => true,
        load: async () => (await import('./backup.ts')).listBackupsCommand,
      },
      {
        name: 'create',
        description: 'Create a backup now, then apply retention and run `backup.command`',
        examples: ['tidemark backup create'],
        outlivesOutput: () => true,
        mirrors: {},
        load: async () => (await import('./backup.ts')).createBackupNow,
      },
      {
        name: 'verify',
        description:
          'Verify a backup; without an identity, only the checksum of an encrypted file is checked',
        arguments: [
          {
            name: '[file]',
            key: 'file',
            values: 'backup',
            description:
              'path, name in a target, directory, s3://BUCKET/PREFIX[/NAME], or latest (default: latest)',
          },
        ],
        options: [identityOption],
        examples: ['tidemark backup verify', 'tidemark backup verify latest --identity ~/keys/tidemark.txt'],
        mirrors: {},
        outlivesOutput: () => true,
        load: async () => (await import('./backup-verify.ts')).verifyOneBackup,
      },
      {
        name: 'restore',
        description:
          'Restore the mirror of a backup to a new path, after verifying it; nothing remote is touched',
        arguments: [
          {
            name: '<file>',
            key: 'file',
            description: 'path, name in a target, directory, s3://BUCKET/PREFIX[/NAME], or latest',
            values: 'backup',
          },
        ],
        options: [
          { flags: '--to <path>', description: 'destination path (must not exist)' },
          identityOption,
          asOption,
        ],
        notes: [
          'The restored file has an entry of it in its audit log (`tidemark audit --action restore_backup`).',
        ],
        examples: [
          'tidemark backup restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt',
          'tidemark backup restore s3://backups/tidemark --to ./data/mirror.db --identity ~/keys/tidemark.txt',
        ],
        outlivesOutput: () => true,
        load: async () => (await import('./backup-restore.ts')).restoreOneBackup,
      },
    ],
  },
];

const DAEMON_COMMANDS: readonly CommandRow[] = [
  {
    name: 'daemon',
    group: 'Run',
    description: 'Run scheduled jobs, serve the dashboard and metrics',
    options: [
      {
        flags: '--once',
        description: 'run the jobs that are due and exit: for cron, systemd timers, Kubernetes CronJobs',
      },
      { flags: '--no-http', description: 'do not serve HTTP' },
      {
        flags: '--check',
        description:
          "print the daemon's health and exit (0 healthy or in its first sync, 1 failing or not running)",
      },
    ],
    notes: [
      'With --once, it exits with 0 where another daemon has the mirror: that one does what is due.',
      'SIGTERM and Ctrl-C stop it within daemon.shutdownGraceMs, a second one at once; SIGHUP reloads the configuration.',
      'npx does not pass SIGTERM on: where a script starts it, start dist/main.js with node, or signal the pid in the log.',
      'Logs are JSON lines on stderr, and plain lines on a terminal and with --once --quiet, as for the mails of cron.',
    ],
    examples: [
      'tidemark daemon',
      'tidemark daemon --once',
      'tidemark daemon --config /etc/tidemark.yaml --no-http',
    ],
    outlivesOutput: () => true,
    load: async () => (await import('./daemon.ts')).daemon,
  },
  {
    name: 'mcp',
    group: 'Run',
    description: 'Serve read-only tools to an MCP client, by stdio',
    notes: [
      'Tools: status, changes, show, log, diff, drift, plan, sql. None of them writes, and secrets are masked. With',
      'http.mcp: true the daemon serves the same at /mcp. docs/mcp.md says how to add it to a client.',
    ],
    examples: ['tidemark mcp', 'tidemark mcp --config /etc/tidemark.yaml --source production'],
    load: async () => (await import('./mcp.ts')).mcp,
  },
  {
    name: 'mcp-sql',
    isHidden: true,
    description: 'Answers one query of an MCP client',
    arguments: [{ name: '<query>', key: 'query', description: 'one SELECT', values: 'free' }],
    options: [{ flags: '--limit <n>', description: 'rows at most', parse: positiveNumber }],
    load: async () => (await import('./mcp-sql.ts')).mcpSql,
  },
  {
    name: 'daemon-job',
    isHidden: true,
    description: 'Does one job for the daemon that starts it',
    options: [{ flags: '--once', description: 'the daemon runs what is due and exits' }],
    outlivesOutput: () => true,
    load: async () => (await import('./daemon-job.ts')).daemonJob,
  },
  {
    name: 'daemon-apply',
    isHidden: true,
    description: 'Applies a plan of the dashboard for the daemon that starts it',
    arguments: [{ name: '<plan>', key: 'plan', description: 'plan file of the dashboard', values: 'file' }],
    outlivesOutput: () => true,
    load: async () => (await import('./apply.ts')).daemonApply,
  },
  {
    name: 'fleet-cell',
    isHidden: true,
    description: 'Works on cells for the worker of a fleet that starts it',
    outlivesOutput: () => true,
    load: async () => (await import('./fleet-cell.ts')).fleetCell,
  },
];

const GIT_COMMANDS: readonly CommandRow[] = [
  {
    name: 'git',
    group: 'Back up',
    description: 'Commit the latest state to a git repository',
    options: [{ flags: '--dry-run', description: 'print the commit message; fetch, write and push nothing' }],
    notes: [
      'The daemon does this after each run that changed something; after a sync by cron, this command does it.',
      'Secrets are replaced by fingerprints. A state that is committed already makes no commit.',
    ],
    examples: ['tidemark git', 'tidemark git --dry-run', 'tidemark sync && tidemark git'],
    outlivesOutput: () => true,
    mirrors: { lists: ['sources'], isNamed: true },
    load: async () => (await import('./git.ts')).git,
  },
];

const NOTIFY_COMMANDS: readonly CommandRow[] = [
  {
    name: 'notify',
    group: 'Run',
    description: 'Work with the configured notice channels',
    examples: ['tidemark notify test', 'tidemark notify test ops'],
    commands: [
      {
        name: 'test',
        description: 'Send a test notice through all configured channels, or those named',
        arguments: [
          {
            name: '[channel...]',
            key: 'channels',
            description: 'channel names under `notices`',
            values: 'channel',
          },
        ],
        examples: ['tidemark notify test', 'tidemark notify test ops --json'],
        // Some notices may be sent already: the others are sent as well.
        outlivesOutput: () => true,
        load: async () => (await import('./notify.ts')).notifyTest,
      },
    ],
  },
];

const ROWS: readonly CommandRow[] = [
  ...SETUP_COMMANDS,
  ...TOOL_COMMANDS,
  ...COMPLETION_COMMANDS,
  ...MIRROR_COMMANDS,
  ...BACKUP_COMMANDS,
  ...GIT_COMMANDS,
  ...DIFF_COMMANDS,
  ...RECORD_HISTORY_COMMANDS,
  ...RETENTION_COMMANDS,
  ...RESTORE_COMMANDS,
  ...DAEMON_COMMANDS,
  ...NOTIFY_COMMANDS,
  ...FLEET_COMMANDS,
];

export const COMMANDS: readonly CommandRow[] = [...COMMAND_GROUPS, undefined].flatMap((group) =>
  ROWS.filter((row) => row.group === group),
);
