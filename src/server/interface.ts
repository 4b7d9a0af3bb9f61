/** The API over a store: a function from requests to answers, without sockets. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Operation, Scope, ScopeKey } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Clock } from '../core/clock.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import {
  type AccessKey,
  type Authenticate,
  checkOrganization,
  checkPermission,
  permissionFor,
  viewerOf,
} from './authorization.ts';
import { type PageSize, envelope, pageWindow } from './page.ts';
import type { ReadableStore, WritableStore } from './store.ts';
import {
  methodNotAllowed,
  notFound,
  serverError,
  WireError,
  mediaTypeUnsupported,
  parseFailed,
  throttled,
} from './wire-error.ts';

interface WireRequest {
  readonly method: string;
  /** Path and query exactly as received, neither decoded nor resolved. */
  readonly target: string;
  /** Scheme and authority that the client used, e.g. `http://127.0.0.1:8123`. */
  readonly origin: string;
  /** The `Host` header as received. */
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly contentType: string | undefined;
  /** Reads the body; called only after the key was accepted. Rejects with `WireError` if it is too large. */
  readonly body: () => Promise<Uint8Array>;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text, as a string or in pieces of UTF-8; null for no body. */
  readonly body: string | readonly Uint8Array[] | null;
  /** Called when the entire body was passed to the system; does not throw. */
  readonly whenSent?: (() => void) | undefined;
}

/** The store from which a request reads, and headers that describe its state. */
export interface StoreView {
  readonly store: ReadableStore;
  readonly headers: Readonly<Record<string, string>>;
}

interface InterfaceOptions {
  /** Path before `/api/`, without a trailing slash; empty at the root. */
  readonly mount: string;
  readonly authenticate: Authenticate;
  /**
   * Does work with the store that the query chooses, e.g. by `as_of`, in one consistent state. Throws `WireError` if
   * the query is wrong, or nothing can be read.
   */
  readonly read: <T>(query: URLSearchParams, work: (view: StoreView) => T) => T;
  /**
   * The JSON text of the answer to a GET operation other than list and retrieve, for a record or collection that
   * exists; null for an empty answer. Throws `WireError` if it cannot be answered.
   */
  readonly readingAction: (operation: Operation) => string | null;
  /** Null for a read-only server: everything but GET answers 405. */
  readonly writer: WritableStore | null;
  readonly pageSize: PageSize;
  readonly throttle: Throttle | null;
  readonly log: Logger;
}

export type Interface = (request: WireRequest) => Promise<WireAnswer>;

interface Call {
  readonly route: Route;
  readonly match: RouteMatch;
  readonly key: AccessKey;
  readonly query: URLSearchParams;
  readonly path: string;
}

/**
 * Serves every operation of the catalog. The order of the checks: path (404), key (401), method (405), rate (429),
 * permission and organization (403), parents and record (404), body (400, 413, 415).
 */
export function createInterface(options: InterfaceOptions): Interface {
  return async (request) => {
    try {
      return await answer(options, request);
    } catch (error) {
      if (error instanceof WireError) return refusalAnswer(error);
      options.log.error(
        { err: error, method: request.method, path: splitTarget(request.target).path },
        'a request failed inside the server',
      );
      return refusalAnswer(serverError());
    }
  };
}

/** A refusal as an answer. */
export function refusalAnswer(error: WireError): WireAnswer & { readonly body: string } {
  const body = JSON.stringify(error.body);
  return { ...jsonAnswer(error.status, body, error.headers), body };
}

async function answer(options: InterfaceOptions, request: WireRequest): Promise<WireAnswer> {
  const { path, query } = splitTarget(request.target);
  const match = path.startsWith(options.mount) ? matchRoute(path.slice(options.mount.length)) : undefined;
  if (match === undefined) throw notFound('Not found. Paths start with /api/ and end in a slash.');
  const allowed = allowedMethods(match, options.writer !== null);
  if (request.method === 'OPTIONS') return emptyAnswer(204, { Allow: allowed.join(', ') });

  const key = options.authenticate(request);
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const route = allowed.includes(method) ? match.byMethod.get(method) : undefined;
  if (route === undefined) throw methodNotAllowed(request.method, allowed);
  options.throttle?.(key.key);
  checkPermission(key, permissionFor(route.definition, route.operation));

  const call = { route, match, key, query, path };
  if (method === 'GET') {
    return options.read(query, (view) => read(options, view, request, call));
  }
  if (options.writer === null) throw methodNotAllowed(request.method, allowed);
  return write(options.writer, request, call);
}

