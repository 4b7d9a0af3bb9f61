/**
 * The seal of a run. Its root hash chains it to the previous run and covers two digests: of what the run changed (with the identity
 * of each record) and of what it saw of each collection; `verify` recomputes all of it. Names are hashed with internal numbers, so
 * that the meaning of a number cannot be changed. The digests are SQL as text, which defines them.
 */
import { type Hash, createHash } from 'node:crypto';
import { and, asc, desc, eq, sql } from 'drizzle-orm';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { pointerTo } from '../core/json-pointer.ts';
import type { Connection } from './database.ts';
import { parsed, readShapes } from './field-shapes-store.ts';
import { inJson, param, prepared, perConnection } from './query.ts';
import { IS_PUBLISHED } from './run-rows.ts';
import { sealingRules } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { DamagedRow } from './stored-names.ts';

/** Which members the stable hash of a kind leaves out, from `run` on. */
export interface SealingRule {
  readonly run: number;
  readonly volatileFields: ReadonlySet<string>;
}

/** The fields as they are stored: equal sets give equal texts. */
export function ruleText(fields: ReadonlySet<string>): string {
  return JSON.stringify([...fields].sort());
}

const RULES = prepared((db) => {
  const { source, kind, run, volatileFields } = sealingRules;
  return db
    .select({ run, fields: volatileFields })
    .from(sealingRules)
    .where(and(eq(source, param('source')), eq(kind, param('kind'))))
    .orderBy(asc(run));
});

/** The rules of one kind of one source, oldest first. @throws TidemarkError `mirror_corrupt` */
export function readRules(connection: Connection, source: number, kind: Kind): SealingRule[] {
  return RULES(connection)
    .all({ source, kind })
    .map(({ run, fields }) => {
      const names = parsed(fields);
      if (!Array.isArray(names))
        throw new DamagedRow(`which fields of ${kind} are volatile since run ${run} cannot be read`);
      return { run, volatileFields: new Set(names as string[]) };
    });
}

/** The same by the name of the source. */
export function readRulesOf(connection: Connection, source: string, kind: Kind): SealingRule[] {
  const found = NEWEST_OF_SOURCE(connection).get({ source });
  return found === undefined ? [] : readRules(connection, found.source, kind);
}

/** The rule under which a revision of that run was made. */
export function ruleAt(rules: readonly SealingRule[], run: number): SealingRule | undefined {
  return rules.findLast((rule) => rule.run <= run);
}

/**
 * The members whose values in a revision are not known as of a run, because a later run may have replaced them in place: they are
 * volatile under the revision's rule and under a later rule.
 */
function replacedSince(rules: readonly SealingRule[], revision: number, run: number): ReadonlySet<string> {
  const since = [ruleAt(rules, run + 1), ...rules.filter((rule) => rule.run > run + 1)];
  const then = ruleAt(rules, revision)?.volatileFields ?? new Set();
  return new Set([...then].filter((name) => since.some((rule) => rule?.volatileFields.has(name) === true)));
}

/**
 * Returns a function for the members whose values in a revision are not known as of a run; null for the newest run of the
 * collection's source, for which all are known.
 */
export function unknownMembers(
  connection: Connection,
  { id: collection, kind }: { readonly id: number; readonly kind: Kind },
  run: number,
): ((revision: number) => ReadonlySet<string>) | null {
  const found = NEWEST_RUN(connection).get({ collection });
  if (found === undefined || found.newest <= run) return null;
  const rules = readRules(connection, found.source, kind);
  const known = new Map<SealingRule | undefined, ReadonlySet<string>>();
  return (revision) => {
    const rule = ruleAt(rules, revision);
    const names = known.get(rule) ?? replacedSince(rules, revision, run);
    known.set(rule, names);
    return names;
  };
}

/** By kind, the members of a source's records whose values as of a run are not known; only kinds that have some. Empty for the newest run. */
export function readReplacedMembers(
  connection: Connection,
  source: string,
  run: number,
): ReadonlyMap<Kind, ReadonlySet<string>> {
  const found = NEWEST_OF_SOURCE(connection).get({ source });
  if (found === undefined || found.newest <= run) return new Map();
  return new Map(
    KINDS.flatMap((kind) => {
      const names = replacedSince(readRules(connection, found.source, kind), run, run);
      return names.size === 0 ? [] : [[kind, names] as const];
    }),
  );
}

