/** Options from environment variables, laid over what the file says. */
import { suggest } from '../core/suggest.ts';
import type { Environment } from './document.ts';
import type { Mistakes } from './mistakes.ts';
import { OPTIONS } from './options.ts';
import { type OptionRow, rowsOf } from './rows.ts';
import { isMapping, mapping, pathKey, setAt, valueAt, type PathPart, type Tree } from './tree.ts';

const PREFIX = 'TIDEMARK_';

/** Names the configuration file where `--config` does not. */
export const CONFIG_VARIABLE = 'TIDEMARK_CONFIG';

/** Variables that alone define a source where the file has none. */
const DEFINING = new Set(['TIDEMARK_BASE_URL', 'TIDEMARK_API_KEY', 'TIDEMARK_API_KEY_FILE']);

/** Options of which the environment's choice takes the place of the file's other one. */
const EITHER_OR: readonly (readonly [string, string])[] = [
  ['apiKey', 'apiKeyFile'],
  ['include', 'exclude'],
  ['token', 'tokenFile'],
];

// Container platforms set these variables for a service called "tidemark": they are not options.
const SERVICE_LINK = /^TIDEMARK_(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP)\w*)?)$/;

/**
 * Writes every option that a `TIDEMARK_…` variable sets into the tree; an empty variable counts as unset. Options of a
 * source apply to the only one there is (made where there is none); with several they are a mistake, unless the file
 * itself refers to the variable.
 */
export function applyEnvironment(
  tree: Tree,
  env: Environment,
  usedVariables: ReadonlySet<string>,
  mistakes: Mistakes,
): void {
  const set = rowsOf(OPTIONS).filter((row) => (env[row.variable] ?? '') !== '');
  const sources = tree.root['sources'];
  const sourceCount = Array.isArray(sources) ? sources.length : 0;
  if (sourceCount === 0 && set.some((row) => DEFINING.has(row.variable)) && isAbsent(sources)) {
    tree.root['sources'] = [mapping()];
  }
  for (const row of set) {
    if (row.isOfSource && sourceCount > 1) {
      if (usedVariables.has(row.variable)) continue;
      tree.variables.set(pathKey([row.variable]), row.variable);
      mistakes.add(
        tree,
        [row.variable],
        `sets an option of a single source, and the file has ${sourceCount}`,
      );
      continue;
    }
    setFromVariable(tree, row, env[row.variable] ?? '', mistakes);
  }
}

function isAbsent(sources: unknown): boolean {
  return sources === undefined || sources === null || (Array.isArray(sources) && sources.length === 0);
}

function setFromVariable(tree: Tree, row: OptionRow, text: string, mistakes: Mistakes): void {
  const path: PathPart[] = row.keys.map((key) => (key === '[]' ? 0 : key));
  if (row.isOfSource && !isMapping(valueAt(tree.root, path.slice(0, 2)))) return;
  for (const [one, other] of EITHER_OR) {
    const last = row.keys.at(-1);
    const rival = last === one ? other : last === other ? one : undefined;
    if (rival === undefined) continue;
    const rivalPath = [...path.slice(0, -1), rival];
    // Where both came by environment the later check names the two.
    if (tree.variables.has(pathKey(rivalPath))) continue;
    setAt(tree.root, rivalPath, undefined);
    mistakes.remove(tree, rivalPath);
  }
  const value = row.node.node === 'option' ? row.node.value.fromText(text.trim()) : jsonOrText(text);
  if (!setAt(tree.root, path, value)) return;
  tree.variables.set(pathKey(path), row.variable);
  tree.templates.delete(pathKey(path));
  mistakes.remove(tree, path);
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON: the schema says what it expected.
    return text;
  }
}

/** A warning for each `TIDEMARK_…` variable that is not an option and that the file does not refer to. */
export function unknownVariables(env: Environment, usedVariables: ReadonlySet<string>): string[] {
  const known = [CONFIG_VARIABLE, ...rowsOf(OPTIONS).map((row) => row.variable)];
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && !known.includes(name))
    .filter((name) => !usedVariables.has(name) && !SERVICE_LINK.test(name))
    .toSorted()
    .map((name) => {
      const near = suggest(
        name.slice(PREFIX.length),
        known.map((each) => each.slice(PREFIX.length)),
      );
      return `${name}: no option has this variable${near === undefined ? '' : `; did you mean ${PREFIX}${near}?`}`;
    });
}
