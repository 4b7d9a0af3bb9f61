/** Requests of the command line to the daemon on this machine, with the token from its private file. */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import type { Actor } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { RunProgress } from '../state/documents.ts';
import { keptText } from '../daemon/health/waits.ts';
import { HEALTH_STATES, type HealthState } from '../daemon/health/reason.ts';
import { type DaemonLockfile, findDaemon } from '../daemon/lockfile.ts';
import type { DaemonView, RunningJob, ScheduleView } from '../daemon/view.ts';
import { JOB_NAMES, JOB_TRIGGERS } from '../mirror/daemon-store.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { printNote, type CommandContext } from './context.ts';
import { daemonUnreachable } from './daemon-effects.ts';

/** As `POST /api/v1/runs` takes it. */
interface RunsRequest extends Actor {
  readonly job: string;
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  readonly kinds: readonly string[] | null;
  readonly ignore_pause?: true;
}

/** A job that the daemon has put into its queue. */
export interface QueuedRequest {
  readonly source: string | null;
  /** Number by which its state is requested. */
  readonly request: number;
  /** Names of the running job and of those queued before it. */
  readonly behind: readonly string[];
}

/** The state of a request, from `tidemark.request/1`. */
export interface RequestState {
  readonly state: 'waiting' | 'running' | 'ended';
  /** Of the job in the mirror; null if it has not started. */
  readonly number: number | null;
  /** An earlier version gives no hint. */
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly hint?: string | null;
  } | null;
  /** While it waits: the running job and those before it. An earlier version does not say. */
  readonly behind?: readonly { readonly job: string; readonly source: string | null }[];
}

interface DaemonAnswer {
  readonly status: number;
  readonly text: string;
}

const TIMEOUT_MS = 10_000;
/** A status does not wait for numbers that may as well be missing. */
const PROGRESS_TIMEOUT_MS = 2_000;

/**
 * Asks for runs.
 * @throws TidemarkError `unreachable` without an answer, `throttled` if its queue is full, `usage` if it refuses
 *   otherwise, both with the daemon's message
 */
