/** A sync that the living daemon of the mirror is asked for: asked, followed to its end, and read from the mirror. */
import { hostname } from 'node:os';
import type { Kind } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { type DaemonLockfile, findDaemon } from '../daemon/lockfile.ts';
import { summaryOf } from '../daemon/jobs/summaries.ts';
import type { JobRow } from '../mirror/daemon-jobs.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printNote, type CommandContext } from './context.ts';
import { type QueuedRequest, type RequestState, askDaemon, lookUpRequest } from './daemon-request.ts';
import { reportFromMirror } from './run-from-mirror.ts';
import { reportedRun, type ReportedRun } from './run-text.ts';

export interface SyncedRuns {
  readonly runs: readonly ReportedRun[];
  /** True where each was shown as it ended. */
  readonly arePrinted: boolean;
}

interface Wanted {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
}

/** Between two looks at the daemon's jobs. */
const LOOK_MS = 300;

/**
 * The runs that the daemon did; null where there is no daemon, or it cannot be reached: then this process syncs itself.
 * @throws TidemarkError where the daemon refuses, where a run came to nothing, and `interrupted`: the daemon goes on then
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
    const trouble = asTidemarkError(error);
    if (trouble.code !== 'unreachable') throw trouble;
    printNote(context, [`${trouble.message}: syncing without it`]);
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
  if (first === undefined) return `the daemon (pid ${pid}) syncs; following it`;
  const more =
    others.length === 0 ? '' : `, and ${plural(others.length, 'more job waits', 'more jobs wait')}`;
  return `the daemon (pid ${pid}) is at work on a ${first}${more}: this sync waits for its turn`;
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
      await systemClock.sleep(LOOK_MS, context.signal);
    } catch (error) {
      throw noLongerFollowed(error);
    }
  }
}

/** Null where the daemon lives, but cannot be asked at this moment: it may just listen elsewhere. */
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
  return new TidemarkError('interrupted', 'no longer followed: the daemon goes on with the sync', { cause });
}

/** What the mirror knows of the request's run. @throws TidemarkError where it came to none */
function reportOf(context: CommandContext, config: Config, ended: RequestState): ReportedRun {
  const { number } = ended;
  // Without one there may be no mirror either.
  if (number === null) throw endedWithout(ended);
  const mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  try {
    const job = mirror.daemonState().job(number);
    if (job === undefined || job.outcome === 'running') throw endedWithout(ended);
    const run = job.run === null ? undefined : mirror.run(job.run);
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

/** The job did not come to begin, or its end could not be written down. */
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
