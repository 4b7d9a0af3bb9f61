/**
 * How the chain of seals goes over a forget: runs that changed get new roots, and the first of them follows a link that
 * commits to what was dropped, why, and every root that it replaced. So a root that somebody noted can always be found.
 */
import { createHash } from 'node:crypto';
import type { Connection } from './database.ts';
import type { RetentionPolicy } from './retention.ts';

/** A row of `forgets`, roots in hex. */
export interface ForgetRow {
  /** 1 for the first, and so on. */
  readonly forget: number;
  /** When, ISO 8601. */
  readonly at: string;
  readonly policy: RetentionPolicy;
  /** Names of the sources that it looked at. */
  readonly sources: readonly string[];
  /** The runs that went, as ranges. */
  readonly runs: readonly (readonly [first: number, last: number])[];
  readonly runCount: number;
  /** The latest sealed run of that time. */
  readonly tipRun: number;
  /** Its root until then, and from then on. */
  readonly rootBefore: string;
  readonly rootAfter: string;
}

/** As stored: what is sealed is the text, not what it means. */
export interface StoredForget {
  readonly forget: number;
  readonly at: string;
  readonly policy: string;
  readonly sources: string;
  readonly runs: string;
  readonly runCount: number;
  readonly tipRun: number;
  readonly rootBefore: Buffer;
  readonly rootAfter: Buffer;
  readonly replacedDigest: Buffer;
  readonly link: Buffer;
}

/** Oldest first. */
export function readStoredForgets(connection: Connection): StoredForget[] {
  return connection
    .prepare<[], StoredForget>(
      `SELECT forget, at, policy, sources, runs, run_count AS runCount, tip_run AS tipRun, root_before AS rootBefore,
         root_after AS rootAfter, replaced_digest AS replacedDigest, link FROM forgets ORDER BY forget`,
    )
    .all();
}

/** Oldest first. */
export function readForgets(connection: Connection): ForgetRow[] {
  return readStoredForgets(connection).map((row) => ({
    forget: row.forget,
    at: row.at,
    policy: JSON.parse(row.policy) as RetentionPolicy,
    sources: JSON.parse(row.sources) as string[],
    runs: JSON.parse(row.runs) as [number, number][],
    runCount: row.runCount,
    tipRun: row.tipRun,
    rootBefore: row.rootBefore.toString('hex'),
    rootAfter: row.rootAfter.toString('hex'),
  }));
}

/** `before` is the forget before this one. */
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
    // Stored texts, each on a line of its own: JSON has no line breaks.
    JSON.stringify([facts.policy, facts.sources, facts.runs]),
    String(facts.runCount),
    String(facts.tipRun),
    facts.rootBefore.toString('hex'),
    facts.replacedDigest.toString('hex'),
  ];
  return createHash('sha256').update(lines.join('\n')).digest();
}

/** SHA-256 over the roots that a forget replaced: a line each, run, root and where the run went, in order of runs. */
export function digestReplaced(connection: Connection, forget: number): Buffer {
  const digest = createHash('sha256');
  const rows = connection.prepare<[number], { run: number; root: Buffer; into: number | null }>(
    `SELECT run, root, into_run AS "into" FROM replaced_roots WHERE forget = ? ORDER BY run`,
  );
  for (const { run, root, into } of rows.iterate(forget)) {
    digest.update(`${run} ${root.toString('hex')} ${into ?? ''}\n`);
  }
  return digest.digest();
}
