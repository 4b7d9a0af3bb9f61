/** Reads the planner's input: both states, ids of recreated records, the key's own user, configured secrets. Sends only GET. */
import type { CollectionKey, RecordKey } from '../../catalog/order.ts';
import { collectionKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { SourceConfig } from '../../config/config.ts';
import { TidemarkError } from '../../core/errors.ts';
import { plural } from '../../core/wording.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type ParsedRecord, type Skipped, fieldFilter } from '../../diff/change.ts';
import type { IgnoreTest } from '../../diff/rules.ts';
import { type RecordState, pairByKey } from '../../diff/states.ts';
import type { CheckedAcceptance } from '../../mirror/acceptances.ts';
import { AuditLogContradicted } from '../../mirror/audited-rows.ts';
import type { HeldRecord } from '../../mirror/held-removals.ts';
import type { IdMapping } from '../../mirror/id-map.ts';
import type { AcceptedBetween } from '../../state/accepted-drift.ts';
import { requireKnownFields } from '../../state/compared-fields.ts';
import {
  type StateFilter,
  filterParts,
  leadingFilter,
  selectsCollection,
  selectsRecord,
  isSearched,
} from '../../state/filter.ts';
import { readNamed } from '../../state/named-organizations.ts';
import { nothingCompared, type UnreadList } from '../../state/nothing-compared.ts';
import { type UnknownRecord, type LoadedState, type Coverage, isByChoice } from '../../state/state.ts';
import type { Redaction } from '../../sync/redaction.ts';
import { createdBelow } from '../../sync/removals.ts';
import { wantedKinds } from '../../sync/run-extent.ts';
import { topMember } from '../places.ts';
import { scopeKeys, type BodyText, textRecord, recordKey } from '../records.ts';
import { withMappedIds, idChoice, idLookup } from '../../state/recreated-ids.ts';
import { configuredSecrets, fingerprintsOf } from '../secrets.ts';
import { kindsToRead } from './dependents.ts';
import { shownKinds } from './matching.ts';
import type { PlanCollection, PlanInput, PlanState, PlanOptions } from './plan.ts';
import { writableFields } from './settings.ts';

export interface Gathered {
  readonly input: PlanInput;
  /** Notes for the user, shown with the plan, one line each. */
  readonly notes: readonly string[];
}

/**
 * Reads both sides.
 * @throws TidemarkError when nothing that was requested can be restored or compared; `reference_unknown` for an id or
 * organization that neither side has; `mirror_corrupt` if desired records were deleted from the mirror, or acceptances to keep
 * contradict the audit log; `usage` for a kind that is never written, or a field that is not a pointer; what reading live throws
 */
export async function readPlanInput(given: GatherOptions): Promise<Gathered> {
  const options = withKindsBelow(given);
  const { request, desired, source, definitions, now } = options;
  // Ids select records, also by the ids before and after a recreation; the other filters select collections.
  const { ids, ...filter } = everyName(request.filter, options.idMap);
  const idsOf = ids === undefined ? null : idChoice(ids, options.idMap);
  const isField = fieldChoice(request.fields);
  const requestedKinds = askedKinds(options, idsOf);
  const chosen = askedKinds({ ...given, request: { ...given.request, withChildren: false } }, idsOf);
  const kinds = kindsToRead(requestedKinds, definitions, request.prune !== null);
  // If one was deleted from the mirror, `--prune` would remove it from the service.
  desired.requireCounted?.(desired.collections().filter(({ kind }) => kinds.includes(kind)));
  const { live, within } = await readWithin(options, kinds);
  const parts = filterParts(filter, desired, live);
  const [desiredRecords, liveRecords] = parsedRecords(desired.records(within), live.records(within));
  const kindsOf = shownKinds([...desiredRecords, ...liveRecords], definitions);
  const isWithin = ({ kind: own, scope, id }: RecordKey): boolean =>
    [...kindsOf({ kind: own, scope, id })].some(
      (kind) => requestedKinds.has(kind) && parts.some((part) => selectsRecord(part, { kind, scope, id })),
    );
  const skipped = [
    ...skippedCollections(options, live, requestedKinds, parts, (kind) =>
      [...desiredRecords, ...liveRecords].some((record) => record.kind === kind && isWithin(record)),
    ),
    ...doubtfulCollections(options, live, requestedKinds, parts, [desiredRecords, liveRecords]),
  ];
  if (idsOf === null && request.filter.kinds !== undefined)
    skipped.push(...leadingLists(options, live, requestedKinds));
  if (idsOf !== null && skipped.length === 0) {
    const found = [...desiredRecords, ...liveRecords].filter(isWithin).flatMap(idsOf);
    requireFound(ids ?? [], new Set(found), request);
  }
  requireFields(request.fields, requestedKinds, definitions, [...desiredRecords, ...liveRecords]);
  const { accepted, contradicted } = await options.acceptedIn(live);
  const isNamed = (record: { readonly kind: Kind; readonly id: string }): boolean =>
    idsOf === null || idsOf(record).length > 0;
  const isBelow = belowChosen(
    options,
    (kind, id) => chosen.has(kind) && isNamed({ kind, id }),
    desiredRecords,
    liveRecords,
  );
  const isAsked = (record: RecordKey): boolean =>
    isWithin(record) &&
    ((isNamed(record) && [...kindsOf(record)].some((kind) => chosen.has(kind))) || isBelow(record));
  const contradictions = contradicted
    .filter(isAsked)
    .flatMap((each) => options.contradictionText(each) ?? []);
  if (request.keepAccepted && contradictions.length > 0)
    throw new AuditLogContradicted(contradictions.join('\n'), 'it has no effect without --keep-accepted');
  const notes = [...unaskedNotes(desired, requestedKinds, parts), ...excludedNotes(options)];
  const ownUserId = ownUserIn(source, definitions, [...liveRecords, ...desiredRecords], notes);
  return {
    input: {
      desired: withinReach(stateSide(desired, within, desiredRecords, hasAllRecords), live, notes),
      live: {
        ...stateSide(live, within, liveRecords, hasKnownRecords),
        reference: { ...live.reference, source: source.name },
      },
      definitions,
      idMap: idLookup(options.idMap),
      ...goneWithHeld(options, desired.reference.run),
      secrets: configuredSecrets(source.secrets, options.idMap),
      ...(options.redaction === null ? {} : { fingerprint: fingerprintsOf(options.redaction, definitions) }),
      options: {
        prune: request.prune,
        limits: {
          maxShare: request.maxShare ?? source.restore.maxShare,
          minRecords: source.restore.minRecords,
        },
        createOrganizations: request.createOrganizations,
        inviteMissing: request.inviteMissing,
        sendEmail: request.sendEmail,
        keepsAccepted: request.keepAccepted,
        ownUserId,
        maxAgeMs: request.isAgeMeant || source.restore.maxAgeMs === 0 ? null : source.restore.maxAgeMs,
        rate: source.rate,
      },
      isInScope: isAsked,
      ...(isField === null ? {} : { isFieldInScope: isField }),
      accepted,
      ignores: options.ignores,
      contradictions,
      skipped,
      now,
    },
    notes,
  };
}

/** A line for each kind that the run of the desired state did not read: its records are those of an earlier run. */
function unaskedNotes(
  desired: LoadedState,
  requestedKinds: ReadonlySet<Kind>,
  parts: readonly StateFilter[],
): string[] {
  const found = desired.collections().flatMap(({ kind, scope }) => {
    if (!requestedKinds.has(kind) || !parts.some((part) => selectsCollection(part, kind, scope))) return [];
    const coverage = desired.coverage(kind, scope);
    const isOlder = coverage.how === 'read' && coverage.unasked !== undefined;
    return isOlder ? [`older than ${desired.reference.ref}: ${kind}: ${coverage.stale ?? ''}`] : [];
  });
  return [...new Set(found)];
}

/** One line about the desired records that are left out because the configuration excludes their kinds. */
function excludedNotes({ request, desired, definitions, source }: GatherOptions): string[] {
  const { kinds, ids } = request.filter;
  if (kinds !== undefined || ids !== undefined) return [];
  const included = wantedKinds(source, null);
  const excluded = KINDS.filter((kind) => !included.has(kind) && definitions(kind).restore.never === null);
  if (excluded.length === 0) return [];
  const counts = new Map<Kind, number>();
  for (const part of filterParts({ ...request.filter, kinds: excluded }, desired))
    for (const { kind } of desired.keys?.(part) ?? desired.records(part))
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
  if (counts.size === 0) return [];
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const named = [...counts.keys()];
  return [
    `left out: ${plural(total, 'desired record')} of ${named.join(', ')}: the configuration excludes the ${named.length === 1 ? 'kind' : 'kinds'}; ${named.map((kind) => `--kind ${kind}`).join(' ')} plans with them`,
  ];
}

/** For `PlanInput`: the held removals that were found up to the run `asOf`. */
function goneWithHeld(
  { held, lastSeen }: Pick<GatherOptions, 'held' | 'lastSeen'>,
  asOf = 0,
): Required<Pick<PlanInput, 'goneSince' | 'lastSeen'>> {
  const known = held.filter(({ since }) => since <= asOf);
  const runs = new Map(known.map((each) => [recordKey(each), each.since]));
  const goneSince = (record: ParsedRecord): number | undefined => runs.get(recordKey(record));
  return {
    goneSince,
    lastSeen: (record) => {
      const run = goneSince(record);
      return run === undefined ? undefined : lastSeen(record, run);
    },
  };
}

/** The filter with all ids that the named organizations and projects ever had. */
function everyName(filter: StateFilter, idMap: readonly IdMapping[]): StateFilter {
  const { organizations, projects } = filter;
  return {
    ...filter,
    ...(organizations === undefined
      ? {}
      : { organizations: withMappedIds(SCOPE_KIND.organization_id, organizations, idMap) }),
    ...(projects === undefined ? {} : { projects: withMappedIds(SCOPE_KIND.project_id, projects, idMap) }),
  };
}

/** Reads live; returns it with the filter of what was read. */
async function readWithin(
  { request, desired, readLive, source, idMap }: GatherOptions,
  kinds: readonly Kind[],
): Promise<{ live: LoadedState; within: StateFilter }> {
  const { organizations: asked } = request.filter;
  if (asked === undefined) return { live: await readLive({ kinds }), within: { kinds } };
  const { live, organizations } = await readNamed({
    asked,
    namesOf: (id) => withMappedIds(SCOPE_KIND.organization_id, [id], idMap),
    filter: { kinds },
    against: desired,
    readLive,
    areAllShown: source.organizations === 'all',
    mayAdopt: request.createOrganizations,
  });
  return { live, within: { kinds, organizations } };
}

/** The records of both states, parsed on first use. Records with the same text in both share it. */
function parsedRecords(
  desired: Iterable<RecordState>,
  live: Iterable<RecordState>,
): [ParsedRecord[], ParsedRecord[]] {
  const desiredRecords: ParsedRecord[] = [];
  const liveRecords: ParsedRecord[] = [];
  for (const { from, to } of pairByKey(desired, live)) {
    const held: BodyText | null = to === undefined ? null : { text: to.body };
    if (to !== undefined && held !== null) liveRecords.push(textRecord(to, held));
    if (from === undefined) continue;
    desiredRecords.push(textRecord(from, held?.text === from.body ? held : { text: from.body }));
  }
  return [desiredRecords, liveRecords];
}

/** One side of a plan: the state's records of these kinds, and its collections. */
export function planSide(state: LoadedState, filter: StateFilter): PlanState {
  return stateSide(state, filter, parsedRecords(state.records(filter), [])[0], hasKnownRecords);
}

function stateSide(
  state: LoadedState,
  filter: StateFilter,
  records: readonly ParsedRecord[],
  isWhole: (coverage: Coverage) => boolean,
): PlanState {
  const collections = state.collections().flatMap(({ kind, scope }): PlanCollection[] => {
    if (!selectsCollection(filter, kind, scope)) return [];
    const coverage = state.coverage(kind, scope);
    if (coverage.how !== 'read' && coverage.how !== 'unread') return [];
    const isComplete = isWhole(coverage);
    const isNotOffered = coverage.how === 'unread' && coverage.code === 'not_found';
    const leak = coverage.how === 'read' ? coverage.leak : undefined;
    return [
      {
        ...{ kind, scope, isComplete },
        ...(isNotOffered ? { isNotOffered } : {}),
        ...(leak === undefined ? {} : { leak }),
      },
    ];
  });
  return { reference: state.reference, records, collections };
}

function hasKnownRecords(coverage: Coverage): boolean {
  return coverage.how === 'read' && coverage.isPartial !== true;
}

/** False also if the newest complete list is older than the state: records created after it are missing. */
function hasAllRecords(coverage: Coverage): boolean {
  return hasKnownRecords(coverage) && coverage.how === 'read' && coverage.stale === undefined;
}

/** The desired side without what was left out when live was read, or may exist there unseen. */
function withinReach(whole: PlanState, live: LoadedState, notes: string[]): PlanState {
  const outside = (kind: Kind, scope: Scope): string | null => {
    const coverage = live.coverage(kind, scope);
    return coverage.how === 'left_out' ? coverage.reason : null;
  };
  const keyOf = scopeKeys();
  const reaches = new Map<string, { reason: string | null; spot: UnknownRecord | null }>();
  const reachOf = (kind: Kind, scope: Scope): { reason: string | null; spot: UnknownRecord | null } => {
    const key = `${kind} ${keyOf(scope)}`;
    const reach = reaches.get(key) ?? { reason: outside(kind, scope), spot: live.unknownIn(kind, scope) };
    reaches.set(key, reach);
    return reach;
  };
  const left = new Map<string, number>();
  const records = whole.records.filter(({ kind, scope, id }) => {
    const { reason: without, spot } = reachOf(kind, scope);
    const reason = without ?? (spot?.covers(id) === true ? spot.reason : null);
    if (reason !== null) left.set(reason, (left.get(reason) ?? 0) + 1);
    return reason === null;
  });
  for (const [reason, count] of left) notes.push(`left out: ${plural(count, 'desired record')}: ${reason}`);
  const collections = whole.collections.filter(({ kind, scope }) => outside(kind, scope) === null);
  return { ...whole, records, collections };
}

/** With `--with-children`: the options with the kinds below the named ones added. */
function withKindsBelow(options: GatherOptions): GatherOptions {
  const { request } = options;
  const { kinds } = request.filter;
  if (request.withChildren !== true || kinds === undefined) return options;
  const all = [...new Set([...kinds, ...kinds.flatMap(createdBelow)])];
  return { ...options, request: { ...request, filter: { ...request.filter, kinds: all } } };
}

/** Other filters select everything below one of these, so `--with-children` means only what was lost with it. */
const SELECTABLE: ReadonlySet<keyof Scope> = new Set(['organization_id', 'project_id']);

/**
 * With `--with-children`: true for a desired record below a chosen one; below organizations and projects only if live lacks these.
 * False for records that only live has, because `--prune` would remove them.
 */
function belowChosen(
  { request, idMap }: GatherOptions,
  isChosen: (kind: Kind, id: string) => boolean,
  desiredRecords: readonly ParsedRecord[],
  liveRecords: readonly ParsedRecord[],
): (record: RecordKey) => boolean {
  if (request.withChildren !== true) return () => false;
  const known = new Set(desiredRecords.map(recordKey));
  const alive = new Set(liveRecords.map(({ kind, id }) => `${kind} ${id}`));
  const isLost = (kind: Kind, id: string): boolean =>
    !withMappedIds(kind, [id], idMap).some((each) => alive.has(`${kind} ${each}`));
  const isMeant = (key: keyof Scope, id: string): boolean =>
    isChosen(SCOPE_KIND[key], id) && (!SELECTABLE.has(key) || isLost(SCOPE_KIND[key], id));
  return (record) =>
    known.has(recordKey(record)) &&
    Object.entries(record.scope).some(([key, id]) => isMeant(key as keyof Scope, id));
}

/** The kinds that the user named, else those of the records that the user named, else those that the configuration includes. */
function askedKinds(
  { request: { filter, withChildren = false }, desired, definitions, source, idMap }: GatherOptions,
  idsOf: ReturnType<typeof idChoice> | null,
): ReadonlySet<Kind> {
  const { kinds } = filter;
  if (kinds !== undefined) {
    for (const kind of kinds) {
      const { restore, title } = definitions(kind);
      if (restore.never === null) continue;
      throw new TidemarkError('usage', `${title.many} are never written: ${restore.never}`, {
        hint: `leave --kind ${kind} out; \`tidemark catalog\` shows what can be restored`,
      });
    }
    return new Set(kinds);
  }
  if (filter.ids !== undefined && idsOf !== null) {
    const found = new Set<Kind>();
    const { ids, organizations } = filter;
    const all = [...new Set([...ids, ...idMap.flatMap(({ oldId, newId }) => [oldId, newId])])];
    const named = organizations === undefined ? { ids: all } : { ids: all, organizations };
    for (const record of desired.records(named)) if (idsOf(record).length > 0) found.add(record.kind);
    const below = withChildren ? [...found].flatMap(createdBelow) : [];
    if (found.size > 0) return new Set([...found, ...below]);
  }
  const included = wantedKinds(source, null);
  return new Set(KINDS.filter((kind) => included.has(kind) && definitions(kind).restore.never === null));
}

/** @throws TidemarkError `reference_unknown` for an id that no record of either side has: "nothing to do" would be misleading */
function requireFound(ids: readonly string[], found: ReadonlySet<string>, { filter }: RestoreRequest): void {
  const missing = ids.filter((id) => !found.has(id));
  if (missing.length === 0) return;
  const { kinds = [] } = filter;
  const what = kinds.length === 0 ? 'no record' : `no record of ${kinds.join(', ')}`;
  throw new TidemarkError(
    'reference_unknown',
    `${what} has the id or name ${missing.join(', ')}, neither in FROM nor live`,
    {
      hint: 'correct it; for one that was removed before, name an earlier state (`tidemark log KIND ID` shows when)',
    },
  );
}

/** The id of the key's own user among the members; null if it is not configured, or not a member (adds a note). */
export function ownUserIn(
  { restore }: Pick<SourceConfig, 'restore'>,
  definitions: GatherOptions['definitions'],
  records: readonly ParsedRecord[],
  notes: string[],
): string | null {
  const named = restore.ownUser?.toLowerCase();
  if (named === undefined) return null;
  const members = records.filter(({ kind }) => definitions(kind).restore.protectsOwnUser);
  const found = members.find(({ kind, id, body }) =>
    [id, ...definitions(kind).naturalKey.map((pointer) => resolvePointer(body, pointer))].some(
      (value) => typeof value === 'string' && value.toLowerCase() === named,
    ),
  );
  if (found !== undefined) return found.id;
  // Only a plan with members is affected: it then changes nobody who could be that user.
  if (members.length > 0) notes.push(`restore.ownUser: nobody among the members is ${restore.ownUser ?? ''}`);
  return null;
}

/**
 * `--field`: true for a place at, below or above one of the pointers; null if there are none.
 * @throws TidemarkError `usage` when one is not a pointer
 */
function fieldChoice(fields: readonly string[]): ((path: string) => boolean) | null {
  const select = fieldFilter(fields);
  if (fields.length === 0) return null;
  const head = { kind: 'organizations', scope: {}, id: '', name: '', change: 'changed' } as const;
  return (path) => select({ ...head, fields: [{ path }] }) !== null;
}

/**
 * Checks that a restore of these kinds compares each of the fields: "nothing to do" would be misleading otherwise.
 * @param records may be iterated several times
 * @throws TidemarkError `reference_unknown` for a field that it does not compare
 */
function requireFields(
  fields: readonly string[],
  kinds: ReadonlySet<Kind>,
  definitions: (kind: Kind) => ResourceDefinition,
  records: Iterable<ParsedRecord>,
): void {
  for (const field of fields) {
    requireKnownFields({
      fields: [field],
      kinds,
      definitions,
      modeOf: (definition) => (writableFields(definition).length > 0 ? 'managed' : 'default'),
      // Fields that are restored by hand are reported as manual steps, although no request sends them.
      isLookedAt: ({ restore }, name) => restore.byPerson.some(({ pointer }) => topMember(pointer) === name),
      records: function* (searched) {
        for (const record of records) if (searched.has(record.kind)) yield record;
      },
      hintFor: () => 'a restore sends writable fields only: `tidemark catalog` shows which these are',
    });
  }
}

/**
 * Requested collections that could not be compared.
 * @param hasAsked true if either side has a requested record of the kind
 * @throws TidemarkError when nothing was compared. A collection that was only searched for named organizations or projects counts as
 * compared if one of them was found
 */
function skippedCollections(
  { desired, definitions, request }: GatherOptions,
  live: LoadedState,
  requestedKinds: ReadonlySet<Kind>,
  parts: readonly StateFilter[],
  hasAsked: (kind: Kind) => boolean,
): Skipped[] {
  const skipped: Skipped[] = [];
  const leftOut: Skipped[] = [];
  const unread: UnreadList[] = [];
  let compared = 0;
  for (const selected of selectedCollections(desired, live, parts, requestedKinds)) {
    const { kind, scope, own, then, now, failed, isNeverOffered } = selected;
    if (definitions(kind).restore.never !== null) continue;
    const chosen = [then, now].find((each) => each.how === 'left_out');
    const reason = failed.at(-1)?.reason;
    if (chosen !== undefined) leftOut.push({ kind, scope, reason: chosen.reason });
    else if (isNeverOffered) leftOut.push({ kind, scope, reason: 'not offered by the service' });
    else if (reason !== undefined) {
      skipped.push({ kind, scope, reason });
      unread.push(...failed.map((each) => ({ ...each, kind })));
    } else if (!own.every((part) => isSearched(part, kind)) || hasAsked(kind)) compared += 1;
  }
  if (compared > 0) return skipped;
  const question = { filter: request.filter, unread, sides: [desired, live] } as const;
  throw nothingCompared({ skipped, left_out: leftOut }, question);
}

/** Keys of the collections in which live has a record that the desired state lacks. */
function extraIn(
  desiredRecords: readonly ParsedRecord[],
  liveRecords: readonly ParsedRecord[],
): ReadonlySet<string> {
  const known = new Set(desiredRecords.map(recordKey));
  const extra = liveRecords.filter((record) => !known.has(recordKey(record)));
  return new Set(extra.map(collectionKey));
}

/** Compared collections in which records may be missing on one side although they existed. */
function doubtfulCollections(
  { desired, definitions, request }: GatherOptions,
  live: LoadedState,
  requestedKinds: ReadonlySet<Kind>,
  parts: readonly StateFilter[],
  [desiredRecords, liveRecords]: readonly [readonly ParsedRecord[], readonly ParsedRecord[]],
): Skipped[] {
  const doubtful: Skipped[] = [];
  const extra = request.prune === null ? new Set<string>() : extraIn(desiredRecords, liveRecords);
  for (const { kind, scope, then, now } of selectedCollections(desired, live, parts, requestedKinds)) {
    if (then.how !== 'read' || now.how !== 'read') continue;
    const name = definitions(kind).title.many;
    const unknown = live.unknownIn(kind, scope);
    if (now.stale !== undefined)
      doubtful.push({ kind, scope, name, ...doubtOf(now.stale, now.isUnconfirmed) });
    if (unknown?.isUnproven === true) doubtful.push({ kind, scope, name, reason: unknown.reason });
    // Records that the desired state may have had are not removed.
    if (request.prune === null || hasAllRecords(then) || !extra.has(collectionKey({ kind, scope }))) continue;
    const reason = desired.unknownIn(kind, scope)?.reason ?? then.stale ?? 'the desired state may lack some';
    doubtful.push({ kind, scope, name, reason: `what only live has is not removed: ${reason}` });
  }
  return doubtful;
}

/** Lists in which a parent of requested records may be missing. */
function leadingLists(
  { desired, definitions, request, idMap }: GatherOptions,
  live: LoadedState,
  requestedKinds: ReadonlySet<Kind>,
): Skipped[] {
  const kinds = [...requestedKinds];
  const leading = leadingFilter({ ...everyName(request.filter, idMap), kinds });
  const above = leading?.kinds?.filter((kind) => !requestedKinds.has(kind)) ?? [];
  const parts = above.length === 0 ? [] : filterParts({ ...leading, kinds: above }, desired, live);
  return [...selectedCollections(desired, live, parts, new Set(above))].flatMap((selected): Skipped[] => {
    const { kind, scope, then, now, failed, isNeverOffered } = selected;
    if (isByChoice(then) || isByChoice(now) || isNeverOffered) return [];
    const reason = failed.at(-1)?.reason;
    if (reason !== undefined) return [{ kind, scope, reason }];
    if (now.how !== 'read' || now.stale === undefined) return [];
    const name = definitions(kind).title.many;
    return [{ kind, scope, name, ...doubtOf(now.stale, now.isUnconfirmed) }];
  });
}

/** For an unconfirmed absence, `returned` (`apply/precondition.ts`) looks each record up. */
function doubtOf(stale: string, isUnconfirmed = false): Pick<Skipped, 'reason' | 'unconfirmed'> {
  return isUnconfirmed
    ? { reason: `${stale}: each is looked up before it is created`, unconfirmed: true }
    : { reason: stale };
}

/**
 * The collections of these kinds, of both sides, that filters select, with these filters (`own`), the coverage of both sides, and those that could not be
 * read (`failed`). `isNeverOffered`: neither could, because the service does not offer the collection.
 */
function* selectedCollections(
  desired: LoadedState,
  live: LoadedState,
  parts: readonly StateFilter[],
  kinds: ReadonlySet<Kind>,
) {
  const all = [...desired.collections(), ...live.collections()];
  for (const { kind, scope } of new Map(all.map((each) => [collectionKey(each), each])).values()) {
    const own = parts.filter((part) => selectsCollection(part, kind, scope));
    if (own.length === 0 || !kinds.has(kind)) continue;
    const [then, now] = [desired.coverage(kind, scope), live.coverage(kind, scope)];
    const failed = [then, now].filter((each) => each.how === 'unread');
    const isNeverOffered = failed.length === 2 && failed.every(({ code }) => code === 'not_found');
    yield { kind, scope, own, then, now, failed, isNeverOffered };
  }
}

/** The options of the command. */
export interface RestoreRequest {
  /** The records for which steps may be planned. */
  readonly filter: StateFilter;
  /** Also plan for desired records below those that the filter selects by kind and id. */
  readonly withChildren?: boolean;
  /** RFC 6901 pointers; empty: every field. */
  readonly fields: readonly string[];
  readonly prune: PlanOptions['prune'];
  readonly createOrganizations: boolean;
  readonly inviteMissing: boolean;
  readonly sendEmail: boolean;
  /** Leave accepted and ignored drift as it is. */
  readonly keepAccepted: boolean;
  /** Overrides `restore.maxShare` of the configuration; null: does not. */
  readonly maxShare: number | null;
  /** True if the user named the state, and so knows its age. */
  readonly isAgeMeant: boolean;
}

export interface GatherOptions {
  readonly request: RestoreRequest;
  readonly desired: LoadedState;
  /** Reads kinds and organizations from live. The caller closes it. */
  readonly readLive: (filter: StateFilter) => Promise<LoadedState>;
  readonly source: SourceConfig;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly idMap: readonly IdMapping[];
  /** The differences between live and the desired state that were accepted as drift. */
  readonly acceptedIn: (live: LoadedState) => Promise<AcceptedBetween>;
  /** The rule by which `drift` ignores a record or the change of a field. */
  readonly ignores: IgnoreTest['hides'];
  /** How an acceptance contradicts the audit log; null if it does not. */
  readonly contradictionText: (acceptance: CheckedAcceptance) => string | null;
  /** Records whose removal is held. */
  readonly held: readonly HeldRecord[];
  /** The last run before this one that read the collection; undefined if there is none. */
  readonly lastSeen: (collection: CollectionKey, before: number) => number | undefined;
  /** The redaction of the mirror; null if it stores secrets in clear text. */
  readonly redaction: Redaction | null;
  readonly now: number;
}
