/** An estimate from what the last runs found: nothing is sent. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow, SweepRow } from '../mirror/run-rows.ts';
import {
  estimateOf,
  type CollectionEstimate,
  type ParentRule,
  type Prospect,
  type SourceEstimate,
} from './estimate.ts';

interface MirrorEstimateOptions {
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  readonly run: RunRow;
  readonly kinds: ReadonlySet<Kind>;
  /** True for a reading that takes every list whole, feeds too. */
  readonly isWhole: boolean;
  readonly parents: ParentRule;
  readonly now: number;
}

/** Bodies measured for the mean of a kind. */
const MEASURED = 300;

export function estimateFromMirror(options: MirrorEstimateOptions): SourceEstimate {
  const { mirror, source, run, kinds } = options;
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const held = mirror.collectionsOf(source.name).filter(({ retiredRun }) => retiredRun === null);
  const sweeps = sweepsByRun(mirror);
  const sizes = new Map<Kind, number | null>();
  const removals = new Map(
    mirror.heldRemovals(source.name).map((each) => [`${each.kind} ${scopeKey(each.scope)}`, each.records]),
  );
  const parents = new Map(held.map((row) => [`${row.kind} ${scopeKey(row.scope)}`, row.records]));
  const collections = held.flatMap((row): CollectionEstimate[] => {
    const definition = definitions.get(row.kind);
    if (definition === undefined || !kinds.has(row.kind)) return [];
    if (!sizes.has(row.kind)) sizes.set(row.kind, meanBytes(mirror, row.kind));
    const recordBytes = sizes.get(row.kind) ?? null;
    const prospect = {
      ...prospectOf(options, definition, row, sweeps, parents),
      recordBytes,
      held: removals.get(`${row.kind} ${scopeKey(row.scope)}`) ?? 0,
    };
    return [estimateOf(named(prospect, source), source)];
  });
  const at = (run.finishedAt ?? run.startedAt).slice(0, 16);
  const missing = [...kinds].filter((kind) => !collections.some((each) => each.kind === kind));
  return {
    source,
    from: 'mirror',
    collections,
    requestMs: requestMs(run, source),
    known: [`collections, pages and records as of run ${run.run} (${at}Z)`],
    guessed: [
      `bytes: the mean of up to ${MEASURED} mirrored records of each kind`,
      'nothing was added since, in particular no organization, project or role; records that went cost a look each',
      ...(missing.length === 0 ? [] : [`not known yet, and not counted: ${missing.join(', ')}`]),
    ],
    asked: 0,
  };
}

type Sweeps = (run: number | null, row: CollectionRow) => SweepRow | undefined;

function sweepsByRun(mirror: Mirror): Sweeps {
  const runs = new Map<number, Map<string, SweepRow>>();
  return (run, { kind, scope }) => {
    if (run === null) return undefined;
    let found = runs.get(run);
    if (found === undefined) {
      found = new Map(mirror.sweepsOf(run).map((sweep) => [`${sweep.kind} ${scopeKey(sweep.scope)}`, sweep]));
      runs.set(run, found);
    }
    return found.get(`${kind} ${scopeKey(scope)}`);
  };
}

function prospectOf(
  { source, isWhole, parents: parentRule, now }: MirrorEstimateOptions,
  definition: ResourceDefinition,
  row: CollectionRow,
  sweeps: Sweeps,
  parents: ReadonlyMap<string, number>,
): Prospect {
  const isEach = definition.reading === 'each';
  const isHead = definition.reading === 'feed' && !isWhole && isHeadEnough(row, source, now);
  const last = sweeps(row.lastRun, row);
  const whole = sweeps(row.lastFullRun, row);
  const same = [last, whole].find(
    (sweep) => (sweep?.mode === 'head') === isHead && sweep?.mode !== undefined,
  );
  const { from } = definition.discovery;
  return {
    definition,
    scope: row.scope,
    records: isEach ? (parents.get(`${from} ${scopeKey(row.scope)}`) ?? 0) : row.records,
    recordBytes: null,
    pageCap: row.pageCap,
    lastPages: isEach || same === undefined || same.pages === 0 ? null : same.pages,
    parents: parentRule,
    isHead,
    isRefused: row.lastOutcome === 'denied' || row.lastOutcome === 'missing',
  };
}

/** Organizations that are named are asked for one by one, and no list is read. */
function named(prospect: Prospect, { organizations }: SourceConfig): Prospect {
  if (organizations === 'all' || prospect.definition.discovery.from !== 'root') return prospect;
  return { ...prospect, lastPages: organizations.length };
}

/** As a run decides it (src/sync/sync-run.ts). */
function isHeadEnough({ lastFullAt }: CollectionRow, source: SourceConfig, now: number): boolean {
  if (lastFullAt === null) return false;
  const age = now - Date.parse(lastFullAt);
  return age >= 0 && age < source.recordings.fullSweepEveryMs;
}

function meanBytes(mirror: Mirror, kind: Kind): number | null {
  const { rows } = mirror.query(
    `SELECT avg(length(CAST(body AS BLOB))) FROM (SELECT body FROM "${kind}" LIMIT ${MEASURED})`,
  );
  const mean = rows[0]?.[0];
  return typeof mean === 'number' ? mean : null;
}

/** Of a run that did not have to wait for its rate; one that did tells nothing of the service's speed. */
function requestMs({ requests, startedAt, finishedAt }: RunRow, { rate }: SourceConfig): number | null {
  if (finishedAt === null || requests === 0) return null;
  if (rate.perMinute !== 0 && requests > rate.perMinute) return null;
  return (Date.parse(finishedAt) - Date.parse(startedAt)) / requests;
}
