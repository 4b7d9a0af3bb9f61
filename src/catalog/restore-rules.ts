/** The part of a catalog row that restore needs in addition to the fields. */
import type { RestoreRules } from './definition.ts';

/** Rules for a kind that is created, changed and removed by requests, without exceptions. */
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

/** Rules for a kind that is read but never written. */
export function neverRestored(reason: string): RestoreRules<never> {
  return { ...PLAIN_RESTORE, never: reason, isRemovable: false };
}
