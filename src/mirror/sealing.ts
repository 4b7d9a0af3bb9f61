/**
 * Seals: which members a stable hash leaves out, the digest of a run's changes, and the root that chains runs. A root
 * vouches for every record, revision and run up to it; `verify` computes all of them again.
 */
import { createHash } from 'node:crypto';
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';

/** Which members the stable hash of a kind leaves out, from `run` on. */
export interface SealingRule {
  readonly run: number;
  readonly volatileFields: ReadonlySet<string>;
}

/** As stored: equal sets give equal text. */
export function ruleText(fields: ReadonlySet<string>): string {
  return JSON.stringify([...fields].sort());
}

/** The rules of one kind of one source, oldest first. */
export function readRules(connection: Connection, source: number, kind: Kind): SealingRule[] {
  return connection
    .prepare<[number, string], { run: number; fields: string }>(
      `SELECT run, volatile_fields AS fields FROM sealing_rules WHERE source = ? AND kind = ? ORDER BY run`,
    )
    .all(source, kind)
    .map((row) => ({ run: row.run, volatileFields: new Set(JSON.parse(row.fields) as string[]) }));
}

/** The rule under which a revision of that run was made. */
export function ruleAt(rules: readonly SealingRule[], run: number): SealingRule | undefined {
  return rules.findLast((rule) => rule.run <= run);
}

/** Revisions read at a time for a digest. */
const DIGEST_SLICE = 5000;

/**
 * SHA-256 over a run's revisions in key order, a line each: collection, record, change, hash of the content (empty for
 * tombstones). Hands control back after each slice.
 */
export function* digestRun(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  // One text for a slice: a JavaScript object for every revision would cost three times as much.
  const slice = connection.prepare<[number, number, number, number], [string | null]>(
    `SELECT group_concat(collection || ' ' || record || ' ' || change || ' ' || ifnull(hex(hash), '') || char(10), '')
     FROM (SELECT collection, record, change, hash FROM revisions
           WHERE run = ? AND (collection, record) > (?, ?) ORDER BY collection, record LIMIT ?)`,
  );
  const sliceEnd = connection.prepare<
    [number, number, number, number],
    { collection: number; record: number }
  >(
    `SELECT collection, record FROM revisions WHERE run = ? AND (collection, record) > (?, ?)
     ORDER BY collection, record LIMIT 1 OFFSET ?`,
  );
  slice.raw();
  let from = { collection: 0, record: 0 };
  for (;;) {
    const [text] = slice.get(run, from.collection, from.record, DIGEST_SLICE) ?? [null];
    if (text !== null) digest.update(text);
    const end = sliceEnd.get(run, from.collection, from.record, DIGEST_SLICE - 1);
    if (end === undefined) return digest.digest();
    from = end;
    yield undefined;
  }
}

/** What a root vouches for. */
export interface RootFacts {
  readonly previousRoot: Buffer | null;
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly changeDigest: Buffer;
}

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
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}
