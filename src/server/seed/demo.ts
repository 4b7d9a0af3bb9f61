/**
 * `--seed demo`: Kittiwake Analytics, a company of some fifty people, and its small sister Tern & Söhne. Two calls give
 * equal states. The configuration (`demoConfiguration`) is apart from the recordings, which are many.
 */
import type { Scope } from '../../catalog/definition.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { inviteRecords, memberRecords, roleRecords } from './access.ts';
import { kittiwakeExports, ternExports } from './batch-exports.ts';
import { createChance, type Chance, daysBefore, exactNumber } from './chance.ts';
import { componentRecords, sharedComponentRecords } from './components.ts';
import {
  type SeedOrganization,
  type SeedProject,
  domainRecords,
  organizationRecord,
  projectRecord,
  proxyRecords,
  WAREHOUSE_SETTINGS,
} from './organizations.ts';
import type { Seed, SeedRecord, SeedUser } from './seed.ts';

export const KITTIWAKE_ID = '0190b6f2-4c1e-4a57-9d3b-6e1f0a7c5d21';
export const TERN_ID = '0190c0aa-77d4-4e0b-8a42-93b5d1e8f604';

const KITTIWAKE_PROJECTS: readonly SeedProject[] = [
  { id: 1, name: 'Kittiwake Web', timezone: 'Europe/Oslo', isPrivate: false, settings: WAREHOUSE_SETTINGS },
  { id: 2, name: 'Kittiwake Mobile (β)', timezone: 'Europe/Oslo', isPrivate: true, settings: {} },
  { id: 3, name: 'Prototyping 🧪', timezone: 'UTC', isPrivate: false, settings: {} },
];
const TERN_PROJECTS: readonly SeedProject[] = [
  { id: 4, name: 'Tern Versand', timezone: 'Europe/Berlin', isPrivate: false, settings: {} },
];

/** Recordings by project; one project has none. */
const RECORDINGS: readonly (readonly [projectId: number, count: number])[] = [
  [1, 2_000],
  [2, 700],
  [4, 300],
];

const FIRST_COMPONENT_ID = 101;
const FIRST_TERN_COMPONENT_ID = 201;

/** The whole demo. */
export function demoSeed(): Seed {
  const { users, records } = demoConfiguration();
  return { users, records: chained(records) };
}

function* chained(records: Iterable<SeedRecord>): Iterable<SeedRecord> {
  yield* records;
  for (const [projectId, count] of RECORDINGS) {
    yield* recordingRecords(projectId, count, createChance(7_000 + projectId));
  }
}

/** Everything but recordings and their sharing. */
export function demoConfiguration(): Seed & { readonly records: readonly SeedRecord[] } {
  const people = createPeople(createChance(1));
  return {
    users: [...people.kittiwake, ...people.tern],
    records: [...kittiwakeRecords(people), ...ternRecords(people)],
  };
}

