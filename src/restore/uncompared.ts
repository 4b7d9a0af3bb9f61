/** What a plan could not compare, or only in part: collections that one side does not know for sure. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { ParsedRecord, Skipped } from '../diff/change.ts';
import type { IdMapping } from '../mirror/restores.ts';
import type { HeldRecord } from '../mirror/held-removals.ts';
import { type StateFilter, isSearched, selectsCollection } from '../state/filter.ts';
import { nothingCompared } from '../state/nothing-compared.ts';
import type { CollectionKey, Coverage, LoadedState } from '../state/state.ts';
import type { Redaction } from '../sync/redaction.ts';
import type { PlanOptions } from './plan.ts';
import { recordKeyText } from './record-place.ts';

/**
 * Collections that were asked for and could not be compared.
 * @param hasAsked true where either side holds a record of the kind that was asked for
 * @throws TidemarkError when nothing was compared: a collection in which named organizations or projects were looked for
 * counts where one of them was there
 */
export function skippedCollections(
  { desired, definitions, request }: GatherOptions,
  live: LoadedState,
  asked: ReadonlySet<Kind>,
  parts: readonly StateFilter[],
  hasAsked: (kind: Kind) => boolean,
): Skipped[] {
  const skipped: Skipped[] = [];
  const leftOut: Skipped[] = [];
  const unread: Extract<Coverage, { how: 'unread' }>[] = [];
  let compared = 0;
  for (const { kind, scope } of collectionsOf(desired, live)) {
    const isAsked = asked.has(kind) && definitions(kind).restore.never === null;
    const own = parts.filter((part) => selectsCollection(part, kind, scope));
    if (!isAsked || own.length === 0) continue;
    const sides = [desired.coverage(kind, scope), live.coverage(kind, scope)] as const;
    const chosen = sides.find((each) => each.how === 'left_out');
    const failed = sides.filter((each) => each.how === 'unread');
    const isNeverOffered = failed.length === 2 && failed.every(({ code }) => code === 'not_found');
    const reason = failed.at(-1)?.reason;
    if (chosen !== undefined) leftOut.push({ kind, scope, reason: chosen.reason });
    else if (isNeverOffered) leftOut.push({ kind, scope, reason: 'not offered by the service' });
    else if (reason !== undefined) {
      skipped.push({ kind, scope, reason });
      unread.push(...failed);
    } else if (!own.every((part) => isSearched(part, kind)) || hasAsked(kind)) compared += 1;
  }
  if (compared > 0) return skipped;
  throw nothingCompared({ skipped, left_out: leftOut }, request.filter, unread);
}

/** Collections that live has something in which the desired state has not, as `kind scope`. */
export function extraIn(
  wanted: readonly ParsedRecord[],
  there: readonly ParsedRecord[],
): ReadonlySet<string> {
  const known = new Set(wanted.map(({ kind, scope, id }) => recordKeyText(kind, scope, id)));
  const extra = there.filter(({ kind, scope, id }) => !known.has(recordKeyText(kind, scope, id)));
  return new Set(extra.map(({ kind, scope }) => `${kind} ${scopeKey(scope)}`));
}

/** Collections that were compared, of which one side does not know for sure what it does not hold. */
export function doubtfulCollections(
  { desired, definitions, request }: GatherOptions,
  live: LoadedState,
  asked: ReadonlySet<Kind>,
  parts: readonly StateFilter[],
  extraCollections: () => ReadonlySet<string>,
): Skipped[] {
  const doubtful: Skipped[] = [];
  const extra = request.prune === null ? new Set<string>() : extraCollections();
  for (const { kind, scope } of collectionsOf(desired, live)) {
    if (!asked.has(kind) || !parts.some((part) => selectsCollection(part, kind, scope))) continue;
    const [then, now] = [desired.coverage(kind, scope), live.coverage(kind, scope)];
    if (then.how !== 'read' || now.how !== 'read') continue;
    const name = definitions(kind).title.many;
    const unknown = live.unknownIn(kind, scope);
    if (now.stale !== undefined) {
      const unconfirmed = now.isUnconfirmed === true ? { unconfirmed: true as const } : {};
      doubtful.push({ kind, scope, name, reason: now.stale, ...unconfirmed });
    }
    if (unknown?.isUnproven === true) doubtful.push({ kind, scope, name, reason: unknown.reason });
    // Records that the desired state may have held are not removed.
    if (request.prune === null || then.isPartial !== true || !extra.has(`${kind} ${scopeKey(scope)}`))
      continue;
    const reason = desired.unknownIn(kind, scope)?.reason ?? then.stale ?? 'the desired state may lack some';
    doubtful.push({ kind, scope, name, reason: `what only live has is not removed: ${reason}` });
  }
  return doubtful;
}

function collectionsOf(...states: readonly LoadedState[]): Iterable<CollectionKey> {
  const all = states.flatMap((state) => [...state.collections()]);
  return new Map(all.map((each) => [`${each.kind} ${scopeKey(each.scope)}`, each])).values();
}

/** What the user asked for. */
export interface RestoreRequest {
  /** Which records steps may be about. */
  readonly filter: StateFilter;
  /** RFC 6901 pointers; empty: every field. */
  readonly fields: readonly string[];
  readonly prune: PlanOptions['prune'];
  readonly createOrganizations: boolean;
  readonly inviteMissing: boolean;
  readonly sendEmail: boolean;
  /** Over the configuration's `restore.maxShare`; null: that one. */
  readonly maxShare: number | null;
  /** True where the user named the state, and so knows how old it is. */
  readonly isAgeMeant: boolean;
}

export interface GatherOptions {
  readonly request: RestoreRequest;
  readonly desired: LoadedState;
  /** Reads live for kinds and organizations. The caller closes it. */
  readonly readLive: (filter: StateFilter) => Promise<LoadedState>;
  readonly source: SourceConfig;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly idMap: readonly IdMapping[];
  /** Records whose removal the mirror holds back. */
  readonly held: readonly HeldRecord[];
  /** With which the mirror holds secrets; null where it holds them in clear. */
  readonly redaction: Redaction | null;
  readonly now: number;
}
