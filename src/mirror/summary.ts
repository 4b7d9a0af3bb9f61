/**
 * A look at what references can name, for shells that complete them: never makes, upgrades, copies or waits for a mirror,
 * as opening one does. What cannot be looked at just so has nothing to show.
 */
import { statSync } from 'node:fs';
import { type Connection, connect } from './database.ts';
import { schemaVersion } from './migrations.ts';
import { readRestores } from './restores.ts';
import { readRuns, readSources } from './run-rows.ts';
import { readSnapshots } from './snapshots.ts';

/** How long a statement waits for another process; the keyboard waits too. */
const GLANCE_BUSY_MS = 100;

export interface MirrorSummary {
  /** Published runs, newest first. */
  readonly runs: readonly {
    readonly run: number;
    readonly source: string;
    readonly at: string;
    readonly outcome: string;
  }[];
  /** By name. */
  readonly snapshots: readonly {
    readonly name: string;
    readonly run: number;
    readonly isBaseline: boolean;
  }[];
  /** Newest first. */
  readonly restores: readonly {
    readonly restore: number;
    readonly source: string;
    readonly startedAt: string;
    readonly outcome: string;
  }[];
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
    return version === latest ? read(connection, limit) : null;
  } finally {
    connection.close();
  }
}

function read(connection: Connection, limit: number): MirrorSummary {
  return {
    runs: readRuns(connection, { isPublished: true, limit }).map((row) => ({
      run: row.run,
      source: row.source,
      at: row.finishedAt ?? row.startedAt,
      outcome: row.outcome,
    })),
    snapshots: readSnapshots(connection),
    restores: readRestores(connection, { limit }),
    sources: readSources(connection),
  };
}
