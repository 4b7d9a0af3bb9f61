/** The part of the composition root that makes clients and loggers: what talks to the service and of it. See `wire.ts`. */
import { createHash } from 'node:crypto';
import type { ConnectionOptions } from './api/connection.ts';
import { createProbeClient } from './api/probe-client.ts';
import type { ProbeClient } from './api/probe-client.ts';
import { createReadClient } from './api/read-client.ts';
import type { ReadClient } from './api/read-client.ts';
import { createWriteClient } from './api/write-client.ts';
import type { WriteClient } from './api/write-client.ts';
import type { Kind } from './catalog/definition.ts';
import type { SourceConfig } from './config/config.ts';
import { systemClock } from './core/clock.ts';
import type { Logger } from './core/logger.ts';
import type { Mirror } from './mirror/mirror.ts';

/** Names a key at an origin in the mirror's log of requests without telling the key. */
function keyFingerprint(source: SourceConfig): string {
  return createHash('sha256')
    .update(`${source.baseUrl.origin}\0${source.apiKey.reveal()}`)
    .digest('hex')
    .slice(0, 32);
}

/**
 * A client that can read and nothing else, limited by the source's rate. Without a mirror the last hour's requests of
 * other processes are not known.
 */
export function openReadClient(source: SourceConfig, log: Logger, mirror: Mirror | null): ReadClient {
  return createReadClient(connectionOptions(source, log, mirror));
}

/**
 * When the last hour's requests of this key started, as the mirror remembers: epoch milliseconds, oldest first. With a
 * kind, those that count for the limit of that name (`rate.kinds`).
 */
export function recentRequests(source: SourceConfig, mirror: Mirror, kind?: Kind): number[] {
  return mirror.rateLog(kind === undefined ? keyFingerprint(source) : kindLog(source, kind)).load();
}

/** Names the log of a limit that kinds have of their own. */
function kindLog(source: SourceConfig, kind: Kind): string {
  return `${keyFingerprint(source)} ${kind}`;
}

/** Of `doctor` and its like: a failure is soon told, and nobody waits minutes for what a service asks to wait. */
const PROBE_RETRY = { attempts: 2, maxWaitSeconds: 20 };
const PROBE_TIMEOUTS = { connectMs: 10_000, headersMs: 30_000, bodyMs: 15_000, totalMs: 45_000 };

/** A client that looks at single answers, limited like the others: it can read and nothing else. */
export function openProbeClient(source: SourceConfig, log: Logger, mirror: Mirror | null): ProbeClient {
  const { attempts, maxWaitSeconds } = source.retry;
  return createProbeClient({
    ...connectionOptions(source, log, mirror),
    timeouts: PROBE_TIMEOUTS,
    retry: {
      attempts: Math.min(attempts, PROBE_RETRY.attempts),
      maxWaitSeconds: Math.min(maxWaitSeconds, PROBE_RETRY.maxWaitSeconds),
    },
  });
}

/** The client that can write: opened by `restore --apply`, `apply` and `undo --apply`, and nowhere else. */
export function openWriteClient(source: SourceConfig, log: Logger, mirror: Mirror): WriteClient {
  return createWriteClient(connectionOptions(source, log, mirror));
}

function connectionOptions(source: SourceConfig, log: Logger, mirror: Mirror | null): ConnectionOptions {
  return {
    baseUrl: source.baseUrl,
    apiKey: source.apiKey,
    rate: source.rate,
    retry: source.retry,
    userAgent: 'tidemark',
    clock: systemClock,
    random: Math.random,
    log: log.child({ source: source.name }),
    ...(mirror === null
      ? {}
      : {
          rateLog: mirror.rateLog(keyFingerprint(source)),
          kindRateLog: (kind: Kind) => mirror.rateLog(kindLog(source, kind)),
        }),
  };
}
