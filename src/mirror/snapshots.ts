/** Snapshots: published runs that are pinned under a name. Drift is measured from one of them, the baseline. */
import { asc, eq, sql } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { isoTime } from '../core/clock.ts';
import { recordAction } from './audit-log.ts';
import {
  AuditLogContradicted,
  type ContradictedRow,
  contradictedRows,
  madeVia,
  requireAsRecorded,
} from './audited-rows.ts';
import type { MirrorAccess } from './access.ts';
import { type Connection, transact } from './database.ts';
import { param, paramsOf, prepared, preparedText } from './query.ts';
import { snapshots } from './schema/retention-tables.ts';
import { runs } from './schema/run-tables.ts';
import { textOf } from './stored-names.ts';
import { alteredLogText } from './hidden-runs.ts';

export interface SnapshotRow extends Readonly<typeof snapshots.$inferSelect> {
  /** How the program knew who pinned it, by the audit log; left out if the log does not say. */
  readonly via?: string;
}

/** How a snapshot contradicts the audit log. */
export interface SnapshotContradiction {
  /** Of the snapshot. */
  readonly name: string;
  /** What another program did to its row; `unproved`: what it did to an entry of the log, which may have ended the snapshot. */
  readonly state: 'altered' | 'inserted' | 'gone' | 'unproved';
  /** In one line. */
  readonly line: string;
  /** The run that the log has for the snapshot, or for the baseline; null if it has none. */
  readonly recordedRun: number | null;
  /** The command that pins a snapshot that is gone again, as the log has it; null for others. */
  readonly again: string | null;
}

/** Names the command that pins the run that the log has; null if it has none. An altered row stays, so the run needs another name. */
export function pinningText({ recordedRun, again }: SnapshotContradiction): string | null {
  if (again !== null) return `\`${again}\` pins it again`;
  if (recordedRun === null) return null;
  return `\`tidemark snapshots pin NAME run:${recordedRun}\` pins the run that the audit log has, under another name`;
}

/** A snapshot that was compared with the audit log. */
export interface CheckedSnapshot extends SnapshotRow {
  /** Left out if it is as it was pinned. No drift is measured from a snapshot with a contradiction. */
  readonly contradiction?: SnapshotContradiction;
}

/** Who changes snapshots, and when. */
interface Authorship {
  readonly actor: Actor;
  readonly at: string;
}

const MAX_NAME = 100;

export type SnapshotStore = ReturnType<typeof snapshotStore>;

export function snapshotStore(access: MirrorAccess) {
  const authorship = (): Authorship => ({ actor: access.actor, at: isoTime(access.clock.now()) });
  const requireNoSecret = (name: string): void => {
    // Other texts that are masked contain characters that a name cannot have.
    access.recordedText(name, 'the name of the snapshot');
  };
  return {
    ...access.reads({
      /** Pinned runs, by name. */
      list: (connection): SnapshotRow[] => readSnapshots(connection).map(withNameText),
      /** The same, compared with the audit log. */
      checked: (connection): CheckedSnapshot[] => {
        const contradictions = new Map(readContradictions(connection).map((each) => [each.name, each]));
        return readSnapshots(connection).map((stored) => {
          const row = withNameText(stored);
          const contradiction = contradictions.get(row.name);
          return contradiction === undefined ? row : { ...row, contradiction };
        });
      },
      /**
       * The snapshot that drift is measured from, compared with the audit log, which has to be as it was written. If no row is marked
       * as the baseline but the log has one, it is returned as the log has it.
       */
      baseline: (connection): CheckedSnapshot | undefined => {
        const baseline = readBaseline(connection);
        return baseline === undefined ? undefined : withNameText(baseline);
      },
      /** How a snapshot contradicts the audit log; null if it does not. */
      contradiction: contradictionOf,
      /** The contradictions of all snapshots, also of those that are gone, and that of the baseline as in `baseline`. */
      contradictions: readContradictions,
    }),

    /**
     * Pins a published run under a name, so that retention keeps it. Pinning it again changes nothing.
     * @throws TidemarkError `usage` (a name that no reference can contain, or that another run has, be it in the audit log only),
     * `reference_unknown` for a run that was never published
     */
    pin: (name: string, run: number): SnapshotRow => {
      requireNoSecret(name);
      return access.change((writer) => pinSnapshot(writer, { name, run }, authorship()));
    },

    /**
     * Pins a run and makes it the baseline: both, or neither.
     * @throws TidemarkError as `pin` and `setBaseline`
     */
    pinBaseline: (name: string, run: number): SnapshotRow => {
      requireNoSecret(name);
      const by = authorship();
      return access.change((writer) =>
        transact(writer, () => {
          pinSnapshot(writer, { name, run }, by);
          return markBaseline(writer, name, by);
        }),
      );
    },

    ...access.changes({
      /**
       * Unpins the run, so that retention may forget it. Returns what was pinned.
       * @throws TidemarkError `reference_unknown`, `mirror_corrupt` for a pin that is not as it was made, or is gone
       */
      unpin: (writer, name: string): SnapshotRow => unpinSnapshot(writer, name, authorship()),
      /**
       * Makes this snapshot the only baseline.
       * @throws TidemarkError `reference_unknown`, `mirror_corrupt` if its pin, or that of the baseline so far, is not as it was made
       */
      setBaseline: (writer, name: string): SnapshotRow => markBaseline(writer, name, authorship()),
    }),
  };
}

