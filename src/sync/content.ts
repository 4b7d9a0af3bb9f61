/** Whether two received texts of a record are equal, by the comparison that all commands use. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { parseLossless } from '../core/json.ts';
import { compareBodies } from '../diff/compare.ts';

/** True if only volatile fields differ. Key order, white space and the spelling of numbers do not count. */
export function isSameContent(definition: ResourceDefinition, oldText: string, newText: string): boolean {
  return compareBodies(definition, parseLossless(oldText), parseLossless(newText), 'default').length === 0;
}

/** The same comparison for all sources of a configuration. `forget` joins revisions by it. */
export function contentComparison(
  config: Config,
): (source: string, kind: Kind, oldText: string, newText: string) => boolean {
  const bySource = new Map<string, ReturnType<typeof definitionsFor>>();
  return (source, kind, oldText, newText) => {
    const definitionOf = bySource.get(source) ?? definitionsFor(config, source);
    bySource.set(source, definitionOf);
    return isSameContent(definitionOf(kind), oldText, newText);
  };
}
