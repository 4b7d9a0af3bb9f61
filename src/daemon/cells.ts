/** The running daemon with all its mirrors. With one mirror, it adds nothing to the view of that one. */
import type { Severity } from '../catalog/definition.ts';
import { hasMirrorPerSource, type LoadedConfig } from '../config/mirrors.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { JobName, JobRow } from '../mirror/daemon-store.ts';
import type { CellStatus, CellSummary } from './cell-status.ts';
import { unknownSource } from './daemon-view.ts';
import { assessHealth, type Health, unreadHealth, withOwnMirror, worst } from './health/health.ts';
import {
  type DamageFinder,
  type HealthSnapshot,
  NOTHING_READ,
  readHealthSnapshot,
} from './health/health-facts.ts';
import { type SourceView, unreadSource } from './health/source-facts.ts';
import { silentChannels } from './notices/known-channels.ts';
import type { RunTotals } from './http/run-counter.ts';
import type { DrillScores, LastJobs } from './last-jobs.ts';
import type { DaemonProblem, DaemonView, JobRequest, RequestedJob, RequestStatus } from './view.ts';

/** The running daemon with all its mirrors, for HTTP, metrics, API and pages. */
export interface DaemonCells {
  /** ISO 8601. */
  readonly startedAt: string;
  /** The complete configuration in force. */
  config(): LoadedConfig;
  /** Why the newest configuration is not in force; null if it is. */
  configProblem(): TidemarkError | null;
  /** All mirrors, in the order of the configuration. */
  cells(): readonly DaemonView[];
  /** The mirror of a source; null for a source that is not configured. */
  of(source: string): DaemonView | null;
  /** The problems of the process itself, oldest first. */
  problems(): readonly DaemonProblem[];
  /** True if each source has a mirror of its own. */
  isPerSource(): boolean;
  /**
   * The state of all mirrors: a single mirror is read, and asked of `finder`; of many, as they were last read, and with `mirror` null.
   */
  snapshot(now: number, finder?: DamageFinder): HealthSnapshot;
  /** With many mirrors: waits a moment until those are read that another process wrote to, such as for a backup by hand. */
  refreshed(): Promise<void>;
  /** With many mirrors: open findings by source as far as they are known, counts of runs and more, as they were last read. */
  known(): {
    readonly openDrift: ReadonlyMap<string, Readonly<Record<Severity, number>>>;
    readonly totals: RunTotals;
    /** The number of mirrors that could not be read. */
    readonly unreadable: number;
  };
  /** With many mirrors: the `driftStatus` of a source, as it was last read. */
  driftOf(source: string): object | null;
  /** Of all mirrors, in the order of the configuration. */
  summaries(): readonly CellSummary[];
  /** As in `DaemonView`, for the mirrors of these sources, or of all. With many mirrors, each job has the name of its source. */
  request(name: JobName, sources: readonly string[] | null, how?: JobRequest): readonly RequestedJob[];
  /** As in `DaemonView`, of any mirror. */
  requested(request: number): RequestStatus | null;
  /** The running and waiting jobs of all mirrors. With many mirrors, a job of a mirror as a whole has the name of its source. */
  activity(): Pick<DaemonView, 'running' | 'queued'>;
  /** The number of jobs that may run at the same time, and of those that run. */
  slots(): { readonly count: number; readonly used: number };
  /** With many mirrors: the sources that are worked on one at a time because they have one address and key. */
  rateGroups(): readonly RateGroup[];
  /** No mirror that somebody reads is closed before the returned function is called. */
  hold(): () => void;
  /** Checks at once whether another process wrote to the mirrors; the daemon does so once a minute. */
  look(): void;
}

interface RateGroup {
  /** Of the address, such as `https://eu.example.com`. Two groups of one origin have different keys. */
  readonly origin: string;
  readonly sources: readonly string[];
}

interface CellsParts {
  readonly startedAt: string;
  readonly config: () => LoadedConfig;
  readonly configProblem: () => TidemarkError | null;
  readonly problems: () => readonly DaemonProblem[];
  /** In the order of the configuration. */
  readonly cells: () => readonly CellParts[];
  readonly slots: DaemonCells['slots'];
  readonly hold: () => () => void;
  readonly look: () => void;
  /** As in `DaemonCells`; left out with one mirror. */
  readonly refreshed?: () => Promise<void>;
}

interface CellParts {
  readonly name: string;
  readonly view: DaemonView;
  readonly status: CellStatus;
  /** Null for a mirror of several sources. */
  rateGroup(): string | null;
}

