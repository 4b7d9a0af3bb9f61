/** Requests a sync from the running daemon, follows it to its end, and reads its result from the mirror. */
import { hostname } from 'node:os';
import { collectionKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { requireNameWithoutSecret } from '../config/known-secrets.ts';
import { commandActor } from '../core/actor.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { duration, plural } from '../core/wording.ts';
import { summaryOf, type SyncSummary } from '../daemon/jobs/summaries.ts';
import { type DaemonLockfile, findDaemon } from '../daemon/lockfile.ts';
import { keptText } from '../daemon/health/waits.ts';
import type { RunningJob } from '../daemon/view.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import type { SweepMode, SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import {
  askDaemon,
  queryDaemon,
  lookUpRequest,
  type QueuedRequest,
  type RequestState,
} from './daemon-requests.ts';
import { reportedRun, type ReportedRun } from './run.ts';
import { verificationNote } from './verification-note.ts';

/** A source of which no run was begun. */
export interface Refusal {
  readonly source: string;
  readonly error: TidemarkError;
}

export interface SyncedRuns {
  readonly runs: readonly ReportedRun[];
  readonly refused: readonly Refusal[];
  /** True where each was shown as it ended. */
  readonly arePrinted: boolean;
  /** Of the mirror, for stderr. */
  readonly warnings: readonly string[];
}

interface Wanted {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly ignorePause?: boolean;
  /** The name given with `--as`. */
  readonly as?: string;
}

/** Interval of polling the daemon's jobs. */
const POLL_MS = 300;

/**
 * The runs that the daemon did; null if there is no daemon, or it cannot be reached: then this process syncs itself.
 * @throws TidemarkError where the daemon refuses, where there was no run, and `interrupted`: the daemon continues then
 */
export async function syncByDaemon(
  context: CommandContext,
  config: Config,
  wanted: Wanted,
): Promise<SyncedRuns | null> {
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  const card = findDaemon(config.mirror, looker);
  // A call of `daemon --once` takes no requests; what it holds is waited for, or named, as of any other writer.
  if (card === null || card.isOnce) return null;
  const actor = commandActor(wanted.as);
  requireNameWithoutSecret(config, actor);
  let queued: readonly QueuedRequest[];
  const askedAt = isoTime(systemClock.now());
  try {
    queued = await askDaemon(card, context.signal, {
      job: 'sync',
      sources: config.sources.map(({ name }) => name),
      full: wanted.full === true,
      kinds: wanted.kind ?? null,
      ...(wanted.ignorePause === true ? { ignore_pause: true } : {}),
      ...actor,
    });
  } catch (error) {
    const problem = asTidemarkError(error);
    if (problem.code !== 'unreachable') throw problem;
    printNote(context, [`${problem.message}: syncing without it`]);
    return null;
  }
  const behind = queued[0]?.behind ?? [];
  // With --json no progress is shown; that it waits for another job explains why nothing comes.
  if (behind.length > 0 || context.options.json !== true) {
    const isKept = behind.length > 0 && wanted.ignorePause !== true;
    const now = isKept ? await queryDaemon(context, config) : null;
    printNote(context, [followingText(card, behind, now?.running[0])]);
  }
  const runs: ReportedRun[] = [];
  const refused: Refusal[] = [];
  for (const each of queued) {
    const ended = await followed(context, config, card, { ...each, askedAt });
    // A pause began while it waited for its turn.
    if (ended.number === null && ended.error?.code === 'throttled' && each.source !== null)
      refused.push({ source: each.source, error: endedWithout(ended) });
    else runs.push(reportOf(context, config, ended));
  }
  return {
    runs,
    refused,
    arePrinted: false,
    warnings: runs.length === 0 ? [] : readWarnings(context, config),
  };
}

function readWarnings(context: CommandContext, config: Config): string[] {
  const mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  try {
    return verificationNote(mirror);
  } finally {
    mirror.close();
  }
}

function followingText({ pid }: DaemonLockfile, behind: readonly string[], job?: RunningJob): string {
  const [first, ...others] = behind;
  if (first === undefined) return `the daemon (pid ${pid}) is running the sync; showing its progress`;
  const more =
    others.length === 0 ? '' : `, and ${plural(others.length, 'more job waits', 'more jobs wait')}`;
  const kept = job === undefined ? '' : keptText(job);
  return `the daemon (pid ${pid}) is running a ${first}${kept}${more}: this sync waits for its turn`;
}

