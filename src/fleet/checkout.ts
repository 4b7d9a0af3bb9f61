/** Checks out a cell for a person, with its mirror and a configuration file, and returns it to storage and the registry. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Backup, listNewestFenced } from '../backup/list.ts';
import { restoreBackup } from '../backup/opened-backup.ts';
import { openTarget } from '../backup/targets/open.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { fromErrorMessage } from '../core/child-process.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { CELL_MIRROR_HINT, shellWord } from '../core/hints.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { acquireWriterLock } from '../mirror/lock.ts';
import { openMirror } from '../mirror/open.ts';
import { exportRateLog, mergeRateLog } from '../mirror/rate-log.ts';
import { reportOf } from './cell-report.ts';
import { alteredRegistry, hasRoot } from './cell-mirror.ts';
import { LOOKED_AT, storageError, storeMirror } from './cell-storage.ts';
import { cellConfigText } from './cell-work.ts';
import { cellConfigOf, cellStorage, contentsOf, knownMirror, rateLogState, storedRateLog } from './orders.ts';
import type { Cell, HeldGroup } from './registry/held-group.ts';
import type { Registry } from './registry/registry.ts';
import { keyOptions } from './secret-reference.ts';

interface CommonOptions {
  readonly registry: Registry;
  readonly storage: TargetConfig;
  readonly holder: string;
  readonly clock: Clock;
  readonly pid: number;
  readonly signal: AbortSignal;
}

interface CheckoutOptions extends CommonOptions {
  readonly directory: string;
  readonly identities: readonly Secret[];
  /** How long to wait for a worker that is working on the cell. */
  readonly waitMs: number;
  readonly isForced: boolean;
}

/** The files of a checkout. */
interface Checkout {
  readonly config: string;
  readonly mirror: string;
  readonly run: number;
}

export const CONFIG_FILE = 'tidemark.yaml';
export const MIRROR_FILE = 'mirror.db';
/** How often it is tried again while a worker is working on the cell. */
const TRY_AGAIN_MS = 2_000;

/**
 * Holds a cell for a person and fetches its mirror into a new directory, with a configuration file beside it. If that
 * fails, the cell is given back.
 * @throws TidemarkError `cell_held`, `usage`, `mirror_missing` if storage lacks the newest mirror, and as storage does
 */
export async function checkOut(name: string, options: CheckoutOptions): Promise<Checkout> {
  await requireNewDirectory(name, options);
  const held = await holdCell(name, options);
  try {
    return await fetchHere(held, options);
  } catch (error) {
    await options.registry.checkin(name);
    throw error;
  }
}

async function holdCell(
  cell: string,
  { registry, holder, isForced, clock, waitMs, signal }: CheckoutOptions,
): Promise<HeldGroup> {
  const until = clock.monotonicMs() + waitMs;
  for (;;) {
    try {
      return await registry.checkout(cell, holder, { isForced });
    } catch (error) {
      const mayWait = error instanceof TidemarkError && error.code === 'cell_held' && error.isRetryable;
      if (!mayWait || clock.monotonicMs() >= until) throw error;
    }
    await clock.sleep(TRY_AGAIN_MS, signal);
  }
}

async function requireNewDirectory(
  name: string,
  { registry, directory, holder }: CheckoutOptions,
): Promise<void> {
  if (!existsSync(directory) || readdirSync(directory).length === 0) return;
  const [cell] = await registry.overview({ cells: [name] });
  if (cell?.checkoutHolder === holder && existsSync(join(directory, CONFIG_FILE))) {
    throw new TidemarkError('cell_held', `you have ${name} already, in ${directory}`, {
      hint: `\`tidemark fleet checkin ${name} --directory ${shellWord(directory)}\` gives it back`,
    });
  }
  throw new TidemarkError('usage', `${directory} is there already, and not empty`, {
    hint: 'choose another one with --directory, or move it away',
  });
}

/** The one cell of a checkout. */
function cellOf({ cells: [cell] }: HeldGroup): Cell {
  if (cell === undefined) throw new TidemarkError('internal', 'a checkout has a cell');
  return cell;
}

async function fetchHere(held: HeldGroup, options: CheckoutOptions): Promise<Checkout> {
  const { storage, clock, directory } = options;
  const cell = cellOf(held);
  if (cell.root === null) {
    throw new TidemarkError('mirror_missing', `no run of ${cell.name} was published yet`, {
      hint: `see \`tidemark fleet status\` for what keeps it from its first run`,
    });
  }
  const missing = storage.type === 'directory' ? storageError(storage.path, cell.storedKey !== null) : null;
  if (missing !== null) throw missing;
  const target = await openTarget(cellStorage(storage, cell.name), clock);
  const backups = await listNewestFenced(target, LOOKED_AT, cell.storedKey);
  const stored = backups.find(({ name }) => name === cell.storedKey)?.manifest;
  const newest =
    backups.find((each) => each.name === cell.storedKey && each.manifest?.root === cell.root) ??
    backups.find(({ manifest }) => manifest?.root === cell.root);
  if (newest === undefined) {
    if (cell.lastRun !== null && (stored?.run ?? 0) >= cell.lastRun)
      throw alteredRegistry(cell.name, cell.lastRun, cell.root);
    throw new TidemarkError('mirror_missing', `${target.address} lacks the newest mirror of ${cell.name}`, {
      hint: `the worker that has it stores it with its next run; then run the command again. If it does not: ${CELL_MIRROR_HINT}`,
      isRetryable: true,
    });
  }
  const mirror = join(directory, MIRROR_FILE);
  const run = await fetchTo(mirror, newest, options);
  const config = join(directory, CONFIG_FILE);
  const text = cellConfigText(cell.name, cellConfigOf(cell), mirror, keyOptions(cell.secret));
  try {
    writeFileSync(config, text, { mode: 0o600 });
  } catch (error) {
    throw asFileError(error, config, 'written');
  }
  const requests = rateLogState(held.rateLog, held.rateLogAgeMs);
  if (requests !== null) mergeRateLog(mirror, requests, clock);
  return { config, mirror, run };
}

