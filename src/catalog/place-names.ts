/**
 * Members that the service assigns, by their names, where no row of the catalog describes them: in another source each
 * has another value. Only in records and in records that they embed (`Embedding`), never inside a field: a `project_id`
 * there may be a configured target. Tokens are those that the service creates (wire-notes.md, Secrets).
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

/** True for a member with the record's location, not its configuration. */
export function isAssignedByService(name: string): boolean {
  return PLACE_NAMES.has(name);
}
