/** The texts of an export as values with the line they stand on: NDJSON, one JSON document, or YAML. Pure. */
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { scanList } from '../core/json-scan.ts';
import { parseLosslessYaml, YamlMistake } from '../core/yaml.ts';

export type TextFormat = 'ndjson' | 'json' | 'yaml';

interface LocatedValue {
  /** From 1. */
  readonly line: number;
  readonly value: JsonValue;
}

/** Text that cannot be read as its format. */
export class TextMistake extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** The format that a file's name says; `csv` is one that exports write and nobody can read back. */
export function formatOfName(name: string): TextFormat | 'csv' | undefined {
  switch (/\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase()) {
    case 'ndjson':
    case 'jsonl':
      return 'ndjson';
    case 'json':
      return 'json';
    case 'yaml':
    case 'yml':
      return 'yaml';
    case 'csv':
      return 'csv';
    default:
      return undefined;
  }
}

/** The format that a text looks like, where no name says it. */
export function formatOfText(text: string): TextFormat {
  const start = text.trimStart();
  if (!start.startsWith('{') && !start.startsWith('[')) return 'yaml';
  return /^\{\s*"schema"|^\[/.test(start) ? 'json' : 'ndjson';
}

/** What a text holds. */
interface ExportValues {
  readonly values: readonly LocatedValue[];
  /** The document around them; null where they stand by themselves. */
  readonly document: JsonValue;
}

/**
 * The values of a text, numbers digit by digit.
 * @throws TextMistake
 */
export function valuesOf(text: string, format: TextFormat): ExportValues {
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

/** `{"schema": "tidemark.export/1", "records": […]}`, a bare array of records, or one record by itself. */
function documentOf(text: string): ExportValues {
  let whole: JsonValue;
  try {
    whole = parseLossless(text);
  } catch (error) {
    // What `export --format ndjson` wrote under another name.
    if (text.trim().includes('\n') && isJsonLine(text.trim().split('\n')[0] ?? ''))
      return { values: linesOf(text), document: null };
    throw notJson(error, 1);
  }
  const schema = isJsonObject(whole) ? whole['schema'] : undefined;
  if (schema !== undefined && schema !== 'tidemark.export/1') {
    throw new TextMistake(`expected the schema tidemark.export/1, got ${JSON.stringify(schema)}`, 1);
  }
  if (isJsonObject(whole) && schema === undefined)
    return { values: [{ line: 1, value: whole }], document: null };
  const values = Array.isArray(whole)
    ? whole
    : whole !== null && isJsonObject(whole)
      ? whole['records']
      : null;
  if (!Array.isArray(values)) throw new TextMistake('expected records: a list', 1);
  const starts = startsOf(text);
  const located = values.map((value, index) => ({ line: starts[index] ?? 1, value }));
  return { values: located, document: isJsonObject(whole) ? whole : null };
}

function isJsonLine(line: string): boolean {
  try {
    return isJsonObject(parseLossless(line));
  } catch {
    // SyntaxError: then it is no NDJSON either.
    return false;
  }
}

/** The line of each record; none where one is no object, which the caller finds out by itself. */
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
