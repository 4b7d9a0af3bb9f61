/** Requests of commands to the daemon on this machine, with the token from its lockfile. */
import type { Config } from '../config/config.ts';
import type { Actor } from '../core/actor.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { RunProgress } from '../state/documents.ts';
import { keptText } from '../daemon/health/waits.ts';
import { HEALTH_STATES, type HealthState } from '../daemon/health/reason.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import type { DaemonView, RunningJob, ScheduleView } from '../daemon/view.ts';
import { JOB_NAMES, JOB_TRIGGERS } from '../mirror/daemon-store.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { printNote, type CommandContext } from './context.ts';
import { daemonOf, daemonUnreachable } from './daemon-effects.ts';

/** The body of `POST /api/v1/runs`. */
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
  /** The number with which its state is requested. */
  readonly request: number;
  /** Names of the running job and of those queued before it. */
  readonly behind: readonly string[];
}

/** The state of a request, from `tidemark.request/1`. */
export interface RequestState {
  readonly state: 'waiting' | 'running' | 'ended';
  /** The job's number in the mirror; null if it has not started. */
  readonly number: number | null;
  /** Earlier versions give no hint. */
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly hint?: string | null;
  } | null;
  /** While it waits: the running job and those before it. Earlier versions leave it out. */
  readonly behind?: readonly { readonly job: string; readonly source: string | null }[];
}

interface DaemonAnswer {
  readonly status: number;
  readonly text: string;
}

const TIMEOUT_MS = 10_000;
/** For requests whose answer a command can do without. */
const PROGRESS_TIMEOUT_MS = 2_000;

/**
 * Requests runs.
 * @throws TidemarkError `unreachable` without an answer, `throttled` if the queue is full, `usage` if the daemon refuses for another
 *   reason; the last two have the daemon's message
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
    // A daemon of an earlier version may not accept the actor. A request that is wrong otherwise is refused again.
    const { job, sources, full, kinds } = wanted;
    answer = await ask({ job, sources, full, kinds });
  }
  if (answer.status === 202) return queuedIn(answer, card);
  if (answer.status === 401 || answer.status === 403 || answer.status === 404 || answer.status >= 500)
    throw daemonUnreachable(card, `it answered ${answer.status}`);
  throw new TidemarkError(
    answer.status === 429 ? 'throttled' : 'usage',
    `the daemon (pid ${card.pid}) refused: ${messageIn(answer.text) ?? `status ${answer.status}`}`,
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

/** A run that the daemon executes now: what it has read so far, and what delays it (`keptText`). */
export interface LiveRun {
  readonly progress: RunProgress;
  readonly kept: string;
}

/**
 * What the running ones of these runs have read so far, by source; a note on stderr if the daemon cannot be asked. Without a running
 * run nothing is requested.
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
  const card = sources.length === 0 ? null : daemonOf(context, config.mirror);
  if (card === null || card.url === null) return new Map();
  try {
    return await lookUpProgress(card, context.signal, sources);
  } catch (error) {
    printNote(context, [`${asTidemarkError(error).message}: what its sync has read so far is not known`]);
    return new Map();
  }
}

/**
 * Makes a running daemon look at what this command has written to the mirror. Failures are ignored, also of daemons of an earlier
 * version: a daemon looks once a minute anyway.
 */
export async function noteWritten(
  context: CommandContext,
  { mirror }: Pick<Config, 'mirror'>,
): Promise<void> {
  const card = daemonOf(context, mirror);
  if (card === null || card.isOnce || card.url === null) return;
  await call(card, context.signal, 'POST', '/api/v1/look', '', PROGRESS_TIMEOUT_MS).catch(() => undefined);
}

/** What a running daemon knows that is not in its mirrors. */
export interface DaemonNow {
  /** By source, as in `/readyz`. */
  readonly states: ReadonlyMap<string, HealthState>;
  /** What is wrong: `CODE` for the daemon, `CODE SOURCE` for a source. */
  readonly wrong: readonly string[];
  readonly running: readonly RunningJob[];
  readonly queued: ReturnType<DaemonView['queued']>;
  /** Scheduled syncs that will leave out paused sources, and when they are due. */
  readonly pauses: readonly SyncPauses[];
}

type SyncPauses = Required<Pick<ScheduleView, 'dueAt' | 'paused'>>;

/** @param document `tidemark.status/1`, perhaps of another version: what is not understood is left out @internal */
export function daemonNowIn(document: unknown): DaemonNow {
  const daemon = memberOf(document, 'daemon');
  const health = memberOf(daemon, 'health');
  return {
    states: new Map(
      listIn(health, 'sources').flatMap((each) => {
        const source = memberOf(each, 'source');
        const state = HEALTH_STATES.find((known) => known === memberOf(each, 'state'));
        return typeof source !== 'string' || state === undefined ? [] : [[source, state]];
      }),
    ),
    wrong: [health, ...listIn(health, 'sources')].flatMap((each) =>
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

/** A key of `DaemonNow.wrong`. */
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

/** Null if no daemon runs on the mirror, and, with a note on stderr, if it cannot be asked. */
export async function queryDaemon(
  context: CommandContext,
  { mirror }: Pick<Config, 'mirror'>,
): Promise<DaemonNow | null> {
  const card = daemonOf(context, mirror);
  if (card === null || card.url === null) return null;
  try {
    return daemonNowIn(await statusOf(card, context.signal));
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
 * What the running syncs of these sources have read so far.
 * @throws TidemarkError `unreachable` without an answer
 */
async function lookUpProgress(
  card: DaemonLockfile,
  signal: AbortSignal,
  sources: readonly string[],
): Promise<ReadonlyMap<string, LiveRun>> {
  const query = sources.map((source) => `source=${encodeURIComponent(source)}`).join('&');
  const { daemon } = (await statusOf(card, signal, `?${query}`)) as StatusAnswer;
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

async function statusOf(card: DaemonLockfile, signal: AbortSignal, query = ''): Promise<object> {
  const path = `/api/v1/status${query}`;
  const { status, text } = await call(card, signal, 'GET', path, null, PROGRESS_TIMEOUT_MS);
  if (status !== 200) throw daemonUnreachable(card, `it answered ${status}`);
  return documentIn(text, card);
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
  // Loaded here: Node loads its fetch along with node:http, and most commands need neither.
  const { Agent, request } = await import('node:http');
  return await new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(daemonUnreachable(card, error.message, { cause: error }));
    const sent = request(
      url,
      {
        method,
        // With NODE_USE_ENV_PROXY the global agent would send the token through HTTP_PROXY, even to this machine.
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
function messageIn(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { message?: unknown; error?: { message?: unknown } };
    const message = body.message ?? body.error?.message;
    return typeof message === 'string' ? message : undefined;
  } catch {
    // Not JSON: the status is shown instead.
    return undefined;
  }
}
