/** Log lines of jobs: one at each start and end, above `info` only if the outcome differs from the one before. */
import { MASK, withoutUrlSecrets } from '../../catalog/masks.ts';
import { splitTrigger, whoText } from '../../core/actor.ts';
import { TidemarkError, asTidemarkError, exitCodeFor } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { percent, plural } from '../../core/wording.ts';
import type { JobEnd, JobRow, JobName } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { ActiveProblems } from '../problems.ts';
import type { UnwrittenJob } from '../view.ts';
import { isUnreadCut, summaryOf, unreadCauses, unreadHint } from './summaries.ts';
import type { JobResult, QueuedJob } from './work.ts';

const LEVELS = {
  running: 'info',
  done: 'info',
  partial: 'warn',
  failed: 'error',
  refused: 'error',
  interrupted: 'info',
} as const;

export class JobLog {
  readonly #log: Logger;
  readonly #last = new Map<string, string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  began({ job, name, source, trigger }: JobRow): void {
    const { trigger: what, ...who } = splitTrigger(trigger);
    const asked = { trigger: what, ...(who.by === null ? {} : who) };
    this.#log.info({ job, ...named(source), ...asked }, `${name} began`);
  }

  /** A request became part of another person's job: only this line says who made it, the job names the other person. */
  joined({ name, source, actor }: QueuedJob, waiting: QueuedJob): void {
    if (actor === undefined || waiting.actor === undefined || whoText(actor) === whoText(waiting.actor))
      return;
    const by = withoutUrlSecrets(actor.by, MASK);
    this.#log.info({ ...named(source), by, via: actor.via }, `${name} that waits was joined`);
  }

  /**
   * @param isMirrorGone true while a missing mirror is reported separately: then a job that misses it is not news
   * @param isKnown true if the job before, in another process, ended in the same way
   */
  ended(row: JobRow, error: TidemarkError | null, isMirrorGone = false, isKnown = false): void {
    const { job, name, source, run, outcome, errorCode } = row;
    const key = jobKey(row);
    const state = `${outcome} ${errorCode ?? ''}`;
    const lacking = partsLacking(row);
    const hint = error?.hint ?? lacking?.hint ?? null;
    const last = this.#last.get(key);
    if (outcome !== 'interrupted') this.#last.set(key, state);
    const isSame = last === state || isKnown;
    const facts = {
      job,
      ...named(source),
      ...(run === null ? {} : { run }),
      outcome,
      ...(errorCode === null ? {} : { code: errorCode }),
      ...(lacking === null ? {} : { collections: lacking.count, causes: lacking.causes }),
      ...(isSame || hint === null ? {} : { hint }),
    };
    const reason = row.error ?? lacking?.text ?? partText(row);
    const why = reason === null ? '' : `: ${reason}`;
    const isRecovered = outcome === 'done' && last !== undefined && !last.startsWith('done');
    const message = `${name} ${isRecovered ? 'is done again' : endWords(row)}${isSame ? ' as before' : ''}${why}`;
    const isOfMirror = isMirrorGone && errorCode === 'mirror_missing';
    // A line at every tick would fill the log while the mirror is missing.
    const level = isOfMirror && isSame ? 'debug' : isOfMirror || isSame ? 'info' : LEVELS[outcome];
    this.#log[level](facts, isSame && outcome === 'done' ? `${name} is done` : message);
  }
}

const WORDS = {
  running: 'continues',
  done: 'is done',
  partial: 'is partly done',
  failed: 'failed',
  refused: 'was refused by the service',
  interrupted: 'was interrupted',
} as const;

/** A backup that some targets lack is not "partly done": it may have been tried only in those. */
function endWords(row: JobRow): string {
  const isLacking = summaryOf('backup', row)?.targets?.some(({ error }) => error !== null) === true;
  return isLacking && row.outcome === 'partial' ? 'was not completed everywhere' : WORDS[row.outcome];
}

/** The most causes in a line of the log; the others are counted. */
const CAUSES = 5;

/** What a partial sync could not read completely, and why; null for another job. */
function partsLacking(row: JobRow) {
  const summary = row.outcome === 'partial' ? summaryOf('sync', row) : null;
  if (summary === null || summary.unread.length === 0) return null;
  const { complete = 0, ...others } = summary.sweeps;
  const count = Object.values(others).reduce((sum, each) => sum + each, 0);
  const causes = unreadCauses(summary.unread, isUnreadCut(summary));
  const more = causes.length - CAUSES;
  return {
    count,
    text: `${count} of ${plural(count + complete, 'collection')} did not complete`,
    causes: [...causes.slice(0, CAUSES), ...(more > 0 ? [`and ${plural(more, 'other cause')}`] : [])],
    hint: unreadHint(summary.unread),
  };
}

/** Outcomes of sweeps that follow from held removals: the lists below an absent record are absent too. */
const OF_HELD: readonly string[] = ['held', 'missing', 'skipped'];

