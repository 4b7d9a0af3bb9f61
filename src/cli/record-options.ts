/** Arguments and options of commands about one record: only rows, so that `--help` loads nothing else. */
import { kindName, type ArgumentRow, type OptionRow } from './command-row.ts';

/** The arguments of a command about one record. */
export const recordArguments: readonly ArgumentRow[] = [
  {
    name: '<kind>',
    key: 'kind',
    description: 'kind of the record, for example batch_exports',
    parse: kindName,
  },
  {
    name: '<id>',
    key: 'id',
    description:
      'remote id (also masked as in reports), or a name, also a former one, or a part of it that only one has',
  },
];

export const secretsOption: OptionRow = {
  flags: '--show-secrets',
  description: 'print secret values in clear text',
};

/** Options that distinguish records of the same id. */
export const placeOptions: readonly OptionRow[] = [
  {
    flags: '--organization <id>',
    description: 'disambiguate by organization id or name',
    isRepeatable: true,
  },
  { flags: '--project <id>', description: 'disambiguate by project id or name', isRepeatable: true },
];

/** The options of a command that shows one record. */
export const recordOptions: readonly OptionRow[] = [...placeOptions, secretsOption];
