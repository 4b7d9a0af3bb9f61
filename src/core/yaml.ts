/** YAML for people to review: stable, and exact for numbers that JavaScript would bend. */
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
  // Only written, never matched on reading.
  test: /^\b\B$/,
  resolve: (text) => text,
  stringify: ({ value }) => (value as RawNumber).rawJSON,
};

/** One YAML document, keys in the order given. Numbers kept as text are written digit by digit. */
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
  // What is escaped is in double quotes now, keys too.
  return escapeForTerminal(document.toString({ lineWidth: 0 }));
}

/**
 * The value of a small YAML document, such as the head of a record's file. Numbers as JavaScript has them.
 * @throws YAMLParseError for text that is not YAML
 */
export function parseYaml(text: string): unknown {
  return parse(text, { schema: 'core', maxAliasCount: 0 });
}

/** One document of a YAML text. */
interface YamlDocument {
  /** Where it begins, from 1. */
  readonly line: number;
  readonly value: JsonValue;
}

/** Text that is not YAML, or YAML that says something JSON cannot. */
export class YamlMistake extends Error {
  /** From 1. */
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** JSON's numbers; YAML has more spellings of one. */
const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/**
 * The documents of a YAML 1.2 text, numbers digit by digit: what `stringifyYaml` wrote comes back as it was.
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
  // Anchors could make a small file a huge one, and no export writes them.
  const range = isAlias(node) ? node.range : undefined;
  throw new YamlMistake('an alias (*name): write the value out', lineOf(range?.[0]));
}

function keyText(key: unknown): string {
  return isScalar(key) && typeof key.value === 'string' ? key.value : '';
}

/** False for text that is not displayed literally, or that YAML or UTF-8 could not carry: quoted, it is escaped. */
function isPlain(text: string): boolean {
  // Control characters of C0 are escaped by the library; tabs and line breaks stay as they are.
  return text.isWellFormed() && !/[\u0000-\u0008\u000b-\u001f]/.test(text) && !isActive(text);
}
