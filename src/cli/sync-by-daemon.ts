/** Requests a sync from the running daemon, waits for its end, and reads its result from the mirror. */
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
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import { keptText } from '../daemon/health/waits.ts';
import type { RunningJob } from '../daemon/view.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import type { SweepMode, SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import { daemonOf } from './daemon-effects.ts';
import {
  askDaemon,
  queryDaemon,
  lookUpRequest,
  type QueuedRequest,
  type RequestState,
} from './daemon-requests.ts';
import { reportedRun, type ReportedRun } from './run.ts';
import { verificationNote } from './verification-note.ts';

/** A source for which no run began, and why. */
export interface Refusal {
  readonly source: string;
  readonly error: TidemarkError;
}

export interface SyncedRuns {
  readonly runs: readonly ReportedRun[];
  readonly refused: readonly Refusal[];
  /** True if each run was printed as it ended. */
  readonly arePrinted: boolean;
  /** Warnings about the mirror, for stderr. */
  readonly warnings: readonly string[];
}

interface Wanted {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly ignorePause?: boolean;
  /** The name given with `--as`. */
  readonly as?: string;
}

/** Between two requests for the state of a job. */
const POLL_MS = 300;

/**
 * The runs that the daemon made; null if there is no daemon, or it cannot be reached: then this process syncs itself.
 * @throws TidemarkError if the daemon refuses, if there was no run, and `interrupted`, after which the daemon continues
 */
