/**
 * What is known of one mirror of many, kept in memory: an overview, health and metrics over hundreds of mirrors open no
 * file. It is read again after each job, after each change by a person, and when another process wrote to the file.
 */
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { mirrorFileState } from '../mirror/real-path.ts';
import { DriftNow } from './health/drift-now.ts';
import { type DriftCounts, driftCounts, driftStatus, fiveAnswers } from './health/status-answers.ts';
import type { HealthReason } from './health/reason.ts';
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

interface CellAnswer {
  readonly tone: 'good' | 'warn' | 'bad' | 'plain';
  /** Two or three words; no time in it. */
  readonly word: string;
}

/** One mirror in an overview of many, from memory: no file is opened for it. */
export interface CellSummary {
  /** Of its source; with one mirror for all sources, `mirror`. */
  readonly name: string;
  /** Label of what belongs together: the origin of the source's service, such as `https://eu.example.com`. */
  readonly group: string;
  /** As of now; null until the mirror was looked at for the first time. */
  readonly state: 'ok' | 'degraded' | 'starting' | 'failing' | null;
  /** Of the worst reason behind `state`: one line, and since when; null if there is none. */
  readonly reason: { readonly message: string; readonly since: string | null } | null;
  /** Null until the mirror was looked at for the first time. */
  readonly answers: Readonly<Record<CellQuestion, CellAnswer>> | null;
  /**
   * When the last complete run of all kinds ended, ISO 8601; with several sources, of the oldest. Of a mirror that cannot be read, as
   * it was known last.
   */
  readonly lastCompleteAt: string | null;
  readonly isUnreadable: boolean;
  /** When its next sync starts, ISO 8601; null where no schedule syncs it. */
  readonly nextDueAt: string | null;
  /** What it does now. */
  readonly running: JobIdentity | null;
  /** Open findings of drift; null without a baseline, and where it is not known. */
  readonly openFindings: number | null;
  /** Of the last sync; null where it had none. */
  readonly lastErrorCode: string | null;
}

interface CellStatusOptions {
  readonly name: string;
  /** Of the daemon, ISO 8601. */
  readonly startedAt: string;
  readonly view: () => DaemonView;
  /** Opens the mirror for this one look. @throws TidemarkError */
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

  /** The mirror may be another than it was when it was read: `refresh` reads it again. */
  markOld(): void {
    this.#isOld = true;
  }

  /**
   * True where the mirror was never read, or may be another by now; a look at the times of its files is included. The process
   * that applies a restore may die without a change of the files, and at the start the mirrors do not wait for their targets.
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

  /** Reads the mirror where it is not known as it is now. */
  async refresh(): Promise<void> {
    while (this.#reading !== null) await this.#reading;
    if (!this.isOld()) return;
    this.#reading = this.#read();
    await this.#reading.finally(() => (this.#reading = null));
  }

  /** The state as of now; null until the mirror was read for the first time. Its `mirror` is null: no file is open. */
  snapshot(): HealthSnapshot | null {
    const [known, now, view] = [this.#known, this.#options.now(), this.#options.view()];
    if (known === null) return null;
    if ('error' in known) return snapshotWithout(view, known.error, now);
    return snapshotOf(view, known.inputs, now, null);
  }

  /** Open findings as of the last look, or why they are not known; null without a baseline. */
  drift(): DriftCounts | null {
    return this.#known === null || 'error' in this.#known ? null : this.#known.drift;
  }

  /** The same as `tidemark.status/1` has it. */
  driftStatus(): object | null {
    return this.#known === null || 'error' in this.#known ? null : this.#known.driftShown;
  }

  /** True where the mirror could not be read at the last look, though no first sync is to make it. */
  isUnreadable(): boolean {
    if (this.#known === null || !('error' in this.#known)) return false;
    return this.#known.error.code !== 'mirror_missing' || !isFirstSyncDue(this.#options.view());
  }

  /** Runs that ended and changes that they published since the daemon started, as of the last look. */
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
        // What is read now is kept until the mirror changes again. At the start, the mirrors do not wait for their targets.
        if (this.#known !== null) await living.backups.look(config.backup?.targets ?? [], mirror);
        const found = await drift.ofAll(mirror, config, names, at);
        this.#targets = targetsState(living);
        const inputs = readHealthInputs(living, mirror, at, { finder: drift });
        // `finished` reads the mirror when it is called first.
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

/** What is known of the targets of backups, without what changes all the time. */
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
  // Until when requests wait says more than since when the source is late, or that its sync failed.
  const tells = (each: HealthReason): boolean =>
    [worst.message, worst.hint].some((text) => text?.endsWith(`; ${each.message}`));
  const { message } = reasons.find(tells) ?? worst;
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