export async function askDaemon(
  card: DaemonLockfile,
  signal: AbortSignal,
  wanted: RunsRequest,
): Promise<readonly QueuedRequest[]> {
  const ask = (body: Partial<RunsRequest>): Promise<DaemonAnswer> =>
    call(card, signal, 'POST', '/api/v1/runs', JSON.stringify(body));
  let answer = await ask(wanted);
  if (answer.status === 400) {
    // One that was not restarted since an update may not know who asks. What else is refused is refused again.
    const { job, sources, full, kinds } = wanted;
    answer = await ask({ job, sources, full, kinds });
  }
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
export async function lookUpRequest(
  card: DaemonLockfile,
  signal: AbortSignal,
  request: number,
): Promise<RequestState | null> {
  const { status, text } = await call(card, signal, 'GET', `/api/v1/requests/${request}`, null);
  if (status === 404) return null;
  if (status !== 200) throw daemonUnreachable(card, `it answered ${status}`);
  const { state, number, error, behind = [] } = documentIn(text, card) as unknown as RequestState;
  return { state, number, error, behind };
}

/** The part of `tidemark.status/1` with the running jobs. */
interface StatusAnswer {
  readonly daemon?: {
    readonly running?: readonly {
      readonly name: string;
      readonly source: string | null;
      readonly progress: (RunProgress & { readonly waiting_until?: string | null }) | null;
      readonly paused_until?: string | null;
    }[];
  };
}

/** A run that the daemon has under way: what it has read so far, and what keeps it (`keptText`). */
export interface LiveRun {
  readonly progress: RunProgress;
  readonly kept: string;
}

/**
 * What those of these runs that a daemon has under way have read so far, by source; a note on stderr where it cannot be
 * asked. Nothing is asked if no run is under way.
 */
export async function progressInDaemon(
  context: CommandContext,
  config: Config,
  runs: readonly (RunRow | null)[],
): Promise<ReadonlyMap<string, LiveRun>> {
  const configured = config.sources.map(({ name }) => name);
  const sources = runs.flatMap((run) =>
    run?.outcome === 'running' && configured.includes(run.source) ? [run.source] : [],
  );
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  const card = sources.length === 0 ? null : findDaemon(config.mirror, looker);
  if (card === null || card.url === null) return new Map();
  try {
    return await lookUpProgress(card, context.signal, sources);
  } catch (error) {
    printNote(context, [`${asTidemarkError(error).message}: what its sync has read so far is not known`]);
    return new Map();
  }
}

/**
 * Has a running daemon look at what this command has written to the mirror. Without a word where that fails, or where the daemon is of an
 * earlier version: it looks once a minute anyway.
 */
export async function noteWritten(
  context: CommandContext,
  { mirror }: Pick<Config, 'mirror'>,
): Promise<void> {
  const card = findDaemon(mirror, { pid: context.pid, host: hostname(), now: systemClock.now() });
  if (card === null || card.isOnce || card.url === null) return;
  await call(card, context.signal, 'POST', '/api/v1/look', '', PROGRESS_TIMEOUT_MS).catch(() => undefined);
}

/** What a running daemon knows and its mirrors do not tell. */
export interface DaemonNow {
  /** Of each source, as `/readyz` has it. */
  readonly states: ReadonlyMap<string, HealthState>;
  /** What it finds wrong: `CODE` of the daemon, `CODE SOURCE` of a source. */
  readonly wrong: readonly string[];
  readonly running: readonly RunningJob[];
  readonly queued: ReturnType<DaemonView['queued']>;
  /** The syncs by schedule that leave sources out, and when they are due. */
  readonly pauses: readonly SyncPauses[];
}

type SyncPauses = Required<Pick<ScheduleView, 'dueAt' | 'paused'>>;

/** @param document `tidemark.status/1`, perhaps of another version: what is not understood is left out @internal */
export function daemonNowIn(document: unknown): DaemonNow {
  const daemon = memberOf(document, 'daemon');
  return {
    states: new Map(
      listIn(memberOf(daemon, 'health'), 'sources').flatMap((each) => {
        const [source, state] = [memberOf(each, 'source'), memberOf(each, 'state')];
        const known = HEALTH_STATES.find((one) => one === state);
        return typeof source !== 'string' || known === undefined ? [] : [[source, known]];
      }),
    ),
    wrong: [memberOf(daemon, 'health'), ...listIn(memberOf(daemon, 'health'), 'sources')].flatMap((each) =>
      listIn(each, 'reasons').map((reason) => wrongKey(memberOf(reason, 'code'), memberOf(each, 'source'))),
    ),
    running: listIn(daemon, 'running').flatMap((each): RunningJob[] => {
      const identity = queuedJobIn(each);
      const [job, startedAt] = [memberOf(each, 'job'), memberOf(each, 'started_at')];
      const [silentSeconds, waitsFor] = [memberOf(each, 'silent_seconds'), memberOf(each, 'waits_for')];
      const pausedUntil = memberOf(each, 'paused_until');
      if (identity === null || typeof job !== 'number' || typeof startedAt !== 'string') return [];
      return [
        {
          ...{ ...identity, job, startedAt, progress: null },
          silentMs: typeof silentSeconds === 'number' ? silentSeconds * 1000 : null,
          pausedUntil: typeof pausedUntil === 'string' ? Date.parse(pausedUntil) : undefined,
          waitsFor: typeof waitsFor === 'string' ? waitsFor : null,
        },
      ];
    }),
    queued: listIn(daemon, 'queued').flatMap((each) => queuedJobIn(each) ?? []),
    pauses: listIn(daemon, 'schedules').flatMap((each): SyncPauses[] => {
      const dueAt = memberOf(each, 'due_at');
      const paused = listIn(each, 'paused').flatMap((pause) => {
        const [source, until] = [memberOf(pause, 'source'), memberOf(pause, 'until')];
        return typeof source === 'string' && typeof until === 'string' ? [{ source, until }] : [];
      });
      return paused.length === 0 || typeof dueAt !== 'string' ? [] : [{ dueAt, paused }];
    }),
  };
}

/** As in `DaemonNow.wrong`. */
export function wrongKey(code: unknown, source: unknown): string {
  return typeof source === 'string' ? `${String(code)} ${source}` : String(code);
}

function queuedJobIn(value: unknown): DaemonNow['queued'][number] | null {
  const source = memberOf(value, 'source');
  const name = JOB_NAMES.find((each) => each === memberOf(value, 'name'));
  const trigger = JOB_TRIGGERS.find((each) => each === memberOf(value, 'trigger'));
  if (name === undefined || trigger === undefined || (source !== null && typeof source !== 'string'))
    return null;
  const [waitsFor, since] = [memberOf(value, 'waits_for'), memberOf(value, 'since')];
  return {
    ...{ name, source, trigger },
    ...(typeof waitsFor === 'string' ? { waitsFor } : {}),
    ...(typeof since === 'string' ? { since } : {}),
  };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? list : [];
}

/** Null where no daemon works on the mirror, and, with a note on stderr, where it cannot be asked. */
export async function queryDaemon(
  context: CommandContext,
  { mirror }: Pick<Config, 'mirror'>,
): Promise<DaemonNow | null> {
  const card = findDaemon(mirror, { pid: context.pid, host: hostname(), now: systemClock.now() });
  if (card === null || card.url === null) return null;
  try {
    const answer = await call(card, context.signal, 'GET', '/api/v1/status', null, PROGRESS_TIMEOUT_MS);
    if (answer.status !== 200) throw daemonUnreachable(card, `it answered ${answer.status}`);
    return daemonNowIn(documentIn(answer.text, card));
  } catch (error) {
    printNote(context, [`${asTidemarkError(error).message}: what it does now is not known`]);
    return null;
  }
}

/** One line: `read so far: 1,200 records in 12 pages, 40 requests`. */
export function progressText({ records, pages, requests }: RunProgress): string {
  return `read so far: ${plural(records, 'record')} in ${plural(pages, 'page')}, ${plural(requests, 'request')}`;
}

/**
 * What the syncs that the daemon runs now have read so far, by source.
 * @throws TidemarkError `unreachable` without an answer
 */
async function lookUpProgress(
  card: DaemonLockfile,
  signal: AbortSignal,
  sources: readonly string[],
): Promise<ReadonlyMap<string, LiveRun>> {
  const query = sources.map((source) => `source=${encodeURIComponent(source)}`).join('&');
  const answer = await call(card, signal, 'GET', `/api/v1/status?${query}`, null, PROGRESS_TIMEOUT_MS);
  if (answer.status !== 200) throw daemonUnreachable(card, `it answered ${answer.status}`);
  const { daemon } = documentIn(answer.text, card) as StatusAnswer;
  return new Map(
    daemon?.running?.flatMap(({ name, source, progress, paused_until: until }) => {
      if (name !== 'sync' || source === null || progress === null) return [];
      const pausedUntil = typeof until === 'string' ? Date.parse(until) : undefined;
      const { waiting_until: limit } = progress;
      const waitingUntil = typeof limit === 'string' ? Date.parse(limit) : null;
      return [[source, { progress, kept: keptText({ pausedUntil, waitingUntil }) }]];
    }),
  );
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

async function call(
  card: DaemonLockfile,
  signal: AbortSignal,
  method: 'GET' | 'POST',
  path: string,
  body: string | null,
  timeoutMs = TIMEOUT_MS,
): Promise<DaemonAnswer> {
  if (card.url === null) throw daemonUnreachable(card, 'it answers no HTTP');
  const url = new URL(path, card.url);
  // Loaded here: with node:http, Node also loads its fetch, and most commands ask no daemon.
  const { Agent, request } = await import('node:http');
  return await new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(daemonUnreachable(card, error.message, { cause: error }));
    const sent = request(
      url,
      {
        method,
        // Under NODE_USE_ENV_PROXY the global agent would send the token through HTTP_PROXY, even to this machine.
        agent: new Agent({ proxyEnv: {} }),
        headers: {
          authorization: `Bearer ${card.token.reveal()}`,
          ...(body === null
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        },
        signal,
        timeout: timeoutMs,
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
