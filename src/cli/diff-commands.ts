/** The commands that compare states. */
import { SEVERITIES } from '../catalog/definition.ts';
import {
  asOption,
  type CommandRow,
  type OptionRow,
  filterOptions,
  kindName,
  reportOptions,
  wholeNumber,
} from './command-row.ts';
import { placeOptions, secretsOption } from './record-options.ts';

const fieldOption: OptionRow = {
  flags: '--field <pointer>',
  description: 'only this field, as a JSON pointer like /destination/type; repeatable',
  isRepeatable: true,
};

const modeOptions: readonly OptionRow[] = [
  { flags: '--managed-only', description: 'only fields that a restore can change' },
  {
    flags: '--all',
    description:
      'include fields that change on their own, where both states have values of them: latest and live',
  },
];

const FORMATS = ['text', 'json', 'markdown', 'html', 'junit', 'sarif'];

export const DIFF_COMMANDS: readonly CommandRow[] = [
  {
    name: 'diff',
    group: 'Look',
    description: 'Compare two states, field by field',
    arguments: [
      {
        name: '[from]',
        key: 'from',
        description:
          'live, latest, baseline, run:N, run:-1, snapshot:NAME, an age, a time or file:PATH (default: latest)',
      },
      { name: '[to]', key: 'to', description: 'another state (default: live, or latest with --to-source)' },
    ],
    options: [
      {
        flags: '--to-source <name>',
        description: 'compare the one --source with this other one',
        values: 'source',
      },
      ...filterOptions,
      fieldOption,
      ...modeOptions,
      ...reportOptions([...FORMATS, 'patch']),
      secretsOption,
    ],
    notes: [
      '--to-source matches records by their names (members by address) and those of their parents, as ids differ: a record with',
      'another name is added and removed, and so is everything below it.',
      'With several sources and no --source, each source is compared; --json then prints tidemark.reports/1',
      '{documents, errors}: a tidemark.diff/1 per source, and an error for each source that could not be compared.',
    ],
    examples: [
      'tidemark diff                                    # what changed since the last sync',
      'tidemark diff run:12 latest --kind batch_exports',
      'tidemark diff 2026-03-01T00:00Z latest --format markdown',
      'tidemark diff file:backup.json live --managed-only',
      'tidemark diff --source staging --to-source production',
    ],
    mirrors: { isReport: true, formats: ['text', 'json', 'markdown'] },
    outlivesOutput: () => true,
    load: async () => (await import('./diff.ts')).diff,
  },
  {
    name: 'drift',
    group: 'Look',
    description: 'Show drift from the baseline, except accepted drift',
    options: [
      { flags: '--from <ref>', description: 'the desired state (default: baseline)' },
      { flags: '--live', description: 'compare with the service now, instead of the latest run' },
      {
        flags: '--severity <level>',
        description: 'only drift of at least this severity',
        choices: SEVERITIES,
      },
      ...filterOptions,
      fieldOption,
      ...modeOptions,
      ...reportOptions(FORMATS),
      secretsOption,
    ],
    examples: [
      'tidemark drift',
      'tidemark drift --live --severity high',
      'tidemark drift --format html --output drift.html',
      'tidemark drift accept organizations 0190… --field /enforce_2fa --reason "until the new IdP is in" --until 2026-06-30',
    ],
    mirrors: { isReport: true, formats: ['text', 'json', 'markdown'] },
    outlivesOutput: () => true,
    load: async () => (await import('./drift.ts')).drift,
    commands: [
      {
        name: 'accept',
        description: 'Accept the value that drifted, until --until; another value is reported again',
        arguments: [
          { name: '<kind>', key: 'kind', description: 'kind of the record', parse: kindName },
          {
            name: '[id]',
            key: 'id',
            description:
              'remote id, as the report shows it, or name; left out: all of the kind, with --count',
          },
        ],
        options: [
          { ...fieldOption, description: 'only this field; repeatable (default: every field that drifted)' },
          { flags: '--reason <text>', description: 'reason, shown in reports' },
          {
            flags: '--count <n>',
            description: 'without an id: accept all open findings of the kind, if they are exactly n',
            parse: wholeNumber,
          },
          {
            flags: '--until <date>',
            description: 'last day on which the acceptance holds (UTC), or the time at which it expires',
          },
          { flags: '--from <ref>', description: 'the desired state (default: baseline)' },
          { flags: '--live', description: 'accept the drift of the service now, instead of the latest run' },
          ...placeOptions,
          asOption,
        ],
        examples: [
          'tidemark drift accept batch_exports 0190… --field /paused --reason "paused for the audit"',
          'tidemark drift accept roles --count 8 --reason "teams were merged"',
        ],
        locate: async () => (await import('./drift-accept.ts')).locateAccepted,
        outlivesOutput: () => true,
        load: async () => (await import('./drift-accept.ts')).acceptDrift,
      },
      {
        name: 'accepted',
        description: 'List accepted drift, with reasons and expiry dates',
        examples: ['tidemark drift accepted', 'tidemark drift accepted --json'],
        mirrors: { lists: ['accepted'] },
        load: async () => (await import('./drift-accepted.ts')).acceptedDrift,
      },
      {
        name: 'unaccept',
        description: 'Withdraw an acceptance; the drift is reported again',
        arguments: [
          { name: '<kind>', key: 'kind', description: 'kind of the record', parse: kindName },
          { name: '<id>', key: 'id', description: 'its remote id' },
        ],
        options: [
          { ...fieldOption, description: 'only this field; repeatable (default: all of the record)' },
          { flags: '--reason <text>', description: 'reason, recorded in the audit log' },
          ...placeOptions,
          asOption,
        ],
        examples: ['tidemark drift unaccept batch_exports 0190… --field /paused --reason "audit is over"'],
        locate: async () => (await import('./drift-accepted.ts')).locateAcceptance,
        outlivesOutput: () => true,
        load: async () => (await import('./drift-accepted.ts')).unacceptDrift,
      },
    ],
  },
];
