/** The demo: believable, the same every time, and ready to be broken. */
import { beforeAll, describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import type { StoredRecord } from '../../src/server/memory/memory-store.ts';
import { carelessAdmin } from '../../src/server/seed/careless-admin.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { smallDemo } from './small-demo.ts';
import { startSandbox, type RunningSandbox } from './running-sandbox.ts';

/** Every record by address, as text. */
function texts(records: Iterable<StoredRecord>): Map<string, string> {
  return new Map(
    [...records].map(({ kind, scope, id, body }) => [
      JSON.stringify([kind, scope, id]),
      JSON.stringify(body),
    ]),
  );
}

type Texts = ReadonlyMap<string, string>;

/** Addresses whose texts differ, or that are in one of them alone. */
function differing(one: Texts, other: Texts): string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter(
    (address) => one.get(address) !== other.get(address),
  );
}

describe('the demo seed', () => {
  /** What all of these look at, and none of them alters. */
  let running: RunningSandbox;
  let records: readonly StoredRecord[];
  let asText: Texts;
  beforeAll(async () => {
    const ends: (() => Promise<void>)[] = [];
    running = await startSandbox({ seed: 'demo' }, (end) => void ends.push(end));
    records = [...running.sandbox.snapshot()];
    asText = texts(records);
    return async () => {
      for (const end of ends) await end();
    };
  });

  it('is the same in two calls, whatever the chance', async () => {
    const second = await startSandbox({ seed: 'demo', random: () => 0.5 });
    const again = texts(second.sandbox.snapshot());
    expect([...again.keys()].join('\n')).toBe([...asText.keys()].join('\n'));
    expect(differing(again, asText)).toEqual([]);
  });

  it('has records of every kind, some hundred without the recordings', () => {
    const count = (kind: string): number => records.filter((each) => each.kind === kind).length;
    for (const kind of KINDS) expect(count(kind), kind).toBeGreaterThan(1);
    expect(count('session_recordings')).toBe(3_000);
    expect(count('recording_sharing')).toBe(3_000);
    expect(records.length - 6_000).toBeGreaterThan(200);
    expect(asText.size).toBe(records.length);
  });

  it('holds what a careful copy must not lose', () => {
    const all = [...asText].map(([address, text]) => ({ address, text }));
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

  it('lies in the past, and its people have addresses of their own', () => {
    const late = records.flatMap(({ body, kind }) =>
      ['created_at', 'joined_at', 'start_time', 'updated_at']
        .map((name) => body[name])
        .filter((value) => typeof value === 'string' && !(Date.parse(value) <= Date.UTC(2026, 5, 1, 9)))
        .map((value) => [kind, value]),
    );
    expect(late).toEqual([]);
    const addresses = records
      .filter(({ kind, scope }) => kind === 'members' && scope.organization_id === KITTIWAKE_ID)
      .map(({ body }) => (body['user'] as { email: string }).email);
    expect(new Set(addresses).size).toBe(addresses.length);
    for (const address of addresses) expect(address).toMatch(/^[a-z0-9.]+@[a-z.]+$/);
  });

  it('shows its owner as owner', async () => {
    expect((await running.call('GET', `/api/organizations/${KITTIWAKE_ID}/`)).json).toMatchObject({
      membership_level: 15,
      member_count: '48',
    });
  });
});

describe('the careless admin', () => {
  it('breaks about ten things, each of which leaves a trace: lost exports, a role membership and settings, and what nobody ordered', async () => {
    // Of the recordings it touches none, so a few stand for thousands.
    const { call, sandbox } = await startSandbox({ seed: smallDemo() });
    const actions = carelessAdmin();
    expect(actions.length).toBeGreaterThanOrEqual(10);
    const first = texts(sandbox.snapshot());
    let before = first;
    for (const { method, path, body, says } of actions) {
      const { status } = await call(method, path, body);
      expect(status, says).toBeLessThan(300);
      const after = texts(sandbox.snapshot());
      expect(differing(before, after), says).not.toEqual([]);
      before = after;
    }
    expect(carelessAdmin()).toEqual(actions);

    const kindOf = (address: string): string => (JSON.parse(address) as string[])[0]!;
    const removed = [...first.keys()].filter((address) => !before.has(address)).map(kindOf);
    const added = [...before.keys()].filter((address) => !first.has(address)).map(kindOf);
    expect(removed.sort()).toEqual(['batch_exports', 'batch_exports', 'batch_exports', 'role_memberships']);
    expect(added.sort()).toEqual(['domains', 'invites']);
    const changed = [...first].filter(
      ([address, text]) => before.has(address) && before.get(address) !== text,
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
