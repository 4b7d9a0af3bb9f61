/** The commands that fill and read the mirror. A command's file is named after it. */
import { filterOptions, kindOption, positiveNumber, wholeNumber, type CommandRow } from './command-row.ts';

export const MIRROR_COMMANDS: readonly CommandRow[] = [
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
