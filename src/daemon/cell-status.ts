/**
 * What is known of one mirror of many, kept in memory, so that overview, health and metrics of hundreds of mirrors open no file. It is
 * read again after each job, after each change by a person, and when another process wrote to the file.
 */
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { mirrorFileState } from '../mirror/real-path.ts';
import { DriftNow } from './health/drift-now.ts';
import { type DriftCounts, driftCounts, driftStatus } from './health/drift-counts.ts';
import { type Answer, fiveAnswers } from './health/status-answers.ts';
import type { HealthReason, HealthState } from './health/reason.ts';
import {
  type HealthSnapshot,
  isFirstSyncDue,
  readHealthInputs,
  snapshotOf,
  snapshotWithout,
} from './health/health-facts.ts';
import { RunCounter, type RunTotals } from './http/run-counter.ts';
import type { DaemonView, JobIdentity } from './view.ts';

/** A question that the dashboard answers for each mirror. */
type CellQuestion = 'fresh' | 'complete' | 'verified' | 'restorable' | 'drift';

/** `word` has two or three words and no time. */
type CellAnswer = Pick<Answer, 'tone' | 'word'>;

/** One mirror in an overview of many, from memory: no file is opened for it. */
export interface CellSummary {
  /** Of its source; with one mirror for all sources, `mirror`. */
  readonly name: string;
  /** The origin of the source's service, such as `https://eu.example.com`, by which the overview groups. */
  readonly group: string;
  /** As of now; null until the mirror was first read. */
  readonly state: HealthState | null;
  /** The worst reason for `state`; null if there is none. */
  readonly reason: Pick<HealthReason, 'message' | 'since'> | null;
  /** Null until the mirror was first read. */
  readonly answers: Readonly<Record<CellQuestion, CellAnswer>> | null;
  /**
   * When the last complete run of all kinds ended, ISO 8601; with several sources, the oldest of these times. If the mirror cannot be
   * read, as last known.
   */
  readonly lastCompleteAt: string | null;
  readonly isUnreadable: boolean;
  /** When its next sync starts, ISO 8601; null if no schedule syncs it. */
  readonly nextDueAt: string | null;
  /** The running job. */
  readonly running: JobIdentity | null;
  /** The number of open findings of drift; null without a baseline, and if it is not known. */
  readonly openFindings: number | null;
  /** Of the last sync; null if it had no error. */
  readonly lastErrorCode: string | null;
}

interface CellStatusOptions {
  readonly name: string;
  /** Of the daemon, ISO 8601. */
  readonly startedAt: string;
  readonly view: () => DaemonView;
  /** Opens the mirror to read it once. @throws TidemarkError */
  readonly openReader: () => Mirror;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

type Known =
  | {
      readonly inputs: ReturnType<typeof readHealthInputs>;
      readonly drift: DriftCounts | null;
      /** Of `driftStatus`. */
      readonly driftShown: object | null;
    }
  | { readonly error: TidemarkError };

export class CellStatus {
  readonly #options: CellStatusOptions;
  readonly #runs: RunCounter;
  #known: Known | null = null;
  #file = '';
  /** What was known of the targets of its backups when the mirror was read. */
  #targets = '';
  #reading: Promise<void> | null = null;
  #isOld = true;

  constructor(options: CellStatusOptions) {
    this.#options = options;
    this.#runs = new RunCounter(options.startedAt);
  }

  /** The mirror may have changed since it was read: `refresh` reads it again. */
  markOld(): void {
    this.#isOld = true;
  }

  /**
   * True if the mirror was never read, or may have changed since: the times of its files are checked too. It is always true while a
   * restore is applied, since its process may die without a change of the files, and once more is known of the backup targets, for which
   * a start does not wait.
   */
  isOld(): boolean {
    const known = this.#known;
    const isRestoring =
      known !== null &&
      'inputs' in known &&
      [...known.inputs.restores.values()].some((each) => each.isAtWork);
    return (
      this.#isOld ||
      isRestoring ||
      this.#file !== this.#fileState() ||
      this.#targets !== targetsState(this.#options.view())
    );
  }

