/** Helpers with which the kinds declare their fields, operations and permissions. */
import type { FieldDefinition, FieldType, Method, Operation } from './definition.ts';

// The permissions that several kinds share. Roles and role memberships, which interface.md does not list, use those of
// the organization (wire-notes.md, Errors).
export const ORGANIZATION = { read: 'organization:read', write: 'organization:write' };
export const MEMBER = { read: 'organization_member:read', write: 'organization_member:write' };
export const RECORDING = { read: 'session_recording:read', write: 'session_recording:write' };

type FieldRoles = Pick<FieldDefinition, 'isWritable' | 'isVolatile'>;
type FieldOptions = Partial<
  Omit<FieldDefinition, 'name' | 'type' | 'description' | 'isMerged' | keyof FieldRoles>
>;
type DeclareField = (
  name: string,
  type: FieldType,
  description: string,
  options?: FieldOptions,
) => FieldDefinition;

function fieldsWith(roles: FieldRoles): DeclareField {
  return (name, type, description, options = {}) => ({
    name,
    type,
    description,
    ...roles,
    isSecret: false,
    secretPointers: [],
    secretsNeeded: null,
    isCreateOnly: false,
    isMerged: false,
    requires: null,
    isUnordered: false,
    severity: roles.isWritable ? 'medium' : 'low',
    values: null,
    ...options,
  });
}

/** A field that the API accepts. */
export const writable = fieldsWith({ isWritable: true, isVolatile: false });
/** A response-only field. */
export const owned = fieldsWith({ isWritable: false, isVolatile: false });
/** A response-only volatile field (wire-notes.md, Values). */
export const volatile = fieldsWith({ isWritable: false, isVolatile: true });

/** The five verbs on a collection path, each with its documented permission (null if interface.md lists none). */
export function verbs(
  path: string,
  idParameter: string,
  roles: readonly ('list' | 'retrieve' | 'create' | 'update' | 'remove')[],
  permission: { read: string; write: string } | null,
): Operation[] {
  const methods = {
    list: 'GET',
    retrieve: 'GET',
    create: 'POST',
    update: 'PATCH',
    remove: 'DELETE',
  } as const;
  return roles.map((role) => ({
    method: methods[role],
    path: role === 'list' || role === 'create' ? path : `${path}:${idParameter}/`,
    role,
    action: null,
    permission: permission === null ? null : methods[role] === 'GET' ? permission.read : permission.write,
  }));
}

/** An operation other than the five verbs. `suffix` is appended to the collection path, e.g. `:id/pause/`. */
export function action(method: Method, path: string, suffix: string, permission: string | null): Operation {
  const name = suffix
    .split('/')
    .filter((part) => part !== '' && !part.startsWith(':'))
    .join('/');
  return { method, path: path + suffix, role: 'action', action: name, permission };
}
