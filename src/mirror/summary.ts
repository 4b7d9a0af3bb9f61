/**
 * Lists what references can name, for shell completion. Unlike opening a mirror, it never creates, upgrades, copies or
 * waits for one; if the mirror cannot be read like this, there are no completions.
 */
import { statSync } from 'node:fs';
import { connect } from './database.ts';
import { schemaVersion } from './migrations.ts';
import { type RestoreRow, readRestores } from './restores.ts';
import { type RunRow, readRuns, readSources } from './run-rows.ts';
import { type SnapshotRow, readSnapshots } from './snapshots.ts';

/** How long a statement waits for another process; the keyboard waits too. */
const GLANCE_BUSY_MS = 100;

export interface MirrorSummary {
  /** Published runs, newest first. */
  readonly runs: readonly RunRow[];
  /** By name. */
  readonly snapshots: readonly SnapshotRow[];
  /** Newest first. */
  readonly restores: readonly RestoreRow[];
  /** Names of all sources that ever began a run, sorted. */
  readonly sources: readonly string[];
}

/** At most `limit` runs and restores. Null for what is not a mirror of this version; throws what SQLite throws. */
export function peekMirror(path: string, limit: number): MirrorSummary | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isFile() || stats.size === 0) return null;
  const connection = connect(path, { isReadonly: true });
  try {
    connection.pragma(`busy_timeout = ${GLANCE_BUSY_MS}`);
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
