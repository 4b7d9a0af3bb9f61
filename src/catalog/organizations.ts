/** Organizations and their domains (interface.md: Organization, Domain; Endpoints: Organizations, Domains). */
import { type ResourceDefinition, DEFAULT_LISTING } from './definition.ts';
import { action, owned, verbs, volatile, writable } from './fields.ts';
import { PLAIN_RESTORE } from './restore-rules.ts';

const ORGANIZATION = { read: 'organization:read', write: 'organization:write' };

const organizationsPath = '/api/organizations/';

export const organizations: ResourceDefinition = {
  kind: 'organizations',
  title: { one: 'organization', many: 'organizations' },
  path: organizationsPath,
  scope: [],
  discovery: { from: 'root' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/name'],
  nameFrom: ['/name', '/slug'],
  // interface.md, Organization: the projects as summaries.
  embeds: { records: ['/teams/*'] },
  permission: { ...ORGANIZATION, isDocumented: true },
  operations: verbs(
    organizationsPath,
    'id',
    ['list', 'create', 'retrieve', 'update', 'remove'],
    ORGANIZATION,
  ),
  hasDocumentedFields: true,
  fields: [
    owned('id', 'uuid', 'Identifier of the organization.'),
    writable('name', 'string', 'Display name.'),
    owned('slug', 'string', 'Short name that the service derives.'),
    writable('logo_media_id', 'uuid', 'Uploaded picture used as logo.', { severity: 'low' }),
    owned('created_at', 'timestamp', 'When the organization was created.'),
    volatile('updated_at', 'timestamp', 'When anything in the organization last moved.'),
    volatile('membership_level', 'integer', "Level of the key's own user."),
    owned('plugins_access_level', 'integer', 'Which components the organization may use.', {
      severity: 'high',
    }),
    owned('teams', 'array', 'The projects, as summaries with arbitrary keys.', { isUnordered: true }),
    volatile('available_product_features', 'array', 'What the current contract includes.'),
    writable(
      'is_member_join_email_enabled',
      'boolean',
      'Whether members are told by mail that somebody joined.',
      {
        severity: 'low',
      },
    ),
    owned('metadata', 'string', 'Figures that the service keeps; an object on some deployments.'),
    owned('customer_id', 'string', 'Identifier at the billing service.'),
    writable('enforce_2fa', 'boolean', 'Whether every member must use two factors.', {
      severity: 'critical',
    }),
    volatile('member_count', 'string', 'Number of members; an integer on some deployments.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    creation: { by: 'consent' },
    isRemovable: false,
    follows: [{ field: 'teams', kind: 'projects' }],
  },
};

const domainsPath = '/api/organizations/:organization_id/domains/';

export const domains: ResourceDefinition = {
  kind: 'domains',
  title: { one: 'domain', many: 'domains' },
  path: domainsPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/domain'],
  nameFrom: ['/domain'],
  permission: { ...ORGANIZATION, isDocumented: true },
  operations: [
    ...verbs(domainsPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], ORGANIZATION),
    action('POST', domainsPath, ':id/verify/', null),
  ],
  hasDocumentedFields: true,
  fields: [
    owned('id', 'uuid', 'Identifier of the domain.'),
    writable('domain', 'string', 'The domain name.', { severity: 'high' }),
    owned('is_verified', 'boolean', 'Whether ownership was proved by DNS.', { severity: 'high' }),
    owned('verified_at', 'timestamp', 'When ownership was proved.'),
    owned('verification_challenge', 'string', 'Text to publish in DNS.'),
    // wire-notes.md, Restore: both are dropped on creation and refused until the domain is verified.
    writable('jit_provisioning_enabled', 'boolean', 'Whether a first sign-in creates a member.', {
      severity: 'critical',
      requires: '/is_verified',
    }),
    writable('sso_enforcement', 'string', 'Identity provider that sign-in must use.', {
      severity: 'critical',
      requires: '/is_verified',
    }),
    owned('has_saml', 'boolean', 'Whether SAML is set up in full.', { severity: 'high' }),
    writable('saml_entity_id', 'string', "Identity provider's entity id.", { severity: 'critical' }),
    writable('saml_acs_url', 'string', "Identity provider's sign-on address.", { severity: 'critical' }),
    writable('saml_x509_cert', 'string', "Identity provider's certificate (public).", {
      severity: 'critical',
    }),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    byPerson: [
      {
        pointer: '/is_verified',
        value: true,
        reason: 'publish verification_challenge of the domain in DNS and have it verified',
        shows: '/verification_challenge',
      },
    ],
  },
};
