/**
 * Where a record holds users or other records in itself. Only there does a name tell what a member is: anything else that
 * nobody documents may be what somebody configured, and all of it counts.
 */
import type { ResourceDefinition } from './definition.ts';

/** What a place of a record holds, and what is known of the places below it; `*` is every element. */
export interface Embedding {
  /** `subject`: the user whom the record itself is about. */
  readonly holds: 'user' | 'subject' | 'record' | 'nothing';
  readonly inside: ReadonlyMap<string, Embedding>;
}

interface Open {
  holds: Embedding['holds'];
  readonly inside: Map<string, Open>;
}

/** Members of any record, embedded ones too, that say who did something (interface.md, Invite; the profiles' other kinds). */
const AUTHORS = ['created_by', 'updated_by', 'last_modified_by'] as const;

const EMBEDDINGS = new WeakMap<ResourceDefinition, Embedding>();

/** All known places of the kind's records. Made once: every comparison asks for it. */
export function embeddingOf(definition: ResourceDefinition): Embedding {
  const known = EMBEDDINGS.get(definition);
  if (known !== undefined) return known;
  const { embeds, idPath } = definition;
  const root = opened('record');
  for (const pointer of embeds?.records ?? []) put(root, pointer.split('/').slice(1), 'record');
  for (const pointer of embeds?.users ?? []) put(root, pointer.split('/').slice(1), 'user');
  // A record that is addressed by its user is about that user.
  if (idPath.length > 1) put(root, idPath.slice(0, -1), 'subject');
  EMBEDDINGS.set(definition, root);
  return root;
}

function put(root: Open, segments: readonly string[], holds: Embedding['holds']): void {
  let at = root;
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1;
    const next = (isLast ? undefined : at.inside.get(segment)) ?? opened(isLast ? holds : 'nothing');
    at.inside.set(segment, next);
    at = next;
  }
}

function opened(holds: Embedding['holds']): Open {
  const authors = holds === 'record' ? AUTHORS : [];
  return { holds, inside: new Map(authors.map((name) => [name, opened('user')])) };
}
