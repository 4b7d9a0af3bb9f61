/** What runs changed, newest first, as much of it as is asked for: a run may have changed everything. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Kind } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { parseLossless } from '../../core/json.ts';
import { type RecordChange, compareRecords } from '../../diff/change.ts';
import type { ChangeCounts } from '../../mirror/change-counts.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { maskedChange, withMaskedId } from '../../report/mask.ts';
import { RecreatedBetween } from '../../state/recreated.ts';
import { FirstReadCollections } from '../../state/first-read-collections.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { previousRun } from '../../state/published-run.ts';
import { type ForgottenRuns, forgottenInto } from '../../state/forgotten-history.ts';
import { countChanges, NO_CHANGES, readChangeCounts, totalOf } from './change-counts.ts';
import { type ChangesCache, countsKey, cacheKey } from './changes-cache.ts';

interface ChangesQuestion {
  /** ISO 8601; runs that ended within are shown, both ends included. */
  readonly from: string;
  readonly to: string;
  readonly sources: readonly string[];
  /** Null for all. */
  readonly kinds: readonly Kind[] | null;
  /** Changes in all. */
  readonly limit: number;
}

/** A run and what it changed, masked. */
export interface RunChanges {
  readonly run: RunRow;
  /** The run that it is measured against; null for the first one kept of its source, in which everything is new. */
  readonly previous: number | null;
  /** Null where it is the first one, or where so much changed that only its counts are reported. */
  readonly changes: readonly RecordChange[] | null;
  /** Of the kinds that were asked for. It counts `changes`; if those are cut or left out, all of them. */
  readonly summary: ChangeCounts;
  /** Runs whose changes are among these, since retention dropped them. */
  readonly forgotten: ForgottenRuns | null;
}

export interface FoundChanges {
  /** Newest first; runs that changed nothing are left out. */
  readonly runs: readonly RunChanges[];
  /** True where there are more than the limit. */
  readonly isCut: boolean;
}

/** Runs of a source that are looked through: a fortnight of half-hourly ones, twice. */
const RUNS_READ = 2_000;
/** A run that changed more is reported by its counts: gathering its records alone would hold everything else up. */
const MOST_CHANGES = 50_000;
/** Records compared before others get their turn. */
const SLICE = 100;

export async function findChanges(
  mirror: Mirror,
  config: Config,
  question: ChangesQuestion,
  memory: ChangesCache,
): Promise<FoundChanges> {
  const found: RunChanges[] = [];
  let left = question.limit;
  let isCut = false;
  const { kinds } = question;
  // What a restore recognises later joins what stood apart.
  const idCounts = new Map<string, number>();
  const idsOf = ({ source }: RunRow): number => {
    const ids = idCounts.get(source) ?? mirror.restores.idMap(source).length;
    idCounts.set(source, ids);
    return ids;
  };
  const keyOf = (run: RunRow, previous: RunRow): string => `${cacheKey(run, previous, kinds)} ${idsOf(run)}`;
  const countsOf = (run: RunRow): ChangeCounts =>
    memory.counts(config, `${countsKey(run, kinds)} ${idsOf(run)}`, () => {
      return readChangeCounts(mirror, [run.run], kinds).get(run.run) ?? NO_CHANGES;
    });
  for (const { run, previous } of pairsOf(mirror, question)) {
    if (left === 0) {
      isCut = true;
      break;
    }
    const forgotten = forgottenInto(mirror, run.run) ?? null;
    const known = previous === null ? undefined : memory.recall(config, keyOf(run, previous));
    if (previous === null || (known === undefined && totalOf(countsOf(run)) > MOST_CHANGES)) {
      const summary = countsOf(run);
      found.push({ run, previous: previous?.run ?? null, changes: null, summary, forgotten });
      continue;
    }
    const asked = { kinds, limit: left };
    const { changes, isMore } =
      known === undefined
        ? await gather(mirror, config, { run, previous }, asked)
        : { changes: known.slice(0, left), isMore: known.length > left };
    if (known === undefined && !isMore) memory.keep(config, keyOf(run, previous), changes);
    left -= changes.length;
    isCut ||= isMore;
    if (changes.length === 0) continue;
    const summary = isMore
      ? known === undefined
        ? countsOf(run)
        : countChanges(known)
      : countChanges(changes);
    found.push({ run, previous: previous.run, changes, summary, forgotten });
  }
  return { runs: found, isCut };
}