/** By kind, the volatile fields of present records whose values as of a run are not known; empty for the newest run. */
export function readUnknownFields(
  connection: Connection,
  run: number,
  selected: Iterable<{ readonly id: number; readonly source: string; readonly kind: Kind }>,
): { readonly kind: Kind; readonly fields: readonly string[] }[] {
  const byKind = new Map<Kind, Set<string>>();
  // They are the same for all collections of a kind of one source.
  const seen = new Set<string>();
  for (const { id, source: name, kind } of selected) {
    const key = JSON.stringify([name, kind]);
    if (seen.has(key)) continue;
    seen.add(key);
    const names = unknownMembers(connection, { id, kind }, run)?.(run) ?? new Set();
    if (names.size === 0) continue;
    const source = NEWEST_RUN(connection).get({ collection: id })?.source ?? 0;
    const shapes = readShapes(connection, source, kind);
    const own = byKind.get(kind) ?? new Set<string>();
    for (const each of names) if (shapes.has(pointerTo([each]))) own.add(each);
    byKind.set(kind, own);
  }
  return [...byKind].flatMap(([kind, fields]) =>
    fields.size === 0 ? [] : [{ kind, fields: [...fields].sort() }],
  );
}

/** Backwards from the newest run, which is mostly of the source or close to one: `max` would read all its runs. */
const NEWEST_RUN = prepared((db) =>
  db
    .select({ source: runs.source, newest: runs.run })
    .from(runs)
    .where(
      and(
        eq(
          runs.source,
          db
            .select({ source: collections.source })
            .from(collections)
            .where(eq(collections.id, param('collection'))),
        ),
        IS_PUBLISHED,
      ),
    )
    .orderBy(desc(runs.run))
    .limit(1),
);

const NEWEST_OF_SOURCE = prepared((db) =>
  db
    .select({ source: sources.id, newest: sql<number>`max(${runs.run})` })
    .from(sources)
    .innerJoin(runs, and(eq(runs.source, sources.id), IS_PUBLISHED))
    .where(eq(sources.name, param('source')))
    .groupBy(sources.id),
);

/** What a root covers. */
interface RootFacts extends RunDigests {
  readonly previousRoot: Buffer | null;
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  /** The latest entry of the audit log; null if there is none. */
  readonly lastEntry: number | null;
  readonly lastEntryHash: Buffer | null;
}