const SNAPSHOTS = prepared((db) => {
  const { name, run, pinnedAt, by, isBaseline } = snapshots;
  const via = sql<string | null>`${sql.raw(madeVia('snapshots'))}`.as('via');
  return db.select({ name, run, pinnedAt, by, via, isBaseline }).from(snapshots).orderBy(asc(name));
});

/** By name. */
export function readSnapshots(connection: Connection): SnapshotRow[] {
  return SNAPSHOTS(connection).all().map(snapshotOf);
}

function snapshotOf({
  via,
  by,
  run,
  ...row
}: Omit<SnapshotRow, 'via'> & { readonly via: string | null }): SnapshotRow {
  // Another program may have stored anything; no run has the number 0.
  return {
    ...{ ...row, run: Number.isInteger(run) ? run : 0, by: textOf(by) },
    ...(via === null ? {} : { via: textOf(via) }),
  };
}

function withNameText<Row extends Pick<SnapshotRow, 'name'>>(row: Row): Row {
  return { ...row, name: nameText(row.name) };
}

/** Another program may have stored a BLOB: then the name is its hex digits, as in the audit log. */
function nameText(stored: unknown): string {
  if (typeof stored === 'string') return stored;
  return JSON.stringify(Buffer.isBuffer(stored) ? { blob: stored.toString('hex').toUpperCase() } : stored);
}

function readBaseline(connection: Connection): CheckedSnapshot | undefined {
  const marked = readSnapshots(connection).find(({ isBaseline }) => isBaseline);
  const recorded = recordedBaseline(connection);
  const baseline = marked ?? recorded;
  const contradiction =
    baseline === undefined
      ? null
      : (contradictionOf(connection, baseline.name) ??
        unprovedBaseline(connection, nameText(baseline.name)) ??
        withoutEntry(connection, nameText(baseline.name)));
  if (baseline === undefined || contradiction === null) return marked;
  if (contradiction.state === 'unproved') return { ...baseline, contradiction };
  // A baseline that another program marked does not tell what drift was measured from.
  const isForged = recorded?.name === contradiction.name && contradiction.recordedRun === null;
  const recordedRun = recorded === undefined || isForged ? null : recorded.run;
  return { ...baseline, contradiction: { ...contradiction, recordedRun } };
}

/** An entry that is gone or altered may have unpinned the baseline, or chosen another one. */
function unprovedBaseline(connection: Connection, name: string): SnapshotContradiction | null {
  const altered = alteredLogText(connection);
  return altered === null ? null : unproved(name, `a log that ${altered}`);
}

/**
 * A snapshot or a restore without an entry in the log shows that its last entries were deleted (nothing else may), and they could
 * have withdrawn an acceptance or chosen another baseline.
 */
