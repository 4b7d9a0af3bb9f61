/**
 * Merges the history of single records when runs are forgotten: what a forgotten run did is attributed to the next kept run of
 * its source, and several revisions become one, or none. Texts that a kept run shows stay the same byte for byte; those
 * that only forgotten runs show are deleted.
 */
import { createHash } from 'node:crypto';
import { and, asc, eq, inArray } from 'drizzle-orm';
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Connection } from './database.ts';
import { scanBody, stableHash, volatileMark } from './classify-record.ts';
import {
  type LatestRevision,
  type RevisionText,
  type StoredRevision,
  latestRevision,
  revisionsOf,
  textsOf,
} from './history.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { param, paramsOf, prepared, streamed } from './query.ts';
import { keepAgainst, keepWhole } from './replaced-body.ts';
import type { RetentionPolicy } from '../config/config.ts';
import { checks, records, revisions } from './schema/record-tables.ts';
import { forgets, replacedRoots } from './schema/retention-tables.ts';
import { collections } from './schema/source-tables.ts';
import { type SealingRule, readRules, ruleAt, ruleText } from './run-seals.ts';

/** A collection whose records are merged. */
export interface MergedCollection {
  readonly id: number;
  readonly kind: Kind;
  readonly source: number;
  readonly sourceName: string;
  /** As in `collections.scope`. */
  readonly scope: string;
}

export interface MergeOptions {
  /** Forgotten run → the kept run into which it is merged. */
  readonly into: ReadonlyMap<number, number>;
  /** The one comparison: true if two bodies of a kind of that source are equal by value. */
  readonly isEqual: (source: string, kind: Kind, oldText: string, newText: string) => boolean;
}

/** A revision after the merge. */
interface Merged {
  readonly run: number;
  readonly change: number;
  readonly text: string | null;
  readonly hash: Buffer | null;
}

/** Returns a function that merges the history of one record, within the transaction, and returns by how many revisions it got shorter. */
export function prepareMerge(
  writer: Connection,
  options: MergeOptions,
): (collection: MergedCollection, record: number) => number {
  const rulesOf = rememberRules(writer);
  const target = (run: number): number => options.into.get(run) ?? run;

  return (collection, record) => {
    const latest = latestRevision(writer, record);
    if (latest === undefined || latest.collection !== collection.id) throw broken(collection, record);
    const rules = rulesOf(collection);
    const chain = [...revisionsOf(writer, latest)];
    const targets = chain.map(({ run }) => target(run));
    const isPlainMove =
      new Set(targets).size === targets.length &&
      chain.every(({ run }, index) => isSameRule(rules, run, targets[index] ?? run));
    if (isPlainMove) {
      move(writer, latest, chain, target);
      return 0;
    }
    const texts = [...textsOf(writer, latest)].toReversed();
    for (const one of texts) checkText(collection, record, one, rules);
    const merged = merge(collection, texts, target, rules, options.isEqual);
    rewrite(writer, collection, latest, chain, merged, rules);
    return chain.length - merged.length;
  };
}

/** The merged revisions, oldest first, as `texts`. */
function merge(
  collection: MergedCollection,
  texts: readonly RevisionText[],
  target: (run: number) => number,
  rules: readonly SealingRule[],
  isEqual: MergeOptions['isEqual'],
): Merged[] {
  const merged: Merged[] = [];
  let before: string | null = null;
  for (const [run, group] of Map.groupBy(texts, ({ revision }) => target(revision.run))) {
    const last = group.at(-1);
    if (last === undefined) continue;
    const { text } = last;
    const change =
      group.length === 1
        ? REVISION_CHANGE[last.revision.change]
        : changeBetween(collection, before, text, isEqual);
    if (change !== undefined) merged.push({ run, change, text, hash: hashAt(last, run, rules) });
    before = text;
  }
  return merged;
}

/** The change from one text to another; undefined if they are the same. */
function changeBetween(
  { sourceName, kind }: MergedCollection,
  before: string | null,
  text: string | null,
  isEqual: MergeOptions['isEqual'],
): number | undefined {
  if (before === text) return undefined;
  if (before === null) return REVISION_CHANGE.added;
  if (text === null) return REVISION_CHANGE.removed;
  return isEqual(sourceName, kind, before, text) ? REVISION_CHANGE.rewritten : REVISION_CHANGE.changed;
}

