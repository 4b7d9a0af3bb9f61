/** Members of an organization (interface.md: Member). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { MEMBER, owned, verbs, volatile, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const membersPath = '/api/organizations/:organization_id/members/';

export const members = defineKind({
  kind: 'members',
  title: { one: 'member', many: 'members' },
  path: membersPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  // The path parameter is user__uuid: members are addressed by their user, not by the id of the membership.
  idPath: ['user', 'uuid'],
  idType: 'string',
  idParameter: 'user__uuid',
  naturalKey: ['/user/email'],
  nameFrom: ['/user/email', '/user/first_name'],
  createdAt: '/joined_at',
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
});
