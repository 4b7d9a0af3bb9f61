/** Values in HTML: side by side with the place where they differ marked, long ones folded. */
import { type ArrayChange, diffArrays } from 'diff';
import type { JsonValue } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeMarkup } from './markup.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { elementLines, folded, foldedPair, movedText, pathText, sharedEnds } from './value-text.ts';

const OPEN_LIMIT = 600; // characters of a value shown at once; longer ones are unfolded by the reader
const VALUE_LIMIT = 20_000; // characters of a value at all: a page of 1 MB values would not open
const SUMMARY_LIMIT = 160; // characters of a folded value that are seen
const MOST_DIFFERENT = 1_000; // lines: a comparison blocks the event loop for 0.1 s at most
const LEAST_SHARED = 0.3; // of the longer text: below it the two are simply different, and nothing is marked

/** One field as a row: its pointer, then one value, or old and new. */
export function fieldHtml(field: FieldChange): string {
  const path = `<code class="path">${breakable(pathText(field))}</code>`;
  const { from, to } = field;
  if (isMaskedChange(field))
    return `<div class="field single">${path}<div class="value">${MASKED_CHANGE}</div></div>`;
  const moves = movedText(field);
  if (moves !== null)
    return `<div class="field single">${path}<div class="value">${escapeMarkup(moves)}</div></div>`;
  if (from !== undefined && to !== undefined) {
    const [before, after] = pair(indented(from), indented(to), elementLines(from, to, SUMMARY_LIMIT));
    return `<div class="field">${path}${valueHtml(before, 'old')}${valueHtml(after, 'new')}</div>`;
  }
  const side = to === undefined ? 'old' : 'new';
  const text = indented(to ?? from ?? null);
  const shown = { body: plainText(folded(text, VALUE_LIMIT)), summary: summaryOf(text, SUMMARY_LIMIT) };
  return `<div class="field single">${path}${valueHtml(shown, side)}</div>`;
}

interface ShownValue {
  /** HTML. */
  readonly body: string;
  /** HTML in its place while it is folded; null if it is not folded. */
  readonly summary: string | null;
}

function valueHtml({ body, summary }: ShownValue, style: 'old' | 'new'): string {
  const label = style === 'old' ? 'Before' : 'After';
  const code = `<code><bdi>${body}</bdi></code>`;
  const shown = summary === null ? code : `<details><summary>${summary}</summary>${code}</details>`;
  return `<div class="value ${style}"><span class="side">${label}: </span>${shown}</div>`;
}

/** @param own what each side has alone, where that can be said */
function pair(from: string, to: string, own: ReturnType<typeof elementLines>): [ShownValue, ShownValue] {
  const isLong = from.length > OPEN_LIMIT || to.length > OPEN_LIMIT;
  const seen = !isLong
    ? null
    : own === null
      ? foldedPair(from, to, SUMMARY_LIMIT)
      : ([own.removed || own.before, own.added || own.after] as const);
  const summary = (index: 0 | 1): string | null =>
    // Beside a long value, a short one needs no folding.
    seen === null || (index === 0 ? from : to).length <= SUMMARY_LIMIT
      ? null
      : escapeMarkup(oneLine(seen[index]));
  const bodies =
    from.length > VALUE_LIMIT || to.length > VALUE_LIMIT
      ? (foldedPair(from, to, VALUE_LIMIT).map(plainText) as [string, string])
      : marked(from, to);
  return [
    { body: bodies[0], summary: summary(0) },
    { body: bodies[1], summary: summary(1) },
  ];
}

function summaryOf(text: string, limit: number): string | null {
  return text.length <= OPEN_LIMIT ? null : escapeMarkup(oneLine(folded(text, limit)));
}

/** Both texts with what only one of them holds in `<mark>`, where they share enough for that to help. */
function marked(from: string, to: string): [string, string] {
  if (from.includes('\n') && to.includes('\n')) return markedLines(from.split('\n'), to.split('\n'));
  const isText = from.startsWith('"') && to.startsWith('"');
  const { head, tail } = sharedEnds(from, to);
  // A number with one digit marked misleads: it is another number.
  const isClose = head + tail >= LEAST_SHARED * Math.max(from.length, to.length);
  if (!isText || !isClose) return [plainText(from), plainText(to)];
  return [from, to].map((text) => {
    const middle = text.slice(head, text.length - tail);
    const mark = middle === '' ? '' : markedText(middle);
    return `${plainText(text.slice(0, head))}${mark}${plainText(text.slice(text.length - tail))}`;
  }) as [string, string];
}

/** The same in complete lines: elements and members, of which the last one has no comma. */
function markedLines(from: readonly string[], to: readonly string[]): [string, string] {
  const [before, after] = [from, to].map((lines) => lines.map((line) => line.replace(/,$/, '')));
  const parts = lineParts(before ?? [], after ?? []) ?? [];
  // Brackets that both have are nothing in common.
  if (!parts.some(({ added, removed, value }) => !added && !removed && value.some((line) => /\w/.test(line))))
    return [plainText(from.join('\n')), plainText(to.join('\n'))];
  const side = (
    lines: readonly string[],
    isOther: 'added' | 'removed',
    isOwn: 'added' | 'removed',
  ): string => {
    const owns = parts.filter((part) => !part[isOther]).flatMap((part) => part.value.map(() => part[isOwn]));
    return lines
      .map((line, index) =>
        owns[index] === true ? line.replace(/\S.*?(?=,?$)/, markedText) : escapeMarkup(line),
      )
      .join('\n');
  };
  return [side(from, 'added', 'removed'), side(to, 'removed', 'added')];
}

/** What two lists of lines have in common, and each alone, by their longest common subsequence; undefined where that is too much. */
export function lineParts(
  left: readonly string[],
  right: readonly string[],
): ArrayChange<string>[] | undefined {
  return diffArrays([...left], [...right], { maxEditLength: MOST_DIFFERENT });
}

function markedText(text: string): string {
  return `<mark>${escapeMarkup(text)}</mark>`;
}

/** Objects and arrays over several lines: the only line breaks that are not written out. */
function indented(value: JsonValue): string {
  return JSON.stringify(value, null, 2);
}

function oneLine(text: string): string {
  return text.replace(/\n\s*/g, ' ');
}

function plainText(text: string): string {
  return text.split('\n').map(escapeMarkup).join('\n');
}

/** A pointer that may break after its slashes, and only there while there is room. */
function breakable(path: string): string {
  return escapeMarkup(path).replace(/(?<=.)\//g, '<wbr>/');
}
