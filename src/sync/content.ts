/** Whether two received texts of a record say the same, by the one comparison. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { parseLossless } from '../core/json.ts';
import { compareBodies } from '../diff/compare.ts';

/** True when no field but a volatile one differs: key order, spaces and the spelling of numbers do not count. */
export function isSameContent(definition: ResourceDefinition, oldText: string, newText: string): boolean {
  return compareBodies(definition, parseLossless(oldText), parseLossless(newText), 'default').length === 0;
}
