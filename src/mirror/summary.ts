/**
 * Lists what references can name, for shell completion. Unlike `openMirror`, it never creates, upgrades, copies or
 * waits for a mirror; one that cannot be read like this has no completions.
 */
import { statSync } from 'node:fs';
import { connect } from './database.ts';
import { schemaVersion } from './migrations.ts';
import { type RestoreRow, readRestores } from './restores.ts';
import { type RunRow, readRuns, readSources } from './run-rows.ts';
import { type SnapshotRow, readSnapshots } from './snapshots.ts';

/** How long a statement waits for another process: the user at the keyboard waits for it too. */
const PEEK_BUSY_MS = 100;

export interface MirrorSummary {
  /** Published runs, newest first. */
  readonly runs: readonly RunRow[];
  /** By name. */
  readonly snapshots: readonly SnapshotRow[];
  /** Newest first. */
  readonly restores: readonly RestoreRow[];
  /** Names of all sources that ever started a run, sorted. */
  readonly sources: readonly string[];
}

/** At most `limit` runs and restores; null if the file is not a mirror of this schema version. Throws SQLite's errors. */
export function peekMirror(path: string, limit: number): MirrorSummary | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isFile() || stats.size === 0) return null;
  const connection = connect(path, { isReadonly: true });
  try {
    connection.pragma(`busy_timeout = ${PEEK_BUSY_MS}`);
    const { version, latest } = schemaVersion(connection, path);
    if (version !== latest) return null;
    return {
      runs: readRuns(connection, { isPublished: true, limit }),
      snapshots: readSnapshots(connection),
      restores: readRestores(connection, { limit }),
      sources: readSources(connection),
    };
  } finally {
    connection.close();
  }
}
