/** Roles of an organization (interface.md: path-only families). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { ORGANIZATION, verbs } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const rolesPath = '/api/organizations/:organization_id/roles/';

export const roles = defineKind({
  kind: 'roles',
  title: { one: 'role', many: 'roles' },
  path: rolesPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/name'],
  nameFrom: ['/name'],
  permission: { ...ORGANIZATION, isDocumented: false },
  operations: verbs(rolesPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], null),
  hasDocumentedFields: false,
  fields: [],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  sets: ['members'],
  // wire-notes.md, Values: `role.members` is an array of the memberships with their users.
  embeds: {
    records: ['/members/*', '/members/*/organization_member'],
    users: ['/members/*/user', '/members/*/organization_member/user'],
  },
  restore: {
    ...PLAIN_RESTORE,
    // wire-notes.md, Values: `role.members` is an array of the memberships.
    follows: [{ field: 'members', kind: 'role_memberships' }],
    // wire-notes.md, Restore: unique ignoring case, and even the unchanged name is refused.
    refusesLetterCase: true,
    uniqueName: 'collection',
  },
});
