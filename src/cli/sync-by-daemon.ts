/** A sync that the living daemon of the mirror is asked for: asked, followed to its end, and read from the mirror. */
import { hostname } from 'node:os';
import type { Kind } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { PresenceCard } from '../daemon/presence.ts';
import { findDaemon } from '../daemon/presence.ts';
import { summaryOf } from '../daemon/jobs/summaries.ts';
import type { JobRow } from '../mirror/daemon-state.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import { remark } from './context.ts';
import type { CommandContext } from './context.ts';
import { askDaemon } from './daemon-request.ts';
import { reportFromMirror } from './run-from-mirror.ts';
import type { ReportedRun } from './run-text.ts';

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
  const names = config.sources.map(({ name }) => name);
  const before = newestJobs(context, config, names);
  try {
    await askDaemon(card, context.signal, {
      job: 'sync',
      sources: names,
      full: wanted.full === true,
      kinds: wanted.kind ?? null,
    });
  } catch (error) {
    const trouble = asTidemarkError(error);
    if (trouble.code !== 'unreachable') throw trouble;
    remark(context, [`${trouble.message}: syncing without it`]);
    return null;
  }
  remark(context, [`the daemon (pid ${card.pid}) syncs; following it`]);
  const runs: ReportedRun[] = [];
  for (const name of names) {
    runs.push(await followed(context, config, { name, after: before.get(name) ?? 0, card }));
  }
  return { runs, arePrinted: false };
}

/** The newest sync of each source that has begun: what is asked for comes after it. */
function newestJobs(context: CommandContext, config: Config, names: readonly string[]): Map<string, number> {
  const newest = new Map<string, number>();
  reading(context, config, (mirror) => {
    for (const source of names) {
      newest.set(source, mirror.daemonState().jobs({ name: 'sync', source, limit: 1 })[0]?.job ?? 0);
    }
  });
  return newest;
}

async function followed(
  context: CommandContext,
  config: Config,
  { name, after, card }: { readonly name: string; readonly after: number; readonly card: PresenceCard },
): Promise<ReportedRun> {
  for (;;) {
    const ended = reading(context, config, (mirror) => {
      const jobs = mirror.daemonState().jobs({ name: 'sync', source: name, limit: 20 });
      const mine = jobs.findLast(({ job, outcome }) => job > after && outcome !== 'running');
      return mine === undefined ? null : reportOf(mirror, config, mine);
    });
    if (ended !== null) return ended;
    const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
    if (findDaemon(config.mirror, looker) === null) throw gone(card);
    try {
      await systemClock.sleep(LOOK_MS, context.signal);
    } catch (error) {
      throw new TidemarkError('interrupted', 'no longer followed: the daemon goes on with the sync', {
        cause: error,
      });
    }
  }
}

/** What the mirror knows of the job's run. @throws TidemarkError where it came to none */
function reportOf(mirror: Mirror, config: Config, job: JobRow): ReportedRun {
  const run = job.run === null ? undefined : mirror.run(job.run);
  if (run === undefined) throw failureOf(job);
  const summary = summaryOf('sync', job);
  const source = config.configured.find(({ name }) => name === job.source);
  return {
    report: reportFromMirror(mirror, run, summary, source?.definitions ?? []),
    schemaChanges: mirror.schemaChanges({ run: run.run }),
  };
}

function failureOf({ errorCode, error, outcome }: JobRow): TidemarkError {
  const code = outcome === 'interrupted' ? 'interrupted' : (errorCode ?? 'internal');
  return new TidemarkError(
    code as TidemarkError['code'],
    `the daemon's sync came to nothing: ${error ?? 'its log says why'}`,
    { hint: 'see the log of the daemon, then run `tidemark sync` again' },
  );
}

function gone({ pid }: PresenceCard): TidemarkError {
  return new TidemarkError('interrupted', `the daemon (pid ${pid}) ended before the sync did`, {
    hint: 'what was published before is untouched: run `tidemark sync` again',
  });
}

/** Opens the mirror anew at each look, so that one that was replaced is followed. Does nothing where there is none yet. */
function reading<T>(context: CommandContext, config: Config, work: (mirror: Mirror) => T): T | null {
  let mirror: Mirror;
  try {
    mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'mirror_missing') return null;
    throw error;
  }
  try {
    return work(mirror);
  } finally {
    mirror.close();
  }
}