/** Restores the backup. Returns its newest run. */
async function fetchTo(
  mirror: string,
  stored: Backup,
  { clock, pid, signal, identities }: CheckoutOptions,
): Promise<number> {
  const holder = { command: 'fleet checkout', pid, host: hostname(), since: isoTime(clock.now()) };
  try {
    const { run } = await restoreBackup(stored, mirror, { identities, clock, signal, holder });
    return run;
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    if (error.code !== 'mirror_corrupt') throw error;
    throw new TidemarkError(error.code, error.message, {
      hint: `keep a copy as evidence; ${CELL_MIRROR_HINT}`,
      cause: thrown,
    });
  }
}

/**
 * Stores the mirror of a checked-out cell, publishes its runs, and gives the cell back to the workers.
 * @param options.config of the directory of the checkout
 * @returns the newest run
 * @throws TidemarkError `cell_held` for a checkout of somebody else, `usage` for a cell that is not checked out,
 * `mirror_locked` while a command works on the mirror, `mirror_corrupt` if it does not verify or does not continue what
 * the registry knows, and as storage does; then the cell stays checked out
 */
export async function checkIn(
  name: string,
  options: CommonOptions & {
    readonly config: Config;
    readonly recipients: readonly string[];
    readonly log: Logger;
  },
): Promise<{ readonly run: number; readonly newRuns: number }> {
  const { registry, holder, config, recipients, storage, clock, log, pid, signal } = options;
  const held = await requireOwn(registry, name, holder);
  const cell = cellOf(held);
  const host = hostname();
  const lockedBy = { command: 'fleet checkin', pid, host, since: isoTime(clock.now()) };
  // A command that writes the mirror has to end first.
  const lock = acquireWriterLock(config.mirror, lockedBy);
  try {
    await requireContinuation(cell, config.mirror, clock);
    const order = {
      cell: name,
      known: null,
      fence: held.fence,
      storage: cellStorage(storage, name),
      storageAway: null,
      recipients,
      mirror: config.mirror,
    };
    const stored = await storeMirror(order, { clock, signal, log: log.child({ cell: name }), host, pid });
    if (stored.error !== null) throw fromErrorMessage(stored.error);
    const report = await reportOf({
      order: { cell: name, known: knownMirror(cell), showsValues: cell.showsValues },
      config,
      clock,
      begun: clock.now(),
      signal,
    });
    const requests = exportRateLog(config.rateLogBeside, clock);
    const published = await registry.publish({
      cell: cell.id,
      configuredAt: cell.changedAt,
      group: held.group,
      fence: held.fence,
      worker: holder,
      baselineOrder: cell.baselineOrder,
      baselineDone: null,
      ...contentsOf(cell, {
        ...report,
        baselineError: null,
        chain: 'ahead',
        storage: stored,
        requests,
      }),
      rateLog: storedRateLog(requests),
      dueInMs: 0,
    });
    if (published === null) {
      throw new TidemarkError(
        'cell_held',
        `${name} was taken from this checkout meanwhile: nothing was published`,
        { hint: 'see `tidemark fleet status`; what you did is in the mirror here' },
      );
    }
    await registry.checkin(name);
    return { run: stored.stored?.run ?? 0, newRuns: report.runs.length };
  } finally {
    lock.release();
  }
}

/** Gives a cell back without the changes of the checkout. @throws TidemarkError `cell_held`, `usage` */
export async function discardCheckout(
  name: string,
  { registry, holder, isForced }: Pick<CheckoutOptions, 'registry' | 'holder' | 'isForced'>,
): Promise<void> {
  if (!isForced) await requireOwn(registry, name, holder);
  await registry.checkin(name);
}

async function requireOwn(registry: Registry, name: string, holder: string): Promise<HeldGroup> {
  const held = await registry.checkedOut(name);
  if (held.holder === holder) return held;
  throw new TidemarkError('cell_held', `${name} is checked out by ${held.holder}`, {
    hint: `they run \`tidemark fleet checkin ${name}\`; \`--discard --force\` drops what they did`,
  });
}

/** Checks that the mirror verifies, and has the run that the registry knows. */
async function requireContinuation({ name, root }: Cell, path: string, clock: Clock): Promise<void> {
  const mirror = openMirror(path, { mode: 'read', command: 'verify', clock });
  try {
    const { problems } = await mirror.verify();
    const [first] = problems;
    if (first !== undefined) {
      throw new TidemarkError('mirror_corrupt', `${path} does not verify: ${first.message}`, {
        hint: `run \`tidemark fleet checkin ${name} --discard\`, which drops what was done here`,
      });
    }
    if (root === null || hasRoot(mirror, root)) return;
    throw new TidemarkError(
      'mirror_corrupt',
      `${path} does not continue what the registry knows of ${name}: it lacks the run with the root hash ${root}`,
      { hint: `run \`tidemark fleet checkin ${name} --discard\`, then check it out again` },
    );
  } finally {
    mirror.close();
  }
}
