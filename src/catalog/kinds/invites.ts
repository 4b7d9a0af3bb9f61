/** Invites to an organization (interface.md: Invite). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { MEMBER, action, owned, verbs, volatile, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const invitesPath = '/api/organizations/:organization_id/invites/';

export const invites = defineKind({
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
        reason: 'it had expired, and a new invite would be open: invite by hand if that is wanted',
      },
    ],
    replacedBy: {
      kind: 'members',
      pointer: '/target_email',
      target: '/user/email',
      reason: 'accepted meanwhile: the invited person is a member',
    },
  },
});
