/** The store of runs: their rows, sweeps and collections, and the run that is being written. */
import type { MirrorAccess } from './access.ts';
import {
  countChangesBetween,
  hasChangesAfter,
  readChangeCounts,
  readChangedRuns,
  readChangingRuns,
  readFirstReads,
  readRepeatedChanges,
} from './change-counts.ts';
import { readFirstSweepsAfter } from './first-readings.ts';
import { alteredRunLines, alteredRunRows, brokenChainLines, hiddenRuns } from './hidden-runs.ts';
import { readHeldRecords, readHeldRemovals, readHeldSince } from './held-removals.ts';
import {
  type RunRow,
  readCollections,
  readFirstStart,
  readKindStatuses,
  readRuns,
  readAddress,
  readMove,
  readSources,
  readSweeps,
  readUnreadCollections,
} from './run-rows.ts';
import { type RunOptions, type RunWriter, noteLostRuns, openRun } from './run-writer.ts';
import { readSchemaChanges } from './schema-changes.ts';
import {
  readDroppedEnd,
  readDroppedReading,
  readLastFullSweep,
  readNamedSweep,
  readSweepsAsOf,
  readUnaskedCollections,
} from './sweeps-as-of.ts';
import { alteredChangesText } from './verify-chain.ts';

export type RunStore = ReturnType<typeof runStore>;

export function runStore(access: MirrorAccess) {
  const reads = access.reads({
    sources: readSources,
    addressOf: readAddress,
    moveOf: readMove,
    list: readRuns,
    sweeps: readSweeps,
    sweepsAsOf: readSweepsAsOf,
    unaskedCollections: readUnaskedCollections,
    namedSweep: readNamedSweep,
    lastFullSweep: readLastFullSweep,
    droppedReading: readDroppedReading,
    droppedEnd: readDroppedEnd,
    collections: readCollections,
    kindStatuses: readKindStatuses,
    unreadCollections: readUnreadCollections,
    firstStartedAt: readFirstStart,
    changeCounts: readChangeCounts,
    repeatedChanges: readRepeatedChanges,
    changing: readChangingRuns,
    changedSince: readChangedRuns,
    hasChangesAfter,
    countChangesBetween,
    firstReads: readFirstReads,
    firstSweepsAfter: readFirstSweepsAfter,
    heldRemovals: readHeldRemovals,
    heldRecords: readHeldRecords,
    heldSince: readHeldSince,
    schemaChanges: readSchemaChanges,
    unlikeSealed: alteredRunRows,
    hidden: hiddenRuns,
    brokenChain: brokenChainLines,
    alteredLines: alteredRunLines,
    alteredChangesText,
  });
  return {
    ...reads,
    ...access.changes({ noteLost: noteLostRuns }),

    get: (run: number): RunRow | undefined => reads.list({ run })[0],

    /** When a run ended, even if retention dropped it since; null if that is not known. */
    endOf: (run: number): string | null => reads.list({ run })[0]?.finishedAt ?? reads.droppedEnd(run),

    /** The latest published (complete or partial) run of a source. */
    latest: (source: string): RunRow | undefined => reads.list({ source, isPublished: true, limit: 1 })[0],

    /** @throws TidemarkError `internal` if the mirror is open for reading, or another run has not ended */
    begin(options: RunOptions): RunWriter {
      const context = access.writerForRun();
      try {
        return openRun({ ...context, keepsLog: access.isTemporary }, options);
      } catch (error) {
        context.onEnd();
        throw error;
      }
    },
  };
}
