/** The one comparison of contents over all sources of a configuration: what `forget` joins revisions by. */
import type { Kind } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source-definitions.ts';
import { isSameContent } from './content.ts';

/** True for two bodies of a kind of that source that are equal by value. */
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
