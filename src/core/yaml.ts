/** YAML for people to review: stable, and exact for numbers that JavaScript would change. */
import {
  Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
  visit,
  type ScalarTag,
} from 'yaml';
import { escapeForTerminal, isActive } from './escape-control.ts';
import {
  isRawNumber,
  parseLossless,
  setOwn,
  type JsonObject,
  type JsonValue,
  type RawNumber,
} from './json.ts';

const rawNumber: ScalarTag = {
  identify: (value) => isRawNumber(value),
  default: true,
  tag: 'tag:yaml.org,2002:float',
  // Used only for writing, so it never matches on reading.
  test: /^\b\B$/,
  resolve: (text) => text,
  stringify: ({ value }) => (value as RawNumber).rawJSON,
};

/** Writes one YAML document with keys in the given order. A `RawNumber` is written digit by digit. */
export function stringifyYaml(value: JsonValue): string {
  const document = new Document(value, {
    customTags: (tags) => [rawNumber, ...tags],
    aliasDuplicateObjects: false,
    compat: 'yaml-1.1',
  });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === 'string' && !isPlain(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  // All strings with escapes are in double quotes now, including keys.
  return escapeForTerminal(document.toString({ lineWidth: 0 }));
}

/**
 * Parses a small YAML document, such as the head of a record's file, with JavaScript numbers.
 * @throws YAMLParseError for text that is not YAML
 */
export function parseYaml(text: string): unknown {
  return parse(text, { schema: 'core', maxAliasCount: 0 });
}

/** One document of a YAML text. */
interface YamlDocument {
  /** The line where the document begins, from 1. */
  readonly line: number;
  readonly value: JsonValue;
}

/** Text that is not YAML, or YAML with something that JSON does not have. */
export class YamlMistake extends Error {
  /** From 1. */
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** A number as in JSON; YAML has further spellings. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/**
 * Parses the documents of a YAML 1.2 text with numbers digit by digit, as `stringifyYaml` writes them.
 * @throws YamlMistake with the line
 */
export function parseLosslessYaml(text: string): YamlDocument[] {
  const lines = new LineCounter();
  const lineOf = (offset: number | undefined): number => lines.linePos(offset ?? 0).line;
  const parsed = parseAllDocuments(text, {
    version: '1.2',
    schema: 'core',
    stringKeys: true,
    uniqueKeys: true,
    prettyErrors: false,
    lineCounter: lines,
  });
  if ('empty' in parsed) return [];
  return parsed.map((document) => {
    const problem = document.errors[0] ?? document.warnings[0];
    if (problem !== undefined) {
      throw new YamlMistake(problem.message.split('\n')[0] ?? '', lineOf(problem.pos[0]));
    }
    const { contents } = document;
    return { line: lineOf(contents?.range[0] ?? document.range[0]), value: jsonOf(contents, lineOf) };
  });
}

function jsonOf(node: unknown, lineOf: (offset: number | undefined) => number): JsonValue {
  if (node === null || node === undefined) return null;
  if (isMap(node)) {
    const object: JsonObject = {};
    for (const { key, value } of node.items) setOwn(object, keyText(key), jsonOf(value, lineOf));
    return object;
  }
  if (isSeq(node)) return node.items.map((item) => jsonOf(item, lineOf));
  if (isScalar(node)) {
    const { value, source, range } = node;
    if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value;
    if (typeof value === 'number') {
      if (source !== undefined && JSON_NUMBER.test(source)) return parseLossless(source);
      if (Number.isFinite(value)) return value;
    }
    throw new YamlMistake(`${source ?? 'this value'} cannot be written as JSON`, lineOf(range?.[0]));
  }
  // Aliases could make a small file huge, and exports never have them.
  const range = isAlias(node) ? node.range : undefined;
  throw new YamlMistake('an alias (*name): write the value out', lineOf(range?.[0]));
}

function keyText(key: unknown): string {
  return isScalar(key) && typeof key.value === 'string' ? key.value : '';
}

/** False for text that is not displayed literally or cannot be in YAML or UTF-8. It is quoted and escaped. */
function isPlain(text: string): boolean {
  // The library escapes C0 control characters. Tabs and line breaks stay as they are.
  return text.isWellFormed() && !/[\u0000-\u0008\u000b-\u001f]/.test(text) && !isActive(text);
}
