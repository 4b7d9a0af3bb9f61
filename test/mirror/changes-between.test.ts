import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/catalog/definition.ts';
import { connect } from '../../src/mirror/database.ts';
import { readChangesBetween, readCountsAt } from '../../src/mirror/changes-between.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import type { RecordFilter } from '../../src/mirror/record-filter.ts';
import { ORG, PROJECT, begin, open, sync } from './fixture.ts';

const role = (id: string, name: string): string => JSON.stringify({ id, name });

function between(mirror: Mirror, from: number, to: number, filter: RecordFilter = {}): string[] {
  return [...mirror.records.changesBetween(from, to, filter)].map(
    ({ id, before, after }) => `${id}: ${nameIn(before)} > ${nameIn(after)}`,
  );
}

function nameIn(body: string | undefined): string {
  return body === undefined ? '-' : (JSON.parse(body) as { name: string }).name;
}

describe('changes between two runs', () => {
  it('are the records with a revision in between, in order, with both bodies', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', '1'), role('b', '1'), role('c', '1'), role('😀', '1')]);
    await sync(mirror, 'roles', ORG, [role('a', '2'), role('b', '1'), role('ﬀ', '1'), role('😀', '2')]);
    expect(between(mirror, 1, 2)).toEqual(['a: 1 > 2', 'c: 1 > -', 'ﬀ: - > 1', '😀: 1 > 2']);
    expect(between(mirror, 2, 1)).toEqual(['a: 2 > 1', 'c: - > 1', 'ﬀ: 1 > -', '😀: 2 > 1']);
    expect(between(mirror, 0, 1)).toHaveLength(4);
    expect(between(mirror, 2, 2)).toEqual([]);
    expect(between(mirror, 2, 7)).toEqual([]);
  });

  it('tell a record that left and returned, one that came and left, and one that was rewritten', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', '1'), role('b', '1'), '{"id":"n","name":"x","n":1.0}']);
    await sync(mirror, 'roles', ORG, [role('b', '1'), role('t', '1'), '{"id":"n","name":"x","n":1.00}']);
    await sync(mirror, 'roles', ORG, [role('a', '2'), role('b', '1'), '{"id":"n","name":"x","n":1.00}']);
    expect(between(mirror, 1, 3)).toEqual(['a: 1 > 2', 'n: x > x']);
    expect(between(mirror, 2, 3)).toEqual(['a: - > 2', 't: 1 > -']);
    expect([...mirror.records.changesBetween(1, 3, { ids: ['n'] })]).toMatchObject([
      { before: '{"id":"n","name":"x","n":1.0}', after: '{"id":"n","name":"x","n":1.00}' },
    ]);
  });

  it('cover collections that came or went in between, and only what the filter leaves', async () => {
    const mirror = open();
    const other: Scope = { organization_id: 'o2' };
    await sync(mirror, 'roles', ORG, [role('a', '1'), role('z', '1')]);
    await sync(mirror, 'roles', other, [role('a', '1')]);
    const run = begin(mirror);
    await run.retire('roles', ORG);
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    expect(between(mirror, 1, 3)).toEqual(['a: 1 > -', 'z: 1 > -', 'a: - > 1']);
    expect(between(mirror, 1, 3, { organizations: ['o2'] })).toEqual(['a: - > 1']);
    expect(between(mirror, 1, 3, { ids: ['z'] })).toEqual(['z: 1 > -']);
    expect(between(mirror, 1, 3, { kinds: ['plugins'] })).toEqual([]);
    expect(between(mirror, 1, 3, { sources: ['elsewhere'] })).toEqual([]);
    const counts = (at: number, filter: RecordFilter = {}): number[] =>
      mirror.records.countsAt(at, filter).map(({ records }) => records);
    expect([0, 1, 2, 3].map((at) => counts(at))).toEqual([
      [0, 0],
      [2, 0],
      [2, 1],
      [0, 1],
    ]);
    expect(counts(2, { ids: ['a'] })).toEqual([1, 1]);
    expect(counts(3, { ids: ['a', 'nobody'] })).toEqual([0, 1]);
  });

  it('include those of a run whose row another program deleted', async () => {
    const mirror = open();
    const staging = { source: { name: 'staging', baseUrl: 'https://staging.example.com' } };
    for (const name of ['1', '2'])
      await sync(mirror, 'roles', ORG, [role('a', name), role(`b${name}`, name)]);
    await sync(mirror, 'roles', ORG, [role('s', '7')], staging);
    await sync(mirror, 'roles', ORG, [role('a', '2'), role('b2', '2'), role('c', '3')]);
    const whole = ['a: 1 > 2', 'b1: 1 > -', 'b2: - > 2', 'c: - > 3'];
    const filter = { sources: ['production'] };
    const counts = mirror.records.countsAt(1, filter);
    expect(between(mirror, 1, 4, filter)).toEqual(whole);
    const file = connect(mirror.path, { isReadonly: false });
    file.exec('PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE run IN (2, 3)');
    file.close();
    expect(between(mirror, 1, 4, filter)).toEqual(whole);
    expect(between(mirror, 1, 2, filter)).toEqual(whole.slice(0, 3));
    expect(mirror.records.countsAt(1, filter)).toEqual(counts);
  });

  it('leave the runs of other sources alone', async () => {
    const mirror = open();
    const source = { name: 'staging', baseUrl: 'https://staging.example.com' };
    await sync(mirror, 'roles', ORG, [role('a', '1')]);
    await sync(mirror, 'roles', ORG, [role('a', '7'), role('s', '7')], { source });
    await sync(mirror, 'roles', ORG, [role('a', '2')]);
    expect(between(mirror, 1, 3, { sources: ['production'] })).toEqual(['a: 1 > 2']);
    expect(between(mirror, 1, 3)).toEqual(['a: 1 > 2', 'a: - > 7', 's: - > 7']);
    expect(mirror.records.countsAt(1, { sources: ['production'] })).toMatchObject([{ records: 1 }]);
    expect(mirror.records.countsAt(1).map(({ records }) => records)).toEqual([1, 0]);
  });

  it('come in the order of scopes by value, not by their text in JSON', async () => {
    const mirror = open();
    for (const organization_id of ['a!', 'a', 'b', 'a"', '😀', 'ﬀ'])
      await sync(mirror, 'roles', { organization_id }, [role('x', organization_id)]);
    const order = ['a', 'a!', 'a"', 'b', 'ﬀ', '😀'];
    expect([...mirror.records.changesBetween(0, 6)].map(({ scope }) => scope.organization_id)).toEqual(order);
    expect([...mirror.records.read()].map(({ scope }) => scope.organization_id)).toEqual(order);
  });

  it.each(['9000000000000000', `'{'`, `x'00ff'`])(
    'end, and are those of the other records, where another program set the run of one to %s',
    async (run) => {
      const mirror = open();
      for (const name of ['1', '2', '3'])
        await sync(mirror, 'roles', ORG, [role('a', name), role('b', name)]);
      const connection = connect(mirror.path, { isReadonly: false });
      connection.exec(`UPDATE records SET run = ${run} WHERE remote_id = 'b'`);
      connection.close();
      expect(between(mirror, 1, 3)).toContain('a: 1 > 3');
      expect(mirror.records.countsAt(2)).toHaveLength(1);
    },
    5000,
  );

  it('read the revisions in between and what they name, no table of records', async () => {
    const mirror = open();
    await sync(
      mirror,
      'session_recordings',
      PROJECT,
      Array.from({ length: 5000 }, (_, n) => `{"id":"r${n}"}`),
    );
    const connection = connect(mirror.path, { isReadonly: true });
    const statements: string[] = [];
    const prepare = connection.prepare.bind(connection);
    connection.prepare = (source: string) => {
      statements.push(source);
      return prepare(source);
    };
    connection.exec('BEGIN');
    expect([...readChangesBetween(connection, 0, 1, {})]).toHaveLength(5000);
    expect(readCountsAt(connection, 0, {})).toMatchObject([{ records: 0 }]);
    connection.prepare = prepare;
    const plans = statements.flatMap((statement) =>
      connection
        .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${statement}`)
        .all(...parametersFor(statement))
        .map(({ detail }) => `${detail} in ${statement.replaceAll(/\s+/g, ' ')}`),
    );
    const scans = plans.filter(
      (line) =>
        /^SCAN /.test(line) &&
        !/^SCAN (c|json_each|sources|s|collections|temp\.changed|n|stored|CONSTANT ROW|all_revisions)\b/.test(
          line,
        ),
    );
    expect(plans.some((line) => /^SEARCH records USING INDEX records_run\b/.test(line))).toBe(true);
    expect(plans.some((line) => /^SEARCH revisions USING PRIMARY KEY \(run=/.test(line))).toBe(true);
    expect(scans).toEqual([]);
    connection.close();
  });
});

/** Any values: a plan does not depend on them. */
function parametersFor(statement: string): unknown[] {
  const named = new Set([...statement.matchAll(/:(\w+)/g)].map((match) => match[1]!));
  if (named.size > 0) return [Object.fromEntries([...named].map((name) => [name, 1]))];
  return [...statement.replaceAll(/'[^']*'/g, '').matchAll(/\?/g)].map(() => 1);
}
