/** A row of the catalog with what is worked out of it once: every request, comparison and report asks for some of it. */
import { MASK } from './masks.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { sortNames } from '../core/json.ts';
import type { FieldDefinition, Operation, OperationRole } from './definition.ts';
import type { KindRow } from './kinds.ts';

/**
 * Where a record holds users or other records in itself, and what is known of the places below; `*` is every element.
 * Only there does a name identify a member: any other undocumented member may be configuration.
 */
export interface Embedding {
  /** `subject`: the user whom the record itself is about. */
  readonly holds: 'user' | 'subject' | 'record' | 'nothing';
  readonly inside: ReadonlyMap<string, Embedding>;
}

/** Private members make it nominal: a copy with other values is made by `changedDefinition`. */
class Compiled {
  readonly #fields: ReadonlyMap<string, FieldDefinition>;
  readonly #operations: ReadonlyMap<OperationRole, Operation>;
  readonly #managedNames: readonly string[];
  readonly #embedding: Embedding;
  readonly #secretPlaces: readonly (readonly string[])[];

  constructor(row: KindRow) {
    this.#fields = new Map(row.fields.map((field) => [field.name, field]));
    // The first of a role counts.
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

  /** All known places of the kind's records that hold users or other records. */
  get embedding(): Embedding {
    return this.#embedding;
  }

  /** Where secrets are known to be, as segments; `*` stands for any one segment. */
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

/** Members of any record, embedded ones too, that say who did something (interface.md, Invite; the profiles' other kinds). */
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

/** An invite's id, for one, is its sign-up link. */
export function isIdSecret({ fields, idPath }: KindRow): boolean {
  return fields.some(({ isSecret, name }) => isSecret && name === idPath.at(-1));
}

/** Characters of an id that a message shows. */
const MOST_ID_SHOWN = 100;

/** A record's id for a message: in quotes, cut where it is too long, a mask where it is a secret. */
export function shownId(definition: KindRow, id: string): string {
  return isIdSecret(definition) ? MASK : JSON.stringify(id.slice(0, MOST_ID_SHOWN));
}
