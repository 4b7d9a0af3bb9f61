/** The work on one cell, in a worker's process for cells: fetch the mirror, do what is due, store it, report. */
import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ReadClient } from '../api/read-client.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { toErrorMessage } from '../core/child-process.ts';
import type { Clock } from '../core/clock.ts';
import { asTidemarkError, type ErrorCode, TidemarkError } from '../core/errors.ts';
import { asFileError, makeDirectory } from '../core/file-errors.ts';
import type { Logger } from '../core/logger.ts';
import { startDaemon } from '../daemon/daemon.ts';
import { openMirror } from '../mirror/open.ts';
import { longWait } from '../mirror/shared-throttle.ts';
import { exportRateLog, mergeRateLog } from '../mirror/rate-log.ts';
import { warnOfRestored } from '../mirror/schema-check.ts';
import { pinBaseline } from '../state/pin-baseline.ts';
import { parseReference } from '../state/reference.ts';
import { noteLostRuns, prepareMirror } from './cell-mirror.ts';
import { reportOf } from './cell-report.ts';
import { CellNotReady, type MirrorEffects, storeMirror } from './cell-storage.ts';
import type { CellConfig, CellOrder, CellReport, CellResult } from './cell.ts';

interface CellEffects extends MirrorEffects {
  readonly random: () => number;
  /** @throws TidemarkError `config_invalid` */
  readonly loadConfig: (file: string, env: Readonly<Record<string, string>>) => Config;
  readonly openReadClient: (source: SourceConfig, log: Logger, rateLog: string) => ReadClient;
  /** As `assumeRequests`. */
  readonly assumeRequests: (
    source: SourceConfig,
    rateLog: string,
    uncounted: NonNullable<CellOrder['uncounted']>,
  ) => number;
}

/** A cell that would wait longer for its limits gives the worker's slot to other cells. */
const MOST_WAIT_MS = 5_000;
/** How long the daemon may take to stop when the work is aborted. */
const ABORT_WITHIN_MS = 2_000;
/** Errors that would occur again if the same baseline were tried again. */
const REFUSED: readonly ErrorCode[] = ['usage', 'reference_unknown', 'mirror_corrupt', 'internal'];
/** The variable with which the configuration file of a cell refers to the key. It is in the environment of no process. */
const KEY_VARIABLE = 'CELL_API_KEY';

/** Does what is due for one cell. Errors are part of the result. */
export async function workOnCell(order: CellOrder, effects: CellEffects): Promise<CellResult> {
  const { clock, signal } = effects;
  const begun = clock.now();
  const requests = () => exportRateLog(order.rateLog, clock);
  try {
    const config = readCellConfig(order, effects);
    const source = config.sources[0];
    if (source === undefined) throw new TidemarkError('internal', 'a cell has one source');
    const waitMs = countRequests(order, source, effects);
    if (waitMs > MOST_WAIT_MS) return { status: 'waits', ms: waitMs, why: null, requests: requests() };
    const wait = waitOf(order, source, clock, MOST_WAIT_MS);
    if (wait !== null) return { status: 'waits', ...wait, requests: requests() };
    const chain = await prepareMirror(order, config.mirror, effects);
    noteLostRuns(order, source, effects);
    const baselineError = setBaseline(order, config, effects);
    await doWhatIsDue(config, order, effects);
    // The mirror keeps what was done: the next work on the cell reports it.
    if (signal.aborted)
      throw new CellNotReady('left', new TidemarkError('interrupted', 'the work was stopped'));
    // A new baseline is stored even if there is no new run.
    const isSet = order.baseline !== null && baselineError === null;
    const storage = await storeMirror(isSet ? { ...order, known: null } : order, effects);
    const report = await reportOf({ order, config, clock, begun, signal });
    const waits = waitAfter(order, report, source, clock);
    return {
      status: 'worked',
      report: {
        ...{ chain, baselineError, ...report, storage },
        ...(waits === null ? {} : { waits }),
        requests: requests(),
      },
    };
  } catch (thrown) {
    if (!(thrown instanceof CellNotReady)) return { status: 'failed', error: toErrorMessage(thrown) };
    const { status, error, isOfStorage } = thrown;
    return { status, error: toErrorMessage(error), isOfStorage };
  }
}

