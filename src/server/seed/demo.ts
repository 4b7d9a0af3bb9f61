/**
 * `--seed demo`: Kittiwake Analytics, a company of some fifty people, and its small sister Tern & Söhne. Two calls give
 * equal states. The configuration (`demoConfiguration`) is apart from the recordings, which are many.
 */
import type { Scope } from '../../catalog/definition.ts';
import { inviteRecords, memberRecords, roleRecords } from './access.ts';
import { kittiwakeExports, ternExports } from './batch-exports.ts';
import { createChance } from './chance.ts';
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
import { type People, createPeople } from './people.ts';
import { recordingRecords } from './recordings.ts';
import type { Seed, SeedRecord } from './seed.ts';

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
