/** Parses responses: a list in any of the shapes in wire-notes.md (Lists) as a page, or a single record. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonObject, type JsonValue, getOwn, idAt, isJsonObject, parseLossless } from '../core/json.ts';
import { scanList, type RecordShape, type ScannedRecord } from '../core/json-scan.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';

export interface ListPage {
  /** As received, those without an id included. */
  readonly records: readonly ScannedRecord[];
  /** Ids in the order of the page. */
  readonly keys: readonly string[];
  /** Records that carry no id. */
  readonly withoutId: number;
  /** What the list says it holds in all; null when it does not say. */
  readonly count: number | null;
  /** Whether more follows, as the list reports it; null if it does not say. */
  readonly more: boolean | null;
  /** `next` as sent, when it is one. */
  readonly link: string | null;
  /** For the parameter `after`. */
  readonly cursor: string | null;
}

/**
 * Reads a 2xx answer as a page.
 * @throws TidemarkError `malformed`, retryable: HTML, cut or broken JSON, a 200 that is not a list
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
    // An empty id names nothing.
    const records = keys.length === scanned.length ? scanned : scanned.map(withoutEmptyId);
    return { records, keys, withoutId: records.length - keys.length, ...readEnvelope(envelope) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(answer, `no list of ${definition.title.many}: ${neutral(error.message)}`, {
      cause: error,
    });
  }
}

/** A record's text as received, without the space around it, and what it says. */
export interface FoundRecord {
  readonly found: true;
  readonly text: string;
  readonly body: JsonValue;
}

export type Retrieved = FoundRecord | { readonly found: false };

/**
 * The record in the answer to a retrieve.
 * @throws TidemarkError `malformed`, retryable: HTML, cut or broken JSON, no object, another record
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

/** One response that holds the entire list and says so: as many distinct keys as its count, and no further page. */
export function isWholeList(page: ListPage): boolean {
  return (
    page.more !== true &&
    page.withoutId === 0 &&
    page.count === page.records.length &&
    new Set(page.keys).size === page.records.length
  );
}

/** How the text of a JSON value begins; what begins so and is broken may have been cut. */
const JSON_BEGINS = /^\s*(?:[[{"\d-]|true|false|null|$)/;

/** @throws TidemarkError `malformed` when a web page, or other text, was sent where JSON was promised */
export function refuseOtherText(answer: Answer): void {
  const isHtml = /^\s*</.test(answer.text) || /^\s*(text\/html|application\/xhtml)/i.test(answer.contentType);
  if (!isHtml && JSON_BEGINS.test(answer.text)) return;
  throw malformed(answer, `${isHtml ? 'an HTML page' : 'text'} instead of JSON`, {
    hint: 'check that baseUrl of the source points at the API and not at a web page or a login',
  });
}

const CUT_HINT =
  'the answer may have been cut or changed on its way: run again later; if it stays, check the service and what is in front of it';

/** A success that does not follow the contract: worth another attempt, a proxy may have caused it. */
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

/** A count sent as text is still a count; what is not a whole number says nothing. */
function wholeNumber(value: JsonValue | undefined): number | null {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : null;
}
