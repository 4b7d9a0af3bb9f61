/**
 * Runs that another program hid by deleting or altering their rows: an earlier run then passes for the newest one of the source, with
 * the records of the hidden run. And what is wrong with the audit log, whose latest entries the rows of runs prove.
 */
import { brokenEntry, type BrokenEntry } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { readRuns } from './run-rows.ts';
import { type SealRange, type UnlikeSealedRun, runsUnlikeSealed } from './row-seals.ts';
import {
  discontinuousText,
  entriesUnlikeSealed,
  fileState,
  runsUnlikeRoot,
  unlikeSealedText,
} from './verify-chain.ts';

/**
 * A line for each thing that is wrong with the row of the newest published run of a source (null: of all sources) or of a later run.
 * Empty in a mirror that only Tidemark wrote. Reads the seals again only after the file changed.
 */
export function hiddenRuns(connection: Connection, source: string | null): readonly string[] {
  return foundOnce(connection, `hidden:${source ?? ''}`, () => findHidden(connection, source));
}

/** A line for each run whose row is not as it was recorded. Reads the rows again only after the file changed. */
export function alteredRunLines(connection: Connection): readonly string[] {
  return foundOnce(connection, 'altered', () => alteredRunRows(connection, {}).map(({ line }) => line));
}

/**
 * The runs in a range whose rows do not match their seals or root hashes, and those whose root hash does not continue the previous
 * run's, unless another listed row explains that.
 */
export function alteredRunRows(
  connection: Connection,
  range: Pick<SealRange, 'from' | 'upTo'>,
): UnlikeSealedRun[] {
  const { from = 0, upTo = Number.MAX_SAFE_INTEGER } = range;
  const ended = runsUnlikeSealed(connection, range);
  const named = new Set(ended.map(({ run }) => run));
  const roots = runsUnlikeRoot(connection, range).filter(({ run }) => !named.has(run));
  const unlike = [...ended, ...roots.map((each) => ({ ...each, isGone: false }))];
  const breaks = breaksOfChain(connection).filter(({ run }) => run >= from && run <= upTo);
  return [
    ...unlike,
    ...breaks.flatMap(({ run, before }) =>
      unlike.some((each) => each.isGone && each.run > before && each.run < run) ||
      roots.some((each) => each.run === before || each.run === run)
        ? []
        : { run, line: discontinuousText(run), isGone: false },
    ),
  ];
}

/** Lines that show that a published run is gone, or has another root hash: the runs whose rows are gone, else each break in the chain. */
export function brokenChainLines(connection: Connection): readonly string[] {
  return foundOnce(connection, 'chain', () => {
    const breaks = breaksOfChain(connection);
    if (breaks.length === 0) return [];
    const gone = runsUnlikeSealed(connection, {}).filter(({ isGone }) => isGone);
    return gone.length > 0 ? gone.map(({ line }) => line) : breaks.map(({ run }) => discontinuousText(run));
  });
}

/** Published runs whose root does not continue that of the previous published run, or of the latest `forget` or move. */
function breaksOfChain(connection: Connection): { readonly run: number; readonly before: number }[] {
  return connection.prepare<[], { run: number; before: number }>(BREAKS).all();
}

const BREAKS = `SELECT run, before FROM (
    SELECT run, lag(run, 1, 0) OVER (ORDER BY run) AS before, CAST(previous_root AS BLOB) AS previous,
      lag(CAST(root AS BLOB), 1, (SELECT link FROM forgets ORDER BY forget DESC LIMIT 1)) OVER (ORDER BY run) AS root
    FROM runs WHERE root IS NOT NULL)
  WHERE previous IS NOT root ORDER BY run`;

/**
 * What is wrong with the audit log: an entry that a run sealed is gone or altered, the entries do not follow each other, or the row of
 * a run that proves where the log ends is gone or altered. Null if the log is as it was written. Reads the entire log and the rows of
 * all runs, again only after the file changed.
 */
export function alteredLog(connection: Connection): BrokenEntry | null {
  const [broken = null] = foundOnce(connection, 'log', () => {
    const found = findAlteredLog(connection);
    return found === null ? [] : [found];
  });
  return broken;
}

