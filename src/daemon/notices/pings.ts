/**
 * A dead man's switch: URLs that are called when a sync begins and ends, so that somebody else notices when none does.
 * Calls are made beside the sync, which never waits for them.
 */
import type { Poster } from '../../api/post.ts';
import type { PingConfig } from '../../config/ping-rules.ts';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import { requireAccepted } from './webhook.ts';

/**
 * Waits before the attempts after the first. The second one follows at once: what matters is that it comes, soon. The last
 * ones are for a network that is away for a moment: a success that is lost is a false alarm, with a sync a day for a day.
 */
const WAITS_MS = [0, 10_000, 60_000];

interface PingerOptions {
  /** Those of the configuration in force. */
  readonly pings: () => readonly PingConfig[];
  /** Names of the configured sources. */
  readonly sources: () => readonly string[];
  readonly poster: Poster;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Pinger {
  /** A sync of all kinds of a source begins. */
  started(source: string): void;
  /** Its run was complete. `others`: sources of which that is not so, as far as the mirror knows. */
  succeeded(source: string, others: readonly string[]): void;
  /** It ended in any other way. `why`: one line without secrets. */
  failed(source: string, why: string): void;
  /**
   * Resolves when every call so far was made.
   * @param stop aborted when the daemon stops: what still waits for another attempt is given up then
   */
  settled(stop: AbortSignal): Promise<void>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

interface Line {
  readonly ping: PingConfig;
  /** Calls in their order: a success must not overtake its start. */
  last: Promise<void>;
  /** Aborted by the next call: what it says is newer than what still waits for another attempt. */
  newer: AbortController;
}

export function createPinger({ pings, sources, poster, clock, log }: PingerOptions): Pinger {
  const closing = new AbortController();
  const stopping = new AbortController();
  let lines = new Map<PingConfig, Line>();
  /** Lines of pings that are no longer configured stay as long as they are at work. */
  const underWay = new Set<Promise<void>>();
  /** Sources whose last sync was not complete: the mirror may not know of it, where the disk is full. */
  const failing = new Set<string>();
  const current = (): readonly Line[] => {
    // A configuration that was read anew has new objects.
    lines = new Map(
      pings().map((ping): [PingConfig, Line] => [
        ping,
        lines.get(ping) ?? { ping, last: Promise.resolve(), newer: new AbortController() },
      ]),
    );
    return [...lines.values()];
  };

  const call = async (ping: PingConfig, url: Secret, body: string, newer: AbortSignal): Promise<void> => {
    const ends = AbortSignal.any([closing.signal, stopping.signal, newer]);
    for (let failures = 0; ; failures += 1) {
      try {
        const answer = await poster.post({
          method: ping.method,
          url,
          body,
          headers: ping.method === 'POST' ? { 'content-type': 'text/plain; charset=utf-8' } : {},
          signal: closing.signal,
        });
        requireAccepted(answer, [url], clock.now());
        return;
      } catch (thrown) {
        if (closing.signal.aborted) return;
        const error = asTidemarkError(thrown);
        if (failures === 1) log.warn({ code: error.code }, `a ping did not arrive: ${error.message}`);
      }
      const waitMs = WAITS_MS[failures];
      if (waitMs === undefined) return;
      // The second attempt is made in any case.
      if (waitMs > 0 && !(await waited(clock, waitMs, ends))) return;
    }
  };
  const send = (line: Line, url: Secret | null, body: string): void => {
    if (url === null) return;
    line.newer.abort();
    line.newer = new AbortController();
    const { signal } = line.newer;
    const done = line.last
      .then(() => call(line.ping, url, body, signal))
      .finally(() => underWay.delete(done));
    line.last = done;
    underWay.add(done);
  };
  const linesOf = (source: string): Line[] =>
    current().filter(({ ping }) => ping.sources === null || ping.sources.includes(source));

  return {
    started: (source) => {
      for (const line of linesOf(source)) send(line, line.ping.start, `${source}: a sync begins\n`);
    },
    succeeded: (source, others) => {
      failing.delete(source);
      const configured = sources();
      const notWhole = [...others, ...failing].filter((name) => name !== source && configured.includes(name));
      for (const line of linesOf(source)) {
        const own = line.ping.sources;
        // One source's success must not hide another one's failure.
        if (notWhole.some((name) => own === null || own.includes(name))) continue;
        send(line, line.ping.success, `${source}: the sync was complete\n`);
      }
    },
    failed: (source, why) => {
      failing.add(source);
      for (const line of linesOf(source)) send(line, line.ping.fail, `${source}: ${why}\n`);
    },
    settled: async (stop) => {
      const giveUp = (): void => stopping.abort();
      if (stop.aborted) giveUp();
      stop.addEventListener('abort', giveUp);
      try {
        await Promise.all(underWay);
      } finally {
        stop.removeEventListener('abort', giveUp);
      }
    },
    close: async () => {
      closing.abort(new Error('closed'));
      await Promise.all(underWay);
    },
  };
}

/** False where the signal came first. */
async function waited(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}
