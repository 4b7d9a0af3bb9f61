/** Reads the schemas of an OpenAPI 3 document: follows references, joins `allOf`, ignores null. Pure and bounded. */
import type { FieldType } from '../catalog/definition.ts';

export type Node = Readonly<Record<string, unknown>>;

/** One member of an object in the document. */
export interface Member {
  readonly type: FieldType;
  readonly isReadOnly: boolean;
}

const MOST_HOPS = 20; // references in a row: more are a cycle
const DEEPEST = 10; // nested schemas that are joined

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The target of `#/…` references; undefined for one that leads nowhere, in a cycle or out of the document. */
export function resolved(document: Node, value: unknown): Node | undefined {
  let node = value;
  for (let hops = 0; hops < MOST_HOPS; hops += 1) {
    if (!isNode(node)) return undefined;
    const reference = node['$ref'];
    if (typeof reference !== 'string') return node;
    if (!reference.startsWith('#/')) return undefined;
    node = reference
      .slice(2)
      .split('/')
      .map((part) => decoded(part).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>(
        (at, name) => (isNode(at) && Object.hasOwn(at, name) ? at[name] : undefined),
        document,
      );
  }
  return undefined;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // A stray percent sign: the name is not encoded.
    return part;
  }
}

/** The alternatives of the schema except null; the caller joins them. */
function alternatives(document: Node, value: unknown, depth: number): Node[] {
  const schema = resolved(document, value);
  if (schema === undefined || depth > DEEPEST) return [];
  const parts = ['oneOf', 'anyOf'].flatMap((name) => {
    const list = schema[name];
    return Array.isArray(list) ? list.flatMap((each) => alternatives(document, each, depth + 1)) : [];
  });
  const isBare = parts.length > 0 && schema['properties'] === undefined && schema['type'] === undefined;
  const own = isBare ? [] : [schema];
  return [...own, ...parts].filter((each) => each['type'] !== 'null');
}

/** The members of the schema of an object, including those of `allOf` and of alternatives; null if it shows none. */
export function membersOf(document: Node, value: unknown): ReadonlyMap<string, Member> | null {
  const members = new Map<string, Member>();
  gather(document, value, members, 0);
  return members.size === 0 ? null : members;
}

function gather(document: Node, value: unknown, into: Map<string, Member>, depth: number): void {
  if (depth > DEEPEST) return;
  for (const schema of alternatives(document, value, depth)) {
    for (const each of allOf(schema)) gather(document, each, into, depth + 1);
    const properties = schema['properties'];
    if (!isNode(properties)) continue;
    for (const [name, property] of Object.entries(properties)) into.set(name, memberOf(document, property));
  }
}

function memberOf(document: Node, value: unknown): Member {
  // Flags beside a reference count too: 3.1 allows them there, and tools for 3.0 write them.
  const flags = [...(isNode(value) ? [value] : []), ...joined(document, value, 0)];
  const isReadOnly = flags.some(({ readOnly }) => readOnly === true);
  return { type: typeOf(document, value, 0), isReadOnly };
}

function joined(document: Node, value: unknown, depth: number): Node[] {
  if (depth > DEEPEST) return [];
  const schema = resolved(document, value);
  if (schema === undefined) return [];
  return [schema, ...allOf(schema).flatMap((each) => joined(document, each, depth + 1))];
}

function allOf(schema: Node): readonly unknown[] {
  const parts = schema['allOf'];
  return Array.isArray(parts) ? parts : [];
}

/** `any` if the document has none, or several. */
function typeOf(document: Node, value: unknown, depth: number): FieldType {
  if (depth > DEEPEST) return 'any';
  const found = new Set(
    alternatives(document, value, depth).flatMap((schema) => {
      const own = ownTypes(schema);
      if (own.length > 0) return own;
      return allOf(schema)
        .map((each) => typeOf(document, each, depth + 1))
        .filter((type) => type !== 'any');
    }),
  );
  const [only] = found;
  return found.size === 1 && only !== undefined ? only : 'any';
}

const FORMATS: Readonly<Record<string, FieldType>> = { uuid: 'uuid', 'date-time': 'timestamp' };
const TYPES = ['integer', 'number', 'boolean', 'object', 'array'] as const;

function ownTypes(schema: Node): FieldType[] {
  const { type, format, properties, enum: values } = schema;
  const named: readonly unknown[] = Array.isArray(type) ? type : [type];
  const names = named.filter((name) => name !== 'null');
  const types = names.flatMap((name): FieldType[] => {
    if (name === 'string') return [(typeof format === 'string' ? FORMATS[format] : undefined) ?? 'string'];
    return TYPES.filter((known) => known === name);
  });
  if (types.length > 0) return types;
  if (isNode(properties)) return ['object'];
  const isText =
    Array.isArray(values) && values.length > 0 && values.every((each) => typeof each === 'string');
  return isText ? ['string'] : [];
}
