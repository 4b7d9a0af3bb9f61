/** Parses a tree by a table: zod checks it whole, and each issue becomes a mistake that names what was expected. */
import * as z from 'zod';
import { suggest } from '../core/suggest.ts';
import { type Mistakes, shown } from './mistakes.ts';
import { type OptionNode, type Options, type Parsed, type Section, nodeAt, withDefaults } from './option.ts';
import {
  isMapping,
  nearest,
  pathKey,
  setAt,
  valueAt,
  type Mapping,
  type Path,
  type PathPart,
  type Tree,
} from './tree.ts';

// A configuration is parsed once: compiling a parser for each of its sections would cost more than it saves.
z.config({ jitless: true });

function toZod(node: OptionNode): z.ZodType {
  if (node.node === 'option') return (node.value.schema as z.ZodType).optional();
  if (node.node === 'list') return z.array(toZod(node.of));
  if (node.node === 'map') {
    const of = toZod(node.of);
    if (node.keys === null) return z.record(z.string(), of);
    return z.strictObject(Object.fromEntries(node.keys.map((key) => [key, of.optional()])));
  }
  return z.strictObject(
    Object.fromEntries(Object.entries(node.options).map(([name, child]) => [name, toZod(child)])),
  );
}

/**
 * The values of a tree by its table, defaults filled in. Every mistake is added to `mistakes`; a value that is wrong
 * counts as not given, so that the rest can still be looked at.
 */
export function parseTree<S extends Options>(
  table: Section<S>,
  tree: Tree,
  mistakes: Mistakes,
): Parsed<Section<S>> {
  const schema = toZod(table);
  let given: Mapping = tree.root;
  // Each round takes out what the one before refused; the rounds end because the tree gets smaller.
  for (;;) {
    const result = schema.safeParse(withDefaults(table, given));
    if (result.success) return result.data as Parsed<Section<S>>;
    given = structuredCopy(given);
    const refused = result.error.issues.flatMap((issue) => pathsOf(issue).map((path) => ({ issue, path })));
    for (const { issue, path } of refused) {
      // zod reports a number that is too large and no safe integer twice; one mistake per value is enough.
      if (!mistakes.covers(tree, path)) mistakes.add(tree, path, messageFor(table, tree, issue, path));
    }
    // Deepest and last first, so that a list's other positions stay what they are while it is cut.
    const cuts = refused.map(({ path }) => cutPath(table, path)).sort((a, b) => b.length - a.length);
    for (const cut of cuts) cutOut(given, cut);
  }
}

/** A copy of plain values that keeps the mappings free of a prototype. */
function structuredCopy<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => structuredCopy(item)) as T;
  if (!isMapping(value)) return value;
  const copy = Object.create(null) as Mapping;
  for (const [key, child] of Object.entries(value)) copy[key] = structuredCopy(child);
  return copy as T;
}

function pathsOf(issue: z.core.$ZodIssue): Path[] {
  const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
  return issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...path, key]) : [path];
}

/** What to take out for a refused value: the whole option that it belongs to, or the unknown key. */
function cutPath(table: Section, path: Path): Path {
  for (let length = 1; length <= path.length; length += 1) {
    if (nodeAt(table, path.slice(0, length))?.node === 'option') return path.slice(0, length);
  }
  return path;
}

function cutOut(root: Mapping, path: Path): void {
  // An element of a list is emptied, not removed: the others keep their positions.
  const isElement = typeof path.at(-1) === 'number';
  setAt(root, path, isElement ? Object.create(null) : undefined);
}

function messageFor(table: Section, tree: Tree, issue: z.core.$ZodIssue, path: Path): string {
  if (issue.code === 'unrecognized_keys') return unknownKey(table, path);
  const node = nodeAt(table, path);
  if (issue.code === 'custom' && issue.params?.['isReported'] === true) return issue.message;
  const own = tree.templates.get(pathKey(path));
  if (own !== undefined && valueAt(tree.root, path) === '') return `${own} is empty in the environment`;
  const expected = `expected ${expectation(table, node, path)}`;
  if (node?.node === 'option' && node.isSecret) return expected;
  const template = nearest(tree.templates, path);
  const value = valueAt(tree.root, path);
  const got = template === undefined ? shown(value) : `what ${JSON.stringify(template)} gives`;
  return `${expected}, got ${got}${nearOf(issue, value)}`;
}

function expectation(table: Section, node: OptionNode | undefined, path: Path): string {
  if (node === undefined) return 'something else';
  if (node.node === 'list') return 'a list';
  if (node.node === 'map') return `a mapping by ${node.keyTitle}`;
  if (node.node === 'section') return `a mapping with ${Object.keys(node.options).slice(0, 4).join(', ')}…`;
  const isItem = nodeAt(table, path.slice(0, -1)) === node;
  return (isItem ? node.value.expectedItem : null) ?? node.value.expected;
}

/** "did you mean", where a word out of a closed set was expected. */
function nearOf(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code !== 'invalid_value' || typeof value !== 'string') return '';
  const near = suggest(value, issue.values.map(String));
  return near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`;
}

function unknownKey(table: Section, path: Path): string {
  const holder = nodeAt(table, path.slice(0, -1));
  const key = String(path.at(-1));
  if (holder?.node === 'map')
    return `unknown ${holder.keyTitle}${didYouMean(suggest(key, holder.keys ?? []))}`;
  if (holder?.node === 'option')
    return `unknown key ${JSON.stringify(key)}; expected ${holder.value.expected}`;
  if (holder?.node !== 'section') return 'unknown option';
  const siblings = Object.keys(holder.options);
  return `unknown option${didYouMean(suggest(key, siblings) ?? elsewhere(table, key))}`;
}

function didYouMean(near: string | undefined): string {
  return near === undefined ? '' : `; did you mean ${near}?`;
}

/** The path of an option of exactly this name in another section. */
function elsewhere(node: OptionNode, key: string, path = ''): string | undefined {
  if (node.node === 'option' || node.node === 'map') return undefined;
  if (node.node === 'list') return elsewhere(node.of, key, `${path}[]`);
  for (const [name, child] of Object.entries(node.options)) {
    const here = path === '' ? name : `${path}.${name}`;
    if (name === key) return here;
    const below = elsewhere(child, key, here);
    if (below !== undefined) return below;
  }
  return undefined;
}

/** Values that interpolation produced as text are read as their option's type: `perMinute: ${RATE}` is a number. */
export function typeInterpolations(table: Section, tree: Tree): void {
  for (const key of tree.templates.keys()) {
    const path = JSON.parse(key) as PathPart[];
    const node = nodeAt(table, path);
    const isWhole = nodeAt(table, path.slice(0, -1)) !== node;
    const value = valueAt(tree.root, path);
    if (node?.node === 'option' && isWhole && typeof value === 'string') {
      setAt(tree.root, path, node.value.fromText(value.trim()));
    }
  }
}
