/**
 * Seals: which members a stable hash leaves out, and the root that chains runs. A root vouches for every record, revision,
 * sweep and run up to it; `verify` computes all of them again.
 */
import { and, asc, eq } from 'drizzle-orm';
import { createHash } from 'node:crypto';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import { sealingRules } from './schema/record-tables.ts';
import type { RunDigests } from './run-digests.ts';

/** Which members the stable hash of a kind leaves out, from `run` on. */
export interface SealingRule {
  readonly run: number;
  readonly volatileFields: ReadonlySet<string>;
}

/** As stored: equal sets give equal text. */
export function ruleText(fields: ReadonlySet<string>): string {
  return JSON.stringify([...fields].sort());
}

const RULES = prepared((db) => {
  const { source, kind, run, volatileFields } = sealingRules;
  return db
    .select({ run, fields: volatileFields })
    .from(sealingRules)
    .where(and(eq(source, param('source')), eq(kind, param('kind'))))
    .orderBy(asc(run))
    .prepare();
});

/** The rules of one kind of one source, oldest first. */
export function readRules(connection: Connection, source: number, kind: Kind): SealingRule[] {
  return RULES(connection)
    .all({ source, kind })
    .map(({ run, fields }) => ({ run, volatileFields: new Set(JSON.parse(fields) as string[]) }));
}

/** The rule under which a revision of that run was made. */
export function ruleAt(rules: readonly SealingRule[], run: number): SealingRule | undefined {
  return rules.findLast((rule) => rule.run <= run);
}

/** What a root vouches for. */
interface RootFacts extends RunDigests {
  readonly previousRoot: Buffer | null;
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
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
    facts.sweepDigest.toString('hex'),
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}
