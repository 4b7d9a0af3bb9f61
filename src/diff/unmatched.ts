/** Why records of two sources are reported as removed and added although both have their names: the parent has no counterpart, or another one. */
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type ParsedRecord, type RecordChange, recordName } from './change.ts';
import { idText, type RecordMatch } from './match-records.ts';

type Alone = Exclude<RecordChange['change'], 'changed'>;

/** A record that others name in their scope, or by a reference in their natural key. */
interface Parent {
  readonly kind: Kind;
  readonly id: string;
  readonly name: string;
}

/** A parent without a counterpart. */
interface UnmatchedParent extends Parent {
  /** By kind, the number of reported records that depend on it. */
  readonly below: ReadonlyMap<Kind, number>;
  /** How they are reported. */
  readonly change: Alone;
}

/** Records with the same names that belong to one parent in FROM and to another one in TO. */
interface Elsewhere {
  readonly kind: Kind;
  readonly from: Parent;
  readonly to: Parent;
  readonly names: readonly string[];
}

interface Counted extends Parent {
  readonly change: Alone;
  readonly below: Map<Kind, number>;
  /** The unmatched parent above it, if any: what is below both is counted there. */
  readonly above: Counted | undefined;
}

interface ShownRecord {
  readonly kind: Kind;
  readonly name: string;
  readonly parent: Parent;
  readonly change: Alone;
}

/** Filled by a comparison of two sources, kind by kind, parents first. */
export class UnmatchedParents {
  /** All parents of both sides, for their names. */
  readonly #parents = { removed: new Map<string, Parent>(), added: new Map<string, Parent>() };
  readonly #unmatched = { removed: new Map<string, Counted>(), added: new Map<string, Counted>() };
  readonly #shown: ShownRecord[] = [];

  /** Takes the match of a kind, reported or not. `isKnown`: whether the other side's records of the kind were read. */
  matched(
    definition: ResourceDefinition,
    { pairs, removed, added }: RecordMatch,
    isKnown: Readonly<Record<Alone, boolean>>,
  ): void {
    const { kind } = definition;
    if (!PARENT_KINDS.has(kind)) return;
    const parentOf = ({ id, body }: ParsedRecord): Parent => ({
      kind,
      id,
      name: recordName(definition, body, id),
    });
    for (const { from, to } of pairs) {
      this.#parents.removed.set(`${kind} ${from.id}`, parentOf(from));
      this.#parents.added.set(`${kind} ${to.id}`, parentOf(to));
    }
    const alone = { removed, added };
    for (const change of ['removed', 'added'] as const)
      for (const record of alone[change]) {
        const parent = parentOf(record);
        this.#parents[change].set(`${kind} ${record.id}`, parent);
        if (!isKnown[change]) continue;
        const above = this.#unmatchedAbove(record.scope, [], change)[0];
        this.#unmatched[change].set(`${kind} ${record.id}`, { ...parent, change, below: new Map(), above });
      }
  }

  /** Takes a reported record; the parents of its kind were matched before. */
  shown(definition: ResourceDefinition, { scope, id, body }: ParsedRecord, change: Alone): void {
    const { kind, naturalKey, references } = definition;
    const named = references
      .filter(({ pointer }) => naturalKey.includes(pointer))
      .flatMap(({ pointer, kind: other }) => {
        const value = resolvePointer(body, pointer);
        return value === undefined || value === null ? [] : [{ kind: other, id: idText(value) }];
      });
    const above = this.#unmatchedAbove(scope, named, change);
    for (const parent of new Set(above.map(topOf))) parent.below.set(kind, (parent.below.get(kind) ?? 0) + 1);
    if (this.#unmatchedAbove(scope, [], change).length > 0) return;
    const [reference] = named;
    if (reference === undefined) return;
    const parent = this.#parents[change].get(`${reference.kind} ${reference.id}`) ?? {
      ...reference,
      name: reference.id,
    };
    this.#shown.push({ kind, name: recordName(definition, body, id), parent, change });
  }

  /** The topmost unmatched parents with reported records below them. */
  get parents(): readonly UnmatchedParent[] {
    return [...this.#unmatched.removed.values(), ...this.#unmatched.added.values()].filter(
      ({ below }) => below.size > 0,
    );
  }

  /** The records that were removed below one parent and added below another, for each pair of parents. */
  get elsewhere(): readonly Elsewhere[] {
    const byName = Map.groupBy(this.#shown, ({ kind, name }) => `${kind} ${name}`);
    const found = [...byName.values()].flatMap((same) => {
      const from = same.find(({ change }) => change === 'removed');
      const to = same.find(({ change }) => change === 'added');
      return from === undefined || to === undefined ? [] : [{ ...from, from: from.parent, to: to.parent }];
    });
    const byPair = Map.groupBy(found, ({ kind, from, to }) => JSON.stringify([kind, from.id, to.id]));
    return [...byPair.values()].flatMap((same) => {
      const [first] = same;
      if (first === undefined) return [];
      const { kind, from, to } = first;
      return [{ kind, from, to, names: same.map(({ name }) => name) }];
    });
  }

  #unmatchedAbove(
    scope: Scope,
    named: readonly { readonly kind: Kind; readonly id: string }[],
    change: Alone,
  ): Counted[] {
    const inScope = SCOPE_KEYS.flatMap((key) => {
      const id = scope[key];
      return id === undefined ? [] : [{ kind: SCOPE_KIND[key], id }];
    });
    return [...inScope, ...named].flatMap(
      ({ kind, id }) => this.#unmatched[change].get(`${kind} ${id}`) ?? [],
    );
  }
}

const PARENT_KINDS: ReadonlySet<Kind> = new Set(Object.values(SCOPE_KIND));

function topOf(parent: Counted): Counted {
  return parent.above === undefined ? parent : topOf(parent.above);
}