/** True for a sync that holds the same removals as the one before it, and is incomplete for no other reason. */
export function holdsAsBefore(row: JobRow, before: JobRow | undefined): boolean {
  const known = heldText(row);
  return known !== null && before !== undefined && heldText(before) === known;
}

function heldText(row: JobRow): string | null {
  const summary = row.outcome === 'partial' ? summaryOf('sync', row) : null;
  if (summary === null || summary.held === 0) return null;
  const { unread, held, sweeps } = summary;
  if (unread.some(({ outcome }) => !OF_HELD.includes(outcome))) return null;
  const places = unread.map(({ kind, scope, outcome, held: own }) => ({ kind, scope, outcome, own }));
  return JSON.stringify([held, sweeps, places]);
}

/** Why a job without an error is partial; null for other jobs. */
function partText(row: JobRow): string | null {
  if (row.outcome !== 'partial') return null;
  const skipped = summaryOf('drift', row)?.skipped ?? 0;
  if (skipped > 0) return `${plural(skipped, 'collection')} not compared or not fresh`;
  const drill = summaryOf('drill', row);
  return drill === null ? null : `a restore would bring back ${percent(drill.score)}`;
}

/** The key of all jobs of this name and source. */
export function jobKey({ name, source }: Pick<JobRow, 'name' | 'source'>): string {
  return source === null ? `job:${name}` : `job:${name}:${source}`;
}

function named(source: string | null): { readonly source?: string } {
  return source === null ? {} : { source };
}

// What can go wrong with a job besides its own work.

/** The result of a job that threw, or could not begin. */
export function failedResult(thrown: unknown, isStopped: boolean): JobResult {
  const error = asTidemarkError(thrown);
  return {
    outcome: isStopped || error.code === 'interrupted' ? 'interrupted' : 'failed',
    exitCode: exitCodeFor(error.code),
    run: null,
    summary: {},
    error,
    report: null,
  };
}

/** The error that the end of a job could not be recorded. */
export function unwritten(name: JobName, error: TidemarkError): TidemarkError {
  return new TidemarkError(error.code, `what ${name} did could not be written down: ${error.message}`, {
    hint: error.hint,
    cause: error,
  });
}

/** A failed job is a problem until the next job of its name succeeds. The job's own log line reports it. */
export function noteJobProblem(problems: ActiveProblems, row: JobRow, error: TidemarkError | null): void {
  if (row.outcome === 'interrupted') return;
  if ((row.outcome === 'failed' || row.outcome === 'refused') && error !== null)
    problems.note(jobKey(row), error);
  else problems.clear(jobKey(row));
}

// How a job is recorded.

/** The columns of a job that is running. */
export const UNENDED = {
  finishedAt: null,
  outcome: 'running',
  run: null,
  summary: {},
  errorCode: null,
  error: null,
} as const;

/** The columns of a job that ended. @param finishedAt ISO 8601 */
export function endOf({ outcome, run, summary, error }: JobResult, finishedAt: string): JobEnd {
  return {
    finishedAt,
    outcome,
    run,
    summary,
    errorCode: error?.code ?? null,
    error: error?.message ?? null,
  };
}

/** Jobs whose end could not be recorded in the mirror, as on a full disk. */
export class UnwrittenJobs {
  #jobs: readonly UnwrittenJob[] = [];

  /** Adds a job. @param isOfAllKinds false for a sync that was limited to some kinds */
  add(row: JobRow, isOfAllKinds: boolean): void {
    const before = this.#jobs.findLast((each) => jobKey(each.row) === jobKey(row));
    const since = before?.row.outcome === row.outcome ? before.since : (row.finishedAt ?? row.startedAt);
    // Of jobs without a row in the mirror, the latest is enough.
    const kept = this.#jobs.filter((each) => each.row.job !== 0 || jobKey(each.row) !== jobKey(row));
    this.#jobs = [...kept, { row, isOfAllKinds, since }];
  }

  /** The latest of each name and source, until a later one could be recorded. */
  latest(): readonly UnwrittenJob[] {
    return [...new Map(this.#jobs.map((each) => [jobKey(each.row), each])).values()];
  }

  /** Records the ends now: otherwise a later daemon would think that a process died during these jobs. */
  writeEnds(mirror: Mirror): void {
    for (const { row } of this.#jobs) {
      const { job, name, startedAt, finishedAt, outcome, run, summary, errorCode, error } = row;
      if (job === 0 || finishedAt === null || outcome === 'running') continue;
      const stored = mirror.daemon.job(job);
      // The mirror may have been replaced by another one.
      if (stored?.outcome !== 'running' || stored.name !== name || stored.startedAt !== startedAt) continue;
      mirror.daemon.finishJob(job, { finishedAt, outcome, run, summary, errorCode, error });
    }
  }

  /** Drops the jobs whose ends were recorded. @param key of a job that was recorded now; null for none */
  wereWritten(key: string | null): void {
    this.#jobs = this.#jobs.filter(({ row }) => row.job === 0 && jobKey(row) !== key);
  }
}
