/** One record as of a run: what a point-in-time `show` reads. */
import type { Connection } from './database.ts';
import {
  type HistoryHead,
  type HistoryReader,
  type StoredRevision,
  prepareHeads,
  prepareHistory,
} from './history.ts';
import { type RecordRow, prepareTimes } from './records.ts';

/** A run, and when it ended (ISO 8601). */
export interface RunTime {
  readonly run: number;
  readonly at: string;
}

/** What the mirror knew of a record as of a run. */
export interface RecordAsOf {
  /** The body that it had; of a removed record the last one. */
  readonly body: string;
  /** The run that brought its content. */
  readonly changed: RunTime;
  /** The run that brought this text of it: later where the service only wrote the same in another way. */
  readonly written: RunTime;
  /** The run that found it gone; null while it was there. */
  readonly removed: RunTime | null;
  /** The run that saw it first. */
  readonly first: RunTime;
}

/**
 * Its body after that run was published; undefined where it was not there. Two look-ups by key and at most 64 deltas,
 * however many records the mirror holds and however often this one changed.
 * @throws TidemarkError `mirror_corrupt` when its history is broken
 */
export function readRecordAt(
  connection: Connection,
  row: Pick<RecordRow, 'kind' | 'record'>,
  run: number,
): string | undefined {
  const head = prepareHeads(connection, row.kind)(row.record);
  return head === undefined ? undefined : prepareHistory(connection).textAt(head, run)?.text;
}

/** The same with its dates, and of removed records too; undefined where it had not been seen yet. Costs as little. */
export function readRecordAsOf(
  connection: Connection,
  row: Pick<RecordRow, 'kind' | 'record'>,
  run: number,
): RecordAsOf | undefined {
  const head = prepareHeads(connection, row.kind)(row.record);
  if (head === undefined) return undefined;
  const history = prepareHistory(connection);
  const newest = history.revisionAt(head, run);
  if (newest === undefined) return undefined;
  const isRemoved = newest.change === 'removed';
  const present = isRemoved ? history.revisionAt(head, newest.previous ?? 0) : newest;
  if (present === undefined) return undefined;
  const timeOf = prepareTimes(connection);
  const timed = (number: number): RunTime => ({ run: number, at: timeOf(number) });
  return {
    body: history.textOfRevision(head, present),
    changed: timed(contentRevision(history, head, present).run),
    written: timed(present.run),
    removed: isRemoved ? timed(newest.run) : null,
    first: timed(history.firstRun(head)),
  };
}

/** The revision that brought the content: a rewritten one is equal to the one before it. */
function contentRevision(
  history: HistoryReader,
  head: HistoryHead,
  revision: StoredRevision,
): StoredRevision {
  let found = revision;
  while (found.change === 'rewritten' && found.previous !== null) {
    const before = history.revisionAt(head, found.previous);
    if (before === undefined) break;
    found = before;
  }
  return found;
}
