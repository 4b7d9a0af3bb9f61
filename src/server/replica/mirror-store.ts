/** A state of the mirror as the interface's store: what was never read is refused, never shown as empty. */
import type { Kind, ResourceDefinition, Scope, ScopeKey } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordPage } from '../../mirror/record-page.ts';
import type { PageWindow, ReadableStore, StorePage } from '../store.ts';
import { notFound } from '../wire-error.ts';
import { neverRead, noneHeld } from './refusals.ts';
import type { HeldCollection, ReplicaState } from './replica-state.ts';

/** False on a list of which no reading was ever whole: records may be missing from it. */
const COMPLETE_HEADER = 'X-Tidemark-Complete';

export class MirrorStore implements ReadableStore {
  readonly #mirror: Mirror;
  readonly #state: ReplicaState;
  readonly #definitionOf: (kind: Kind) => ResourceDefinition;
  readonly #later: (read: () => void) => void;

  /** @param later reads in the same state once the answer is on its way; not at all where it is another by then */
  constructor(
    mirror: Mirror,
    state: ReplicaState,
    definitionOf: (kind: Kind) => ResourceDefinition,
    later: (read: () => void) => void,
  ) {
    this.#mirror = mirror;
    this.#state = state;
    this.#definitionOf = definitionOf;
    this.#later = later;
  }

  list(kind: Kind, scope: Scope, window: PageWindow): StorePage | undefined {
    const collection = this.#collection(kind, scope);
    if (collection === undefined) return undefined;
    // Without a record it may be the list of an organization that is no longer there.
    if (collection.records === 0 && !this.#hasParents(scope)) return undefined;
    const { shelf } = this.#state;
    const { page, isOwn } = shelf.take(this.#mirror, collection.list, window);
    const next = shelf.following(collection.list, window, page, collection.records);
    const whenSent = (): void => {
      if (isOwn) freePage(page);
      if (next !== null) this.#later(() => shelf.readAhead(this.#mirror, collection.list, next));
    };
    return {
      whenSent,
      count: collection.records,
      records: page.bodies,
      headers: { [COMPLETE_HEADER]: String(collection.completeRun !== null) },
    };
  }

  retrieve(kind: Kind, scope: Scope, id: string): string | undefined {
    const collection = this.#collection(kind, scope);
    if (collection === undefined) return undefined;
    const text = this.#mirror.recordIn(collection.list, id);
    if (text === undefined && collection.completeRun === null) {
      throw noneHeld(this.#definitionOf(kind));
    }
    return text;
  }

  organizationOf(projectId: string): string | undefined {
    return this.#holding('project_id', projectId, {})?.scope.organization_id;
  }

  /** Undefined where it was not there; throws where the mirror cannot know. */
  #collection(kind: Kind, scope: Scope): HeldCollection | undefined {
    const collection = this.#state.collection(kind, scope);
    if (collection?.isRetired === true) return undefined;
    if (collection?.wasRead === true) return collection;
    if (collection === undefined && !this.#hasParents(scope)) throw notFound();
    throw neverRead(this.#definitionOf(kind), collection ?? null);
  }

  #hasParents(scope: Scope): boolean {
    const named = Object.entries(scope) as [ScopeKey, string][];
    return named.every(([key, id]) => this.#holding(key, id, scope) !== undefined);
  }

  /** The collection that holds the record which a scope value names, where its own scope agrees with the rest. */
  #holding(key: ScopeKey, id: string, scope: Scope): HeldCollection | undefined {
    return this.#state
      .ofKind(SCOPE_KIND[key])
      .find(
        ({ scope: above, list }) => agrees(above, scope) && this.#mirror.recordIn(list, id) !== undefined,
      );
  }
}

/** Smaller ones are not worth it. */
const LEAST_FREED_BYTES = 64 * 1024;

/**
 * Gives the memory of a page back that nobody needs any more: the collector would look through everything once for some
 * thirty large pages, which takes a third of the time of a walk.
 */
function freePage({ bodies }: RecordPage): void {
  const { buffer, byteLength } = bodies;
  // A small buffer shares its memory with others.
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  if (isWhole && byteLength >= LEAST_FREED_BYTES) buffer.transfer(0);
}

function agrees(above: Scope, scope: Scope): boolean {
  const named = Object.entries(above) as [ScopeKey, string][];
  return named.every(([key, value]) => scope[key] === undefined || scope[key] === value);
}
