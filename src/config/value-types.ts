/** The types that an option can have: the parser of each, how it reads in an error, and how it is read from text. */
import * as z from 'zod';
import { isNetwork } from '../core/network.ts';
import { parseDuration } from './duration.ts';

export interface ValueType<T> {
  /** Takes what YAML gave, returns the effective value. A custom issue's message is shown unchanged. */
  readonly schema: z.ZodType<T>;
  /** After "expected", e.g. `a whole number from 0 to 10`. */
  readonly expected: string;
  /** After "expected" for one element, where the value is a list. */
  readonly expectedItem: string | null;
  /** Short name for the reference table. */
  readonly title: string;
  /** Reads text from an environment variable; what is no such value stays text, for the schema to refuse. */
  readonly fromText: (text: string) => unknown;
}

function type<T>(
  title: string,
  expected: string,
  schema: z.ZodType<T>,
  fromText: (text: string) => unknown = (text) => text,
  expectedItem: string | null = null,
): ValueType<T> {
  return { schema, expected, expectedItem, title, fromText };
}

function numberFrom(text: string): unknown {
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

function listFrom(text: string): string[] {
  return text.split(',').map((item) => item.trim());
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON: the schema refuses the text and says what it expected.
    return text;
  }
}

/** Any text but an empty one. */
export const text: ValueType<string> = type('text', 'a text', z.string().min(1));

/** A path of this machine. */
export const path: ValueType<string> = type(
  'path',
  'a path',
  z.string().refine((value) => value.trim() !== '' && !value.includes('\0')),
);

/** An API key or token: sent in a header, so visible ASCII without spaces. */
export const secret: ValueType<string> = type(
  'text',
  'a key of visible ASCII characters without spaces (the key alone, without "Bearer")',
  z
    .string()
    .trim()
    .regex(/^[\x21-\x7e]+$/),
);

export const flag: ValueType<boolean> = type('true or false', 'true or false', z.boolean(), (value) =>
  value === 'true' ? true : value === 'false' ? false : value,
);

/** A whole number within bounds, both included. */
export function wholeNumber(min: number, max: number): ValueType<number> {
  const expected = `a whole number from ${min} to ${max}`;
  return type('whole number', expected, z.int().min(min).max(max), numberFrom);
}

/** A whole number within bounds, or the word `all`. */
export function wholeNumberOrAll(min: number, max: number): ValueType<number | 'all'> {
  const schema = z.union([z.literal('all'), z.int().min(min).max(max)]);
  return type('whole number or `all`', `"all" or a whole number from ${min} to ${max}`, schema, numberFrom);
}

/** A part of a whole. */
export const share: ValueType<number> = type(
  'number',
  'a number from 0 to 1',
  z.number().min(0).max(1),
  numberFrom,
);

export function choice<const T extends string>(values: readonly T[]): ValueType<T> {
  return type('word', `one of ${values.join(', ')}`, z.enum(values));
}

/** A list of words out of a closed set; doubles are dropped. */
export function choices<const T extends string>(values: readonly T[], one: string): ValueType<readonly T[]> {
  const schema = z.array(z.enum(values)).transform((list) => [...new Set(list)]);
  return type(`list of ${one}s`, `a list of ${one}s`, schema, listFrom, `a ${one}`);
}

export const texts: ValueType<readonly string[]> = type(
  'list of texts',
  'a list of texts',
  z.array(z.string().min(1)),
  listFrom,
  'a text',
);

/** The word `all`, or ids; YAML reads an id of digits as a number, which is taken as its text. */
export const idsOrAll: ValueType<'all' | readonly string[]> = type(
  '`all` or a list of ids',
  '"all" or a list of ids (quote ids of more than 15 digits)',
  z.union([z.literal('all'), z.array(z.union([z.string().min(1), z.int().transform(String)])).min(1)]),
  (value) => (value.trim() === 'all' ? 'all' : listFrom(value)),
  'an id',
);

/** RFC 6901 pointers; `*` stands for every element. */
export const pointers: ValueType<readonly string[]> = type(
  'list of pointers',
  'a list of JSON pointers such as /config/token',
  z.array(z.string().regex(/^\/./)),
  listFrom,
  'a JSON pointer such as /config/token',
);

export const textByName: ValueType<Readonly<Record<string, string>>> = type(
  'mapping of texts',
  'a mapping of names to texts (quote numbers)',
  z.record(z.string(), z.string()),
  jsonFrom,
);

/** In milliseconds. */
export const duration: ValueType<number> = type(
  'duration',
  'a duration such as 10s, 5m, 1h or 7d',
  z
    .string()
    .refine((value) => parseDuration(value) !== undefined)
    .transform((value) => parseDuration(value) ?? 0),
);

/** A cron expression with single spaces between its fields, or `off`. */
export const cronOrOff: ValueType<string> = type(
  'cron',
  'a cron expression of 5 fields, or 6 with seconds first, or off',
  z.string().transform((value, context) => {
    const trimmed = value.trim();
    const mistake = trimmed === 'off' ? undefined : cronMistake(trimmed);
    if (mistake !== undefined)
      context.addIssue({ code: 'custom', message: mistake, params: { isReported: true } });
    return trimmed.split(/\s+/).join(' ');
  }),
);

