/** The demo's members, invites, roles and role memberships. */
import type { Scope } from '../../catalog/definition.ts';
import type { JsonObject } from '../../core/json.ts';
import { type Chance, daysBefore } from './chance.ts';
import type { SeedRecord, SeedUser } from './seed.ts';

const OWNER = 15;
const ADMINISTRATOR = 8;
const MEMBER = 1;

/** The first user owns the organization, the next few administer it. */
export function memberRecords(
  scope: Scope,
  users: readonly SeedUser[],
  ageDays: number,
  chance: Chance,
): SeedRecord[] {
  const administrators = Math.max(1, Math.floor(users.length / 8));
  return users.map((user, index) => ({
    kind: 'members',
    scope,
    body: {
      id: chance.uuid(),
      user,
      level: index === 0 ? OWNER : index <= administrators ? ADMINISTRATOR : MEMBER,
      joined_at: daysBefore(
        ageDays - index * Math.floor(ageDays / (users.length + 1)),
        chance.between(0, 9e6),
      ),
      updated_at: daysBefore(chance.between(1, 20)),
      is_2fa_enabled: chance.often(0.8),
      has_social_auth: chance.often(0.3),
      last_login: index % 11 === 10 ? null : daysBefore(chance.between(0, 30), chance.between(0, 9e6)),
    },
  }));
}

interface SeedInvite {
  readonly email: string;
  readonly name: string;
  readonly level: number;
  readonly message: string | null;
  readonly isExpired: boolean;
  readonly access: readonly JsonObject[];
}

export function inviteRecords(
  scope: Scope,
  invites: readonly SeedInvite[],
  createdBy: SeedUser,
  chance: Chance,
): SeedRecord[] {
  return invites.map((invite, index) => {
    const createdAt = daysBefore(invite.isExpired ? 30 + index : 0, (index + 1) * 3_600_000);
    return {
      kind: 'invites',
      scope,
      body: {
        id: chance.uuid(),
        target_email: invite.email,
        first_name: invite.name,
        emailing_attempt_made: true,
        level: invite.level,
        is_expired: invite.isExpired,
        created_by: createdBy,
        created_at: createdAt,
        updated_at: createdAt,
        message: invite.message,
        private_project_access: [...invite.access],
      },
    };
  });
}

/** @param roles names with the positions of their members among the users */
export function roleRecords(
  scope: Scope,
  roles: readonly { readonly name: string; readonly members: readonly number[] }[],
  users: readonly SeedUser[],
  chance: Chance,
): SeedRecord[] {
  return roles.flatMap(({ name, members }, index) => {
    const id = chance.uuid();
    const createdAt = daysBefore(320 - index * 20);
    const role: SeedRecord = {
      kind: 'roles',
      scope,
      body: { id, name, created_at: createdAt, created_by: users[0] ?? null, members: [] },
    };
    const memberships = members.flatMap((position): SeedRecord[] => {
      const user = users[position];
      if (user === undefined) return [];
      const joinedAt = daysBefore(200 - index * 10 - position);
      return [
        {
          kind: 'role_memberships',
          scope: { ...scope, role_id: id },
          body: {
            id: chance.uuid(),
            role_id: id,
            user_uuid: user.uuid,
            user,
            joined_at: joinedAt,
            updated_at: joinedAt,
          },
        },
      ];
    });
    return [role, ...memberships];
  });
}
