/** The files of an export and their texts: a file, a directory that `export --output` wrote, or stdin. */
import { createReadStream, type Stats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { isKind } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import { systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { scanList } from '../core/json-scan.ts';
import { type JsonValue, isJsonObject, parseLossless, getOwn } from '../core/json.ts';
import { parseLosslessYaml, YamlMistake } from '../core/yaml.ts';
import type { StateFilter } from './filter.ts';
import type { UnaskedKind } from './unasked.ts';

/** The content of one file of an export. */
interface ExportText extends ExportValues {
  /** For messages. */
  readonly name: string;
  /** Why it cannot be read in its format; null if it can. */
  readonly mistake: { readonly line: number; readonly message: string } | null;
}

interface ExportFiles {
  readonly texts: AsyncIterable<ExportText>;
  /** Kinds that have a folder in the directory, even an empty one; null if unknown. */
  readonly kinds: ReadonlySet<Kind> | null;
  /** From the manifest of the directory; null without one. */
  readonly extent: ExportExtent | null;
  /** Identifies the key of its fingerprints; null if it has secrets instead. */
  readonly fingerprints: string | null;
}

const MANIFEST = '.tidemark-export.json';
/** Opened by path: the descriptor of the process may be in non-blocking mode. */
const STDIN = '/dev/stdin';

/**
 * Finds the files of an export.
 * @throws TidemarkError `reference_unknown` if the path does not exist, `usage` if it is not an export that can be read
 * back, `file_system` and `read_only` from reading
 */
export async function findExport(path: string, cwd: string): Promise<ExportFiles> {
  if (path === '-')
    return {
      texts: textsOf([['standard input', null, () => buffer(createReadStream(STDIN))]]),
      ...NO_MANIFEST,
    };
  const absolute = resolve(cwd, path);
  const found = await statOf(absolute, path);
  if (found === undefined) {
    throw new TidemarkError('reference_unknown', `there is no file or directory ${path}`, {
      hint: 'file:PATH names what `tidemark export` wrote; a relative path starts at the current directory',
    });
  }
  if (!found.isDirectory()) {
    const format = formatOfName(path) ?? null;
    if (isOneWay(format)) throw cannotRead(path, format);
    return { texts: textsOf([[path, format, () => readFile(absolute)]]), ...NO_MANIFEST };
  }
  const manifest = await readManifest(absolute, path);
  const names = (await readdir(absolute, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(absolute.length + 1))
    // Names with a dot are not records: the manifest, a `.git` directory, unfinished files.
    .filter((name) => !name.split(/[/\\]/).some((part) => part.startsWith('.')))
    .sort();
  const readable = names.flatMap((name): FileToRead[] => {
    const format = formatOfName(name);
    if (format === undefined || isOneWay(format)) return [];
    return [[join(path, name), format, () => readFile(join(absolute, name))]];
  });
  const oneWay = names.map((name) => formatOfName(name)).find((format) => isOneWay(format));
  if (readable.length === 0 && oneWay !== undefined) throw cannotRead(path, oneWay);
  if (readable.length === 0 && manifest.kinds === null) {
    throw new TidemarkError('usage', `${path} holds no export`, {
      hint: 'name a file or directory that `tidemark export` wrote as ndjson, json or yaml',
    });
  }
  return { texts: textsOf(readable), ...manifest };
}

/** Undefined if the path does not exist. */
async function statOf(absolute: string, path: string): Promise<Stats | undefined> {
  try {
    return await stat(absolute);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw asFileError(error, path, 'read');
  }
}

/** Formats for other programs: they cannot be read back. */
type OneWayFormat = 'csv' | 'parquet';

function isOneWay(format: TextFormat | OneWayFormat | null | undefined): format is OneWayFormat {
  return format === 'csv' || format === 'parquet';
}

function cannotRead(path: string, format: OneWayFormat): TidemarkError {
  const name = { csv: 'CSV', parquet: 'Parquet' }[format];
  return new TidemarkError('usage', `${path} is ${name}: it does not say enough to be read back`, {
    hint: 'write the export with --format ndjson, json or yaml',
  });
}

/** The format is null if the name does not show it. */
type FileToRead = readonly [name: string, format: TextFormat | null, read: () => Promise<Buffer>];

async function* textsOf(files: readonly FileToRead[]): AsyncGenerator<ExportText> {
  for (const [name, format, read] of files) {
    let bytes: Buffer;
    try {
      bytes = await read();
    } catch (error) {
      throw asFileError(error, name, 'read');
    }
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch (error) {
      throw new TidemarkError('usage', `${name} is not UTF-8 text`, {
        hint: 'name a file that `tidemark export` wrote',
        cause: error,
      });
    }
    try {
      yield { name, ...valuesOf(text, format ?? formatOfText(text)), mistake: null };
    } catch (error) {
      if (!(error instanceof TextMistake)) throw error;
      yield { name, values: [], document: null, mistake: error };
    }
  }
}

type Manifest = Pick<ExportFiles, 'kinds' | 'extent' | 'fingerprints'>;

const NO_MANIFEST: Manifest = { kinds: null, extent: null, fingerprints: null };

/** The kinds, if its folders are kinds, the extent and the fingerprints of a manifest. */
async function readManifest(directory: string, path: string): Promise<Manifest> {
  let manifest: JsonValue;
  try {
    manifest = parseLossless(await readFile(join(directory, MANIFEST), 'utf8'));
  } catch (error) {
    // A manifest that is not JSON is not of an export: it is ignored, the records suffice.
    if (systemCodeOf(error) === 'ENOENT' || error instanceof SyntaxError) return NO_MANIFEST;
    throw asFileError(error, join(path, MANIFEST), 'read');
  }
  if (!isJsonObject(manifest)) return NO_MANIFEST;
  const { paths, fingerprints } = manifest;
  if (!Array.isArray(paths)) return NO_MANIFEST;
  const kinds = paths.map((each) => (typeof each === 'string' ? each : '').replace(/(?:\/|\.[a-z]+)$/, ''));
  const unfinished = join(directory, UNFINISHED_NAME);
  const isUnfinished = (await statOf(unfinished, join(path, UNFINISHED_NAME))) !== undefined;
  return {
    kinds: kinds.every(isKind) ? new Set(kinds) : null,
    extent: isUnfinished ? null : extentIn(manifest),
    fingerprints: typeof fingerprints === 'string' ? fingerprints : null,
  };
}

// The values of an export's texts with their line numbers: NDJSON, one JSON document, or YAML. Pure.

type TextFormat = 'ndjson' | 'json' | 'yaml';

interface LocatedValue {
  /** From 1. */
  readonly line: number;
  readonly value: JsonValue;
}

/** Text that cannot be read as its format. */
class TextMistake extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

const FORMAT_OF_ENDING: Readonly<Record<string, TextFormat | OneWayFormat>> = {
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  json: 'json',
  yaml: 'yaml',
  yml: 'yaml',
  csv: 'csv',
  parquet: 'parquet',
};

function formatOfName(name: string): TextFormat | OneWayFormat | undefined {
  return FORMAT_OF_ENDING[/\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''];
}

/** For a file whose name does not show the format. */
function formatOfText(text: string): TextFormat {
  const start = text.trimStart();
  if (!start.startsWith('{') && !start.startsWith('[')) return 'yaml';
  return /^\{\s*"schema"|^\[/.test(start) ? 'json' : 'ndjson';
}

interface ExportValues {
  readonly values: readonly LocatedValue[];
  /** The document around the values; null without one. */
  readonly document: JsonValue;
}

/** The values of a text, numbers digit by digit. @throws TextMistake */
function valuesOf(text: string, format: TextFormat): ExportValues {
  if (format === 'json') return documentOf(text);
  return { values: format === 'ndjson' ? linesOf(text) : yamlOf(text), document: null };
}

function linesOf(text: string): LocatedValue[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      return [{ line: index + 1, value: parseLossless(line) }];
    } catch (error) {
      throw notJson(error, index + 1);
    }
  });
}

/** `{"schema": "tidemark.export/1", "records": […]}`, a bare array of records, or a single record. */
function documentOf(text: string): ExportValues {
  let document: JsonValue;
  try {
    document = parseLossless(text);
  } catch (error) {
    // It may be the output of `export --format ndjson` under another name.
    if (text.trim().includes('\n') && isJsonLine(text.trim().split('\n')[0] ?? ''))
      return { values: linesOf(text), document: null };
    throw notJson(error, 1);
  }
  if (Array.isArray(document)) return { values: located(document, text), document: null };
  if (!isJsonObject(document)) throw new TextMistake('expected records: a list', 1);
  const { schema, records } = document;
  if (schema === undefined) return { values: [{ line: 1, value: document }], document: null };
  if (schema !== 'tidemark.export/1')
    throw new TextMistake(`expected the schema tidemark.export/1, got ${JSON.stringify(schema)}`, 1);
  if (!Array.isArray(records)) throw new TextMistake('expected records: a list', 1);
  return { values: located(records, text), document };
}

function located(values: readonly JsonValue[], text: string): LocatedValue[] {
  const starts = startsOf(text);
  return values.map((value, index) => ({ line: starts[index] ?? 1, value }));
}

function isJsonLine(line: string): boolean {
  try {
    return isJsonObject(parseLossless(line));
  } catch {
    // SyntaxError: it is not NDJSON either.
    return false;
  }
}

/** The line of each record; empty if one is not an object, which the caller reports. */
function startsOf(text: string): number[] {
  try {
    const { records } = scanList(text, ['records'], { idPath: [], volatile: new Set() });
    let searched = 0;
    let counted = 0;
    let line = 1;
    return records.map((record) => {
      const start = text.indexOf(record.text, searched);
      for (; counted < start; counted += 1) if (text.charCodeAt(counted) === 0x0a) line += 1;
      searched = start + record.text.length;
      return line;
    });
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

function yamlOf(text: string): LocatedValue[] {
  try {
    return parseLosslessYaml(text).filter(({ value }) => value !== null);
  } catch (error) {
    if (error instanceof YamlMistake) throw new TextMistake(`not valid YAML: ${error.message}`, error.line);
    throw error;
  }
}

function notJson(error: unknown, line: number): TextMistake {
  if (!(error instanceof SyntaxError)) throw error;
  const within = /\(line (\d+) column \d+\)/.exec(error.message)?.[1];
  // The parser's message quotes the text, which may be a secret.
  return new TextMistake(
    'not valid JSON: cut, or edited wrongly',
    within === undefined ? line : line + Number(within) - 1,
  );
}

// The extent of an export: its filter, and the collections that it has completely. Only in these, a missing record does not
// exist.

/** While an export is being written, this file is in its directory, and the manifest is not valid. */
export const UNFINISHED_NAME = '.tidemark-export.unfinished';

/** Some collections of a kind. */
interface ExtentCollections {
  /** Given if the export has several sources. */
  readonly source?: string;
  readonly kind: Kind;
  readonly scopes: readonly Scope[];
}

interface StaleExtent extends ExtentCollections {
  /** The last run up to the state that read them completely; null if none did, missing in an older export. */
  readonly last_complete?: LastComplete | null;
  /** Given if the run of the state was limited to other kinds, and an earlier run read them completely. */
  readonly is_limited?: true;
  /** Given if the run of the state read a part, as runs usually do: the newest records, or some in turns. */
  readonly is_part?: true;
  /** Why they were not read; missing in an older export, and if no sweep is known. */
  readonly reason?: string;
}

export interface LastComplete {
  readonly run: number;
  /** ISO 8601; null if retention dropped the run. */
  readonly at: string | null;
}

interface UnreadExtent {
  readonly source: string;
  readonly kinds: readonly Kind[];
}

export interface ExportExtent {
  readonly filter: StateFilter;
  /** The collections that the export has completely. */
  readonly whole: readonly ExtentCollections[];
  /**
   * The collections that the last run up to the state could not read completely, including those of kinds that only lead to
   * kinds of the filter; missing if there are none.
   */
  readonly stale?: readonly StaleExtent[];
  /** Volatile fields of which the state has no values; missing if it has all. */
  readonly volatile_unknown?: readonly { readonly kind: Kind; readonly fields: readonly string[] }[];
  /** Kinds that no run up to the state had read, including those that lead to kinds of the filter; missing if all were read. */
  readonly unread?: readonly Kind[];
  /** The same by source, in an export of several; missing if all were read. */
  readonly unread_by_source?: readonly UnreadExtent[];
  /** Records as of an earlier run, because the configuration leaves them out; missing if there are none. */
  readonly not_read?: readonly UnaskedKind[];
}

const FILTERS = ['kinds', 'organizations', 'projects', 'ids'] as const;

/** The lists of what an export lacks: missing if it lacks nothing. */
const LACKING = ['stale', 'unread', 'unread_by_source', 'not_read'] as const;

/**
 * Refuses null for one of these lists: joining exports that differ in them can leave null.
 * @throws TidemarkError `usage`
 */
export function requireSaysWhatItLacks(document: JsonValue, name: string): void {
  const unknown = LACKING.filter((key) => isJsonObject(document) && getOwn(document, key) === null);
  if (unknown.length === 0) return;
  throw new TidemarkError(
    'usage',
    `${name} does not say what could not be read when it was written: ${unknown.join(', ')} ${unknown.length === 1 ? 'is' : 'are'} null`,
    {
      hint: `export each source again (\`tidemark export --format json --source NAME\`); for the records alone: \`jq -c '.records[]' FILE > FILE.ndjson\``,
    },
  );
}

/** The extent in a manifest or a JSON export; null if `filter` or `whole` is missing or unknown. */
export function extentIn(value: JsonValue): ExportExtent | null {
  if (!isJsonObject(value)) return null;
  const [filter, whole] = [getOwn(value, 'filter'), getOwn(value, 'whole')];
  if (filter === undefined || !isJsonObject(filter) || !Array.isArray(whole)) return null;
  const narrowed: Partial<Record<(typeof FILTERS)[number], readonly string[]>> = {};
  for (const [name, values] of Object.entries(filter)) {
    const known = FILTERS.find((each) => each === name);
    // With a filter of a later version, the extent is unknown.
    if (known === undefined || !Array.isArray(values)) return null;
    narrowed[known] = values.map(String);
  }
  const { kinds, ...others } = narrowed;
  const bySource = getOwn(value, 'unread_by_source');
  const stale = getOwn(value, 'stale');
  return {
    filter: { ...others, ...defined({ kinds: kindsIn(kinds) }) },
    whole: collectionsIn(whole),
    ...(Array.isArray(stale) ? { stale: collectionsIn(stale) } : {}),
    // Which fields does not matter: a comparison leaves out all volatile fields.
    ...(getOwn(value, 'volatile_unknown') === undefined ? {} : { volatile_unknown: [] }),
    ...defined({ unread: kindsIn(getOwn(value, 'unread')) }),
    ...(Array.isArray(bySource) ? { unread_by_source: bySource.flatMap(unreadIn) } : {}),
  };
}

function kindsIn(value: JsonValue | readonly string[] | undefined): Kind[] | undefined {
  return Array.isArray(value) ? KINDS.filter((kind) => value.includes(kind)) : undefined;
}

function unreadIn(value: JsonValue): UnreadExtent[] {
  if (!isJsonObject(value)) return [];
  const [source, kinds] = [getOwn(value, 'source'), kindsIn(getOwn(value, 'kinds'))];
  return typeof source === 'string' && kinds !== undefined ? [{ source, kinds }] : [];
}

function collectionsIn(entries: readonly JsonValue[]): StaleExtent[] {
  return entries.flatMap((value): StaleExtent[] => {
    if (!isJsonObject(value)) return [];
    const { source, kind, scopes, is_limited: isLimited, is_part: isPart, reason } = value;
    if (typeof kind !== 'string' || !isKind(kind) || !Array.isArray(scopes)) return [];
    if (source !== undefined && typeof source !== 'string') return [];
    return [
      {
        ...defined({ source }),
        kind,
        scopes: scopes.flatMap((scope) => scopeIn(scope) ?? []),
        ...(isLimited === true && typeof reason === 'string' ? { is_limited: isLimited, reason } : {}),
        ...(isPart === true && typeof reason === 'string' ? { is_part: isPart, reason } : {}),
      },
    ];
  });
}

function scopeIn(value: JsonValue): Scope | null {
  if (!isJsonObject(value)) return null;
  const scope: Partial<Record<(typeof SCOPE_KEYS)[number], string>> = {};
  for (const [name, id] of Object.entries(value)) {
    const key = SCOPE_KEYS.find((each) => each === name);
    if (key === undefined || typeof id !== 'string') return null;
    scope[key] = id;
  }
  return scope;
}
