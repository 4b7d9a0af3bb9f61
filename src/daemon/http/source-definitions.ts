/** The catalog as one source has it: profile and overrides applied. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../../catalog/definition.ts';
import type { Config } from '../../config/config.ts';

/** Definitions in force for a source; the catalog's own where it is configured no longer. */
export function definitionsFor(config: Config, source: string): (kind: Kind) => ResourceDefinition {
  const configured = config.configured.find(({ name }) => name === source)?.definitions ?? [];
  const byKind = new Map(configured.map((definition) => [definition.kind, definition]));
  return (kind) => byKind.get(kind) ?? definitionOf(kind);
}
