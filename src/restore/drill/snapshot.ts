/** The records that a drill restores: the requested ones, and those on which they depend. */
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { ParsedRecord, Skipped } from '../../diff/change.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { type RecordState, parseState } from '../../diff/states.ts';
import {
  type StateFilter,
  filterParts,
  leadingFilter,
  selectsCollection,
  selectsRecord,
} from '../../state/filter.ts';
import { isByChoice, type LoadedState } from '../../state/state.ts';
import { kindsToRead } from '../plan/dependents.ts';
import type { PlanState } from '../plan/plan.ts';

export interface DrillSnapshot {
  /** The requested records, their parents, and those to which they refer. */
  readonly desired: PlanState;
  /** The records of `desired` as received. */
  readonly states: readonly RecordState[];
  /** All organizations and members, requested or not: the key's own user is one of them. */
  readonly people: readonly ParsedRecord[];
  /** The kinds of `desired`, in catalog order. */
  readonly kinds: readonly Kind[];
  /** True for a record that the drill reports on. */
  readonly isAsked: (key: RecordKey) => boolean;
  /** Requested records that the list of another organization than their owner's shows. */
  readonly foreign: readonly ParsedRecord[];
  /** The number of records of kinds that are never restored. */
  readonly never: ReadonlyMap<Kind, number>;
  /** Collections that the snapshot lacks because they could not be read. */
  readonly skipped: readonly Skipped[];
}

/**
 * The records of a state that a drill restores.
 * @throws TidemarkError `not_found` when the filter selects nothing, since a drill would prove nothing; `mirror_corrupt`
 */
export function drillSnapshot(
  state: LoadedState,
  filter: StateFilter,
  definitions: (kind: Kind) => ResourceDefinition,
): DrillSnapshot {
  const isWritten = (kind: Kind): boolean => definitions(kind).restore.never === null;
  const parts = filterParts(filter, state);
  const isAsked = (key: RecordKey): boolean => parts.some((part) => selectsRecord(part, key));
  const never = new Map<Kind, number>();
  for (const part of parts) {
    const kinds = (part.kinds ?? KINDS).filter((kind) => !isWritten(kind));
    if (kinds.length === 0) continue;
    for (const { kind } of state.records({ ...part, kinds })) never.set(kind, (never.get(kind) ?? 0) + 1);
  }
  const { organizations } = filter;
  const around: StateFilter = organizations === undefined ? {} : { organizations };
  const whole = filterParts({ ...around, kinds: KINDS.filter(isWritten) });
  state.requireCounted?.(
    state
      .collections()
      .filter(({ kind, scope }) => whole.some((part) => selectsCollection(part, kind, scope))),
  );
  const all = whole.flatMap((part) => [...state.records(part)]);
  const kinds = kindsToRead(new Set(all.filter(isAsked).map(({ kind }) => kind)), definitions);
  if (kinds.length === 0) {
    const [only] = never.keys();
    const why =
      only === undefined
        ? `no record of ${state.reference.ref} was selected`
        : `${definitions(only).title.many} are never restored: ${definitions(only).restore.never ?? ''}`;
    throw new TidemarkError('not_found', `nothing can be rehearsed: ${why}`, {
      hint: 'correct the filter, or look at `tidemark status` for what the mirror holds',
    });
  }
  const parsed = all
    .filter(({ kind }) => kinds.includes(kind))
    .map((received) => ({ received, record: parseState(received) }));
  const named = filter.kinds?.filter(isWritten) ?? [];
  const leading = leadingFilter({ ...filter, kinds: named });
  const above = leading === null ? [] : filterParts(leading, state);
  const isOwn = ({ record }: { readonly record: ParsedRecord }): boolean =>
    !isForeign(definitions(record.kind), record);
  const own = parsed.filter(isOwn);
  const known = state
    .collections()
    .map(({ kind, scope }) => ({ kind, scope, coverage: state.coverage(kind, scope) }));
  return {
    desired: {
      reference: state.reference,
      records: own.map(({ record }) => record),
      collections: known.flatMap(({ kind, scope, coverage }) =>
        kinds.includes(kind) && coverage.how === 'read'
          ? [{ kind, scope, isComplete: coverage.stale === undefined }]
          : [],
      ),
    },
    states: own.map(({ received }) => received),
    people: all
      .filter(({ kind }) => {
        const { discovery, restore } = definitions(kind);
        return discovery.from === 'root' || restore.protectsOwnUser;
      })
      .map(parseState),
    kinds,
    isAsked,
    foreign: parsed.flatMap((each) => (!isOwn(each) && isAsked(each.record) ? [each.record] : [])),
    never,
    skipped: known.flatMap(({ kind, scope, coverage }): Skipped[] =>
      coverage.how === 'unread' &&
      // If the service does not offer the collection, there is nothing to bring back.
      coverage.code !== 'not_found' &&
      ((isWritten(kind) && parts.some((part) => selectsCollection(part, kind, scope))) ||
        (!isByChoice(coverage) && above.some((part) => selectsCollection(part, kind, scope))))
        ? [{ kind, scope, reason: coverage.reason }]
        : [],
    ),
  };
}

/** True for a record in the list of an organization that does not own it (wire-notes.md, Lists): it comes back with its owner. */
export function isForeign(
  { restore }: Pick<ResourceDefinition, 'restore'>,
  { scope, body }: Pick<ParsedRecord, 'scope' | 'body'>,
): boolean {
  const holder = restore.owner === null ? undefined : resolvePointer(body, restore.owner);
  return (
    typeof holder === 'string' && scope.organization_id !== undefined && holder !== scope.organization_id
  );
}
