/** The same interface without a writer, under a prefix, over a store of another kind: what the replica is made of. */
import { describe, expect, it } from 'vitest';
import { createAuthenticator } from '../../src/server/authorization.ts';
import { type Interface, createInterface } from '../../src/server/interface.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { ReadableStore } from '../../src/server/store.ts';
import { invalid } from '../../src/server/wire-error.ts';

const RECORDS = ['{"id":"a","price":1.10}', '{"id":"b"}', '{"id":"c"}'];

const store: ReadableStore = {
  list: (kind, _scope, { offset, limit }) =>
    kind === 'organizations'
      ? { count: RECORDS.length, records: RECORDS.slice(offset, offset + limit).join(',') }
      : undefined,
  retrieve: (_kind, _scope, id) => RECORDS.find((text) => text.includes(`"${id}"`)),
  organizationOf: () => undefined,
};

const replica: Interface = createInterface({
  mount: '/replica',
  authenticate: createAuthenticator([{ key: 'k', permissions: 'all' }]),
  read: (query, work) => {
    const asOf = query.get('as_of');
    if (asOf === 'never') throw invalid('as_of', 'invalid', 'There is no such snapshot.');
    return work({ store, headers: { 'X-Tidemark-As-Of': asOf ?? 'latest' } });
  },
  readingAction: () => null,
  writer: null,
  pageSize: { default: 2, max: null },
  throttle: null,
  log: silentLogger,
});

function ask(method: string, target: string): ReturnType<Interface> {
  return replica({
    method,
    target,
    origin: 'http://mirror.example',
    host: 'mirror.example',
    authorization: 'Bearer k',
    contentType: 'application/json',
    body: () => Promise.reject(new Error('a read-only server read a body')),
  });
}

describe('a read-only interface', () => {
  it('links its pages under its prefix and keeps the query', async () => {
    const answer = await ask('GET', '/replica/api/organizations/?as_of=run:3');
    expect(answer.headers['X-Tidemark-As-Of']).toBe('run:3');
    expect(answer.body).toBe(
      '{"count":3,"next":"http://mirror.example/replica/api/organizations/?as_of=run%3A3&limit=2&offset=2","previous":null,' +
        `"results":[${RECORDS.slice(0, 2).join(',')}]}`,
    );
    expect((await ask('GET', '/api/organizations/')).status).toBe(404);
    expect((await ask('GET', 'http://proxy.example/replica/api/organizations/a/')).body).toBe(RECORDS[0]);
  });

  it.each(['POST', 'PUT'])('answers 405 to %s and names what it serves', async (method) => {
    const answer = await ask(method, '/replica/api/organizations/');
    expect([answer.status, answer.headers['Allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
  });

  it('answers 405 where the interface has writes only, and refuses an unknown state', async () => {
    const bulk = await ask('POST', '/replica/api/organizations/a/invites/bulk/');
    expect([bulk.status, bulk.headers['Allow']]).toEqual([405, 'OPTIONS']);
    const never = await ask('GET', '/replica/api/organizations/?as_of=never');
    expect([never.status, JSON.parse(String(never.body)) as unknown]).toMatchObject([400, { attr: 'as_of' }]);
    expect((await ask('GET', '/replica/api/organizations/a/roles/')).status).toBe(404);
  });
});
