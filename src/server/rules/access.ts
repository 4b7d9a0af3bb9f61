/** Members, invites, roles and role memberships (interface.md: Member, Invite; wire-notes.md, Restore). */
import { invites as invitesRow } from '../../catalog/kinds/invites.ts';
import { members as membersRow } from '../../catalog/kinds/members.ts';
import type { Scope } from '../../catalog/definition.ts';
import { writable } from '../../catalog/fields.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import { isoTime } from '../../core/clock.ts';
import { valueText } from '../value-text.ts';
import { invalid, permissionDenied } from '../wire-error.ts';
import type { KindRules, NewRecord, Target, Transaction } from './kind-rules.ts';
import { OWNER, userUuidOf } from './organizations.ts';
import { type RequestRules, acceptBody, checkType } from './request-rules.ts';

export const members: KindRules = {
  order: { by: 'newest', field: 'joined_at' },
  request: {
    fields: membersRow.fields.filter((field) => field.isWritable),
    required: ['level'],
    notNull: [],
    checks: {},
  },
  update: (transaction, target, accepted) => {
    if (!('level' in accepted)) return target.body;
    if (target.id === transaction.viewer.userUuid) {
      throw permissionDenied("You can't change your own access level.");
    }
    if (accepted['level'] !== OWNER) refuseLastOwner(transaction, target);
    return { ...target.body, ...accepted, updated_at: transaction.nowText };
  },
  remove: (transaction, target) => {
    refuseLastOwner(transaction, target);
    for (const role of transaction.bodies('roles', target.scope)) {
      const scope = { ...target.scope, role_id: valueText(role['id']) };
      for (const membership of transaction.bodies('role_memberships', scope)) {
        if (userUuidOf(membership) !== target.id) continue;
        transaction.discard('role_memberships', scope, valueText(membership['id']));
      }
    }
  },
};

function refuseLastOwner(transaction: Transaction, target: Target): void {
  if (target.body['level'] !== OWNER) return;
  const owners = transaction.bodies('members', target.scope).filter((member) => member['level'] === OWNER);
  if (owners.length === 1) {
    throw invalid('level', 'invalid', 'An organization needs at least one owner.');
  }
}

const EMAIL = /^[^\s@]+@[^\s@]+$/;

const inviteRequest: RequestRules = {
  fields: invitesRow.fields.filter((field) => field.isWritable),
  required: ['target_email'],
  notNull: ['level', 'send_email', 'private_project_access'],
  checks: {
    target_email: (value, attr) => {
      if (typeof value !== 'string' || !EMAIL.test(value)) {
        throw invalid(attr, 'invalid', 'Enter a valid email address.');
      }
    },
    private_project_access: checkProjectAccess,
  },
};

/** interface.md: a list of team ids with corresponding access levels; read as `[{id, level}]`. */
function checkProjectAccess(value: JsonValue, attr: string): void {
  if (!Array.isArray(value)) return;
  value.forEach((entry, index) => {
    const at = `${attr}__${index}`;
    checkType({ type: 'object', values: null }, entry, at);
    if (!isJsonObject(entry)) return;
    for (const name of ['id', 'level'] as const) {
      const part = getOwn(entry, name);
      if (part === undefined) throw invalid(`${at}__${name}`, 'required', 'This field is required.');
      if (name === 'id') checkType({ type: 'integer', values: null }, part, `${at}__id`);
    }
  });
}

// wire-notes.md, Restore: an invite lasts 3 days; bulk takes at most 20.
const INVITE_LIFE_MS = 3 * 24 * 60 * 60 * 1000;
const MAX_BULK_INVITES = 20;

export const invites: KindRules = {
  order: { by: 'newest', field: 'created_at' },
  request: inviteRequest,
  create: (transaction, scope, accepted) => newInvite(transaction, scope, accepted, ''),
  present: (reading, _scope, { body, note }) =>
    note.expiresAt !== undefined && 'is_expired' in body
      ? { ...body, is_expired: reading.now >= Date.parse(note.expiresAt) }
      : body,
  collectionActions: {
    bulk: (transaction, scope, body) => {
      const isList = Array.isArray(body);
      const given = isList ? body : [body];
      if (given.length > MAX_BULK_INVITES) {
        throw invalid(
          null,
          'max_length',
          `A maximum of ${MAX_BULK_INVITES} invites can be sent in a single request.`,
        );
      }
      given.forEach((each, index) => {
        const prefix = isList ? `${index}__` : '';
        const accepted = acceptBody(inviteRequest, each, 'create', prefix);
        const { body: invite, note } = newInvite(transaction, scope, accepted, prefix);
        transaction.save('invites', scope, invite, note);
      });
    },
  },
};