function withoutEntry(connection: Connection, name: string): SnapshotContradiction | null {
  const rows = contradictedRows(connection, 'snapshots');
  const pinned = rows.find(({ recorded, isGone }) => recorded === null && !isGone);
  const restore = preparedText<[], number>(
    connection,
    `SELECT restore FROM restores
       WHERE NOT EXISTS (SELECT 1 FROM audit_log WHERE about = 'restores' AND member = json_array(restore))`,
  )
    .pluck()
    .get();
  const row =
    pinned === undefined ? `restore ${restore}` : `snapshot ${JSON.stringify(nameText(pinned.key[0] ?? ''))}`;
  if (pinned === undefined && restore === undefined) return null;
  return unproved(name, `a log that has no entry of ${row}: its last entries may be gone`);
}

function unproved(name: string, what: string): SnapshotContradiction {
  const line = `snapshot ${JSON.stringify(name)} rests on ${what}`;
  return { name, state: 'unproved', line, recordedRun: null, again: null };
}

function contradictionOf(connection: Connection, name: string): SnapshotContradiction | null {
  const known = nameText(name);
  return (
    contradictedRows(connection, 'snapshots')
      .map(contradictionFrom)
      .find((each) => each.name === known) ?? null
  );
}

function readContradictions(connection: Connection): SnapshotContradiction[] {
  const found = contradictedRows(connection, 'snapshots').map(contradictionFrom);
  const marked = readSnapshots(connection).find(({ isBaseline }) => isBaseline);
  const unproved =
    marked === undefined || found.some(({ name }) => name === nameText(marked.name))
      ? null
      : unprovedBaseline(connection, nameText(marked.name));
  return unproved === null ? found : [...found, unproved];
}

function contradictionFrom({ key, line, recorded, isGone, again }: ContradictedRow): SnapshotContradiction {
  const run = recorded?.['run'];
  return {
    name: nameText(key[0] ?? ''),
    state: isGone ? 'gone' : recorded === null ? 'inserted' : 'altered',
    line,
    recordedRun: typeof run === 'number' ? run : null,
    again: again ?? null,
  };
}

/** The baseline according to the log; undefined if it has none, or none any more. */
function recordedBaseline(connection: Connection): SnapshotRow | undefined {
  const row = preparedText<[], Omit<SnapshotRow, 'isBaseline' | 'via'> & { readonly via: string | null }>(
    connection,
    `SELECT member ->> '$[0]' AS name, "row" ->> '$.run' AS run, "row" ->> '$.pinned_at' AS pinnedAt, "row" ->> '$.pinned_by' AS "by",
         ${madeVia('snapshots', 'log.member')} AS via
       FROM audit_log log WHERE about = 'snapshots' AND json_valid(member) AND json_valid("row") AND "row" ->> '$.is_baseline' = 1
         AND action <> 'unpin' AND entry = (SELECT max(entry) FROM audit_log own WHERE own.about = log.about AND own.member = log.member)
       ORDER BY entry DESC LIMIT 1`,
  ).get();
  return row === undefined ? undefined : snapshotOf({ ...row, isBaseline: true });
}

const PIN = prepared((db) => db.insert(snapshots).values(paramsOf(snapshots)));

function pinSnapshot(
  writer: Connection,
  { name, run }: Pick<SnapshotRow, 'name' | 'run'>,
  { actor, at }: Authorship,
): SnapshotRow {
  checkSnapshotName(name);
  return transact(writer, (): SnapshotRow => {
    const known = readSnapshots(writer).find((snapshot) => snapshot.name === name);
    if (known !== undefined) {
      if (known.run === run) return known;
      throw new TidemarkError('usage', `${JSON.stringify(name)} is pinned to run ${known.run} already`, {
        hint: known.isBaseline
          ? 'it is the baseline already; to compare with a later run, pin that under another name with --baseline'
          : 'a snapshot does not move: `tidemark snapshots unpin NAME` first, or choose another name',
      });
    }
    requireRecordedRun(writer, name, run);
    requirePublished(writer, run);
    const pinned = { name, run, pinnedAt: at, ...actor, isBaseline: false };
    recordAction(writer, actor, { action: 'pin', at, about: 'snapshots', key: [name] }, () => {
      PIN(writer).run(pinned);
    });
    return pinned;
  });
}

