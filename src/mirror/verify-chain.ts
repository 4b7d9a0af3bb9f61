/** Verifies the chain of seals: computes the digests and root of each published run again from the mirror's rows. */
import { createHash } from 'node:crypto';
import { whoText } from '../core/actor.ts';
import type { Connection } from './database.ts';
import { type StoredForget, digestReplaced, linkOf, readStoredForgets } from './forget-records.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { perConnection } from './query.ts';
import type { SealRange } from './row-seals.ts';
import { type RunDigests, digestChanges, digestRun, digestSweeps, rootOf } from './run-seals.ts';
import type { Findings } from './verify-records.ts';

/** A published run with its seal. */
export interface SealedRun extends RunDigests {
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly previousRoot: Buffer | null;
  readonly lastEntry: number | null;
  readonly lastEntryHash: Buffer | null;
  readonly root: Buffer;
}

/** Checks all published runs, forgets and moves; yields after each slice. */
export function* verifyChain(connection: Connection, findings: Findings): Generator<undefined> {
  const runs = readSealed(connection);
  // The first run follows the latest forget, if any.
  let previous: Buffer | null = verifyForgets(connection, runs, findings);
  const unlikeSealed = new Map(entriesUnlikeSealed(connection).map((entry) => [entry.run, entry]));
  for (const sealed of runs) {
    findings.checked.runs += 1;
    const { run, changeDigest, sweepDigest } = sealed;
    const problem = (message: string): void => findings.add({ kind: 'chain', message, run });
    const found = yield* digestRun(connection, run);
    if (!found.changeDigest.equals(changeDigest))
      problem(changeDigest.length === 0 ? missingDigestText(run) : unlikeChangesText(run));
    if (!found.sweepDigest.equals(sweepDigest))
      problem(
        sweepDigest.length === 0
          ? missingDigestText(run)
          : `what is stored of the collections that run ${run} read was changed after the run`,
      );
    const unlike = unlikeSealed.get(run);
    if (unlike !== undefined) problem(unlikeSealedText(unlike));
    if (!isSame(previous, sealed.previousRoot)) problem(discontinuousText(run));
    if (!rootOf(sealed).equals(sealed.root)) problem(unlikeRootText(run));
    previous = sealed.root;
    yield undefined;
  }
  verifyOwners(connection, findings);
  const { checked } = findings;
  const stored = connection.prepare<[], number>(`SELECT count(*) FROM all_revisions`).pluck().get() ?? 0;
  if (stored !== checked.revisions) {
    findings.add({
      kind: 'revision',
      message: `${stored} revisions are stored, but only ${checked.revisions} belong to a record`,
    });
  }
}

function missingDigestText(run: number): string {
  return `the digest of run ${run} is missing`;
}

function unlikeChangesText(run: number): string {
  return `the changes of run ${run}, or what identifies their records, do not match its root hash`;
}

export function discontinuousText(run: number): string {
  return `the root hash of run ${run} does not continue that of the run before it`;
}

function unlikeRootText(run: number): string {
  return `the root hash of run ${run} does not match what is stored of the run`;
}

/** How the row of a run contradicts its root hash; null if it does not. */
function unlikeRowText(sealed: SealedRun): string | null {
  const { run, root, changeDigest, sweepDigest } = sealed;
  if (rootOf(sealed).equals(root)) return null;
  return changeDigest.length === 0 || sweepDigest.length === 0 ? missingDigestText(run) : unlikeRootText(run);
}

/**
 * The published runs in a range whose rows do not match their root hashes, oldest first. Such a row proves nothing, for example not
 * the latest entry of the audit log at that time.
 */
export function runsUnlikeRoot(
  connection: Connection,
  { from = 1, upTo }: Pick<SealRange, 'from' | 'upTo'>,
): { readonly run: number; readonly line: string }[] {
  return readSealed(connection, from - 1, upTo).flatMap((sealed) => {
    const line = unlikeRowText(sealed);
    return line === null ? [] : [{ run: sealed.run, line }];
  });
}

/**
 * What is wrong with the changes of the first run after `after` and up to `upTo` whose records or revisions are not those that it
 * sealed. Null if there is none: then the state as of `after`, and the changes since, are as they were found. Bodies are not read.
 * @param among numbers of the collections that matter: a run is left out if its sweeps prove that these are as it sealed them
 */
