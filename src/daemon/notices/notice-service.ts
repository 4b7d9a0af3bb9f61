/** Notices and pings as the daemon's observers, over real sockets, mail servers and processes. */
import { openPoster } from '../../api/post.ts';
import type { Config } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobObserver } from '../jobs/observer.ts';
import type { DaemonView } from '../view.ts';
import { createNoticeObserver } from './notice-observer.ts';
import { createPingObserver } from './ping-observer.ts';
import { createPinger } from './pings.ts';
import { createSend } from './sending.ts';

interface NoticingOptions {
  /** The configuration in force. */
  readonly config: () => Config;
  /** Null until the daemon lives. */
  readonly view: () => DaemonView | null;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
}

interface NoticeService {
  readonly observers: readonly JobObserver[];
  /** After the daemon's end: leaves no socket open. */
  close(): Promise<void>;
}

/** A ping says one word, and the next run's comes soon. */
const PING_TIMEOUTS = { connectMs: 3_000, headersMs: 5_000, bodyMs: 2_000, totalMs: 8_000 };

export function openNoticeService(options: NoticingOptions): NoticeService {
  const { config, clock, log, env } = options;
  const poster = openPoster();
  const pingPoster = openPoster(PING_TIMEOUTS);
  const sources = (): string[] => config().sources.map(({ name }) => name);
  const pinger = createPinger({
    pings: () => config().pings,
    sources,
    poster: pingPoster,
    clock,
    log,
  });
  const send = createSend({ poster, clock, log, env });
  return {
    observers: [createPingObserver(pinger, sources), createNoticeObserver({ ...options, send })],
    close: async () => {
      await pinger.close();
      await Promise.all([poster.close(), pingPoster.close()]);
    },
  };
}
