/** Reads a YAML document into a tree of plain values with their lines. */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  type Document,
  type Node,
  type Scalar,
  visit,
} from 'yaml';
import { shownReference } from '../catalog/masks.ts';
import type { Mistakes } from './mistakes.ts';
import { emptyTree, mapping, pathKey, type Mapping, type Path, type Tree } from './tree.ts';

// A configuration has hundreds of values; these are limits for hostile or broken files.
const MOST_VALUES = 100_000;
const MOST_ALIASES = 100;
const DEEPEST = 30;

const DUPLICATE = 'DUPLICATE_KEY';

/** Our messages by the codes of yaml, whose own messages may quote a line with a key. */
const MESSAGES: Readonly<Record<string, string> & Record<typeof DUPLICATE, string>> = {
  BAD_INDENT: 'wrong indentation, or a bracket or brace that is not closed',
  BLOCK_AS_IMPLICIT_KEY:
    'expected one "key: value" on this line; check the indentation, or quote a value with ": " in it',
  [DUPLICATE]: 'this key appears twice in its mapping',
  // Also for a line of a list that is indented less than its item.
  MISSING_CHAR:
    'expected a closing quote, bracket or brace, or a space after ":"; or the indentation of this line is wrong',
  MULTILINE_IMPLICIT_KEY: 'expected "key: value", each on its own line; check the indentation',
  NON_STRING_KEY: 'expected a plain text as key',
  TAB_AS_INDENT: 'a tab: expected spaces for indentation',
  TAG_RESOLVE_FAILED: 'a tag (!name): expected plain values',
  RESOURCE_EXHAUSTION: 'nested too deeply',
};

interface Reading {
  readonly tree: Tree;
  readonly lines: LineCounter;
  readonly document: Document;
  readonly env: Environment | null;
  readonly usedVariables: Set<string>;
  readonly mistakes: Mistakes;
  values: number;
  aliases: number;
}

interface ReadDocument {
  readonly tree: Tree;
  /** Names of the variables that the text refers to. */
  readonly usedVariables: ReadonlySet<string>;
}

/**
 * Parses YAML 1.2 text. `${VAR}` is replaced if an environment is given. An empty document is an empty mapping.
 * Mistakes of the text are added to `mistakes`; the values that could be read nevertheless are returned.
 */
export function readDocument(
  text: string,
  label: string,
  env: Environment | null,
  mistakes: Mistakes,
): ReadDocument {
  const lines = new LineCounter();
  const tree = emptyTree(label);
  const usedVariables = new Set<string>();
  const parsed = parseAllDocuments(text, {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
    version: '1.2',
  });
  const documents = 'empty' in parsed ? [] : parsed;
  const [document, second] = documents;
  if (document === undefined) return { tree, usedVariables };
  if (second !== undefined) {
    const line = lines.linePos(second.range[0]).line;
    mistakes.add(tree, [], 'expected one document, found a second one after "---"', line);
    return { tree, usedVariables };
  }
  const found = [...document.errors, ...document.warnings];
  // If a key appears twice, the rest can still be read: it is reported together with other mistakes.
  const doubled = found.filter(({ code }) => code === DUPLICATE);
  const problems = found.filter(({ code }) => code !== DUPLICATE);
  for (const line of new Set(doubled.map(({ pos }) => lines.linePos(pos[0]).line)))
    mistakes.addBeside(tree, `not valid YAML: ${MESSAGES[DUPLICATE]}`, line);
  // Only the first: later problems mostly follow from it.
  const [problem] = problems.toSorted((a, b) => a.pos[0] - b.pos[0]);
  if (problem !== undefined) {
    const opening = problem.code === 'MISSING_CHAR' ? openQuote(document, text, problem.pos[0]) : null;
    const { line } = lines.linePos(opening ?? problem.pos[0]);
    const message =
      (opening === null ? null : OPEN_QUOTE) ??
      unquotedVariable(text.split('\n')[line - 1] ?? '') ??
      MESSAGES[problem.code] ??
      'this line cannot be read';
    mistakes.add(tree, [], `not valid YAML: ${message}`, line);
    return { tree, usedVariables };
  }

  const reading: Reading = { tree, lines, document, env, usedVariables, mistakes, values: 0, aliases: 0 };
  const root = document.contents;
  if (root === null || (isScalar(root) && root.value === null)) return { tree, usedVariables };
  if (!isMap(root)) {
    const line = lines.linePos(root.range[0]).line;
    mistakes.add(
      tree,
      [],
      `expected a mapping of options, got a ${isSeq(root) ? 'list' : 'single value'}`,
      line,
    );
    return { tree, usedVariables };
  }
  try {
    fill(reading, root.items, tree.root, []);
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error;
    mistakes.add(tree, [], error.message, 1);
  }
  return { tree, usedVariables };
}

const OPEN_QUOTE = 'a quote is opened on this line and not closed';

/** The position of the quote that opens a text which ends at `end` without its closing quote; null if there is none. */
function openQuote(document: Document, text: string, end: number): number | null {
  let found: number | null = null;
  visit(document, {
    Scalar(_key, { type, range }: Scalar) {
      if (!range || range[1] !== end || (type !== 'QUOTE_DOUBLE' && type !== 'QUOTE_SINGLE')) return;
      const isClosed = end - range[0] > 1 && text[end - 1] === text[range[0]];
      if (!isClosed) [found] = range;
    },
  });
  return found;
}

