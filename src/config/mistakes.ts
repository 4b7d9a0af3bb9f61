/** Collects what is wrong with a configuration, so that all of it is reported at once. */
import { TidemarkError } from '../core/errors.ts';
import { nearest, pathKey, pathText, type Path, type Tree } from './tree.ts';

/** One thing that is wrong, or (as a warning) unwise. */
interface Mistake {
  readonly tree: Tree;
  readonly path: Path;
  readonly message: string;
  /** Line that overrides the one of `path`, for what is wrong with the text itself. */
  readonly line?: number;
  /** True for a mistake of the text that leaves all of it readable. */
  readonly isBeside?: boolean;
  /** True where nothing but a variable is missing from the environment. */
  readonly isUnset?: boolean;
}

export class Mistakes {
  #found: Mistake[] = [];
  readonly #failed = new Set<string>();

  /** Notes a mistake at a path and marks the path, so that nothing follows from its value. */
  add(tree: Tree, path: Path, message: string, line?: number): void {
    this.#found.push({ tree, path, message, ...(line === undefined ? {} : { line }) });
    if (path.length > 0) this.#failed.add(failedKey(tree, path));
  }

  /** Notes a mistake of the text that leaves the rest readable: what follows from the values is reported too. */
  addBeside(tree: Tree, message: string, line: number): void {
    this.#found.push({ tree, path: [], message, line, isBeside: true });
  }

  /** Notes a value whose variables are not set in the environment. */
  addUnset(tree: Tree, path: Path, message: string): void {
    this.#found.push({ tree, path, message, isUnset: true });
    this.#failed.add(failedKey(tree, path));
  }

  /** True where the value at this path, or one above it, was found wrong, or its variable is not set. */
  covers(tree: Tree, path: Path): boolean {
    for (let length = path.length; length > 0; length -= 1) {
      const above = path.slice(0, length);
      if (this.#failed.has(failedKey(tree, above)) || tree.unset.has(pathKey(above))) return true;
    }
    return false;
  }

  /** True where a value below this path was found wrong. */
  isBelow(tree: Tree, at: Path): boolean {
    return this.#found.some(({ tree: own, path }) => own === tree && isWithin(path, at));
  }

  /** True when the text of a document could not be parsed: further mistakes of its values would be misleading. */
  get hasTextMistake(): boolean {
    return this.#found.some(({ path, isBeside }) => path.length === 0 && isBeside !== true);
  }

  /** Drops the mistakes at and below a path, for a value that is replaced or not needed. */
  remove(tree: Tree, at: Path): void {
    const removed = this.#found.filter((mistake) => mistake.tree === tree && isWithin(mistake.path, at));
    this.#found = this.#found.filter((mistake) => !removed.includes(mistake));
    for (const { path } of removed) this.#failed.delete(failedKey(tree, path));
  }

  /** Drops the mistakes below a path that are variables not set, and returns them as lines. */
  removeUnset(tree: Tree, at: Path): string[] {
    const unset = this.#found.filter(
      (mistake) => mistake.tree === tree && mistake.isUnset === true && isWithin(mistake.path, at),
    );
    this.#found = this.#found.filter((mistake) => !unset.includes(mistake));
    for (const { path } of unset) this.#failed.delete(failedKey(tree, path));
    return unset.map(({ path, message }) => `${place(tree, path)}${message}`);
  }

  get count(): number {
    return this.#found.length;
  }

  /** A line each, in the order of the files' lines; what came by environment last. */
  lines(): string[] {
    const order = (mistake: Mistake): number =>
      mistake.line ?? lineOf(mistake.tree, mistake.path) ?? Infinity;
    return this.#found
      .toSorted((a, b) => {
        const [first, second] = [order(a), order(b)];
        return first === second ? 0 : first - second;
      })
      .map(({ tree, path, message, line }) => `${place(tree, path, line)}${message}`);
  }

  /**
   * Ends the reading when anything was wrong.
   * @throws TidemarkError `config_invalid` whose message lists every mistake on a line of its own
   */
  throwIfAny({
    what = 'the configuration',
    hint = '`tidemark config check` reads it again; docs/configuration.md describes every option',
  }: { readonly what?: string; readonly hint?: string } = {}): void {
    const lines = this.lines();
    if (lines.length === 0) return;
    const message =
      lines.length === 1 ? lines.join('') : `${lines.length} mistakes in ${what}:\n${lines.join('\n')}`;
    throw new TidemarkError('config_invalid', message, { hint });
  }
}

/** True at and below a path. */
function isWithin(path: Path, at: Path): boolean {
  return at.every((part, index) => path[index] === part);
}

function failedKey(tree: Tree, path: Path): string {
  return `${tree.label ?? ''} ${pathKey(path)}`;
}

function lineOf(tree: Tree, path: Path): number | undefined {
  return tree.variables.has(pathKey(path)) ? undefined : nearest(tree.lines, path);
}

/** `tidemark.yaml:12: sources[0].rate: `, or the variable's name for a value from the environment. */
export function place(tree: Tree, path: Path, line?: number): string {
  const variable = nearest(tree.variables, path);
  if (variable !== undefined) return `${variable}: `;
  const text = path.length === 0 ? '' : `${pathText(path)}: `;
  if (tree.label === null) return text;
  const at = line ?? lineOf(tree, path);
  return at === undefined ? `${tree.label}: ${text}` : `${tree.label}:${at}: ${text}`;
}

/** A value for a message: short, on one line, without the credentials of a URL. */
export function shown(value: unknown): string {
  if (value === undefined || value === null || value === '') return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a mapping';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return `a ${typeof value}`;
  const text = value.replace(/(:?\/\/)[^/@\s]*@/g, '$1…@');
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
