/** Domains of an organization (interface.md: Domain; Endpoints: Domains). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { ORGANIZATION, action, owned, verbs, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const domainsPath = '/api/organizations/:organization_id/domains/';

export const domains = defineKind({
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
    // wire-notes.md, Restore: unique in the entire instance.
    uniqueName: 'source',
    byPerson: [
      {
        pointer: '/is_verified',
        value: true,
        reason: 'publish verification_challenge of the domain in DNS and have it verified',
        shows: '/verification_challenge',
      },
    ],
  },
});
