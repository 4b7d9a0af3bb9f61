import { describe, expect, it } from 'vitest';
import { isExecutable } from '../../src/restore/plan/plan.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { lines, ORG, organization, planOf, posthog, record, svc, withBody, type Changes } from './states.ts';

const own = record('members', 'own-user', { user: { uuid: 'own-user', email: 'own@k.example' }, level: 15 });
const ada = record('members', 'u-ada', {
  id: 'm1',
  user: { uuid: 'u-ada', email: 'ada@k.example', first_name: 'Ada' },
  level: 8,
});
const project = record('projects', '7', { id: 7, name: 'Web', timezone: 'UTC' });
const role = record('roles', 'r1', { id: 'r1', name: 'Analysts', created_at: '2026' });
const membership = record(
  'role_memberships',
  'rm1',
  { id: 'rm1', role_id: 'r1', user: { uuid: 'u-ada', email: 'ada@k.example' } },
  { organization_id: ORG, role_id: 'r1' },
);
const invite = record('invites', 'i1', {
  id: 'i1',
  target_email: 'new@k.example',
  first_name: 'New',
  level: 1,
  message: null,
  is_expired: false,
  private_project_access: [{ id: 7, level: 'admin' }],
  created_at: '2026',
});
const domain = record('domains', 'd1', {
  id: 'd1',
  domain: 'k.example',
  is_verified: true,
  jit_provisioning_enabled: true,
  sso_enforcement: 'saml',
  saml_entity_id: 'e',
  saml_acs_url: null,
  verification_challenge: 'old',
});
const component = record('pipeline_destinations', '12', {
  id: 12,
  plugin_type: 'local',
  name: 'GeoIP',
  url: 'file:x',
  tag: null,
  is_global: false,
  organization_id: ORG,
  metrics: { a: 1 },
  latest_tag: 'v2',
});
const exported = record('batch_exports', 'b1', {
  id: 'b1',
  team_id: 7,
  name: 'Nightly',
  model: 'events',
  destination: { type: 'NoOp', config: {} },
  interval: 'day',
  paused: false,
  last_paused_at: null,
  start_at: null,
  latest_runs: [],
  created_at: '2026',
});
const proxy = record('proxy_records', 'p1', { id: 'p1', domain: 'e.k.example', status: 'valid' });

const CNAME =
  'point its domain to target_cname by a CNAME record in DNS: until status is valid, the proxy is down';

const whole = [organization, project, role, membership, own, ada, invite, domain, component, exported, proxy];
const without = (...gone: ParsedRecord[]): ParsedRecord[] => whole.filter((each) => !gone.includes(each));
const changed = (base: ParsedRecord, body: object): ParsedRecord[] =>
  whole.map((each) => (each === base ? withBody(base, body) : each));
const prune: Changes = { options: { prune: { maxRemovals: 10 } } };

interface Case {
  readonly live: readonly ParsedRecord[];
  readonly changes?: Changes;
  readonly desired?: readonly ParsedRecord[];
  readonly steps: readonly string[];
}