export function createCells(parts: CellsParts): DaemonCells {
  const { startedAt, config, configProblem, problems, cells, slots, hold, look } = parts;
  const isPerSource = (): boolean => hasMirrorPerSource(config());
  const all = (): readonly DaemonView[] => cells().map(({ view }) => view);
  const of = (source: string): DaemonView | null =>
    (isPerSource()
      ? cells().find(({ name }) => name === source)
      : cells().find(({ view }) => view.config().sources.some(({ name }) => name === source))
    )?.view ?? null;
  return {
    startedAt,
    config,
    configProblem,
    cells: all,
    of,
    problems,
    isPerSource,
    snapshot: (now, finder) => {
      const [only] = all();
      if (!isPerSource() && only !== undefined)
        return readHealthSnapshot(only, now, finder === undefined ? {} : { finder });
      return mergedSnapshot(parts, now);
    },
    refreshed: () => parts.refreshed?.() ?? Promise.resolve(),
    known: () => {
      const found = cells().map(({ name, status }) => ({
        name,
        drift: status.drift(),
        totals: status.totals(),
      }));
      return {
        unreadable: cells().filter(({ status }) => status.isUnreadable()).length,
        openDrift: new Map(
          found.flatMap(({ name, drift }) =>
            drift === null || drift.unknown !== null ? [] : [[name, drift.severities]],
          ),
        ),
        totals: {
          runs: found.flatMap(({ totals }) => totals.runs),
          changes: found.flatMap(({ totals }) => totals.changes),
        },
      };
    },
    driftOf: (source) =>
      cells()
        .find(({ name }) => name === source)
        ?.status.driftStatus() ?? null,
    summaries: () => cells().map(({ status }) => status.summary()),
    request: (name, sources, how) => {
      if (!isPerSource()) return all().flatMap((view) => view.request(name, sources, how));
      const configured = cells().map((cell) => cell.name);
      const asked = [...new Set(sources ?? configured)].map((source) => {
        const view = of(source);
        if (view === null) throw unknownSource(source, configured);
        return { view, source };
      });
      return asked.flatMap(({ view, source }) =>
        view.request(name, [source], how).map((each) => named(each, source)),
      );
    },
    requested: (request) => {
      for (const { name, view } of cells()) {
        const status = view.requested(request);
        if (status !== null) return isPerSource() ? named(status, name) : status;
      }
      return null;
    },
    activity: () => {
      const [only] = all();
      if (!isPerSource() && only !== undefined) return only;
      const ofAll = <Job extends { readonly source: string | null }>(
        jobsOf: (view: DaemonView) => readonly Job[],
      ): Job[] => cells().flatMap(({ name, view }) => jobsOf(view).map((job) => named(job, name)));
      return { running: () => ofAll((view) => view.running()), queued: () => ofAll((view) => view.queued()) };
    },
    slots,
    rateGroups: () =>
      isPerSource()
        ? [...Map.groupBy(cells(), (cell) => cell.rateGroup()).values()].map((group) => ({
            origin: group[0]?.view.config().sources[0]?.baseUrl.origin ?? '',
            sources: group.map(({ name }) => name),
          }))
        : [],
    hold,
    look,
  };
}

/** The job; of a mirror as a whole, with the name of its source. */
function named<Job extends { readonly source: string | null }>(job: Job, source: string): Job {
  return { ...job, source: job.source ?? source };
}

/** All mirrors as one: what concerns a mirror as a whole gets the name of its source. */
function mergedSnapshot(
  { startedAt, cells, problems, configProblem, config }: CellsParts,
  now: number,
): HealthSnapshot {
  const parts = cells().map(({ name, view, status }) => ({ name, view, snapshot: status.snapshot() }));
  const known = parts.flatMap(({ name, snapshot }) => (snapshot === null ? [] : [{ name, snapshot }]));
  const drillScores = new Map<string, DrillScores>();
  for (const { name, snapshot } of known)
    for (const [source, scores] of snapshot.drillScores)
      drillScores.set(source === '' ? name : source, scores);
  return {
    now,
    mirror: null,
    resolvedFailures: new Set(
      known.flatMap(({ name, snapshot }) => [...snapshot.resolvedFailures].map((source) => source || name)),
    ),
    health: mergedHealth(parts, {
      now,
      startedAt,
      problems: problems(),
      configProblem: configProblem(),
      silentChannels: silentChannels(config()),
    }),
    sourceStatuses: known.flatMap(({ snapshot }) => snapshot.sourceStatuses),
    withBaseline: new Set(known.flatMap(({ snapshot }) => [...snapshot.withBaseline])),
    lastJobs: mergedJobs(known.map(({ name, snapshot }) => ({ name, jobs: snapshot.lastJobs }))),
    drillScores,
    pending: known.flatMap(({ snapshot }) => snapshot.pending),
    restoring: known.flatMap(({ snapshot }) => snapshot.restoring),
  };
}

function mergedJobs(all: readonly { readonly name: string; readonly jobs: LastJobs }[]): LastJobs {
  const merged = (rowsOf: (jobs: LastJobs) => readonly JobRow[]): JobRow[] =>
    all.flatMap(({ name, jobs }) => rowsOf(jobs).map((row) => named(row, name)));
  return {
    of: (name) => merged((jobs) => jobs.of(name)),
    one: (name, source) => merged((jobs) => jobs.of(name)).find((row) => row.source === source) ?? null,
    finished: (name) => merged((jobs) => jobs.finished(name)),
    verifications: merged((jobs) => jobs.verifications),
    damaged: merged((jobs) => jobs.damaged),
  };
}

interface ProcessFacts {
  readonly now: number;
  readonly startedAt: string;
  readonly problems: readonly DaemonProblem[];
  readonly configProblem: TidemarkError | null;
  readonly silentChannels: ReturnType<typeof silentChannels>;
}

function mergedHealth(
  parts: readonly {
    readonly name: string;
    readonly view: Pick<DaemonView, 'config'> & SourceView;
    readonly snapshot: HealthSnapshot | null;
  }[],
  { now, startedAt, problems, configProblem, silentChannels: silent }: ProcessFacts,
): Health {
  const own = assessHealth({
    ...NOTHING_READ,
    now,
    startedAt,
    configProblem: configProblem?.message ?? null,
    problems: problems.flatMap(({ about, since, error: { message, hint } }) =>
      about === 'config' ? [] : [{ message, hint: hint ?? null, since }],
    ),
    mirrorProblem: null,
    silentChannels: silent,
  });
  const sources = parts.flatMap(({ name, view, snapshot }) =>
    snapshot === null
      ? [unreadHealth(unreadSource(view, view.config(), name))]
      : withOwnMirror(snapshot.health).sources,
  );
  const { reasons } = own;
  return { state: worst([...reasons, ...sources]), reasons, sources };
}