/**
 * A snapshot that another program deleted may only be pinned to the same run again: at another run, it would hide what drifted since
 * if it is the baseline.
 */
function requireRecordedRun(connection: Connection, name: string, run: number): void {
  const contradiction = contradictionOf(connection, name);
  if (contradiction === null || contradiction.recordedRun === run) return;
  const { line, recordedRun, again } = contradiction;
  const was = recordedRun === null ? '' : `, at run ${recordedRun}`;
  throw new TidemarkError('usage', `${line}${was}: it cannot be pinned to run ${run}`, {
    hint: `${again === null ? '' : `\`${again}\` pins it as it was; or `}choose another name`,
  });
}

const UNPIN = prepared((db) => db.delete(snapshots).where(eq(snapshots.name, param('name'))));

function unpinSnapshot(writer: Connection, name: string, { actor, at }: Authorship): SnapshotRow {
  return transact(writer, (): SnapshotRow => {
    requireNotGone(writer, name);
    const known = knownSnapshot(writer, name);
    recordAction(writer, actor, { action: 'unpin', at, about: 'snapshots', key: [name] }, () => {
      UNPIN(writer).run({ name });
    });
    return known;
  });
}

/** Throws for a snapshot that another program deleted: there is nothing to unpin, and no entry may say that somebody did. */
function requireNotGone(connection: Connection, name: string): void {
  const contradiction = contradictionOf(connection, name);
  if (contradiction === null || contradiction.again === null) return;
  throw new AuditLogContradicted(
    contradiction.line,
    `pin it again, then unpin it: \`${contradiction.again}\`, then this command`,
  );
}

const MARK = prepared((db) => {
  const { name, isBaseline } = paramsOf(snapshots);
  return db.update(snapshots).set({ isBaseline }).where(eq(snapshots.name, name));
});

function markBaseline(writer: Connection, name: string, { actor, at }: Authorship): SnapshotRow {
  return transact(writer, (): SnapshotRow => {
    const known = knownSnapshot(writer, name);
    const unproved = unprovedBaseline(writer, name);
    if (unproved !== null) throw new AuditLogContradicted(`${unproved.line}: it cannot be the baseline`);
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
  });
}

function knownSnapshot(connection: Connection, name: string): SnapshotRow {
  const all = readSnapshots(connection);
  const known = all.find((snapshot) => snapshot.name === name);
  if (known !== undefined) return known;
  const names = all.map((snapshot) => snapshot.name);
  const question = didYouMean(name, names, JSON.stringify);
  throw new TidemarkError('reference_unknown', `there is no snapshot ${JSON.stringify(name)}${question}`, {
    hint: '`tidemark snapshots` lists them; `tidemark snapshots pin NAME` makes one',
  });
}

/**
 * A name must fit after `snapshot:`, print as it is, and need no quotes. Names that were pinned before this rule still resolve, and
 * can be unpinned.
 * @throws TidemarkError `usage`
 */
export function checkSnapshotName(name: string): void {
  const why = nameProblem(name);
  if (why === null) return;
  const shown = JSON.stringify(name.slice(0, MAX_NAME));
  throw new TidemarkError('usage', `${shown} is not a valid snapshot name: ${why}`, {
    hint: `a name has 1 to ${MAX_NAME} letters, digits, dots, dashes and underscores, like before-migration`,
  });
}

function nameProblem(name: string): string | null {
  if (name === '') return 'it is empty';
  if (name.length > MAX_NAME) return `it is longer than ${MAX_NAME} characters`;
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return 'it contains characters that cannot be seen';
  if (name.startsWith('-')) return 'it begins with a dash, as options do';
  return /^[\p{L}\p{M}\p{N}._-]+$/u.test(name) ? null : 'it contains a character that is not allowed';
}

const ROOT = prepared((db) =>
  db
    .select({ root: runs.root })
    .from(runs)
    .where(eq(runs.run, param('run'))),
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
