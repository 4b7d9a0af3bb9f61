/**
 * Seals: which members a stable hash leaves out, and the root that chains runs. A root vouches for every record, revision,
 * sweep and run up to it; `verify` computes all of them again.
 */
import { createHash } from 'node:crypto';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
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
    // Runs sealed by the first version are still verified by its rules.
    facts.sweepDigest === null ? 'tidemark.root/1' : 'tidemark.root/2',
    facts.previousRoot?.toString('hex') ?? '',
    String(facts.run),
    JSON.stringify(facts.source),
    facts.outcome,
    facts.startedAt,
    facts.finishedAt,
    facts.changeDigest.toString('hex'),
    ...(facts.sweepDigest === null ? [] : [facts.sweepDigest.toString('hex')]),
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}