/** The text of the configuration file of a cell: JSON, which is valid YAML. */
export function cellConfigText(
  cell: string,
  config: CellConfig,
  mirror: string,
  key: { readonly apiKey: string } | { readonly apiKeyFile: string },
): string {
  const { source, schedules, retention, drift } = config;
  const document = {
    mirror,
    sources: [{ ...source, name: cell, ...key }],
    schedules,
    ...(retention === undefined ? {} : { retention }),
    ...(drift === undefined ? {} : { drift }),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** Writes the configuration file of a cell, without its key, and loads it with the key. */
function readCellConfig(
  { cell, config, mirror, configFile, secret }: CellOrder,
  effects: CellEffects,
): Config {
  try {
    makeDirectory(dirname(mirror));
    writeFileSync(configFile, cellConfigText(cell, config, mirror, { apiKey: `\${${KEY_VARIABLE}}` }), {
      mode: 0o600,
    });
  } catch (error) {
    throw asFileError(error, configFile, 'written');
  }
  return effects.loadConfig(configFile, { [KEY_VARIABLE]: secret });
}

/** How long requests with the key would wait, and what to do about it; null if that is no longer than `mostWaitMs`. */
function waitOf(
  { rateLog }: CellOrder,
  source: SourceConfig,
  clock: Clock,
  mostWaitMs: number,
): { readonly ms: number; readonly why: string } | null {
  const wait = longWait(source, { beside: rateLog, clock, mostWaitMs });
  if (wait === null) return null;
  const change = wait.isAsked ? 'if it repeats, set rate.perMinute lower' : 'raise it';
  const why = `${wait.what}: ${change}, sync less often, or give cells keys of their own`;
  return { ms: wait.freeAt - clock.now(), why };
}

/** The wait after a run that met a limit; null if it met none. */
function waitAfter(
  order: CellOrder,
  { error, runs, dueAt }: Pick<CellReport, 'error' | 'runs' | 'dueAt'>,
  source: SourceConfig,
  clock: Clock,
): NonNullable<CellReport['waits']> | null {
  if (error !== null) return error.code === 'throttled' ? waitOf(order, source, clock, 0) : null;
  if (runs.at(-1)?.outcome !== 'partial') return null;
  const wait = waitOf(order, source, clock, MOST_WAIT_MS);
  // A wait that is over before the cell is due delays nothing.
  return wait === null || clock.now() + wait.ms <= Date.parse(dueAt ?? '') ? null : wait;
}

/**
 * Adds the requests of the previous holder to the log of the rate group, and those that a holder that vanished may have
 * sent.
 * @returns how long the latter leave no request, in milliseconds
 */
function countRequests(
  { rateLog, requests, uncounted }: CellOrder,
  source: SourceConfig,
  effects: CellEffects,
): number {
  const { clock } = effects;
  if (requests !== null) mergeRateLog(rateLog, requests, clock);
  if (uncounted === null) return 0;
  const until = Math.min(uncounted.until, clock.now());
  const freeAt = effects.assumeRequests(source, rateLog, { ...uncounted, until });
  return Math.max(0, freeAt - clock.now());
}

/**
 * Sets the baseline that was asked for.
 * @returns why the mirror refuses it, for example because another program altered its baseline: the cell is synced
 * nevertheless. Null if it was set, or none was asked for
 * @throws TidemarkError for errors that may pass, such as a full disk: the baseline stays pending
 */
function setBaseline(
  { cell, baseline }: CellOrder,
  config: Config,
  { clock, host, pid }: CellEffects,
): string | null {
  if (baseline === null) return null;
  const { name, run, time, by } = baseline;
  const actor = { by, via: `fleet baseline on ${host}` };
  try {
    const mirror = openMirror(config.mirror, {
      ...{ mode: 'write', command: 'fleet', clock, host, pid, actor, secrets: config.knownSecrets },
    });
    try {
      const reference = parseReference(time ?? `run:${run}`, clock.now());
      pinBaseline(mirror, name, { reference, isExact: time !== null, source: cell });
      return null;
    } finally {
      mirror.close();
    }
  } catch (thrown) {
    const { code, message } = asTidemarkError(thrown);
    if (!REFUSED.includes(code)) throw thrown;
    return message;
  }
}

/** Does what is due by the cell's schedules, with a daemon that runs once and starts no processes. */
async function doWhatIsDue(config: Config, order: CellOrder, effects: CellEffects): Promise<void> {
  const { clock, random, log, host, pid, signal } = effects;
  const { mirror, ...common } = config;
  const loaded = {
    ...common,
    mirrorPath: mirror,
    daemon: { ...common.daemon, shutdownGraceMs: ABORT_WITHIN_MS },
  };
  const daemon = await startDaemon(
    {
      clock,
      random,
      log,
      loadConfig: () => loaded,
      openMirror: (_config, mode, command, actor) => {
        const who = actor === undefined ? {} : { actor };
        return warnOfRestored(openMirror(config.mirror, { mode, command, clock, host, pid, ...who }), log);
      },
      openReadClient: (source, sourceLog) => effects.openReadClient(source, sourceLog, order.rateLog),
      env: {},
      host,
      pid,
    },
    { isOnce: true, isOfFleet: true, startHttp: null, observers: () => [], backup: null },
  );
  const stop = (): void => void daemon.stop();
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  try {
    await daemon.done;
    // Work that does not stop must not continue into the next cell: this never returns, so that the worker kills the
    // process.
    if (daemon.hasLeftWork()) await new Promise(() => undefined);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
