import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ORG, PROJECT, bodies, open, sync } from './fixture.ts';

const ids = ['a', 'b', 'B', 'ü', '😀', 'ﬀ'];
/** The service's state after each of a few edits: id → content. */
const states = fc.array(
  fc.dictionary(
    fc.constantFrom(...ids),
    fc.record({ name: fc.string({ unit: 'binary' }), n: fc.integer(), seen: fc.boolean() }),
    {
      noNullPrototype: true,
    },
  ),
  { minLength: 1, maxLength: 8 },
);

type State = Record<string, { name: string; n: number; seen: boolean }>;

function texts(state: State): Record<string, string> {
  // `viewed` is volatile: it moves without a revision.
  return Object.fromEntries(
    Object.entries(state).map(([id, { name, n, seen }]) => [
      id,
      JSON.stringify({
        id,
        distinct_id: name.toWellFormed(),
        click_count: n,
        viewed: seen,
        pad: 'x'.repeat(200),
      }),
    ]),
  );
}

/** Without the volatile member. */
function stable(of: Record<string, string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(of).map(([id, body]) => [id, { ...(JSON.parse(body) as object), viewed: undefined }]),
  );
}

describe('the history', () => {
  it('gives every state back that the service had, and verifies', async () => {
    await fc.assert(
      fc.asyncProperty(states, async (sequence) => {
        const mirror = open();
        for (const state of sequence) {
          await sync(mirror, 'session_recordings', PROJECT, Object.values(texts(state)));
        }
        for (const [index, state] of sequence.entries()) {
          expect(stable(bodies(mirror, 'session_recordings', index + 1))).toEqual(stable(texts(state)));
        }
        const last = sequence.at(-1)!;
        expect(bodies(mirror, 'session_recordings')).toEqual(texts(last));
        expect(bodies(mirror, 'session_recordings', sequence.length)).toEqual(texts(last));
        const { problems, checked } = await mirror.verify();
        expect(problems).toEqual([]);
        expect(checked).toMatchObject({ records: Object.keys(last).length, runs: sequence.length });
        mirror.close();
      }),
      { numRuns: 12 },
    );
  });

  it('reads in the order of ids, removed ones of the time among them', async () => {
    const mirror = open();
    const all = ids.map((id) => `{"id":"${id}"}`);
    await sync(mirror, 'roles', ORG, all);
    await sync(mirror, 'roles', ORG, [all[1]!, all[4]!]);
    const order = [...mirror.records.readAt(1)].map(({ id }) => id);
    expect(order).toEqual([...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
    expect([...mirror.records.readAt(2)].map(({ id }) => id)).toEqual(['b', '😀']);
  });

  it('of a record that changed two hundred times stays exact, small and quick to read', async () => {
    const mirror = open();
    const body = (n: number): string =>
      `{"id":"x","name":"Nightly","pad":"${'lorem ipsum '.repeat(60)}","n":${n}}`;
    for (let n = 1; n <= 200; n += 1) await sync(mirror, 'roles', ORG, [body(n)]);
    for (const n of [1, 2, 63, 64, 65, 128, 199, 200])
      expect(bodies(mirror, 'roles', n)).toEqual({ x: body(n) });
    const revisions = mirror.records.revisions(
      mirror.records.find('roles', 'x', { sources: ['production'] })[0]!,
    );
    expect(revisions.map((revision) => revision.body)).toEqual(
      Array.from({ length: 200 }, (_, i) => body(200 - i)),
    );
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('begins where the record began', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, []);
    await sync(mirror, 'roles', ORG, ['{"id":"x"}']);
    expect(bodies(mirror, 'roles', 1)).toEqual({});
    expect(bodies(mirror, 'roles', 2)).toEqual({ x: '{"id":"x"}' });
  });
});
