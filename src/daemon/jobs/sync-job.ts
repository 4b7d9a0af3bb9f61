/** One sync of one source, as `tidemark sync` does it. */
import { KINDS } from '../../catalog/kinds.ts';
import { requestTrigger } from '../../core/actor.ts';
import { TidemarkError } from '../../core/errors.ts';
import { endPause } from '../../mirror/shared-throttle.ts';
import { type SyncEvents, silentEvents } from '../../sync/events.ts';
import { type SweepError, type SweepReport, isAllDenied } from '../../sync/outcome.ts';
import { type RunReport, syncSource } from '../../sync/run.ts';
import { type KindSweeps, type SyncSummary, type UnreadSweep, NAMED_SWEEPS } from './summaries.ts';
import type { JobProgress, KindProgress } from '../view.ts';
import {
  type JobContext,
  jobResult,
  type JobResult,
  type JobWork,
  type QueuedJob,
  sourceOf,
} from './work.ts';

export const SYNC_JOB: Pick<JobWork, 'run'> = {
  run: async (context) => {
    const { job, effects, config, mirror, log, signal } = context;
    const source = sourceOf(context);
    // Only now: jobs that waited before it have kept the pause.
    if (job.ignoresPause === true) endPause(source, { beside: config.rateLogBeside, clock: effects.clock });
    const client = await effects.openReadClient(source, log, config.rateLogBeside);
    const tally = new Tally();
    context.onClient(client, () => tally.progress());
    try {
      const report = await syncSource({
        mirror,
        source,
        client,
        clock: effects.clock,
        log,
        events: tally.events,
        signal,
        trigger: runTrigger(job),
        kinds: job.kinds,
        isFull: job.full,
        acceptRemovals: 0,
      });
      return syncResult(context, report, tally, client.stats().throttled);
    } finally {
      await client.close();
    }
  },
};

/** The trigger of the run: as in the job's row, but for a schedule its name. A request may have joined a scheduled job that waited. */
function runTrigger({ trigger, schedule, actor }: QueuedJob): string {
  if (trigger === 'request') return requestTrigger(actor);
  return trigger === 'after_restore' ? trigger : (schedule ?? trigger);
}

function syncResult({ job }: JobContext, report: RunReport, tally: Tally, throttled: number): JobResult {
  const isRefused = isAllDenied(report.sweeps, job.kinds);
  const worst =
    isRefused || report.outcome === 'failed'
      ? (report.sweeps.find(({ error }) => error !== null)?.error ?? report.error ?? null)
      : null;
  const byOutcome = { complete: 'done', partial: 'partial', failed: 'failed' } as const;
  return jobResult(
    isRefused ? 'refused' : byOutcome[report.outcome],
    summaryOfRun(report, tally, throttled),
    { run: report.run, error: worst === null ? null : asError(worst), report },
  );
}

/** The sweeps of a run that were not complete, in its order, as summaries and notices name them. */
export function unreadSweeps(sweeps: readonly SweepReport[]): UnreadSweep[] {
  return sweeps
    .filter(({ outcome }) => outcome !== 'complete')
    .map(({ kind, scope, outcome, held, error }) => ({
      kind,
      scope,
      outcome,
      held,
      code: error?.code ?? null,
      message: error?.message ?? null,
      hint: error?.hint ?? null,
      permission: error?.permission ?? null,
    }));
}

function asError({ code, message, hint }: SweepError): TidemarkError {
  return new TidemarkError(code, message, hint === null ? {} : { hint });
}

function summaryOfRun(report: RunReport, tally: Tally, throttled: number): SyncSummary {
  const { sweeps } = report;
  const sum = (key: 'unchanged' | 'held'): number => sweeps.reduce((total, sweep) => total + sweep[key], 0);
  const outcomes: Partial<Record<SweepReport['outcome'], number>> = {};
  for (const { outcome } of sweeps) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  const unfinished = sweeps
    .filter(({ leaked, pending }) => leaked > 0 || pending > 0)
    .slice(0, NAMED_SWEEPS)
    .map(({ kind, scope, leaked, pending }) => ({ kind, scope, leaked, pending }));
  return {
    job: 'sync',
    outcome: report.outcome,
    requests: report.requests,
    retries: report.retries,
    throttled,
    added: report.added,
    changed: report.changed,
    removed: report.removed,
    unchanged: sum('unchanged'),
    held: sum('held'),
    sweeps: outcomes,
    kinds: tally.kinds(),
    unread: unreadSweeps(sweeps).slice(0, NAMED_SWEEPS),
    ...(unfinished.length === 0 ? {} : { unfinished }),
  };
}

