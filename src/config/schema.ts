/**
 * The parts of the configuration's schema: types of zod with metadata for documentation, messages and environment
 * variables, and functions that find a schema by its path.
 */
import { isIP } from 'node:net';
import * as z from 'zod';
import { Secret } from '../core/secret.ts';
import { cronMistake } from './cron.ts';
import { type Path, isMapping } from './tree.ts';

// A configuration is parsed once: compiling parsers would cost more time than it saves.
z.config({ jitless: true });

/** A schema of any value. */
export type OptionType = z.ZodType;

/** The metadata of a schema. An option has an `example`; without one, it is a section, or a list of sections. */
export interface About {
  readonly description?: string | undefined;
  /** The value that is written as YAML. */
  readonly example?: unknown;
  readonly unit?: string | undefined;
  /** For the reference, instead of the default. */
  readonly defaultNote?: string | undefined;
  /** Follows "expected" in a message; by default derived from the schema. */
  readonly expected?: string | undefined;
  /** Short name of the type for the reference; by default derived from the schema. */
  readonly type?: string | undefined;
  /** For a mapping: what its keys are, e.g. `kind`; for a union: what its forms are. */
  readonly keyTitle?: string | undefined;
  /** True if it, or something below it, is a secret: no message quotes it. */
  readonly isSecret?: boolean;
  /** For a list: a variable must give it as JSON, since its elements may contain commas. */
  readonly isJson?: boolean;
  /** The message if it is missing, although a default lets the rest be checked. */
  readonly missing?: string | undefined;
}

/** A mapping with exactly these keys; a missing or empty value is an empty mapping. */
export function section<S extends z.core.$ZodShape>(description: string, shape: S) {
  return z.preprocess((given) => given ?? {}, z.strictObject(shape)).meta({ description });
}

/** A list of sections of one type. */
export function listOf<T extends z.ZodType>(description: string, of: T) {
  return z.preprocess((given) => given ?? [], z.array(of)).meta({ description });
}

type Wrapper = z.ZodOptional | z.ZodNullable | z.ZodPrefault | z.ZodDefault | z.ZodReadonly;

/** True for a schema that makes a value optional, or gives it a default. */
export function isWrapper(schema: z.core.$ZodType): schema is Wrapper {
  return (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodReadonly
  );
}

/** The schema without the defaults and transformations around it. */
export function inner(schema: z.core.$ZodType): z.core.$ZodType {
  if (isWrapper(schema)) return inner(schema.unwrap());
  if (schema instanceof z.ZodPipe) return inner(schema.in instanceof z.ZodTransform ? schema.out : schema.in);
  return schema;
}

/** The metadata of a schema and of what it wraps; the outermost wins. */
export function aboutOf(schema: z.core.$ZodType): About {
  const own = schema instanceof z.ZodType ? schema.meta() : undefined;
  if (isWrapper(schema)) return { ...aboutOf(schema.unwrap()), ...own };
  if (schema instanceof z.ZodPipe)
    return { ...aboutOf(schema.in instanceof z.ZodTransform ? schema.out : schema.in), ...own };
  return own ?? {};
}

/** The default, before transformations; undefined if there is none. */
export function defaultOf(schema: z.core.$ZodType): unknown {
  return schema instanceof z.ZodPrefault ? schema._zod.def.defaultValue : undefined;
}

/** True for a mapping with named keys. */
export function hasKeys(schema: z.core.$ZodType): schema is z.ZodObject<Record<string, z.ZodType>> {
  return schema instanceof z.ZodObject;
}