const cases: Record<string, Case> = {
  'nothing where nothing differs': { live: whole, steps: [] },
  'nothing where only server-owned and volatile fields differ': {
    live: changed(exported, { latest_runs: [{ id: 'x' }], created_at: '2027', last_updated_at: 'now' }),
    steps: [],
  },
  'organizations: PATCH of the changed field only': {
    live: changed(organization, { enforce_2fa: false }),
    steps: [`update organizations PATCH … {"enforce_2fa":true}`.replace('…', `…/`)],
  },
  'members: the level': {
    live: changed(ada, { level: 1 }),
    steps: ['update members PATCH …/members/u-ada/ {"level":8}'],
  },
  'members: the own user is left alone': {
    live: changed(own, { level: 8 }),
    steps: ["blocked members: it is the key's own user, who is never changed"],
  },
  'members: a missing one is for a person, and its role waits': {
    live: without(ada, membership),
    steps: [
      'manual members: members cannot be created: invite the person, who comes back by accepting; --invite-missing sends the invite',
      'blocked role_memberships: its member is missing: restore again when it exists',
    ],
  },
  'members: --invite-missing invites without a mail': {
    live: without(ada, membership),
    changes: { options: { inviteMissing: true } },
    steps: [
      'create members POST …/invites/ {"target_email":"ada@k.example","first_name":"Ada","level":8,"send_email":false}',
      'blocked role_memberships: its member is missing: restore again when it exists',
    ],
  },
  'members: an open invite of the same level is waited for': {
    live: [
      ...without(ada, membership),
      record('invites', 'i9', { id: 'i9', target_email: 'Ada@k.example', first_name: 'Ada', level: 8 }),
    ],
    changes: { options: { inviteMissing: true } },
    desired: without(membership),
    steps: [
      'manual members: invited: comes back when the invite is accepted, without role memberships: after that, `tidemark restore test --kind role_memberships` brings them back; records of members do not hold access to single projects: give that by hand',
    ],
  },
  'roles: the name, when it changed': {
    live: changed(role, { name: 'Analyst' }),
    steps: ['update roles PATCH …/roles/r1/ {"name":"Analysts"}'],
  },
  'roles: the list of members follows from the memberships, and is no step of its own': {
    live: changed(role, { members: [{ id: 'rm2' }] }),
    desired: changed(role, { members: [{ id: 'rm1' }] }),
    changes: { definitions: svc },
    steps: [],
  },
  'components: a missing one of another organization is not ours to make': {
    live: without(component),
    desired: changed(component, { organization_id: 'org-9', is_global: true }),
    steps: ['blocked pipeline_destinations: it belongs to another organization'],
  },
  'roles and what hangs from them': {
    live: without(role, membership),
    steps: [
      'create roles POST …/roles/ {"name":"Analysts"}',
      'create role_memberships POST …/roles/{id of step 1}/role_memberships/ {"user_uuid":"u-ada"}',
    ],
  },
  'roles without a profile: blocked with the line that allows it': {
    live: without(role, membership),
    changes: { definitions: svc },
    steps: [
      'blocked roles: the API does not document which fields are writable; to allow it: definitions: { roles: { fields: { name: { type: any, writable: true } } } }',
      'blocked role_memberships: the API does not document which fields are writable; to allow it: definitions: { role_memberships: { fields: { user_uuid: { type: any, writable: true } } } }',
    ],
  },
  'projects without a profile: blocked on change': {
    live: changed(project, { timezone: 'CET' }),
    changes: { definitions: svc },
    steps: [
      'blocked projects: the API does not document which fields are writable; to allow it: definitions: { projects: { fields: { timezone: { type: any, writable: true } } } }',
    ],
  },
  'projects: created again, and references follow the new id as a number': {
    live: without(project, exported),
    steps: [
      'create projects POST …/projects/ {"name":"Web","timezone":"UTC"}',
      'create batch_exports POST /api/projects/{id of step 1}/batch_exports/ {"team_id":"{id of step 1}","name":"Nightly","model":"events","destination":{"type":"NoOp","config":{}},"interval":"day","paused":true,"last_paused_at":null,"start_at":null}',
      'act batch_exports POST …/batch_exports/{id of step 2}/unpause/ {}',
    ],
    desired: without(invite),
  },
  'invites: created again without a mail': {
    live: without(invite),
    steps: [
      'create invites POST …/invites/ {"target_email":"new@k.example","first_name":"New","level":1,"message":null,"private_project_access":[{"id":7,"level":"admin"}],"send_email":false}',
    ],
  },
  'invites: with a mail where asked': {
    live: without(invite),
    desired: [organization, record('invites', 'i1', { target_email: 'a@b', level: 1 })],
    changes: { options: { sendEmail: true } },
    steps: ['create invites POST …/invites/ {"target_email":"a@b","level":1,"send_email":true}'],
  },
  'invites: a changed one is blocked without --prune': {
    live: changed(invite, { level: 15 }),
    steps: [
      'blocked invites: invites cannot be changed; `tidemark restore test --kind invites --prune --max-removals 1` removes it and creates it again',
    ],
  },
  'invites: a changed one is created again, and then removed, with it': {
    live: changed(invite, { level: 15 }),
    changes: prune,
    steps: [
      'create invites POST …/invites/ {"target_email":"new@k.example","first_name":"New","level":1,"message":null,"private_project_access":[{"id":7,"level":"admin"}],"send_email":false}',
      'remove invites DELETE …/invites/i1/',
    ],
  },
  'invites: an accepted one is not missed': {
    live: [
      ...without(invite),
      record('members', 'u-new', { user: { uuid: 'u-new', email: 'NEW@k.example' }, level: 1 }),
    ],
    steps: [],
  },
  'invites: an expired one is for a person': {
    live: without(invite),
    desired: changed(invite, { is_expired: true }),
    steps: [
      'manual invites: it had expired, and a new invite would be open: invite by hand if that is wanted',
    ],
  },
  'domains: created, then DNS by hand, dependent fields afterwards': {
    live: without(domain),
    steps: [
      'create domains POST …/domains/ {"domain":"k.example","saml_entity_id":"e","saml_acs_url":null}',
      'manual domains: publish verification_challenge of the domain in DNS and have it verified (verification_challenge will be new: the report of the restore shows it); then restore again: sets jit_provisioning_enabled, sso_enforcement',
    ],
  },
  'domains: not yet verified, the dependent fields wait': {
    live: changed(domain, {
      is_verified: false,
      jit_provisioning_enabled: false,
      sso_enforcement: '',
      saml_entity_id: 'f',
    }),
    steps: [
      'manual domains: publish verification_challenge of the domain in DNS and have it verified (verification_challenge: old); then restore again: sets jit_provisioning_enabled, sso_enforcement',
      'update domains PATCH …/domains/d1/ {"saml_entity_id":"e"}',
    ],
  },
  'domains: verified, they are set': {
    live: changed(domain, { sso_enforcement: '' }),
    steps: ['update domains PATCH …/domains/d1/ {"sso_enforcement":"saml"}'],
  },
  'components: changed fields': {
    live: changed(component, { name: 'Geo', tag: 'v1', metrics: {} }),
    steps: ['update pipeline_destinations PATCH …/pipeline_destinations/12/ {"name":"GeoIP","tag":null}'],
  },
  'components: created with url by the profile that says so': {
    live: without(component),
    steps: [
      'create pipeline_destinations POST …/pipeline_destinations/ {"plugin_type":"local","name":"GeoIP","url":"file:x","tag":null,"is_global":false}',
    ],
  },
  'components: and without it by the interface alone': {
    live: without(component),
    desired: [organization, component],
    changes: { definitions: svc },
    steps: [
      'create pipeline_destinations POST …/pipeline_destinations/ {"plugin_type":"local","name":"GeoIP","tag":null,"is_global":false}',
    ],
  },
  'components: shown by two families, restored once': {
    live: without(component),
    desired: [...whole, { ...component, kind: 'plugins' }],
    steps: [
      'create pipeline_destinations POST …/pipeline_destinations/ {"plugin_type":"local","name":"GeoIP","url":"file:x","tag":null,"is_global":false}',
    ],
  },
  'components: of another organization are not ours': {
    live: changed(component, { organization_id: 'org-2', name: 'Theirs' }),
    desired: changed(component, { organization_id: 'org-2' }),
    steps: ['blocked pipeline_destinations: it belongs to another organization'],
  },
  'batch exports: stopped first, then changed, with the time of the pause': {
    live: changed(exported, { paused: false, name: 'x' }),
    desired: changed(exported, { paused: true, last_paused_at: '2026-01-01T00:00:00Z' }),
    steps: [
      'act batch_exports POST …/batch_exports/b1/pause/ {}',
      'update batch_exports PATCH /api/projects/7/batch_exports/b1/ {"name":"Nightly","last_paused_at":"2026-01-01T00:00:00Z"}',
    ],
  },
  'batch exports: changed first, then started': {
    live: changed(exported, { paused: true, interval: 'hour' }),
    steps: [
      'update batch_exports PATCH /api/projects/7/batch_exports/b1/ {"interval":"day"}',
      'act batch_exports POST …/batch_exports/b1/unpause/ {}',
    ],
  },
  'batch exports: not started while a part cannot be put back': {
    live: changed(exported, { paused: true, destination: { type: 'HTTP', config: { url: 'evil' } } }),
    desired: changed(exported, { destination: { type: 'HTTP', config: { url: 'good' } } }),
    changes: { definitions: svc },
    steps: [
      'blocked batch_exports: the API does not return the secrets: add them under secrets in the configuration',
      'blocked batch_exports: unpause waits: a part of the record cannot be restored',
    ],
  },
  'proxy records: a domain never changes': {
    live: changed(proxy, { domain: 'x.k.example' }),
    steps: ['blocked proxy_records: domain: it cannot be changed after creation'],
  },
  'proxy records: created by their domain': {
    live: without(proxy),
    steps: ['create proxy_records POST …/proxy_records/ {"domain":"e.k.example"}'],
  },
  'proxy records: created, then DNS by hand': {
    live: without(proxy),
    desired: changed(proxy, { target_cname: 'old.proxy.example' }),
    steps: [
      'create proxy_records POST …/proxy_records/ {"domain":"e.k.example"}',
      `manual proxy_records: ${CNAME} (target_cname will be new: the report of the restore shows it)`,
    ],
  },
  'proxy records: DNS by hand while it waits for its new target': {
    live: changed(proxy, { target_cname: 'new.proxy.example', status: 'waiting' }),
    desired: changed(proxy, { target_cname: 'old.proxy.example' }),
    steps: [`manual proxy_records: ${CNAME} (target_cname: new.proxy.example)`],
  },
  'proxy records: nothing once the new target is in DNS': {
    live: changed(proxy, { target_cname: 'new.proxy.example', status: 'valid' }),
    desired: changed(proxy, { target_cname: 'old.proxy.example' }),
    steps: [],
  },
  'proxy records: nothing by hand where the target is as before': {
    live: changed(proxy, { target_cname: 'old.proxy.example', status: 'waiting' }),
    desired: changed(proxy, { target_cname: 'old.proxy.example' }),
    steps: [],
  },
  'recordings: never': {
    live: without(),
    desired: [...whole, record('session_recordings', 's1', { id: 's1' }, { project_id: '7' })],
    steps: [],
  },
  'absent, null and empty are three values': {
    live: changed(component, { tag: '', icon: 'i' }),
    steps: [
      'blocked pipeline_destinations: icon: the desired record has no value for it',
      'update pipeline_destinations PATCH …/pipeline_destinations/12/ {"tag":null}',
    ],
  },
};

