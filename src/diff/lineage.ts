/** Whether the parents of a record are part of one side of a comparison: without them its twin cannot be told. */
import { type Kind, type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';

/** What is known of one side, filled from parents to children. */
export class Lineage {
  readonly #obstacles = new Map<string, string | null>();

  /** A record of this side; `obstacle` says in one line why what hangs from it cannot be compared, null if it can. */
  add(kind: Kind, id: string, obstacle: string | null): void {
    this.#obstacles.set(`${kind} ${id}`, obstacle);
  }

  /** Why records of this scope cannot be compared; null when they can. */
  obstacle(scope: Scope): string | null {
    for (const key of SCOPE_KEYS) {
      const id = scope[key];
      if (id === undefined) continue;
      const known = this.#obstacles.get(`${SCOPE_KIND[key]} ${id}`);
      if (known === undefined) return `the record that ${key} names was not read`;
      if (known !== null) return known;
    }
    return null;
  }
}
