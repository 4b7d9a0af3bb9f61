/** The demo with a few recordings instead of thousands, for tests that are not about their number: quick to make. */
import { createChance } from '../../src/server/seed/chance.ts';
import { demoConfiguration, recordingRecords } from '../../src/server/seed/demo.ts';
import type { Seed } from '../../src/server/seed/seed.ts';

/** More than the first that is shared. */
const RECORDINGS = 20;

export function smallDemo(): Seed {
  const { users, records } = demoConfiguration();
  return { users, records: [...records, ...recordingRecords(1, RECORDINGS, createChance(7_001))] };
}