/** The keys of a section, and of every form that a union of sections has. */
export function shapeOf(schema: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> {
  const node = inner(schema);
  if (hasKeys(node)) return node.shape;
  if (node instanceof z.ZodUnion)
    return Object.assign({}, ...node.options.map(shapeOf)) as Readonly<Record<string, z.core.$ZodType>>;
  return {};
}

function below(schema: z.core.$ZodType, part: string | number, value: unknown): z.core.$ZodType | undefined {
  const node = inner(schema);
  if (node instanceof z.ZodArray) return node.element;
  if (node instanceof z.ZodRecord) return node.valueType;
  if (hasKeys(node)) return Object.hasOwn(node.shape, part) ? node.shape[part] : undefined;
  if (!(node instanceof z.ZodUnion)) return undefined;
  return formOf(node, value)
    .map((option) => below(option, part, value))
    .find((found) => found !== undefined);
}

/** The form of a union that a value has according to its `type`; all forms if that does not decide. */
export function formOf(union: z.ZodUnion, value: unknown): readonly z.core.$ZodType[] {
  const type = isMapping(value) ? value['type'] : undefined;
  if (typeof type !== 'string') return union.options;
  const fitting = union.options.filter(
    (option) => hasKeys(option) && option.shape['type']?._zod.values?.has(type) === true,
  );
  return fitting.length > 0 ? fitting : union.options;
}

/** The schemas along a path, from that of the root, as far as there are any. `root` is the value, which decides between forms. */
export function schemasAlong(schema: z.core.$ZodType, path: Path, root: unknown): z.core.$ZodType[] {
  const along = [schema];
  let [node, value]: [z.core.$ZodType | undefined, unknown] = [schema, root];
  for (const part of path) {
    node = below(node, part, value);
    if (node === undefined) return along;
    along.push(node);
    value = isMapping(value) || Array.isArray(value) ? (value as Record<string, unknown>)[part] : undefined;
  }
  return along;
}

/**
 * Converts a text for a schema: `4` to a number, `a,b` to a list. A text that cannot be converted is returned, so that
 * the schema refuses it.
 */
export function fromText(schema: z.core.$ZodType, text: string): unknown {
  const node = inner(schema);
  if (node instanceof z.ZodNumber) return /^\s*-?\d+(\.\d+)?\s*$/.test(text) ? Number(text) : text;
  if (node instanceof z.ZodBoolean) return text === 'true' ? true : text === 'false' ? false : text;
  if (node instanceof z.ZodObject || node instanceof z.ZodRecord) return jsonOr(text, text);
  if (node instanceof z.ZodArray) {
    const isJson = aboutOf(schema).isJson === true || inner(node.element) instanceof z.ZodObject;
    if (isJson || inner(node.element) instanceof z.ZodDiscriminatedUnion) return jsonOr(text, text);
    const list = text.split(',').map((item) => item.trim());
    return text.trimStart().startsWith('[') ? jsonOr(text, list) : list;
  }
  if (!(node instanceof z.ZodUnion)) return text;
  const word = node.options.find((option) => option instanceof z.ZodLiteral && option.value === text.trim());
  const other = node.options.find((option) => !(option instanceof z.ZodLiteral));
  return word !== undefined || other === undefined ? text.trim() : fromText(other, text);
}

function jsonOr(text: string, otherwise: unknown): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Not JSON: the schema will refuse it.
    return otherwise;
  }
}

// The types of options. A message of a check is reported unchanged; without one, `expected` is reported.

export const text = z.string().min(1);

/** A path of this machine. */
export const path = z
  .string()
  .refine((value) => value.trim() !== '' && !value.includes('\0'))
  .meta({ type: 'path', expected: 'a path' });

/**
 * Path of the mirror, or of one mirror per source if it contains `{source}`. A dot or slash must follow, which no name
 * of a source has: so no file of one source (which may end with `-wal`, `-lock` and so on) can be that of another.
 */
export const mirrorPath = path
  .regex(/^(?:[^{}]|\{source\}(?=(?:[^{}]|\{source\})*[./][^{}]*$))*$/)
  .meta({ expected: 'a path without braces, or with {source} before an ending such as .db' });

/** An API key or token: sent in a header, so visible ASCII without spaces. */
export const secret = z
  .string()
  .trim()
  .regex(/^[\x21-\x7e]+$/)
  .meta({
    isSecret: true,
    expected: 'a key of visible ASCII characters without spaces (the key alone, without "Bearer")',
  });

/** Text that is kept as a secret. */
export const secretText = text.transform((value) => new Secret(value)).meta({ isSecret: true });

/** A URL that may contain a secret, with one of these schemes. */
export function secretUrl(...schemes: readonly string[]) {
  return z
    .string()
    .trim()
    .refine((value) => {
      const url = URL.parse(value);
      return url !== null && schemes.includes(url.protocol) && url.hostname !== '';
    })
    .transform((value) => new Secret(value))
    .meta({
      isSecret: true,
      type: 'URL',
      expected: `a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`,
    });
}

/** A PostgreSQL database; without a host, the server of this machine. */
export const databaseUrl = z
  .string()
  .trim()
  .refine((value) => /^postgres(ql)?:$/.test(URL.parse(value)?.protocol ?? ''))
  .transform((value) => new Secret(value))
  .meta({ isSecret: true, type: 'URL', expected: 'a URL that begins with postgresql://' });

/** A whole number within bounds, both included. */
export function wholeNumber(min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return z.int().min(min).max(max).meta({ type: 'whole number', expected });
}

/** A part of something, from 0 to 1. */
export const share = z.number().min(0).max(1).meta({ type: 'number', expected: 'a number from 0 to 1' });

/** A list of words of a closed set, without duplicates. */
export function choices<const T extends string>(values: readonly T[], one: string) {
  return z
    .array(z.enum(values).meta({ expected: one }))
    .transform((list) => [...new Set(list)])
    .meta({
      type: `list of ${one.replace(/^an? /, '')}s`,
      expected: `a list of ${one.replace(/^an? /, '')}s`,
    });
}

