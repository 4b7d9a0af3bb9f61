/** References to states, as users write them: the one parser for every command, option and address that names a state. */
import { parseDuration } from '../config/schema.ts';
import { isoTime } from '../core/clock.ts';
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import { type ParsedTime, parseTime, readAs } from '../core/parse-time.ts';
import { guessText, suggest } from '../core/suggest.ts';

export type Reference = { readonly text: string } & (
  | { readonly form: 'latest' | 'live' | 'baseline' }
  | { readonly form: 'run'; readonly run: number }
  /** `back` runs before the latest one. */
  | { readonly form: 'earlier_run'; readonly back: number }
  | { readonly form: 'snapshot'; readonly name: string }
  | ({ readonly form: 'time' } & ReferenceTime)
  /** An export; `-` is standard input. */
  | { readonly form: 'file'; readonly path: string }
);

interface ReferenceTime {
  /** ISO 8601 in UTC. For a text without fractions of a second, the end of the second: times are shown to the second. */
  readonly at: string;
  /** The first instant that the text means. */
  readonly firstAt: string;
  /** Where a period since the time begins: at `firstAt`; for a text with seconds at the end of its second, so after a run that ended then. */
  readonly beginsAt: string;
  /** True for a time in the future. */
  readonly isAhead: boolean;
  /** Given if a zone or a time of day had to be assumed. */
  readonly note?: string;
}

export const LATEST: Reference = { form: 'latest', text: 'latest' };
export const BASELINE: Reference = { form: 'baseline', text: 'baseline' };

const WORDS = ['latest', 'live', 'baseline'] as const;

/** All forms of a state of the mirror. */
export const STORED_STATE_FORMS =
  'latest, baseline, run:N, run:-1 (the run before the latest), snapshot:NAME, an age (30m, 24h, 7d, 2w), yesterday or a time (2026-03-01, 2026-03-01T12:00Z)';

/** What the hint for a mistyped reference offers. */
interface ReferenceChoice {
  /** Forms that the command does not accept. */
  readonly refuses?: readonly ('live' | 'file')[];
  /** Names of the snapshots; called only for a text that is not a reference. */
  readonly snapshots?: () => readonly string[];
}

/** For commands that only read states of the mirror. */
export const OF_MIRROR: ReferenceChoice = { refuses: ['live', 'file'] };

/**
 * Parses a reference, without checking that it exists. `now` in milliseconds: ages and `yesterday` count from it.
 * @throws TidemarkError `reference_unknown` if it has none of the forms, with the nearest one
 */
export function parseReference(text: string, now: number, choice: ReferenceChoice = {}): Reference {
  const word = WORDS.find((known) => known === text);
  if (word !== undefined) return { form: word, text };
  const colon = text.indexOf(':');
  const value = text.slice(colon + 1);
  switch (colon === -1 ? '' : text.slice(0, colon)) {
    case 'run':
      // Longer numbers would lose digits; no mirror has that many runs.
      if (/^\d{1,15}$/.test(value)) return { form: 'run', text, run: Number(value) };
      if (/^-[1-9]\d{0,14}$/.test(value)) return { form: 'earlier_run', text, back: -Number(value) };
      throw unknown(
        text,
        undefined,
        'write run:N with a number of `tidemark runs`, or run:-1 for the run before the latest',
      );
    case 'snapshot':
      if (value !== '') return { form: 'snapshot', text, name: value };
      throw unknown(text, undefined, 'write snapshot:NAME with a name of `tidemark snapshots`');
    case 'file':
      if (value !== '') return { form: 'file', text, path: value };
      throw unknown(text, undefined, 'write file:PATH with the path of an export');
  }
  const time = parsePastTime(text, now);
  if (time === undefined) {
    const isSnapshot = choice.snapshots?.().includes(text) === true;
    const near = isSnapshot ? `snapshot:${text}` : nearest(text, choice);
    throw unknown(text, near, `write ${isSnapshot ? near : formsFor(choice)}`);
  }
  const { epochMs, note, exactToMs } = time;
  const endMs = epochMs + (exactToMs ?? 0);
  return {
    form: 'time',
    text,
    at: isoTime(Math.max(epochMs, endMs - 1)),
    firstAt: isoTime(epochMs),
    // The end of the second may be in the future.
    beginsAt: isoTime(Math.max(epochMs, Math.min(endMs, now))),
    isAhead: epochMs > now,
    ...defined({ note }),
  };
}

function formsFor({ refuses = [] }: ReferenceChoice): string {
  const others = [
    ...(refuses.includes('live') ? [] : ['live']),
    ...(refuses.includes('file') ? [] : ['file:PATH (an export: a file or a directory)']),
  ];
  return [...others, STORED_STATE_FORMS].join(', ');
}

function unknown(text: string, near: string | undefined, hint: string): TidemarkError {
  return new TidemarkError(
    'reference_unknown',
    `${JSON.stringify(text)} is not a reference${guessText(near)}`,
    { hint },
  );
}

function nearest(text: string, { refuses = [], snapshots = () => [] }: ReferenceChoice): string | undefined {
  // Seconds or milliseconds since the epoch.
  if (/^1\d{9}(?:\d{3})?$/.test(text)) return isoTime(Number(text.padEnd(13, '0')));
  const run = /^(?:run)?[ :#_-]*(\d{1,7})$/i.exec(text)?.[1];
  if (run !== undefined) return `run:${text.startsWith('-') && Number(run) > 0 ? '-' : ''}${run}`;
  const forms = ['run', 'snapshot', ...(refuses.includes('file') ? [] : ['file'])];
  const [, word = '', value = ''] = /^([a-z]+)[:=](.+)$/i.exec(text) ?? [];
  const prefix = suggest(word, forms);
  if (prefix !== undefined && value !== '') return `${prefix}:${value}`;
  if (forms.includes('file') && /[/\\]|\.(?:nd)?json$|\.ya?ml$/.test(text)) return `file:${text}`;
  const words = WORDS.filter((each) => each !== 'live' || !refuses.includes('live'));
  const meant = suggest(text, [...words, 'yesterday']);
  const similar = meant === undefined ? suggest(text, snapshots()) : undefined;
  return similar === undefined ? meant : `snapshot:${similar}`;
}

const DAY_MS = 86_400_000;

/** An age (`30m`, `24h`, `7d`, `2w`), `yesterday` (its first instant, UTC), or a time. `now` in milliseconds. */
export function parsePastTime(text: string, now: number): ParsedTime | undefined {
  if (text === 'yesterday') {
    const epochMs = (Math.floor(now / DAY_MS) - 1) * DAY_MS;
    return { epochMs, note: readAs(text, epochMs) };
  }
  const weeks = /^(\d{1,4})w$/.exec(text)?.[1];
  const ageMs = parseDuration(weeks === undefined ? text : `${Number(weeks) * 7}d`);
  return ageMs === undefined ? parseTime(text) : { epochMs: now - ageMs };
}
