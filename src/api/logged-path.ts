/** The path of a request as logs show it: an id that is itself a secret stays out (an invite's id is its sign-up link). */
import { encodePathSegment } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/definition.ts';

/** `/api/organizations/o1/invites/[secret]/`; the same path where the kind's id is none. */
export function loggedPath(
  path: string,
  { fields, idPath }: ResourceDefinition,
  id: string | undefined,
): string {
  if (id === undefined || !fields.some((field) => field.isSecret && field.name === idPath[0])) return path;
  return path.replaceAll(encodePathSegment(id), '[secret]');
}