export const texts = z.array(text).meta({ type: 'list of strings', expected: 'a list of strings' });

/** An id. YAML reads one of digits as a number, which is converted to text. */
export const id = z.union([text, z.int().transform(String)]).meta({ expected: 'an id' });

/** The word `all`, or ids. */
export const idsOrAll = z.union([z.literal('all'), z.array(id).min(1)]).meta({
  type: '`all` or a list of ids',
  expected: '"all" or a list of ids (quote ids of more than 15 digits)',
});

/** An RFC 6901 pointer below the root; `*` stands for every element. */
export const pointer = z
  .string()
  .regex(/^\/./)
  .meta({ type: 'pointer', expected: 'a JSON pointer such as /config/token' });

export const pointers = z
  .array(pointer)
  .meta({ type: 'list of pointers', expected: 'a list of JSON pointers such as /config/token' });

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

// Ten years: longer durations are mistakes, and sums with epoch milliseconds stay exact.
const LONGEST_MS = 3650 * UNIT_MS.d;

/** Milliseconds of a duration such as `500ms`, `1.5h` or `7d`; undefined for other texts, and for more than ten years. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,12}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text);
  if (match === null) return undefined;
  const ms = Math.round(Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]);
  return ms <= LONGEST_MS ? ms : undefined;
}

/** In milliseconds. */
export const duration = z
  .string()
  .refine((value) => parseDuration(value) !== undefined)
  .transform((value) => parseDuration(value) ?? 0)
  .meta({ type: 'duration', expected: 'a duration such as 10s, 5m, 1h or 7d' });

/** A cron expression with single spaces between its fields, or `off`. */
export const cronOrOff = z
  .string()
  .transform((value, context) => {
    const trimmed = value.trim().split(/\s+/).join(' ');
    const mistake = trimmed === 'off' ? undefined : cronMistake(trimmed);
    if (mistake !== undefined) context.addIssue({ code: 'custom', message: mistake });
    return trimmed;
  })
  .meta({ type: 'cron', expected: 'a cron expression of 5 fields, or 6 with seconds first, or off' });

export const zone = z
  .string()
  .refine((value) => {
    // The default. Checking it would load Node's data about languages, which takes 10 ms in every command.
    if (value === 'UTC') return true;
    try {
      new Intl.DateTimeFormat('en', { timeZone: value });
      return true;
    } catch {
      // RangeError: not a zone that Node knows.
      return false;
    }
  })
  .meta({ type: 'time zone', expected: 'a time zone such as UTC or Europe/Berlin' });

/** The name of a source or channel. */
export const name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/)
  .meta({ type: 'name', expected: 'a name of lower-case letters, digits, - and _' });

/** Host and port; an IPv6 address in brackets. */
export const listenAddress = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/)
  .refine((value) => Number(value.slice(value.lastIndexOf(':') + 1)) <= 65_535)
  .transform((value) => {
    const colon = value.lastIndexOf(':');
    return { host: value.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(value.slice(colon + 1)) };
  })
  .meta({ type: 'host:port', expected: 'host:port, e.g. 127.0.0.1:8787 or [::1]:8787' });

/** Addresses of other machines, alone or as ranges. */
export const networks = z
  .array(z.string().refine(isNetwork).meta({ expected: 'an IP address or a CIDR range, e.g. 10.0.0.0/24' }))
  .meta({
    type: 'list of addresses',
    expected: 'a list of IP addresses and CIDR ranges, e.g. [127.0.0.1, "10.0.0.0/24"]',
  });

/** The name of a header set by a proxy. */
export const headerName = z
  .string()
  .regex(/^(?!(authorization|cookie|host|origin)$)[a-z0-9][a-z0-9-]*$/i)
  .meta({ type: 'header', expected: 'the name of a header of its own, e.g. X-Forwarded-User' });

/** The address of a service: http or https, without credentials, query and fragment; it may have a path prefix. */
export const baseUrl = z
  .string()
  .transform((value, context) => {
    const url = URL.parse(value.trim());
    const mistake = url === null ? null : baseUrlMistake(url);
    if (url !== null && mistake === undefined) return url;
    context.addIssue({ code: 'custom', ...(mistake === null ? {} : { message: mistake }) });
    return z.NEVER;
  })
  .meta({ type: 'URL', expected: 'an http:// or https:// URL' });

/** What is wrong with a base URL; null if `expected` says it best, undefined if nothing is. */
function baseUrlMistake(url: URL): string | null | undefined {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null;
  if (url.username !== '' || url.password !== '')
    return 'expected a URL without credentials: the key belongs in apiKey';
  if (url.search !== '' || url.hash !== '') return 'expected a URL without a query or a fragment';
  return undefined;
}

/** True for an IP address, and for a range such as `10.0.0.0/8`. */
export function isNetwork(value: string): boolean {
  const [address = '', bits, ...more] = value.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
}
