/**
 * Runs that are not the newest one of their source any more, since another program deleted or altered their rows: the run before
 * them passes for the newest, with the records that they left.
 */
import type { Connection } from './database.ts';
import { readRuns } from './run-rows.ts';
import { type SealRange, type UnlikeSealedRun, runsUnlikeSealed } from './row-seals.ts';
import { discontinuousText, fileState } from './verify-chain.ts';

/**
 * What is wrong with the rows of the newest published run of a source (of all sources: null) and of those after it, in a line each. Empty in
 * a mirror that only Tidemark wrote. Reads the seals again only after the file changed.
 */
export function hiddenRuns(connection: Connection, source: string | null): readonly string[] {
  return foundOnce(connection, `hidden:${source ?? ''}`, () => findHidden(connection, source));
}

/** The lines of all rows of runs that are not as they were recorded. Reads them again only after the file changed. */
export function alteredRunLines(connection: Connection): readonly string[] {
  return foundOnce(connection, 'altered', () => alteredRunRows(connection, {}).map(({ line }) => line));
}

/**
 * The rows of runs in a range that do not match their seals, and those whose root hash does not continue that of the run before
 * them, unless the row of a run in between is named as gone.
 */
export function alteredRunRows(connection: Connection, range: SealRange): UnlikeSealedRun[] {
  const { from = 0, upTo = Number.MAX_SAFE_INTEGER } = range;
  const unlike = runsUnlikeSealed(connection, range);
  const breaks = breaksOfChain(connection).filter(({ run }) => run >= from && run <= upTo);
  return [
    ...unlike,
    ...breaks.flatMap(({ run, before }) =>
      unlike.some((each) => each.isGone && each.run > before && each.run < run)
        ? []
        : { run, line: discontinuousText(run), isGone: false },
    ),
  ];
}

/** What shows that a published run is gone, or has another root hash: the rows that are named as gone, else each place in the chain. */
export function brokenChainLines(connection: Connection): readonly string[] {
  return foundOnce(connection, 'chain', () => {
    const breaks = breaksOfChain(connection);
    if (breaks.length === 0) return [];
    const gone = runsUnlikeSealed(connection, {}).filter(({ isGone }) => isGone);
    return gone.length > 0 ? gone.map(({ line }) => line) : breaks.map(({ run }) => discontinuousText(run));
  });
}

/** Published runs whose root does not continue that of the published run before them, or what retention or a move says. */
function breaksOfChain(connection: Connection): { readonly run: number; readonly before: number }[] {
  return connection.prepare<[], { run: number; before: number }>(BREAKS).all();
}

const BREAKS = `SELECT run, before FROM (
    SELECT run, lag(run, 1, 0) OVER (ORDER BY run) AS before, CAST(previous_root AS BLOB) AS previous,
      lag(CAST(root AS BLOB), 1, (SELECT link FROM forgets ORDER BY forget DESC LIMIT 1)) OVER (ORDER BY run) AS root
    FROM runs WHERE root IS NOT NULL)
  WHERE previous IS NOT root ORDER BY run`;

function foundOnce(connection: Connection, what: string, find: () => readonly string[]): readonly string[] {
  // As of one moment: a run is published with its seal.
  return connection.transaction(() => {
    const state = fileState(connection);
    const known = FOUND.get(connection);
    const found = known?.state === state ? known.found : new Map<string, readonly string[]>();
    const lines = found.get(what) ?? find();
    found.set(what, lines);
    FOUND.set(connection, { state, found });
    return lines;
  })();
}

const FOUND = new WeakMap<
  Connection,
  { readonly state: string; readonly found: Map<string, readonly string[]> }
>();

function findHidden(connection: Connection, source: string | null): readonly string[] {
  const of = source === null ? {} : { source };
  const newest = readRuns(connection, { ...of, isPublished: true, limit: 1 })[0]?.run ?? 0;
  const unlike = runsUnlikeSealed(connection, { from: newest, source });
  const lines = new Map([
    ...connection
      .prepare<{ newest: number }, number>(WITHOUT_ROW)
      .pluck()
      .all({ newest })
      .map((run): [number, string] => [
        run,
        `the row of run ${run} is gone, though the mirror has what it read`,
      ]),
    ...connection
      .prepare<[number], number>(WITHOUT_ROOT)
      .pluck()
      .all(newest)
      .map((run): [number, string] => [run, `the root hash of run ${run} is gone`]),
    ...unlike.map(({ run, line }): [number, string] => [run, line]),
  ]);
  const sourcesOf = connection.prepare<[number], string>(SOURCES_OF).pluck();
  return [...lines]
    .filter(([run]) => {
      // Whose it was, what it read says; without that, it may have been anybody's.
      const own = sourcesOf.all(run);
      return source === null || own.length === 0 || own.includes(source);
    })
    .sort(([one], [other]) => one - other)
    .map(([, line]) => line);
}

/** Runs of which no row is left, and perhaps no seal. */
const WITHOUT_ROW = `SELECT run FROM (SELECT run FROM sweeps WHERE run > @newest UNION SELECT run FROM records WHERE run > @newest)
  WHERE run NOT IN (SELECT run FROM runs) ORDER BY run`;

/** Runs that were published, and do not say so. */
const WITHOUT_ROOT = `SELECT run FROM runs WHERE run > ? AND root IS NULL AND outcome IN ('complete', 'partial')`;

const SOURCES_OF = `SELECT DISTINCT s.name FROM sweeps w JOIN collections c ON c.id = w.collection JOIN sources s ON s.id = c.source
  WHERE w.run = ?`;
