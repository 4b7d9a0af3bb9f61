/** `forget` as a whole: what is to go, the transaction that lets it go, and the space that it gives back. */
import { type Clock, isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/definition.ts';
import { checkpoint } from './checkpoint.ts';
import { commitInSlices } from './commit-in-slices.ts';
import { type FreeBytes, compact, fileBytes, freeBytesOf } from './compaction.ts';
import { type Connection, asMirrorError, translated } from './database.ts';
import { type ForgottenTotals, forgetSteps } from './forget.ts';
import { type RetentionPlan, type RetentionPolicy, planRetention } from './retention.ts';
import { readRuns } from './run-rows.ts';
import { readSnapshots } from './snapshots.ts';

/** What is to be kept, of which sources. */
export interface ForgetChoice {
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
  readonly untidy: TidemarkError | null;
}

/** What the mirror lends to a forget. */
interface ForgetContext {
  readonly writer: Connection;
  readonly path: string;
  readonly clock: Clock;
  /** Called when the connection is the forget's alone, and when that is over. */
  readonly onPublishing: (isPublishing: boolean) => void;
}

/** What would go; changes nothing. */
export function planForget(connection: Connection, choice: ForgetChoice): RetentionPlan {
  const { policy, sources } = choice;
  return planRetention({
    runs: readRuns(connection, {}),
    snapshots: readSnapshots(connection),
    policy,
    ...(sources === undefined ? {} : { sources }),
  });
}

/** @throws TidemarkError; then nothing was forgotten */
export async function forgetRuns(context: ForgetContext, options: ForgetOptions): Promise<ForgetResult> {
  const { writer, path, onPublishing } = context;
  const plan = translated(path, () => planForget(writer, options));
  onPublishing(true);
  try {
    const bytesBefore = fileBytes(path);
    const done = plan.forgotten.length === 0 ? null : await drop(context, options, plan);
    const untidy = await giveBack(context, options.freeBytes ?? freeBytesOf);
    return { ...plan, done, bytesBefore, bytesAfter: fileBytes(path), untidy };
  } finally {
    onPublishing(false);
  }
}

async function drop(
  { writer, path, clock }: ForgetContext,
  { policy, sources, isEqual }: ForgetOptions,
  plan: RetentionPlan,
): Promise<ForgottenTotals> {
  const facts = {
    at: isoTime(clock.now()),
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
  { writer, path }: ForgetContext,
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
