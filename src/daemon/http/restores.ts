/**
 * Restores that are planned and applied in the dashboard (`http.allowRestore`), by two commands of this program, each in a process of its
 * own: `restore --out FILE` makes the plan; `daemon-apply FILE` applies exactly that plan, as `apply` does: it refuses a plan if the service
 * has changed since, and keeps the journal. Only that process opens a client that writes.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Actor } from '../../core/actor.ts';
import { continuedIds } from '../../diff/found-again.ts';
import { type Clock, isoTime, settlesWithin } from '../../core/clock.ts';
import { EXIT, TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { type Plan, isExecutable, planDocument, readPlan } from '../../restore/plan/plan.ts';
import { planDirectory } from '../plan-directory.ts';

/**
 * Runs this program with these arguments and the options for its configuration.
 * @param order sent over the channel of the process, so that it cannot be given on a command line
 */
export type RunCommand = (
  args: readonly string[],
  signal: AbortSignal,
  order?: ApplyOrder,
) => Promise<{ readonly code: number | null; readonly stderr: string }>;

/** The user for whom `daemon-apply` applies a plan, who is named in the journal. */
export interface ApplyOrder {
  readonly actor: Actor;
}

/** Plans that are kept; the oldest is dropped first, unless it is being applied. */
const KEPT = 20;
/** How long the daemon, when it stops, waits for the steps under way; `restore --resume` continues from the journal. */
const END_MS = 5_000;
const MOST_OUTPUT = 4_000;

/** The arguments of a `tidemark restore`, without `--apply`. */
export interface RestoreCommand {
  readonly source: string;
  readonly args: readonly string[];
}

export interface PageRestore extends RestoreCommand, Actor {
  readonly id: string;
  /** The query of the page on which it was made. */
  readonly query: string;
  readonly madeAt: string;
  state: 'planning' | 'planned' | 'applying' | 'ended';
  /** Null while it is being made, and if that failed. */
  plan: Plan | null;
  /** What the command printed for people, or what went wrong. */
  message: string;
  /** Of the command that failed to make the plan, or that applied it; null before. */
  exitCode: number | null;
  /** When `apply` began, ISO 8601; null before. Equal plans have the same hash: their restores began at other times. */
  appliedAt: string | null;
}

/** The text that was typed does not confirm the plan. Nothing was sent, and it can be typed again. */
export class WrongConfirmation extends TidemarkError {
  readonly restore: PageRestore;

  constructor(restore: PageRestore, number: number, isOfIds: boolean) {
    const what = isOfIds ? 'ids that are recorded' : 'steps that are sent';
    super('usage', `nothing was sent: ${number} or ${restore.source} confirms this plan`, {
      hint: `type the number of ${what}, or the name of the source`,
    });
    this.restore = restore;
  }
}

export class PageRestores {
  readonly #run: RunCommand;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #mirrorPath: () => string;
  readonly #onApplied: (source: string, actor: Actor) => void;
  readonly #known = new Map<string, PageRestore>();
  readonly #end = new AbortController();
  #work: Promise<void> | null = null;

  constructor(
    run: RunCommand,
    {
      clock,
      log,
      mirrorPath,
      onApplied,
    }: {
      clock: Clock;
      log: Logger;
      mirrorPath: () => string;
      /** Called after a plan was applied, whatever the result. */
      onApplied: (source: string, actor: Actor) => void;
    },
  ) {
    this.#run = run;
    this.#clock = clock;
    this.#log = log;
    this.#mirrorPath = mirrorPath;
    this.#onApplied = onApplied;
  }

  get(id: string): PageRestore | undefined {
    return this.#known.get(id);
  }

