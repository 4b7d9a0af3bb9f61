/** The commands about the history of a record, the changes of a period, and what people did. */
import { AUDIT_ACTIONS } from '../mirror/audit-actions.ts';
import {
  type CommandRow,
  type OptionRow,
  filterOptions,
  positiveNumber,
  reportOptions,
} from './command-row.ts';
import { recordArguments, recordOptions, secretsOption } from './record-options.ts';

const allOption: OptionRow = {
  flags: '--all',
  description: 'include what changes on its own inside other fields, such as copies of users',
};

const atOption: OptionRow = {
  flags: '--at <ref>',
  description: 'state to read (default: latest)',
  values: 'point',
};

/** @param first what `--since` is if it is left out */
function periodOptions(first: string): readonly OptionRow[] {
  return [
    {
      flags: '--since <ref>',
      description: `after this state, time or age (default: ${first})`,
      values: 'point',
    },
    { flags: '--until <ref>', description: 'up to this state or time (default: now)', values: 'point' },
  ];
}

const FORMATS = ['text', 'json', 'csv', 'html', 'markdown'];

export const RECORD_HISTORY_COMMANDS: readonly CommandRow[] = [
  {
    name: 'show',
    group: 'Look',
    description: 'Show one record, as it is or as it was',
    arguments: recordArguments,
    options: [atOption, ...recordOptions],
    examples: [
      'tidemark show batch_exports 0190c2f4-…',
      'tidemark show batch_exports "Nightly S3" --at run:12',
      'tidemark show members 0190… --at 2026-03-01T00:00Z --json',
    ],
    mirrors: { isSearch: true },
    load: async () => (await import('./show.ts')).show,
  },
  {
    name: 'log',
    group: 'Look',
    description: "Show a record's revisions, newest first",
    arguments: recordArguments,
    options: [
      { flags: '--limit <n>', description: 'how many (default: all)', parse: positiveNumber },
      allOption,
      ...recordOptions,
    ],
    examples: ['tidemark log organizations 0190…', 'tidemark log batch_exports "Nightly S3" --limit 5'],
    mirrors: { isSearch: true },
    load: async () => (await import('./log.ts')).log,
  },
  {
    name: 'blame',
    group: 'Look',
    description: 'Show which run last changed each field of a record',
    arguments: recordArguments,
    options: [
      atOption,
      { flags: '--deep', description: 'list the fields inside objects one by one' },
      allOption,
      ...recordOptions,
    ],
    examples: ['tidemark blame organizations 0190…', 'tidemark blame batch_exports "Nightly S3" --deep'],
    mirrors: { isSearch: true },
    load: async () => (await import('./blame.ts')).blame,
  },
  {
    name: 'changes',
    group: 'Look',
    description: 'Show what changed in a period, run by run',
    notes: [
      'With --format html, a page with charts.',
      'With --format csv, a line for each changed field, and for each record that was added or removed.',
      '--id also shows what happened to the record under its other ids, if a restore created it again.',
      'Exit code 1 if another program altered a run, or a restore that is named: everything is still shown.',
    ],
    options: [
      ...periodOptions('7d'),
      ...filterOptions,
      ...reportOptions(FORMATS),
      { flags: '--limit <n>', description: 'records shown as text (default: 200)', parse: positiveNumber },
      secretsOption,
    ],
    examples: [
      'tidemark changes --since 24h',
      'tidemark changes --since 2026-03-01 --kind batch_exports',
      'tidemark changes --since 30d --format html --output changes.html',
      'tidemark changes --since 30d --format csv --output changes.csv',
    ],
    mirrors: {
      lists: ['runs', 'restores', 'not_read', 'skipped', 'stale', 'forgotten', 'warnings'],
      sums: ['summary'],
      firsts: ['since', 'until'],
      formats: ['text', 'json', 'markdown'],
    },
    outlivesOutput: () => true,
    load: async () => (await import('./changes.ts')).changes,
  },
  {
    name: 'audit',
    group: 'Look',
    description: 'Show who accepted, pinned, restored or forgot what',
    options: [
      ...periodOptions('the first entry'),
      {
        flags: '--action <action>',
        description: 'only this action; repeatable',
        choices: AUDIT_ACTIONS,
        isRepeatable: true,
      },
      {
        flags: '--by <name>',
        description:
          'only what was done under this name, from this origin (USER@HOST), or as "NAME (ORIGIN)"; repeatable',
        values: 'free',
        isRepeatable: true,
      },
      ...reportOptions(FORMATS),
    ],
    notes: [
      'Newest first. In brackets after a name that was given with --as or in the dashboard: how Tidemark knew who it was.',
      '--by: a name with @ needs its origin, as shown: "a@b.example (proxy@dashboard)", or "a@b.example (*)" for any.',
      'Exit code 1 if an entry or a run was altered or is gone, whatever is asked for; `tidemark verify` says what else was.',
    ],
    examples: [
      'tidemark audit',
      'tidemark audit --since 2026-01-01 --action accept --action unaccept',
      'tidemark audit --since 90d --format csv --output audit.csv',
    ],
    mirrors: {
      lists: ['entries', 'heads', 'warnings'],
      firsts: ['since', 'until'],
      formats: ['text', 'json', 'markdown'],
    },
    outlivesOutput: () => true,
    load: async () => (await import('./audit.ts')).audit,
  },
];