/** The root hash of a run. */
export function rootOf(facts: RootFacts): Buffer {
  const lines = [
    'tidemark.root/1',
    facts.previousRoot?.toString('hex') ?? '',
    String(facts.run),
    JSON.stringify(facts.source),
    facts.outcome,
    facts.startedAt,
    facts.finishedAt,
    facts.changeDigest.toString('hex'),
    facts.sweepDigest.toString('hex'),
    `${facts.lastEntry ?? ''} ${facts.lastEntryHash?.toString('hex') ?? ''}`,
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}

export interface RunDigests {
  readonly changeDigest: Buffer;
  readonly sweepDigest: Buffer;
}

/** Rows per slice. */
const SLICE = { revisions: 1000, sweeps: 1000 } as const;

/** Computes both digests of a run; yields after each slice. */
export function* digestRun(connection: Connection, run: number): Generator<undefined, RunDigests> {
  const changeDigest = yield* digestChanges(connection, run);
  const sweepDigest = yield* digestSweeps(connection, run);
  return { changeDigest, sweepDigest };
}

/** The run's next collection after another one. */
const NEXT_COLLECTION = perConnection((connection) =>
  connection
    .prepare<{ run: number; after: number }, number | null>(
      `SELECT min(collection) FROM (SELECT min(collection) AS collection FROM records WHERE run = :run AND collection > :after
         UNION ALL SELECT min(collection) FROM revisions WHERE run = :run AND collection > :after)`,
    )
    .pluck(),
);

const IDENTITY = perConnection((connection) =>
  connection
    .prepare<[number], string>(
      `SELECT json_array(${['o.name', 'c.kind', 'c.scope'].map(inJson).join(', ')}) FROM collections c LEFT JOIN sources o ON o.id = c.source WHERE c.id = ?`,
    )
    .pluck(),
);

/**
 * One text for each slice: a JavaScript object for each revision would take three times as long. Both halves are in the order
 * of the records, so that SQLite merges them.
 */
const REVISIONS = perConnection((connection) =>
  connection
    .prepare<
      { run: number; collection: number; after: number },
      [text: string | null, last: number | null, count: number]
    >(
      `SELECT group_concat(record || ' ' || change || ' ' || ifnull(hex(hash), '') || ' ' || json_quote(${inJson('id')}) || char(10), ''),
         max(record), count(*)
       FROM (SELECT record, change, hash, remote_id AS id FROM records
             WHERE run = :run AND collection = :collection AND record > :after
             UNION ALL
             SELECT v.record, v.change, v.hash, (SELECT remote_id FROM records r WHERE r.record = v.record) FROM revisions v
             WHERE v.run = :run AND v.collection = :collection AND v.record > :after
             ORDER BY 1 LIMIT ${SLICE.revisions})`,
    )
    .raw(),
);

/**
 * SHA-256 over a run's revisions in key order: for each collection its number and, as JSON, its source, kind and scope;
 * under it a line for each revision: record, change, hash of the content (empty for tombstones), remote id as JSON.
 */
export function* digestChanges(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  let collection = NEXT_COLLECTION(connection).get({ run, after: 0 }) ?? null;
  while (collection !== null) {
    digest.update(`${collection} ${IDENTITY(connection).get(collection) ?? ''}\n`);
    let after = -1;
    for (;;) {
      const [text, last, count] = REVISIONS(connection).get({ run, collection, after }) ?? [null, null, 0];
      if (text !== null) digest.update(text);
      if (count > 0) yield undefined;
      if (last === null || count < SLICE.revisions) break;
      after = last;
    }
    collection = NEXT_COLLECTION(connection).get({ run, after: collection }) ?? null;
  }
  return digest.digest();
}

interface SealedRow {
  at: number;
  text: string;
}

/** SQL of a JSON array with what identifies a sweep's collection, and with columns of its row. */
function sweepJson(what: 'sweep' | 'carried', columns: readonly string[]): string {
  const values = ['s.collection', 'o.name', 'c.kind', 'c.scope', ...columns.map((column) => `s.${column}`)];
  return `json_array('${what}', ${values.map(inJson).join(', ')})`;
}

const SWEEP_JSON = sweepJson('sweep', [
  ...['outcome', 'mode', 'pages', 'count', 'records', 'added', 'changed', 'removed', 'unchanged', 'held'],
  ...['error_code', 'error'],
]);

const CARRIED_JSON = sweepJson('carried', [
  ...['seen_run', 'seen_at', 'is_published', 'outcome', 'mode', 'error_code', 'error'],
]);

const SWEEPS = perConnection((connection) =>
  connection.prepare<[run: number, after: number, limit: number], SealedRow>(
    `SELECT s.collection AS at, ${SWEEP_JSON} AS text
     FROM sweeps s LEFT JOIN collections c ON c.id = s.collection LEFT JOIN sources o ON o.id = c.source
     WHERE s.run = ? AND s.collection > ? ORDER BY s.collection LIMIT ?`,
  ),
);

const CARRIED_SWEEPS = perConnection((connection) =>
  connection.prepare<[run: number, after: number, limit: number], SealedRow>(
    `SELECT s.collection AS at, group_concat(${CARRIED_JSON}, char(10) ORDER BY s.seen_run) AS text
     FROM carried_sweeps s LEFT JOIN collections c ON c.id = s.collection LEFT JOIN sources o ON o.id = c.source
     WHERE s.run = ? AND s.collection > ? GROUP BY s.collection ORDER BY s.collection LIMIT ?`,
  ),
);

/** SHA-256 over a run's own sweeps, then those that it took over from dropped runs. */
export function* digestSweeps(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  yield* addRows(digest, (after, limit) => SWEEPS(connection).all(run, after, limit));
  yield* addRows(digest, (after, limit) => CARRIED_SWEEPS(connection).all(run, after, limit));
  return digest.digest();
}

function* addRows(
  digest: Hash,
  read: (after: number, limit: number) => SealedRow[],
): Generator<undefined, void> {
  let after = -1;
  for (;;) {
    const rows = read(after, SLICE.sweeps);
    for (const { at, text } of rows) {
      digest.update(`${text}\n`);
      after = at;
    }
    if (rows.length < SLICE.sweeps) return;
    yield undefined;
  }
}
