/** Bearer keys and their permissions (interface.md, Authentication; wire-notes.md, Errors). */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Operation, Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { ReadableStore, Viewer } from './store.ts';
import { keyInvalid, keyMissing, notFound, permissionDenied, permissionMissing } from './wire-error.ts';

/** A key that the server accepts. */
export interface AccessKey {
  readonly key: string;
  /** E.g. `['organization:read', 'plugin:write']`. */
  readonly permissions: readonly string[] | 'all';
  /** The user that the key belongs to. */
  readonly userUuid?: string;
  /** Organizations that it is limited to; all when absent. */
  readonly organizations?: readonly string[];
}

/** The parts of a request that identify its client. */
interface Credentials {
  readonly authorization: string | undefined;
  /** The `Host` header as received. */
  readonly host: string | undefined;
}

/** Finds the key of a request. @throws WireError 401, 403 */
export type Authenticate = (credentials: Credentials) => AccessKey;

/** Compares digests, and always all of them, so that the time reveals nothing about the keys. */
export function createAuthenticator(keys: readonly AccessKey[]): Authenticate {
  const digestOf = (key: string): Buffer => createHash('sha256').update(key).digest();
  const known = keys.map((each) => ({ each, digest: digestOf(each.key) }));
  return ({ authorization }) => {
    const match = /^Bearer +(\S+)\s*$/i.exec(authorization ?? '');
    if (match?.[1] === undefined) throw keyMissing();
    const given = digestOf(match[1]);
    const [found] = known.filter(({ digest }) => timingSafeEqual(digest, given));
    if (found === undefined) throw keyInvalid();
    return found.each;
  };
}

/** The permission that an operation needs; if interface.md lists none, that of the kind (wire-notes.md, Errors). */
export function permissionFor(definition: ResourceDefinition, operation: Operation): string {
  if (operation.permission !== null) return operation.permission;
  return operation.method === 'GET' ? definition.permission.read : definition.permission.write;
}

/** Write implies read. @throws WireError 403 that names the permission */
export function checkPermission(key: AccessKey, permission: string): void {
  if (key.permissions === 'all' || key.permissions.includes(permission)) return;
  if (permission.endsWith(':read') && key.permissions.includes(permission.replace(/:read$/, ':write')))
    return;
  throw permissionMissing(permission);
}

/** @throws WireError 403 if the key is limited to organizations other than that of the path */
export function checkOrganization(
  key: AccessKey,
  target: { readonly scope: Scope; readonly organizationId: string | null },
  store: ReadableStore,
): void {
  if (key.organizations === undefined) return;
  let organizationId = target.organizationId ?? target.scope.organization_id;
  if (organizationId === undefined && target.scope.project_id !== undefined) {
    organizationId = store.organizationOf(target.scope.project_id);
    if (organizationId === undefined) throw notFound();
  }
  if (organizationId !== undefined && !key.organizations.includes(organizationId)) {
    throw permissionDenied(
      `API key does not have access to the requested organization: ID ${organizationId}.`,
    );
  }
}

/** The viewer to whom the key belongs. */
export function viewerOf(key: AccessKey): Viewer {
  return { userUuid: key.userUuid ?? null, organizations: key.organizations ?? null };
}
