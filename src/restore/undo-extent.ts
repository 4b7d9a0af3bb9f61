/** What an undo may touch: the records that its restore wrote, and of those that it changed, the fields that it wrote. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { type Plan, type PlanStep, isExecutable } from './plan.ts';
import { placeOf } from './record-place.ts';
import { topMember } from './writable.ts';

type Key = Pick<ParsedRecord, 'kind' | 'scope' | 'id'>;

export class UndoExtent {
  readonly #definitions: (kind: Kind) => ResourceDefinition;
  /** By place, the members that were written; `whole` where the record itself comes or goes. */
  readonly #own = new Map<string, 'whole' | ReadonlySet<string>>();

  constructor(definitions: (kind: Kind) => ResourceDefinition) {
    this.#definitions = definitions;
  }

  add(record: Key, members: 'whole' | readonly string[]): void {
    for (const place of placesOf(record, this.#definitions)) {
      const known = this.#own.get(place);
      const isWhole = known === 'whole' || members === 'whole';
      this.#own.set(place, isWhole ? 'whole' : new Set([...(known ?? []), ...members]));
    }
  }

  delete(record: Key): void {
    for (const place of placesOf(record, this.#definitions)) this.#own.delete(place);
  }

  /** For `PlanInput.isAbout`. */
  readonly has = ({ kind, scope, id }: Key): boolean => this.#own.has(placeOf(kind, scope, id));

  /** For `PlanInput.isOwnField`. */
  readonly hasField = ({ kind, scope, id }: Key, path: string): boolean => {
    const members = this.#own.get(placeOf(kind, scope, id));
    return members === 'whole' || members?.has(topMember(path)) === true;
  };

  /** @throws Error for a step about a record that the restore did not write: a bug, and nothing may be sent */
  require({ steps }: Pick<Plan, 'steps'>): void {
    const stray = steps.find((step) => isExecutable(step) && !this.#isOwn(step));
    if (stray === undefined) return;
    throw new Error(
      `an undo would ${stray.action} ${stray.kind} ${stray.name}, which its restore did not write`,
    );
  }

  #isOwn({ kind, scope, id, desired, precondition }: PlanStep): boolean {
    const isLiveOwn = precondition?.state !== 'present' || this.has({ kind, scope, id: precondition.id });
    return isLiveOwn && this.has(desired ?? { kind, scope, id });
  }
}

/** The record's place, and those where other kinds of its family show it. */
export function placesOf(
  { kind, scope, id }: Key,
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  const { family } = definitions(kind);
  const twins =
    family === null
      ? []
      : CATALOG.filter((each) => each.kind !== kind && definitions(each.kind).family === family);
  return [kind, ...twins.map((each) => each.kind)].map((each) => placeOf(each, scope, id));
}