function findAlteredLog(connection: Connection): BrokenEntry | null {
  const [unlike] = entriesUnlikeSealed(connection);
  if (unlike !== undefined)
    return {
      entry: unlike.entry,
      text: `was ${unlike.isGone ? 'cut' : 'altered'}: ${unlikeSealedText(unlike)}`,
    };
  const broken = brokenEntry(connection);
  if (broken !== null) return broken;
  const unproved = unprovedEnd(connection);
  return unproved === null ? null : { entry: null, text: `may have been cut: ${unproved}` };
}

/**
 * Why it is not known which entry was the last one: a published run of any source that is gone or altered may have sealed a later
 * entry. A later run does not prove the opposite, as it seals the entry that it finds. Null if all rows are as they were sealed.
 */
function unprovedEnd(connection: Connection): string | null {
  const hasRoot = connection.prepare<[number]>('SELECT 1 FROM runs WHERE run = ? AND root IS NOT NULL');
  const [first] = [
    ...runsUnlikeRoot(connection, {}),
    // The root hash proves the row of a published run.
    ...runsUnlikeSealed(connection, {}).filter(({ run }) => hasRoot.get(run) === undefined),
    ...breaksOfChain(connection).map(({ run }) => ({ line: discontinuousText(run) })),
    ...lostRuns(connection, newestPublished(connection)),
  ];
  return first?.line ?? null;
}

/** The text of `alteredLog`, to follow the words "the audit log". */
export function alteredLogText(connection: Connection): string | null {
  return alteredLog(connection)?.text ?? null;
}

/** The same as a line of its own. @param altered from `alteredLogText` */
export function auditLogLine(altered: string): string {
  return `the audit log ${altered}`;
}

/** Calls `find` again only after the file changed. */
function foundOnce<T>(connection: Connection, what: string, find: () => readonly T[]): readonly T[] {
  // In one transaction, so that no run is published meanwhile.
  return connection.transaction(() => {
    const state = fileState(connection);
    const known = FOUND.get(connection);
    const found = known?.state === state ? known.found : new Map<string, readonly unknown[]>();
    const all = (found.get(what) as readonly T[] | undefined) ?? find();
    found.set(what, all);
    FOUND.set(connection, { state, found });
    return all;
  })();
}

const FOUND = new WeakMap<
  Connection,
  { readonly state: string; readonly found: Map<string, readonly unknown[]> }
>();

function findHidden(connection: Connection, source: string | null): readonly string[] {
  const newest = newestPublished(connection, source);
  const unlike = runsUnlikeSealed(connection, { from: newest, source });
  const lines = new Map(
    [...lostRuns(connection, newest), ...unlike].map(({ run, line }): [number, string] => [run, line]),
  );
  const sourcesOf = connection.prepare<[number], string>(SOURCES_OF).pluck();
  return [...lines]
    .filter(([run]) => {
      // Its sweeps say which source it was of; without them, it may have been any.
      const own = sourcesOf.all(run);
      return source === null || own.length === 0 || own.includes(source);
    })
    .sort(([one], [other]) => one - other)
    .map(([, line]) => line);
}

function newestPublished(connection: Connection, source: string | null = null): number {
  const of = source === null ? {} : { source };
  return readRuns(connection, { ...of, isPublished: true, limit: 1 })[0]?.run ?? 0;
}

/** Runs after the newest published one that left records or sweeps but no row, or that have no root hash although they were published. */
function lostRuns(connection: Connection, newest: number): { readonly run: number; readonly line: string }[] {
  const withoutRow = connection.prepare<{ newest: number }, number>(WITHOUT_ROW).pluck().all({ newest });
  const withoutRoot = connection.prepare<[number], number>(WITHOUT_ROOT).pluck().all(newest);
  return [
    ...withoutRow.map((run) => ({
      run,
      line: `the row of run ${run} is gone, though the mirror has what it read`,
    })),
    ...withoutRoot.map((run) => ({ run, line: `the root hash of run ${run} is gone` })),
  ];
}

/** Runs without a row, and perhaps without a seal. */
const WITHOUT_ROW = `SELECT run FROM (SELECT run FROM sweeps WHERE run > @newest UNION SELECT run FROM records WHERE run > @newest)
  WHERE run NOT IN (SELECT run FROM runs) ORDER BY run`;

/** Published runs without a root hash. */
const WITHOUT_ROOT = `SELECT run FROM runs WHERE run > ? AND root IS NULL AND outcome IN ('complete', 'partial')`;

const SOURCES_OF = `SELECT DISTINCT s.name FROM sweeps w JOIN collections c ON c.id = w.collection JOIN sources s ON s.id = c.source
  WHERE w.run = ?`;
