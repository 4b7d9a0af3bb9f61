/**
 * Finds positions in JSON text without parsing it, so that a record is kept exactly as received and hashed by its text.
 * The scanner checks structure (brackets, separators, strings), not every token. A new or changed record is parsed
 * before it is stored, and text with a known hash was parsed when it was first received.
 */

/** What to look for in each record of a list. */
export interface RecordShape {
  /** Member names that lead to the id: `['id']`, or `['user', 'uuid']` for members. */
  readonly idPath: readonly string[];
  /** Top-level members that the service changes without a configuration change. They are omitted from `stableText`. */
  readonly volatile: ReadonlySet<string>;
  /** The top-level member with the creation time of the record, if its text is needed. */
  readonly createdAtName?: string;
}

/** One record of a list, as text. */
export interface ScannedRecord {
  /**
   * The id as text: strings decoded, numbers digit by digit; undefined if the record has none. Callers may keep it. The
   * other texts are parts of the page, which they keep in memory.
   */
  readonly id: string | undefined;
  /** The record exactly as received. */
  readonly text: string;
  /** The record without its volatile members; the same string as `text` for kinds that have none. */
  readonly stableText: string;
  /** The texts of the volatile members, joined by commas; empty for kinds that have none. */
  readonly volatileText: string;
  /** The text of `RecordShape.createdAtName`, including quotes; undefined if not requested or the record has none. */
  readonly createdAtText?: string | undefined;
}

/** A record whose text is not JSON. The message does not name the record, because its id may be a secret. */
export class RecordSyntaxError extends SyntaxError {
  readonly id: string;

  constructor(id: string, mistake: string) {
    super(mistake);
    this.id = id;
  }
}

/** A parsed list response. */
interface ScannedList {
  /** The members other than the records (`count`, `next`, …) as the text of a JSON object; null for a bare array. */
  readonly envelope: string | null;
  readonly records: ScannedRecord[];
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

export function broken(text: string, at: number): SyntaxError {
  return new SyntaxError(
    at >= text.length ? 'JSON ends before it is complete' : `unexpected character in JSON at position ${at}`,
  );
}

export function skipSpace(text: string, at: number): number {
  let i = at;
  while (i < text.length && isSpace(text.charCodeAt(i))) i += 1;
  return i;
}

/** From an opening quote to the position after the closing one. */
export function skipString(text: string, open: number): number {
  let close = text.indexOf('"', open + 1);
  for (;;) {
    if (close === -1) throw broken(text, text.length);
    let slashes = 0;
    while (text.charCodeAt(close - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return close + 1;
    close = text.indexOf('"', close + 1);
  }
}

/** From the first character of a value to the position after its last. */
export function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return skipString(text, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) {
    let depth = 0;
    let i = start;
    while (i < text.length) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) {
        i = skipString(text, i);
        continue;
      }
      i += 1;
      if (code === OPEN_BRACE || code === OPEN_BRACKET) depth += 1;
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        depth -= 1;
        if (depth === 0) return i;
      }
    }
    throw broken(text, text.length);
  }
  let i = start;
  while (i < text.length) {
    const code = text.charCodeAt(i);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isSpace(code)) break;
    i += 1;
  }
  if (i === start) throw broken(text, start);
  return i;
}

/** The most levels that SQLite's JSON functions accept. A mirror cannot store a record that nests deeper. */
export const MOST_NESTING = 1000;

/** True for text that nests arrays and objects more than `most` levels deep. */
export function nestsDeeperThan(text: string, most: number): boolean {
  let depth = 0;
  let i = 0;
  while (i < text.length) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = skipString(text, i);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      depth += 1;
      if (depth > most) return true;
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth -= 1;
    i += 1;
  }
  return false;
}

export function decodeKey(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1);
  return raw.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : raw;
}

/** Visits the members of the object that starts at `start`; returns the position after it. */
function scanMembers(
  text: string,
  start: number,
  visit: (key: string, keyStart: number, valueStart: number, valueEnd: number) => void,
): number {
  if (text.charCodeAt(start) !== OPEN_BRACE) throw broken(text, start);
  let i = skipSpace(text, start + 1);
  if (text.charCodeAt(i) === CLOSE_BRACE) return i + 1;
  for (;;) {
    if (text.charCodeAt(i) !== QUOTE) throw broken(text, i);
    const keyStart = i;
    const keyEnd = skipString(text, i);
    i = skipSpace(text, keyEnd);
    if (text.charCodeAt(i) !== COLON) throw broken(text, i);
    const valueStart = skipSpace(text, i + 1);
    const valueEnd = skipValue(text, valueStart);
    visit(decodeKey(text, keyStart, keyEnd), keyStart, valueStart, valueEnd);
    i = skipSpace(text, valueEnd);
    const next = text.charCodeAt(i);
    if (next === CLOSE_BRACE) return i + 1;
    if (next !== COMMA) throw broken(text, i);
    i = skipSpace(text, i + 1);
  }
}

/**
 * The same well-formed text in memory of its own. A part of a string keeps the entire string in memory, so parts that
 * outlive their page are copied.
 */
export function copyText(text: string): string {
  return Buffer.from(text).toString();
}

/**
 * The text of a string or number as an id, copied; undefined for anything else, and for a string with a lone surrogate:
 * UTF-8 cannot distinguish such strings, and so neither can paths or the mirror.
 */
