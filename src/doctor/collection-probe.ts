/** One look at one collection: a first page of very few records, a second one if there is more, and what they show. */
import type { ProbeClient, ProbedPage } from '../api/read-client.ts';
import type { CollectionTarget } from '../api/target.ts';
import type { Scope } from '../catalog/definition.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { MOST_NESTING, nestsDeeperThan } from '../core/json-scan.ts';
import { serviceError } from '../sync/retrieve.ts';
import { shapeOf } from '../sync/sweep.ts';

/** `not_reached`: nothing was asked, since what leads there could not be read. */
export type ProbeState = 'readable' | 'empty' | 'denied' | 'not_offered' | 'failing' | 'not_reached';

interface NextLook {
  /** The origin that `next` names, where it is not the configured one. */
  readonly otherOrigin: string | null;
  /** True where the page behind it begins elsewhere; null where that page could not be read. */
  readonly advances: boolean | null;
}

export interface CollectionProbe {
  readonly scope: Scope;
  readonly state: ProbeState;
  /** The list's `count`, or the records of an entire list; null if unknown. */
  readonly records: number | null;
  readonly shape: ListShape | null;
  readonly next: NextLook | null;
  /** Mean length of a record, bytes; null if none was shown. */
  readonly recordBytes: number | null;
  /** True where the list answers only without a query string, and the definition does not say so. */
  readonly refusesQuery: boolean;
  readonly error: TidemarkError | null;
  /** The first records: where their collections and objects are found. */
  readonly seen: readonly { readonly id: string; readonly text: string }[];
}

export interface ProbeContext {
  readonly client: ProbeClient;
  readonly pageSize: number;
  readonly signal: AbortSignal;
}

/** Looks at the first `limit` records. Failures of the service are the result; an interruption is thrown. */
export async function probeCollection(
  context: ProbeContext,
  definition: ResourceDefinition,
  scope: Scope,
  limit: number,
): Promise<CollectionProbe> {
  const { signal } = context;
  const target = targetOf(context, definition, scope);
  try {
    const { page, refusesQuery } = await firstPage(context, target, limit);
    const next = await lookBehind(context, target, page, limit);
    const error =
      (await retrieveProblem(context, definition, scope, page)) ??
      tooDeep(page) ??
      notShown(page, definition);
    return {
      scope,
      state: error === null ? (page.records.length === 0 ? 'empty' : 'readable') : stateOf(error),
      records: page.count ?? (page.more === true ? null : page.records.length),
      shape: listShapeOf(page.text),
      next,
      recordBytes: meanLength(page),
      refusesQuery,
      error,
      seen: page.records.flatMap(({ id, text }) => (id === undefined ? [] : [{ id, text }])),
    };
  } catch (error) {
    return failed(scope, serviceError(error, signal));
  }
}

/** Looks at a single object per parent record: one request. */
export async function probeObject(
  { client, signal }: ProbeContext,
  definition: ResourceDefinition,
  scope: Scope,
  id: string,
): Promise<CollectionProbe> {
  try {
    const text = await client.retrieve(definition, scope, id, signal);
    return {
      ...failed(scope, null),
      state: text === null ? 'empty' : 'readable',
      recordBytes: text === null ? null : Buffer.byteLength(text),
    };
  } catch (error) {
    return failed(scope, serviceError(error, signal));
  }
}

/** What nothing was asked of. */
export function notReached(scope: Scope): CollectionProbe {
  return { ...failed(scope, null), state: 'not_reached' };
}

export function targetOf(
  { pageSize }: Pick<ProbeContext, 'pageSize'>,
  definition: ResourceDefinition,
  scope: Scope,
): CollectionTarget {
  return { definition, scope, shape: shapeOf(definition), pageSize };
}

