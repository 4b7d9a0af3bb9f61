/** What the mirror does not hold, said clearly: a list that was never read is not an empty one. */
import type { Operation, ResourceDefinition } from '../../catalog/definition.ts';
import { NOT_MIRRORED } from '../../catalog/not-mirrored.ts';
import type { SeenCollection } from '../../state/sweeps-as-of.ts';
import { type WireError, notFound, notHeld, permissionDenied } from '../wire-error.ts';

/**
 * A collection that no run up to that state has read: 403 where the service denied it, else 404.
 * @param seen what the last run knew of it; null where none has tried
 */
export function neverRead(
  definition: ResourceDefinition,
  seen: Pick<SeenCollection, 'outcome' | 'error'> | null,
): WireError {
  const { many } = definition.title;
  const why = seen?.error === null || seen === null ? '' : ` ${ended(seen.error)}`;
  switch (seen?.outcome) {
    case 'denied':
      return permissionDenied(`The mirror holds no ${many}: the service denied the list to its key.${why}`);
    case 'missing':
      return notFound(`The mirror holds no ${many}: the service does not offer this list.${why}`);
    case undefined:
    case null:
    case 'skipped':
      return notFound(`The mirror holds no ${many}: this list was not read.${why}`);
    default:
      return notFound(`The mirror holds no ${many}: this list could not be read yet.${why}`);
  }
}

/** A record that the mirror does not hold, of a collection that it never saw whole. */
export function noneHeld({ title, reading }: ResourceDefinition): WireError {
  return notFound(
    reading === 'each'
      ? `The mirror holds no such ${title.one}: not all of them were asked for yet.`
      : `The mirror holds no such ${title.one}, and it never read the whole list.`,
  );
}

/**
 * A GET operation whose answers are not mirrored.
 * @throws WireError 501, always
 */
export function refuseReadingAction({ method, action }: Operation): never {
  const known = NOT_MIRRORED.find((each) => each.method === method && each.action === action);
  const why = known === undefined ? '' : ` (${known.reason})`;
  throw notHeld(`A mirror does not hold what "${action ?? ''}" answers${why}. Ask the service itself.`);
}

function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
