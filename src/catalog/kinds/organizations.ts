/** Organizations (interface.md: Organization; Endpoints: Organizations). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { ORGANIZATION, owned, verbs, volatile, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const organizationsPath = '/api/organizations/';

export const organizations = defineKind({
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
  // interface.md, Organization: summaries of its projects.
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
      'Whether members get an e-mail when somebody joins.',
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
});