describe('what each kind takes', () => {
  it.each(Object.entries(cases))('%s', (_name, { live, desired = whole, changes, steps }) => {
    const limits = { maxShare: 1, minRecords: 10 };
    const plan = planOf(desired, live, { ...changes, options: { limits, ...changes?.options } });
    expect(lines(plan).toSorted()).toEqual([...steps].toSorted());
    expect(lines(plan).filter((each) => !/^(blocked|manual)/.test(each))).toEqual(
      steps.filter((each) => !/^(blocked|manual)/.test(each)),
    );
    expect(plan.refused).toEqual([]);
  });

  it('an organization is made again only with consent, everything in it with the new id', () => {
    const other = record('organizations', 'org-0', { id: 'org-0', name: 'Other', membership_level: 15 });
    const refused = planOf(whole, [other]);
    expect(refused.refused.map(({ guard }) => guard)).toEqual(['other_organization']);
    expect(refused.steps.every((step) => !isExecutable(step))).toBe(true);
    const plan = planOf([organization, role, exported, project], [other], {
      options: { createOrganizations: true },
    });
    expect(lines(plan).map((each) => each.split(' {"')[0])).toEqual([
      'create organizations POST /api/organizations/',
      'create projects POST /api/organizations/{id of step 1}/projects/',
      'create roles POST /api/organizations/{id of step 1}/roles/',
      'create batch_exports POST /api/projects/{id of step 2}/batch_exports/',
      'act batch_exports POST /api/organizations/{id of step 1}/batch_exports/{id of step 4}/unpause/ {}',
    ]);
    expect(plan.steps.map(({ level }) => level)).toEqual([0, 1, 1, 2, 3]);
  });

  it('digits of numbers stay', () => {
    const body =
      '{"id":12,"plugin_type":"local","name":"GeoIP","organization_id":"org-1","config_schema":{"n":12345678901234567890,"d":1.10}}';
    const big = record('pipeline_destinations', '12', body);
    const plan = planOf([organization, big], [organization, withBody(big, { config_schema: {} })]);
    expect(JSON.stringify(plan.steps[0]?.request?.body)).toBe(
      '{"config_schema":{"n":12345678901234567890,"d":1.10}}',
    );
  });

  it('the other path of a batch export takes its project', () => {
    const creation = planOf(whole, without(exported)).steps[0]?.request?.alternative;
    expect(creation).toEqual({
      template: '/api/projects/:team_id/batch_exports/',
      parameters: [
        { name: 'organization_id', value: ORG },
        { name: 'team_id', value: '7' },
      ],
    });
    expect(planOf(whole, without(exported), { definitions: svc }).steps[0]?.request?.alternative).toBeNull();
    expect(posthog('batch_exports').restore.alternativePaths.update).toBe(
      '/api/projects/:team_id/batch_exports/:id/',
    );
  });
});

