/** Parses a response as a page of a list, in any of the shapes in wire-notes.md (Lists), or as a single record. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonObject, type JsonValue, getOwn, idAt, isJsonObject, parseLossless } from '../core/json.ts';
import { scanList, type RecordShape, type ScannedRecord } from '../core/json-scan.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';

export interface ListPage {
  /** As received, including records without an id. */
  readonly records: readonly ScannedRecord[];
  /** The ids in page order. */
  readonly keys: readonly string[];
  /** How many records have no id. */
  readonly withoutId: number;
  /** The length of the entire list as the service reports it; null if it does not. */
  readonly count: number | null;
  /** Whether more pages follow, as the service reports it; null if it does not. */
  readonly more: boolean | null;
  /** `next` as sent, if it is a link. */
  readonly link: string | null;
  /** The value for the parameter `after`. */
  readonly cursor: string | null;
}

/**
 * Parses a 2xx response as a page.
 * @throws TidemarkError `malformed`, retryable, for HTML, truncated or broken JSON, and JSON that is not a list
 */
export function readPage(
  answer: Answer,
  definition: ResourceDefinition,
  shape: RecordShape,
  neutral: NeutralText,
): ListPage {
  refuseOtherText(answer);
  try {
    const { envelope, records: scanned } = scanList(answer.text, definition.listing.listKeys, shape);
    const keys: string[] = [];
    for (const { id } of scanned) if (id !== undefined && id !== '') keys.push(id);
    // An empty id counts as none.
    const records = keys.length === scanned.length ? scanned : scanned.map(withoutEmptyId);
    return { records, keys, withoutId: records.length - keys.length, ...readEnvelope(envelope) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(answer, `no list of ${definition.title.many}: ${neutral(error.message)}`, {
      cause: error,
    });
  }
}

/** A record: its text as received, without surrounding white space, and its parsed value. */
export interface FoundRecord {
  readonly found: true;
  readonly text: string;
  readonly body: JsonValue;
}

export type Retrieved = FoundRecord | { readonly found: false };

/**
 * Parses the response to a retrieve.
 * @throws TidemarkError `malformed`, retryable, for HTML, truncated or broken JSON, another type of value or another
 * record
 */
export function readRecord(
  answer: Answer,
  definition: ResourceDefinition,
  id: string,
  neutral: NeutralText,
): FoundRecord {
  refuseOtherText(answer);
  const one = definition.title.one;
  try {
    const body = parseLossless(answer.text);
    if (!isJsonObject(body)) throw malformed(answer, `no ${one}`);
    const given = idAt(body, definition.idPath);
    // Some servers answer with a default record instead of 404.
    if (given !== undefined && given.toLowerCase() !== id.toLowerCase()) {
      throw malformed(answer, `another ${one} than the one requested`);
    }
    return { found: true, text: answer.text.trim(), body };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(answer, `no ${one}: ${neutral(error.message)}`, { cause: error });
  }
}

/** Whether the page holds the entire list and says so: it has as many distinct keys as its count, and no next page. */
export function isWholeList(page: ListPage): boolean {
  return (
    page.more !== true &&
    page.withoutId === 0 &&
    page.count === page.records.length &&
    new Set(page.keys).size === page.records.length
  );
}

/** The beginning of a JSON text. Broken text that begins like this may be truncated JSON. */
const JSON_BEGINS = /^\s*(?:[[{"\d-]|true|false|null|$)/;

/** @throws TidemarkError `malformed` if the response is a web page or other text instead of JSON */
export function refuseOtherText(answer: Answer): void {
  const isHtml = /^\s*</.test(answer.text) || /^\s*(text\/html|application\/xhtml)/i.test(answer.contentType);
  if (!isHtml && JSON_BEGINS.test(answer.text)) return;
  throw malformed(answer, `${isHtml ? 'an HTML page' : 'text'} instead of JSON`, {
    hint: 'check that baseUrl of the source points at the API and not at a web page or a login',
  });
}

const CUT_HINT =
  'the answer may have been cut or changed on its way: run again later; if this persists, check the service and what is in front of it';

/** The error for a successful response that breaks the contract. It is retryable, since a proxy may have caused it. */
export function malformed(
  answer: Answer,
  what: string,
  { cause, hint = CUT_HINT }: { readonly cause?: unknown; readonly hint?: string } = {},
): TidemarkError {
  return new TidemarkError('malformed', `the service answered ${answer.status} with ${what}`, {
    hint,
    isRetryable: true,
    status: answer.status,
    ...(cause === undefined ? {} : { cause }),
  });
}

function withoutEmptyId(record: ScannedRecord): ScannedRecord {
  return record.id === '' ? { ...record, id: undefined } : record;
}

type Envelope = Pick<ListPage, 'count' | 'more' | 'link' | 'cursor'>;

function readEnvelope(text: string | null): Envelope {
  const body = text === null ? undefined : parseLossless(text);
  if (!isJsonObject(body)) return { count: null, more: null, link: null, cursor: null };
  const next = getOwn(body, 'next');
  const hasNext = getOwn(body, 'has_next');
  const cursor = firstText(body, ['next_cursor']);
  const link = typeof next === 'string' && next.trim() !== '' ? next.trim() : null;
  const isEnd = next === null || next === '' || next === false;
  const more =
    typeof hasNext === 'boolean' ? hasNext : link !== null || cursor !== null ? true : isEnd ? false : null;
  return { count: countOf(body), more, link, cursor: more === false ? null : cursor };
}

function firstText(body: JsonObject, names: readonly string[]): string | null {
  for (const name of names) {
    const value = getOwn(body, name);
    if (typeof value === 'string' && value !== '') return value;
    if (typeof value === 'number') return String(value);
  }
  return null;
}

function countOf(body: JsonObject): number | null {
  for (const name of ['count', 'total_count', 'total']) {
    const count = wholeNumber(getOwn(body, name));
    if (count !== null) return count;
  }
  return null;
}

/** Accepts a count sent as text; null for anything that is not an integer. */
function wholeNumber(value: JsonValue | undefined): number | null {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null;
}
