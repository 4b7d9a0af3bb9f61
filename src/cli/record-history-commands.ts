/** The commands that tell one record's history, and what changed in a period. */
import { type CommandRow, type OptionRow, filterOptions, positiveNumber } from './command-row.ts';
import { recordArguments, recordOptions, secretsOption } from './record-options.ts';

const allOption: OptionRow = {
  flags: '--all',
  description: 'with fields that change though nobody configured anything, as far as they are known',
};

export const RECORD_HISTORY_COMMANDS: readonly CommandRow[] = [
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
