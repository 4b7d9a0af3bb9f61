/** Which sweeps of a run are still to come, as far as can be told: for time left, never for a decision. Pure. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import type { Discovery } from './discovery.ts';
import type { PlannedSweep } from './events.ts';

interface ForecastInput {
  readonly source: Pick<SourceConfig, 'recordings'>;
  /** Collections that the mirror holds. */
  readonly held: readonly CollectionRow[];
  /** Definitions of the kinds whose sweeps are not begun. */
  readonly definitions: readonly ResourceDefinition[];
  /** Kinds whose collections are all found. */
  readonly settled: readonly Kind[];
  readonly discovery: Discovery;
  readonly isHeadEnough: (collection: CollectionRow | undefined) => boolean;
}

/** The sweeps to come, and the kinds of which there may be more than these. */
export function forecast(input: ForecastInput): { sweeps: PlannedSweep[]; open: Kind[] } {
  const held = new Map(input.held.map((row) => [`${row.kind} ${scopeKey(row.scope)}`, row]));
  const sweeps: PlannedSweep[] = [];
  const open = new Set<Kind>();
  const unread = new Set<Kind>();
  for (const definition of input.definitions) {
    const { kind, reading, discovery } = definition;
    const parent = discovery.from === 'root' ? undefined : discovery.from;
    // A parent list that was never read may hold anything. A single object per parent stands where the parent's list does.
    if (
      !input.settled.includes(kind) &&
      parent !== undefined &&
      (open.has(parent) || (reading !== 'each' && unread.has(parent)))
    ) {
      open.add(kind);
    }
    for (const { scope } of input.discovery.scopesOf(definition)) {
      const own = held.get(`${kind} ${scopeKey(scope)}`);
      const { sharingPerRun } = input.source.recordings;
      const budget = reading === 'each' && sharingPerRun !== 'all' ? sharingPerRun : null;
      const counted = reading === 'each' ? held.get(`${parent ?? ''} ${scopeKey(scope)}`) : own;
      if (own?.lastRun === undefined || own.lastRun === null) unread.add(kind);
      sweeps.push({
        kind,
        scope,
        reading:
          reading === 'each' ? 'each' : reading === 'feed' && input.isHeadEnough(own) ? 'head' : 'full',
        known: counted === undefined ? null : Math.min(counted.records, budget ?? counted.records),
        pageRows: own?.pageCap ?? null,
        budget,
      });
    }
  }
  return { sweeps, open: [...open] };
}
