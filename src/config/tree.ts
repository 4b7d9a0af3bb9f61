/** The raw configuration as a tree of plain values, with the origin of each value. */

export type PathPart = string | number;
export type Path = readonly PathPart[];
export type Mapping = Record<string, unknown>;

/** Values before they are parsed with the schema. Mappings have no prototype, so `__proto__` is an ordinary key. */
export interface Tree {
  readonly root: Mapping;
  /** Name of the document in messages, e.g. `tidemark.yaml`; null when there is no file. */
  readonly label: string | null;
  /** Line of each value (its key's line in a mapping), by `pathKey`. */
  readonly lines: Map<string, number>;
  /** The texts with `${VAR}` of interpolated values, by `pathKey`: shown instead of the values. */
  readonly templates: Map<string, string>;
  /** The variable that set a value, by `pathKey`. */
  readonly variables: Map<string, string>;
  /** The messages about values that are missing because a variable is not set, by `pathKey`. */
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

/** A path as a key of maps. */
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
 * Sets the value at a path, and creates mappings on the way; `undefined` removes the key. Returns false if something
 * other than a mapping or list is in the way.
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
