/** What retention would drop, drops, and dropped. */
import type { MirrorAccess } from './access.ts';
import { type ForgetRow, readForgets } from './forget-records.ts';
import {
  type ForgottenBefore,
  type ForgottenRunRow,
  readForgottenBefore,
  readForgottenRun,
  readSourcesForgottenAt,
} from './forgotten-runs.ts';
import {
  type ForgetChoice,
  type ForgetOptions,
  type ForgetResult,
  forgetRuns,
  planForget,
} from './forgetting.ts';
import type { RetentionPlan } from './retention.ts';

export class RetentionStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** What retention dropped so far, oldest first. */
  forgets(): ForgetRow[] {
    return this.#access.read(readForgets);
  }

  /** When retention dropped a run, and which kept one has its changes now; undefined if it did not drop it. */
  forgottenRun(run: number): ForgottenRunRow | undefined {
    return this.#access.read((connection) => readForgottenRun(connection, run));
  }

  /** The dropped runs whose changes a kept run has in addition to its own; undefined if there are none. */
  forgottenBefore(run: number): ForgottenBefore | undefined {
    return this.#access.read((connection) => readForgottenBefore(connection, run));
  }

  /** Names of sources whose state as of a kept run retention dropped. */
  sourcesForgottenAt(run: number): string[] {
    return this.#access.read((connection) => readSourcesForgottenAt(connection, run));
  }

  /**
   * What `forget` would keep, with the reasons, and what it would drop. Changes nothing.
   * @throws TidemarkError `usage` for a policy that keeps nothing
   */
  plan(choice: ForgetChoice): RetentionPlan {
    return this.#access.read((connection) => planForget(connection, choice));
  }

  /**
   * Drops local history: what forgotten runs did and saw goes into the next kept run of their source, so that every kept
   * run shows its source exactly as before. A run that a rule, a pin or `sources` keeps shows every other source as before
   * too: the runs that this takes are kept beside it. Those in turn may show other sources as they were earlier;
   * `sourcesForgottenAt` lists them. One transaction; then the hash chain is recomputed and records that; then VACUUM.
   * @throws TidemarkError `usage`, `mirror_locked` while a run is in progress, `mirror_corrupt` when the history is not
   * what was sealed; then nothing was forgotten
   */
  async forget(options: ForgetOptions): Promise<ForgetResult> {
    return await forgetRuns(this.#access.writerForForget(), options);
  }
}
