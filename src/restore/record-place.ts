/** The key of a record as one text: for maps of many records. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { scopeKey } from '../catalog/catalog.ts';

/** Equal for equal places only: no id holds the character between the parts. */
export function recordKeyText(kind: Kind, scope: Scope, id: string): string {
  return `${kind}\0${scope.organization_id ?? ''}\0${scope.project_id ?? ''}\0${scope.role_id ?? ''}\0${id}`;
}

/** What is in a text that begins with a place. */
export function partsOf(place: string): { readonly kind: string; readonly id: string } {
  const [kind = '', , , , id = ''] = place.split('\0');
  return { kind, id };
}

/** `scopeKey` for many records of few collections: those that a state gives share one scope object. */
export function scopeKeys(): (scope: Scope) => string {
  const known = new Map<Scope, string>();
  return (scope) => {
    const held = known.get(scope);
    if (held !== undefined) return held;
    const key = scopeKey(scope);
    known.set(scope, key);
    return key;
  };
}

/** Records of one kind by place, for a hundred thousand of them: a text for each would cost more than the look-up. */
export class PlacesOfKind<T> {
  readonly #byScope = new Map<string, Map<string, T>>();
  readonly #keyOf = scopeKeys();

  set(scope: Scope, id: string, value: T): void {
    const key = this.#keyOf(scope);
    let inScope = this.#byScope.get(key);
    if (inScope === undefined) this.#byScope.set(key, (inScope = new Map<string, T>()));
    inScope.set(id, value);
  }

  get(scope: Scope, id: string): T | undefined {
    return this.#byScope.get(this.#keyOf(scope))?.get(id);
  }
}