  /** Reads the mirror if it `isOld`. */
  async refresh(): Promise<void> {
    while (this.#reading !== null) await this.#reading;
    if (!this.isOld()) return;
    this.#reading = this.#read();
    await this.#reading.finally(() => (this.#reading = null));
  }

  /** The state now; null until the mirror was first read. Its `mirror` is null: no file is open. */
  snapshot(): HealthSnapshot | null {
    const [known, now, view] = [this.#known, this.#options.now(), this.#options.view()];
    if (known === null) return null;
    if ('error' in known) return snapshotWithout(view, known.error, now);
    return snapshotOf(view, known.inputs, now, null);
  }

  /** The open findings as last read, or why they are not known; null without a baseline. */
  drift(): DriftCounts | null {
    return this.#known === null || 'error' in this.#known ? null : this.#known.drift;
  }

  /** `drift` of `tidemark.status/1`, as last read. */
  driftStatus(): object | null {
    return this.#known === null || 'error' in this.#known ? null : this.#known.driftShown;
  }

  /** True if the mirror could not be read, unless the first sync is to create it. */
  isUnreadable(): boolean {
    if (this.#known === null || !('error' in this.#known)) return false;
    return this.#known.error.code !== 'mirror_missing' || !isFirstSyncDue(this.#options.view());
  }

  /** The ended runs and their changes since the daemon started, as last read. */
  totals(): RunTotals {
    return this.#runs.totals();
  }

  summary(): CellSummary {
    const { name } = this.#options;
    const view = this.#options.view();
    const snapshot = this.snapshot();
    const drift = this.drift();
    const sync = view.schedules().find(({ schedule }) => schedule === 'sync');
    const [running] = view.running();
    const sources = view.config().sources;
    const completeAt = snapshot?.health.sources.map(({ lastCompleteAt }) => lastCompleteAt) ?? [];
    return {
      name,
      group: [...new Set(sources.map(({ baseUrl }) => baseUrl.origin))].join(', '),
      state: snapshot?.health.state ?? null,
      reason: snapshot === null ? null : worstReason(snapshot),
      answers: snapshot === null ? null : answersOf(snapshot, drift),
      lastCompleteAt: completeAt.includes(null) ? null : (completeAt.toSorted()[0] ?? null),
      isUnreadable: this.isUnreadable(),
      nextDueAt: sync?.dueAt ?? null,
      running: running === undefined ? null : { name: running.name, source: running.source },
      openFindings: drift === null || drift.unknown !== null ? null : drift.open,
      lastErrorCode:
        snapshot?.lastJobs.of('sync').find(({ errorCode }) => errorCode !== null)?.errorCode ?? null,
    };
  }

  async #read(): Promise<void> {
    const { openReader, now, view } = this.#options;
    this.#isOld = false;
    this.#file = this.#fileState();
    try {
      const mirror = openReader();
      try {
        const [living, at] = [view(), now()];
        const drift = new DriftNow();
        const config = living.config();
        const names = config.sources.map((source) => source.name);
        // What is read now is kept until the mirror changes. Only at the start, it is not worth waiting for the targets.
        if (this.#known !== null) await living.backups.look(config.backup?.targets ?? [], mirror);
        const found = await drift.ofAll(mirror, config, names, at);
        this.#targets = targetsState(living);
        const inputs = readHealthInputs(living, mirror, at, { finder: drift });
        // The first call of `finished` reads the mirror: later it is closed.
        inputs.lastJobs.finished('drift');
        this.#runs.read(mirror);
        this.#known = {
          inputs,
          drift: driftCounts(snapshotOf(living, inputs, at, mirror), found),
          driftShown: driftStatus(found, inputs.lastJobs, names[0] ?? ''),
        };
      } finally {
        mirror.close();
      }
    } catch (error) {
      this.#known = { error: asTidemarkError(error) };
    }
  }

  #fileState(): string {
    return mirrorFileState(this.#options.view().config().mirror);
  }
}

/** What is known of the backup targets, without the free space, which changes all the time. */
function targetsState(view: DaemonView): string {
  const known = view.backups.remembered(view.config().backup?.targets ?? []);
  return JSON.stringify(known.map(({ volume: _volume, ...each }) => each));
}

function worstReason({ health }: HealthSnapshot): CellSummary['reason'] {
  const reasons = [...health.sources.flatMap((source) => source.reasons), ...health.reasons];
  const [worst] = [
    ...reasons.filter(({ state }) => state === health.state),
    ...reasons.filter(({ state }) => state !== health.state),
  ] as (HealthReason | undefined)[];
  if (worst === undefined) return null;
  // Until when requests wait is more useful than since when the source is late, or that its sync failed.
  const isInWorst = (reason: HealthReason): boolean =>
    [worst.message, worst.hint].some((text) => text?.endsWith(`; ${reason.message}`));
  const { message } = reasons.find(isInWorst) ?? worst;
  return { message, since: worst.since };
}

function answersOf(snapshot: HealthSnapshot, drift: DriftCounts | null): CellSummary['answers'] {
  const [fresh, complete, verified, restorable, drifted] = fiveAnswers(snapshot, drift).map(
    ({ tone, word }): CellAnswer => ({ tone, word }),
  );
  const unknown: CellAnswer = { tone: 'plain', word: 'Unknown' };
  return {
    fresh: fresh ?? unknown,
    complete: complete ?? unknown,
    verified: verified ?? unknown,
    restorable: restorable ?? unknown,
    drift: drifted ?? unknown,
  };
}