function read(
  options: InterfaceOptions,
  { store, headers }: StoreView,
  request: WireRequest,
  call: Call,
): WireAnswer {
  const { definition, operation } = call.route;
  const { scope, id } = call.match;
  const viewer = viewerOf(call.key);
  checkOrganization(call.key, organizationTarget(call), store);
  if (operation.role === 'list') {
    const window = pageWindow(call.query, options.pageSize);
    const page = store.list(definition.kind, scope, window, viewer);
    if (page === undefined) throw notFound();
    const body = envelope(page, window, request.origin + call.path, call.query);
    return { ...jsonAnswer(200, body, { ...headers, ...page.headers }), whenSent: page.whenSent };
  }
  if (id === null) {
    if (store.list(definition.kind, scope, { offset: 0, limit: 0 }, viewer) === undefined) throw notFound();
    return okAnswer(options.readingAction(operation), headers);
  }
  const record = store.retrieve(definition.kind, scope, id, viewer);
  if (record === undefined) throw notFound();
  return okAnswer(operation.role === 'retrieve' ? record : options.readingAction(operation), headers);
}

async function write(store: WritableStore, request: WireRequest, call: Call): Promise<WireAnswer> {
  const { definition, operation } = call.route;
  const { scope, id } = call.match;
  const viewer = viewerOf(call.key);
  checkOrganization(call.key, organizationTarget(call), store);
  if (operation.role === 'remove') {
    store.remove(definition.kind, scope, id ?? '', viewer);
    return emptyAnswer(204);
  }
  const body = parseBody(await request.body(), request.contentType);
  if (operation.role === 'create') {
    return jsonAnswer(201, store.create(definition.kind, scope, body, viewer));
  }
  if (operation.role === 'update') {
    return jsonAnswer(200, store.update(definition.kind, scope, id ?? '', body, viewer));
  }
  return okAnswer(store.act(definition.kind, scope, id, operation.action ?? '', body, viewer));
}

/** The organization of a path: in the path of an organization, its id is that of the record; in others, it is part of the scope. */
function organizationTarget(call: Call): { scope: RouteMatch['scope']; organizationId: string | null } {
  const isRoot = call.route.definition.discovery.from === 'root';
  return { scope: call.match.scope, organizationId: isRoot ? call.match.id : null };
}

function allowedMethods(match: RouteMatch, isWritable: boolean): string[] {
  const methods = [...match.byMethod.keys()].filter((method) => isWritable || method === 'GET');
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'];
}

/** Path and query of a request line, nothing decoded. */
export function splitTarget(target: string): { path: string; query: URLSearchParams } {
  // A request line for a proxy has the entire URL.
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  if (mark === -1) return { path: local, query: new URLSearchParams() };
  return { path: local.slice(0, mark), query: new URLSearchParams(local.slice(mark + 1)) };
}

function jsonAnswer(
  status: number,
  body: string | readonly Uint8Array[],
  headers: Readonly<Record<string, string>> = {},
): WireAnswer {
  return { status, headers: { 'Content-Type': 'application/json', ...headers }, body };
}

function okAnswer(body: string | null, headers: Readonly<Record<string, string>> = {}): WireAnswer {
  return body === null ? emptyAnswer(200, headers) : jsonAnswer(200, body, headers);
}

function emptyAnswer(status: number, headers: Readonly<Record<string, string>> = {}): WireAnswer {
  return { status, headers, body: null };
}

/**
 * The JSON value of a body, parsed losslessly. An empty body is `{}`, for operations without a body.
 * @throws WireError 415 for a content type other than JSON, 400 if it is not JSON in UTF-8
 */
function parseBody(bytes: Uint8Array, contentType: string | undefined): JsonValue {
  if (bytes.byteLength === 0) return {};
  const mediaType = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (mediaType !== 'application/json' && !mediaType.endsWith('+json')) {
    throw mediaTypeUnsupported(contentType ?? '');
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) throw parseFailed('the body is not UTF-8');
    throw error;
  }
  try {
    return parseLossless(text);
  } catch (error) {
    if (error instanceof SyntaxError) throw parseFailed(error.message);
    // Nesting deeper than the parser's stack.
    if (error instanceof RangeError) throw parseFailed('nested too deeply');
    throw error;
  }
}

