/** The result of probing a source (`reach.ts`): the basis of problems, texts and estimates. */
import type { ClockSample } from '../api/read-client.ts';
import { parseHttpDate } from '../api/retry.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { MovedAddress } from '../sync/removals.ts';
import { serviceError } from '../sync/retrieve.ts';
import { type CollectionProbe, type ProbeState, type ProbeContext, targetOf } from './collection-probe.ts';

/** The most organizations, and the most projects and roles, whose children are probed. */
export const MOST_SCOPES = 5;

/** One kind in one organization; `organization` is null for the root list and for projects of an unknown organization. */
export interface KindReach {
  readonly organization: string | null;
  readonly kind: Kind;
  readonly definition: ResourceDefinition;
  /** The worst state of its collections. */
  readonly state: ProbeState;
  readonly probes: readonly CollectionProbe[];
  /** The number of known collections: more than `probes` if not all were probed. */
  readonly collections: number;
}

export interface SourceReach {
  readonly source: SourceConfig;
  readonly organizations: readonly { readonly id: string; readonly name: string | null }[];
  /** The number of organizations by the count of the list; null without a count. */
  readonly organizationCount: number | null;
  /** Given if none of the organizations of an earlier address exists at this one. */
  readonly moved: MovedAddress | null;
  readonly kinds: readonly KindReach[];
  /** The error that ended the probing: a refused key, a host that does not answer. */
  readonly fatal: TidemarkError | null;
  readonly skew: ClockSkew | null;
  readonly pageCap: PageCap | null;
  /** The key's permissions, if the service reports them; `*` is all. */
  readonly permissions: readonly string[] | null;
  readonly requests: number;
  /** Of response bodies. */
  readonly bytes: number;
  /** Milliseconds from the first request to the last response. */
  readonly tookMs: number;
}

/** The largest page that the service returns: one request with the configured page size to the longest list. */
interface PageCap {
  readonly kind: Kind;
  /** Requested records. */
  readonly asked: number;
  readonly received: number;
  /** True if the list has more records, and fewer than requested were received: this is the limit of the service. */
  readonly isCap: boolean;
}

/** Null if no list is long enough. */
export async function findPageCap(
  context: ProbeContext,
  kinds: readonly KindReach[],
): Promise<PageCap | null> {
  const { client, pageSize, signal } = context;
  const lists = kinds
    .filter(({ definition }) => definition.listing.acceptsQuery)
    .flatMap(({ definition, probes }) =>
      probes.flatMap(({ scope, next, records }) =>
        next === null || records === null || records === 0 ? [] : [{ definition, scope, records }],
      ),
    );
  const [longest] = lists.toSorted((a, b) => b.records - a.records);
  if (longest === undefined) return null;
  const { definition, scope } = longest;
  try {
    const page = await client.page(targetOf(context, definition, scope), pageSize, undefined, signal);
    const received = page.records.length;
    return {
      ...{ kind: definition.kind, asked: pageSize, received },
      isCap: page.more === true && received < pageSize,
    };
  } catch (error) {
    serviceError(error, signal);
    // If the page is too large for the service, a sweep requests smaller ones.
    return null;
  }
}

/** The difference between the clocks of the service and of this machine, by the `Date` header of responses. */
interface ClockSkew {
  /** Milliseconds that the service is ahead; negative if it is behind. */
  readonly aheadMs: number;
  /** Uncertainty in milliseconds: the header has whole seconds, and the response took time to arrive. */
  readonly doubtMs: number;
}

/** Half of the resolution of the header. */
const HALF_SECOND_MS = 500;

/** The skew with the least uncertainty; null if no response had the header. */
export function clockSkew(samples: readonly ClockSample[]): ClockSkew | null {
  const skews = samples.flatMap(({ date, sentAt, receivedAt }): ClockSkew[] => {
    const at = parseHttpDate(date, receivedAt);
    if (at === null || receivedAt < sentAt) return [];
    const aheadMs = Math.round(at + HALF_SECOND_MS - (sentAt + receivedAt) / 2);
    return [{ aheadMs, doubtMs: Math.round(HALF_SECOND_MS + (receivedAt - sentAt) / 2) }];
  });
  return skews.toSorted((a, b) => a.doubtMs - b.doubtMs)[0] ?? null;
}

/** True if the clocks certainly differ by more than `limitMs`. */
export function isOff({ aheadMs, doubtMs }: ClockSkew, limitMs: number): boolean {
  return Math.abs(aheadMs) - doubtMs > limitMs;
}

/** The shipped profile that fits the service by its first responses (wire-notes.md), with the signs; `svc` without any. */
export function fittingProfile(reach: SourceReach): {
  readonly profile: 'svc' | 'posthog';
  readonly signs: readonly string[];
} {
  const signs = SIGNS.flatMap(({ kind, isShown, sign }) =>
    reach.kinds.some((row) => row.kind === kind && isShown(row)) ? [sign] : [],
  );
  return { profile: signs.length > 0 ? 'posthog' : 'svc', signs };
}

interface Sign {
  readonly kind: Kind;
  readonly isShown: (row: KindReach) => boolean;
  readonly sign: string;
}

const hasMember = (name: string) => (row: KindReach) =>
  row.probes.some(({ seen }) => seen.some(({ text }) => text.includes(`"${name}"`)));

const SIGNS: readonly Sign[] = [
  {
    kind: 'roles',
    isShown: ({ probes }) => probes.some(({ refusesQuery }) => refusesQuery),
    sign: 'roles answer only without a query string',
  },
  {
    kind: 'proxy_records',
    isShown: ({ probes }) => probes.some(({ shape }) => shape === 'array' || shape === 'results'),
    sign: 'proxy records come without an envelope',
  },
  {
    kind: 'session_recordings',
    isShown: ({ probes }) => probes.some(({ shape }) => shape === 'uncounted'),
    sign: 'recordings come without a count',
  },
  {
    kind: 'batch_exports',
    isShown: hasMember('hogql_query'),
    sign: 'batch exports have a field hogql_query',
  },
  {
    kind: 'plugins',
    isShown: hasMember('hog_function_migration_available'),
    sign: 'plugins have a field hog_function_migration_available',
  },
];
