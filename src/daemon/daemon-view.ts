/** Makes the view of the running daemon for one mirror. */
import { compareTexts } from '../catalog/order.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import type { JobName } from '../mirror/daemon-store.ts';
import { BackupCatalog } from '../backup/known-backups.ts';
import { endPause } from '../mirror/shared-throttle.ts';
import { leftOfHour } from '../mirror/rate-log.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import type { MirrorConnections } from './mirror-access.ts';
import type { DaemonProblem, DaemonView, JobRequest, RequestedJob } from './view.ts';

interface DaemonParts {
  readonly startedAt: string;
  readonly addedAt: DaemonView['addedAt'];
  readonly scheduledAt: DaemonView['scheduledAt'];
  readonly clock: Clock;
  readonly config: () => Config;
  readonly configProblem: () => TidemarkError | null;
  readonly mirrorAccess: MirrorConnections;
  readonly schedules: DaemonView['schedules'];
  readonly intervalChange: DaemonView['intervalChange'];
  readonly runner: JobRunner;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly problems: () => readonly DaemonProblem[];
  /** Called after each change by a person. */
  readonly onChange: () => void;
}

/** The view of one mirror. */
export function createView(parts: DaemonParts): DaemonView {
  const { startedAt, addedAt, clock, config, configProblem, mirrorAccess, schedules, runner, works } = parts;
  return {
    startedAt,
    addedAt,
    scheduledAt: parts.scheduledAt,
    config,
    configProblem,
    mirror: () => mirrorAccess.reader(),
    completeRuns: new Map(),
    openReader: () => mirrorAccess.openReader('daemon'),
    backups: new BackupCatalog(clock),
    schedules,
    intervalChange: parts.intervalChange,
    running: () => runner.running(),
    unwritten: () => runner.unwritten.latest(),
    queued: () =>
      runner.queued().map((job) => {
        const { name, source, trigger } = job;
        const waitsFor = runner.limitHolder(job);
        return {
          ...{ name, source, trigger },
          ...(name === 'backup' ? { since: runner.waitsSince(job) } : {}),
          ...(waitsFor === null ? {} : { waitsFor }),
        };
      }),
    stats: () =>
      runner.stats.all().map((stats) => {
        const { sources, rateLogBeside } = config();
        const source = sources.find(({ name }) => name === stats.source);
        // Other processes may have sent requests with the key, which the client does not know of.
        const left = source === undefined ? null : leftOfHour(source, { beside: rateLogBeside, clock });
        return left === null ? stats : { ...stats, leftThisHour: left };
      }),
    problems: () => parts.problems().toSorted((a, b) => compareTexts(a.since, b.since)),
    request: (name, sources, how = {}) => {
      const { sources: configured, rateLogBeside: beside } = config();
      const asked = { name, sources, how };
      return requestJobs(runner, works.get(name), configured, asked, { beside, clock });
    },
    requested: (request) => runner.statusOf(request),
    change: async (what, actor, work) => {
      try {
        return await changeSoon(clock, (signal) => mirrorAccess.write(what, signal, work, actor));
      } finally {
        parts.onChange();
      }
    },
  };
}

/** The longest wait of a change by a person, who waits for the page. */
const CHANGE_WAIT_MS = 12_000;

async function changeSoon<T>(clock: Clock, change: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const [done, late] = [new AbortController(), new AbortController()];
  const locked = new TidemarkError('mirror_locked', 'a job is writing to the mirror', {
    hint: 'nothing was changed: try again when the job has ended',
    isRetryable: true,
  });
  clock.sleep(CHANGE_WAIT_MS, done.signal).then(
    () => late.abort(locked),
    () => undefined,
  );
  try {
    return await change(late.signal);
  } finally {
    done.abort();
  }
}

// Requested jobs are checked and queued.

interface Asked {
  readonly name: JobName;
  /** Null for all that are configured. */
  readonly sources: readonly string[] | null;
  readonly how: JobRequest;
}

/** The most names in the hint of an error. */
const NAMED = 20;

/** The error for a source that does not exist. */
export function unknownSource(asked: string, configured: readonly string[]): TidemarkError {
  const more = configured.length - NAMED;
  return new TidemarkError('usage', `there is no source ${asked}${didYouMean(asked, configured)}`, {
    hint: `configured are: ${configured.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`,
  });
}

/** The most requested jobs that may wait, besides one for each source: requests in a loop are refused. */
const MOST_WAITING = 100;

/** @throws TidemarkError `usage` for a job that is not set up or an unknown source, `throttled` if too many wait, `interrupted` while the daemon stops */
function requestJobs(
  runner: JobRunner,
  work: JobWork | undefined,
  all: readonly SourceConfig[],
  { name, sources, how }: Asked,
  place: Parameters<typeof endPause>[1],
): readonly RequestedJob[] {
  if (work === undefined) throw new TidemarkError('usage', `${name} is not set up`);
  const configured = all.map((source) => source.name);
  for (const asked of sources ?? []) if (!configured.includes(asked)) throw unknownSource(asked, configured);
  const targets: readonly (string | null)[] = work.isPerSource ? (sources ?? configured) : [null];
  const { full = false, kinds = null, joins = false, ignoresPause = false, actor } = how;
  const jobs = targets.map((source): QueuedJob => ({
    name,
    source,
    trigger: 'request',
    schedule: null,
    full,
    kinds,
    ...(joins ? { joins } : {}),
    ...(ignoresPause ? { ignoresPause } : {}),
    ...(actor === undefined ? {} : { actor }),
  }));
  // All of them or none.
  if (runner.requestedWith(jobs) > MOST_WAITING + configured.length) {
    throw new TidemarkError('throttled', 'too many requested jobs are waiting already: this one is refused', {
      hint: 'GET /api/v1/status lists them; try again when some of them have ended',
      isRetryable: true,
    });
  }
  // The sync ends the pause when it starts; if it would wait for a job that waits for the pause, the pause is ended now.
  const paused = jobs.filter((job) => ignoresPause && runner.isBehindPause(job)).map(({ source }) => source);
  for (const source of all) if (paused.includes(source.name)) endPause(source, place);
  return jobs.map((job) => {
    const { source } = job;
    const request = runner.add(job);
    if (request === null)
      throw new TidemarkError('interrupted', 'the daemon is stopping: it takes no more jobs');
    return { name, source, request };
  });
}