// The operations of the catalog as a route table. Paths are split before they are decoded.

interface Route {
  readonly definition: ResourceDefinition;
  readonly operation: Operation;
}

interface RouteMatch {
  readonly byMethod: ReadonlyMap<string, Route>;
  readonly scope: Scope;
  /** The decoded id; null if the path does not name a record. */
  readonly id: string | null;
}

interface Pattern {
  readonly segments: readonly string[];
  readonly scopeAt: readonly { readonly key: ScopeKey; readonly index: number }[];
  readonly idAt: number | null;
  readonly byMethod: Map<string, Route>;
}

function compile(definition: ResourceDefinition, operation: Operation): Pattern {
  const segments = operation.path.split('/').slice(1, -1);
  const indexOf = (name: string): number => segments.indexOf(`:${name}`);
  const idAt = indexOf(definition.idParameter);
  return {
    segments,
    scopeAt: definition.scope.map((key) => ({ key, index: indexOf(key) })),
    idAt: idAt === -1 ? null : idAt,
    byMethod: new Map([[operation.method, { definition, operation }]]),
  };
}

function buildPatterns(): readonly Pattern[] {
  const byPath = new Map<string, Pattern>();
  for (const definition of CATALOG) {
    for (const operation of definition.operations) {
      const known = byPath.get(operation.path);
      if (known === undefined) byPath.set(operation.path, compile(definition, operation));
      else known.byMethod.set(operation.method, { definition, operation });
    }
  }
  // Fixed words before parameters: `invites/bulk/` is an action, not an invite with the id "bulk".
  return [...byPath.values()].sort((a, b) => parameterCount(a) - parameterCount(b));
}

function parameterCount(pattern: Pattern): number {
  return pattern.segments.filter((segment) => segment.startsWith(':')).length;
}

const PATTERNS = buildPatterns();

/**
 * The route of a raw request path without its query, e.g. `/api/organizations/a%2Fb/`: each segment is one value, so an
 * encoded slash, `..` or percent sign cannot lead to another path. Undefined if the API has no such
 * path (also without the trailing slash, or if a segment is empty or cannot be decoded).
 */
export function matchRoute(rawPath: string): RouteMatch | undefined {
  if (!rawPath.startsWith('/') || !rawPath.endsWith('/') || rawPath.length < 3) return undefined;
  const raw = rawPath.slice(1, -1).split('/');
  const pattern = PATTERNS.find((each) => fits(each, raw));
  if (pattern === undefined) return undefined;
  try {
    const scope: Partial<Record<ScopeKey, string>> = {};
    for (const { key, index } of pattern.scopeAt) scope[key] = decodeURIComponent(raw[index] ?? '');
    const id = pattern.idAt === null ? null : decodeURIComponent(raw[pattern.idAt] ?? '');
    return { byMethod: pattern.byMethod, scope, id };
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

function fits(pattern: Pattern, raw: readonly string[]): boolean {
  return (
    pattern.segments.length === raw.length &&
    pattern.segments.every((segment, index) =>
      segment.startsWith(':') ? raw[index] !== '' : raw[index] === segment,
    )
  );
}

// A sliding window of requests per key (wire-notes.md, Rates).

const WINDOW_MS = 60_000;

/** Counts one request of a key. Throws `WireError` 429 with `Retry-After` in whole seconds. */
type Throttle = (key: string) => void;

/** @param perMinute requests that each key may send within any 60 seconds */
export function createThrottle(perMinute: number, clock: Clock): Throttle {
  const sentAtByKey = new Map<string, number[]>();
  return (key) => {
    const now = clock.monotonicMs();
    const sentAt = (sentAtByKey.get(key) ?? []).filter((at) => at > now - WINDOW_MS);
    sentAtByKey.set(key, sentAt);
    if (sentAt.length >= perMinute) {
      // Refused requests do not count, so that a client that keeps trying is not locked out forever.
      const waitMs = (sentAt[sentAt.length - perMinute] ?? now) + WINDOW_MS - now;
      throw throttled(Math.max(1, Math.ceil(waitMs / 1000)));
    }
    sentAt.push(now);
  };
}
