/** Snapshots: published runs pinned under a name, and the one of them that drift is measured from. */
import { asc, eq } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import { isoTime } from '../core/clock.ts';
import { recordAction } from './audit-log.ts';
import { contradictedRows, requireAsRecorded } from './audited-rows.ts';
import type { MirrorAccess } from './access.ts';
import type { Connection } from './database.ts';
import { param, paramsOf, prepared } from './query.ts';
import { snapshots } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';

export type SnapshotRow = Readonly<typeof snapshots.$inferSelect>;

/** What a snapshot has against the audit log. */
export interface SnapshotContradiction {
  /** In one line. */
  readonly line: string;
  /** The run that the log has for it; null without one. */
  readonly recordedRun: number | null;
}

/** One that was compared with the audit log. */
interface CheckedSnapshot extends SnapshotRow {
  /** Left out for one that is as it was pinned: nothing is measured from another one. */
  readonly contradiction?: SnapshotContradiction;
}

/** Who changes snapshots, and when. */
interface Doing {
  readonly actor: Actor;
  readonly at: string;
}

const MAX_NAME = 100;

export class SnapshotStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Pinned runs, by name. */
  list(): SnapshotRow[] {
    return this.#access.read(readSnapshots);
  }

  /**
   * The snapshot that drift is measured from, compared with the audit log. Where no row is marked as the baseline though the log has one: that,
   * as the log has it.
   */
  baseline(): CheckedSnapshot | undefined {
    return this.#access.read(readBaseline);
  }

  /** What a snapshot has against the audit log; null where nothing. */
  contradiction(name: string): SnapshotContradiction | null {
    return this.#access.read((connection) => contradictionOf(connection, name));
  }

  /** A line for each snapshot that is not as the audit log has it, also where it is gone. */
  contradictions(): string[] {
    return this.#access.read((connection) =>
      contradictedRows(connection, 'snapshots').map(({ line }) => line),
    );
  }

  /**
   * Pins a published run under a name, so that retention keeps it. Pinning it again changes nothing.
   * @throws TidemarkError `usage` (a name that no reference could hold, or that another run has), `reference_unknown`
   * for a run that was never published
   */
  pin(name: string, run: number): SnapshotRow {
    return this.#access.change((writer) => pinSnapshot(writer, { name, run }, this.#doing()));
  }

  /**
   * Unpins the run: retention may forget it from then on. Returns what was pinned.
   * @throws TidemarkError `reference_unknown`, `mirror_corrupt` for a pin that is not as it was made
   */
  unpin(name: string): SnapshotRow {
    return this.#access.change((writer) => unpinSnapshot(writer, name, this.#doing()));
  }

  /**
   * Measures drift from this snapshot, and from no other one.
   * @throws TidemarkError `reference_unknown`, `mirror_corrupt` where its pin, or that of the baseline until now, is not as it was made
   */
  setBaseline(name: string): SnapshotRow {
    return this.#access.change((writer) => markBaseline(writer, name, this.#doing()));
  }

  #doing(): Doing {
    const { actor, clock } = this.#access;
    return { actor, at: isoTime(clock.now()) };
  }
}

const SNAPSHOTS = prepared((db) => {
  const { name, run, pinnedAt, by, isBaseline } = snapshots;
  return db.select({ name, run, pinnedAt, by, isBaseline }).from(snapshots).orderBy(asc(name)).prepare();
});

/** By name. */
export function readSnapshots(connection: Connection): SnapshotRow[] {
  return SNAPSHOTS(connection).all();
}

function readBaseline(connection: Connection): CheckedSnapshot | undefined {
  const marked = readSnapshots(connection).find(({ isBaseline }) => isBaseline);
  if (marked !== undefined) {
    const contradiction = contradictionOf(connection, marked.name);
    return contradiction === null ? marked : { ...marked, contradiction };
  }
  const recorded = recordedBaseline(connection);
  const contradiction = recorded === undefined ? null : contradictionOf(connection, recorded.name);
  return recorded === undefined || contradiction === null ? undefined : { ...recorded, contradiction };
}

function contradictionOf(connection: Connection, name: string): SnapshotContradiction | null {
  const [row] = contradictedRows(connection, 'snapshots', [name]);
  if (row === undefined) return null;
  const run = row.recorded?.['run'];
  return { line: row.line, recordedRun: typeof run === 'number' ? run : null };
}

/** The latest baseline that the log has, which may have been unpinned, or replaced by none, since. */
function recordedBaseline(connection: Connection): SnapshotRow | undefined {
  const row = connection
    .prepare<[], Omit<SnapshotRow, 'isBaseline'>>(
      `SELECT member ->> '$[0]' AS name, "row" ->> '$.run' AS run, "row" ->> '$.pinned_at' AS pinnedAt, "row" ->> '$.pinned_by' AS "by"
       FROM audit_log WHERE about = 'snapshots' AND json_valid(member) AND json_valid("row") AND "row" ->> '$.is_baseline' = 1
       ORDER BY entry DESC LIMIT 1`,
    )
    .get();
  return row === undefined ? undefined : { ...row, isBaseline: true };
}