/** Until it is said again what a sync waits for. */
const SAY_MS = 30_000;

/** What a request waits for, every half minute from `sinceMs` on. @internal */
export class WaitNotes {
  readonly #sinceMs: number;
  #saidMs: number;

  constructor(sinceMs: number) {
    this.#sinceMs = sinceMs;
    this.#saidMs = sinceMs;
  }

  /** Null where nothing is to be said now. @param state null where it is not known at the moment */
  textAt(state: Pick<RequestState, 'state' | 'behind'> | null, nowMs: number): string | null {
    if (state?.state !== 'waiting' || nowMs - this.#saidMs < SAY_MS) return null;
    this.#saidMs = nowMs;
    const [first] = state.behind ?? [];
    const source = first?.source ?? null;
    const what =
      first === undefined
        ? 'its turn'
        : `the ${first.job}${source === null ? '' : ` of ${source}`} in the daemon`;
    return `this sync has waited for ${duration(nowMs - this.#sinceMs)}, now for ${what}`;
  }
}

/** A request, and when it was made (ISO 8601). */
interface Asked extends Pick<QueuedRequest, 'request' | 'source'> {
  readonly askedAt: string;
}

/** Waits until the request has come to its end. */
async function followed(
  context: CommandContext,
  config: Config,
  card: DaemonLockfile,
  asked: Asked,
): Promise<RequestState> {
  let number: number | null = null;
  const waitNotes = new WaitNotes(systemClock.monotonicMs());
  for (;;) {
    const state = await stateOf(context, config, card, asked.request);
    if (state === 'gone') {
      const job = endedJob(context, config, asked, number);
      if (job === null) throw daemonEnded(card);
      return { state: 'ended', number: job, error: null };
    }
    if (state?.state === 'ended') return state;
    number = state?.number ?? number;
    const waits = waitNotes.textAt(state, systemClock.monotonicMs());
    if (waits !== null) printNote(context, [waits]);
    try {
      await systemClock.sleep(POLL_MS, context.signal);
    } catch (error) {
      throw noLongerFollowed(error);
    }
  }
}

/**
 * The number of the request's job, if it ended before its daemon did: a daemon that was asked to stop lets it end. Null otherwise.
 * @param number of the job; null where the daemon ended before it said that
 */
function endedJob(
  context: CommandContext,
  config: Config,
  { source, askedAt }: Asked,
  number: number | null,
): number | null {
  let mirror: Mirror;
  try {
    mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  } catch {
    // Then the mirror does not say more than that the daemon is gone; the next sync says what is wrong with it.
    return null;
  }
  try {
    const row =
      number === null
        ? mirror.daemon.jobs({ name: 'sync', ...(source === null ? {} : { source }), limit: 1 })[0]
        : mirror.daemon.job(number);
    const isOurs = row !== undefined && (number !== null || row.startedAt >= askedAt);
    return isOurs && row.outcome !== 'running' ? row.job : null;
  } finally {
    mirror.close();
  }
}

/** `gone` without that daemon; null where it runs but does not answer at the moment: it may just be moving to another address. */
async function stateOf(
  context: CommandContext,
  config: Config,
  asked: DaemonLockfile,
  request: number,
): Promise<RequestState | 'gone' | null> {
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  const card = findDaemon(config.mirror, looker);
  if (card === null || card.token.reveal() !== asked.token.reveal()) return 'gone';
  try {
    return (await lookUpRequest(card, context.signal, request)) ?? 'gone';
  } catch (error) {
    if (context.signal.aborted) throw noLongerFollowed(error);
    if (asTidemarkError(error).code === 'unreachable') return null;
    throw error;
  }
}

function noLongerFollowed(cause: unknown): TidemarkError {
  return new TidemarkError('interrupted', 'no longer followed: the daemon continues the sync', { cause });
}

/** The request's run from the mirror. @throws TidemarkError where there was none */
function reportOf(context: CommandContext, config: Config, ended: RequestState): ReportedRun {
  const { number } = ended;
  // Without one there may be no mirror either.
  if (number === null) throw endedWithout(ended);
  const mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  try {
    const job = mirror.daemon.job(number);
    if (job === undefined || job.outcome === 'running') throw endedWithout(ended);
    const run = job.run === null ? undefined : mirror.runs.get(job.run);
    if (run === undefined) throw failureOf(job);
    const source = config.configured.find(({ name }) => name === job.source);
    const definitions = source?.definitions ?? [];
    return reportedRun(mirror, reportFromMirror(mirror, run, summaryOf('sync', job), definitions), config);
  } finally {
    mirror.close();
  }
}

function failureOf({ errorCode, error, outcome }: JobRow): TidemarkError {
  return syncNotFinished(outcome === 'interrupted' ? 'interrupted' : errorCode, error);
}

/** The error of a job that did not start, or whose end could not be recorded. */
function endedWithout({ error }: RequestState): TidemarkError {
  return syncNotFinished(error?.code ?? null, error?.message ?? null, error?.hint ?? null);
}

function syncNotFinished(code: string | null, why: string | null, hint: string | null = null): TidemarkError {
  return new TidemarkError(
    // It was the daemon that was interrupted, not this command.
    code === 'interrupted' ? 'unreachable' : ((code ?? 'internal') as TidemarkError['code']),
    `${code === 'throttled' ? '' : 'the daemon did not finish the sync: '}${why ?? 'its log says why'}`,
    { hint: hint ?? 'see the log of the daemon, then run `tidemark sync` again' },
  );
}

function daemonEnded({ pid }: DaemonLockfile): TidemarkError {
  return new TidemarkError('unreachable', `the daemon (pid ${pid}) ended before the sync did`, {
    hint: 'what was published before is untouched: run `tidemark sync` again',
  });
}

// A run's report restored from the mirror, as the process that did the run would have shown it.

/**
 * @param summary of the daemon's job: what the run's rows do not have (hints, permissions, pending records); empty for
 * sweeps that it does not name
 */
function reportFromMirror(
  mirror: Mirror,
  run: RunRow,
  summary: SyncSummary | null,
  definitions: readonly ResourceDefinition[],
): RunReport {
  const caps = new Map(
    mirror.runs.collections(run.source).map((each) => [collectionKey(each), each.pageCap]),
  );
  const unread = new Map(summary?.unread.map((each) => [collectionKey(each), each]));
  const unfinished = new Map(summary?.unfinished?.map((each) => [collectionKey(each), each]));
  return {
    run: run.run,
    source: run.source,
    outcome: run.outcome === 'running' ? 'failed' : run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt ?? run.startedAt,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    sweeps: mirror.runs.sweeps(run.run).map((row): SweepReport => {
      const { errorCode, error, ...sweep } = row;
      const problem = unread.get(collectionKey(row));
      return {
        kind: sweep.kind,
        scope: sweep.scope,
        outcome: sweep.outcome,
        mode: modeOf(row, definitions),
        pages: sweep.pages,
        records: sweep.records,
        added: sweep.added,
        changed: sweep.changed,
        removed: sweep.removed,
        unchanged: sweep.unchanged,
        held: sweep.held,
        leaked: unfinished.get(collectionKey(row))?.leaked ?? 0,
        pending: unfinished.get(collectionKey(row))?.pending ?? 0,
        count: sweep.count,
        pageCap: caps.get(collectionKey(row)) ?? null,
        error:
          errorCode === null
            ? null
            : {
                code: errorCode,
                message: error ?? '',
                hint: problem?.hint ?? null,
                permission: problem?.permission ?? null,
              },
      };
    }),
  };
}

/** The mirror stores the mode of a walked list; the other modes follow from the kind and the outcome. */
function modeOf({ kind, mode, outcome }: SweepRow, definitions: readonly ResourceDefinition[]): SweepMode {
  if (mode !== null) return mode;
  const isOneByOne = definitions.find((definition) => definition.kind === kind)?.reading === 'each';
  if (isOneByOne && outcome !== 'skipped') return 'each';
  return outcome === 'complete' ? 'parent' : 'none';
}