export function alteredChangesText(
  connection: Connection,
  {
    after,
    upTo = Number.MAX_SAFE_INTEGER,
    among,
  }: { readonly after: number; readonly upTo?: number; readonly among: ReadonlySet<number> | null },
): string | null {
  // In one transaction, so that no run is published meanwhile.
  const first = connection.transaction(() =>
    unlikeAfter(connection, after).find(
      ({ run, concerns }) => run <= upTo && (among === null || concerns(among)),
    ),
  )();
  return first?.text ?? null;
}

interface UnlikeRun {
  readonly run: number;
  readonly text: string;
  /** False if other collections than these (by number) explain it. */
  readonly concerns: (collections: ReadonlySet<number>) => boolean;
}

function unlikeAfter(connection: Connection, after: number): readonly UnlikeRun[] {
  const state = fileState(connection);
  const known = UNLIKE.get(connection);
  if (known?.state === state && known.after <= after) return known.runs.filter(({ run }) => run > after);
  const withRows = new Set(CHANGING_AFTER(connection).all({ after }));
  const published = readSealed(connection, after);
  const unlike = published.flatMap((sealed): UnlikeRun[] => {
    const { run } = sealed;
    const unlikeRow = unlikeRowText(sealed);
    if (unlikeRow !== null) return [{ run, text: unlikeRow, concerns: () => true }];
    const found = withRows.has(run) ? drain(digestChanges(connection, run)) : NO_CHANGES;
    if (found.equals(sealed.changeDigest)) return [];
    return [
      {
        ...{ run, text: unlikeChangesText(run) },
        concerns: (collections) => !isAsCounted(connection, { sealed, collections }),
      },
    ];
  });
  const unsealed = withRows.difference(new Set(published.map(({ run }) => run)));
  const runs = [...unlike, ...[...unsealed].flatMap((run) => neverPublished(connection, run))];
  UNLIKE.set(connection, { state, after, runs });
  return runs;
}

const UNLIKE = new WeakMap<
  Connection,
  { readonly state: string; readonly after: number; readonly runs: readonly UnlikeRun[] }
>();

/**
 * A run with revisions that was not published, or never existed: another program may have moved a version to it, out of the time that
 * is compared. Empty for a run of which only the row is gone: its changes are still shown, and `runs` reports it.
 */
function neverPublished(connection: Connection, run: number): UnlikeRun[] {
  const numbers = new Set(COLLECTIONS_OF_UNSEALED(connection).all({ run }));
  if (numbers.size === 0) return [];
  const concerns: UnlikeRun['concerns'] = (collections) => !collections.isDisjointFrom(numbers);
  if (typeof run === 'number') return [{ run, text: ownerlessText(connection, run), concerns }];
  // Another program may have stored a text, which sorts after all numbers.
  return [{ run: Number.MAX_SAFE_INTEGER, text: 'the run of a revision is not a number', concerns }];
}

const COLLECTIONS_OF_UNSEALED = perConnection((connection) =>
  connection
    .prepare<{ run: number }, number>(
      `SELECT collection FROM (SELECT collection FROM records WHERE run = :run UNION SELECT collection FROM revisions WHERE run = :run)
       WHERE EXISTS (SELECT 1 FROM runs WHERE run = :run) OR NOT EXISTS (SELECT 1 FROM sweeps WHERE run = :run)
         AND NOT EXISTS (SELECT 1 FROM row_seals WHERE "set" = 'runs' AND member = '[' || :run || ']')`,
    )
    .pluck(),
);

/**
 * True if other collections explain that a run's changes differ: some of them have other numbers of changes than the run's sweeps
 * say, and the given ones do not.
 */
function isAsCounted(
  connection: Connection,
  { sealed, collections }: { readonly sealed: SealedRun; readonly collections: ReadonlySet<number> },
): boolean {
  const { run, sweepDigest } = sealed;
  if (!drain(digestSweeps(connection, run)).equals(sweepDigest)) return false;
  const found = MISCOUNTED(connection).all({ run });
  return found.length > 0 && found.every((collection) => !collections.has(collection));
}