interface Compared {
  readonly run: RunRow;
  readonly previous: RunRow;
}

interface Asked {
  readonly kinds: readonly Kind[] | null;
  readonly limit: number;
}

interface Gathered {
  readonly changes: readonly RecordChange[];
  readonly isMore: boolean;
}

/** The changes of one run against the one before it, up to a limit; `summary` counts all of them. */
export async function changesOf(
  mirror: Mirror,
  config: Config,
  compared: Compared,
  asked: Asked,
): Promise<Gathered & { readonly summary: ChangeCounts }> {
  const gathered = await gather(mirror, config, compared, asked);
  const { run } = compared.run;
  const summary = gathered.isMore
    ? (readChangeCounts(mirror, [run], asked.kinds).get(run) ?? NO_CHANGES)
    : countChanges(gathered.changes);
  return { ...gathered, summary };
}

async function gather(
  mirror: Mirror,
  config: Config,
  { run, previous }: Compared,
  { kinds, limit }: Asked,
): Promise<Gathered> {
  const definitions = definitionsFor(config, run.source);
  const changes: RecordChange[] = [];
  const at = previous.finishedAt ?? previous.startedAt;
  const before = { ref: `run:${previous.run}`, run: previous.run, at, isLatest: false };
  // What was only read for the first time is not a change of the service.
  const reads = new FirstReadCollections(openMirrorState(mirror, run.source, before));
  let read = 0;
  const again = RecreatedBetween.runs(mirror, { from: previous, to: run }, definitions);
  // The reader has its own connection: others may read and publish while this one waits.
  const between = mirror.records.changesBetween(previous.run, run.run, {
    sources: [run.source],
    ...(kinds === null ? {} : { kinds }),
  });
  for (const { kind, scope, id, before: was, after: is } of again.joined(between, {})) {
    const definition = definitions(kind);
    const parsed = (body: string | undefined): Parameters<typeof compareRecords>[1] =>
      body === undefined ? undefined : { kind, scope, id, body: parseLossless(body) };
    const change = compareRecords(definition, parsed(was), parsed(is), 'default');
    read += 1;
    if (read % SLICE === 0) await nextTurn();
    if (change === null) continue;
    if (change.change === 'added' && reads.isUnknown({ kind, scope, id }, 'added')) continue;
    if (changes.length === limit) return { changes, isMore: true };
    changes.push(withMaskedId(maskedChange(again.withRecreation(change), definition), definition));
  }
  return { changes, isMore: false };
}

interface RunPair {
  readonly run: RunRow;
  readonly previous: RunRow | null;
}

/** Runs of the period that changed something of the kinds, newest first, each with the published one before it. */
function pairsOf(mirror: Mirror, { from, to, sources, kinds }: ChangesQuestion): RunPair[] {
  const pairs = sources
    .flatMap((source) => {
      const runs = mirror.runs.list({ source, isPublished: true, endedBy: to, limit: RUNS_READ });
      return runs.flatMap((run, index): RunPair[] =>
        (run.finishedAt ?? run.startedAt) < from
          ? []
          : [{ run, previous: runs[index + 1] ?? previousRun(mirror, run) ?? null }],
      );
    })
    .sort((a, b) => b.run.run - a.run.run);
  const numbers = pairs.map(({ run }) => run.run);
  const changing = new Set(mirror.runs.changing({ runs: numbers, kinds }));
  return pairs.filter(({ run, previous }) => previous === null || changing.has(run.run));
}
