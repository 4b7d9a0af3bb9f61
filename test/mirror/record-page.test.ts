/** Pages and single records by position and id, beside the streams that read everything. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { type RecordList, PageAnchors } from '../../src/mirror/record-page.ts';
import { open, PROJECT, sync } from './fixture.ts';

const KIND = 'session_recordings';

function listOf(mirror: Mirror, run: number | null, isDescending = false): RecordList {
  const collection = mirror.runs.collections().find(({ kind }) => kind === KIND)?.id ?? 0;
  return { kind: KIND, collection, run, isDescending, anchors: new PageAnchors() };
}

function textOf({ bodies }: { readonly bodies: Uint8Array }): string {
  return Buffer.from(bodies).toString();
}

/** What a stream reads, in the list's order. */
function expected(mirror: Mirror, { run, isDescending }: RecordList): { id: string; body: string }[] {
  const filter = { kinds: [KIND] } as const;
  const records = [...(run === null ? mirror.records.read(filter) : mirror.records.readAt(run, filter))];
  return (isDescending ? records.reverse() : records).map(({ id, body }) => ({ id, body }));
}

const recording = (id: string, value: string): string => `{"id":${JSON.stringify(id)},"n":${value}}`;

it('a body that does not match its hash is not served by id, nor as of an earlier run', async () => {
  const mirror = open();
  const bodies = [recording('a', '1'), recording('b', '2')];
  for (const more of [[], [recording('c', '3')]]) await sync(mirror, KIND, PROJECT, [...bodies, ...more]);
  const file = new Database(mirror.path);
  file.prepare(`UPDATE records SET body = '{"id":"a","n":7}' WHERE remote_id = 'a'`).run();
  file.close();
  const damage = /is damaged: the stored content of 1 record does not match its hash: session recording$/;
  for (const run of [null, 1]) {
    const list = listOf(mirror, run);
    expect(mirror.records.bodyIn(list, 'b')).toBe(bodies[1]);
    expect(() => mirror.records.bodyIn(list, 'a')).toThrow(damage);
  }
  expect(() => mirror.records.page(listOf(mirror, 1), 0, 5)).toThrow(damage);
  expect(textOf(mirror.records.page(listOf(mirror, 1), 1, 5))).toBe(bodies[1]);
});

describe('pages of a collection', () => {
  it('hold what a stream reads there, in any state, order and place', async () => {
    const id = fc.constantFrom('a', 'b', 'B', 'é', 'z/z', '..', '%2F', '😀', '10', '9', 'a b', '"');
    const state = fc.uniqueArray(fc.tuple(id, fc.constantFrom('1', '1.10', '9007199254740993', 'null')), {
      selector: ([key]) => key,
    });
    const window = fc.record({ offset: fc.nat(14), limit: fc.nat(14) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(state, { minLength: 1, maxLength: 6 }),
        fc.array(window, { minLength: 1, maxLength: 4 }),
        async (states, windows) => {
          const mirror = open();
          const runs: (number | null)[] = [null];
          for (const records of states) {
            const bodies = records.map(([key, value]) => recording(key, value));
            runs.push((await sync(mirror, KIND, PROJECT, bodies)).run);
          }
          for (const run of runs) {
            for (const isDescending of [false, true]) {
              const list = listOf(mirror, run, isDescending);
              const all = expected(mirror, list);
              for (const { offset, limit } of windows) {
                const page = mirror.records.page(list, offset, limit);
                const rows = all.slice(offset, offset + limit);
                expect(page.records).toBe(rows.length);
                expect(textOf(page)).toBe(rows.map(({ body }) => body).join(','));
              }
              for (const key of ['a', 'é', '..']) {
                const known = all.find((row) => row.id === key)?.body;
                expect(mirror.records.bodyIn(list, key)).toBe(known);
              }
            }
          }
          mirror.close();
        },
      ),
      { numRuns: 12 },
    );
  });

  it('begin anywhere in a long list, forwards and backwards, before and after it changed', async () => {
    const mirror = open();
    const name = (index: number): string => `r${String(index).padStart(5, '0')}`;
    const all = Array.from({ length: 2_300 }, (_unused, index) => recording(name(index), '1'));
    const first = await sync(mirror, KIND, PROJECT, all);
    const later = all.filter((_body, index) => index % 3 !== 0).concat(recording('r00000x', '2'));
    await sync(mirror, KIND, PROJECT, later);
    for (const run of [null, first.run]) {
      for (const isDescending of [false, true]) {
        const list = listOf(mirror, run, isDescending);
        const rows = expected(mirror, list);
        for (const offset of [2_299, 0, 1, 499, 500, 501, 999, 1_000, 1_250, rows.length - 1, rows.length]) {
          const page = mirror.records.page(list, offset, 3);
          expect([offset, textOf(page)]).toEqual([
            offset,
            rows
              .slice(offset, offset + 3)
              .map(({ body }) => body)
              .join(','),
          ]);
        }
        expect(list.anchors.size).toBe(Math.floor((rows.length - 1) / 500));
      }
    }
  });

  it('are read in one moment, whatever is written meanwhile', async () => {
    const mirror = open();
    await sync(mirror, KIND, PROJECT, [recording('a', '1')]);
    const reader = open({ path: mirror.path, mode: 'read' });
    const names = (): string[] => reader.snapshots.list().map(({ name }) => name);
    reader.atOnce(() => {
      expect(names()).toEqual([]);
      mirror.snapshots.pin('meanwhile', 1);
      expect(names()).toEqual([]);
      expect(textOf(reader.records.page(listOf(reader, null), 0, 9))).toBe(recording('a', '1'));
    });
    expect(names()).toEqual(['meanwhile']);
    const failing = (): void =>
      reader.atOnce(() => {
        throw new Error('work');
      });
    expect(failing).toThrow('work');
    expect(names()).toEqual(['meanwhile']);
  });
});
