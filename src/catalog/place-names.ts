/**
 * Members by which a service names a place of its own, told by their names where no row of the catalog says who sets them:
 * in another source each has another value by nature. Of records and of what they are known to embed (`embedded.ts`), never
 * of what lies in a field: a `project_id` there may be the address that somebody sends data to. Tokens are those that a service gives (wire-notes.md, Secrets).
 */
const PLACE_NAMES: ReadonlySet<string> = new Set([
  'id',
  'uuid',
  'created_at',
  'created_by',
  'joined_at',
  'organization',
  'organization_id',
  'organization_name',
  'team',
  'team_id',
  'project',
  'project_id',
  'role_id',
  'user_uuid',
  'api_token',
  'secret_api_token',
  'secret_api_token_backup',
  'live_events_token',
]);

/** True for a member that says where a record stands, and nothing of how it is set up. */
export function isAssignedByService(name: string): boolean {
  return PLACE_NAMES.has(name);
}
