/** Organizations and domains (interface.md: Organization, Domain; wire-notes.md, Restore). */
import { domains as domainsRow } from '../../catalog/kinds/domains.ts';
import { organizations as organizationsRow } from '../../catalog/kinds/organizations.ts';
import { type JsonObject, type JsonValue, isJsonObject } from '../../core/json.ts';
import { valueText } from '../value-text.ts';
import { invalid } from '../wire-error.ts';
import type { KindRules, Transaction } from './kind-rules.ts';

export const organizations: KindRules = {
  order: { by: 'creation' },
  request: {
    fields: organizationsRow.fields.filter((field) => field.isWritable),
    required: ['name'],
    notNull: ['is_member_join_email_enabled'],
    checks: {},
  },
  create: (transaction, _scope, accepted) => {
    const id = transaction.uuid();
    const user = transaction.user();
    transaction.save(
      'members',
      { organization_id: id },
      {
        id: transaction.uuid(),
        user,
        level: OWNER,
        joined_at: transaction.nowText,
        updated_at: transaction.nowText,
        is_2fa_enabled: false,
        has_social_auth: false,
        last_login: transaction.nowText,
      },
    );
    return {
      body: {
        id,
        name: accepted['name'] ?? '',
        slug: freeSlug(transaction, accepted['name']),
        logo_media_id: accepted['logo_media_id'] ?? null,
        created_at: transaction.nowText,
        updated_at: transaction.nowText,
        membership_level: OWNER,
        plugins_access_level: 9,
        teams: [],
        available_product_features: [],
        is_member_join_email_enabled: accepted['is_member_join_email_enabled'] ?? true,
        metadata: '{}',
        customer_id: null,
        enforce_2fa: accepted['enforce_2fa'] ?? null,
        member_count: '1',
      },
    };
  },
  update: (transaction, target, accepted) => {
    if ('name' in accepted) renameInComponents(transaction, target.id, accepted['name'] ?? '');
    return { ...target.body, ...accepted, updated_at: transaction.nowText };
  },
  remove: (transaction, target) => {
    const scope = { organization_id: target.id };
    for (const project of transaction.bodies('projects', scope)) {
      transaction.discardScope('project_id', valueText(project['id']));
    }
    transaction.discardScope('organization_id', target.id);
  },
  // Three fields are derived from other records or the owner of the key; they are not added to a record that lacks
  // them.
  present: (reading, _scope, { body }) => {
    const scope = { organization_id: valueText(body['id']) };
    const members = reading.bodies('members', scope);
    const own = members.find((member) => userUuidOf(member) === reading.viewer.userUuid);
    const derived: JsonObject = {
      membership_level: own?.['level'] ?? null,
      teams: reading.bodies('projects', scope).map(teamSummary),
      member_count: String(members.length),
    };
    return { ...body, ...Object.fromEntries(Object.entries(derived).filter(([name]) => name in body)) };
  },
};

/** wire-notes.md, Values: 1 member, 8 administrator, 15 owner. */
export const OWNER = 15;

/** The uuid of the user that a member or role membership is about. */
export function userUuidOf(membership: JsonObject): JsonValue | undefined {
  const user = membership['user'];
  return isJsonObject(user) ? user['uuid'] : undefined;
}

const TEAM_SUMMARY = [
  'id',
  'uuid',
  'organization',
  'api_token',
  'name',
  'completed_snippet_onboarding',
  'ingested_event',
  'is_demo',
  'timezone',
];

function teamSummary(project: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(project).filter(([name]) => TEAM_SUMMARY.includes(name)));
}

function freeSlug(transaction: Transaction, name: JsonValue | undefined): string {
  const plain = (typeof name === 'string' ? name : '')
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 48);
  const base = plain === '' ? 'organization' : plain;
  const taken = new Set(transaction.everywhere('organizations').map(({ body }) => body['slug']));
  let slug = base;
  for (let n = 2; taken.has(slug); n += 1) slug = `${base}-${n}`;
  return slug;
}

function renameInComponents(transaction: Transaction, organizationId: string, name: JsonValue): void {
  const scope = { organization_id: organizationId };
  for (const component of transaction.bodies('plugins', scope)) {
    if (component['organization_id'] !== organizationId) continue;
    transaction.save('plugins', scope, { ...component, organization_name: name });
  }
}

export const domains: KindRules = {
  order: { by: 'text', field: 'domain' },
  request: {
    fields: domainsRow.fields.filter((field) => field.isWritable),
    required: ['domain'],
    notNull: ['jit_provisioning_enabled'],
    checks: {},
  },
  create: (transaction, _scope, accepted) => {
    refuseTakenDomain(transaction, accepted['domain'], null);
    return {
      body: withSaml({
        id: transaction.uuid(),
        domain: accepted['domain'] ?? '',
        is_verified: false,
        verified_at: null,
        verification_challenge: transaction.token(''),
        // wire-notes.md, Restore: both are dropped on creation and refused until the domain is verified.
        jit_provisioning_enabled: false,
        sso_enforcement: '',
        has_saml: false,
        saml_entity_id: accepted['saml_entity_id'] ?? null,
        saml_acs_url: accepted['saml_acs_url'] ?? null,
        saml_x509_cert: accepted['saml_x509_cert'] ?? null,
      }),
    };
  },
  update: (transaction, target, accepted) => {
    if ('domain' in accepted) refuseTakenDomain(transaction, accepted['domain'], target.id);
    if (target.body['is_verified'] !== true) {
      for (const name of ['jit_provisioning_enabled', 'sso_enforcement']) {
        const value = accepted[name] ?? '';
        if (value !== false && value !== '')
          throw invalid(name, 'invalid', 'This setting is available once the domain is verified.');
      }
    }
    return withSaml({ ...target.body, ...accepted });
  },
  recordActions: {
    verify: (transaction, target) => {
      if (target.body['is_verified'] !== true) {
        transaction.save('domains', target.scope, {
          ...target.body,
          is_verified: true,
          verified_at: transaction.nowText,
        });
      }
      return 'nothing';
    },
  },
};

function withSaml(domain: JsonObject): JsonObject {
  const parts = [domain['saml_entity_id'], domain['saml_acs_url'], domain['saml_x509_cert']];
  return { ...domain, has_saml: parts.every((part) => typeof part === 'string' && part !== '') };
}

/** wire-notes.md, Restore: unique over the entire instance. */
function refuseTakenDomain(
  transaction: Transaction,
  domain: JsonValue | undefined,
  ownId: string | null,
): void {
  const wanted = typeof domain === 'string' ? domain.toLowerCase() : '';
  const isTaken = transaction
    .everywhere('domains')
    .some(({ body }) => body['id'] !== ownId && valueText(body['domain']).toLowerCase() === wanted);
  if (isTaken) throw invalid('domain', 'unique', 'domain with this domain already exists.');
}
