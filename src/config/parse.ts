/** Parses a tree with a schema of zod. Each issue becomes a mistake that says what was expected. */
import * as z from 'zod';
import { shownText } from '../catalog/masks.ts';
import { didYouMean, guessText } from '../core/suggest.ts';
import { type Mistakes, shown } from './mistakes.ts';
import { aboutOf, formOf, fromText, hasKeys, inner, schemasAlong, shapeOf } from './schema.ts';
import {
  isMapping,
  mapping,
  nearest,
  pathKey,
  setAt,
  valueAt,
  type Mapping,
  type Path,
  type PathPart,
  type Tree,
} from './tree.ts';

/**
 * The values of a tree, with defaults. Every mistake is added to `mistakes`; a wrong value is treated as missing, so
 * that the rest can still be checked.
 */
export function parseTree<S extends z.ZodType>(schema: S, tree: Tree, mistakes: Mistakes): z.output<S> {
  let given: Mapping = tree.root;
  /** What earlier rounds removed: issues that follow from that are not mistakes. */
  const cut = new Set<string>();
  // Each round removes what the previous one refused; the rounds end because the tree gets smaller.
  for (;;) {
    const result = schema.safeParse(given);
    if (result.success) return result.data;
    given = copyOf(given);
    const issues = result.error.issues.flatMap((issue) => inForm(given, issue));
    const refused = issues.flatMap((issue) => pathsOf(issue).map((path) => ({ issue, path })));
    for (const { issue, path } of refused) {
      const isFollowUp = path.some((_part, index) => cut.has(pathKey(path.slice(0, index + 1))));
      // zod reports a number twice if it is too large and not a safe integer, and may report a rule because of its
      // parts: also because a part was removed.
      const isKnown =
        mistakes.covers(tree, path) ||
        ((issue.code === 'custom' || (issue.code === 'invalid_union' && cut.size > 0)) &&
          mistakes.isBelow(tree, path));
      if (!isFollowUp && !isKnown) mistakes.add(tree, path, messageFor(schema, tree, issue, path));
    }
    // Each once, and the deepest first, so that what is above it still exists.
    const paths = new Map(refused.map(({ path }) => [pathKey(path), path]));
    for (const path of [...paths.values()].toSorted((a, b) => b.length - a.length))
      cut.add(pathKey(cutOut(given, path)));
  }
}

/** A copy of plain values, with mappings that have no prototype. */
function copyOf<T>(value: T): T {
  if (Array.isArray(value)) return value.map((item: unknown) => copyOf(item)) as T;
  if (!isMapping(value)) return value;
  const copy = mapping();
  for (const [key, child] of Object.entries(value)) copy[key] = copyOf(child);
  return copy as T;
}

/** If the value may be a text or a mapping, such as a backup's target, and is a mapping: the issues of the mapping. */
function inForm(root: Mapping, issue: z.core.$ZodIssue): readonly z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union' || !isMapping(valueAt(root, pathOf(issue)))) return [issue];
  const isInside = ({ code, path }: z.core.$ZodIssue): boolean =>
    path.length > 0 || code === 'unrecognized_keys';
  const form = issue.errors.find((issues) => issues.length > 0 && issues.every(isInside));
  return form?.map((each) => ({ ...each, path: [...issue.path, ...each.path] })) ?? [issue];
}

function pathOf({ path }: z.core.$ZodIssue): Path {
  return path.map((part) => (typeof part === 'symbol' ? String(part) : part));
}

function pathsOf(issue: z.core.$ZodIssue): Path[] {
  const path = pathOf(issue);
  return issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...path, key]) : [path];
}

/**
 * Removes a refused value; if it is missing, what contains it. An element of a list is emptied, so that the others keep
 * their positions; if that is refused too, the list is removed. Returns the path that was removed.
 */
function cutOut(root: Mapping, path: Path): Path {
  const value = valueAt(root, path);
  const isElement = typeof path.at(-1) === 'number';
  const isGone = value === undefined || (isElement && isMapping(value) && Object.keys(value).length === 0);
  if (isGone && path.length > 1) return cutOut(root, path.slice(0, -1));
  setAt(root, path, isElement ? mapping() : undefined);
  return path;
}

function messageFor(schema: z.core.$ZodType, tree: Tree, issue: z.core.$ZodIssue, path: Path): string {
  if (issue.code === 'unrecognized_keys') return unknownKey(schema, tree, path);
  if (issue.code === 'custom' && issue.message !== 'Invalid input') return issue.message;
  const own = tree.templates.get(pathKey(path));
  const value = valueAt(tree.root, path);
  if (own !== undefined && value === '') return `${own} is empty in the environment`;
  const along = schemasAlong(schema, path, tree.root);
  const words = wordsOf(issue);
  const isType = issue.code === 'invalid_union' && words.length > 0;
  const expected = `expected ${isType ? `one of ${words.join(', ')}` : expectation(along, path)}`;
  const near = typeof value === 'string' ? didYouMean(value, words, JSON.stringify) : '';
  if (along.some((each) => aboutOf(each).isSecret === true)) return `${expected}${near}`;
  // A key may have been pasted into the wrong place.
  if (typeof value === 'string' && shownText(value, {}) !== value) return `${expected}, got a secret`;
  if (path[0] === 'sources' && path.at(-1) === 'name' && mayBeKey(value))
    return `${expected}, got ${value.length} characters that are not shown: they may be a key`;
  const template = nearest(tree.templates, path);
  const got = template === undefined ? shown(value) : `what ${JSON.stringify(template)} gives`;
  return `${expected}, got ${got}${near}`;
}