/** The hash that the text has as of the new run, whose rule may leave out other volatile fields. */
function hashAt({ revision, text }: RevisionText, run: number, rules: readonly SealingRule[]): Buffer | null {
  if (text === null || isSameRule(rules, revision.run, run)) return revision.hash;
  return hashUnder(text, rules, run);
}

function hashUnder(text: string, rules: readonly SealingRule[], run: number): Buffer | null {
  const rule = ruleAt(rules, run);
  return rule === undefined ? null : stableHash(scanBody(text, rule.volatileFields));
}

function isSameRule(rules: readonly SealingRule[], one: number, other: number): boolean {
  if (one === other) return true;
  const [a, b] = [ruleAt(rules, one), ruleAt(rules, other)];
  if (a === b) return true;
  return a !== undefined && b !== undefined && ruleText(a.volatileFields) === ruleText(b.volatileFields);
}

/** Throws for a body that does not match its hash: otherwise a damaged text would get a valid seal. */
function checkText(
  collection: MergedCollection,
  record: number,
  { revision, text }: RevisionText,
  rules: readonly SealingRule[],
): void {
  if (text === null) return;
  const found = hashUnder(text, rules, revision.run);
  if (found === null || revision.hash?.equals(found) !== true) throw broken(collection, record);
}

const SET_NEWEST = prepared((db) => {
  const { record, run, change, ordinal, previous, hash, volatile } = paramsOf(records);
  return db
    .update(records)
    .set({ run, change, ordinal, previous, hash, volatile })
    .where(eq(records.record, record));
});

const MOVE_NEWEST = prepared((db) => {
  const { record, run, previous } = paramsOf(records);
  return db.update(records).set({ run, previous }).where(eq(records.record, record));
});

const DROP_RECORD = prepared((db) => db.delete(records).where(eq(records.record, param('record'))));

const IS_REVISION = and(
  eq(revisions.run, param('from')),
  eq(revisions.collection, param('collection')),
  eq(revisions.record, param('record')),
);

const MOVE_REVISION = prepared((db) => {
  const { run, previous } = paramsOf(revisions);
  return db.update(revisions).set({ run, previous }).where(IS_REVISION);
});

const DROP_REVISION = prepared((db) => db.delete(revisions).where(IS_REVISION));

const ADD_REVISION = prepared((db) => db.insert(revisions).values(paramsOf(revisions)));

/** Drops the check of a parent record, in the collection of that kind in the same scope. */
const DROP_CHECK = prepared((db) => {
  const collection = db
    .select({ id: collections.id })
    .from(collections)
    .where(
      and(
        eq(collections.source, param('source')),
        eq(collections.kind, param('kind')),
        eq(collections.scope, param('scope')),
      ),
    );
  return db
    .delete(checks)
    .where(and(inArray(checks.collection, collection), eq(checks.record, param('record'))));
});

/** Gives each revision its new run, where no two get the same one. `chain` is newest first. */
function move(
  writer: Connection,
  { record, collection, run: newest }: LatestRevision,
  chain: readonly StoredRevision[],
  target: (run: number) => number,
): void {
  for (const { run, previous } of chain) {
    const to = { run: target(run), previous: previous === null ? null : target(previous), record };
    if (to.run === run && to.previous === previous) continue;
    if (run === newest) MOVE_NEWEST(writer).run(to);
    else MOVE_REVISION(writer).run({ ...to, from: run, collection });
  }
}

/** Rewrites the history. `chain` is newest first, `merged` oldest first. */
function rewrite(
  writer: Connection,
  { kind, source, scope }: MergedCollection,
  { record, collection, body }: LatestRevision,
  chain: readonly StoredRevision[],
  merged: readonly Merged[],
  rules: readonly SealingRule[],
): void {
  for (const { run } of chain.slice(1)) DROP_REVISION(writer).run({ from: run, collection, record });
  for (const [index, { run, change, text, hash }] of merged.entries()) {
    const newer = merged[index + 1];
    const ordinal = index + 1;
    const revision = { record, run, change, ordinal, previous: merged[index - 1]?.run ?? null, hash };
    if (newer === undefined) {
      const rule = ruleAt(rules, run);
      const volatile =
        body === null || rule === undefined
          ? null
          : volatileMark(scanBody(body, rule.volatileFields).volatileText);
      SET_NEWEST(writer).run({ ...revision, volatile });
      continue;
    }
    const kept =
      text === null ? null : newer.text === null ? keepWhole(text) : keepAgainst(text, newer.text, ordinal);
    const stored = { encoding: kept?.encoding ?? null, body: kept?.bytes ?? null };
    ADD_REVISION(writer).run({ ...revision, collection, ...stored });
  }
  if (merged.length > 0) return;
  // No kept run shows the record: it is deleted with its number.
  DROP_RECORD(writer).run({ record });
  for (const each of CATALOG)
    if (each.reading === 'each' && each.discovery.from === kind)
      DROP_CHECK(writer).run({ source, kind: each.kind, scope, record });
}