export const zone: ValueType<string> = type(
  'time zone',
  'a time zone such as UTC or Europe/Berlin',
  z.string().refine(isTimeZone),
);

function isTimeZone(value: string): boolean {
  // The default; asking for it would load all that Node knows of languages, 10 ms of every command.
  if (value === 'UTC') return true;
  try {
    new Intl.DateTimeFormat('en', { timeZone: value });
    return true;
  } catch {
    // RangeError: not a zone that this Node knows.
    return false;
  }
}

export const sourceName: ValueType<string> = type(
  'name',
  'a name of lower-case letters, digits, - and _',
  z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/),
);

/** Host and port; an IPv6 address in brackets. */
export const listenAddress: ValueType<{ readonly host: string; readonly port: number }> = type(
  'host:port',
  'host:port, e.g. 127.0.0.1:8787 or [::1]:8787',
  z
    .string()
    .regex(/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/)
    .refine((value) => Number(value.slice(value.lastIndexOf(':') + 1)) <= 65_535)
    .transform((value) => {
      const colon = value.lastIndexOf(':');
      return { host: value.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(value.slice(colon + 1)) };
    }),
);

/** Addresses of other machines, alone or as ranges. */
export const networks: ValueType<readonly string[]> = type(
  'list of addresses',
  'a list of IP addresses and CIDR ranges, e.g. [127.0.0.1, "10.0.0.0/8"]',
  z.array(z.string().refine(isNetwork)),
  listFrom,
  'an IP address or a CIDR range, e.g. 10.0.0.0/8',
);

/** The service's address: http or https, no credentials, no query, no fragment; a path prefix is fine. */
export const baseUrl: ValueType<URL> = type(
  'URL',
  'an http:// or https:// URL',
  z.string().transform((value, context) => {
    const url = URL.parse(value.trim());
    const mistake = url === null ? null : baseUrlMistake(url);
    if (url !== null && mistake === undefined) return url;
    context.addIssue({
      code: 'custom',
      message: mistake ?? '',
      params: { isReported: mistake !== null },
    });
    return z.NEVER;
  }),
);

/** What is wrong with a base URL, null for what the type's expectation says best. */
function baseUrlMistake(url: URL): string | null | undefined {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null;
  if (url.username !== '' || url.password !== '') {
    return 'expected a URL without credentials: the key belongs in apiKey';
  }
  if (url.search !== '' || url.hash !== '') return 'expected a URL without a query or a fragment';
  return undefined;
}

/** A type that no other one here describes. */
export function structured<T>(title: string, expected: string, schema: z.ZodType<T>): ValueType<T> {
  return type(title, expected, schema, jsonFrom);
}

// Whether a text is a cron expression: five fields, or six with seconds first. Says what is wrong with it.

interface CronField {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Names that stand for numbers, the first for `min`. */
  readonly names: readonly string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
// 0 and 7 are both Sunday.
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const SECOND: CronField = { name: 'second', min: 0, max: 59, names: [] };
const FIELDS: readonly CronField[] = [
  { name: 'minute', min: 0, max: 59, names: [] },
  { name: 'hour', min: 0, max: 23, names: [] },
  { name: 'day of month', min: 1, max: 31, names: [] },
  { name: 'month', min: 1, max: 12, names: MONTHS },
  { name: 'day of week', min: 0, max: 7, names: DAYS },
];

/** What is wrong with a cron expression, as the end of a sentence; undefined when nothing is. */
export function cronMistake(expression: string): string | undefined {
  const parts = expression.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    return `expected a cron expression of 5 fields, or 6 with seconds first, got ${countOf(parts, expression)}`;
  }
  const fields = parts.length === 6 ? [SECOND, ...FIELDS] : FIELDS;
  for (const [index, field] of fields.entries()) {
    const part = parts[index] ?? '';
    if (!part.split(',').every((item) => isCronItem(item, field))) {
      return `expected ${field.min} to ${field.max}, *, ranges or /steps for the ${field.name}, got ${JSON.stringify(part)}`;
    }
  }
  return undefined;
}

function countOf(parts: readonly string[], expression: string): string {
  return expression.trim() === '' ? 'nothing' : `${parts.length}`;
}

/** One item of a field's list: `*`, `7`, `1-5`, `mon-fri`, each with an optional `/step`. */
function isCronItem(item: string, field: CronField): boolean {
  const [range = '', step, ...rest] = item.split('/');
  if (rest.length > 0) return false;
  if (step !== undefined && !(/^\d{1,2}$/.test(step) && Number(step) > 0)) return false;
  if (range === '*') return true;
  const [from, to, ...more] = range.split('-').map((text) => cronNumber(text, field));
  if (more.length > 0 || from === undefined) return false;
  return range.includes('-') ? to !== undefined && from <= to : true;
}

function cronNumber(text: string, field: CronField): number | undefined {
  const named = field.names.indexOf(text.toLowerCase());
  if (named !== -1) return field.min + named;
  if (!/^\d{1,2}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : undefined;
}
