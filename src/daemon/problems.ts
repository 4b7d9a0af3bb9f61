/** Current problems. Each is reported when it begins and when it ends, not in between. */
import { type Clock, isoTime } from '../core/clock.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { longWait } from '../mirror/shared-throttle.ts';
import type { DaemonProblem } from './view.ts';

/** The subject of the problem that requests of a source would wait for too long. */
export function waitProblemOf(source: string): string {
  return `rate:${source}`;
}

/**
 * The problem that requests of a source would have to wait for longer than they may, and until when; null if they would not.
 * @param syncsThen who syncs scheduled sources: a daemon, or the calls of `daemon --once`; null for nobody
 */
export function waitProblem(
  source: SourceConfig,
  config: Pick<Config, 'rateLogBeside' | 'schedules'>,
  clock: Clock,
  syncsThen: 'daemon' | 'once' | null,
): { readonly freeAt: number; readonly isAsked: boolean; readonly error: TidemarkError } | null {
  const wait = waitOf(source, config, clock);
  if (wait === null) return null;
  const { freeAt, isAsked } = wait;
  const who = config.schedules.sync?.sources.includes(source.name) === true ? syncsThen : null;
  const hint = isAsked
    ? `${THEN[who ?? 'nobody']}; ${triesNow(source)}`
    : 'raise it, sync less often, or give each source a key of its own';
  const message = `the next sync of ${source.name} waits: ${wait.what}`;
  return { freeAt, isAsked, error: new TidemarkError('throttled', message, { hint }) };
}

const THEN = {
  daemon: 'the daemon syncs it then',
  once: 'the next call of `daemon --once` after that syncs it',
  nobody: 'sync it then',
} as const;

/** How a refusal is decided on, and worded. */
export interface RefusalHow {
  /** True to send requests although the service asked to wait. */
  readonly ignoresPause?: boolean | undefined;
  /** False for a caller who must not learn the names of sources. */
  readonly isNamed?: boolean;
}

/** The same for a requested sync, which is refused: its run would begin only to fail. */
export function waitRefusal(
  source: SourceConfig,
  place: Pick<Config, 'rateLogBeside'>,
  clock: Clock,
  { ignoresPause, isNamed = true }: RefusalHow = {},
): TidemarkError | null {
  const wait = waitOf(source, place, clock, ignoresPause);
  if (wait === null) return null;
  const message = `no sync of ${isNamed ? source.name : 'a source'} was begun: ${wait.what}`;
  const now = isNamed ? `; ${triesNow(source)}` : '';
  const hint = `sync again then${wait.isAsked ? now : ', or raise it'}`;
  return new TidemarkError('throttled', message, { hint, retryAfterMs: wait.freeAt - clock.now() });
}

/**
 * Which of the requested sources can be synced now, and why the others cannot.
 * @param names null for all; `free` is null too then, if none is refused
 */
export function freeSources(
  { sources, rateLogBeside }: Pick<Config, 'sources' | 'rateLogBeside'>,
  names: readonly string[] | null,
  clock: Clock,
  how: RefusalHow = {},
): {
  readonly free: readonly string[] | null;
  readonly refused: readonly { readonly source: string; readonly error: TidemarkError }[];
} {
  const refused = sources.flatMap((source) => {
    const isAsked = names?.includes(source.name) !== false;
    const error = isAsked ? waitRefusal(source, { rateLogBeside }, clock, how) : null;
    return error === null ? [] : [{ source: source.name, error }];
  });
  if (refused.length === 0) return { free: names, refused };
  const asked = names ?? sources.map(({ name }) => name);
  return { free: asked.filter((name) => refused.every(({ source }) => source !== name)), refused };
}

function triesNow({ name }: SourceConfig): string {
  return `\`tidemark sync --source ${name} --ignore-pause\` tries now`;
}

function waitOf(
  source: SourceConfig,
  { rateLogBeside }: Pick<Config, 'rateLogBeside'>,
  clock: Clock,
  ignoresPause?: boolean,
): ReturnType<typeof longWait> {
  const mostWaitMs = source.retry.maxWaitSeconds * 1000;
  return longWait(source, { beside: rateLogBeside, clock, mostWaitMs, ignoresPause });
}

/** Gets the problems of jobs. */
export interface ProblemSink {
  begin(about: string, error: TidemarkError, level?: 'warn' | 'error'): void;
  end(about: string, message: string): void;
}

export class ActiveProblems implements ProblemSink {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #isOnce: boolean;
  readonly #open = new Map<string, DaemonProblem>();

  /** @param isOnce true for `--once`, whose warnings cron mails: a wait for the mirror is none */
  constructor(clock: Clock, log: Logger, isOnce = false) {
    this.#clock = clock;
    this.#log = log;
    this.#isOnce = isOnce;
  }

  /** Notes a problem, and logs it unless it is known with the same code. */
  begin(about: string, error: TidemarkError, level: 'warn' | 'error' = 'error'): void {
    if (this.note(about, error)) this.#say(about, error, level);
  }

  /** Notes a problem, and logs it in any case. */
  report(about: string, error: TidemarkError): void {
    this.note(about, error);
    this.#say(about, error, 'error');
  }

  #say(about: string, error: TidemarkError, level: 'warn' | 'error'): void {
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    this.#log[this.#isOnce && about === 'lock' ? 'info' : level](
      { about, code: error.code, ...hint },
      error.message,
    );
  }

  /** Notes a problem without logging it. True if it is news. */
  note(about: string, error: TidemarkError): boolean {
    const known = this.#open.get(about);
    const isNews = known === undefined || known.error.code !== error.code;
    this.#open.set(about, { about, since: known?.since ?? isoTime(this.#clock.now()), error });
    return isNews;
  }

  /** Ends a problem, and logs that if it existed. */
  end(about: string, message: string): void {
    const known = this.#open.get(about);
    if (known === undefined) return;
    this.#open.delete(about);
    this.#log.info({ about, code: known.error.code, since: known.since }, message);
  }

  /** Ends a problem without logging it. True if it existed. */
  clear(about: string): boolean {
    return this.#open.delete(about);
  }

  /** Oldest first. */
  all(): DaemonProblem[] {
    return [...this.#open.values()];
  }
}
