/** The daemon's observers that send notices and pings, over real sockets, mail servers and processes. */
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
  /** Absolute path of the configuration file, if the command line named one. */
  readonly configFile?: string | undefined;
}

interface NoticeService {
  /** The observers of the jobs of one mirror. */
  readonly observersOf: (mirror: ObservedMirror) => readonly JobObserver[];
  /** Reports that the daemon could not start. */
  startFailed(failed: FailedStart): Promise<void>;
  /** To be called after the daemon's end: closes all sockets. */
  close(): Promise<void>;
}

/** Short, because the next run pings again soon. */
const PING_TIMEOUTS = { connectMs: 3_000, headersMs: 5_000, bodyMs: 2_000, totalMs: 8_000 };

/** Notices and pings, as configured. */
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

/**
 * Pings after syncs of all kinds: one of some kinds says nothing about the others.
 * @param sources names of the configured ones
 * @param owner with a mirror per source, the source of the mirror
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
      // Before the success of another source is reported, each mirror says whether its source is incomplete.
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
      // The daemon was stopped, which is not a failure. If it is not started again, the success pings stop.
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

/** The number of latest runs and jobs that are searched for one that was not interrupted. */
const LATEST_READ = 10;

/** True if, by the mirror, the last sync of the source was not complete. False if nothing is known of it yet. */
function isKnownIncomplete(mirror: Mirror, source: string): boolean {
  const run = mirror.runs
    .list({ source, isOfAllKinds: true, limit: LATEST_READ })
    .find(({ outcome, errorCode }) => outcome !== 'running' && errorCode !== 'interrupted');
  const [job] = mirror.daemon
    .jobs({ name: 'sync', source, limit: LATEST_READ })
    .filter(({ outcome }) => outcome !== 'running' && outcome !== 'interrupted');
  // The job failed before it had a run.
  const isJobNewer =
    job?.run === null && (run === undefined || job.startedAt > (run.finishedAt ?? run.startedAt));
  return isJobNewer || (run !== undefined && run.outcome !== 'complete');
}

// A dead man's switch: URLs that are called when a sync begins and ends, so that a monitor notices if none does. A sync never waits for
// these calls.

/**
 * Waits before the second and later attempts. The second one follows at once, because a ping must arrive soon. The others are for short
 * network outages: if a success is lost, the monitor raises a false alarm, with one sync a day for a whole day.
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
  /** Its run was complete. @param others finds the sources whose last sync was not complete, as far as the mirror knows */
  succeeded(source: string, others: () => readonly string[]): void;
  /** Its last sync, by an earlier process, was not complete: nothing is called. */
  knownFailing(source: string): void;
  /** Its sync failed or was not complete. @param why one line without secrets */
  failed(source: string, why: string): void;
  /** No sync of these sources can begin. @param why as in `failed` */
  notBegun(missed: readonly string[], why: string): void;
  /**
   * Resolves when all calls so far have been made.
   * @param stop aborted when the daemon stops: what still waits for another attempt is given up then
   */
  settled(stop: AbortSignal): Promise<void>;
  /** Aborts all calls. */
  close(): Promise<void>;
}

interface Line {
  readonly ping: PingConfig;
  /** The last call. Calls are made in their order: a success must not overtake its start. */
  last: Promise<void>;
  /** Aborted by the next call: a call that waits for another attempt is outdated then. */
  newer: AbortController;
}

/** @internal */
export function createPinger({ pings, sources, poster, clock, log }: PingerOptions): Pinger {
  const closing = new AbortController();
  const stopping = new AbortController();
  let lines = new Map<PingConfig, Line>();
  /** All calls under way, also of pings that are no longer configured. */
  const underWay = new Set<Promise<void>>();
  /** Sources whose last sync was not complete: if the disk is full, the mirror does not know of it. */
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

/** False if the signal came first. */
async function waited(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}
