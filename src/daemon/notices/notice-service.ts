/** Notices and pings as the daemon's observers, over real sockets, mail servers and processes. */
import { openPoster, type Poster } from '../../api/post.ts';
import { type LoadedConfig, rateLogBesideOf } from '../../config/mirrors.ts';
import type { PingConfig } from '../../config/channels.ts';
import type { ProxySettings } from '../../config/proxy.ts';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import { outcomeText } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { JobObserver, ObservedMirror } from '../jobs/observers.ts';
import { Deliveries } from './deliveries.ts';
import { type FailedStart, missedWork, notifyFailedStart } from './failed-start.ts';
import { NoticeObserver } from './notice-observer.ts';
import { createSend } from './sending.ts';
import { requireAccepted } from './channels/shared.ts';

interface NoticingOptions {
  /** The configuration in force. */
  readonly config: () => LoadedConfig;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of the configuration file, where the command line named one. */
  readonly configFile?: string | undefined;
}

interface NoticeService {
  /** Those of the jobs of one mirror. */
  readonly observersOf: (mirror: ObservedMirror) => readonly JobObserver[];
  /** The daemon could not start: sends what can be said of it without a mirror. */
  startFailed(failed: FailedStart): Promise<void>;
  /** After the daemon's end: leaves no socket open. */
  close(): Promise<void>;
}

/** A ping says one word, and the next run's comes soon. */
const PING_TIMEOUTS = { connectMs: 3_000, headersMs: 5_000, bodyMs: 2_000, totalMs: 8_000 };

export function openNoticeService(options: NoticingOptions): NoticeService {
  const { config, clock, log, env, configFile } = options;
  const proxies = (): ProxySettings => config().proxies;
  const poster = openPoster(proxies);
  const pingPoster = openPoster(proxies, PING_TIMEOUTS);
  const send = createSend({ poster, clock, log, env, configFile });
  const sources = (): string[] => config().sources.map(({ name }) => name);
  const pinger = createPinger({
    pings: () => config().pings,
    sources,
    poster: pingPoster,
    clock,
    log,
  });
  const deliveries = new Deliveries({
    ...options,
    channels: () => config().notices,
    sources: () => config().sources.map(({ name, baseUrl }) => ({ name, origin: baseUrl.origin })),
    times: () => {
      const { noticeWait: waitMs, noticeInterval: intervalMs } = config().daemon;
      return config().sources.length > 1 && waitMs > 0 ? { waitMs, intervalMs } : null;
    },
    file: () => `${rateLogBesideOf(config())}-notices`,
    publicUrl: () => config().http.publicUrl,
    send,
  });
  return {
    observersOf: ({ view, owner, context }) => [
      // Without pings, no mirror is read for them.
      createPingObserver(pinger, sources, config().pings.length === 0 ? null : owner),
      new NoticeObserver({ clock, log, view, owner, context, deliveries, config: () => view().config() }),
    ],
    startFailed: async (failed) => {
      const missed = missedWork(config(), failed);
      if (missed === null) return;
      pinger.notBegun(missed.sources, `the daemon could not start: ${failed.error.message}`);
      if (missed.isNoticeDue) await notifyFailedStart(config(), failed, send);
      await pinger.settled(failed.signal);
    },
    close: async () => {
      await deliveries.close();
      await pinger.close();
      await Promise.all([poster.close(), pingPoster.close()]);
    },
  };
}

// Pings the dead man's switch after syncs of all kinds: a narrowed one says nothing about the others.

/**
 * @param sources names of the configured ones
 * @param owner the only source of the mirror, where each source has its own
 * @internal
 */