const LEAST_KEY = 20; // characters

/** True for a long text of letters and digits where a name is expected: a key of no known form, pasted into the wrong place. */
function mayBeKey(value: unknown): value is string {
  return typeof value === 'string' && value.length >= LEAST_KEY && /[a-z]/i.test(value) && /\d/.test(value);
}

/** What was expected, from the schema at the path, or the nearest one above it. */
function expectation(along: readonly z.core.$ZodType[], path: Path): string {
  const isExact = along.length > path.length;
  for (const [index, schema] of along.toReversed().entries()) {
    const expected = aboutOf(schema).expected ?? (index === 0 && isExact ? derived(schema) : undefined);
    if (expected !== undefined) return expected;
  }
  return 'something else';
}

function derived(schema: z.core.$ZodType): string | undefined {
  const node = inner(schema);
  if (node instanceof z.ZodEnum) return `one of ${node.options.join(', ')}`;
  if (node instanceof z.ZodString) return 'a string';
  if (node instanceof z.ZodBoolean) return 'true or false';
  if (node instanceof z.ZodArray) return 'a list';
  if (node instanceof z.ZodRecord) return `a mapping by ${aboutOf(schema).keyTitle ?? 'name'}`;
  if (node instanceof z.ZodDiscriminatedUnion) return 'a mapping with name, type…';
  if (node instanceof z.ZodObject) return `a mapping with ${Object.keys(node.shape).slice(0, 4).join(', ')}…`;
  return undefined;
}

/** The words that were allowed; for a union, those of its `type`. */
function wordsOf(issue: z.core.$ZodIssue): string[] {
  if (issue.code === 'invalid_value') return issue.values.map(String);
  const isUnion = issue.code === 'invalid_union' && 'options' in issue && Array.isArray(issue.options);
  return isUnion ? issue.options.map(String) : [];
}

function unknownKey(root: z.core.$ZodType, tree: Tree, path: Path): string {
  const key = String(path.at(-1));
  const above = path.slice(0, -1);
  const along = schemasAlong(root, above, tree.root);
  const schema = along.length > above.length ? along.at(-1) : undefined;
  if (schema === undefined) return 'unknown option';
  const node = inner(schema);
  if (node instanceof z.ZodRecord) {
    const names = node.keyType instanceof z.ZodEnum ? node.keyType.options.map(String) : [];
    return `unknown ${aboutOf(schema).keyTitle ?? 'name'}${didYouMean(key, names)}`;
  }
  if (node instanceof z.ZodDiscriminatedUnion) {
    const value = valueAt(tree.root, above);
    const own = Object.keys(shapeOf(formOf(node, value)[0] ?? node));
    const type = String(isMapping(value) ? value['type'] : '');
    const special = own.filter((each) => !node.options.every((option) => each in shapeOf(option)));
    if (key in shapeOf(node))
      return `not for a ${aboutOf(schema).keyTitle ?? 'mapping'} of type ${type}, which has ${special.join(', ')}`;
    return `unknown key ${JSON.stringify(key)}${didYouMean(key, own)}`;
  }
  const siblings = Object.keys(shapeOf(schema));
  const near = didYouMean(key, siblings);
  if (aboutOf(schema).description === undefined)
    return `unknown key ${JSON.stringify(key)}; expected ${siblings.join(', ')}${near}`;
  if (near !== '') return `unknown option${near}`;
  // Only at the top: in a section, an option of this name in another one is hardly meant.
  if (above.length > 0) return `unknown option; expected ${siblings.join(', ')}`;
  return `unknown option${guessText(elsewhere(root, key))}`;
}

/** The path of an option of exactly this name in another section. */
function elsewhere(schema: z.core.$ZodType, key: string, path = ''): string | undefined {
  const node = inner(schema);
  if (node instanceof z.ZodArray) return elsewhere(node.element, key, `${path}[]`);
  if (!hasKeys(node)) return undefined;
  for (const [name, child] of Object.entries(node.shape)) {
    const here = path === '' ? name : `${path}.${name}`;
    if (name === key) return here;
    const below = elsewhere(child, key, here);
    if (below !== undefined) return below;
  }
  return undefined;
}

/** Converts texts from interpolation to the type of their option: `perMinute: ${RATE}` is a number. */
export function typeInterpolations(schema: z.core.$ZodType, tree: Tree): void {
  for (const key of tree.templates.keys()) {
    const path = JSON.parse(key) as PathPart[];
    const along = schemasAlong(schema, path, tree.root);
    const own = along.length > path.length ? along.at(-1) : undefined;
    const value = valueAt(tree.root, path);
    if (own !== undefined && typeof value === 'string') setAt(tree.root, path, fromText(own, value));
  }
}
