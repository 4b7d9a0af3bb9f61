/** The restores of a mirror, their journal, and the id map. */
import type { MirrorAccess } from './access.ts';
import type { Connection } from './database.ts';
import {
  type Durability,
  type IdMapping,
  type JournalEntry,
  type RestoreFilter,
  type RestoreOutcome,
  type RestoreRow,
  type RestoreStart,
  type RestoreStepRow,
  beginRestore,
  finishRestore,
  readIdMap,
  readRestores,
  readRestoreSteps,
  resumeRestore,
} from './restores.ts';
import { type StepJournal, openStepJournal } from './step-journal.ts';

export class RestoreStore {
  readonly #access: MirrorAccess;
  #journal: StepJournal | null = null;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Newest first. */
  list(filter: RestoreFilter = {}): RestoreRow[] {
    return this.#access.read((connection) => readRestores(connection, filter));
  }

  get(restore: number): RestoreRow | undefined {
    return this.#access.read((connection) => readRestores(connection, { restore })[0]);
  }

  /** The journal of a restore in the order of its plan. */
  steps(restore: number): RestoreStepRow[] {
    return this.#access.read((connection) => readRestoreSteps(connection, restore));
  }

  /** Which records of a source came back under which ids, oldest first. */
  idMap(source: string): IdMapping[] {
    return this.#access.read((connection) => readIdMap(connection, source));
  }

  /** Writes a restore and all its steps, durably, before anything is sent. Returns its number. */
  begin(start: RestoreStart): number {
    return this.#access.change((writer) => beginRestore(writer, start));
  }

  /** Marks an ended restore as running again. @throws TidemarkError `reference_unknown` */
  resume(restore: number): void {
    this.#access.change((writer) => resumeRestore(writer, restore));
  }

  /** Replaces steps' rows in one transaction; `mappings` go into the id map in the same one. */
  journal(entries: readonly JournalEntry[], durability: Durability = 'disk'): void {
    this.#access.change((writer) => this.#stepJournal(writer).write(entries, durability));
  }

  /**
   * Resolves once everything journaled before the call is on the disk; concurrent calls share one wait for it.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`
   */
  settled(): Promise<void> {
    return this.#access.change((writer) => this.#stepJournal(writer).settled());
  }

  /** @throws TidemarkError `reference_unknown` */
  finish(restore: number, outcome: Exclude<RestoreOutcome, 'running'>, at: string): void {
    this.#access.change((writer) => finishRestore(writer, restore, outcome, at));
  }

  close(): void {
    this.#journal?.close();
  }

  #stepJournal(writer: Connection): StepJournal {
    return (this.#journal ??= openStepJournal(writer, this.#access.path));
  }
}
