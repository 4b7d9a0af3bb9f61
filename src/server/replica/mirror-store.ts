/** A state of the mirror as the interface's store: what was never read is refused, never shown as empty. */
import type { Kind, ResourceDefinition, Scope, ScopeKey } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { PageWindow, ReadableStore, StorePage } from '../store.ts';
import { notFound } from '../wire-error.ts';
import { neverRead, noneHeld } from './refusals.ts';
import type { HeldCollection, ReplicaState } from './replica-state.ts';

/** False on a list of which no reading was ever whole: records may be missing from it. */
export const COMPLETE_HEADER = 'X-Tidemark-Complete';

export class MirrorStore implements ReadableStore {
  readonly #mirror: Mirror;
  readonly #state: ReplicaState;
  readonly #definitionOf: (kind: Kind) => ResourceDefinition;

  constructor(mirror: Mirror, state: ReplicaState, definitionOf: (kind: Kind) => ResourceDefinition) {
    this.#mirror = mirror;
    this.#state = state;
    this.#definitionOf = definitionOf;
  }

  list(kind: Kind, scope: Scope, window: PageWindow): StorePage | undefined {
    const collection = this.#collection(kind, scope);
    if (collection === undefined) return undefined;
    // Without a record it may be the list of an organization that is no longer there.
    if (collection.records === 0 && !this.#hasParents(scope)) return undefined;
    const page = this.#state.shelf.take(this.#mirror, collection.list, window);
    return {
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

function agrees(above: Scope, scope: Scope): boolean {
  const named = Object.entries(above) as [ScopeKey, string][];
  return named.every(([key, value]) => scope[key] === undefined || scope[key] === value);
}