/** A sweep under way, or still to come. */
interface OpenSweep {
  readonly kind: KindSweeps['kind'];
  readonly received: number;
  readonly pages: number;
  /** Records that the mirror holds of it; null where it was never read. */
  readonly known: number | null;
}

/** Sums up the progress events of a run. */
class Tally {
  readonly events: SyncEvents;
  #isPublishing = false;
  /** Of sweeps that ended. */
  #pages = 0;
  readonly #open = new Map<string, OpenSweep>();
  #planned = new Map<string, OpenSweep>();
  /** Ended, and not all of it was read. */
  readonly #failed: OpenSweep[] = [];
  readonly #kinds = new Map<KindSweeps['kind'], KindSweeps>();

  constructor() {
    const key = ({ kind, scope }: { kind: string; scope: object }): string =>
      `${kind} ${JSON.stringify(scope)}`;
    this.events = {
      ...silentEvents,
      publishing: () => void (this.#isPublishing = true),
      sweepsPlanned: ({ sweeps }) => {
        const planned = sweeps.map(({ kind, scope, known, budget }): [string, OpenSweep] => {
          const expected = known === null || budget === null ? known : Math.min(known, budget);
          return [key({ kind, scope }), { kind, received: 0, pages: 0, known: expected }];
        });
        this.#planned = new Map(planned);
      },
      sweepStarted: (sweep) => {
        const { kind, known } = this.#planned.get(key(sweep)) ?? sweep;
        this.#planned.delete(key(sweep));
        this.#open.set(key(sweep), { kind, received: 0, pages: 0, known });
      },
      sweepProgressed: (sweep) => {
        const known = sweep.count ?? this.#open.get(key(sweep))?.known ?? null;
        const { kind, received, pages } = sweep;
        this.#open.set(key(sweep), { kind, received, pages, known });
      },
      sweepEnded: (report, durationMs) => {
        const { known = null } = this.#open.get(key(report)) ?? this.#planned.get(key(report)) ?? {};
        this.#open.delete(key(report));
        this.#planned.delete(key(report));
        const { kind, outcome, records: received, pages } = report;
        this.#pages += pages;
        if (outcome !== 'complete' && outcome !== 'held') this.#failed.push({ kind, received, pages, known });
        const before = this.#kinds.get(kind) ?? { kind, sweeps: 0, records: 0, durationMs: 0, longestMs: 0 };
        this.#kinds.set(kind, {
          kind,
          sweeps: before.sweeps + 1,
          records: before.records + report.records,
          durationMs: Math.round(before.durationMs + durationMs),
          longestMs: Math.max(before.longestMs, Math.round(durationMs)),
        });
      },
    };
  }

  progress(): JobProgress {
    const left = Map.groupBy([...this.#open.values(), ...this.#planned.values()], ({ kind }) => kind);
    const unread = Map.groupBy(this.#failed, ({ kind }) => kind);
    const kinds = KINDS.flatMap((kind): KindProgress[] => {
      const ended = this.#kinds.get(kind);
      const rest = left.get(kind) ?? [];
      if (ended === undefined && rest.length === 0) return [];
      const failed = unread.get(kind) ?? [];
      const records = rest.reduce((sum, { received }) => sum + received, ended?.records ?? 0);
      const open = [...rest, ...failed];
      const expected = open.some(({ known }) => known === null)
        ? null
        : open.reduce((sum, { known, received }) => sum + Math.max((known ?? 0) - received, 0), records);
      const lists = ended?.sweeps ?? 0;
      return [{ kind, records, expected, lists, failed: failed.length, pending: rest.length }];
    });
    const records = kinds.reduce((sum, each) => sum + each.records, 0);
    const pages = [...this.#open.values()].reduce((sum, each) => sum + each.pages, this.#pages);
    return { records, pages, isLocal: this.#isPublishing, kinds };
  }

  kinds(): KindSweeps[] {
    return [...this.#kinds.values()];
  }
}
