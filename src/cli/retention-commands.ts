/** The commands over the mirror's history as a whole: what is pinned, and what retention lets go. */
import { parseDuration } from '../config/duration.ts';
import { wholeNumber, type ArgumentRow, type CommandRow, type OptionRow } from './command-row.ts';

const nameArgument: ArgumentRow = {
  name: '<name>',
  key: 'name',
  description: 'what follows snapshot: in a reference',
  values: 'snapshot',
};

function keep(period: string, what: string): OptionRow {
  return { flags: `--keep-${period} <n>`, description: `keep ${what}`, parse: wholeNumber };
}

/** Parses a span of time like `30d` or `12h` into milliseconds. */
function spanOfTime(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new Error('expected a duration such as 12h or 30d');
  return ms;
}

export const RETENTION_COMMANDS: readonly CommandRow[] = [
  {
    name: 'snapshots',
    description: 'States pinned under a name: retention keeps them, and drift is measured from one',
    examples: [
      'tidemark snapshots',
      'tidemark snapshots pin before-migration',
      'tidemark snapshots pin march 2026-03-01T00:00Z',
      'tidemark snapshots baseline before-migration',
    ],
    load: async () => (await import('./snapshots.ts')).snapshots,
    commands: [
      {
        name: 'list',
        description: 'All of them',
        examples: ['tidemark snapshots list --json'],
        load: async () => (await import('./snapshots.ts')).snapshots,
      },
      {
        name: 'pin',
        description: 'Pins a state',
        arguments: [
          { ...nameArgument, values: 'free' },
          { name: '[ref]', key: 'reference', description: 'which state (default: latest)', values: 'point' },
        ],
        examples: [
          'tidemark snapshots pin before-migration',
          'tidemark snapshots pin march 2026-03-01T00:00Z',
        ],
        load: async () => (await import('./snapshots.ts')).pinSnapshot,
      },
      {
        name: 'unpin',
        description: 'Lets retention have it',
        arguments: [nameArgument],
        options: [{ flags: '--force', description: 'also where it is the baseline: then there is none' }],
        examples: ['tidemark snapshots unpin before-migration'],
        load: async () => (await import('./snapshots.ts')).unpinSnapshot,
      },
      {
        name: 'baseline',
        description: 'Measures drift from this snapshot; without a name, says which it is',
        arguments: [{ name: '[name]', key: 'name', description: 'a pinned snapshot', values: 'snapshot' }],
        examples: ['tidemark snapshots baseline before-migration', 'tidemark snapshots baseline'],
        load: async () => (await import('./snapshots.ts')).baseline,
      },
    ],
  },
  {
    name: 'forget',
    description:
      'Drops local history by retention; pinned snapshots, each latest run and each latest complete run stay',
    options: [
      keep('last', 'the n newest runs of each source'),
      keep('hourly', 'the newest run of each of the n newest hours that have one (UTC)'),
      keep('daily', 'likewise of days'),
      keep('weekly', 'likewise of weeks, from Monday on'),
      keep('monthly', 'likewise of months'),
      keep('yearly', 'likewise of years'),
      {
        flags: '--keep-within <duration>',
        description: "keep every run at most so much older than its source's newest, such as 12h or 30d",
        parse: spanOfTime,
      },
      { flags: '--dry-run', description: 'say what would go, change nothing' },
    ],
    examples: [
      'tidemark forget --keep-last 7 --keep-daily 30 --keep-monthly 12 --dry-run',
      'tidemark forget --keep-within 90d --keep-yearly 10',
    ],
    outlivesOutput: () => true,
    load: async () => (await import('./forget.ts')).forget,
  },
];
