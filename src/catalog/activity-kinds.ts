/** Kinds that fill through use: feeds of activity, and what is read one by one below them. */
import { CATALOG } from './catalog.ts';
import type { Kind } from './kinds.ts';

/** Their records are created by use, not by configuration: compared only where the kind is named. */
export function activityKinds(): Kind[] {
  return CATALOG.filter(({ reading }) => reading !== 'list').map(({ kind }) => kind);
}
