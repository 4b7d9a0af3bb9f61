/** The whole interface over a store: request in, answer out. Knows HTTP's rules, not sockets. */
import type { Operation } from '../catalog/definition.ts';
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
import { parseBody } from './request-body.ts';
import { type Route, type RouteMatch, matchRoute } from './routes.ts';
import type { ReadableStore, WritableStore } from './store.ts';
import type { Throttle } from './throttle.ts';
import { methodNotAllowed, notFound, serverError, WireError } from './wire-error.ts';

interface WireRequest {
  readonly method: string;
  /** Path and query exactly as received: nothing decoded, nothing resolved. */
  readonly target: string;
  /** Scheme and authority under which the client believes to have called, e.g. `http://127.0.0.1:8123`. */
  readonly origin: string;
  /** The `Host` header as received. */
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly contentType: string | undefined;
  /** The body's bytes; read only once the key was accepted. Rejects with `WireError` when they are too many. */
  readonly body: () => Promise<Uint8Array>;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text, as it is or in pieces of UTF-8; null for no body. */
  readonly body: string | readonly Uint8Array[] | null;
  /** Called when all of the body was handed to the system, and not at all where it was not; does not throw. */
  readonly whenSent?: (() => void) | undefined;
}

/** What a request reads from, with headers that say so. */
export interface StoreView {
  readonly store: ReadableStore;
  readonly headers: Readonly<Record<string, string>>;
}

interface InterfaceOptions {
  /** Path that stands before `/api/`, without a trailing slash; empty at the root. */
  readonly mount: string;
  readonly authenticate: Authenticate;
  /**
   * Reads from what the query chooses, e.g. by `as_of`, all of it in one moment. Throws `WireError` where it names
   * nothing, or nothing can be read.
   */
  readonly read: <T>(query: URLSearchParams, work: (view: StoreView) => T) => T;
  /**
   * JSON text that a GET operation beside list and retrieve answers for a record or collection that exists; null for an
   * empty answer. Throws `WireError` where there is none to give.
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
 * Serves every operation of the catalog. Checks go in this order: path (404), key (401), method (405), rate (429),
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

/** An organization's own path carries its id as the record's, every other path as part of the scope. */
function organizationTarget(call: Call): { scope: RouteMatch['scope']; organizationId: string | null } {
  const isRoot = call.route.definition.discovery.from === 'root';
  return { scope: call.match.scope, organizationId: isRoot ? call.match.id : null };
}

function allowedMethods(match: RouteMatch, isWritable: boolean): string[] {
  const methods = [...match.byMethod.keys()].filter((method) => isWritable || method === 'GET');
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'];
}

function splitTarget(target: string): { path: string; query: URLSearchParams } {
  // A proxy's request line carries the whole address.
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
