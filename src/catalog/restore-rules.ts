/** What restore has to know of a kind beyond its fields: one part of a catalog row. */
import type { RestoreRules } from './definition.ts';

/** Created, changed and removed by requests, without anything special. */
export const PLAIN_RESTORE: RestoreRules<never> = {
  never: null,
  lacks: null,
  creation: { by: 'request' },
  isRemovable: true,
  state: null,
  derived: [],
  follows: [],
  requestValues: [],
  owner: null,
  byPerson: [],
  endedWhen: [],
  replacedBy: null,
  keepsHighest: null,
  refusesLetterCase: false,
  uniqueName: null,
  replacesNamesake: false,
  protectsOwnUser: false,
  alternativePaths: {},
};

/** Read, never written. */
export function neverRestored(reason: string): RestoreRules<never> {
  return { ...PLAIN_RESTORE, never: reason, isRemovable: false };
}
