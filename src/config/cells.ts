/** Reads the cells of a fleet from a YAML or CSV file, for `tidemark fleet apply`. */
import { basename, extname } from 'node:path';
import { CsvError, parse as parseCsv } from 'csv-parse/sync';
import * as z from 'zod';
import { TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { readTextFile } from './checking.ts';
import { readDocument } from './document.ts';
import { Mistakes } from './mistakes.ts';
import { DRIFT, RETENTION, SCHEDULES } from './options.ts';
import { parseTree } from './parse.ts';
import { profileNames } from './profile.ts';
import * as t from './schema.ts';
import { inner } from './schema.ts';
import { SOURCE } from './source-options.ts';
import { emptyTree, isMapping, mapping, pathKey, type Tree, valueAt } from './tree.ts';

/** One cell of the file, with the file's defaults filled in, and without its key. */
export interface CellDeclaration {
  readonly name: string;
  /** Base URL of the service. */
  readonly address: string;
  readonly profile: string;
  /** Null for all. */
  readonly organizations: readonly string[] | null;
  /** `env:NAME` or `file:/path`: where a worker finds the key. */
  readonly secret: string;
  readonly owner: string | null;
  /** Cron expression of its syncs, in UTC. */
  readonly schedule: string;
  /** True if findings in the registry may contain values. */
  readonly showsValues: boolean;
  /** Sections of a configuration, as written in the file. */
  readonly document: {
    readonly [Name in (typeof SECTIONS)[number]]?: Readonly<Record<string, unknown>>;
  };
}

const SECTIONS = ['source', 'schedules', 'retention', 'drift'] as const;

/** Options that `source` must not have: a cell has its own keys for them, or they contain secrets or name files of one machine. */
const NOT_OF_SOURCE = [
  'name',
  'baseUrl',
  'apiKey',
  'apiKeyFile',
  'profile',
  'organizations',
  'secrets',
  'git',
];

const REFERENCE = /^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/\S+)$/;

const COLUMNS = [
  'name',
  'address',
  'profile',
  'organizations',
  'schedule',
  'owner',
  'secret',
  'values',
] as const;

function without(schema: z.ZodType, names: readonly string[]): z.ZodType {
  const { shape } = inner(schema) as z.ZodObject<Record<string, z.ZodType>>;
  const kept = Object.entries(shape).filter(([name]) => !names.includes(name));
  return z.strictObject(Object.fromEntries(kept)).optional();
}

const CELL_OPTIONS = {
  address: t.baseUrl.optional(),
  profile: t.text
    .refine((name) => profileNames().includes(name))
    .optional()
    .meta({ expected: `a profile that comes with Tidemark: ${profileNames().join(', ')}` }),
  organizations: t.idsOrAll.optional(),
  schedule: t.cronOrOff.refine((cron) => cron !== 'off').optional(),
  owner: t.text.optional(),
  secret: z.string().regex(REFERENCE).optional().meta({
    isSecret: true,
    expected: 'a reference to the key, env:NAME or file:/PATH, never the key itself',
  }),
  values: z.boolean().optional(),
  source: without(SOURCE, NOT_OF_SOURCE),
  schedules: without(SCHEDULES, ['sync']),
  retention: without(RETENTION, []),
  drift: without(DRIFT, []),
};

const FILE = z.strictObject({
  defaults: z.strictObject(CELL_OPTIONS).optional(),
  cells: z.array(z.strictObject({ name: t.name.optional(), ...CELL_OPTIONS })).prefault([]),
});

const DEFAULT_SCHEDULE = '*/30 * * * *';

/**
 * The cells of a file, in its order.
 * @param path absolute; a file whose name ends with .csv is CSV with a line of column names, any other is YAML
 * @throws TidemarkError `config_missing`, or `config_invalid` with every mistake on a line of its own
 */
export function readCells(path: string): readonly CellDeclaration[] {
  const label = basename(path);
  const read = readTextFile(path);
  if ('mistake' in read) {
    throw new TidemarkError(read.isMissing ? 'config_missing' : 'config_invalid', `${path} ${read.mistake}`, {
      hint: 'name a YAML or CSV file of cells; docs/fleet.md shows one',
    });
  }
  const mistakes = new Mistakes();
  const isCsv = extname(path).toLowerCase() === '.csv';
  const refuse = (): void =>
    mistakes.throwIfAny({ what: label, hint: 'docs/fleet.md describes the file; nothing was changed' });
  const tree = isCsv
    ? csvTree(read.text, label, mistakes)
    : readDocument(read.text, label, null, mistakes).tree;
  if (mistakes.hasTextMistake) refuse();
  const { defaults = {}, cells: given } = parseTree(FILE, tree, mistakes);
  checkNames(tree, mistakes, given);
  // Missing options may be below an unknown key, such as a misspelt `defaults`, which is reported already.
  const isMisspelt = isMapping(tree.root) && Object.keys(tree.root).some((key) => !(key in FILE.shape));
  const cells = given.map((cell, index): CellDeclaration => {
    const own = { ...defaults, ...defined(cell) };
    for (const key of ['name', 'address', 'secret'] as const) {
      const at = ['cells', index, key];
      const isDefaultWrong = key !== 'name' && (isMisspelt || mistakes.covers(tree, ['defaults', key]));
      const isWrong = mistakes.covers(tree, at) || isDefaultWrong;
      if ((key === 'name' ? cell.name : own[key]) === undefined && !isWrong)
        mistakes.add(tree, at, `missing; expected ${MISSING[key]}`);
    }
    return {
      name: cell.name ?? '',
      address: own.address?.href.replace(/\/+$/, '') ?? '',
      profile: own.profile ?? 'svc',
      organizations:
        own.organizations === undefined || own.organizations === 'all' ? null : own.organizations,
      secret: own.secret ?? '',
      owner: own.owner ?? null,
      schedule: own.schedule ?? DEFAULT_SCHEDULE,
      showsValues: own.values ?? false,
      document: sectionsOf(tree, index),
    };
  });
  if (cells.length === 0 && mistakes.count === 0)
    mistakes.add(tree, [], 'expected cells: a list of at least one cell', 1);
  refuse();
  return cells;
}

