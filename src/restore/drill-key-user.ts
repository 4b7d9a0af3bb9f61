/** The user whose key does the restore in a drill: the one thing that must be there before anything can be created. */
import { type JsonObject, isJsonObject } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { resolvePointer } from '../diff/pointer.ts';

export interface KeyUser {
  readonly uuid: string;
  /** As a member's `user` shows them. */
  readonly user: JsonObject;
  /** How they were found; one line for the report. */
  readonly assumption: string;
}

const STAND_IN: JsonObject & { uuid: string } = {
  uuid: '00000000-0000-4000-8000-000000000001',
  distinct_id: 'drill',
  first_name: 'Drill',
  last_name: 'Owner',
  email: 'drill@sandbox.example',
};

/**
 * The configured user (uuid or e-mail address), else the member whose levels fit best what the organizations say of the
 * key (`membership_level`), the longest-standing one first; a stand-in where the snapshot holds no member.
 */
export function keyUserOf(records: readonly ParsedRecord[], configured: string | null): KeyUser {
  const members = records.filter(({ kind }) => kind === 'members');
  const named = members.find(({ id, body }) => {
    const email = resolvePointer(body, '/user/email');
    return configured !== null && (id === configured || email === configured);
  });
  if (named !== undefined) return keyUser(named, `the key belongs to ${nameOf(named)}, as configured`);
  const levels = new Map(
    records
      .filter(({ kind }) => kind === 'organizations')
      .map(({ id, body }) => [id, resolvePointer(body, '/membership_level')]),
  );
  const fits = new Map<string, { first: ParsedRecord; count: number; since: string }>();
  for (const member of members) {
    const joined = resolvePointer(member.body, '/joined_at');
    // Behind every time: of whom it is not known goes last.
    const since = typeof joined === 'string' ? joined : '~';
    const best = fits.get(member.id) ?? { first: member, count: 0, since };
    const level = resolvePointer(member.body, '/level');
    if (level !== undefined && level === levels.get(member.scope.organization_id ?? '')) best.count += 1;
    if (since < best.since) best.since = since;
    fits.set(member.id, best);
  }
  const [best] = [...fits.values()].sort(
    (a, b) => b.count - a.count || compareTexts(a.since, b.since) || compareTexts(a.first.id, b.first.id),
  );
  if (best === undefined) {
    return {
      uuid: STAND_IN.uuid,
      user: STAND_IN,
      assumption: 'the snapshot holds no member: the key belongs to a stand-in',
    };
  }
  const why =
    'the longest-standing member of the level that the service says the key has; restore.ownUser names another';
  return keyUser(best.first, `the key belongs to ${nameOf(best.first)} (${why})`);
}

function keyUser(member: ParsedRecord, assumption: string): KeyUser {
  const user = resolvePointer(member.body, '/user');
  const shown = isJsonObject(user) ? user : {};
  return { uuid: member.id, user: { ...shown, uuid: member.id }, assumption };
}

function nameOf(member: ParsedRecord): string {
  const email = resolvePointer(member.body, '/user/email');
  return typeof email === 'string' ? email : member.id;
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
