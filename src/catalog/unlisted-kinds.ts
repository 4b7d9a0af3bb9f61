/** Kinds that fill by themselves: feeds of the service's own activity, and what is read one by one below them. */
import { CATALOG } from './catalog.ts';
import type { Kind } from './definition.ts';

/** Nobody configured their records: they are compared where somebody asks for them. */
export function unlistedKinds(): Kind[] {
  return CATALOG.filter(({ reading }) => reading !== 'list').map(({ kind }) => kind);
}
