/** Probes one collection: reads a first page of very few records, and a second one if there is more. */
import type { ProbeClient, ProbedPage } from '../api/read-client.ts';
import type { CollectionTarget } from '../api/target.ts';
import type { Scope } from '../catalog/definition.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { MOST_NESTING, nestsDeeperThan } from '../core/json-scan.ts';
import { serviceError } from '../sync/retrieve.ts';
import { shapeOf } from '../sync/sweep.ts';

/** `not_reached`: not requested, because its parents could not be read. */
export type ProbeState = 'readable' | 'empty' | 'denied' | 'not_offered' | 'failing' | 'not_reached';

interface NextPage {
  /** The origin in `next`, if it is not the configured one. */
  readonly otherOrigin: string | null;
  /** True if the next page has other records; null if it could not be read. */
  readonly advances: boolean | null;
}

export interface CollectionProbe {
  readonly scope: Scope;
  readonly state: ProbeState;
  /** The `count` of the list, or the number of records of an entire list; null if unknown. */
  readonly records: number | null;
  readonly shape: ListShape | null;
  readonly next: NextPage | null;
  /** Mean length of a record in bytes; null without records. */
  readonly recordBytes: number | null;
  /** True if the list only answers without a query string, and the definition does not say so. */
  readonly refusesQuery: boolean;
  readonly error: TidemarkError | null;
  /** The first records, to find the collections and objects below them. */
  readonly seen: readonly { readonly id: string; readonly text: string }[];
}

export interface ProbeContext {
  readonly client: ProbeClient;
  readonly pageSize: number;
  readonly signal: AbortSignal;
}

/** Probes a list by its first `limit` records. Failures of the service are in the result; an interruption is thrown. */
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
    const next = await nextPage(context, target, page, limit);
    const error =
      (await retrieveProblem(context, definition, scope, page)) ??
      tooDeep(page) ??
      notShown(page, definition);
    return {
      state: error === null ? (page.records.length === 0 ? 'empty' : 'readable') : stateOf(error),
      records: page.count ?? (page.more === true ? null : page.records.length),
      shape: listShapeOf(page.text),
      recordBytes: meanLength(page),
      seen: page.records.flatMap(({ id, text }) => (id === undefined ? [] : [{ id, text }])),
      ...{ scope, next, refusesQuery, error },
    };
  } catch (error) {
    return failed(scope, serviceError(error, signal));
  }
}

/** Probes the single object of a parent record: one request. */
export async function probeObject(
  { client, signal }: ProbeContext,
  definition: ResourceDefinition,
  scope: Scope,
  id: string,
): Promise<CollectionProbe> {
  try {
    const text = await client.retrieve(definition, scope, id, signal);
    return text === null
      ? { ...NOTHING, scope }
      : { ...NOTHING, scope, state: 'readable', recordBytes: Buffer.byteLength(text) };
  } catch (error) {
    return failed(scope, serviceError(error, signal));
  }
}

/** A collection that was not requested. */
export function notReached(scope: Scope): CollectionProbe {
  return { ...NOTHING, scope, state: 'not_reached' };
}

export function targetOf(
  { pageSize }: Pick<ProbeContext, 'pageSize'>,
  definition: ResourceDefinition,
  scope: Scope,
): CollectionTarget {
  return { definition, scope, shape: shapeOf(definition), pageSize };
}

/** If the list fails with a query, requests it again without one: some lists take every parameter for a filter. */
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

async function nextPage(
  { client, signal }: ProbeContext,
  target: CollectionTarget,
  { next, keys }: ProbedPage,
  limit: number,
): Promise<NextPage | null> {
  if (next === null) return null;
  try {
    const second = await client.page(target, limit, { by: 'link', path: next.path }, signal);
    return { otherOrigin: next.origin, advances: second.keys.some((key) => !keys.includes(key)) };
  } catch (error) {
    serviceError(error, signal);
    return { otherOrigin: next.origin, advances: null };
  }
}

/** If a list shows a reduced form, the record itself has to be readable too. */
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

/** An empty list whose count is not 0: a sync could not prove that it is complete. */
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

const NOTHING: Omit<CollectionProbe, 'scope'> = {
  state: 'empty',
  records: null,
  shape: null,
  next: null,
  recordBytes: null,
  refusesQuery: false,
  error: null,
  seen: [],
};

function failed(scope: Scope, error: TidemarkError): CollectionProbe {
  return { ...NOTHING, scope, state: stateOf(error), error };
}

function stateOf({ code }: TidemarkError): ProbeState {
  if (code === 'forbidden' || code === 'unauthorized') return 'denied';
  return code === 'not_found' ? 'not_offered' : 'failing';
}

/**
 * The form of the response of a list (wire-notes.md, Lists). `envelope`: count, next, results, as documented. `uncounted`:
 * `next` without a count. `results`: the records in an object, with neither. `array`: the bare records.
 */
export type ListShape = 'envelope' | 'uncounted' | 'results' | 'array';

function listShapeOf(text: string): ListShape {
  const body: unknown = JSON.parse(text);
  if (Array.isArray(body) || typeof body !== 'object' || body === null) return 'array';
  const names = new Set(Object.keys(body));
  const tellsEnd = ['next', 'has_next', 'next_cursor'].some((name) => names.has(name));
  const tellsCount = ['count', 'total_count', 'total'].some((name) => names.has(name));
  if (tellsCount && tellsEnd) return 'envelope';
  return tellsEnd ? 'uncounted' : 'results';
}
