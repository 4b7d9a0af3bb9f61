/** Every command, in the order in which `--help` lists them. */
import {
  type CommandRow,
  type OptionRow,
  filterOptions,
  positiveNumber,
  kindOption,
  wholeNumber,
} from './command-row.ts';
import { DIFF_COMMANDS } from './diff-commands.ts';
import { recordArguments, recordOptions, secretsOption } from './record.ts';
import { RESTORE_COMMANDS } from './restore-session.ts';
import { RETENTION_COMMANDS } from './retention-commands.ts';
import { SETUP_COMMANDS } from './setup-commands.ts';
import { TOOL_COMMANDS } from './tool-commands.ts';

// The commands that tell a shell and a reader of manuals what the other commands are.

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

const COMPLETION_COMMANDS: readonly CommandRow[] = [
  {
    name: 'completion',
    description: 'Prints the script that completes commands, options, kinds and references in a shell',
    arguments: [{ name: '<shell>', key: 'shell', description: 'which shell', choices: SHELLS }],
    notes: [
      'The script asks the program itself at each TAB, and waits two seconds at most where the system has `timeout`:',
      'commands and options are always those of the version that is installed, sources and references those of the',
      'configuration that is in effect. It sends nothing, and only reads the mirror. For zsh, load compinit first.',
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
    description: 'Prints the manual page, of every command, as roff',
    examples: ['tidemark man | man -l -', 'tidemark man > /usr/local/share/man/man1/tidemark.1'],
    load: async () => (await import('./man.ts')).man,
  },
  {
    name: '__complete',
    isHidden: true,
    description: 'What may stand in the place of the last word; for the scripts of `tidemark completion`',
    arguments: [{ name: '[word...]', key: 'words', description: 'all words so far', values: 'free' }],
    options: [{ flags: '--shell <shell>', description: 'whose words they are', choices: SHELLS }],
    load: async () => (await import('./complete.ts')).complete,
  },
];

// The commands that fill and read the mirror. A command's file is named after it.

const MIRROR_COMMANDS: readonly CommandRow[] = [
  {
    name: 'sync',
    description: 'One run now: read the service, bring the mirror up to date',
    options: [
      kindOption,
      { flags: '--full', description: 'list session recordings whole, not only the newest' },
      {
        flags: '--accept-removals <n>',
        description: 'let up to n held removals happen now',
        parse: wholeNumber,
      },
      {
        flags: '--from-schedule <name>',
        description: 'the sources of this schedule of the configuration',
        values: 'schedule',
      },
    ],
    notes: ['Where a daemon holds the mirror, it does the run, and this command follows it to its end.'],
    examples: [
      'tidemark sync',
      'tidemark sync --kind batch_exports --json',
      'tidemark sync --accept-removals 12',
    ],
    outlivesOutput: () => true,
    load: async () => (await import('./sync.ts')).sync,
  },
  {
    name: 'status',
    description: 'How fresh and how whole the mirror is, per collection',
    examples: ['tidemark status', 'tidemark status --json'],
    load: async () => (await import('./status.ts')).status,
  },
  {
    name: 'runs',
    description: 'Past runs',
    options: [
      { flags: '--limit <n>', description: 'how many, newest first (default: 20)', parse: positiveNumber },
    ],
    examples: ['tidemark runs', 'tidemark runs show 3'],
    load: async () => (await import('./runs.ts')).runs,
    commands: [
      {
        name: 'show',
        description: 'One run with its sweeps',
        arguments: [{ name: '<run>', key: 'run', description: 'number of the run' }],
        examples: ['tidemark runs show 3', 'tidemark runs show 3 --json'],
        load: async () => (await import('./runs.ts')).showRun,
      },
    ],
  },
  {
    name: 'export',
    description: "Writes the mirror's records; on stderr it names what of them is stale",
    options: [
      {
        flags: '--format <format>',
        description: 'how (default: ndjson)',
        choices: ['ndjson', 'json', 'yaml', 'csv'],
      },
      {
        flags: '--output <dir>',
        description:
          'into this directory instead of stdout; what an earlier export left there and this one does not have goes',
      },
      { flags: '--at <ref>', description: 'which state (default: latest)', values: 'point' },
      ...filterOptions,
    ],
    notes: [
      'As json, or into a directory, an export says what it holds all of: `diff file:PATH` can then tell what came and went.',
      'Lines (ndjson) and YAML on stdout have no room for that: what they do not hold counts as not compared.',
    ],
    examples: [
      'tidemark export --format json > backup.json',
      "tidemark export --kind members | jq '.body.level'",
      'tidemark export --format yaml --output ./config-tree',
      'tidemark export --format csv --kind members > members.csv',
    ],
    load: async () => (await import('./export.ts')).exportRecords,
  },
  {
    name: 'verify',
    description: 'Checks that the mirror holds what it sealed: contents, histories, the chain of runs',
    examples: ['tidemark verify', 'tidemark verify --json'],
    load: async () => (await import('./verify.ts')).verify,
  },
];

// The commands that tell one record's history, and what changed in a period.

const allOption: OptionRow = {
  flags: '--all',
  description: 'with fields that change though nobody configured anything, as far as they are known',
};

const RECORD_HISTORY_COMMANDS: readonly CommandRow[] = [
  {
    name: 'show',
    description: 'One record as it is, or as it was: removed ones too',
    arguments: recordArguments,
    options: [
      { flags: '--at <ref>', description: 'which state (default: latest)', values: 'point' },
      ...recordOptions,
    ],
    examples: [
      'tidemark show batch_exports 0190c2f4-…',
      'tidemark show batch_exports "Nightly S3" --at run:12',
      'tidemark show members 0190… --at 2026-03-01T00:00Z --json',
    ],
    load: async () => (await import('./show.ts')).show,
  },
  {
    name: 'log',
    description: "A record's revisions, newest first: what changed, and between which two looks",
    arguments: recordArguments,
    options: [
      { flags: '--limit <n>', description: 'how many (default: all)', parse: positiveNumber },
      allOption,
      ...recordOptions,
    ],
    examples: ['tidemark log organizations 0190…', 'tidemark log batch_exports "Nightly S3" --limit 5'],
    load: async () => (await import('./log.ts')).log,
  },
  {
    name: 'blame',
    description: "Each of a record's fields: its value, and since when it has been so",
    arguments: recordArguments,
    options: [
      { flags: '--at <ref>', description: 'which state (default: latest)', values: 'point' },
      { flags: '--deep', description: 'the fields inside of objects one by one' },
      allOption,
      ...recordOptions,
    ],
    examples: ['tidemark blame organizations 0190…', 'tidemark blame batch_exports "Nightly S3" --deep'],
    load: async () => (await import('./blame.ts')).blame,
  },
  {
    name: 'changes',
    description: 'What changed in a period, run by run; as a page with charts too',
    options: [
      {
        flags: '--since <ref>',
        description: 'after this state or time, or an age such as 7d or 24h (default: 7d)',
        values: 'point',
      },
      { flags: '--until <ref>', description: 'up to this state or time (default: now)', values: 'point' },
      ...filterOptions,
      {
        flags: '--format <format>',
        description: 'how (default: text)',
        choices: ['text', 'json', 'html'],
      },
      { flags: '--output <file>', description: 'into this file instead of stdout' },
      { flags: '--limit <n>', description: 'records shown as text (default: 200)', parse: positiveNumber },
      secretsOption,
    ],
    examples: [
      'tidemark changes --since 24h',
      'tidemark changes --since 2026-03-01 --kind batch_exports',
      'tidemark changes --since 30d --format html --output changes.html',
    ],
    load: async () => (await import('./changes.ts')).changes,
  },
];

// The commands over copies of the mirror in another place.

const identityOption: OptionRow = {
  flags: '--identity <file>',
  description: 'age identity that opens an encrypted copy, as `age-keygen` writes it; repeatable',
  isRepeatable: true,
};

const COPIES_COMMANDS: readonly CommandRow[] = [
  {
    name: 'copies',
    description: 'Copies of the whole mirror in another place: made, verified, put back',
    examples: [
      'tidemark copies',
      'tidemark copies make',
      'tidemark copies verify latest --identity ~/keys/tidemark.txt',
      'tidemark copies restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt',
    ],
    load: async () => (await import('./copies.ts')).listCopies,
    commands: [
      {
        name: 'list',
        description: 'All of them, newest first',
        examples: ['tidemark copies list --json'],
        load: async () => (await import('./copies.ts')).listCopies,
      },
      {
        name: 'make',
        description: 'Makes one now, then does what retention and `copies.command` say',
        examples: ['tidemark copies make'],
        outlivesOutput: () => true,
        load: async () => (await import('./copies.ts')).makeCopyNow,
      },
      {
        name: 'verify',
        description:
          'Reads a copy to its end, opens it and checks every seal; without an identity, its file only',
        arguments: [
          {
            name: '[file]',
            key: 'file',
            values: 'copy',
            description: 'path, name in the directory of copies, or latest (default: latest)',
          },
        ],
        options: [identityOption],
        examples: ['tidemark copies verify', 'tidemark copies verify latest --identity ~/keys/tidemark.txt'],
        load: async () => (await import('./copies-read.ts')).verifyOneCopy,
      },
      {
        name: 'restore',
        description: 'Puts the mirror of a copy at a new path, verified first; nothing remote is touched',
        arguments: [
          {
            name: '<file>',
            key: 'file',
            description: 'path, name in the directory of copies, or latest',
            values: 'copy',
          },
        ],
        options: [
          { flags: '--to <path>', description: 'where the mirror goes; nothing may stand there' },
          identityOption,
        ],
        examples: ['tidemark copies restore latest --to ./restored/mirror.db --identity ~/keys/tidemark.txt'],
        outlivesOutput: () => true,
        load: async () => (await import('./copies-read.ts')).restoreOneCopy,
      },
    ],
  },
];

// The daemon: the command that stays.

const DAEMON_COMMANDS: readonly CommandRow[] = [
  {
    name: 'daemon',
    description:
      'Runs the schedules: syncs, looks for drift, verifies, forgets, practises; answers over HTTP',
    options: [
      {
        flags: '--once',
        description: 'do what is due now and leave: for cron, systemd timers, Kubernetes CronJobs',
      },
      { flags: '--no-http', description: 'without the HTTP endpoints' },
      {
        flags: '--check',
        description:
          'ask the daemon that is at work on this mirror how it is, and leave: 0 well or in its first sync, 1 failing or none',
      },
    ],
    notes: [
      'SIGTERM and Ctrl-C end it within daemon.shutdownGraceMs, a second one at once; SIGHUP reads the configuration anew.',
      'Logs are JSON lines on stderr, and plain lines on a terminal.',
    ],
    examples: [
      'tidemark daemon',
      'tidemark daemon --once',
      'tidemark daemon --config /etc/tidemark.yaml --no-http',
    ],
    outlivesOutput: () => true,
    load: async () => {
      // Before the rest is loaded, which would be compiled in the other way.
      (await import('./daemon-memory.ts')).boundDaemonHeap();
      return (await import('./daemon.ts')).daemon;
    },
  },
  {
    name: 'daemon-job',
    isHidden: true,
    description: 'Does one job for the daemon that starts it',
    outlivesOutput: () => true,
    load: async () => (await import('./daemon-job.ts')).daemonJob,
  },
];

// The commands about notices.

const NOTIFY_COMMANDS: readonly CommandRow[] = [
  {
    name: 'notify',
    description: 'The channels that tell people what changed',
    examples: ['tidemark notify test', 'tidemark notify test ops'],
    commands: [
      {
        name: 'test',
        description: 'Sends a test notice through every configured channel, or those named, right now',
        arguments: [
          {
            name: '[channel...]',
            key: 'channels',
            description: 'names under `notices`',
            values: 'channel',
          },
        ],
        examples: ['tidemark notify test', 'tidemark notify test ops --json'],
        // What was sent cannot be taken back: the rest goes out too.
        outlivesOutput: () => true,
        load: async () => (await import('./notify.ts')).notifyTest,
      },
    ],
  },
];

// The commands that read history: what was there, what changed, when. A command's file is named after it.

const HISTORY_COMMANDS: readonly CommandRow[] = [
  ...DIFF_COMMANDS,
  ...RECORD_HISTORY_COMMANDS,
  ...RETENTION_COMMANDS,
];

export const COMMANDS: readonly CommandRow[] = [
  ...SETUP_COMMANDS,
  ...MIRROR_COMMANDS,
  ...HISTORY_COMMANDS,
  ...RESTORE_COMMANDS,
  ...DAEMON_COMMANDS,
  ...COPIES_COMMANDS,
  ...NOTIFY_COMMANDS,
  ...TOOL_COMMANDS,
  ...COMPLETION_COMMANDS,
];
