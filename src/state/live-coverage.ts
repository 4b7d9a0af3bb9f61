/** What a live reading can say of its collections. */
import { plural } from '../core/wording.ts';
import type { SweepReport } from '../sync/outcome.ts';
import { type Absence, LOOKED_UP_AT_MOST } from './live-absence.ts';
import type { Coverage } from './state.ts';

/** What stands against a list that proved itself; nothing where every absence from it was confirmed. */
export function doubt(absence: Absence | undefined): { readonly stale?: string } {
  if (absence === undefined) return {};
  const { leaked, unconfirmed } = absence;
  const parts = [
    ...(leaked === 0
      ? []
      : [`the list did not show ${plural(leaked, 'record')} that ${leaked === 1 ? 'exists' : 'exist'}`]),
    ...(unconfirmed === 0
      ? []
      : [
          `${plural(unconfirmed, 'record')} that it did not show were not looked up (at most ${LOOKED_UP_AT_MOST} are)`,
        ]),
  ];
  return parts.length === 0 ? {} : { stale: parts.join('; ') };
}

/** A collection of which nothing is known, with the reason. */
export function unread({ outcome, error }: SweepReport): Coverage {
  const what = outcome === 'missing' ? 'not offered by the service' : outcome;
  return {
    how: 'unread',
    reason: error === null ? what : `${what}: ${error.message}`,
    code: error?.code ?? null,
    ...(error === null || error.permission === null ? {} : { permission: error.permission }),
  };
}
