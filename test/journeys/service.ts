/**
 * A service for whole-story tests: collections of raw record texts behind the interface's paths, and misbehaviour on
 * demand. Only GET is known: anything else is recorded and answered 405, and the tests look at the record.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { CATALOG, fillPath } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** Answers a request instead of the service; return false to let the service answer. */
export type Quirk = (
  request: SeenRequest & { readonly path: string; readonly query: URLSearchParams },
  response: ServerResponse,
) => boolean;

export const ORG = '0190aaaa-0000-7000-8000-000000000001';

/** The paths of the lists that have one parent, below it: those of the catalog with that discovery. */
function listPaths(parent: 'organizations' | 'projects', values: Scope): string[] {
  return CATALOG.filter(({ discovery, reading }) => discovery.from === parent && reading !== 'each').map(
    ({ path }) => fillPath(path, values),
  );
}

/** The paths that an organization's collections have, beside role memberships and what is below projects. */
export function organizationPaths(organization: string): string[] {
  return listPaths('organizations', { organization_id: organization });
}

/** The paths of a project's lists. */
export function projectPaths(project: string): string[] {
  return listPaths('projects', { project_id: project });
}

export class FakeService {
  /** Collection path → records as JSON text, in list order. */
  readonly lists = new Map<string, string[]>();
  /** Single objects by path: sharing configurations. */
  readonly objects = new Map<string, string>();
  readonly seen: SeenRequest[] = [];
  readonly quirks: Quirk[] = [];
  /** Largest page it gives. */
  pageCap = 1000;
  url = '';

  /** One organization with one project and empty collections. */
  static async start(): Promise<FakeService> {
    const service = new FakeService();
    service.lists.set('/api/organizations/', [
      JSON.stringify({ id: ORG, name: 'Harbor', teams: [{ id: 1 }] }),
    ]);
    for (const path of organizationPaths(ORG)) service.lists.set(path, []);
    service.lists.set(`/api/organizations/${ORG}/projects/`, ['{"id":1,"name":"Web"}']);
    for (const path of projectPaths('1')) service.lists.set(path, []);
    await service.#listen();
    return service;
  }

  /** Sets an organization's collection. */
  set(kind: string, records: readonly (string | object)[]): void {
    this.lists.set(
      `/api/organizations/${ORG}/${kind}/`,
      records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record))),
    );
  }

  /** All that it holds, in the way `export` says it: kind, id and body text. */
  *state(): Generator<{ kind: string; id: string; body: string }> {
    for (const [path, records] of this.lists) {
      const kind = path.split('/').at(-2) ?? '';
      for (const body of records) {
        const record = JSON.parse(body) as { id?: unknown; user?: { uuid: string } };
        yield { kind, id: kind === 'members' ? (record.user?.uuid ?? '') : idText(body), body };
      }
    }
  }

  async #listen(): Promise<void> {
    const server = createServer((request, response) => {
      const seen = { method: request.method ?? '', url: request.url ?? '', headers: request.headers };
      this.seen.push(seen);
      const [path = '', search = ''] = seen.url.split('?');
      const query = new URLSearchParams(search);
      for (const quirk of this.quirks) if (quirk({ ...seen, path, query }, response)) return;
      this.#answer(seen.method, path, query, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
  }

  #answer(method: string, path: string, query: URLSearchParams, response: ServerResponse): void {
    if (method !== 'GET')
      return void respond(
        response,
        405,
        '{"type":"invalid_request","code":"method_not_allowed","detail":"no","attr":null}',
      );
    const list = this.lists.get(path);
    if (list !== undefined) return void respond(response, 200, this.page(path, list, query));
    const object = this.objects.get(path) ?? this.#record(path);
    if (object !== undefined) return void respond(response, 200, object);
    return void notFound(response);
  }

  /** A page in the envelope. */
  page(path: string, list: readonly string[], query: URLSearchParams): string {
    const limit = Math.min(this.pageCap, Number(query.get('limit') ?? 100) || 100);
    const offset = Number(query.get('offset') ?? 0);
    const records = list.slice(offset, offset + limit);
    const next =
      offset + limit < list.length ? `"${this.url}${path}?limit=${limit}&offset=${offset + limit}"` : 'null';
    return `{"count":${list.length},"next":${next},"previous":null,"results":[${records.join(',')}]}`;
  }

  #record(path: string): string | undefined {
    const cut = path.lastIndexOf('/', path.length - 2) + 1;
    const list = this.lists.get(path.slice(0, cut));
    const id = decodeURIComponent(path.slice(cut, -1));
    return list?.find((body) => idText(body) === id);
  }
}

/** The id of a record text, digit by digit where it is a number. */
function idText(body: string): string {
  const id = (JSON.parse(body) as { id?: unknown }).id;
  if (typeof id === 'string') return id;
  return /"id"\s*:\s*(-?\d+)/.exec(body)?.[1] ?? '';
}

export function respond(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  return true;
}

export function notFound(response: ServerResponse): true {
  return respond(
    response,
    404,
    '{"type":"invalid_request","code":"not_found","detail":"Not found.","attr":null}',
  );
}

export function forbidden(response: ServerResponse, permission: string): true {
  return respond(
    response,
    403,
    JSON.stringify({
      type: 'authentication_error',
      code: 'permission_denied',
      detail: `API key missing required scope '${permission}'`,
      attr: null,
    }),
  );
}