function idFrom(text: string, valueStart: number, valueEnd: number): string | undefined {
  const raw = text.slice(valueStart, valueEnd);
  if (raw.charCodeAt(0) === QUOTE) {
    if (raw.includes('\\')) {
      const id = JSON.parse(raw) as string;
      return id.isWellFormed() ? id : undefined;
    }
    return raw.isWellFormed() ? copyText(raw.slice(1, -1)) : undefined;
  }
  return /^-?[0-9]/.test(raw) ? copyText(raw) : undefined;
}

function nestedId(text: string, start: number, path: readonly string[]): string | undefined {
  if (text.charCodeAt(start) !== OPEN_BRACE) return undefined;
  const [name, ...rest] = path;
  let id: string | undefined;
  scanMembers(text, start, (key, _keyStart, valueStart, valueEnd) => {
    if (key !== name) return;
    id = rest.length === 0 ? idFrom(text, valueStart, valueEnd) : nestedId(text, valueStart, rest);
  });
  return id;
}

/** Scans the record (a JSON object) that starts at `start` of `text`; also returns where it ends. */
function scanRecordAt(
  text: string,
  start: number,
  shape: RecordShape,
): { record: ScannedRecord; end: number } {
  const { volatile, idPath, createdAtName } = shape;
  const idName = idPath[0];
  let id: string | undefined;
  let createdAtText: string | undefined;
  let stable = '';
  let volatileText = '';
  let keptStart = -1;
  let keptEnd = -1;
  const end = scanMembers(text, start, (key, keyStart, valueStart, valueEnd) => {
    if (key === idName) {
      id =
        idPath.length === 1
          ? idFrom(text, valueStart, valueEnd)
          : nestedId(text, valueStart, idPath.slice(1));
    }
    if (key === createdAtName) createdAtText = text.slice(valueStart, valueEnd);
    if (volatile.has(key)) {
      volatileText += (volatileText === '' ? '' : ',') + text.slice(keyStart, valueEnd);
      if (keptStart !== -1) stable += (stable === '' ? '' : ',') + text.slice(keptStart, keptEnd);
      keptStart = -1;
    } else {
      if (keptStart === -1) keptStart = keyStart;
      keptEnd = valueEnd;
    }
  });
  const recordText = start === 0 && end === text.length ? text : text.slice(start, end);
  if (volatile.size === 0)
    return { record: { id, text: recordText, stableText: recordText, volatileText: '', createdAtText }, end };
  if (keptStart !== -1) stable += (stable === '' ? '' : ',') + text.slice(keptStart, keptEnd);
  return { record: { id, text: recordText, stableText: `{${stable}}`, volatileText, createdAtText }, end };
}

/**
 * Scans the text of one record.
 * @throws SyntaxError if the text is not one JSON object
 */
export function scanRecord(text: string, shape: RecordShape): ScannedRecord {
  const start = skipSpace(text, 0);
  const { record, end } = scanRecordAt(text, start, shape);
  if (skipSpace(text, end) !== text.length) throw broken(text, end);
  return record;
}

/**
 * Scans a list response: an envelope with the records under one of `listKeys` (the first one with an array), or a bare
 * array.
 * @throws SyntaxError if the text is truncated, not JSON, or neither of the two
 */
export function scanList(text: string, listKeys: readonly string[], shape: RecordShape): ScannedList {
  const start = skipSpace(text, 0);
  if (text.charCodeAt(start) === OPEN_BRACKET) {
    const { records, end } = scanElements(text, start, shape);
    if (skipSpace(text, end) !== text.length) throw broken(text, end);
    return { envelope: null, records };
  }
  const members: { key: string; text: string; valueStart: number }[] = [];
  const end = scanMembers(text, start, (key, keyStart, valueStart, valueEnd) => {
    const isList = text.charCodeAt(valueStart) === OPEN_BRACKET && listKeys.includes(key);
    members.push({ key, text: isList ? '' : text.slice(keyStart, valueEnd), valueStart });
  });
  if (skipSpace(text, end) !== text.length) throw broken(text, end);
  for (const listKey of listKeys) {
    // The last of equal keys counts, as in JSON.parse.
    const list = members.findLast((member) => member.key === listKey && member.text === '');
    if (list === undefined) continue;
    const rest = members.filter((member) => member.text !== '').map((member) => member.text);
    return { envelope: `{${rest.join(',')}}`, records: scanElements(text, list.valueStart, shape).records };
  }
  throw new SyntaxError(
    `no list in the answer: expected an array or an object with ${listKeys.join(' or ')}`,
  );
}

function scanElements(
  text: string,
  start: number,
  shape: RecordShape,
): { records: ScannedRecord[]; end: number } {
  const records: ScannedRecord[] = [];
  let i = skipSpace(text, start + 1);
  if (text.charCodeAt(i) === CLOSE_BRACKET) return { records, end: i + 1 };
  for (;;) {
    const { record, end } = scanRecordAt(text, i, shape);
    records.push(record);
    i = skipSpace(text, end);
    const next = text.charCodeAt(i);
    if (next === CLOSE_BRACKET) return { records, end: i + 1 };
    if (next !== COMMA) throw broken(text, i);
    i = skipSpace(text, i + 1);
  }
}
