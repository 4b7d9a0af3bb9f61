/** The demo with a few recordings instead of thousands, for tests that are not about their number: quick to make. */
import { createChance } from '../../src/server/seed/chance.ts';
import { demoConfiguration, recordingRecords, TERN_ID } from '../../src/server/seed/demo.ts';
import type { Seed, SeedRecord } from '../../src/server/seed/seed.ts';

/** More than the first that is shared. */
const RECORDINGS = 20;

export function smallDemo(): Seed {
  const { users, records } = demoConfiguration();
  return { users, records: [...records, ...recordingRecords(1, RECORDINGS, createChance(7_001))] };
}

/** Of that the organization Kittiwake only: of the other one, a command that reads everything asks for a dozen lists more. */
export function oneOrganization(): Seed {
  const { users, records } = smallDemo();
  const ofTern = ({ scope, body }: SeedRecord): boolean =>
    scope.organization_id === TERN_ID || body['id'] === TERN_ID;
  return { users, records: [...records].filter((record) => !ofTern(record)) };
}
