/** An estimate from a look at the first pages, where no run tells. */
import type { CollectionProbe } from './collection-probe.ts';
import { estimateOf, type CollectionEstimate, type ParentRule, type SourceEstimate } from './estimate.ts';
import type { KindReach, SourceReach } from './source-reach.ts';

export function estimateFromReach(reach: SourceReach, parents: ParentRule): SourceEstimate {
  const { source, kinds, organizations, organizationCount, pageCap, requests, tookMs } = reach;
  const guessed: string[] = [];
  const feeds = new Map(
    kinds
      .filter(({ definition }) => definition.reading === 'feed')
      .flatMap(({ probes }) => probes.map((probe): [string, CollectionProbe] => [keyOf(probe), probe])),
  );
  const collections = kinds.flatMap((row) => rowEstimates(row, reach, feeds, parents));
  const uncounted = [
    ...new Set(collections.filter(({ records }) => records === null).map(({ kind }) => kind)),
  ];
  if (uncounted.length > 0)
    guessed.push(
      `${uncounted.join(', ')}: the list does not say how much it holds; one page is counted, each further one adds a request`,
    );
  const cut = kinds.filter(({ collections: all, probes }) => all > probes.length).map(({ kind }) => kind);
  if (cut.length > 0)
    guessed.push(
      `${[...new Set(cut)].join(', ')}: not all lists were looked at, the others are taken for alike`,
    );
  const total = Math.max(organizationCount ?? 0, organizations.length);
  const share = organizations.length === 0 ? 1 : total / organizations.length;
  if (share > 1)
    guessed.push(`${total - organizations.length} more organizations are taken to be like those looked at`);
  guessed.push('bytes: the mean of the few records that were shown');
  return {
    source,
    from: 'probe',
    collections: collections.map((each) => (each.kind === 'organizations' ? each : scaled(each, share))),
    requestMs: requests === 0 ? null : tookMs / requests,
    known: [
      'records by what the lists say that they hold',
      ...(pageCap?.isCap === true ? [`pages of ${pageCap.received} records, the service's limit`] : []),
    ],
    guessed,
    asked: requests,
  };
}

/** Recordings and their sharing meet in the project. */
function keyOf({ scope }: CollectionProbe): string {
  return scope.project_id ?? '';
}

function rowEstimates(
  row: KindReach,
  { source, pageCap }: SourceReach,
  feeds: ReadonlyMap<string, CollectionProbe>,
  parents: ParentRule,
): CollectionEstimate[] {
  const { definition, probes, collections } = row;
  // Without a parent record there is no list to ask for.
  const looked = probes.filter(
    ({ state, scope }) =>
      state !== 'not_reached' && definition.scope.every((key) => scope[key] !== undefined),
  );
  const share = looked.length === 0 ? 1 : Math.max(1, collections / looked.length);
  return looked.map((probe) => {
    const records =
      definition.reading === 'each' ? (feeds.get(keyOf(probe))?.records ?? null) : probe.records;
    return scaled(
      estimateOf(
        {
          definition,
          scope: probe.scope,
          records,
          recordBytes: probe.recordBytes,
          pageCap: pageCap?.isCap === true ? pageCap.received : null,
          lastPages: null,
          parents,
          isHead: false,
          isRefused: probe.state === 'denied' || probe.state === 'not_offered' || probe.state === 'failing',
        },
        source,
      ),
      share,
    );
  });
}

function scaled(estimate: CollectionEstimate, share: number): CollectionEstimate {
  if (share === 1) return estimate;
  const { requests, bytes, records } = estimate;
  return {
    ...estimate,
    requests: Math.round(requests * share),
    bytes: Math.round(bytes * share),
    records: records === null ? null : Math.round(records * share),
    basis: 'guess',
  };
}