/** Collections in which a run has other numbers of changes than its sweeps say, or changes that they do not count (4, rewritten). */
const MISCOUNTED = perConnection((connection) =>
  connection
    .prepare<{ run: number }, number>(
      `WITH found AS (SELECT collection, count(*) FILTER (WHERE change = 1) AS added, count(*) FILTER (WHERE change = 2) AS changed,
           count(*) FILTER (WHERE change = 3) AS removed, count(*) FILTER (WHERE change = 4) AS rewritten
         FROM (SELECT collection, change FROM records WHERE run = :run UNION ALL SELECT collection, change FROM revisions WHERE run = :run)
         GROUP BY collection),
       seen AS (SELECT collection, added, changed, removed FROM sweeps WHERE run = :run)
       SELECT collection FROM (SELECT collection FROM found UNION SELECT collection FROM seen)
       LEFT JOIN found f USING (collection) LEFT JOIN seen s USING (collection)
       WHERE ifnull(f.added, 0) <> ifnull(s.added, 0) OR ifnull(f.changed, 0) <> ifnull(s.changed, 0)
         OR ifnull(f.removed, 0) <> ifnull(s.removed, 0) OR f.rewritten > 0`,
    )
    .pluck(),
);

/** The digest of a run without changes. */
const NO_CHANGES = createHash('sha256').digest();

const CHANGING_AFTER = perConnection((connection) =>
  connection
    .prepare<{ after: number }, number>(
      `SELECT DISTINCT run FROM records WHERE run > :after UNION SELECT DISTINCT run FROM revisions WHERE run > :after`,
    )
    .pluck(),
);

/** Runs a generator to its end without yielding; returns its result. */
export function drain<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Reports rows of runs that are gone or were not published. */
function verifyOwners(connection: Connection, findings: Findings): void {
  const owners = [
    [MADE_REVISIONS, `SELECT DISTINCT run FROM all_revisions`, 'root IS NOT NULL'],
    ['took sweeps over', `SELECT DISTINCT run FROM carried_sweeps`, 'root IS NOT NULL'],
    ['has sweeps', `SELECT DISTINCT run FROM sweeps`, 'true'],
  ] as const;
  for (const [what, rows, isOwner] of owners) {
    const orphans = connection
      .prepare<[], number>(
        `SELECT run FROM (${rows}) WHERE run NOT IN (SELECT run FROM runs WHERE ${isOwner})`,
      )
      .pluck()
      .all();
    for (const run of orphans) {
      findings.add({ kind: 'chain', message: ownerlessText(connection, run, what), run });
    }
  }
}

const MADE_REVISIONS = 'made revisions';

function ownerlessText(connection: Connection, run: number, what = MADE_REVISIONS): string {
  const hasRow = connection.prepare<[number]>('SELECT 1 FROM runs WHERE run = ?').get(run) !== undefined;
  return `run ${run} ${what}, but ${hasRow ? 'was not published' : 'its row is gone'}`;
}

/**
 * The published runs after `after` and up to `upTo`, oldest first. A run without a source, as another program may leave it, has an
 * empty name, which no root covers. A digest that another program removed is empty, so that no digest equals it.
 */
export function readSealed(connection: Connection, after = 0, upTo = Number.MAX_SAFE_INTEGER): SealedRun[] {
  return connection
    .prepare<[number, number], SealedRun>(
      `SELECT r.run AS run, ifnull(s.name, '') AS source, r.outcome AS outcome, r.started_at AS startedAt, r.finished_at AS finishedAt,
         CAST(ifnull(r.change_digest, '') AS BLOB) AS changeDigest, CAST(ifnull(r.sweep_digest, '') AS BLOB) AS sweepDigest,
         CAST(r.previous_root AS BLOB) AS previousRoot, r.last_entry AS lastEntry,
         CAST(r.last_entry_hash AS BLOB) AS lastEntryHash, CAST(r.root AS BLOB) AS root
       FROM runs r LEFT JOIN sources s ON s.id = r.source WHERE r.root IS NOT NULL AND r.run > ? AND r.run <= ? ORDER BY r.run`,
    )
    .all(after, upTo);
}

/** A run whose root covers an entry of the audit log that is gone or altered: the latest one when it was sealed. */
export interface EntryUnlikeSealed {
  readonly run: number;
  readonly entry: number | null;
  readonly isGone: boolean;
}

/** All of these, oldest run first. */
export function entriesUnlikeSealed(connection: Connection): EntryUnlikeSealed[] {
  return connection
    .prepare<[], Omit<EntryUnlikeSealed, 'isGone'> & { readonly isGone: number }>(
      `SELECT r.run AS run, r.last_entry AS entry, a.entry IS NULL AS isGone
       FROM runs r LEFT JOIN audit_log a ON a.entry = r.last_entry
       WHERE r.root IS NOT NULL AND r.last_entry_hash IS NOT a.hash ORDER BY r.run`,
    )
    .all()
    .map(({ isGone, ...sealed }) => ({ ...sealed, isGone: isGone === 1 }));
}

