/** A row of the catalog with values derived from it once, which requests, comparisons and reports need. */
import { MASK } from './masks.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { sortNames } from '../core/json.ts';
import type { FieldDefinition, Operation, OperationRole } from './definition.ts';
import type { KindRow } from './kinds.ts';

/**
 * Where a record has users or other records inside, as a tree of members; `*` matches every element. Only there can a
 * member be recognized by its name: any other undocumented member may be configuration.
 */
export interface Embedding {
  /** `subject`: the user that the record itself is about. */
  readonly holds: 'user' | 'subject' | 'record' | 'nothing';
  readonly inside: ReadonlyMap<string, Embedding>;
}

/** Private members make the type nominal. `changedDefinition` makes a copy with other values. */
class Compiled {
  readonly #fields: ReadonlyMap<string, FieldDefinition>;
  readonly #operations: ReadonlyMap<OperationRole, Operation>;
  readonly #managedNames: readonly string[];
  readonly #embedding: Embedding;
  readonly #secretPlaces: readonly (readonly string[])[];

  constructor(row: KindRow) {
    this.#fields = new Map(row.fields.map((field) => [field.name, field]));
    // The first operation of a role counts.
    this.#operations = new Map(row.operations.toReversed().map((operation) => [operation.role, operation]));
    const managed = row.fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile);
    this.#managedNames = sortNames(managed.map(({ name }) => name));
    this.#embedding = embeddingOf(row);
    this.#secretPlaces = row.fields.flatMap((field) => [
      ...(field.isSecret ? [[field.name]] : []),
      ...field.secretPointers.map((pointer) => [field.name, ...splitPointer(pointer)]),
    ]);
  }

  /** The documented fields by name. */
  get fieldsByName(): ReadonlyMap<string, FieldDefinition> {
    return this.#fields;
  }

  /** The names of the members that a restore may write, sorted. */
  get managedNames(): readonly string[] {
    return this.#managedNames;
  }

  /** All known places with users or other records in records of the kind. */
  get embedding(): Embedding {
    return this.#embedding;
  }

  /** Known places of secrets, as segments; `*` matches any one segment. */
  get secretPlaces(): readonly (readonly string[])[] {
    return this.#secretPlaces;
  }

  /** The operation of that role, if the API offers it. */
  operation(role: Exclude<OperationRole, 'action'>): Operation | undefined {
    return this.#operations.get(role);
  }
}

export type ResourceDefinition = KindRow & Compiled;

export function compileDefinition(row: KindRow): ResourceDefinition {
  return Object.assign(new Compiled(row), row);
}

/** The definition with other values in its row. */
export function changedDefinition(row: KindRow, changes: Partial<KindRow>): ResourceDefinition {
  return compileDefinition({ ...row, ...changes });
}

interface OpenEmbedding {
  holds: Embedding['holds'];
  readonly inside: Map<string, OpenEmbedding>;
}

/** Members with the author of an action, in all records and embedded ones (interface.md, Invite; other kinds in profiles). */
const AUTHORS = ['created_by', 'updated_by', 'last_modified_by'] as const;

function embeddingOf({ embeds, idPath }: KindRow): Embedding {
  const root = opened('record');
  for (const pointer of embeds?.records ?? []) put(root, pointer.split('/').slice(1), 'record');
  for (const pointer of embeds?.users ?? []) put(root, pointer.split('/').slice(1), 'user');
  // A record that is addressed by its user is about that user.
  if (idPath.length > 1) put(root, idPath.slice(0, -1), 'subject');
  return root;
}

function put(root: OpenEmbedding, segments: readonly string[], holds: Embedding['holds']): void {
  let at = root;
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1;
    const next = (isLast ? undefined : at.inside.get(segment)) ?? opened(isLast ? holds : 'nothing');
    at.inside.set(segment, next);
    at = next;
  }
}

function opened(holds: Embedding['holds']): OpenEmbedding {
  const authors = holds === 'record' ? AUTHORS : [];
  return { holds, inside: new Map(authors.map((name) => [name, opened('user')])) };
}

/** True if the id is a secret: the id of an invite, for example, is its sign-up link. */
export function isIdSecret({ fields, idPath }: KindRow): boolean {
  return fields.some(({ isSecret, name }) => isSecret && name === idPath.at(-1));
}

/** How many characters of an id a message shows. */
const MOST_ID_SHOWN = 100;

/** The id of a record for a message: in quotes, truncated if too long, masked if a secret. */
export function shownId(definition: KindRow, id: string): string {
  return isIdSecret(definition) ? MASK : JSON.stringify(id.slice(0, MOST_ID_SHOWN));
}
