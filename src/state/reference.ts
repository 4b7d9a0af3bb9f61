/** References to states, as users write them: `live`, `latest`, `baseline`, `run:N`, `snapshot:NAME`, a time, `file:PATH`. */
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import { parseTime } from './time-text.ts';

export type Reference =
  | { readonly form: 'latest'; readonly text: string }
  | { readonly form: 'live'; readonly text: string }
  | { readonly form: 'baseline'; readonly text: string }
  | { readonly form: 'run'; readonly text: string; readonly run: number }
  | { readonly form: 'snapshot'; readonly text: string; readonly name: string }
  | {
      readonly form: 'time';
      readonly text: string;
      /** ISO 8601 in UTC. */
      readonly at: string;
      /** Given when a zone or a time of day had to be assumed. */
      readonly note?: string;
    }
  /** An export; `-` is standard input. */
  | { readonly form: 'file'; readonly text: string; readonly path: string };

/** The words that stand for a state. */
const WORDS = ['latest', 'live', 'baseline'] as const;

const REFERENCE_HINT =
  'write live, latest, baseline, run:N, snapshot:NAME, a time like 2026-03-01T12:00Z, or file:PATH';

/**
 * Parses a reference; whether it exists is not checked.
 * @throws TidemarkError `reference_unknown` when it has no such form, with the nearest one
 */
export function parseReference(text: string): Reference {
  const word = WORDS.find((known) => known === text);
  if (word !== undefined) return { form: word, text };
  const colon = text.indexOf(':');
  const value = text.slice(colon + 1);
  switch (colon === -1 ? '' : text.slice(0, colon)) {
    case 'run':
      // Longer numbers are not a run of any mirror, and would lose digits.
      if (/^\d{1,15}$/.test(value)) return { form: 'run', text, run: Number(value) };
      throw unknown(text, undefined, 'write run:N with a number of `tidemark runs`');
    case 'snapshot':
      if (value !== '') return { form: 'snapshot', text, name: value };
      throw unknown(text, undefined, 'write snapshot:NAME with a name of `tidemark snapshots`');
    case 'file':
      if (value !== '') return { form: 'file', text, path: value };
      throw unknown(text, undefined, 'write file:PATH with the path of an export');
  }
  const time = parseTime(text);
  if (time !== undefined) {
    return {
      form: 'time',
      text,
      at: isoTime(time.epochMs),
      ...(time.note === undefined ? {} : { note: time.note }),
    };
  }
  throw unknown(text, nearest(text), REFERENCE_HINT);
}

function unknown(text: string, near: string | undefined, hint: string): TidemarkError {
  return new TidemarkError(
    'reference_unknown',
    `${JSON.stringify(text)} is not a reference${near === undefined ? '' : `; did you mean ${near}?`}`,
    { hint },
  );
}

function nearest(text: string): string | undefined {
  const run = /^(?:run)?[ :#_-]*(\d{1,15})$/i.exec(text)?.[1];
  if (run !== undefined) return `run:${run}`;
  const [, word = '', value = ''] = /^([a-z]+)[:=](.+)$/i.exec(text) ?? [];
  const prefix = suggest(word, ['run', 'snapshot', 'file']);
  if (prefix !== undefined && value !== '') return `${prefix}:${value}`;
  if (/[/\\]|\.(?:nd)?json$|\.ya?ml$/.test(text)) return `file:${text}`;
  return suggest(text, WORDS);
}