function kittiwakeRecords(people: People): SeedRecord[] {
  const chance = createChance(2);
  const organization: SeedOrganization = {
    id: KITTIWAKE_ID,
    name: 'Kittiwake Analytics',
    slug: 'kittiwake-analytics',
    ageDays: 1_100,
    enforce2fa: true,
    users: people.kittiwake,
  };
  const scope: Scope = { organization_id: organization.id };
  const [owner] = people.kittiwake;
  if (owner === undefined) throw new Error('the demo has no owner');
  return [
    organizationRecord(organization, chance),
    ...KITTIWAKE_PROJECTS.map((project, index) =>
      projectRecord(organization.id, project, 1_000 - index * 300, chance),
    ),
    ...memberRecords(scope, people.kittiwake, organization.ageDays, chance),
    ...roleRecords(
      scope,
      [
        { name: 'Data platform', members: [1, 2, 3, 7, 12, 19] },
        { name: 'Growth', members: [4, 5, 6, 10, 14, 22, 27] },
        { name: 'Support – Ebene 2', members: [8, 9, 13, 15, 21] },
        { name: 'Compliance & Datenschutz', members: [0, 1, 17] },
        { name: 'エンジニアリング', members: [2, 3, 11, 16, 18, 20, 23, 24, 25, 26, 30, 33] },
        { name: 'Contractors', members: [] },
        { name: 'Read only', members: [28, 29, 31, 32, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43] },
        { name: 'On-call', members: [1, 2, 7, 16, 26, 44, 45, 46, 47] },
      ],
      people.kittiwake,
      chance,
    ),
    ...inviteRecords(scope, KITTIWAKE_INVITES, owner, chance),
    ...domainRecords(
      organization.id,
      [
        { domain: 'kittiwake.example', isVerified: true, jit: false, sso: 'saml', saml: true },
        { domain: 'kittiwake.no.example', isVerified: true, jit: false, sso: '', saml: false },
        { domain: 'labs.kittiwake.example', isVerified: true, jit: true, sso: 'google-oauth2', saml: false },
        { domain: 'kittiwake-partners.example', isVerified: false, jit: false, sso: '', saml: false },
      ],
      chance,
    ),
    ...componentRecords(organization, FIRST_COMPONENT_ID, chance),
    ...kittiwakeExports(scope, [1, 2], chance),
    ...proxyRecords(
      organization.id,
      [
        'e.kittiwake.example',
        't.kittiwake.example',
        'metrics.kittiwake.no.example',
        'm.labs.kittiwake.example',
      ],
      owner,
      chance,
    ),
  ];
}

const KITTIWAKE_INVITES = [
  {
    email: 'solveig.aas@kittiwake.example',
    name: 'Solveig',
    level: 1,
    message: 'Velkommen! 🐦',
    isExpired: false,
    access: [],
  },
  {
    email: 'auditor@ledger-and-line.example',
    name: 'Marguerite',
    level: 1,
    message: null,
    isExpired: false,
    access: [{ id: 2, level: 'member' }],
  },
  {
    email: 'new.admin@kittiwake.example',
    name: 'Bjørn',
    level: 8,
    message: 'For the on-call rota',
    isExpired: false,
    access: [],
  },
  {
    email: 'praktikant@kittiwake.example',
    name: 'Jonas',
    level: 1,
    message: '',
    isExpired: false,
    access: [
      { id: 1, level: 'member' },
      { id: 2, level: 'admin' },
    ],
  },
  { email: 'x.ünal@kittiwake.example', name: 'Ünal', level: 1, message: null, isExpired: true, access: [] },
  {
    email: 'former.contractor@freelance.example',
    name: '',
    level: 1,
    message: null,
    isExpired: true,
    access: [],
  },
];

