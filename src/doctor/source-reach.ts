/** What a look at a source found: the result of `reach.ts`, and what problems, texts and estimates are read from. */
import type { ClockSample } from '../api/probe-client.ts';
import { parseHttpDate } from '../api/retry.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { type TidemarkError, asTidemarkError, isLocalError } from '../core/errors.ts';
import { type CollectionProbe, type ProbeState, type ProbeContext, targetOf } from './collection-probe.ts';

/** Organizations, projects and roles that are looked below, each. */
export const MOST_SCOPES = 5;

/** One kind in one organization; `organization` null for the root's own list and for projects of no known one. */
export interface KindReach {
  readonly organization: string | null;
  readonly kind: Kind;
  readonly definition: ResourceDefinition;
  /** The worst of its collections. */
  readonly state: ProbeState;
  readonly probes: readonly CollectionProbe[];
  /** Collections that there are, as far as is known; more than `probes` where not all were looked at. */
  readonly collections: number;
}

export interface SourceReach {
  readonly source: SourceConfig;
  readonly organizations: readonly { readonly id: string; readonly name: string | null }[];
  /** Organizations that the list says there are; null where it does not. */
  readonly organizationCount: number | null;
  readonly kinds: readonly KindReach[];
  /** What made going on idle: a refused key, a host that does not answer. */
  readonly fatal: TidemarkError | null;
  readonly skew: ClockSkew | null;
  readonly pageCap: PageCap | null;
  /** What the key holds, where the service tells; `*` is everything. */
  readonly permissions: readonly string[] | null;
  readonly requests: number;
  /** Of answer bodies. */
  readonly bytes: number;
  /** Milliseconds from the first request to the last answer. */
  readonly tookMs: number;
}

// How large a page the service gives: one request for the configured page size, of the longest list that was found.

interface PageCap {
  readonly kind: Kind;
  /** Records asked for. */
  readonly asked: number;
  /** Records that came. */
  readonly received: number;
  /** True where more were there and fewer than asked for came: that is the service's own limit. */
  readonly isCap: boolean;
}

/** Null where no list is long enough to tell. */
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
    signal.throwIfAborted();
    // A page that is too large for the service is the sweep's to report, which asks for less then.
    if (isLocalError(asTidemarkError(error).code)) throw error;
    return null;
  }
}

// How far the service's clock is from ours, told by the `Date` of its answers. Pure.

interface ClockSkew {
  /** Milliseconds that the service is ahead; negative where it is behind. */
  readonly aheadMs: number;
  /** The truth is at most this much away, milliseconds: the header has whole seconds, and the answer was on its way. */
  readonly doubtMs: number;
}

/** The header tells the second that had begun. */
const HALF_SECOND_MS = 500;

/** The sample that leaves the least doubt; null where no answer told the time. */
export function clockSkew(samples: readonly ClockSample[]): ClockSkew | null {
  const skews = samples.flatMap(({ date, sentAt, receivedAt }): ClockSkew[] => {
    const at = parseHttpDate(date, receivedAt);
    if (at === null || receivedAt < sentAt) return [];
    const aheadMs = Math.round(at + HALF_SECOND_MS - (sentAt + receivedAt) / 2);
    return [{ aheadMs, doubtMs: Math.round(HALF_SECOND_MS + (receivedAt - sentAt) / 2) }];
  });
  return skews.toSorted((a, b) => a.doubtMs - b.doubtMs)[0] ?? null;
}

/** True where the clocks surely differ by more than `limitMs`. */
export function isOff({ aheadMs, doubtMs }: ClockSkew, limitMs: number): boolean {
  return Math.abs(aheadMs) - doubtMs > limitMs;
}
