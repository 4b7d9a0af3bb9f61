/** `forget`: plans what to drop, drops it in one transaction, and rebuilds the file without it. */
import { statSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Kind } from '../catalog/kinds.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { sqliteTemporaryPlace } from '../core/temporary-place.ts';
import type { WriterContext } from './access.ts';
import { type Connection, asMirrorError, translated, transact } from './database.ts';
import { inWorker, performTaskNow } from './file-task.ts';
import { checkChain, type ForgottenTotals, forgetSteps } from './forget-runs.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { type RetentionPlan, planRetention } from './retention.ts';
import { isReplicated } from './migrations.ts';
import { readRuns } from './run-rows.ts';
import { readSnapshots } from './snapshots.ts';
import { drain } from './verify-chain.ts';
import { checkpoint, checkpointNow, logBytes } from './write-ahead-log.ts';

/** What is to be kept, and of which sources. */
interface ForgetChoice {
  readonly policy: RetentionPolicy;
  /** Names of sources; by default all. */
  readonly sources?: readonly string[];
}

export interface ForgetOptions extends ForgetChoice {
  /** The one comparison: true if two bodies of a kind of that source are equal by value. */
  readonly isEqual: (source: string, kind: Kind, oldText: string, newText: string) => boolean;
  /** Free bytes of a directory's file system; replaced by tests. */
  readonly freeBytes?: FreeBytes;
}

export interface ForgetResult extends RetentionPlan {
  /** Null if there was nothing to forget. */
  readonly done: ForgottenTotals | null;
  /** Bytes of the mirror on disk, its log included. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Why the file or its log may still have the bytes of what was dropped, although no row has it. */
  readonly cleanupError: TidemarkError | null;
}

/** The plan, without carrying it out. @throws TidemarkError if `forgetRuns` would throw */
export function previewForget(connection: Connection, choice: ForgetChoice): RetentionPlan {
  const plan = planForget(connection, choice);
  if (plan.forgotten.length > 0) drain(checkChain(connection));
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

/** Forgets runs, and rebuilds the file. @throws TidemarkError; then nothing was forgotten */
export async function forgetRuns(context: WriterContext, options: ForgetOptions): Promise<ForgetResult> {
  const { writer, path, onPublishing } = context;
  const plan = translated(path, () => planForget(writer, options));
  onPublishing(true);
  try {
    const bytesBefore = fileBytes(path);
    const done = plan.forgotten.length === 0 ? null : await drop(context, options, plan);
    // Only if necessary: rebuilding writes the entire file twice, and Litestream uploads it again.
    const cleanupError = isRebuilt(writer) ? null : await cleanUp(context, options.freeBytes ?? freeBytesOf);
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

async function cleanUp({ writer, path }: WriterContext, freeBytes: FreeBytes): Promise<TidemarkError | null> {
  try {
    await checkpoint(writer, path);
    await rebuild(writer, path, freeBytes);
    // Readers that delayed the checkpoint of a small file mostly end soon: the worker waits for them.
    if (isLogLeft(writer, path)) await inWorker(path, 'checkpoint');
    if (isLogLeft(writer, path)) return logLeft(path);
    noteRebuilt(writer);
    checkpointNow(writer);
    return null;
  } catch (error) {
    const known = asMirrorError(error, path);
    if (known instanceof TidemarkError) return known;
    throw known;
  }
}

// The last forget after which the file was rebuilt is stored in `sqlite_sequence`, SQLite's table of the last row numbers: no schema
// or seal covers it, applications may write to it, and backups and replicas of the file have it.

const REBUILT_AFTER = 'forgets_rebuilt';

/** False if a forget happened since the file was last rebuilt, perhaps in a process that died before it could. */
function isRebuilt(connection: Connection): boolean {
  const isLeft = connection
    .prepare<[string], number>(
      `SELECT ifnull((SELECT max(forget) FROM forgets), 0) > ifnull((SELECT max(seq) FROM sqlite_sequence WHERE name = ?), 0)`,
    )
    .pluck()
    .get(REBUILT_AFTER);
  return isLeft === 0;
}

function noteRebuilt(writer: Connection): void {
  transact(writer, () => {
    writer.prepare(`DELETE FROM sqlite_sequence WHERE name = ?`).run(REBUILT_AFTER);
    writer
      .prepare(`INSERT INTO sqlite_sequence (name, seq) SELECT ?, max(forget) FROM forgets`)
      .run(REBUILT_AFTER);
  });
}

/** True if the log could not be emptied; a log that Litestream reads is left to it. */
function isLogLeft(writer: Connection, path: string): boolean {
  return logBytes(path) > 0 && !isReplicated(writer);
}

function logLeft(path: string): TidemarkError {
  return new TidemarkError(
    'mirror_locked',
    `another program is reading ${path}: until it ends, the file and its log (-wal) may still have bytes of what was forgotten`,
    {
      hint: 'no command shows them; the next sync removes them, or `tidemark forget` once more',
      isRetryable: true,
    },
  );
}

// SQLite leaves the bytes of deleted and replaced rows, also from earlier syncs, in free pages and unused parts of pages: only a
// rebuilt file has none. VACUUM in place is safe for readers, which continue with the old state in file and log. Renaming a rebuilt
// copy over the file would leave readers and log with a file that no longer exists.

/** Up to this size rebuilding takes some 30 ms: less than starting a worker thread. */
const INLINE_LIMIT_BYTES = 2 * 1024 * 1024;

/** Free bytes of the file system of a path. */
type FreeBytes = (path: string) => number;

const freeBytesOf: FreeBytes = (path) => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

/**
 * Rebuilds the file from its rows; a large one in a worker thread.
 * @throws TidemarkError `disk_full`, before anything is written, if there is not enough room; and SQLite's errors
 */
async function rebuild(writer: Connection, path: string, freeBytes: FreeBytes): Promise<void> {
  const pragma = (name: string): number => writer.pragma(name, { simple: true }) as number;
  const bytes = (pragma('page_count') - pragma('freelist_count')) * pragma('page_size');
  checkRoom(bytes, path, freeBytes);
  if (bytes <= INLINE_LIMIT_BYTES) performTaskNow(writer, 'vacuum');
  else await inWorker(path, 'vacuum');
}

/** SQLite builds the new file in the temporary directory, writes it to the log, and from there to the file. */
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
      `${path} was not rebuilt: that needs ${megabytes(needed)} free in ${where}, where ${megabytes(found)} are`,
      {
        hint: 'no command shows what was forgotten, but the file may still have bytes of it; free space and run `tidemark forget` again',
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

/**
 * Runs the steps in one transaction that yields to the event loop between them; an error undoes all of them. Nobody else may use the
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