  /** Newest first. */
  all(): readonly PageRestore[] {
    return [...this.#known.values()].reverse();
  }

  /**
   * Begins to make a plan.
   * @throws TidemarkError `throttled` while another one is being made or applied
   */
  plan(
    { source, args, query }: Pick<PageRestore, 'source' | 'args' | 'query'>,
    { by, via }: Actor,
  ): PageRestore {
    this.#requireFree();
    const id = randomBytes(8).toString('hex');
    const madeAt = isoTime(this.#clock.now());
    const restore: PageRestore = {
      ...{ id, source, args, query, by, via, madeAt, message: '', exitCode: null, appliedAt: null },
      state: 'planning',
      plan: null,
    };
    this.#known.set(id, restore);
    for (const [old, { state }] of this.#known)
      if (this.#known.size > KEPT && state !== 'applying') this.#known.delete(old);
    this.#begin(restore, async (file) => {
      const { code, stderr } = await this.#run(['restore', ...args, '--out', file], this.#end.signal);
      restore.message = saidIn(stderr, file);
      restore.plan = await readFile(file, 'utf8').then(readPlan, () => null);
      restore.exitCode = restore.plan === null ? (code ?? EXIT.failed) : null;
      return restore.plan === null ? 'ended' : 'planned';
    });
    return restore;
  }

  /**
   * Begins to apply a plan.
   * @param confirmation the number of its steps, or of the ids that it only records, or the name of its source
   * @throws TidemarkError `usage` for another text, `not_found` for a plan that cannot be applied
   */
  apply(id: string, confirmation: string, actor: Actor): PageRestore {
    const restore = this.#known.get(id);
    const plan = restore?.plan ?? null;
    if (restore === undefined || plan === null || restore.state !== 'planned' || plan.refused.length > 0)
      throw new TidemarkError('not_found', 'this plan cannot be applied any more', {
        hint: 'make a new one',
      });
    const steps = plan.steps.filter(isExecutable).length;
    const number = steps === 0 ? continuedIds(plan) : steps;
    if (confirmation !== String(number) && confirmation !== restore.source)
      throw new WrongConfirmation(restore, number, steps === 0);
    this.#requireFree();
    restore.state = 'applying';
    restore.appliedAt = isoTime(this.#clock.now());
    this.#begin(restore, async (file) => {
      await writeFile(file, `${JSON.stringify(planDocument(plan))}\n`, { mode: 0o600 });
      const { code, stderr } = await this.#run(
        ['daemon-apply', file, '--quiet', `--source=${restore.source}`],
        this.#end.signal,
        { actor },
      );
      restore.message = saidIn(stderr, file);
      restore.exitCode = code ?? EXIT.interrupted;
      this.#log.info(
        { action: 'apply', ...actor, plan: plan.hash, exitCode: code },
        'a restore of the dashboard ended',
      );
      this.#onApplied(restore.source, actor);
      return 'ended';
    });
    return restore;
  }

  /** True where a user may come back to a plan or a restore. */
  isInUse(): boolean {
    return this.#known.size > 0;
  }

  /** Ends the command that runs, which finishes the steps under way. */
  async close(): Promise<void> {
    this.#end.abort();
    if (this.#work !== null) await settlesWithin(this.#work, END_MS, this.#clock);
  }

  #requireFree(): void {
    if (this.#work === null && !this.#end.signal.aborted) return;
    throw new TidemarkError('throttled', 'another restore of the dashboard is being planned or applied', {
      hint: 'wait until it has ended',
    });
  }

  /** Runs `work`, which returns the next state. That is set only when another plan may begin. */
  #begin(restore: PageRestore, work: (file: string) => Promise<PageRestore['state']>): void {
    const done = async (): Promise<PageRestore['state']> => {
      const directory = planDirectory(this.#mirrorPath());
      await rm(directory, { recursive: true, force: true });
      await mkdir(directory, { mode: 0o700 });
      try {
        return await work(join(directory, 'plan.json'));
      } finally {
        restore.message = restore.message.slice(-MOST_OUTPUT);
        await rm(directory, { recursive: true, force: true });
      }
    };
    this.#work = done()
      .catch((error: unknown) => {
        this.#log.error({ err: error }, 'a restore of the dashboard could not be run');
        restore.message = 'it could not be run: the log of the daemon has the reason';
        restore.exitCode = EXIT.failed;
        return 'ended' as const;
      })
      .then((state) => {
        restore.state = state;
        this.#work = null;
      });
  }
}

/** What a command printed for people: without its log, and lines about the file, which is deleted by then. */
function saidIn(stderr: string, file: string): string {
  const lines = stderr.split('\n').filter((line) => !line.includes(file) && !line.startsWith('{"level":'));
  return lines.join('\n');
}
