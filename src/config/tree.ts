/** Raw configuration as a tree of plain values, with where each value came from. */

export type PathPart = string | number;
export type Path = readonly PathPart[];
export type Mapping = Record<string, unknown>;

/** Raw values before the schema sees them. Mappings have no prototype, so `__proto__` is a key like any other. */
export interface Tree {
  readonly root: Mapping;
  /** Name of the document in messages, e.g. `tidemark.yaml`; null when there is no file. */
  readonly label: string | null;
  /** Line of each value (its key's line in a mapping), by `pathKey`. */
  readonly lines: Map<string, number>;
  /** The text with its `${VAR}` for values that were interpolated, by `pathKey`: shown instead of the value. */
  readonly templates: Map<string, string>;
  /** The variable that set a value, by `pathKey`. */
  readonly variables: Map<string, string>;
  /** Texts with a variable that is not set, which have no value: what is said of it, by `pathKey`. */
  readonly unset: Map<string, string>;
}

export function emptyTree(label: string | null): Tree {
  return {
    root: mapping(),
    label,
    lines: new Map(),
    templates: new Map(),
    variables: new Map(),
    unset: new Map(),
  };
}

export function mapping(): Mapping {
  return Object.create(null) as Mapping;
}

export function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A path as a key that is equal for equal paths. */
export function pathKey(path: Path): string {
  return JSON.stringify(path);
}

/** A path for people: `sources[0].rate.perMinute`. */
export function pathText(path: Path): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += (text === '' ? '' : '.') + (/^[\w-]+$/.test(part) ? part : JSON.stringify(part));
  }
  return text;
}

/** The value at a path; undefined if there is none. */
export function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const part of path) {
    if (Array.isArray(value) && typeof part === 'number') value = value[part] as unknown;
    else if (isMapping(value) && Object.hasOwn(value, part)) value = value[String(part)];
    else return undefined;
  }
  return value;
}

/**
 * Sets the value at a path, making mappings on the way; `undefined` takes the key away. False where something that is
 * neither mapping nor list is in the way.
 */
export function setAt(root: Mapping, path: Path, value: unknown): boolean {
  let holder: unknown = root;
  for (const [index, part] of path.entries()) {
    const isLast = index === path.length - 1;
    if (Array.isArray(holder) && typeof part === 'number') {
      if (isLast) holder[part] = value;
      else holder = holder[part] as unknown;
    } else if (isMapping(holder)) {
      const key = String(part);
      if (isLast) {
        if (value === undefined) Reflect.deleteProperty(holder, key);
        else holder[key] = value;
      } else {
        holder[key] ??= mapping();
        holder = holder[key];
      }
    } else return false;
  }
  return true;
}

/** The nearest entry of a map at or above a path. */
export function nearest<T>(entries: ReadonlyMap<string, T>, path: Path): T | undefined {
  for (let length = path.length; length >= 0; length -= 1) {
    const entry = entries.get(pathKey(path.slice(0, length)));
    if (entry !== undefined) return entry;
  }
  return undefined;
}
