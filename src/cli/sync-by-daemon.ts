/** Requests a sync from the running daemon, follows it to its end, and reads its result from the mirror. */
import { Agent, request } from 'node:http';
import { hostname } from 'node:os';
import { collectionKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { summaryOf, type SyncSummary } from '../daemon/jobs/summaries.ts';
import { type DaemonLockfile, findDaemon } from '../daemon/lockfile.ts';
import type { JobRow } from '../mirror/daemon.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../mirror/run-rows.ts';
import type { SweepMode, SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import { daemonUnreachable } from './daemon-effects.ts';
import { reportedRun, type ReportedRun } from './run.ts';

export interface SyncedRuns {
  readonly runs: readonly ReportedRun[];
  /** True where each was shown as it ended. */
  readonly arePrinted: boolean;
}

interface Wanted {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
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
  if (card === null) return null;
  let queued: readonly QueuedRequest[];
  try {
    queued = await askDaemon(card, context.signal, {
      job: 'sync',
      sources: config.sources.map(({ name }) => name),
      full: wanted.full === true,
      kinds: wanted.kind ?? null,
    });
  } catch (error) {
    const problem = asTidemarkError(error);
    if (problem.code !== 'unreachable') throw problem;
    printNote(context, [`${problem.message}: syncing without it`]);
    return null;
  }
  printNote(context, [followingText(card, queued[0]?.behind ?? [])]);
  const runs: ReportedRun[] = [];
  for (const each of queued) {
    const ended = await followed(context, config, card, each.request);
    runs.push(reportOf(context, config, ended));
  }
  return { runs, arePrinted: false };
}

function followingText({ pid }: DaemonLockfile, behind: readonly string[]): string {
  const [first, ...others] = behind;
  if (first === undefined) return `the daemon (pid ${pid}) is running the sync; showing its progress`;
  const more =
    others.length === 0 ? '' : `, and ${plural(others.length, 'more job waits', 'more jobs wait')}`;
  return `the daemon (pid ${pid}) is running a ${first}${more}: this sync waits for its turn`;
}

/** Waits until the request has come to its end. */
async function followed(
  context: CommandContext,
  config: Config,
  card: DaemonLockfile,
  request: number,
): Promise<RequestState> {
  for (;;) {
    const state = await stateOf(context, config, card, request);
    if (state?.state === 'ended') return state;
    try {
      await systemClock.sleep(POLL_MS, context.signal);
    } catch (error) {
      throw noLongerFollowed(error);
    }
  }
}

/** Null where the daemon runs but does not answer at the moment: it may just be moving to another address. */
async function stateOf(
  context: CommandContext,
  config: Config,
  asked: DaemonLockfile,
  request: number,
): Promise<RequestState | null> {
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  const card = findDaemon(config.mirror, looker);
  if (card === null || card.token.reveal() !== asked.token.reveal()) throw gone(asked);
  let state: RequestState | null;
  try {
    state = await lookUpRequest(card, context.signal, request);
  } catch (error) {
    if (context.signal.aborted) throw noLongerFollowed(error);
    if (asTidemarkError(error).code === 'unreachable') return null;
    throw error;
  }
  if (state === null) throw gone(asked);
  return state;
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
    return reportedRun(mirror, reportFromMirror(mirror, run, summaryOf('sync', job), definitions));
  } finally {
    mirror.close();
  }
}

function failureOf({ errorCode, error, outcome }: JobRow): TidemarkError {
  return cameToNothing(outcome === 'interrupted' ? 'interrupted' : errorCode, error);
}

/** The error of a job that did not start, or whose end could not be recorded. */
function endedWithout({ error }: RequestState): TidemarkError {
  return cameToNothing(error?.code ?? null, error?.message ?? null);
}

function cameToNothing(code: string | null, why: string | null): TidemarkError {
  return new TidemarkError(
    (code ?? 'internal') as TidemarkError['code'],
    `the daemon's sync came to nothing: ${why ?? 'its log says why'}`,
    { hint: 'see the log of the daemon, then run `tidemark sync` again' },
  );
}

function gone({ pid }: DaemonLockfile): TidemarkError {
  return new TidemarkError('interrupted', `the daemon (pid ${pid}) ended before the sync did`, {
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

// Requests of the command line to the daemon on this machine, with the token from its private file.

/** As `POST /api/v1/runs` takes it. */
interface RunsRequest {
  readonly job: string;
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  readonly kinds: readonly string[] | null;
}

/** A job that the daemon has put into its queue. */
interface QueuedRequest {
  readonly source: string | null;
  /** Number by which its state is requested. */
  readonly request: number;
  /** Names of the running job and of those queued before it. */
  readonly behind: readonly string[];
}

/** The state of a request, from `tidemark.request/1`. */
interface RequestState {
  readonly state: 'waiting' | 'running' | 'ended';
  /** Of the job in the mirror; null if it has not started. */
  readonly number: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

interface DaemonAnswer {
  readonly status: number;
  readonly text: string;
}

const TIMEOUT_MS = 10_000;
/** Under NODE_USE_ENV_PROXY the global agent would send the token through HTTP_PROXY, even to this machine. */
const NO_PROXY = new Agent({ proxyEnv: {} });

/**
 * Asks for runs.
 * @throws TidemarkError `unreachable` without an answer, `throttled` if its queue is full, `usage` if it refuses
 *   otherwise, both with the daemon's message
 */
async function askDaemon(
  card: DaemonLockfile,
  signal: AbortSignal,
  wanted: RunsRequest,
): Promise<readonly QueuedRequest[]> {
  const answer = await call(card, signal, 'POST', '/api/v1/runs', JSON.stringify(wanted));
  if (answer.status === 202) return queuedIn(answer, card);
  if (answer.status === 401 || answer.status === 403 || answer.status === 404 || answer.status >= 500)
    throw daemonUnreachable(card, `it answered ${answer.status}`);
  throw new TidemarkError(
    // 429 means that it is busy, which is not a mistake of the user.
    answer.status === 429 ? 'throttled' : 'usage',
    `the daemon (pid ${card.pid}) refused: ${wordsOf(answer.text) ?? `status ${answer.status}`}`,
  );
}

/**
 * The state of a request; null if the daemon no longer knows it.
 * @throws TidemarkError `unreachable` without an answer
 */
async function lookUpRequest(
  card: DaemonLockfile,
  signal: AbortSignal,
  request: number,
): Promise<RequestState | null> {
  const { status, text } = await call(card, signal, 'GET', `/api/v1/requests/${request}`, null);
  if (status === 404) return null;
  if (status !== 200) throw daemonUnreachable(card, `it answered ${status}`);
  const { state, number, error } = documentIn(text, card) as unknown as RequestState;
  return { state, number, error };
}

function queuedIn({ text }: DaemonAnswer, card: DaemonLockfile): QueuedRequest[] {
  const { queued } = documentIn(text, card);
  if (!Array.isArray(queued)) throw daemonUnreachable(card, 'its answer is not understood');
  return (queued as (Omit<QueuedRequest, 'behind'> & { behind?: { job: string }[] })[]).map(
    ({ source, request, behind = [] }) => {
      if (typeof request !== 'number')
        throw daemonUnreachable(card, 'it is of another version, and gives requests no number');
      return { source, request, behind: behind.map(({ job }) => job) };
    },
  );
}

function documentIn(text: string, card: DaemonLockfile): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw daemonUnreachable(card, 'its answer is not JSON', { cause: error });
  }
}

function call(
  card: DaemonLockfile,
  signal: AbortSignal,
  method: 'GET' | 'POST',
  path: string,
  body: string | null,
): Promise<DaemonAnswer> {
  if (card.url === null) return Promise.reject(daemonUnreachable(card, 'it answers no HTTP'));
  const url = new URL(path, card.url);
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(daemonUnreachable(card, error.message, { cause: error }));
    const sent = request(
      url,
      {
        method,
        agent: NO_PROXY,
        headers: {
          authorization: `Bearer ${card.token.reveal()}`,
          ...(body === null
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        },
        signal,
        timeout: TIMEOUT_MS,
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => (text += chunk));
        answer.on('error', fail);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      },
    );
    sent.on('timeout', () => sent.destroy(new Error('no answer in time')));
    sent.on('error', fail);
    sent.end(body ?? undefined);
  });
}

/** The message of an error document, however it is wrapped. */
function wordsOf(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { message?: unknown; error?: { message?: unknown } };
    const message = body.message ?? body.error?.message;
    return typeof message === 'string' ? message : undefined;
  } catch {
    // Not a document of Tidemark: the status must suffice.
    return undefined;
  }
}
