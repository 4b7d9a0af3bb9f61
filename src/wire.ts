/**
 * The composition root: where configuration becomes clients, mirrors and loggers. Nothing else constructs them, so that
 * a command, the daemon and a test get the same whole.
 */
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { ConnectionOptions } from './api/connection.ts';
import { createReadClient } from './api/read-client.ts';
import type { ReadClient } from './api/read-client.ts';
import { createWriteClient } from './api/write-client.ts';
import type { WriteClient } from './api/write-client.ts';
import type { Config, SourceConfig } from './config/config.ts';
import { loadConfig } from './config/load.ts';
import { systemClock } from './core/clock.ts';
import { TidemarkError } from './core/errors.ts';
import { createLogger, silentLogger } from './core/logger.ts';
import type { Logger } from './core/logger.ts';
import type { LogLevel } from './core/logger-levels.ts';
import { suggest } from './core/suggest.ts';
import { openMirror } from './mirror/mirror.ts';
import type { Mirror } from './mirror/mirror.ts';

export interface ConfigChoice {
  readonly config?: string;
  readonly source?: readonly string[];
}

/**
 * The configuration of this call, with the sources narrowed to those asked for. Commands that only read the mirror need
 * no key: `unused` then asks for none.
 */
export function readConfig(
  surroundings: { readonly env: Readonly<Record<string, string | undefined>>; readonly cwd: string },
  choice: ConfigChoice,
  keys: 'required' | 'unused' = 'required',
): Config {
  const config = loadConfig({
    ...(choice.config === undefined ? {} : { file: choice.config }),
    env: surroundings.env,
    cwd: surroundings.cwd,
    keys,
  });
  if (choice.source === undefined) return config;
  const names = config.sources.map(({ name }) => name);
  for (const asked of choice.source) {
    if (names.includes(asked)) continue;
    const near = suggest(asked, names);
    throw new TidemarkError(
      'usage',
      `there is no source ${asked}${near === undefined ? '' : `; did you mean ${near}?`}`,
      {
        hint: `configured are: ${names.join(', ')}`,
      },
    );
  }
  return { ...config, sources: config.sources.filter(({ name }) => choice.source?.includes(name)) };
}

/** The mirror of this configuration, for reading (no lock) or for writing (the one writer). */
export function openConfiguredMirror(
  config: Config,
  mode: 'read' | 'write',
  command: string,
  pid: number,
): Mirror {
  return openMirror(config.mirror, { mode, command, clock: systemClock, host: hostname(), pid });
}

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
    ...(mirror === null ? {} : { rateLog: mirror.rateLog(keyFingerprint(source)) }),
  };
}

/** The logger of a command: silent unless a level was asked for. */
export function commandLogger(level: LogLevel | undefined, configured: LogLevel | undefined): Logger {
  const effective = level ?? configured ?? 'warn';
  return effective === 'silent' ? silentLogger : createLogger(effective);
}
