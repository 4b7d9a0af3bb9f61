/** Who may do what: members, invites, roles, role memberships (interface.md: Invite, Member, path-only families). */
import { type ResourceDefinition, DEFAULT_LISTING } from './definition.ts';
import { action, owned, verbs, volatile, writable } from './fields.ts';
import { PLAIN_RESTORE } from './restore-rules.ts';

const MEMBER = { read: 'organization_member:read', write: 'organization_member:write' };
// Not listed by interface.md; wire-notes.md, Errors: roles and role memberships use the organization's.
const ORGANIZATION = { read: 'organization:read', write: 'organization:write' };

const membersPath = '/api/organizations/:organization_id/members/';

export const members: ResourceDefinition = {
  kind: 'members',
  title: { one: 'member', many: 'members' },
  path: membersPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  // The path parameter is user__uuid: a member is addressed by their user, not by the membership's own id.
  idPath: ['user', 'uuid'],
  idType: 'string',
  idParameter: 'user__uuid',
  naturalKey: ['/user/email'],
  nameFrom: ['/user/email', '/user/first_name'],
  // interface.md, Member: a user summary.
  embeds: { users: ['/user'] },
  permission: { ...MEMBER, isDocumented: true },
  operations: verbs(membersPath, 'user__uuid', ['list', 'update', 'remove'], MEMBER),
  hasDocumentedFields: true,
  fields: [
    owned('id', 'uuid', 'Identifier of the membership.'),
    owned('user', 'object', 'The user: id, uuid, distinct_id, names, e-mail address and more.'),
    writable('level', 'integer', 'Membership level; the only writable field.', { severity: 'critical' }),
    owned('joined_at', 'timestamp', 'When the user joined.'),
    volatile('updated_at', 'timestamp', 'When the membership last moved.'),
    volatile('is_2fa_enabled', 'boolean', "Whether the user turned two factors on; the user's own choice."),
    owned('has_social_auth', 'boolean', 'Whether the user signs in through another service.'),
    volatile('last_login', 'timestamp', 'When the user last signed in.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    creation: {
      by: 'invitation',
      kind: 'invites',
      fields: { target_email: '/user/email', first_name: '/user/first_name', level: '/level' },
      reason: 'members cannot be created: invite the person, who comes back by accepting',
    },
    keepsHighest: '/level',
    protectsOwnUser: true,
  },
};

const invitesPath = '/api/organizations/:organization_id/invites/';

export const invites: ResourceDefinition = {
  kind: 'invites',
  title: { one: 'invite', many: 'invites' },
  path: invitesPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/target_email'],
  nameFrom: ['/target_email', '/first_name'],
  permission: { ...MEMBER, isDocumented: true },
  operations: [
    ...verbs(invitesPath, 'id', ['list', 'create', 'remove'], MEMBER),
    action('POST', invitesPath, 'bulk/', MEMBER.write),
  ],
  hasDocumentedFields: true,
  fields: [
    // wire-notes.md, Secrets: an invite's id is its sign-up link.
    owned('id', 'uuid', 'Identifier of the invite; whoever knows it can accept it.', { isSecret: true }),
    writable('target_email', 'string', 'Address that the invite is for.', { severity: 'high' }),
    writable('first_name', 'string', 'First name of the invited person.', { severity: 'low' }),
    volatile('emailing_attempt_made', 'boolean', 'Whether a mail was sent.'),
    writable('level', 'integer', 'Membership level that acceptance gives.', { severity: 'critical' }),
    volatile('is_expired', 'boolean', 'Whether the invite has run out.'),
    owned('created_by', 'object', 'The user who invited.'),
    owned('created_at', 'timestamp', 'When the invite was made.'),
    volatile('updated_at', 'timestamp', 'When the invite last moved.'),
    writable('message', 'string', 'Text that goes with the invite.', { severity: 'low' }),
    writable('private_project_access', 'array', 'Projects with the access level that acceptance gives.', {
      severity: 'high',
      isUnordered: true,
    }),
    writable('send_email', 'boolean', 'Request only: whether the service mails the invite.', {
      severity: 'low',
    }),
  ],
  references: [{ pointer: '/private_project_access/*/id', kind: 'projects', target: '/id' }],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    requestValues: [{ field: 'send_email', option: 'sendEmail' }],
    // wire-notes.md, Restore: a new invite replaces any open one of the same address.
    replacesNamesake: true,
    endedWhen: [
      {
        pointer: '/is_expired',
        value: true,
        reason: 'it had expired: created again it would be open again; invite by hand if that is wanted',
      },
    ],
    replacedBy: {
      kind: 'members',
      pointer: '/target_email',
      target: '/user/email',
      reason: 'accepted meanwhile: the invited person is a member',
    },
  },
};

const rolesPath = '/api/organizations/:organization_id/roles/';

export const roles: ResourceDefinition = {
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
  // wire-notes.md, Values: `role.members` is an array, of the memberships with their users.
  embeds: {
    records: ['/members/*', '/members/*/organization_member'],
    users: ['/members/*/user', '/members/*/organization_member/user'],
  },
  restore: {
    ...PLAIN_RESTORE,
    // wire-notes.md, Values: `role.members` is an array of the memberships.
    follows: [{ field: 'members', kind: 'role_memberships' }],
    // wire-notes.md, Restore: unique ignoring case, and the unchanged name is refused as well.
    refusesLetterCase: true,
  },
};

const roleMembershipsPath = '/api/organizations/:organization_id/roles/:role_id/role_memberships/';

export const roleMemberships: ResourceDefinition = {
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
  // config/profiles/posthog.yaml, role_memberships: the user, and their membership of the organization.
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
    // wire-notes.md, Restore: POST {"user_uuid"}; an answer holds it in `user`.
    derived: [{ field: 'user_uuid', from: ['/user_uuid', '/user/uuid'], kind: 'members' }],
  },
};