/** A text that changes with each change: `data_version` with those of other connections, `total_changes()` with this one's own. */
export function fileState(connection: Connection): string {
  // A read-only connection changes temporary tables at most.
  const own = connection.readonly
    ? 0
    : connection.prepare<[], number>('SELECT total_changes()').pluck().get();
  return `${String(connection.pragma('data_version', { simple: true }))} ${own ?? 0}`;
}

/** `run 3 has the hash of entry 12 of the audit log, which is gone`. */
export function unlikeSealedText({ run, entry, isGone }: EntryUnlikeSealed): string {
  return `run ${run} has the hash of entry ${entry} of the audit log, which is ${isGone ? 'gone' : 'not the one with that hash'}`;
}

function isSame(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}

// What retention and moves did, as covered by the chain of seals.

/** In `forgets.policy` of a row that a move of the mirror wrote, not retention. */
export const MOVED_POLICY = '{"moved":1}';

/** The entry of the latest move, since which runs may have other numbers; 0 without one. */
export function lastMove(connection: Connection): number {
  const latest = connection.prepare<[], number | null>(
    `SELECT max(entry) FROM audit_log WHERE action = 'move'`,
  );
  return latest.pluck().get() ?? 0;
}

/** True for a row of `mirror move`. */
export function isMove({ policy }: Pick<StoredForget, 'policy'>): boolean {
  return policy === MOVED_POLICY;
}

/** Checks all forgets, notes what they did, and returns the link that the first sealed run has to follow. */
function verifyForgets(
  connection: Connection,
  runs: readonly SealedRun[],
  findings: Findings,
): Buffer | null {
  let before: StoredForget | undefined;
  const noted: [NotedForget, ...NotedForget[]][] = [];
  for (const row of readStoredForgets(connection)) {
    const { forget, tipRun } = row;
    const problem = (message: string): void => findings.add({ kind: 'chain', message, run: tipRun });
    if (forget !== (before?.forget ?? 0) + 1)
      problem(`forget ${forget} does not follow the forget before it`);
    if (!linkOf(row, before).equals(row.link))
      problem(`the row of forget ${forget} was changed after it was written`);
    if (!digestReplaced(connection, forget).equals(row.replacedDigest)) {
      problem(`the root hashes that forget ${forget} replaced do not match its hash`);
    }
    // A move writes a row for each mirror that the new file was made from.
    const last = noted.at(-1);
    const shown = { ...row, via: viaOf(connection, row) };
    if (last !== undefined && isSameMove(row, last[0])) last.push(shown);
    else noted.push([shown]);
    before = row;
  }
  const latestMove = noted.findLast(([row]) => isMove(row));
  for (const rows of noted) {
    const { tipRun, at } = rows.at(-1) ?? rows[0];
    try {
      const message = isMove(rows[0]) ? moveNote(rows, { isLatest: rows === latestMove }) : noteOf(rows[0]);
      findings.note({ message, run: tipRun, at });
    } catch (error) {
      // The link shows that unreadable JSON was altered.
      if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
    }
  }
  if (before === undefined) return null;
  const { forget, tipRun, rootAfter } = before;
  if (runs.find(({ run }) => run === tipRun)?.root.equals(rootAfter) !== true) {
    findings.add({
      kind: 'chain',
      message: `the root hash of run ${tipRun} is not the one that forget ${forget} gave it`,
      run: tipRun,
    });
  }
  return before.link;
}

interface NotedForget extends StoredForget {
  readonly via: string | null;
}

/** How the program knew who did it, by the audit log's entry; null if there is none with that name. */
function viaOf(connection: Connection, { forget, by }: Pick<StoredForget, 'forget' | 'by'>): string | null {
  const via = connection.prepare<[string, string], string>(
    `SELECT via FROM audit_log WHERE about = 'forgets' AND member = ? AND "by" = ? ORDER BY entry LIMIT 1`,
  );
  return via.pluck().get(JSON.stringify([forget]), by) ?? null;
}

function isSameMove(one: StoredForget, other: StoredForget): boolean {
  return isMove(one) && isMove(other) && one.at === other.at && one.by === other.by;
}

