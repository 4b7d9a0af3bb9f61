/** `forget` as a whole: what to drop, the transaction that drops it, and returning the disk space. */
import { statSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Kind } from '../catalog/kinds.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { sqliteTemporaryPlace } from '../core/temporary-place.ts';
import type { WriterContext } from './access.ts';
import { type Connection, asMirrorError, translated } from './database.ts';
import { inWorker, performTaskNow } from './file-task.ts';
import { checkChain, type ForgottenTotals, forgetSteps } from './forget.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { type RetentionPlan, planRetention } from './retention.ts';
import { readRuns } from './run-rows.ts';
import { readSnapshots } from './snapshots.ts';
import { checkpoint, logBytes } from './write-ahead-log.ts';

/** What is to be kept, of which sources. */
interface ForgetChoice {
  readonly policy: RetentionPolicy;
  /** Names of sources; all where it is missing. */
  readonly sources?: readonly string[];
}

export interface ForgetOptions extends ForgetChoice {
  /** The one comparison: true when two bodies of a kind of that source are equal by value. */
  readonly isEqual: (source: string, kind: Kind, oldText: string, newText: string) => boolean;
  /** Free bytes of a directory's file system; the system is asked unless a test says otherwise. */
  readonly freeBytes?: FreeBytes;
}

export interface ForgetResult extends RetentionPlan {
  /** Null where there was nothing to forget. */
  readonly done: ForgottenTotals | null;
  /** Bytes of the mirror on disk, its log included. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Why the space did not return (the disk is too full to rebuild the file): what was forgotten is forgotten. */
  readonly cleanupError: TidemarkError | null;
}

/** What would go; changes nothing. @throws TidemarkError where `forgetRuns` would refuse */
export function previewForget(connection: Connection, choice: ForgetChoice): RetentionPlan {
  const plan = planForget(connection, choice);
  const checks = plan.forgotten.length === 0 ? null : checkChain(connection);
  while (checks?.next().done === false);
  return plan;
}

function planForget(connection: Connection, choice: ForgetChoice): RetentionPlan {
  const { policy, sources } = choice;
  return planRetention({
    runs: readRuns(connection, {}),
    snapshots: readSnapshots(connection),
    policy,
    ...(sources === undefined ? {} : { sources }),
  });
}

/** @throws TidemarkError; then nothing was forgotten */
export async function forgetRuns(context: WriterContext, options: ForgetOptions): Promise<ForgetResult> {
  const { writer, path, onPublishing } = context;
  const plan = translated(path, () => planForget(writer, options));
  onPublishing(true);
  try {
    const bytesBefore = fileBytes(path);
    const done = plan.forgotten.length === 0 ? null : await drop(context, options, plan);
    const cleanupError = await giveBack(context, options.freeBytes ?? freeBytesOf);
    return { ...plan, done, bytesBefore, bytesAfter: fileBytes(path), cleanupError };
  } finally {
    onPublishing(false);
  }
}

async function drop(
  { writer, path, clock, actor }: WriterContext,
  { policy, sources, isEqual }: ForgetOptions,
  plan: RetentionPlan,
): Promise<ForgottenTotals> {
  const facts = {
    at: isoTime(clock.now()),
    actor,
    policy,
    sources: [...new Set([...plan.kept, ...plan.forgotten].map(({ source }) => source))].filter(
      (source) => sources?.includes(source) ?? true,
    ),
    plan,
    isEqual,
  };
  try {
    return await commitInSlices(writer, () => forgetSteps(writer, facts));
  } catch (error) {
    throw asMirrorError(error, path);
  }
}

async function giveBack(
  { writer, path }: WriterContext,
  freeBytes: FreeBytes,
): Promise<TidemarkError | null> {
  try {
    await checkpoint(writer, path);
    await compact(writer, path, freeBytes);
    return null;
  } catch (error) {
    const known = asMirrorError(error, path);
    if (known instanceof TidemarkError) return known;
    throw known;
  }
}

// Returns disk space after a forget. VACUUM in place is safe with readers, which continue with the old state in file
// and log. A rebuilt copy renamed over the file would leave them, and the log, with a file that no longer exists.

/** Below this share of free pages rebuilding the file is not worth it: the next runs fill them. */
const FREE_SHARE = 0.02;

/** Up to this size, rebuilding takes some 30 ms: less than starting a worker thread. */
const INLINE_LIMIT_BYTES = 2 * 1024 * 1024;

/** Free bytes where `path` is; replaced by tests. */
type FreeBytes = (path: string) => number;

const freeBytesOf: FreeBytes = (path) => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

/**
 * Rebuilds the file without its free pages; a large one in a worker thread. A reader that is open meanwhile delays the shrinking
 * until the log is emptied next.
 * @throws TidemarkError `disk_full` before anything is written, where the rebuilding would not fit; and what SQLite throws
 */
async function compact(writer: Connection, path: string, freeBytes: FreeBytes): Promise<void> {
  const pragma = (name: string): number => writer.pragma(name, { simple: true }) as number;
  const pages = pragma('page_count');
  const free = pragma('freelist_count');
  if (free === 0 || free < pages * FREE_SHARE) return;
  const bytes = (pages - free) * pragma('page_size');
  checkRoom(bytes, path, freeBytes);
  if (bytes <= INLINE_LIMIT_BYTES) performTaskNow(writer, 'vacuum');
  else await inWorker(path, 'vacuum');
}

/** SQLite builds the new file in the temporary directory, then writes it into the log, and from there into the file. */
function checkRoom(bytes: number, path: string, freeBytes: FreeBytes): void {
  const directory = dirname(path);
  const temporary = sqliteTemporaryPlace();
  const isShared = statSync(directory).dev === statSync(temporary).dev;
  const needs: readonly (readonly [directory: string, bytes: number])[] = isShared
    ? [[directory, bytes * 2]]
    : [
        [directory, bytes],
        [temporary, bytes],
      ];
  for (const [where, needed] of needs) {
    const found = freeBytes(where);
    if (found >= needed) continue;
    throw new TidemarkError(
      'disk_full',
      `${path} was not made smaller: that needs ${megabytes(needed)} free in ${where}, where ${megabytes(found)} are`,
      {
        hint: 'what was to be forgotten is forgotten, and its space is used again; free some and run `tidemark forget` again to get it back',
      },
    );
  }
}

/** Bytes of the mirror on disk: its file and its log. */
function fileBytes(path: string): number {
  return statSync(path).size + logBytes(path);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

// A long transaction that leaves the event loop free between its slices.

/**
 * One BEGIN IMMEDIATE … COMMIT around the steps; whatever they throw undoes all of them. Nobody else may use the
 * connection meanwhile.
 */
export async function commitInSlices<T>(
  writer: Connection,
  begin: () => Generator<undefined, T>,
): Promise<T> {
  writer.exec('BEGIN IMMEDIATE');
  try {
    const steps = begin();
    let step = steps.next();
    while (step.done !== true) {
      await nextTurn();
      step = steps.next();
    }
    writer.exec('COMMIT');
    return step.value;
  } catch (error) {
    if (writer.inTransaction) writer.exec('ROLLBACK');
    throw error;
  }
}