const MISSING = {
  name: 'the name of the cell',
  address: 'the URL of the service',
  secret: 'a reference to the key, env:NAME or file:/PATH',
} as const;

function checkNames(
  tree: Tree,
  mistakes: Mistakes,
  cells: readonly { readonly name?: string | undefined }[],
): void {
  const first = new Map<string, number>();
  for (const [index, { name }] of cells.entries()) {
    if (name === undefined) continue;
    const other = first.get(name);
    if (other === undefined) first.set(name, index);
    else {
      const line = tree.lines.get(pathKey(['cells', other])) ?? other + 1;
      mistakes.add(tree, ['cells', index, 'name'], `${name} is a cell already, on line ${line}`);
    }
  }
}

/** The sections as written in the file, without the program's own defaults, which may change. */
function sectionsOf(tree: Tree, index: number): CellDeclaration['document'] {
  const sections = SECTIONS.flatMap((name): (readonly [string, object])[] => {
    const [common, own] = [['defaults'], ['cells', index]].map((at) => valueAt(tree.root, [...at, name]));
    const given = { ...(isMapping(common) ? common : {}), ...(isMapping(own) ? own : {}) };
    return Object.keys(given).length === 0 ? [] : [[name, structuredClone(given)]];
  });
  return Object.fromEntries(sections);
}

function defined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T;
}

// CSV has a line of column names, and a line for each cell. Organizations are separated by spaces or semicolons.

const MESSAGES: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote that is not closed',
  CSV_INVALID_CLOSING_QUOTE: 'expected a comma after the closing quote',
  INVALID_OPENING_QUOTE:
    'a quote in the middle of a value: quote the value from its start to its end, and write " in it as ""',
};

interface CsvRow {
  readonly record: readonly string[];
  /** `lines`: number of its last line. */
  readonly info: { readonly lines: number };
}

function csvTree(text: string, label: string, mistakes: Mistakes): Tree {
  const tree = emptyTree(label);
  let rows: readonly CsvRow[];
  try {
    const options = {
      info: true,
      bom: true,
      trim: true,
      skip_empty_lines: true,
      relax_column_count: true,
    } as const;
    rows = parseCsv(text, options) as unknown as CsvRow[];
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const { lines } = error as CsvError & { readonly lines?: number };
    mistakes.add(tree, [], MESSAGES[error.code] ?? 'this line cannot be read as CSV', lines ?? 1);
    return tree;
  }
  const [head, ...rest] = rows;
  if (head === undefined) return tree;
  const columns = head.record.map((name) => name.toLowerCase());
  for (const [index, name] of columns.entries()) {
    const isKnown = (COLUMNS as readonly string[]).includes(name);
    // Without the name: if the file has no line of names, it may be a key.
    if (!isKnown)
      mistakes.addBeside(
        tree,
        `column ${index + 1} is none of ${COLUMNS.join(', ')}${didYouMean(name, COLUMNS)}`,
        head.info.lines,
      );
    else if (columns.indexOf(name) !== index)
      mistakes.addBeside(tree, `${name} is a column twice`, head.info.lines);
  }
  tree.root['cells'] = rest.map(({ record, info }, index) => {
    tree.lines.set(pathKey(['cells', index]), info.lines);
    const cell = mapping();
    if (record.length !== columns.length)
      mistakes.addBeside(
        tree,
        `expected ${columns.length} values, one for each column, got ${record.length}`,
        info.lines,
      );
    for (const [column, value] of record.entries()) {
      const name = columns[column] ?? '';
      if (value !== '' && (COLUMNS as readonly string[]).includes(name)) cell[name] = csvValue(name, value);
    }
    return cell;
  });
  return tree;
}

function csvValue(column: string, value: string): unknown {
  if (column === 'organizations')
    return value === 'all' ? value : value.split(/[\s;]+/).filter((id) => id !== '');
  if (column === 'values' && /^(true|false)$/i.test(value)) return value.toLowerCase() === 'true';
  return value;
}
