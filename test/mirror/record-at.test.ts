import { describe, expect, it } from 'vitest';
import { connect } from '../../src/mirror/database.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import type { RecordRow } from '../../src/mirror/records.ts';
import { ORG, open, sync } from './fixture.ts';

const body = (n: number): string => `{"id":"x","pad":"${'lorem ipsum '.repeat(20)}","n":${n}}`;

/** Its body after that run; undefined where it was not there. */
function bodyAt(mirror: Mirror, row: Pick<RecordRow, 'record' | 'kind'>, run: number): string | undefined {
  const then = mirror.records.asOf(row, run);
  return then?.removed === null ? then.body : undefined;
}

describe('a record as of a run', () => {
  it('is what the service had: before it came, while it was there, while it was gone, and after', async () => {
    const mirror = open();
    const states: (number | null)[] = [null, 1, 1, 2, null, null, 3, 4, null];
    for (const state of states) await sync(mirror, 'roles', ORG, state === null ? [] : [body(state)]);
    const row = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    expect(row.isRemoved).toBe(true);
    expect(states.map((_state, index) => bodyAt(mirror, row, index + 1) ?? null)).toEqual(
      states.map((state) => (state === null ? null : body(state))),
    );
    expect(bodyAt(mirror, row, 0)).toBeUndefined();
    expect(bodyAt(mirror, row, 999)).toBeUndefined();
    expect(bodyAt(mirror, { record: 12_345, kind: 'roles' }, 3)).toBeUndefined();
  });

  it('follows the present, whatever row it was asked with', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [body(1)]);
    const row = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    await sync(mirror, 'roles', ORG, [body(2)]);
    expect(bodyAt(mirror, row, 1)).toBe(body(1));
    expect(bodyAt(mirror, row, 2)).toBe(body(2));
  });

  it('is exact at every depth of a long history, across bodies that are kept whole', async () => {
    const mirror = open();
    for (let n = 1; n <= 140; n += 1) await sync(mirror, 'roles', ORG, [body(n)]);
    const row = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    for (let n = 1; n <= 140; n += 1) expect(bodyAt(mirror, row, n)).toBe(body(n));
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
    const row: RecordRow = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    const connection = connect(mirror.path, { isReadonly: false });
    connection.exec('DELETE FROM revisions WHERE run = 1');
    connection.close();
    expect(bodyAt(mirror, row, 2)).toBe(body(2));
    expect(() => bodyAt(mirror, row, 1)).toThrow(/broken history at run 1/);
  });
});