export async function syncByDaemon(
  context: CommandContext,
  config: Config,
  wanted: Wanted,
): Promise<SyncedRuns | null> {
  const card = daemonOf(context, config.mirror);
  // A call of `daemon --once` takes no requests. If it holds the writer lock, it is treated like any other writer.
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
  // With --json no progress is shown, except that the sync waits for another job: that explains why nothing happens.
  if (behind.length > 0 || context.options.json !== true) {
    const isKept = behind.length > 0 && wanted.ignorePause !== true;
    const now = isKept ? await queryDaemon(context, config) : null;
    printNote(context, [followingText(card, behind, now?.running[0])]);
  }
  const runs: ReportedRun[] = [];
  const refused: Refusal[] = [];
  for (const each of queued) {
    const ended = await followed(context, config, card, { ...each, askedAt });
    // The source was paused while the request waited for its turn.
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
  using mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  return verificationNote(mirror);
}

function followingText({ pid }: DaemonLockfile, behind: readonly string[], job?: RunningJob): string {
  const [first, ...others] = behind;
  if (first === undefined) return `the daemon (pid ${pid}) is running the sync; showing its progress`;
  const more =
    others.length === 0 ? '' : `, and ${plural(others.length, 'more job waits', 'more jobs wait')}`;
  const kept = job === undefined ? '' : keptText(job);
  return `the daemon (pid ${pid}) is running a ${first}${kept}${more}: this sync waits for its turn`;
}

/** Between two notes about what a sync waits for. */
const NOTE_MS = 30_000;

/** Notes, every half minute, what a request has waited for since `sinceMs`. @internal */
export class WaitNotes {
  readonly #sinceMs: number;
  #notedMs: number;

  constructor(sinceMs: number) {
    this.#sinceMs = sinceMs;
    this.#notedMs = sinceMs;
  }

  /** The note, if one is due now; else null. @param state null if it is not known at the moment */
  textAt(state: Pick<RequestState, 'state' | 'behind'> | null, nowMs: number): string | null {
    if (state?.state !== 'waiting' || nowMs - this.#notedMs < NOTE_MS) return null;
    this.#notedMs = nowMs;
    const [first] = state.behind ?? [];
    const source = first?.source ?? null;
    const what =
      first === undefined
        ? 'its turn'
        : `the ${first.job}${source === null ? '' : ` of ${source}`} in the daemon`;
    return `this sync has waited for ${duration(nowMs - this.#sinceMs)}, now for ${what}`;
  }
}

/** A request, with the time when it was made (ISO 8601). */
interface Asked extends Pick<QueuedRequest, 'request' | 'source'> {
  readonly askedAt: string;
}

/** Waits for the end of the request. */
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
      if (job === null)
        throw new TidemarkError('unreachable', `the daemon (pid ${card.pid}) ended before the sync did`, {
          hint: 'what was published before is untouched: run `tidemark sync` again',
        });
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
 * After the daemon has ended: the number of the request's job if that ended too, since a daemon that is stopped lets its job
 * end; else null.
 * @param number the number of the job; null if the daemon ended before it reported that
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
    // All that is known is that the daemon is gone; the next sync reports what is wrong with the mirror.
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

/** `gone` if that daemon has ended; null if it runs but does not answer at the moment: it may be moving to another address. */
async function stateOf(
  context: CommandContext,
  config: Config,
  asked: DaemonLockfile,
  request: number,
): Promise<RequestState | 'gone' | null> {
  const card = daemonOf(context, config.mirror);
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

/** Reads the request's run from the mirror. @throws TidemarkError if there was none */
function reportOf(context: CommandContext, config: Config, ended: RequestState): ReportedRun {
  const { number } = ended;
  // Without a job there may be no mirror either.
  if (number === null) throw endedWithout(ended);
  using mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  const job = mirror.daemon.job(number);
  if (job === undefined || job.outcome === 'running') throw endedWithout(ended);
  const run = job.run === null ? undefined : mirror.runs.get(job.run);
  const { outcome, errorCode, error } = job;
  if (run === undefined) throw syncNotFinished(outcome === 'interrupted' ? 'interrupted' : errorCode, error);
  const source = config.configured.find(({ name }) => name === job.source);
  const definitions = source?.definitions ?? [];
  return reportedRun(mirror, reportFromMirror(mirror, run, summaryOf('sync', job), definitions), config);
}

/** The error of a job that did not start, or whose end could not be recorded. */
function endedWithout({ error }: RequestState): TidemarkError {
  return syncNotFinished(error?.code ?? null, error?.message ?? null, error?.hint ?? null);
}

function syncNotFinished(code: string | null, why: string | null, hint: string | null = null): TidemarkError {
  return new TidemarkError(
    // The daemon was interrupted, not this command.
    code === 'interrupted' ? 'unreachable' : ((code ?? 'internal') as TidemarkError['code']),
    `${code === 'throttled' ? '' : 'the daemon did not finish the sync: '}${why ?? 'its log says why'}`,
    { hint: hint ?? 'see the log of the daemon, then run `tidemark sync` again' },
  );
}

/**
 * The report of a run, from the mirror, as the process that made the run would have shown it.
 * @param summary of the daemon's job: has what the run's rows lack (hints, permissions, pending records), for the sweeps that
 * it names
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
      const { kind, scope, outcome, pages, records, added, changed, removed, unchanged, held, count } = row;
      const key = collectionKey(row);
      const { hint = null, permission = null } = unread.get(key) ?? {};
      const { leaked = 0, pending = 0 } = unfinished.get(key) ?? {};
      return {
        ...{ kind, scope, outcome, mode: modeOf(row, definitions), pages, records },
        ...{ added, changed, removed, unchanged, held, leaked, pending, count },
        pageCap: caps.get(key) ?? null,
        error:
          row.errorCode === null ? null : { code: row.errorCode, message: row.error ?? '', hint, permission },
      };
    }),
  };
}

/** How a list was read. The mirror stores this for walked lists; otherwise it follows from the kind and the outcome. */
function modeOf({ kind, mode, outcome }: SweepRow, definitions: readonly ResourceDefinition[]): SweepMode {
  if (mode !== null) return mode;
  const isOneByOne = definitions.find((definition) => definition.kind === kind)?.reading === 'each';
  if (isOneByOne && outcome !== 'skipped') return 'each';
  return outcome === 'complete' ? 'parent' : 'none';
}
