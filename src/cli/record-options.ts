/** What every command about one record takes: rows only, so that `--help` loads nothing else. */
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
    description: 'its remote id, also as reports mask it, or its whole name where no record has that id',
  },
];

export const secretsOption: OptionRow = {
  flags: '--show-secrets',
  description: 'print secret values in clear',
};

/** What tells records of the same id apart, and what of them is shown. */
export const recordOptions: readonly OptionRow[] = [
  { flags: '--organization <id>', description: 'the one below this organization', isRepeatable: true },
  { flags: '--project <id>', description: 'the one below this project', isRepeatable: true },
  secretsOption,
];
