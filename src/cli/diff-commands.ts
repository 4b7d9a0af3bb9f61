/** The commands that compare states. A command's file is named after it. */
import { SEVERITIES } from '../catalog/severities.ts';
import { type CommandRow, type OptionRow, filterOptions, kindName, wholeFileOption } from './command-row.ts';
import { secretsOption } from './record.ts';

const fieldOption: OptionRow = {
  flags: '--field <pointer>',
  description: 'only this field, as a JSON pointer like /destination/type; repeatable',
  isRepeatable: true,
};

const modeOptions: readonly OptionRow[] = [
  { flags: '--managed-only', description: 'only fields that a restore could change' },
  { flags: '--all', description: 'also fields that change though nobody configured anything' },
];

/** How a comparison is written. */
const reportOptions: readonly OptionRow[] = [
  {
    flags: '--format <format>',
    description: 'how (default: text)',
    choices: ['text', 'json', 'markdown', 'html', 'junit', 'sarif', 'patch'],
  },
  { flags: '--output <file>', description: 'into this file instead of stdout' },
  secretsOption,
];

const placeOptions: readonly OptionRow[] = [
  { flags: '--organization <id>', description: 'the one below this organization', isRepeatable: true },
  { flags: '--project <id>', description: 'the one below this project', isRepeatable: true },
];

export const DIFF_COMMANDS: readonly CommandRow[] = [
  {
    name: 'diff',
    description: 'What differs between two states, field by field',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        description: 'live, latest, baseline, run:N, snapshot:NAME, a time or file:PATH (default: latest)',
      },
      { name: '[to]', key: 'to', description: 'likewise (default: live, or latest with --to-source)' },
    ],
    options: [
      {
        flags: '--to-source <name>',
        description: 'compare the one --source with this other one',
        values: 'source',
      },
      wholeFileOption,
      ...filterOptions,
      fieldOption,
      ...modeOptions,
      ...reportOptions,
    ],
    notes: [
      'With several sources and none named, each is compared; --json then prints tidemark.reports/1',
      '{documents, errors}: a tidemark.diff/1 for each source, and why others could not be compared.',
    ],
    examples: [
      'tidemark diff                                    # what changed since the last sync',
      'tidemark diff run:12 latest --kind batch_exports',
      'tidemark diff 2026-03-01T00:00Z latest --format markdown',
      'tidemark diff file:backup.json live --managed-only',
      'tidemark diff --source staging --to-source production',
    ],
    load: async () => (await import('./diff.ts')).diff,
  },
  {
    name: 'drift',
    description: 'What drifted from the baseline, less what was accepted or is ignored',
    options: [
      { flags: '--from <ref>', description: 'the state that is wanted (default: baseline)' },
      { flags: '--live', description: 'against the service now, instead of the latest run' },
      {
        flags: '--severity <level>',
        description: 'only what matters at least this much',
        choices: SEVERITIES,
      },
      wholeFileOption,
      ...filterOptions,
      fieldOption,
      ...modeOptions,
      ...reportOptions,
    ],
    examples: [
      'tidemark drift',
      'tidemark drift --live --severity high',
      'tidemark drift --format html --output drift.html',
      'tidemark drift accept organizations 0190… --field /enforce_2fa --reason "until the new IdP is in" --until 2026-06-30',
    ],
    load: async () => (await import('./drift.ts')).drift,
    commands: [
      {
        name: 'accept',
        description: 'Accepts drift as it is now; another value, or the date passing, opens it again',
        arguments: [
          { name: '<kind>', key: 'kind', description: 'kind of the record', parse: kindName },
          { name: '<id>', key: 'id', description: 'its remote id, as the report shows it' },
        ],
        options: [
          { ...fieldOption, description: 'only this field; repeatable (default: all that drifted)' },
          { flags: '--reason <text>', description: 'why: whoever reads the report sees it' },
          { flags: '--until <date>', description: 'from then on it is drift again' },
          { flags: '--from <ref>', description: 'the state that is wanted (default: baseline)' },
          { flags: '--live', description: 'accept what the service has now' },
          ...placeOptions,
        ],
        examples: [
          'tidemark drift accept batch_exports 0190… --field /paused --reason "paused for the audit"',
        ],
        load: async () => (await import('./drift-accept.ts')).acceptDrift,
      },
      {
        name: 'accepted',
        description: 'Lists what was accepted, why, and until when',
        examples: ['tidemark drift accepted', 'tidemark drift accepted --json'],
        load: async () => (await import('./drift-accepted.ts')).acceptedDrift,
      },
      {
        name: 'unaccept',
        description: 'Withdraws an acceptance: the drift is open again',
        arguments: [
          { name: '<kind>', key: 'kind', description: 'kind of the record', parse: kindName },
          { name: '<id>', key: 'id', description: 'its remote id' },
        ],
        options: [
          { ...fieldOption, description: 'only this field; repeatable (default: all of the record)' },
          ...placeOptions,
        ],
        examples: ['tidemark drift unaccept batch_exports 0190… --field /paused'],
        load: async () => (await import('./drift-accepted.ts')).unacceptDrift,
      },
    ],
  },
];
