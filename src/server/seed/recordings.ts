/** The demo's session recordings, newest first, a few of them shared. */
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { type Chance, daysBefore, exactNumber } from './chance.ts';
import type { SeedRecord } from './seed.ts';

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

/** About one in so many recordings is shared. */
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
