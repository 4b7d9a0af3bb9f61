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

/** The second one follows at once: what matters is that it comes, soon. */
const ATTEMPTS = 2;

export interface PingerOptions {
  /** Those of the configuration in force. */
  readonly pings: () => readonly PingConfig[];
  readonly poster: Poster;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Pinger {
  /** A sync of all kinds of a source begins. */
  started(source: string): void;
  /** It ended. `isComplete` only where the run was complete; `why` else: one line without secrets. */
  ended(source: string, isComplete: boolean, why: string): void;
  /** Resolves when every call so far was made. */
  settled(): Promise<void>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

interface Line {
  readonly ping: PingConfig;
  /** Calls in their order: a success must not overtake its start. */
  last: Promise<void>;
  /** Sources of this ping whose last run was not complete. */
  readonly failing: Set<string>;
}

export function createPinger({ pings, poster, clock, log }: PingerOptions): Pinger {
  const closing = new AbortController();
  let lines = new Map<PingConfig, Line>();
  /** Lines of pings that are no longer configured stay as long as they are at work. */
  const underWay = new Set<Promise<void>>();
  const current = (): readonly Line[] => {
    // A configuration that was read anew has new objects: what failed before it is not known any more.
    lines = new Map(
      pings().map((ping): [PingConfig, Line] => [
        ping,
        lines.get(ping) ?? { ping, last: Promise.resolve(), failing: new Set() },
      ]),
    );
    return [...lines.values()];
  };

  const call = async (ping: PingConfig, url: Secret, body: string): Promise<void> => {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
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
        if (attempt === ATTEMPTS) log.warn({ code: error.code }, `a ping did not arrive: ${error.message}`);
      }
    }
  };
  const send = (line: Line, url: Secret | null, body: string): void => {
    if (url === null) return;
    const done = line.last.then(() => call(line.ping, url, body)).finally(() => underWay.delete(done));
    line.last = done;
    underWay.add(done);
  };
  const linesOf = (source: string): Line[] =>
    current().filter(({ ping }) => ping.sources === null || ping.sources.includes(source));

  return {
    started: (source) => {
      for (const line of linesOf(source)) send(line, line.ping.start, `${source}: a sync begins\n`);
    },
    ended: (source, isComplete, why) => {
      for (const line of linesOf(source)) {
        if (!isComplete) {
          line.failing.add(source);
          send(line, line.ping.fail, `${source}: ${why}\n`);
          continue;
        }
        line.failing.delete(source);
        // One source's success must not hide another one's failure.
        if (line.failing.size === 0) send(line, line.ping.success, `${source}: the sync was complete\n`);
      }
    },
    settled: async () => {
      await Promise.all(underWay);
    },
    close: async () => {
      closing.abort(new Error('closed'));
      await Promise.all(underWay);
    },
  };
}
