/** How large a page the service gives: one request for the configured page size, of the longest list that was found. */
import { asTidemarkError, isLocalTrouble } from '../core/errors.ts';
import type { Kind } from '../catalog/definition.ts';
import { type ProbeContext, targetOf } from './collection-probe.ts';
import type { KindReach } from './source-reach.ts';

export interface PageCap {
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
    if (isLocalTrouble(asTidemarkError(error).code)) throw error;
    return null;
  }
}