function ternRecords(people: People): SeedRecord[] {
  const chance = createChance(3);
  const organization: SeedOrganization = {
    id: TERN_ID,
    name: 'Tern & Söhne',
    slug: 'tern-sohne',
    ageDays: 500,
    enforce2fa: null,
    users: people.tern,
  };
  const scope: Scope = { organization_id: organization.id };
  // The owner of the larger organization is a member of the small one as well.
  const members = [...people.tern, ...people.kittiwake.slice(0, 1)];
  const [owner] = people.tern;
  if (owner === undefined) throw new Error('the demo has no owner');
  return [
    organizationRecord(organization, chance),
    ...TERN_PROJECTS.map((project) => projectRecord(organization.id, project, 480, chance)),
    ...memberRecords(scope, members, organization.ageDays, chance),
    ...roleRecords(scope, [{ name: 'Versand', members: [1, 2, 3] }], people.tern, chance),
    ...inviteRecords(
      scope,
      [
        {
          email: 'lehrling@tern-soehne.example',
          name: 'Mia',
          level: 1,
          message: null,
          isExpired: true,
          access: [],
        },
      ],
      owner,
      chance,
    ),
    ...domainRecords(
      organization.id,
      [{ domain: 'tern-soehne.example', isVerified: false, jit: false, sso: '', saml: false }],
      chance,
    ),
    ...sharedComponentRecords(organization, FIRST_TERN_COMPONENT_ID, chance),
    ...ternExports(scope, [4], chance),
    ...proxyRecords(organization.id, ['e.tern-soehne.example'], owner, chance),
  ];
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

/** One in about this many recordings is shared. */
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

// The demo's people.

const KITTIWAKE: readonly (readonly [string, string])[] = [
  ['Ingrid', 'Sørensen'],
  ['Tomás', 'Ó Súilleabháin'],
  ['Zoë', 'Łukasiewicz'],
  ['李', '明'],
  ['Nguyễn', 'Thị Hạnh'],
  ['Мария', 'Соколова'],
  ['Óscar', 'Núñez'],
  ['Aïcha', "N'Diaye"],
  ['山田', '花子'],
  ['Jürgen', 'Groß'],
  ['Priya', 'Ramanathan'],
  ['محمد', 'الفارسي'],
  ['Chloé', 'Lefèvre'],
  ['Dmitri', 'Kowalczyk'],
  ['Hana', 'Dvořáková'],
  ['Kwame', 'Mensah'],
  ['Freya', 'Lindqvist'],
  ['Σοφία', 'Παπαδοπούλου'],
  ['Rafael', 'Guimarães'],
  ['Elif', 'Yıldız'],
  ['נועה', 'לוי'],
  ['Owen', 'Prys-Jones'],
  ['Anaïs', 'Vandenberghe'],
  ['Jae-won', 'Park'],
  ['Birgit', 'Østergaard'],
  ['Siobhán', 'McKenna'],
  ['Luka', 'Đorđević'],
  ['Amara', 'Okonkwo'],
  ['Henrik', 'Mäkinen'],
  ['Lucía', 'Fernández-Mora'],
  ['Ravi', 'Chandrasekhar'],
  ['Milena', 'Jovanović'],
  ['Sam', 'Whitcombe'],
  ['Ngozi', 'Adeyemi'],
  ['Pål', 'Haugen'],
  ['Veronika', 'Šimková'],
  ['Abdul', 'Rahman Siddiqui'],
  ['Catarina', 'Vaz'],
  ['Gwendolyn', 'Ap Rhys'],
  ['Ole', 'Bjørnstad'],
  ['王', '秀英'],
  ['Thandiwe', 'Dlamini'],
  ['Matteo', "Dell'Acqua"],
  ['Ewa', 'Wójcik'],
  ['Iñaki', 'Etxeberria'],
  ['Lê', 'Quốc Bảo'],
  ['Annika', 'Ström'],
  ['Farid', 'Benali'],
];

const TERN: readonly (readonly [string, string])[] = [
  ['Mathilde', 'Brandt'],
  ['Piotr', 'Wiśniewski'],
  ['Yuki', '田中'],
  ['Eoin', 'Gallagher'],
  ['Rosa', 'Ibáñez'],
  ['Torben', 'Thomsen'],
];

interface People {
  /** In order of seniority; the first is the owner. */
  readonly kittiwake: readonly SeedUser[];
  readonly tern: readonly SeedUser[];
}

function createPeople(chance: Chance): People {
  let id = 0;
  const userOf =
    (domain: string) =>
    ([first_name, last_name]: readonly [string, string], index: number): SeedUser => {
      id += 1;
      const plain = `${first_name} ${last_name}`
        .normalize('NFKD')
        .replaceAll(/[^A-Za-z ]/g, '')
        .trim()
        .toLowerCase()
        .replaceAll(/ +/g, '.');
      return {
        id,
        uuid: chance.uuid(),
        distinct_id: chance.token('', 32),
        first_name,
        last_name,
        email: `${plain.length > 2 ? plain : `team.${index + 1}`}@${domain}`,
        is_email_verified: index % 9 !== 8,
        hedgehog_config:
          index % 4 === 0 ? { color: chance.pick(['sea', 'dusk', 'moss']), enabled: true } : null,
      };
    };
  return {
    kittiwake: KITTIWAKE.map(userOf('kittiwake.example')),
    tern: TERN.map(userOf('tern-soehne.example')),
  };
}