/** A list that fails with a query is requested once more without one: some take every parameter for a filter. */
async function firstPage(
  { client, signal }: ProbeContext,
  target: CollectionTarget,
  limit: number,
): Promise<{ page: ProbedPage; refusesQuery: boolean }> {
  try {
    return { page: await client.page(target, limit, undefined, signal), refusesQuery: false };
  } catch (error) {
    signal.throwIfAborted();
    const { definition } = target;
    const { code } = asTidemarkError(error);
    if (!definition.listing.acceptsQuery || (code !== 'server_error' && code !== 'rejected')) throw error;
    const listing = { ...definition.listing, acceptsQuery: false };
    const page = await client.page(
      { ...target, definition: changedDefinition(definition, { listing }) },
      limit,
      undefined,
      signal,
    );
    return { page, refusesQuery: true };
  }
}

async function lookBehind(
  { client, signal }: ProbeContext,
  target: CollectionTarget,
  first: ProbedPage,
  limit: number,
): Promise<NextLook | null> {
  if (first.next === null) return null;
  const look = { otherOrigin: first.next.origin };
  try {
    const second = await client.page(target, limit, { by: 'link', path: first.next.path }, signal);
    const known = new Set(first.keys);
    return { ...look, advances: second.keys.some((key) => !known.has(key)) };
  } catch (error) {
    serviceError(error, signal);
    return { ...look, advances: null };
  }
}

/** Where a list shows a reduced form, the record itself has to be readable too. */
async function retrieveProblem(
  { client, signal }: ProbeContext,
  definition: ResourceDefinition,
  scope: Scope,
  { keys }: ProbedPage,
): Promise<TidemarkError | null> {
  const [id] = keys;
  if (!definition.listing.needsRetrieve || id === undefined) return null;
  try {
    const text = await client.retrieve(definition, scope, id, signal);
    return text === null ? new TidemarkError('walk_unproven', 'it is listed but cannot be retrieved') : null;
  } catch (error) {
    return serviceError(error, signal);
  }
}

/** A record that a sync could not keep. */
function tooDeep({ records }: ProbedPage): TidemarkError | null {
  const record = records.find(({ text }) => nestsDeeperThan(text, MOST_NESTING));
  if (record === undefined) return null;
  const name = record.id === undefined ? 'a record' : `the record ${JSON.stringify(record.id)}`;
  return new TidemarkError(
    'malformed',
    `${name} nests more than ${MOST_NESTING} levels deep and cannot be kept`,
    { hint: 'correct it in the service; until then the list is incomplete in every run' },
  );
}

/** An empty list that says it is not: a sync would prove nothing of it. */
function notShown({ records, count }: ProbedPage, { listing }: ResourceDefinition): TidemarkError | null {
  if (records.length > 0 || !listing.isCountTrusted || count === null || count === 0) return null;
  return new TidemarkError('walk_unproven', `the list is empty but says that it holds ${count}`, {
    hint: 'run it again later; if it persists, the service shows fewer records to this key than it counts',
  });
}

function meanLength({ records }: ProbedPage): number | null {
  if (records.length === 0) return null;
  return records.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) / records.length;
}

function failed(scope: Scope, error: TidemarkError | null): CollectionProbe {
  return {
    scope,
    state: error === null ? 'empty' : stateOf(error),
    records: null,
    shape: null,
    next: null,
    recordBytes: null,
    refusesQuery: false,
    error,
    seen: [],
  };
}

function stateOf({ code }: TidemarkError): ProbeState {
  if (code === 'forbidden' || code === 'unauthorized') return 'denied';
  return code === 'not_found' ? 'not_offered' : 'failing';
}

/**
 * What shape a list's answer has (wire-notes.md, Lists). `envelope`: count, next, results, as documented. `uncounted`: with `next`, but without a count.
 * `results`: the records in an object, and neither. `array`: the records alone.
 */
export type ListShape = 'envelope' | 'uncounted' | 'results' | 'array';

/** The shape of an answer that was read as a list. */
function listShapeOf(text: string): ListShape {
  const body: unknown = JSON.parse(text);
  if (Array.isArray(body) || typeof body !== 'object' || body === null) return 'array';
  const names = new Set(Object.keys(body));
  const tellsEnd = ['next', 'has_next', 'next_cursor'].some((name) => names.has(name));
  const tellsCount = ['count', 'total_count', 'total'].some((name) => names.has(name));
  if (tellsCount && tellsEnd) return 'envelope';
  return tellsEnd ? 'uncounted' : 'results';
}
