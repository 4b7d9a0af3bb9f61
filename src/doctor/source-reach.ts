/** The result of probing a source (`reach.ts`), from which problems, texts and estimates are made. */
import type { ClockSample } from '../api/read-client.ts';
import { parseHttpDate } from '../api/retry.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { MovedAddress } from '../sync/removals.ts';
import { serviceError } from '../sync/retrieve.ts';
import { type CollectionProbe, type ProbeState, type ProbeContext, targetOf } from './collection-probe.ts';

/** How many organizations, projects and roles are probed for their children, each. */
export const MOST_SCOPES = 5;

/** One kind in one organization; `organization` null for the root list and for projects of an unknown one. */
export interface KindReach {
  readonly organization: string | null;
  readonly kind: Kind;
  readonly definition: ResourceDefinition;
  /** The worst of its collections. */
  readonly state: ProbeState;
  readonly probes: readonly CollectionProbe[];
  /** Known collections; more than `probes` if not all were probed. */
  readonly collections: number;
}

export interface SourceReach {
  readonly source: SourceConfig;
  readonly organizations: readonly { readonly id: string; readonly name: string | null }[];
  /** Number of organizations by the list's count; null without a count. */
  readonly organizationCount: number | null;
  /** Given for an address that has no organization of an earlier one. */
  readonly moved: MovedAddress | null;
  readonly kinds: readonly KindReach[];
  /** The error that ended the probing: a refused key, a host that does not answer. */
  readonly fatal: TidemarkError | null;
  readonly skew: ClockSkew | null;
  readonly pageCap: PageCap | null;
  /** The key's permissions, if the service reports them; `*` is all. */
  readonly permissions: readonly string[] | null;
  readonly requests: number;
  /** Of answer bodies. */
  readonly bytes: number;
  /** Milliseconds from the first request to the last answer. */
  readonly tookMs: number;
}

// The largest page that the service returns: one request of the configured page size to the longest list that was found.

interface PageCap {
  readonly kind: Kind;
  /** Records asked for. */
  readonly asked: number;
  /** Records that came. */
  readonly received: number;
  /** True if the list has more, and fewer than requested came: that is the service's limit. */
  readonly isCap: boolean;
}

/** Null if no list is long enough. */
export async function findPageCap(
  context: ProbeContext,
  kinds: readonly KindReach[],
): Promise<PageCap | null> {
  const { client, pageSize, signal } = context;
  const lists = kinds.flatMap(({ definition, probes }) =>
    probes
      .filter(({ next, records }) => next !== null && (records ?? 0) > 0)
      .map(({ scope, records }) => ({ definition, scope, records: records ?? 0 })),
  );
  const longest = lists
    .filter(({ definition }) => definition.listing.acceptsQuery)
    .toSorted((a, b) => b.records - a.records)[0];
  if (longest === undefined) return null;
  try {
    const page = await client.page(
      targetOf(context, longest.definition, longest.scope),
      pageSize,
      undefined,
      signal,
    );
    const received = page.records.length;
    return {
      kind: longest.definition.kind,
      asked: pageSize,
      received,
      isCap: page.more === true && received < pageSize,
    };
  } catch (error) {
    serviceError(error, signal);
    // If the page is too large for the service, a sweep reports it and requests smaller ones.
    return null;
  }
}

// The difference between the service's clock and this machine's, from the `Date` header of its answers. Pure.

interface ClockSkew {
  /** Milliseconds that the service is ahead; negative where it is behind. */
  readonly aheadMs: number;
  /** Uncertainty in milliseconds: the header has whole seconds, and the answer took time to arrive. */
  readonly doubtMs: number;
}

/** Half of the header's resolution. */
const HALF_SECOND_MS = 500;

/** The sample with the least uncertainty; null if no answer had the header. */
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

// Which profile fits a service, by what its first answers show (wire-notes.md). Pure.

/** The shipped profile that matches, with the signs for it; `svc` without any. */
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
