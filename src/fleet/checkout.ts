/** A cell in the hands of a person: its mirror and a configuration file here, and back into storage and the registry. */
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
import type { JsonValue } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { acquireWriterLock } from '../mirror/lock.ts';
import { openMirror } from '../mirror/open.ts';
import { exportRateLog, mergeRateLog } from '../mirror/rate-log.ts';
import { reportOf } from './cell-report.ts';
import { alteredRegistry } from './cell-mirror.ts';
import { storageError, storeMirror } from './cell-storage.ts';
import { cellConfigText } from './cell-work.ts';
import type { Cell, HeldGroup } from './registry/held-group.ts';
import type { Registry } from './registry/registry.ts';
import { cellConfigOf } from './secret-reference.ts';
import { cellStorage, contentsOf, knownMirror, rateLogState } from './orders.ts';

interface CheckoutOptions {
  readonly registry: Registry;
  readonly storage: TargetConfig;
  readonly clock: Clock;
  readonly pid: number;
  readonly signal: AbortSignal;
}

export const CONFIG_FILE = 'tidemark.yaml';
export const MIRROR_FILE = 'mirror.db';
/** Backups that are looked at for the newest mirror. */
const LOOKED_AT = 4;
/** While a worker is working on the cell: how often it is tried again. */
const TRY_AGAIN_MS = 2_000;

/**
 * Holds a cell for a person and fetches its mirror into a new directory, with a configuration file beside it. Where that
 * fails, the cell is given back.
 * @param waitMs how long to wait for a worker that is working on it
 * @returns the directory's files that commands need
 * @throws TidemarkError `cell_held`, `usage`, `mirror_missing` where storage lacks the newest mirror, and as storage does
 */
export async function checkOut(
  name: string,
  options: CheckoutOptions & {
    readonly holder: string;
    readonly directory: string;
    readonly identities: readonly Secret[];
    readonly waitMs: number;
    readonly isForced: boolean;
  },
): Promise<{ readonly config: string; readonly mirror: string; readonly run: number }> {
  const { registry, holder, isForced } = options;
  await requireNewDirectory(name, options);
  const held = await holdCell(name, options);
  try {
    return await fetchHere(held, options);
  } catch (error) {
    await registry.checkin(name);
    throw error;
  }

  async function holdCell(cell: string, { clock, waitMs, signal }: typeof options): Promise<HeldGroup> {
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
}

async function requireNewDirectory(
  name: string,
  { registry, directory, holder }: Parameters<typeof checkOut>[1],
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

async function fetchHere(
  held: HeldGroup,
  { storage, clock, pid, signal, directory, identities }: Parameters<typeof checkOut>[1],
): Promise<{ config: string; mirror: string; run: number }> {
  const [cell] = held.cells;
  if (cell === undefined) throw new TidemarkError('internal', 'a checkout has a cell');
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
  const run = await fetchTo(mirror, newest, { clock, pid, signal, identities });
  const config = join(directory, CONFIG_FILE);
  write(config, cellConfigText(cell.name, cellConfigOf(cell), mirror, keyOf(cell)));
  const requests = rateLogState(held.rateLog, held.rateLogAgeMs);
  if (requests !== null) mergeRateLog(mirror, requests, clock);
  return { config, mirror, run };
}

/** Returns its newest run. */
async function fetchTo(
  mirror: string,
  stored: Backup,
  {
    clock,
    pid,
    signal,
    identities,
  }: Pick<Parameters<typeof checkOut>[1], 'clock' | 'pid' | 'signal' | 'identities'>,
): Promise<number> {
  try {
    const { run } = await restoreBackup(stored, mirror, {
      identities,
      clock,
      signal,
      holder: { command: 'fleet checkout', pid, host: hostname(), since: isoTime(clock.now()) },
    });
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

/** The cell's key as a configuration file refers to it. */
function keyOf({ secret }: Cell): { apiKey: string } | { apiKeyFile: string } {
  const [form, ...rest] = secret.split(':');
  const place = rest.join(':');
  return form === 'file' ? { apiKeyFile: place } : { apiKey: `\${${place}}` };
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw asFileError(error, path, 'written');
  }
}

/**
 * Stores the mirror of a checked-out cell, publishes its runs, and gives the cell back to the workers.
 * @param config of the directory
 * @returns the newest run
 * @throws TidemarkError `cell_held` for a checkout of somebody else, `usage` for a cell that is not checked out,
 *   `mirror_locked` while a command works on the mirror, `mirror_corrupt` where it does not verify or does not continue what
 *   the registry knows, and as storage does; the cell stays checked out then
 */
export async function checkIn(
  name: string,
  options: CheckoutOptions & {
    readonly holder: string;
    readonly config: Config;
    readonly recipients: readonly string[];
    readonly log: Logger;
  },
): Promise<{ readonly run: number; readonly newRuns: number }> {
  const { registry, holder, config, recipients, storage, clock, log, pid, signal } = options;
  const held = await requireOwn(registry, name, holder);
  const [cell] = held.cells;
  if (cell === undefined) throw new TidemarkError('internal', 'a checkout has a cell');
  const lockedBy = { command: 'fleet checkin', pid, host: hostname(), since: isoTime(clock.now()) };
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
    const stored = await storeMirror(order, {
      clock,
      signal,
      log: log.child({ cell: name }),
      host: hostname(),
      pid,
    });
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
      ...(requests === null ? {} : { rateLog: requests as unknown as JsonValue }),
      dueInMs: 0,
    });
    if (published === null) {
      throw new TidemarkError(
        'cell_held',
        `${name} was taken from this checkout meanwhile: nothing was published`,
        {
          hint: 'see `tidemark fleet status`; what you did is in the mirror here',
        },
      );
    }
    await registry.checkin(name);
    return { run: stored.stored?.run ?? 0, newRuns: report.runs.length };
  } finally {
    lock.release();
  }
}

/** Gives a cell back as it was when it was checked out. @throws TidemarkError `cell_held`, `usage` */
export async function discardCheckout(
  name: string,
  { registry, holder, isForced }: Pick<CheckoutOptions, 'registry'> & { holder: string; isForced: boolean },
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

/** The mirror has to verify, and to hold the run that the registry knows. */
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
    const seal = root === null ? undefined : mirror.findSeal(root);
    if (root === null || seal?.status === 'run' || seal?.status === 'replaced') return;
    throw new TidemarkError(
      'mirror_corrupt',
      `${path} does not continue what the registry knows of ${name}: it lacks the run with the root hash ${root}`,
      { hint: `run \`tidemark fleet checkin ${name} --discard\`, then check it out again` },
    );
  } finally {
    mirror.close();
  }
}