/** The advice for a line with an unquoted `${NAME}` between braces or brackets, where its braces are YAML; null for other lines. */
function unquotedVariable(line: string): string | null {
  const bare = line.replaceAll(/"(?:[^"\\]|\\.)*"|'[^']*'/g, '""');
  const name = /[[{,].*?(\$\{\w+\})/.exec(bare)?.[1];
  return name === undefined ? null : `${name} needs quotes between braces or brackets: write "${name}"`;
}

/** The document is larger than any configuration. */
class TooMuch extends Error {}

function fill(
  reading: Reading,
  items: readonly { key: unknown; value: unknown }[],
  target: Mapping,
  path: Path,
): void {
  for (const { key, value } of items) {
    const name = isScalar(key) ? String(key.value) : '';
    const at = [...path, name];
    const offset = isScalar(key) ? key.range?.[0] : undefined;
    if (isMergeKey(key)) {
      // A mistake of the text: otherwise the options that are missing because of it would be reported too.
      const line = reading.lines.linePos(offset ?? 0).line;
      reading.mistakes.add(reading.tree, [], MERGE_KEY, line);
      continue;
    }
    if (offset !== undefined) noteLine(reading, at, offset);
    const plain = toPlain(reading, value as Node | null, at);
    if (plain !== undefined) target[name] = plain;
  }
}

const MERGE_KEY =
  'merge keys (<<) are not supported: write the options out, or use an alias (*name) as a value';

/** True for the merge key of YAML 1.1; in quotes it is an ordinary name. */
function isMergeKey(key: unknown): boolean {
  return isScalar(key) && key.value === '<<' && key.type === 'PLAIN';
}

function noteLine(reading: Reading, path: Path, offset: number): void {
  reading.tree.lines.set(pathKey(path), reading.lines.linePos(offset).line);
}

/** The plain value of a node; undefined if interpolation failed, which is reported as a mistake. */
function toPlain(reading: Reading, node: Node | null, path: Path): unknown {
  reading.values += 1;
  if (reading.values > MOST_VALUES) throw new TooMuch(`expected at most ${MOST_VALUES} values`);
  if (path.length > DEEPEST)
    throw new TooMuch(`nested deeper than ${DEEPEST} levels, or an alias inside itself`);
  if (node === null) return null;
  if (isAlias(node)) {
    reading.aliases += 1;
    if (reading.aliases > MOST_ALIASES) throw new TooMuch(`expected at most ${MOST_ALIASES} aliases`);
    const target = node.resolve(reading.document);
    if (target === undefined) {
      reading.mistakes.add(reading.tree, path, 'an alias (*name) without its anchor (&name)');
      return undefined;
    }
    return toPlain(reading, target, path);
  }
  if (isMap(node)) {
    const target = mapping();
    fill(reading, node.items, target, path);
    return target;
  }
  if (isSeq(node)) {
    const list: unknown[] = [];
    for (const item of node.items as (Node | null)[]) {
      const at = [...path, list.length];
      if (item?.range) noteLine(reading, at, item.range[0]);
      const plain = toPlain(reading, item, at);
      // A placeholder if interpolation failed, so that the others keep their positions.
      list.push(plain === undefined ? 'unset' : plain);
    }
    return list;
  }
  const value: unknown = isScalar(node) ? node.value : null;
  return typeof value === 'string' && reading.env !== null
    ? expand(reading, value, reading.env, path)
    : value;
}

function expand(reading: Reading, text: string, env: Environment, path: Path): string | undefined {
  const result = interpolate(text, env, isRestoreSecret(path));
  // Also variables that are not set: advice for another record must not use the same name.
  if ('variables' in result) for (const variable of result.variables) reading.usedVariables.add(variable);
  if ('mistake' in result) {
    if (result.isUnset) {
      reading.mistakes.addUnset(reading.tree, path, result.mistake);
      reading.tree.unset.set(pathKey(path), result.mistake);
    } else reading.mistakes.add(reading.tree, path, result.mistake);
    return undefined;
  }
  if (result.isPlain) return result.value;
  reading.tree.templates.set(pathKey(path), text);
  return result.value;
}

/** True at and below `sources[].secrets`. */
function isRestoreSecret([first, , third]: Path): boolean {
  return first === 'sources' && third === 'secrets';
}

// `${VAR}` in configuration texts.

export type Environment = Readonly<Record<string, string | undefined>>;

type Interpolated =
  | { readonly isPlain: true; readonly value: string }
  | { readonly isPlain: false; readonly value: string; readonly variables: readonly string[] }
  /** `isUnset`: the only mistakes are variables that are not set. */
  | { readonly mistake: string; readonly isUnset: boolean; readonly variables: readonly string[] };

/**
 * Replaces each `${VAR}` by the variable's value; `$${` stands for `${`. Values are not expanded again. A variable that
 * is not set, or an invalid name, is a mistake.
 * @param needsText true if an empty variable counts as not set, as in secrets
 * @internal
 */
export function interpolate(text: string, env: Environment, needsText = false): Interpolated {
  const variables: string[] = [];
  const mistakes: string[] = [];
  let isUnset = true;
  const value = text.replace(
    /(\$?)\$\{([^}]*)(\}?)/g,
    (match, escape: string, name: string, close: string) => {
      if (escape !== '') return match.slice(1);
      if (close === '' || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
        isUnset = false;
        mistakes.push('expected ${NAME} with letters, digits and _ (write $${ for a plain ${)');
        return '';
      }
      variables.push(name);
      const set = Object.hasOwn(env, name) ? env[name] : undefined;
      const shown = shownReference(name);
      if (set === undefined) mistakes.push(`\${${shown}} is not set in the environment`);
      else if (set === '' && needsText) mistakes.push(`\${${shown}} is empty in the environment`);
      return set ?? '';
    },
  );
  if (mistakes.length > 0) return { mistake: [...new Set(mistakes)].join('; '), isUnset, variables };
  return variables.length === 0 ? { isPlain: true, value } : { isPlain: false, value, variables };
}
