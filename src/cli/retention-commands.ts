/** The rows of the commands about the mirror's history as a whole: snapshots, retention, and moving the mirror. */
import { parseDuration } from '../config/schema.ts';
import { asOption, wholeNumber, type ArgumentRow, type CommandRow, type OptionRow } from './command-row.ts';

const nameArgument: ArgumentRow = {
  name: '<name>',
  key: 'name',
  description: 'name of the snapshot',
  values: 'snapshot',
};

function keep(period: string, what: string): OptionRow {
  return { flags: `--keep-${period} <n>`, description: `keep ${what}`, parse: wholeNumber };
}

/** Parses a duration like `30d` or `12h` into milliseconds. */
function spanOfTime(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new Error('expected a duration such as 12h or 30d');
  return ms;
}

export const RETENTION_COMMANDS: readonly CommandRow[] = [
  {
    name: 'snapshots',
    group: 'Maintain',
    description: 'List, pin and unpin snapshots, and choose the baseline',
    examples: [
      'tidemark snapshots',
      'tidemark snapshots pin before-migration',
      'tidemark snapshots pin march 2026-03-01T00:00Z',
      'tidemark snapshots baseline before-migration',
    ],
    mirrors: { lists: ['snapshots', 'warnings'] },
    load: async () => (await import('./snapshots.ts')).snapshots,
    commands: [
      {
        name: 'list',
        // `tidemark snapshots` does the same.
        isHidden: true,
        description: 'List snapshots',
        examples: ['tidemark snapshots list --json'],
        mirrors: { lists: ['snapshots', 'warnings'] },
        load: async () => (await import('./snapshots.ts')).snapshots,
      },
      {
        name: 'pin',
        description: 'Pin a state under a name',
        arguments: [
          { ...nameArgument, values: 'free' },
          {
            name: '[ref]',
            key: 'reference',
            description: 'state to read (default: latest)',
            values: 'point',
          },
        ],
        options: [
          {
            flags: '--baseline',
            description:
              'also measure drift from it, in every mirror; a snapshot of that name is taken as it is',
          },
          asOption,
        ],
        examples: [
          'tidemark snapshots pin before-migration',
          'tidemark snapshots pin good --baseline',
          'tidemark snapshots pin march 2026-03-01T00:00Z',
        ],
        mirrors: { lists: ['snapshots', 'warnings'] },
        outlivesOutput: () => true,
        load: async () => (await import('./snapshots.ts')).pinSnapshot,
      },
      {
        name: 'unpin',
        description: 'Unpin a snapshot',
        arguments: [nameArgument],
        options: [
          { flags: '--force', description: 'unpin it even if it is the baseline, which then is unset' },
          asOption,
        ],
        examples: ['tidemark snapshots unpin before-migration'],
        mirrors: { lists: ['snapshots', 'warnings'] },
        outlivesOutput: () => true,
        load: async () => (await import('./snapshots.ts')).unpinSnapshot,
      },
      {
        name: 'baseline',
        description: 'Set the baseline for drift; without a name, print it',
        arguments: [{ name: '[name]', key: 'name', description: 'a pinned snapshot', values: 'snapshot' }],
        options: [asOption],
        examples: ['tidemark snapshots baseline before-migration', 'tidemark snapshots baseline'],
        mirrors: { lists: ['snapshots', 'warnings'] },
        outlivesOutput: () => true,
        load: async () => (await import('./snapshots.ts')).baseline,
      },
    ],
  },
  {
    name: 'forget',
    group: 'Maintain',
    description: 'Delete old runs from the mirror by retention rules',
    options: [
      keep('last', 'the n newest runs of each source'),
      keep('hourly', 'the newest run of each of the n newest hours that have one (UTC)'),
      keep('daily', 'the newest run of each of the n newest days that have one'),
      keep('weekly', 'the newest run of each of the n newest weeks (from Monday) that have one'),
      keep('monthly', 'the newest run of each of the n newest months that have one'),
      keep('yearly', 'the newest run of each of the n newest years that have one'),
      {
        flags: '--keep-within <duration>',
        description: "keep all runs up to this age before the source's newest, such as 12h or 30d",
        parse: spanOfTime,
      },
      { flags: '--dry-run', description: 'print what would be deleted, change nothing' },
      asOption,
    ],
    notes: [
      'Without a --keep option, the rules are those of `retention` in the configuration.',
      'Pinned snapshots stay, and of each source the latest run and the latest complete run. Nothing remote is touched.',
      'The file is rebuilt without what was dropped. docs/security.md describes how to erase a person.',
    ],
    examples: [
      'tidemark forget --keep-last 7 --keep-daily 30 --keep-monthly 12 --dry-run',
      'tidemark forget --keep-within 90d --keep-yearly 10',
      'tidemark forget --dry-run                        # by retention of the configuration',
    ],
    outlivesOutput: () => true,
    mirrors: {},
    load: async () => (await import('./forget.ts')).forget,
  },
  {
    name: 'mirror',
    group: 'Maintain',
    description: 'Move between one mirror for all sources and one for each',
    examples: [
      "tidemark mirror move --to './data/{source}.db'",
      'tidemark mirror move --to ./data/mirror.db',
    ],
    commands: [
      {
        name: 'move',
        description:
          'Move to one mirror per source, or back to a shared one, and verify before the old file goes',
        options: [
          {
            flags: '--to <path>',
            description: 'new path; with {source}, one file per source',
            values: 'free',
          },
          { flags: '--from <path>', description: 'old path (default: the configured one)', values: 'free' },
          { flags: '--remove', description: 'remove the old files instead of renaming them to .moved' },
          asOption,
        ],
        notes: [
          'Stop the daemon first. The configuration is not changed: set the printed line. A command that was interrupted is run',
          'again. Note the root hashes that `tidemark verify` prints afterwards; old ones are found as replaced by the move.',
        ],
        examples: [
          "tidemark mirror move --to './data/{source}.db'",
          "tidemark mirror move --from './data/{source}.db' --to ./data/mirror.db",
        ],
        outlivesOutput: () => true,
        load: async () => (await import('./mirror-move.ts')).moveMirror,
      },
    ],
  },
];
