/** Query parameters: what is given is proper, or refused by name. */
import { isKind } from '../../catalog/catalog.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { parseDuration } from '../../config/duration.ts';
import { isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { suggest } from '../../core/suggest.ts';
import { parseTime } from '../../state/time-text.ts';

/** A whole number from 1 to `most`; `usual` where it is not given. @throws TidemarkError `usage` */
export function numberIn(query: URLSearchParams, name: string, usual: number, most: number): number {
  const text = query.get(name);
  if (text === null || text === '') return usual;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= most) return value;
  throw new TidemarkError('usage', `${name} must be a whole number from 1 to ${most}`, {
    hint: `leave it out for ${usual}`,
  });
}

/** The kind of a parameter or a path. @throws TidemarkError `usage`, with the nearest one */
export function kindFrom(text: string): Kind {
  if (isKind(text)) return text;
  const near = suggest(text, KINDS);
  throw new TidemarkError(
    'usage',
    `there is no such kind${near === undefined ? '' : `; did you mean ${near}?`}`,
    {
      hint: `kinds are ${KINDS.join(', ')}`,
    },
  );
}

/** All kinds that are named, by several parameters or commas; null where none is. @throws TidemarkError `usage` */
export function kindsIn(query: URLSearchParams, name: string): Kind[] | null {
  const texts = query.getAll(name).flatMap((text) => text.split(',').filter((part) => part !== ''));
  return texts.length === 0 ? null : [...new Set(texts.map(kindFrom))];
}

/** A time (ISO 8601) or an age (`7d`); ISO 8601 with milliseconds. @throws TidemarkError `usage` */
export function timeIn(query: URLSearchParams, name: string, usual: string, now: number): string {
  const text = query.get(name);
  if (text === null || text === '') return usual;
  const ageMs = parseDuration(text);
  if (ageMs !== undefined) return isoTime(now - ageMs);
  const time = parseTime(text);
  if (time !== undefined) return isoTime(time.epochMs);
  throw new TidemarkError('usage', `${name} is not a time`, {
    hint: 'write it like 2026-03-01T12:00Z, or an age like 7d',
  });
}

/** One of the sources, or all. @throws TidemarkError `reference_unknown` */
export function sourcesIn(query: URLSearchParams, known: readonly string[]): readonly string[] {
  const asked = query.getAll('source').filter((name) => name !== '');
  if (asked.length === 0) return known;
  if (asked.every((name) => known.includes(name))) return [...new Set(asked)];
  throw new TidemarkError('reference_unknown', 'there is no such source', {
    hint: `sources are ${known.join(', ')}`,
  });
}
