/** What `tidemark status` finds on this machine: a full disk, a daemon that was killed, who starts the syncs. */
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { type Health, worst } from '../daemon/health/health.ts';
import type { SyncedBy } from '../daemon/health/status-answers.ts';
import { age } from '../daemon/http/wording.ts';
import { killedDaemon } from '../daemon/lockfile.ts';
import { fullDisk, spaceBeside } from '../doctor/disk.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { errorLines } from './failure.ts';

interface Problem {
  readonly message: string;
  readonly hint: string;
}

/** The health with problems that the mirror may not have: on a full disk nothing can be recorded, and a killed daemon reports nothing. */
export function withMachineProblems(health: Health, mirror: Mirror, pid: number, now: number): Health {
  const [job] = mirror.daemon.jobs({ limit: 1 });
  const jobAt = job?.finishedAt ?? job?.startedAt ?? null;
  const problems = [diskProblem(mirror.path), killedProblem(mirror.path, jobAt, pid, now)];
  const reasons = problems.flatMap((problem) =>
    problem === null ? [] : [{ code: 'daemon_problem', state: 'degraded', since: null, ...problem } as const],
  );
  return { ...health, state: worst([health, ...reasons]), reasons: [...reasons, ...health.reasons] };
}

function diskProblem(path: string): ReturnType<typeof fullDisk> {
  return fullDisk(path, spaceBeside(path));
}

/** True if nothing can be recorded: a sync may have failed without a trace. */
export function isDiskFull(path: string): boolean {
  return diskProblem(path)?.isFull === true;
}

/** Lines for stderr about full disks, once for all mirrors in a directory. */
export function diskReasons(configs: readonly Config[]): string[] {
  const byDirectory = new Map(configs.map(({ mirror }) => [dirname(mirror), mirror]));
  return [...byDirectory.values()].flatMap((path) => problemLines(diskProblem(path)));
}

/** Lines for stderr about a killed daemon, once for all its mirrors. */
export function killedReasons(configs: readonly Config[], pid: number, now: number): string[] {
  const lines = configs.flatMap(({ mirror }) => problemLines(killedProblem(mirror, null, pid, now)));
  return [...new Set(lines)];
}

function problemLines(problem: Problem | null): string[] {
  return problem === null ? [] : errorLines(problem);
}

/** A daemon that was stopped removes its lock file. One that left it was killed or crashed. */
function killedProblem(mirror: string, jobAt: string | null, pid: number, now: number): Problem | null {
  const killed = killedBy(mirror, { pid, now });
  if (killed === null) return null;
  if (killed.isOnce)
    return {
      message: `a call of \`daemon --once\` (process ${killed.pid} on ${killed.host}, started ${age(killed.since, now)}) was killed or crashed`,
      hint: 'its next call continues: `tidemark daemon --once` does it now',
    };
  const sign = jobAt === null || jobAt < killed.since ? '' : `; its last job was ${age(jobAt, now)}`;
  return {
    message: `the daemon (process ${killed.pid} on ${killed.host}, started ${age(killed.since, now)}) was killed or crashed${sign}: nothing is synced on schedule, and no notice is sent`,
    hint: 'start it again (its service, its container, or `tidemark daemon`)',
  };
}

/** If this many runs in a row were started by commands, it is assumed that cron or the like does it. */
const COMMANDS = 3;

/** Who syncs the source, as far as the mirror shows it. */
export function syncedByOf(
  mirror: Mirror,
  source: string,
  hasDaemon: boolean,
  looker: { readonly pid: number; readonly now: number },
): SyncedBy {
  if (hasDaemon) return 'daemon';
  const runs = mirror.runs.list({ source, isOfAllKinds: true, limit: COMMANDS });
  if (runs.length === COMMANDS && runs.every(({ trigger }) => trigger.startsWith('command')))
    return 'commands';
  // The newest sync job that ended, of a daemon or of `daemon --once`.
  const jobs = mirror.daemon.jobs({ name: 'sync', source, limit: 2 });
  const newest = jobs.find(({ outcome }) => outcome !== 'running');
  if (newest?.summary['fleet'] === true) return 'fleet';
  if (newest?.summary['once'] === true || killedBy(mirror.path, looker)?.isOnce === true) return 'once';
  return jobs.length === 0 ? 'not yet' : 'nobody';
}

function killedBy(mirror: string, { pid, now }: { readonly pid: number; readonly now: number }) {
  return killedDaemon(mirror, { pid, host: hostname(), now });
}
