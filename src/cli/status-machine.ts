/** What `tidemark status` finds on this machine beside the mirror: a full disk, a daemon that was killed, who starts the syncs. */
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import type { Config } from '../config/config.ts';
import { type Health, worst } from '../daemon/health/health.ts';
import type { SyncedBy } from '../daemon/health/status-answers.ts';
import { age } from '../daemon/http/wording.ts';
import { killedDaemon } from '../daemon/lockfile.ts';
import { fullDisk, spaceBeside } from '../doctor/disk.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';

/** On a full disk nothing can be recorded, so that the mirror does not tell why syncs fail. */
export function withDisk(health: Health, path: string): Health {
  const full = fullDisk(path, spaceBeside(path));
  return full === null ? health : withProblem(health, full);
}

/** Where nothing can be recorded, a sync may have failed since. */
export function isDiskFull(path: string): boolean {
  return fullDisk(path, spaceBeside(path))?.isFull === true;
}

function withProblem(health: Health, problem: { readonly message: string; readonly hint: string }): Health {
  const reason = { code: 'daemon_problem', state: 'degraded', since: null, ...problem } as const;
  return { ...health, state: worst([health, reason]), reasons: [reason, ...health.reasons] };
}

/** Mirrors in one directory have one reason. */
export function diskReasons(configs: readonly Config[]): string[] {
  const byDirectory = new Map(configs.map(({ mirror }) => [dirname(mirror), mirror]));
  return [...byDirectory.values()].flatMap((path) => {
    const full = fullDisk(path, spaceBeside(path));
    return full === null ? [] : [full.message, `  → ${full.hint}`];
  });
}

// The daemon. One that was stopped removes its file: a person meant it.

/** A daemon that did not stop, and cannot report that itself. */
export function withKilledDaemon(health: Health, mirror: Mirror, pid: number, now: number): Health {
  const [job] = mirror.daemon.jobs({ limit: 1 });
  const jobAt = job?.finishedAt ?? job?.startedAt ?? null;
  const killed = killedProblem(mirror.path, jobAt, pid, now);
  return killed === null ? health : withProblem(health, killed);
}

/** The same of mirrors that had one daemon. */
export function killedReasons(configs: readonly Config[], pid: number, now: number): string[] {
  const all = configs.flatMap(({ mirror }) => killedProblem(mirror, null, pid, now) ?? []);
  return [...new Set(all.flatMap(({ message, hint }) => [message, `  → ${hint}`]))];
}

function killedProblem(
  mirror: string,
  jobAt: string | null,
  pid: number,
  now: number,
): { readonly message: string; readonly hint: string } | null {
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

/** Runs of commands from which on they are taken for somebody's own schedule. */
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
  const newest = newestSync(mirror, source);
  if (newest?.summary['fleet'] === true) return 'fleet';
  if (newest?.summary['once'] === true || killedBy(mirror.path, looker)?.isOnce === true) return 'once';
  return mirror.daemon.jobs({ name: 'sync', source, limit: 1 }).length === 0 ? 'not yet' : 'nobody';
}

function killedBy(mirror: string, { pid, now }: { readonly pid: number; readonly now: number }) {
  return killedDaemon(mirror, { pid, host: hostname(), now });
}

/** The newest sync of the source that a daemon, or a call of `daemon --once`, has ended. */
function newestSync(mirror: Mirror, source: string): JobRow | undefined {
  const jobs = mirror.daemon.jobs({ name: 'sync', source, limit: 2 });
  return jobs.find(({ outcome }) => outcome !== 'running');
}
