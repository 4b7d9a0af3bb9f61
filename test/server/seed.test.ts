/** The demo: believable, the same every time, and ready to be broken. */
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import type { StoredRecord } from '../../src/server/memory/memory-store.ts';
import { carelessAdmin } from '../../src/server/seed/careless-admin.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { startSandbox } from './running-sandbox.ts';

/** Every record by address, as text. */
function texts(records: Iterable<StoredRecord>): Map<string, string> {
  return new Map(
    [...records].map(({ kind, scope, id, body }) => [
      JSON.stringify([kind, scope, id]),
      JSON.stringify(body),
    ]),
  );
}

describe('the demo seed', () => {
  it('is the same in two calls, whatever the chance', async () => {
    const first = await startSandbox({ seed: 'demo' });
    const second = await startSandbox({ seed: 'demo', random: () => 0.5 });
    expect(texts(second.sandbox.snapshot())).toEqual(texts(first.sandbox.snapshot()));
  });

  it('has records of every kind, some hundred without the recordings', async () => {
    const { sandbox } = await startSandbox({ seed: 'demo' });
    const records = [...sandbox.snapshot()];
    const count = (kind: string): number => records.filter((each) => each.kind === kind).length;
    for (const kind of KINDS) expect(count(kind), kind).toBeGreaterThan(1);
    expect(count('session_recordings')).toBe(3_000);
    expect(count('recording_sharing')).toBe(3_000);
    expect(records.length - 6_000).toBeGreaterThan(200);
    expect(new Set(texts(records).keys()).size).toBe(records.length);
  });

  it('holds what a careful copy must not lose', async () => {
    const { sandbox } = await startSandbox({ seed: 'demo' });
    const all = [...texts(sandbox.snapshot()).entries()].map(([address, text]) => ({ address, text }));
    const some = (kind: string, pattern: RegExp): number =>
      all.filter(({ address, text }) => address.startsWith(`["${kind}"`) && pattern.test(text)).length;
    expect(some('projects', /"warehouse_account":9223372036854775807/)).toBe(1);
    expect(some('projects', /"event_price_eur":1\.10/)).toBe(1);
    expect(some('batch_exports', /"project_number":9007199254740993/)).toBeGreaterThan(1);
    expect(some('batch_exports', /"paused":true/)).toBeGreaterThan(1);
    const types = all.map(({ text }) => /"destination":\{"type":"(\w+)"/.exec(text)?.[1]);
    expect(new Set(types.filter((type) => type !== undefined)).size).toBeGreaterThan(5);
    expect(some('batch_exports', /"(password|private_key|aws_secret_access_key|token)":/)).toBe(0);
    expect(some('invites', /"is_expired":true/)).toBeGreaterThan(0);
    expect(some('invites', /"is_expired":false/)).toBeGreaterThan(0);
    expect(some('domains', /"is_verified":true/)).toBeGreaterThan(0);
    expect(some('domains', /"is_verified":false/)).toBeGreaterThan(0);
    expect(some('recording_sharing', /"enabled":true/)).toBeGreaterThan(2);
    expect(some('members', /李/)).toBeGreaterThan(0);
    expect(some('plugins', /"is_global":true/)).toBe(2);
  });

  it('lies in the past, and its people have addresses of their own', async () => {
    const { sandbox } = await startSandbox({ seed: 'demo' });
    const records = [...sandbox.snapshot()];
    for (const { body, kind } of records) {
      for (const name of ['created_at', 'joined_at', 'start_time', 'updated_at']) {
        const value = body[name];
        if (typeof value === 'string')
          expect(Date.parse(value), kind).toBeLessThanOrEqual(Date.UTC(2026, 5, 1, 9));
      }
    }
    const addresses = records
      .filter(({ kind, scope }) => kind === 'members' && scope.organization_id === KITTIWAKE_ID)
      .map(({ body }) => (body['user'] as { email: string }).email);
    expect(new Set(addresses).size).toBe(addresses.length);
    for (const address of addresses) expect(address).toMatch(/^[a-z0-9.]+@[a-z.]+$/);
  });

  it('shows its owner as owner', async () => {
    const { call } = await startSandbox({ seed: 'demo' });
    expect((await call('GET', `/api/organizations/${KITTIWAKE_ID}/`)).json).toMatchObject({
      membership_level: 15,
      member_count: '48',
    });
  });
});

describe('the careless admin', () => {
  it('breaks about ten things, each of which leaves a trace', async () => {
    const { call, sandbox } = await startSandbox({ seed: 'demo' });
    const actions = carelessAdmin();
    expect(actions.length).toBeGreaterThanOrEqual(10);
    let before = texts(sandbox.snapshot());
    for (const { method, path, body, says } of actions) {
      const { status } = await call(method, path, body);
      expect(status, says).toBeLessThan(300);
      const after = texts(sandbox.snapshot());
      expect(after, says).not.toEqual(before);
      before = after;
    }
    expect(carelessAdmin()).toEqual(actions);
  });

  it('loses exports, a role membership and settings, and adds what nobody ordered', async () => {
    const { call, sandbox } = await startSandbox({ seed: 'demo' });
    const before = texts(sandbox.snapshot());
    for (const { method, path, body } of carelessAdmin()) await call(method, path, body);
    const after = texts(sandbox.snapshot());
    const kindOf = (address: string): string => (JSON.parse(address) as string[])[0]!;
    const removed = [...before.keys()].filter((address) => !after.has(address)).map(kindOf);
    const added = [...after.keys()].filter((address) => !before.has(address)).map(kindOf);
    expect(removed.sort()).toEqual(['batch_exports', 'batch_exports', 'batch_exports', 'role_memberships']);
    expect(added.sort()).toEqual(['domains', 'invites']);
    const changed = [...before].filter(
      ([address, text]) => after.has(address) && after.get(address) !== text,
    );
    expect(new Set(changed.map(([address]) => kindOf(address)))).toEqual(
      new Set([
        'organizations',
        'members',
        'batch_exports',
        'roles',
        'pipeline_destinations',
        'plugins',
        'domains',
      ]),
    );
  });
});