const PIN = prepared((db) => db.insert(snapshots).values(paramsOf(snapshots)).prepare());

function pinSnapshot(
  writer: Connection,
  { name, run }: Pick<SnapshotRow, 'name' | 'run'>,
  { actor, at }: Doing,
): SnapshotRow {
  checkSnapshotName(name);
  return writer
    .transaction((): SnapshotRow => {
      const known = readSnapshots(writer).find((snapshot) => snapshot.name === name);
      if (known !== undefined) {
        if (known.run === run) return known;
        throw new TidemarkError('usage', `${quoted(name)} is pinned to run ${known.run} already`, {
          hint: 'a snapshot does not move: `tidemark snapshots unpin NAME` first, or choose another name',
        });
      }
      requirePublished(writer, run);
      const pinned = { name, run, pinnedAt: at, by: actor.by, isBaseline: false };
      recordAction(writer, actor, { action: 'pin', at, about: 'snapshots', key: [name] }, () => {
        PIN(writer).run(pinned);
      });
      return pinned;
    })
    .immediate();
}

const UNPIN = prepared((db) =>
  db
    .delete(snapshots)
    .where(eq(snapshots.name, param('name')))
    .prepare(),
);

function unpinSnapshot(writer: Connection, name: string, { actor, at }: Doing): SnapshotRow {
  return writer
    .transaction((): SnapshotRow => {
      const known = knownSnapshot(writer, name);
      recordAction(writer, actor, { action: 'unpin', at, about: 'snapshots', key: [name] }, () => {
        UNPIN(writer).run({ name });
      });
      return known;
    })
    .immediate();
}

const MARK = prepared((db) => {
  const { name, isBaseline } = paramsOf(snapshots);
  return db.update(snapshots).set({ isBaseline }).where(eq(snapshots.name, name)).prepare();
});

function markBaseline(writer: Connection, name: string, { actor, at }: Doing): SnapshotRow {
  return writer
    .transaction((): SnapshotRow => {
      const known = knownSnapshot(writer, name);
      for (const snapshot of readSnapshots(writer)) {
        const isBaseline = snapshot.name === name;
        const key = [snapshot.name];
        if (isBaseline) requireAsRecorded(writer, 'snapshots', key);
        if (isBaseline === snapshot.isBaseline) continue;
        const action = isBaseline ? 'baseline' : 'not_baseline';
        recordAction(writer, actor, { action, at, about: 'snapshots', key }, () => {
          MARK(writer).run({ name: snapshot.name, isBaseline });
        });
      }
      return { ...known, isBaseline: true };
    })
    .immediate();
}

function knownSnapshot(connection: Connection, name: string): SnapshotRow {
  const all = readSnapshots(connection);
  const known = all.find((snapshot) => snapshot.name === name);
  if (known !== undefined) return known;
  const near = suggest(
    name,
    all.map((snapshot) => snapshot.name),
  );
  throw new TidemarkError(
    'reference_unknown',
    `there is no snapshot ${quoted(name)}${near === undefined ? '' : `; did you mean ${quoted(near)}?`}`,
    { hint: '`tidemark snapshots` lists them; `tidemark snapshots pin NAME` makes one' },
  );
}

/**
 * What fits after `snapshot:`, prints as what it is, and can be typed without quotes. Names that were pinned before this
 * was asked for still resolve, and can be unpinned.
 * @throws TidemarkError `usage`
 */
export function checkSnapshotName(name: string): void {
  const why =
    name === ''
      ? 'it is empty'
      : name.length > MAX_NAME
        ? `it is longer than ${MAX_NAME} characters`
        : /[\p{C}\p{Zl}\p{Zp}]/u.test(name)
          ? 'it contains characters that cannot be seen'
          : name.startsWith('-')
            ? 'it begins with a dash, as options do'
            : /^[\p{L}\p{M}\p{N}._-]+$/u.test(name)
              ? undefined
              : 'it contains a character that is not allowed';
  if (why === undefined) return;
  throw new TidemarkError(
    'usage',
    `${quoted(name.slice(0, MAX_NAME))} is not a valid snapshot name: ${why}`,
    {
      hint: `a name has 1 to ${MAX_NAME} letters, digits, dots, dashes and underscores, like before-migration`,
    },
  );
}

const ROOT = prepared((db) =>
  db
    .select({ root: runs.root })
    .from(runs)
    .where(eq(runs.run, param('run')))
    .prepare(),
);

/** @throws TidemarkError `reference_unknown` for one that was never published */
function requirePublished(connection: Connection, run: number): void {
  const row = ROOT(connection).get({ run });
  if (row !== undefined && row.root !== null) return;
  throw new TidemarkError(
    'reference_unknown',
    row === undefined ? `there is no run ${run}` : `run ${run} was never published: it holds no state`,
    { hint: '`tidemark runs` lists them' },
  );
}

function quoted(name: string): string {
  return JSON.stringify(name);
}
