/** What a pin vouches for: under which name, when, whether as the baseline, and which root it pinned. */
import { createHash } from 'node:crypto';
import type { Connection } from './database.ts';

/** A row of `snapshots` with what it is checked against. */
interface SealedSnapshot {
  readonly name: string;
  readonly run: number;
  readonly pinnedAt: string;
  readonly isBaseline: number;
  readonly seal: Buffer | null;
  /** Of the run as it is sealed now; null where there is no such run. */
  readonly root: Buffer | null;
}

/** By name. */
export function readSealedSnapshots(connection: Connection): SealedSnapshot[] {
  return connection
    .prepare<[], SealedSnapshot>(
      `SELECT s.name AS name, s.run AS run, s.pinned_at AS pinnedAt, s.is_baseline AS isBaseline, s.seal AS seal,
         r.root AS root FROM snapshots s LEFT JOIN runs r ON r.run = s.run ORDER BY s.name`,
    )
    .all();
}

export function snapshotSeal(facts: Omit<SealedSnapshot, 'seal'>): Buffer {
  const { name, run, pinnedAt, isBaseline, root } = facts;
  const text = JSON.stringify([name, run, pinnedAt, isBaseline, root?.toString('hex') ?? null]);
  return createHash('sha256').update(`tidemark.snapshot/1\n${text}`).digest();
}

/** True where the pin is as it was made. */
export function isSealed(snapshot: SealedSnapshot): boolean {
  return snapshot.root !== null && snapshot.seal?.equals(snapshotSeal(snapshot)) === true;
}

/** Seals every pin for the roots that its runs have now; whoever calls has checked the seals until now. */
export function resealSnapshots(writer: Connection): void {
  const seal = writer.prepare<[Buffer, string]>(`UPDATE snapshots SET seal = ? WHERE name = ?`);
  for (const snapshot of readSealedSnapshots(writer)) seal.run(snapshotSeal(snapshot), snapshot.name);
}
