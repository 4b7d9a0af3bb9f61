/** Who holds a role (interface.md: path-only families). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { ORGANIZATION, verbs } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const roleMembershipsPath = '/api/organizations/:organization_id/roles/:role_id/role_memberships/';

export const roleMemberships = defineKind({
  kind: 'role_memberships',
  title: { one: 'role membership', many: 'role memberships' },
  path: roleMembershipsPath,
  scope: ['organization_id', 'role_id'],
  discovery: { from: 'roles' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/user/email'],
  nameFrom: ['/user/email', '/user_uuid'],
  // config/profiles/posthog.yaml, role_memberships.
  createdAt: '/joined_at',
  // config/profiles/posthog.yaml, role_memberships: the user and their membership in the organization.
  embeds: { records: ['/organization_member'], users: ['/user', '/organization_member/user'] },
  permission: { ...ORGANIZATION, isDocumented: false },
  operations: verbs(roleMembershipsPath, 'id', ['list', 'create', 'remove'], null),
  hasDocumentedFields: false,
  fields: [],
  references: [
    { pointer: '/user_uuid', kind: 'members', target: '/user/uuid' },
    { pointer: '/role_id', kind: 'roles', target: '/id' },
  ],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    // wire-notes.md, Restore: POST {"user_uuid"}; responses have it in `user`.
    derived: [{ field: 'user_uuid', from: ['/user_uuid', '/user/uuid'], kind: 'members' }],
  },
});
