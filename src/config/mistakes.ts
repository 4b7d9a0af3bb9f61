/** Collects the mistakes in a configuration, so that all are reported at once. */
import { TidemarkError } from '../core/errors.ts';
import { nearest, pathKey, pathText, type Path, type Tree } from './tree.ts';

interface Mistake {
  readonly tree: Tree;
  readonly path: Path;
  readonly message: string;
  /** Line in place of that of `path`, for mistakes of the text. */
  readonly line?: number;
  /** True for a mistake of the text in spite of which the rest could be read. */
  readonly isBeside?: boolean;
  /** True if the only problem is a variable that is not set. */
  readonly isUnset?: boolean;
}

export class Mistakes {
  #found: Mistake[] = [];
  readonly #failed = new Set<string>();

  /** Adds a mistake at a path. `covers` is then true for the path, so that its value causes no further mistakes. */
  add(tree: Tree, path: Path, message: string, line?: number): void {
    this.#found.push({ tree, path, message, ...(line === undefined ? {} : { line }) });
    if (path.length > 0) this.#failed.add(failedKey(tree, path));
  }

  /** Adds a mistake of the text in spite of which the rest could be read, and is checked. */
  addBeside(tree: Tree, message: string, line: number): void {
    this.#found.push({ tree, path: [], message, line, isBeside: true });
  }

  /** Adds a mistake for a value whose variables are not set. */
  addUnset(tree: Tree, path: Path, message: string): void {
    this.#found.push({ tree, path, message, isUnset: true });
    this.#failed.add(failedKey(tree, path));
  }

  /** True if the value at this path, or one above it, is wrong, or its variable is not set. */
  covers(tree: Tree, path: Path): boolean {
    for (let length = path.length; length > 0; length -= 1) {
      const above = path.slice(0, length);
      if (this.#failed.has(failedKey(tree, above)) || tree.unset.has(pathKey(above))) return true;
    }
    return false;
  }

  /** True if the value at this path, or one below it, is wrong. */
  isBelow(tree: Tree, at: Path): boolean {
    return this.#found.some(({ tree: own, path }) => own === tree && isWithin(path, at));
  }

  /** True if the text of a document could not be parsed: then mistakes of its values would be misleading. */
  get hasTextMistake(): boolean {
    return this.#found.some(({ path, isBeside }) => path.length === 0 && isBeside !== true);
  }

  /** Removes the mistakes at and below a path, for a value that is replaced or not needed. */
  remove(tree: Tree, at: Path): void {
    this.#remove(tree, at, () => true);
  }

  /** Removes the mistakes at and below a path about variables that are not set, and returns their lines. */
  removeUnset(tree: Tree, at: Path): string[] {
    const unset = this.#remove(tree, at, ({ isUnset }) => isUnset === true);
    return unset.map(({ path, message }) => `${place(tree, path)}${message}`);
  }

  #remove(tree: Tree, at: Path, isMeant: (mistake: Mistake) => boolean): readonly Mistake[] {
    const removed = this.#found.filter(
      (mistake) => mistake.tree === tree && isWithin(mistake.path, at) && isMeant(mistake),
    );
    this.#found = this.#found.filter((mistake) => !removed.includes(mistake));
    for (const { path } of removed) this.#failed.delete(failedKey(tree, path));
    return removed;
  }

  get count(): number {
    return this.#found.length;
  }

  /** A line for each mistake, in the order of the lines of files; those of the environment last. */
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

  /** @throws TidemarkError `config_invalid` with every mistake on a line of its own, if there are any */
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
