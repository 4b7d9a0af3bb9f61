import { describe, expect, it } from 'vitest';
import { connect } from '../../src/mirror/database.ts';
import type { RecordRow } from '../../src/mirror/records.ts';
import { ORG, open, sync } from './fixture.ts';

const body = (n: number): string => `{"id":"x","pad":"${'lorem ipsum '.repeat(20)}","n":${n}}`;

describe('a record as of a run', () => {
  it('is what the service had: before it came, while it was there, while it was gone, and after', async () => {
    const mirror = open();
    const states: (number | null)[] = [null, 1, 1, 2, null, null, 3, 4, null];
    for (const state of states) await sync(mirror, 'roles', ORG, state === null ? [] : [body(state)]);
    const row = mirror.records.get('production', 'roles', 'x')!;
    expect(row.isRemoved).toBe(true);
    expect(states.map((_state, index) => mirror.records.bodyAt(row, index + 1) ?? null)).toEqual(
      states.map((state) => (state === null ? null : body(state))),
    );
    expect(mirror.records.bodyAt(row, 0)).toBeUndefined();
    expect(mirror.records.bodyAt(row, 999)).toBeUndefined();
    expect(mirror.records.bodyAt({ record: 12_345 }, 3)).toBeUndefined();
  });

  it('follows the present, whatever row it was asked with', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [body(1)]);
    const row = mirror.records.get('production', 'roles', 'x')!;
    await sync(mirror, 'roles', ORG, [body(2)]);
    expect(mirror.records.bodyAt(row, 1)).toBe(body(1));
    expect(mirror.records.bodyAt(row, 2)).toBe(body(2));
  });

  it('is exact at every depth of a long history, across bodies that are kept whole', async () => {
    const mirror = open();
    for (let n = 1; n <= 140; n += 1) await sync(mirror, 'roles', ORG, [body(n)]);
    const row = mirror.records.get('production', 'roles', 'x')!;
    for (let n = 1; n <= 140; n += 1) expect(mirror.records.bodyAt(row, n)).toBe(body(n));
  });

  it('is found by key: no look-up scans a table', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [body(1)]);
    const steps = [
      `SELECT run, previous, body FROM revisions WHERE record = 1 AND run <= 2 ORDER BY run DESC LIMIT 1`,
      `SELECT run, previous, body FROM revisions WHERE record = 1 AND run > 2 ORDER BY run`,
      `SELECT previous FROM revisions WHERE record = 1 ORDER BY run LIMIT 1`,
    ].flatMap((query) => mirror.query(`EXPLAIN QUERY PLAN ${query}`).rows.map((row) => String(row[3])));
    expect(steps).toHaveLength(3);
    for (const step of steps) expect(step).toContain('revisions_of');
  });

  it('says so when the history is broken', async () => {
    const mirror = open();
    for (let n = 1; n <= 4; n += 1) await sync(mirror, 'roles', ORG, [body(n)]);
    const row: RecordRow = mirror.records.get('production', 'roles', 'x')!;
    const connection = connect(mirror.path, { isReadonly: false });
    connection.exec('DELETE FROM revisions WHERE run = 1');
    connection.close();
    expect(mirror.records.bodyAt(row, 2)).toBe(body(2));
    expect(() => mirror.records.bodyAt(row, 1)).toThrow(/broken history at run 1/);
  });
});
