/** The definitions that a command about kinds speaks of. */
import { CATALOG } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { wantedKinds } from '../sync/extent.ts';
import { readConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';

/** What the first source mirrors, where there is a configuration; else the whole catalog as it is. Needs no key. */
export function mirroredDefinitions(context: CommandContext): readonly ResourceDefinition[] {
  try {
    const [source] = readConfig(context, context.options, 'unused').sources;
    if (source === undefined) return CATALOG;
    const wanted = wantedKinds(source, null);
    return source.definitions.filter(({ kind }) => wanted.has(kind));
  } catch (error) {
    const isNone = error instanceof TidemarkError && error.code === 'config_missing';
    if (isNone && context.options.config === undefined) return CATALOG;
    throw error;
  }
}