describe('a kind whose records cannot be requested by id', () => {
  const listed =
    'cannot be requested by id: one that the list of the service leaves out would be created a second time';

  it('has one warning, however many are created', () => {
    const another = withBody({ ...invite, id: 'i2' }, { id: 'i2', target_email: 'two@k.example' });
    const plan = planOf([...whole, another], without(invite, membership));
    expect(plan.warnings).toEqual([`role memberships ${listed}`, `invites ${listed}`]);
    expect(planOf(whole, without(ada, membership), { options: { inviteMissing: true } }).warnings).toEqual([
      `invites ${listed}`,
    ]);
  });

  it('has none where nothing of it is created, or its parent is new', () => {
    expect(planOf(whole, without(role, membership, exported))).not.toHaveProperty('warnings');
    expect(planOf(whole, changed(ada, { level: 1 }))).not.toHaveProperty('warnings');
  });
});

describe('what pausing and unpausing move', () => {
  const at = (last_paused_at: string | null, more: object = {}) =>
    record('batch_exports', 'b1', {
      ...{ id: 'b1', name: 'Nightly', interval: 'day', paused: false, last_paused_at },
      destination: { type: 'NoOp', config: {} },
      ...more,
    });
  const now = '2026-03-01T12:00:00Z';

  it('is no step by itself, and is reported', () => {
    const plan = planOf([organization, at(null)], [organization, at(now)]);
    expect(plan.steps).toEqual([]);
    expect(plan.left).toMatchObject([{ kind: 'batch_exports', count: 1 }]);
    expect(plan.left[0]?.reason).toContain('last_paused_at is set by pause and unpause');
  });

  it('is written with what else differs, and where the user names it', () => {
    const other = planOf([organization, at(null)], [organization, at(now, { interval: 'hour' })]);
    expect(lines(other)).toEqual([
      'update batch_exports PATCH …/batch_exports/b1/ {"interval":"day","last_paused_at":null}',
    ]);
    const asked = planOf([organization, at(null)], [organization, at(now)], {
      isFieldInScope: (path) => path === '/last_paused_at',
    });
    expect(lines(asked)).toEqual(['update batch_exports PATCH …/batch_exports/b1/ {"last_paused_at":null}']);
  });
});