/** @param isLatest true for the move that made this file */
function moveNote(
  rows: readonly [NotedForget, ...NotedForget[]],
  { isLatest }: { readonly isLatest: boolean },
): string {
  const [{ at, by }] = rows;
  const via = rows.find((row) => row.via !== null)?.via ?? null;
  const before = rootsText(rows, ({ rootBefore }) => rootBefore);
  // If several mirrors became one, the last row has the new root.
  const sealed = rows.filter(({ rootBefore, rootAfter }) => !rootAfter.equals(rootBefore));
  const after = rootsText(sealed.length === 0 ? rows.slice(-1) : sealed, ({ rootAfter }) => rootAfter);
  const what = isLatest ? 'this file was made' : 'a file from which this one comes was made';
  return `${what} by \`mirror move\` on ${at} by ${whoText({ by, via })}; the root hash of the mirror until then was ${before}, from then on ${after}`;
}

/** The roots, each with its sources, unless all rows have the same sources, as after a split. */
function rootsText(rows: readonly StoredForget[], rootOf: (row: StoredForget) => Buffer): string {
  const byRoot = [...Map.groupBy(rows, (row) => rootOf(row).toString('hex'))];
  if (new Set(rows.map(({ sources }) => sources)).size === 1) return byRoot.map(([root]) => root).join(', ');
  return byRoot
    .map(([root, own]) => {
      const sources = own.flatMap((row) => JSON.parse(row.sources) as string[]);
      return `${root} (${sources.join(', ')})`;
    })
    .join(', ');
}

function noteOf(row: NotedForget): string {
  const ranges = JSON.parse(row.runs) as [number, number][];
  const runs = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
  const policy = policyText(JSON.parse(row.policy) as RetentionPolicy);
  const [before, after] = [row.rootBefore, row.rootAfter].map((root) => root.toString('hex'));
  return (
    `retention dropped ${row.runCount === 1 ? 'run' : 'runs'} ${runs} on ${row.at} by ${whoText(row)} (keep ${policy}); ` +
    `the root hash of run ${row.tipRun} until then was ${before ?? ''}, from then on ${after ?? ''}`
  );
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

/** A retention policy in words: `last 7, daily 30, within 12 h`. @internal */
export function policyText(policy: RetentionPolicy): string {
  const { withinMs = 0, ...counts } = policy;
  const rules = Object.entries(counts).filter(([, count]) => count > 0);
  return [
    ...rules.map(([rule, count]) => `${rule} ${count}`),
    ...(withinMs > 0 ? [`within ${spanText(withinMs)}`] : []),
  ].join(', ');
}

function spanText(ms: number): string {
  const [unit, length] = UNITS.find(([, size]) => ms % size === 0) ?? ['ms', 1];
  return `${ms / length} ${unit}`;
}

/** What has a seal that somebody noted, or that is in a backup's manifest. */
export type FoundSeal =
  | { readonly status: 'run'; readonly run: number }
  | {
      readonly status: 'entry';
      readonly entry: number;
      readonly action: string;
      readonly by: string;
      readonly via: string;
    }
  | {
      readonly status: 'replaced';
      readonly run: number;
      /** The run that has its changes now; null if the run itself stayed. */
      readonly into: number | null;
      readonly forget: number;
      /** What replaced it. */
      readonly how: 'forget' | 'move';
      readonly at: string;
      readonly by: string;
      /** Null if the audit log has no entry for it. */
      readonly via: string | null;
    };

/** As `Mirror.findSeal`. */
export function findSeal(connection: Connection, seal: Buffer): FoundSeal | undefined {
  const run = connection.prepare<[Buffer], number>(`SELECT run FROM runs WHERE root = ?`).pluck().get(seal);
  if (run !== undefined) return { status: 'run', run };
  const entry = connection
    .prepare<[Buffer], { entry: number; action: string; by: string; via: string }>(
      `SELECT entry, action, by, via FROM audit_log WHERE hash = ?`,
    )
    .get(seal);
  if (entry !== undefined) return { status: 'entry', ...entry };
  const replaced = connection
    .prepare<[Buffer], Omit<Extract<FoundSeal, { status: 'replaced' }>, 'status' | 'via'>>(
      `SELECT r.run AS run, r.into_run AS "into", f.forget AS forget, iif(f.policy = '${MOVED_POLICY}', 'move', 'forget') AS how, f.at AS at, f.forgotten_by AS by
       FROM replaced_roots r JOIN forgets f ON f.forget = r.forget WHERE r.root = ? ORDER BY f.forget LIMIT 1`,
    )
    .get(seal);
  if (replaced === undefined) return undefined;
  return { status: 'replaced', ...replaced, via: viaOf(connection, replaced) };
}
