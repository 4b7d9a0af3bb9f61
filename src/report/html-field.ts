/** Values in HTML: side by side, with their difference marked; long values are folded. */
import { type ArrayChange, diffArrays } from 'diff';
import type { JsonValue } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeMarkup } from './markup.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { elementLines, folded, foldedPair, movedText, pathText, sharedEnds } from './value-text.ts';

const OPEN_LIMIT = 600; // characters: a longer value is folded
const VALUE_LIMIT = 20_000; // characters of a value in the page: browsers do not open a page with 1 MB values
const SUMMARY_LIMIT = 160; // characters of the summary of a folded value
const MOST_DIFFERENT = 1_000; // lines: the comparison blocks the event loop for at most 0.1 s
const LEAST_SHARED = 0.3; // of the longer text: with less in common, nothing is marked

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
  /** HTML that is shown while the value is folded; null if it is not folded. */
  readonly summary: string | null;
}

function valueHtml({ body, summary }: ShownValue, style: 'old' | 'new'): string {
  const label = style === 'old' ? 'Before' : 'After';
  const code = `<code><bdi>${body}</bdi></code>`;
  const shown = summary === null ? code : `<details><summary>${summary}</summary>${code}</details>`;
  return `<div class="value ${style}"><span class="side">${label}: </span>${shown}</div>`;
}

/** @param own the elements that only one side has, if both are such arrays */
function pair(from: string, to: string, own: ReturnType<typeof elementLines>): [ShownValue, ShownValue] {
  const isLong = from.length > OPEN_LIMIT || to.length > OPEN_LIMIT;
  const seen = !isLong
    ? null
    : own === null
      ? foldedPair(from, to, SUMMARY_LIMIT)
      : ([own.removed || own.before, own.added || own.after] as const);
  const summary = (index: 0 | 1): string | null =>
    // A short value is not folded, even beside a long one.
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

/** Both texts, with what only one of them has in `<mark>` if they have enough in common. */
function marked(from: string, to: string): [string, string] {
  if (from.includes('\n') && to.includes('\n')) return markedLines(from.split('\n'), to.split('\n'));
  const isText = from.startsWith('"') && to.startsWith('"');
  const { head, tail } = sharedEnds(from, to);
  // Only for strings: one marked digit of a number would be misleading.
  const isClose = head + tail >= LEAST_SHARED * Math.max(from.length, to.length);
  if (!isText || !isClose) return [plainText(from), plainText(to)];
  return [from, to].map((text) => {
    const middle = text.slice(head, text.length - tail);
    const mark = middle === '' ? '' : markedText(middle);
    return `${plainText(text.slice(0, head))}${mark}${plainText(text.slice(text.length - tail))}`;
  }) as [string, string];
}

/** The same by lines, without the commas that only the last element or member lacks. */
function markedLines(from: readonly string[], to: readonly string[]): [string, string] {
  const [before, after] = [from, to].map((lines) => lines.map((line) => line.replace(/,$/, '')));
  const parts = lineParts(before ?? [], after ?? []) ?? [];
  // Equal brackets do not count as common.
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

/** Common and different lines of two lists, by their longest common subsequence; undefined if too many differ. */
export function lineParts(
  left: readonly string[],
  right: readonly string[],
): ArrayChange<string>[] | undefined {
  return diffArrays([...left], [...right], { maxEditLength: MOST_DIFFERENT });
}

function markedText(text: string): string {
  return `<mark>${escapeMarkup(text)}</mark>`;
}

/** Objects and arrays over several lines: the only line breaks that are not escaped. */
function indented(value: JsonValue): string {
  return JSON.stringify(value, null, 2);
}

function oneLine(text: string): string {
  return text.replace(/\n\s*/g, ' ');
}

function plainText(text: string): string {
  return text.split('\n').map(escapeMarkup).join('\n');
}

/** A pointer that may break before its slashes. */
function breakable(path: string): string {
  return escapeMarkup(path).replace(/(?<=.)\//g, '<wbr>/');
}
