/**
 * `--seed demo`: Kittiwake Analytics, a company of about fifty people, and its small sister Tern & Söhne. It is the
 * same every time. The configuration (`demoConfiguration`) is in the file `config/demo.ndjson`, with a user or a record
 * on each line; the session recordings, which are many, are generated.
 */
import { readFileSync } from 'node:fs';
import { type JsonObject, type JsonValue, parseLossless } from '../../core/json.ts';
import { packageFile } from '../../core/package-root.ts';
import { createChance, type Chance, daysBefore, exactNumber } from './chance.ts';
import type { Seed, SeedRecord, SeedUser } from './seed.ts';

export const KITTIWAKE_ID = '0190b6f2-4c1e-4a57-9d3b-6e1f0a7c5d21';
export const TERN_ID = '0190c0aa-77d4-4e0b-8a42-93b5d1e8f604';

/** Recordings by project; one project has none. */
const RECORDINGS: readonly (readonly [projectId: number, count: number])[] = [
  [1, 2_000],
  [2, 700],
  [4, 300],
];

/** The entire demo. */
export function demoSeed(): Seed {
  const { users, records } = demoConfiguration();
  return { users, records: withRecordings(records) };
}

function* withRecordings(records: Iterable<SeedRecord>): Iterable<SeedRecord> {
  yield* records;
  for (const [projectId, count] of RECORDINGS) {
    yield* recordingRecords(projectId, count, createChance(7_000 + projectId));
  }
}

/** The demo without recordings and their sharing. */
export function demoConfiguration(): Seed & { readonly records: readonly SeedRecord[] } {
  const lines = readFileSync(packageFile('config', 'demo.ndjson'), 'utf8').trimEnd().split('\n');
  const users: SeedUser[] = [];
  const records: SeedRecord[] = [];
  for (const line of lines) {
    const parsed = parseLossless(line) as unknown as { readonly user: SeedUser } | SeedRecord;
    if ('user' in parsed) users.push(parsed.user);
    else records.push(parsed);
  }
  return { users, records };
}

// The demo's session recordings, newest first, a few of them shared.

const VISITORS = [
  'Ada Byron',
  'Bogdan Iliescu',
  'Çelik Demir',
  'Dörte Maß',
  '王小明',
  'Fatou Diop',
  'Γιώργος Νικολάου',
  'harbour cat 🐈',
  null,
];
const PAGES = ['/', '/pricing', '/docs/über-uns', '/checkout?step=2', '/app/boards/42', '/signup#plan'];

/** About one recording of this many is shared. */
const SHARED_EVERY = 250;
const MINUTES_APART = 7;

export function* recordingRecords(projectId: number, count: number, chance: Chance): Iterable<SeedRecord> {
  const scope = { project_id: String(projectId) };
  for (let index = 0; index < count; index += 1) {
    const id = chance.uuid();
    yield { kind: 'session_recordings', scope, body: recordingBody(id, projectId, index, chance) };
    if (index % SHARED_EVERY !== 17) continue;
    yield {
      kind: 'recording_sharing',
      scope,
      id,
      body: {
        created_at: daysBefore(0, index * MINUTES_APART * 60_000),
        enabled: index % (2 * SHARED_EVERY) === 17,
        access_token: chance.token('', 30),
      },
    };
  }
}

/** With two decimals, as a service with a decimal column writes it: `12.50`. */
function exactTenths(tenths: number): JsonValue {
  return exactNumber(`${Math.floor(tenths / 10)}.${tenths % 10}0`);
}

function recordingBody(id: string, projectId: number, index: number, chance: Chance): JsonObject {
  const seconds = chance.between(3, 1_800);
  const activeTenths = chance.between(1, seconds * 10);
  const startedAgoMs =
    (index * MINUTES_APART + chance.between(0, MINUTES_APART - 1)) * 60_000 + seconds * 1000;
  const visitor = chance.between(0, VISITORS.length - 1);
  const name = VISITORS[visitor] ?? null;
  const distinctId = `visitor-${projectId}-${visitor}-${index % 13}`;
  return {
    id,
    distinct_id: distinctId,
    viewed: chance.often(0.2),
    recording_duration: seconds,
    active_seconds: exactTenths(activeTenths),
    inactive_seconds: exactTenths(seconds * 10 - activeTenths),
    start_time: daysBefore(0, startedAgoMs),
    end_time: daysBefore(0, startedAgoMs - seconds * 1000),
    click_count: chance.between(0, 90),
    keypress_count: chance.between(0, 400),
    mouse_activity_count: chance.between(0, 2_000),
    console_log_count: chance.between(0, 40),
    console_warn_count: chance.between(0, 9),
    console_error_count: chance.between(0, 3),
    start_url: `https://app-${projectId}.kittiwake.example${chance.pick(PAGES)}`,
    person:
      name === null
        ? null
        : {
            id: projectId * 1_000 + visitor,
            name,
            distinct_ids: distinctId,
            properties: {
              plan: chance.pick(['free', 'team', 'scale']),
              crm_id: exactNumber(String(9_007_199_254_740_993n + BigInt(visitor))),
            },
            created_at: daysBefore(100 + visitor),
            uuid: `00000000-0000-4000-9000-00000000${String(projectId).padStart(2, '0')}${String(visitor).padStart(2, '0')}`,
          },
    storage: index % 40 === 0 ? 'object_storage_lts' : 'object_storage',
    snapshot_source: chance.pick(['web', 'web', 'mobile']),
    ongoing: index === 0,
  };
}
