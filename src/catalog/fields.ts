/** Helpers with which the kinds declare their fields, operations and permissions. */
import type { FieldDefinition, FieldType, Method, Operation, SecretsNeeded, Severity } from './definition.ts';

// The permissions that several kinds share. Roles and role memberships, which interface.md does not list, use those of
// the organization (wire-notes.md, Errors).
export const ORGANIZATION = { read: 'organization:read', write: 'organization:write' };
export const MEMBER = { read: 'organization_member:read', write: 'organization_member:write' };
export const RECORDING = { read: 'session_recording:read', write: 'session_recording:write' };

interface FieldOptions {
  readonly secretPointers?: readonly string[];
  readonly secretsNeeded?: SecretsNeeded;
  readonly isCreateOnly?: boolean;
  readonly requires?: string;
  readonly isUnordered?: boolean;
  readonly severity?: Severity;
  readonly values?: readonly string[];
  readonly isSecret?: boolean;
  readonly shownAt?: string;
}

function field(
  name: string,
  type: FieldType,
  description: string,
  roles: { isWritable: boolean; isVolatile: boolean },
  options: FieldOptions,
): FieldDefinition {
  return {
    name,
    type,
    description,
    ...roles,
    isSecret: options.isSecret ?? false,
    secretPointers: options.secretPointers ?? [],
    secretsNeeded: options.secretsNeeded ?? null,
    isCreateOnly: options.isCreateOnly ?? false,
    isMerged: false,
    requires: options.requires ?? null,
    isUnordered: options.isUnordered ?? false,
    severity: options.severity ?? (roles.isWritable ? 'medium' : 'low'),
    values: options.values ?? null,
    ...(options.shownAt === undefined ? {} : { shownAt: options.shownAt }),
  };
}

/** A field that the API accepts. */
export function writable(
  name: string,
  type: FieldType,
  description: string,
  options: FieldOptions = {},
): FieldDefinition {
  return field(name, type, description, { isWritable: true, isVolatile: false }, options);
}

/** A response-only field. */
export function owned(
  name: string,
  type: FieldType,
  description: string,
  options: FieldOptions = {},
): FieldDefinition {
  return field(name, type, description, { isWritable: false, isVolatile: false }, options);
}

/** A response-only volatile field (wire-notes.md, Values). */
export function volatile(
  name: string,
  type: FieldType,
  description: string,
  options: FieldOptions = {},
): FieldDefinition {
  return field(name, type, description, { isWritable: false, isVolatile: true }, options);
}

/** The five verbs on a collection path, each with its documented permission (null where interface.md lists none). */
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
