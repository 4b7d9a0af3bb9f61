import { afterEach, describe, expect, it } from 'vitest';
import { clientFor, MemorySink, targetOf } from '../api/walk-rig.ts';
import { startFaultProxy, type FaultProxyOptions } from './fault-proxy.ts';
import { type Fault, type FaultRule, createRuleBook, withEnvelope } from './fault-rules.ts';
import { startFaultServer } from './fault-server.ts';
import { listReply, rowsOf } from './list-server.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

async function rig(options: FaultProxyOptions = {}, count = 330) {
  const origin = await startFaultServer((request) => listReply(rowsOf(count), request));
  const proxy = await startFaultProxy(origin.url, options);
  const client = clientFor(proxy.url);
  open.push(client, proxy, origin);
  return { origin, proxy, client, walk: () => client.walk(targetOf(), new MemorySink()) };
}

describe('the fault proxy', () => {
  it('passes everything on, byte for byte, and records it', async () => {
    const { origin, proxy, client } = await rig();
    const sink = new MemorySink();
    expect(await client.walk(targetOf('domains', { organization: '../x' }), sink)).toMatchObject({
      outcome: 'complete',
    });
    expect(proxy.requests.map(({ path }) => path)).toEqual(origin.requests.map(({ path }) => path));
    expect(proxy.requests[0]?.path).toContain('..%2Fx');
    expect(proxy.requests.every(({ method, fault }) => method === 'GET' && fault === null)).toBe(true);
    expect(proxy.requests[0]?.headers.authorization).toMatch(/^Bearer /);
  });

  const passing: [string, Fault][] = [
    ['answer', { kind: 'answer', status: 503, body: { detail: 'no' } }],
    ['reset', { kind: 'reset' }],
    ['reset-after', { kind: 'reset-after' }],
    ['cut', { kind: 'cut', afterBytes: 40 }],
    ['replace', { kind: 'replace', body: '<html>', contentType: 'text/html' }],
    ['rewrite', { kind: 'rewrite', json: () => ({}) }],
    ['gate', { kind: 'gate', until: Promise.resolve() }],
  ];
  it.each(passing)('does it once: %s', async (_name, fault) => {
    const { proxy, walk, client } = await rig({ rules: [{ nth: 2, fault }] });
    const verdict = await walk();
    expect(verdict.error).toBeNull();
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 330 });
    expect(proxy.requests.filter((request) => request.fault === fault.kind)).toHaveLength(1);
    expect(client.stats().retries).toBe(fault.kind === 'gate' ? 0 : 1);
  });

  it.each([
    ['a cap', { kind: 'cap', rows: 30 }, 'complete', null],
    ['rows left out, found by stepping back', { kind: 'shift', rows: 40 }, 'complete', null],
    ['always the first page', { kind: 'first-page' }, 'failed', 'walk_loop'],
    ['a wrong count', withEnvelope({ count: 331 }), 'incomplete', 'walk_unproven'],
    ['a `next` to itself', withEnvelope({ next: '?limit=100&offset=0' }), 'failed', 'walk_loop'],
    ['a redirect', { kind: 'redirect', location: 'http://elsewhere.invalid/' }, 'failed', 'redirected'],
  ] as [string, Fault, string, string | null][])(
    'does it always: %s',
    async (_name, fault, outcome, code) => {
      const { walk } = await rig({ rules: [{ fault }] });
      const verdict = await walk();
      expect(verdict.error?.code ?? null).toBe(code);
      expect(verdict.outcome).toBe(outcome);
      if (code === null) expect(verdict.distinct).toBe(330);
    },
  );

  it('fails a share of requests, the same ones with the same seed', async () => {
    const rules: FaultRule[] = [{ probability: 0.15, fault: { kind: 'answer', status: 500 } }];
    const faults = async (seed: number): Promise<(string | null)[]> => {
      const { proxy, walk } = await rig({ rules, seed }, 4000);
      expect(await walk()).toMatchObject({ outcome: 'complete', distinct: 4000 });
      return proxy.requests.map(({ fault }) => fault);
    };
    const first = await faults(3);
    expect(first).toEqual(await faults(3));
    expect(first).toContain('answer');
  });

  it('matches by method, path and turn, and takes new rules', () => {
    const book = createRuleBook(1);
    book.set([
      { method: 'POST', fault: { kind: 'hang' } },
      { path: /\/a\//, nth: [2, 3], fault: { kind: 'reset' } },
    ]);
    expect(['/a/', '/b/', '/a/', '/a/', '/a/'].map((path) => book.pick('GET', path)?.kind ?? null)).toEqual([
      null,
      null,
      'reset',
      'reset',
      null,
    ]);
    expect(book.pick('POST', '/b/')?.kind).toBe('hang');
    book.set([]);
    expect(book.pick('POST', '/b/')).toBeNull();
  });
});
