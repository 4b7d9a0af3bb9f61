/** The snapshot that a drill practises with: what is asked about, and what it needs to stand on. */
import { type Kind, type ResourceDefinition, KINDS } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { ParsedRecord, Skipped } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import { resolvePointer } from '../diff/pointer.ts';
import { type RecordState, parseState } from '../diff/states.ts';
import { type StateFilter, filterParts, selectsCollection, selectsRecord } from '../state/filter.ts';
import type { LoadedState } from '../state/state.ts';
import { kindsToRead } from './kinds-to-read.ts';
import type { PlanState } from './plan-input.ts';

export interface DrillSnapshot {
  /** What the restore is given: the records asked about, and those that they hang from or refer to. */
  readonly desired: PlanState;
  /** The same as received. */
  readonly states: readonly RecordState[];
  /** Organizations and members, whatever is asked about: the key's own user is one of them. */
  readonly people: readonly ParsedRecord[];
  /** The kinds of `desired`, in catalog order. */
  readonly kinds: readonly Kind[];
  /** True for a record that the drill reports on. */
  readonly isAsked: (key: RecordKey) => boolean;
  /** Records asked about that belong to another organization than the one whose list shows them. */
  readonly foreign: readonly ParsedRecord[];
  /** How many records there are of kinds that are never restored. */
  readonly never: ReadonlyMap<Kind, number>;
  /** What the snapshot never held. */
  readonly skipped: readonly Skipped[];
}

/** @throws TidemarkError `not_found` when the filter leaves nothing: a drill of nothing proves nothing */
export function drillSnapshot(
  state: LoadedState,
  filter: StateFilter,
  definitions: (kind: Kind) => ResourceDefinition,
): DrillSnapshot {
  const isWritten = (kind: Kind): boolean => definitions(kind).restore.never === null;
  const parts = filterParts(filter, () => state.projectsOf(filter.organizations ?? []));
  const isAsked = (key: RecordKey): boolean => parts.some((part) => selectsRecord(part, key));
  const never = new Map<Kind, number>();
  for (const part of parts) {
    const kinds = (part.kinds ?? KINDS).filter((kind) => !isWritten(kind));
    if (kinds.length === 0) continue;
    for (const { kind } of state.records({ ...part, kinds })) never.set(kind, (never.get(kind) ?? 0) + 1);
  }
  const { organizations } = filter;
  const around: StateFilter = organizations === undefined ? {} : { organizations };
  const all = filterParts({ ...around, kinds: KINDS.filter(isWritten) }, () => []).flatMap((part) => [
    ...state.records(part),
  ]);
  const kinds = kindsToRead(new Set(all.filter(isAsked).map(({ kind }) => kind)), definitions);
  if (kinds.length === 0) {
    const [only] = never.keys();
    throw nothingToDrill(state.reference.ref, only === undefined ? null : definitions(only));
  }
  const states = all.filter(({ kind }) => kinds.includes(kind));
  const records = states.map(parseState);
  const isOwn = (record: ParsedRecord): boolean => !isForeign(definitions(record.kind), record);
  const known = state
    .collections()
    .map(({ kind, scope }) => ({ kind, scope, coverage: state.coverage(kind, scope) }));
  return {
    desired: {
      reference: state.reference,
      records: records.filter(isOwn),
      collections: known
        .filter(({ kind, coverage }) => kinds.includes(kind) && coverage.how === 'read')
        .map(({ kind, scope, coverage }) => ({
          kind,
          scope,
          isComplete: coverage.how === 'read' && coverage.stale === undefined,
        })),
    },
    states: states.filter((_state, index) => records[index] !== undefined && isOwn(records[index])),
    people: all.filter(({ kind }) => isOfPeople(definitions(kind))).map(parseState),
    kinds,
    isAsked,
    foreign: records.filter((record) => !isOwn(record) && isAsked(record)),
    never,
    skipped: known.flatMap(({ kind, scope, coverage }): Skipped[] =>
      isWritten(kind) &&
      coverage.how === 'unread' &&
      // Not offered by the service: there is nothing to bring back.
      coverage.code !== 'not_found' &&
      parts.some((part) => selectsCollection(part, kind, scope))
        ? [{ kind, scope, reason: coverage.reason }]
        : [],
    ),
  };
}

function isOfPeople({ discovery, restore }: ResourceDefinition): boolean {
  return discovery.from === 'root' || restore.protectsOwnUser;
}

/** True for a record that another organization's list shows too (wire-notes.md, Lists): it comes back with its owner. */
export function isForeign(
  { restore }: Pick<ResourceDefinition, 'restore'>,
  { scope, body }: Pick<ParsedRecord, 'scope' | 'body'>,
): boolean {
  const holder = restore.owner === null ? undefined : resolvePointer(body, restore.owner);
  return (
    typeof holder === 'string' && scope.organization_id !== undefined && holder !== scope.organization_id
  );
}

function nothingToDrill(ref: string, never: ResourceDefinition | null): TidemarkError {
  const why =
    never === null
      ? `no record of ${ref} was selected`
      : `${never.title.many} are never restored: ${never.restore.never ?? ''}`;
  return new TidemarkError('not_found', `there is nothing to practise with: ${why}`, {
    hint: 'correct the filter, or look at `tidemark status` for what the mirror holds',
  });
}
