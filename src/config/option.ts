/** What an options table is made of, and the type that a table's values have once parsed. */
import type { ValueType } from './value-types.ts';
import { type Mapping, isMapping, mapping } from './tree.ts';

/** One option. A table's types, defaults, documentation and JSON Schema all come from these. */
export interface Option<T> {
  readonly node: 'option';
  readonly value: ValueType<Exclude<T, undefined>>;
  /** As it would be written in YAML; undefined where there is none. */
  readonly default: unknown;
  /** For the reference where `default` is not sufficient. */
  readonly defaultNote: string | null;
  readonly unit: string | null;
  readonly description: string;
  /** As it would be written in YAML. */
  readonly example: unknown;
  readonly isSecret: boolean;
}

export type Options = Readonly<Record<string, OptionNode>>;

/** Options that belong together. */
export interface Section<S extends Options = Options> {
  readonly node: 'section';
  readonly description: string;
  readonly options: S;
}

/** A list of sections of one form. */
interface ListOf<S extends Options = Options> {
  readonly node: 'list';
  readonly description: string;
  readonly of: Section<S>;
}

/** Sections of one form by name. */
export interface MapOf<S extends Options = Options> {
  readonly node: 'map';
  readonly description: string;
  readonly of: Section<S>;
  /** The names that there are; null where any may be. */
  readonly keys: readonly string[] | null;
  /** What a name is, for messages: `kind`, `field`. */
  readonly keyTitle: string;
  /** As it would be written in YAML. */
  readonly example: unknown;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a table holds options of every type
export type OptionNode = Option<any> | Section | ListOf | MapOf;

/** The type of a parsed table: defaults filled in, `undefined` where an option has none and was not given. */
export type Parsed<N> =
  N extends Option<infer T>
    ? T
    : N extends Section<infer S>
      ? { readonly [K in keyof S]: Parsed<S[K]> }
      : N extends ListOf<infer S>
        ? readonly { readonly [K in keyof S]: Parsed<S[K]> }[]
        : N extends MapOf<infer S>
          ? Readonly<Record<string, { readonly [K in keyof S]: Parsed<S[K]> }>>
          : never;

interface About {
  readonly description: string;
  readonly example: unknown;
  readonly unit?: string;
  readonly isSecret?: boolean;
  readonly defaultNote?: string;
}

/** An option with a default, written as in YAML. */
export function option<T>(value: ValueType<T>, about: About & { readonly default: unknown }): Option<T> {
  return { ...optional(value, about), default: about.default };
}

/** An option without a default. */
export function optional<T>(value: ValueType<T>, about: About): Option<T | undefined> {
  return {
    node: 'option',
    value: value as ValueType<Exclude<T, undefined>>,
    default: undefined,
    defaultNote: about.defaultNote ?? null,
    unit: about.unit ?? null,
    description: about.description,
    example: about.example,
    isSecret: about.isSecret ?? false,
  };
}

export function section<S extends Options>(description: string, options: S): Section<S> {
  return { node: 'section', description, options };
}

export function listOf<S extends Options>(description: string, of: Section<S>): ListOf<S> {
  return { node: 'list', description, of };
}

export function mapOf<S extends Options>(
  description: string,
  keyTitle: string,
  keys: readonly string[] | null,
  of: Section<S>,
  example: unknown,
): MapOf<S> {
  return { node: 'map', description, keyTitle, keys, of, example };
}

/**
 * Raw values with the defaults of a table filled in. Values of the wrong form are left for the schema to refuse; an
 * empty key (`rate:` and nothing after it) is an empty section.
 */
export function withDefaults(node: OptionNode, raw: unknown): unknown {
  if (node.node === 'option') return raw === undefined ? node.default : raw;
  if (node.node === 'list') {
    if (raw === undefined || raw === null) return [];
    return Array.isArray(raw) ? raw.map((item) => withDefaults(node.of, item)) : raw;
  }
  if (raw !== undefined && raw !== null && !isMapping(raw)) return raw;
  const given = raw ?? mapping();
  const filled: Mapping = Object.assign(mapping(), given);
  if (node.node === 'map') {
    for (const [name, value] of Object.entries(given)) filled[name] = withDefaults(node.of, value);
    return filled;
  }
  for (const [name, child] of Object.entries(node.options)) {
    const value = withDefaults(child, given[name]);
    if (value !== undefined) filled[name] = value;
  }
  return filled;
}

/** The node of a table at a path, or the option above it: names and list positions are followed as far as they go. */
export function nodeAt(table: OptionNode, path: readonly (string | number)[]): OptionNode | undefined {
  let node: OptionNode | undefined = table;
  for (const part of path) {
    if (node === undefined || node.node === 'option') return node;
    if (node.node === 'section') node = Object.hasOwn(node.options, part) ? node.options[part] : undefined;
    else node = node.of;
  }
  return node;
}
