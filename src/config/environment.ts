/** The options as a flat list, each with its environment variable, and how these variables are applied. */
import * as z from 'zod';
import { didYouMean } from '../core/suggest.ts';
import type { Environment } from './document.ts';
import type { Mistakes } from './mistakes.ts';
import { OPTIONS } from './options.ts';
import { type About, aboutOf, fromText, hasKeys, inner } from './schema.ts';
import { isMapping, mapping, pathKey, setAt, valueAt, type PathPart, type Tree } from './tree.ts';

const PREFIX = 'TIDEMARK_';

/** Names the configuration file if `--config` is not given. */
export const CONFIG_VARIABLE = 'TIDEMARK_CONFIG';

/** Names the mirror; takes precedence over the file. */
export const MIRROR_VARIABLE = 'TIDEMARK_MIRROR';

interface OptionRow {
  /** Keys that lead to it; `[]` stands for every element of a list. */
  readonly keys: readonly string[];
  /** E.g. `sources[].rate.perMinute`. */
  readonly text: string;
  /** E.g. `TIDEMARK_RATE_PER_MINUTE`. */
  readonly variable: string;
  /** True for options of a source: their variables apply to the only source. */
  readonly isOfSource: boolean;
  readonly schema: z.core.$ZodType;
  readonly about: About;
}

/** The options of a section in its order; a list of rules, and a mapping by name, is one option. @internal */
export function optionRows(schema: z.core.$ZodType, keys: readonly string[] = []): OptionRow[] {
  const about = aboutOf(schema);
  const node = inner(schema);
  if (about.example === undefined || keys.length === 0) {
    if (node instanceof z.ZodArray) return optionRows(node.element, [...keys, '[]']);
    if (hasKeys(node))
      return Object.entries(node.shape).flatMap(([name, child]) => optionRows(child, [...keys, name]));
  }
  const isOfSource = keys[0] === 'sources';
  const text = keys.join('.').replaceAll('.[]', '[]');
  return [{ keys, text, variable: variableOf(isOfSource ? keys.slice(2) : keys), isOfSource, schema, about }];
}

/** Every option of the configuration, in its order. */
export const OPTION_ROWS: readonly OptionRow[] = optionRows(OPTIONS);

/** `['rate', 'perMinute']` → `TIDEMARK_RATE_PER_MINUTE` (design.md, Configuration). */
function variableOf(keys: readonly string[]): string {
  return `${PREFIX}${keys.map((key) => key.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()).join('_')}`;
}

/** Variables that define a source if the file has none. */
const DEFINING = new Set(['TIDEMARK_BASE_URL', 'TIDEMARK_API_KEY', 'TIDEMARK_API_KEY_FILE']);

/** Pairs of options that exclude each other: if the environment sets one, it replaces the other one in the file. */
const RIVALS: ReadonlyMap<string, string> = new Map(
  [
    ['apiKey', 'apiKeyFile'],
    ['include', 'exclude'],
    ['token', 'tokenFile'],
    ['database', 'databaseFile'],
    ['triggerToken', 'triggerTokenFile'],
  ].flatMap(([one = '', other = '']) => [
    [one, other],
    [other, one],
  ]),
);

// Container platforms set these variables for a service called "tidemark": they are not options.
const SERVICE_LINK = /^TIDEMARK_(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP)\w*)?)$/;

/**
 * Writes every option that a `TIDEMARK_…` variable sets into the tree; an empty variable counts as not set. Options of
 * a source apply to the only source, which is created if there is none. With several sources they are a mistake, unless
 * the file refers to the variable.
 */
export function applyEnvironment(
  tree: Tree,
  env: Environment,
  usedVariables: ReadonlySet<string>,
  mistakes: Mistakes,
): void {
  const set = OPTION_ROWS.filter((row) => (env[row.variable] ?? '') !== '');
  const sources = tree.root['sources'] ?? [];
  const sourceCount = Array.isArray(sources) ? sources.length : 0;
  if (Array.isArray(sources) && sourceCount === 0 && set.some((row) => DEFINING.has(row.variable))) {
    tree.root['sources'] = [mapping()];
  }
  for (const row of set) {
    if (!row.isOfSource || sourceCount <= 1) {
      setFromVariable(tree, row, env[row.variable] ?? '', mistakes);
    } else if (!usedVariables.has(row.variable)) {
      tree.variables.set(pathKey([row.variable]), row.variable);
      const message = `sets an option of a single source, and the file has ${sourceCount}`;
      mistakes.add(tree, [row.variable], message);
    }
  }
}

function setFromVariable(tree: Tree, row: OptionRow, text: string, mistakes: Mistakes): void {
  const path: PathPart[] = row.keys.map((key) => (key === '[]' ? 0 : key));
  if (row.isOfSource && !isMapping(valueAt(tree.root, path.slice(0, 2)))) return;
  const rival = RIVALS.get(row.keys.at(-1) ?? '');
  const rivalPath = rival === undefined ? undefined : [...path.slice(0, -1), rival];
  // If the environment sets both, a later check reports it.
  if (rivalPath !== undefined && !tree.variables.has(pathKey(rivalPath))) {
    setAt(tree.root, rivalPath, undefined);
    mistakes.remove(tree, rivalPath);
  }
  if (!setAt(tree.root, path, fromText(row.schema, text.trim()))) return;
  tree.variables.set(pathKey(path), row.variable);
  tree.templates.delete(pathKey(path));
  tree.unset.delete(pathKey(path));
  mistakes.remove(tree, path);
}

/** A warning for each `TIDEMARK_…` variable that is not an option and that the file does not refer to. */
export function unknownVariables(env: Environment, usedVariables: ReadonlySet<string>): string[] {
  const known = [CONFIG_VARIABLE, ...OPTION_ROWS.map((row) => row.variable)];
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && !known.includes(name))
    .filter((name) => !usedVariables.has(name) && !SERVICE_LINK.test(name))
    .toSorted()
    .map((name) => {
      const names = known.map((each) => each.slice(PREFIX.length));
      const near = didYouMean(name.slice(PREFIX.length), names, (each) => `${PREFIX}${each}`);
      return `${name}: no option has this variable${near}`;
    });
}
