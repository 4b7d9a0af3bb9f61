/**
 * A server that behaves as wire-notes.md says real deployments do, quirk by quirk. It shares nothing with the client, the
 * catalog or the sandbox: what they believe of each other is what these tests are about.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { type Body, type State, initialState, ORG } from './deployment-records.ts';
import { readList, readRecord } from './deployment-reads.ts';
import { write } from './deployment-writes.ts';

export interface Traits {
  /** `plugins` and `pipeline_*` answer 404. */
  readonly isNewer?: boolean;
  /** Roles' lists take `limit` and `offset` like any other. */
  readonly rolesTakeQueries?: boolean;
  /** Batch exports can be written through the organization. */
  readonly exportsWritableThere?: boolean;
  /** `{results, max_proxy_records}` instead of a bare array. */
  readonly proxiesInObject?: boolean;
  /** What the key holds; all when left out. */
  readonly permissions?: readonly string[];
  /** Requests before one answer 429; none when left out. */
  readonly throttleAfter?: number;
  /** A mask in place of the secrets that are otherwise omitted. */
  readonly mask?: string;
}

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly body: Body | null;
  readonly status: number;
}

/** What an operation answers. */
export interface Reply {
  readonly status: number;
  readonly body: unknown;
}

export interface Ask {
  readonly state: State;
  readonly traits: Traits;
  readonly path: string;
  /** The path's segments after `/api/`. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
  /** As the server believes its own address to be: `next` begins with it. */
  readonly ownOrigin: string;
}

export function refusal(
  status: number,
  type: string,
  code: string,
  detail: string,
  attr: string | null = null,
) {
  return { status, body: { type, code, detail, attr } };
}

export const notFound = refusal(404, 'invalid_request', 'not_found', 'Not found.');
export const serverError = refusal(500, 'server_error', 'error', 'A server error occurred.');

export class Deployment {
  readonly state = initialState();
  readonly traits: Traits;
  readonly seen: Seen[] = [];
  url = '';
  /** Of all answers' bodies. */
  bytes = 0;
  #answered = 0;

  private constructor(traits: Traits) {
    this.traits = traits;
  }

  static async start(traits: Traits = {}): Promise<Deployment> {
    const deployment = new Deployment(traits);
    const server = createServer((request, response) => {
      deployment.#serve(request, response).catch((error: unknown) => {
        response.writeHead(599).end(String(error));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    deployment.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return deployment;
  }

  /** Requests that were anything but GET. */
  writes(): Seen[] {
    return this.seen.filter(({ method }) => method !== 'GET');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
    const body = text === '' ? null : (JSON.parse(text) as Body);
    const { pathname: path, searchParams: query, search } = new URL(request.url ?? '/', this.url);
    const method = request.method ?? '';
    const ask: Ask = {
      state: this.state,
      traits: this.traits,
      path,
      parts: path.split('/').slice(2, -1),
      query,
      ownOrigin: 'http://web.internal:8000',
    };
    const reply = this.#throttled() ?? this.#admitted(request, method, ask) ?? answer(method, ask, body);
    this.seen.push({ method, path, search, body, status: reply.status });
    const headers = {
      'content-type': 'application/json',
      ...(reply.status === 429 ? { 'retry-after': '1' } : {}),
    };
    if (reply.body === null) response.writeHead(reply.status).end();
    else {
      const answered = JSON.stringify(reply.body);
      this.bytes += Buffer.byteLength(answered);
      response.writeHead(reply.status, headers).end(answered);
    }
  }

  #throttled(): Reply | null {
    this.#answered += 1;
    if (this.#answered - 1 !== this.traits.throttleAfter) return null;
    const detail = 'Request was throttled. Expected available in 1 second.';
    return refusal(429, 'throttled_error', 'throttled', detail);
  }

  /** 401 for another key, 403 for a permission that it lacks and for what no key may do. */
  #admitted(request: IncomingMessage, method: string, { parts }: Ask): Reply | null {
    if (request.headers.authorization !== 'Bearer test-key-of-some-length') {
      return refusal(401, 'authentication_error', 'authentication_failed', 'Invalid personal API key.');
    }
    const needed = permissionOf(method, parts);
    if (needed === 'closed') {
      const detail = 'This action does not support Personal API Key access';
      return refusal(403, 'authentication_error', 'permission_denied', detail);
    }
    const held = this.traits.permissions;
    if (needed === null || held === undefined || held.includes(needed)) return null;
    // Write implies read.
    if (held.includes(needed.replace(':read', ':write'))) return null;
    const detail = `API key missing required scope '${needed}'`;
    return refusal(403, 'authentication_error', 'permission_denied', detail);
  }
}

const CLOSED = new Set(['verify', 'logs', 'activity', 'source', 'reset_token', 'backfill', 'upgrade']);
const OBJECTS: Readonly<Record<string, string>> = {
  batch_exports: 'batch_export',
  members: 'organization_member',
  invites: 'organization_member',
  plugins: 'plugin',
  projects: 'project',
  session_recordings: 'session_recording',
};

function permissionOf(method: string, parts: readonly string[]): string | null {
  if (parts[0] === 'personal_api_keys') return null;
  if (parts.some((part) => CLOSED.has(part))) return 'closed';
  const family = parts[2];
  const object =
    parts.at(-1) === 'sharing'
      ? 'sharing_configuration'
      : family === undefined
        ? 'organization'
        : family.startsWith('pipeline_')
          ? 'plugin'
          : (OBJECTS[family] ?? 'organization');
  return `${object}:${method === 'GET' ? 'read' : 'write'}`;
}

function answer(method: string, ask: Ask, body: Body | null): Reply {
  const { parts, traits } = ask;
  if (ask.path === '/api/personal_api_keys/@current/') {
    const scopes = traits.permissions ?? ['*'];
    return { status: 200, body: { scopes, scoped_teams: [], scoped_organizations: [] } };
  }
  if (parts[0] === 'organizations' && parts.length > 1 && parts[1] !== ORG) return notFound;
  const family = parts[2] ?? '';
  if (traits.isNewer === true && (family === 'plugins' || family.startsWith('pipeline_'))) return notFound;
  if (method !== 'GET') return write(method, ask, body ?? {});
  return readList(ask) ?? readRecord(ask) ?? notFound;
}