export function createPingObserver(
  pinger: Pinger,
  sources: () => readonly string[],
  owner: string | null = null,
): JobObserver {
  const succeeded = (source: string, mirror: Mirror): void =>
    pinger.succeeded(source, () =>
      sources().filter((other) => owner === null && other !== source && isKnownIncomplete(mirror, other)),
    );
  return {
    name: 'pings',
    loaded: ({ mirrorAccess }) => {
      // What the mirror of each says, before the success of another one is reported.
      if (owner === null || !mirrorAccess.isThere()) return;
      if (isKnownIncomplete(mirrorAccess.reader(), owner)) pinger.knownFailing(owner);
    },
    began: async ({ row: { name, source }, kinds }, { signal }) => {
      if (name !== 'sync' || source === null || kinds !== null) return;
      pinger.started(source);
      await pinger.settled(signal);
    },
    ended: async ({ row, kinds, report }, { mirrorAccess, signal }) => {
      if (row.name !== 'sync' || row.source === null || kinds !== null) return;
      const { source, outcome, error } = row;
      // The daemon was stopped, which is not a failure of the service. If it is not started again, there is no success ping.
      if (outcome === 'interrupted') return;
      if (outcome === 'done' && report?.outcome === 'complete') {
        succeeded(source, mirrorAccess.reader());
      } else {
        pinger.failed(source, `the sync ${outcomeText(outcome)}${error === null ? '' : `: ${error}`}`);
      }
      await pinger.settled(signal);
    },
    replaced: async (source, { mirrorAccess, signal }) => {
      succeeded(source, mirrorAccess.reader());
      await pinger.settled(signal);
    },
  };
}

/** Runs and jobs looked through for one that was not cut short. */
const LATEST_READ = 10;

/** Kept by the mirror, so that a restart does not forget it. False for a source of which nothing is known yet. */
function isKnownIncomplete(mirror: Mirror, source: string): boolean {
  const run = mirror.runs
    .list({ source, isOfAllKinds: true, limit: LATEST_READ })
    .find(({ outcome, errorCode }) => outcome !== 'running' && errorCode !== 'interrupted');
  const [job] = mirror.daemon
    .jobs({ name: 'sync', source, limit: LATEST_READ })
    .filter(({ outcome }) => outcome !== 'running' && outcome !== 'interrupted');
  // It failed before a run came about.
  const isJobNewer =
    job?.run === null && (run === undefined || job.startedAt > (run.finishedAt ?? run.startedAt));
  return isJobNewer || (run !== undefined && run.outcome !== 'complete');
}

// A dead man's switch: URLs that are called when a sync begins and ends, so that a monitor notices when none does. The
// calls run beside the sync, which never waits for them.

/**
 * Waits before the second and later attempts. The second one follows at once, because a ping must arrive soon. The
 * others are for short network outages: a lost success would be a false alarm, with one sync a day for a whole day.
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

interface Pinger {
  /** A sync of all kinds of a source begins. */
  started(source: string): void;
  /** Its run was complete. `others` finds the sources of which that is not so, as far as the mirror knows. */
  succeeded(source: string, others: () => readonly string[]): void;
  /** Its latest sync, of an earlier process, was not complete: nothing is called for it. */
  knownFailing(source: string): void;
  /** It ended in any other way. `why`: one line without secrets. */
  failed(source: string, why: string): void;
  /** No sync of these sources can begin: one call each. `why`: as of `failed`. */
  notBegun(missed: readonly string[], why: string): void;
  /**
   * Resolves when all calls so far have been made.
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

/** @internal */
export function createPinger({ pings, sources, poster, clock, log }: PingerOptions): Pinger {
  const closing = new AbortController();
  const stopping = new AbortController();
  let lines = new Map<PingConfig, Line>();
  /** Lines of pings that are no longer configured stay as long as they are at work. */
  const underWay = new Set<Promise<void>>();
  /** Sources whose last sync was not complete: the mirror may not know of it, where the disk is full. */
  const failing = new Set<string>();
  const current = (): readonly Line[] => {
    // A reloaded configuration has new objects.
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
      const called = linesOf(source).filter(({ ping }) => ping.success !== null);
      if (called.length === 0) return;
      const configured = sources();
      const notWhole = [...others(), ...failing].filter(
        (name) => name !== source && configured.includes(name),
      );
      for (const line of called) {
        const own = line.ping.sources;
        // One source's success must not hide another one's failure.
        if (notWhole.some((name) => own === null || own.includes(name))) continue;
        send(line, line.ping.success, `${source}: the sync was complete\n`);
      }
    },
    knownFailing: (source) => void failing.add(source),
    failed: (source, why) => {
      failing.add(source);
      for (const line of linesOf(source)) send(line, line.ping.fail, `${source}: ${why}\n`);
    },
    notBegun: (missed, why) => {
      const isMissed = ({ ping }: Line): boolean =>
        missed.some((source) => ping.sources === null || ping.sources.includes(source));
      for (const line of current().filter((each) => isMissed(each))) send(line, line.ping.fail, `${why}\n`);
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