function rememberRules(writer: Connection): (collection: MergedCollection) => readonly SealingRule[] {
  const known = new Map<string, readonly SealingRule[]>();
  return ({ source, kind }) => {
    const key = `${source} ${kind}`;
    const rules = known.get(key) ?? readRules(writer, source, kind);
    known.set(key, rules);
    return rules;
  };
}

/** The error for a history that does not match its hashes: it must not get new seals. */
export function broken(collection: MergedCollection, record: number): TidemarkError {
  return new TidemarkError(
    'mirror_corrupt',
    `the history of record ${record} of ${collection.kind} does not match its hashes: nothing was forgotten`,
    { hint: '`tidemark verify` names everything that is damaged; restore a backup of the mirror' },
  );
}

// The chain of seals across a forget: all runs get new roots, and the first run follows a link that commits to what was dropped, why,
// and every root that was replaced. So a root that somebody noted can always be found.

/** A row of `forgets`, roots in hex. */
interface ForgetRow {
  /** Numbered from 1. */
  readonly forget: number;
  /** ISO 8601. */
  readonly at: string;
  /** Who did it. */
  readonly by: string;
  readonly policy: RetentionPolicy;
  /** Names of the sources that it processed. */
  readonly sources: readonly string[];
  /** The runs that were dropped, as ranges. */
  readonly runs: readonly (readonly [first: number, last: number])[];
  readonly runCount: number;
  /** The latest sealed run at that time. */
  readonly tipRun: number;
  /** Its root before, and after. */
  readonly rootBefore: string;
  readonly rootAfter: string;
}

/** A row as stored: its texts are sealed, not their meaning. */
export type StoredForget = typeof forgets.$inferSelect;

/** Oldest first. */
export function readStoredForgets(connection: Connection): StoredForget[] {
  return FORGETS(connection).all();
}

const FORGETS = prepared((db) => db.select().from(forgets).orderBy(asc(forgets.forget)));

/** Oldest first. */
export function readForgets(connection: Connection): ForgetRow[] {
  return readStoredForgets(connection).map(({ forget, at, by, runCount, tipRun, ...row }) => ({
    ...{ forget, at, by, runCount, tipRun },
    policy: JSON.parse(row.policy) as RetentionPolicy,
    sources: JSON.parse(row.sources) as string[],
    runs: JSON.parse(row.runs) as [number, number][],
    rootBefore: row.rootBefore.toString('hex'),
    rootAfter: row.rootAfter.toString('hex'),
  }));
}

/** The link of a forget. @param before the previous forget */
export function linkOf(
  facts: Omit<StoredForget, 'link' | 'rootAfter'>,
  before: Pick<StoredForget, 'link' | 'rootAfter'> | undefined,
): Buffer {
  const lines = [
    'tidemark.forget/1',
    before?.link.toString('hex') ?? '',
    before?.rootAfter.toString('hex') ?? '',
    String(facts.forget),
    facts.at,
    JSON.stringify(facts.by),
    // The stored texts on one line: JSON has no line breaks.
    JSON.stringify([facts.policy, facts.sources, facts.runs]),
    String(facts.runCount),
    String(facts.tipRun),
    facts.rootBefore.toString('hex'),
    facts.replacedDigest.toString('hex'),
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}

const REPLACED = streamed((db) =>
  db
    .select({ run: replacedRoots.run, root: replacedRoots.root, into: replacedRoots.intoRun })
    .from(replacedRoots)
    .where(eq(replacedRoots.forget, param('forget')))
    .orderBy(asc(replacedRoots.run)),
);

/** SHA-256 over the roots that a forget replaced, a line each (run, root, and into which run it was merged), in order of runs. */
export function digestReplaced(connection: Connection, forget: number): Buffer {
  const digest = createHash('sha256');
  for (const { run, root, into } of REPLACED(connection)({ forget })) {
    digest.update(`${run} ${root.toString('hex')} ${into ?? ''}\n`);
  }
  return digest.digest();
}