function newInvite(
  transaction: Transaction,
  scope: Scope,
  accepted: JsonObject,
  prefix: string,
): Required<NewRecord> {
  const email = valueText(accepted['target_email']);
  const isSame = (other: JsonValue | undefined): boolean =>
    valueText(other).toLowerCase() === email.toLowerCase();
  const isMember = transaction
    .bodies('members', scope)
    .some((member) => isJsonObject(member['user']) && isSame(member['user']['email']));
  if (isMember) {
    throw invalid(
      `${prefix}target_email`,
      'invalid',
      'A user with this email address already belongs to the organization.',
    );
  }
  const projectIds = new Set(
    transaction.bodies('projects', scope).map((project) => valueText(project['id'])),
  );
  const access = accepted['private_project_access'] ?? [];
  for (const [index, entry] of (Array.isArray(access) ? access : []).entries()) {
    if (isJsonObject(entry) && !projectIds.has(valueText(entry['id']))) {
      const attr = `${prefix}private_project_access__${index}__id`;
      throw invalid(attr, 'does_not_exist', 'Project does not exist on this organization.');
    }
  }
  // wire-notes.md, Restore: a new invite replaces any open one of the same address.
  for (const open of transaction.bodies('invites', scope)) {
    if (isSame(open['target_email'])) transaction.discard('invites', scope, valueText(open['id']));
  }
  return {
    note: { expiresAt: isoTime(transaction.now + INVITE_LIFE_MS) },
    body: {
      id: transaction.uuid(),
      target_email: email,
      first_name: accepted['first_name'] === undefined ? '' : accepted['first_name'],
      emailing_attempt_made: accepted['send_email'] !== false,
      level: accepted['level'] ?? 1,
      is_expired: false,
      created_by: transaction.user(),
      created_at: transaction.nowText,
      updated_at: transaction.nowText,
      message: accepted['message'] ?? null,
      private_project_access: access,
    },
  };
}

export const roles: KindRules = {
  order: { by: 'creation' },
  request: {
    fields: [writable('name', 'string', 'Name of the role.')],
    required: ['name'],
    notNull: [],
    checks: {},
  },
  create: (transaction, scope, accepted) => {
    refuseTakenRole(transaction, scope, accepted['name']);
    return {
      body: {
        id: transaction.uuid(),
        name: accepted['name'] ?? '',
        created_at: transaction.nowText,
        created_by: transaction.user(),
        members: [],
      },
    };
  },
  update: (transaction, target, accepted) => {
    if ('name' in accepted) refuseTakenRole(transaction, target.scope, accepted['name']);
    return { ...target.body, ...accepted };
  },
  remove: (transaction, target) => transaction.discardScope('role_id', target.id),
  // User uuids, not ids of memberships: a recreated membership does not change its role.
  present: (reading, scope, { body }) => {
    if (!('members' in body)) return body;
    const memberships = reading.bodies('role_memberships', { ...scope, role_id: valueText(body['id']) });
    return { ...body, members: memberships.map((each) => valueText(userUuidOf(each))).sort() };
  },
};

/** wire-notes.md, Restore: names are unique, ignoring case; even a PATCH with the unchanged name is refused. */
function refuseTakenRole(transaction: Transaction, scope: Scope, name: JsonValue | undefined): void {
  const wanted = valueText(name).toLowerCase();
  const isTaken = transaction
    .bodies('roles', scope)
    .some((role) => valueText(role['name']).toLowerCase() === wanted);
  if (isTaken) throw invalid('name', 'unique', 'There is already a role with this name.');
}

export const roleMemberships: KindRules = {
  order: { by: 'creation' },
  request: {
    fields: [writable('user_uuid', 'uuid', 'The member who takes the role.')],
    required: ['user_uuid'],
    notNull: [],
    checks: {},
  },
  create: (transaction, scope, accepted) => {
    const uuid = valueText(accepted['user_uuid']);
    const member = transaction.body('members', { organization_id: scope.organization_id ?? '' }, uuid);
    if (member === undefined) {
      throw invalid('user_uuid', 'does_not_exist', 'User does not belong to this organization.');
    }
    if (transaction.bodies('role_memberships', scope).some((each) => userUuidOf(each) === uuid)) {
      throw invalid('user_uuid', 'unique', 'User is already part of the role.');
    }
    return {
      body: {
        id: transaction.uuid(),
        role_id: scope.role_id ?? '',
        user_uuid: uuid,
        user: member['user'] ?? null,
        joined_at: transaction.nowText,
        updated_at: transaction.nowText,
      },
    };
  },
};
