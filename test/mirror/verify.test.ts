import { openSync, readFileSync, writeSync, closeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { VerifyResult } from '../../src/mirror/verify.ts';
import type { VerifyProblem } from '../../src/mirror/verify-records.ts';
import { ORG, PROJECT, begin, isEqual, open, sweep, sync } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const role = (id: string, name: string): string => `{"id":"${id}","name":"${name}"}`;

/** Three runs: added, changed, one removed; and a recording whose volatile member moved. */
async function someHistory(): Promise<string> {
  const mirror = open();
  await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B'), role('c', 'C')]);
  await sync(mirror, 'roles', ORG, [role('a', 'A2'), role('b', 'B'), role('c', 'C')]);
  await sync(mirror, 'roles', ORG, [role('a', 'A3'), role('b', 'B')]);
  await sync(mirror, 'session_recordings', PROJECT, ['{"id":"r","click_count":1,"viewed":true}']);
  mirror.snapshots.pin('before', 1);
  mirror.snapshots.pin('after', 3);
  mirror.snapshots.setBaseline('before');
  mirror.close();
  return mirror.path;
}

async function verify(path: string): Promise<VerifyResult> {
  const mirror = open({ path, mode: 'read', command: 'verify' });
  return await mirror.verify();
}

describe('verify', () => {
  it('finds nothing wrong with what was published, and says what it looked at', async () => {
    expect(await verify(await someHistory())).toEqual({
      checked: { records: 3, revisions: 7, runs: 4 },
      problems: [],
      notes: [],
    });
  });

  it('expects no revision after one whose number cannot be read', async () => {
    const path = await someHistory();
    alterFile(path, `UPDATE revisions SET ordinal = '{' WHERE run = 2 AND record = 1`);
    const { problems } = await verify(path);
    expect(problems.map(({ message }) => message).join('\n')).toContain('revision { was found where 2 was');
    expect(JSON.stringify(problems)).not.toContain('NaN');
  });

  it.each([
    ['the type of a body', `UPDATE records SET body = CAST(body AS BLOB) WHERE remote_id = 'a'`, 'index'],
    [
      'the type of an id',
      `UPDATE records SET remote_id = CAST(remote_id AS BLOB) WHERE remote_id = 'a'`,
      'index',
    ],
    ['the type of a field', `UPDATE field_shapes SET field = CAST(field AS BLOB)`, 'index'],
    ['a body', `UPDATE records SET body = replace(body, 'A3', 'A4') WHERE remote_id = 'a'`, 'body'],
    [
      'a volatile member',
      `UPDATE records SET body = replace(body, 'true', 'false') WHERE remote_id = 'r'`,
      'body',
    ],
    ['the mark of volatile members', `UPDATE records SET volatile = 1 WHERE remote_id = 'r'`, 'body'],
    ['that of a record without any', `UPDATE records SET volatile = 1 WHERE remote_id = 'a'`, 'body'],
    ['that of a removed record', `UPDATE records SET volatile = 1 WHERE remote_id = 'c'`, 'body'],
    [
      'which members of a kind are volatile',
      `UPDATE sealing_rules SET volatile_fields = '["name"]' WHERE kind = 'roles'`,
      'body',
    ],
    ['that any are', `UPDATE sealing_rules SET volatile_fields = '[]'`, 'body'],
    ['the rules of a kind', `DELETE FROM sealing_rules WHERE kind = 'roles'`, 'body'],
    ['from when on they hold', `UPDATE sealing_rules SET run = 3 WHERE kind = 'roles'`, 'revision'],
    [
      'the hash of a current body',
      `UPDATE records SET hash = x'00112233445566778899aabb' WHERE remote_id = 'b'`,
      'body',
    ],
    [
      'an earlier body',
      `UPDATE revisions SET body = body || x'00' WHERE body IS NOT NULL AND encoding = 1`,
      'revision',
    ],
    ['a sealed hash', `UPDATE records SET hash = zeroblob(32) WHERE run = 1 AND record = 2`, 'chain'],
    ['a sealed hash of the past', `UPDATE revisions SET hash = zeroblob(32) WHERE run = 1`, 'chain'],
    ['a revision taken out', `DELETE FROM revisions WHERE run = 2`, 'revision'],
    [
      'a revision put in',
      `INSERT INTO revisions VALUES (2, 1, 99, 1, 1, NULL, zeroblob(32), NULL, NULL)`,
      'revision',
    ],
    ['a record taken out', `DELETE FROM records WHERE remote_id = 'b'`, 'index'],
    ['a removed record taken out', `DELETE FROM records WHERE remote_id = 'c'`, 'revision'],
    [
      'a record put in twice',
      `INSERT INTO records SELECT 99, collection, remote_id, run, change, ordinal, previous, hash, volatile, body, last_name
       FROM records WHERE remote_id = 'b'`,
      'index',
    ],
    ['a count', `UPDATE collections SET records = 7 WHERE kind = 'roles'`, 'index'],
    ['a tombstone turned into a change', `UPDATE records SET change = 2 WHERE change = 3`, 'revision'],
    ['the time of a run', `UPDATE runs SET finished_at = '2020-01-01T00:00:00.000Z' WHERE run = 2`, 'chain'],
    ['the outcome of a run', `UPDATE runs SET outcome = 'partial' WHERE run = 2`, 'chain'],
    ['the digest of a run', `UPDATE runs SET change_digest = NULL WHERE run = 2`, 'chain'],
    ['its other digest', `UPDATE runs SET sweep_digest = NULL WHERE run = 2`, 'chain'],
    ['the order of runs', `UPDATE runs SET previous_root = NULL WHERE run = 3`, 'chain'],
    ['a table', `DROP TABLE snapshots`, 'schema'],
    ['a name', `UPDATE sources SET name = 'else'`, 'chain'],
    [
      'whose records they are',
      `UPDATE collections SET scope = '{"organization_id":"o2"}' WHERE kind = 'roles'`,
      'chain',
    ],
    ['what kind they are', `UPDATE collections SET kind = 'domains' WHERE kind = 'roles'`, 'chain'],
    ['the id of a removed record', `UPDATE records SET remote_id = 'else' WHERE change = 3`, 'chain'],
    ['the name of a removed record', `UPDATE records SET last_name = 'else' WHERE change = 3`, 'revision'],
    ['the outcome of a sweep', `UPDATE sweeps SET outcome = 'denied' WHERE run = 2`, 'chain'],
    ['what a sweep counted', `UPDATE sweeps SET removed = 0 WHERE run = 3`, 'chain'],
    ['a sweep taken out', `DELETE FROM sweeps WHERE run = 2`, 'chain'],
    [
      'a sweep put in',
      `INSERT INTO carried_sweeps VALUES (3, 1, 1, NULL, 1, 'complete', 'full', NULL, NULL)`,
      'chain',
    ],
    ['how the latest sweep went', `UPDATE collections SET last_outcome = 'denied'`, 'index'],
    [
      'when a list was read last',
      `UPDATE collections SET last_complete_run = 2 WHERE kind = 'roles'`,
      'index',
    ],
    ['that a list went with its parent', `UPDATE collections SET retired_run = 3`, 'index'],
    ['a pin', `UPDATE snapshots SET run = 2 WHERE name = 'before'`, 'chain'],
    ['the name of a pin', `UPDATE snapshots SET name = 'else' WHERE name = 'after'`, 'chain'],
    ['the baseline', `UPDATE snapshots SET is_baseline = (name = 'after')`, 'chain'],
    ['who pinned it', `UPDATE snapshots SET pinned_by = 'eve'`, 'chain'],
    [
      'the journal of a restore that does not exist',
      `INSERT INTO restore_steps (restore, step, outcome, differences, attempts) VALUES (1, 1, 'applied', '[]', 1), (1, 2, 'applied', '[]', 1)`,
      'chain',
    ],
    [
      'the types of a field',
      `INSERT INTO schema_changes VALUES (2, 1, 'roles', '/x', 'retyped', '["str', '[]')`,
      'index',
    ],
    [
      'the types of a field to no list',
      `INSERT INTO schema_changes VALUES (2, 1, 'roles', '/x', 'lost', '{}', '[7]')`,
      'index',
    ],
    ['the kinds of a run', `UPDATE runs SET kinds = '{bad' WHERE run = 2`, 'index'],
    [
      'the kind of a field',
      `INSERT INTO schema_changes VALUES (2, 1, 'no_kind', '/x', 'gained', '[]', '[]')`,
      'index',
    ],
  ] as const)('notices that somebody changed %s', async (_name, sql, kind) => {
    const path = await someHistory();
    const file = new Database(path);
    expect(file.prepare(sql).run()).toBeDefined();
    file.close();
    const { problems } = await verify(path);
    expect(problems.map((problem) => problem.kind)).toContain(kind);
    for (const { message } of problems) expect(message).not.toBe('');
  });

  it('says of a stored name whether its record was removed', async () => {
    const path = await someHistory();
    alterFile(path, `UPDATE records SET last_name = 'else'`);
    const { problems } = await verify(path);
    const texts = new Set(problems.filter(({ kind }) => kind === 'revision').map(({ message }) => message));
    expect([...texts].toSorted()).toEqual([
      'a name is stored as that of a removed record, and the record was not removed',
      'the name stored of the removed record is not the one in its last version',
    ]);
  });

  it('notices that a record got another id', async () => {
    const path = await someHistory();
    alterFile(path, `UPDATE records SET remote_id = 'forged' WHERE remote_id = 'b'`);
    expect((await verify(path)).problems).toMatchObject([{ kind: 'chain', run: 1 }]);
  });

  it('notices that records moved to a collection of another source', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    await sync(mirror, 'roles', PROJECT, [role('b', 'B')], {
      source: { name: 'other', baseUrl: 'https://other.example.com' },
    });
    mirror.close();
    alterFile(mirror.path, `UPDATE collections SET source = 2 WHERE id = 1`);
    expect((await verify(mirror.path)).problems.map(({ run }) => run)).toContain(1);
  });

  it('does not let a moved pin become the baseline, nor its mark hide that it was moved', async () => {
    const path = await someHistory();
    alterFile(path, `UPDATE snapshots SET run = 2`);
    const mirror = open({ path });
    expect(() => mirror.snapshots.setBaseline('after')).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
    mirror.snapshots.pin('next', 4);
    // Nor is the mark taken from it.
    expect(() => mirror.snapshots.setBaseline('next')).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
    expect(mirror.snapshots.baseline()).toMatchObject({ name: 'before' });
    expect((await mirror.verify()).problems.map(({ message }) => message)).toEqual([
      'snapshot "after" is not as it was pinned (now at run 2)',
      'snapshot "before" is not as it was pinned (now at run 2)',
    ]);
    for (const name of ['after', 'before'])
      expect(() => mirror.snapshots.unpin(name)).toThrow(expect.objectContaining({ code: 'mirror_corrupt' }));
    expect((await mirror.verify()).problems).toHaveLength(2);
  });

  it('names the record', async () => {
    const path = await someHistory();
    alterFile(path, `UPDATE records SET body = '{"id":"a","name":"forged"}' WHERE remote_id = 'a'`);
    expect((await verify(path)).problems).toContainEqual(
      expect.objectContaining({ kind: 'body', recordKind: 'roles', scope: ORG, id: 'a', run: 3 }),
    );
  });

  it('says in which collection a row has vanished, of which run it was, and its number where it has a past', async () => {
    const path = await someHistory();
    const file = new Database(path);
    file.pragma('foreign_keys = OFF');
    file.exec(`DELETE FROM records WHERE remote_id IN ('a', 'b')`);
    file.close();
    const { problems } = await verify(path);
    for (const expected of [
      {
        kind: 'index',
        message: '0 records of roles stored, but the stored count is 2',
        recordKind: 'roles',
        scope: ORG,
      },
      { kind: 'chain', run: 1 },
      {
        kind: 'revision',
        message: 'record 1 is gone, though its versions are stored',
        recordKind: 'roles',
        scope: ORG,
      },
    ])
      expect(problems).toContainEqual(expect.objectContaining(expected));
  });

  it.each(['last_at', 'last_complete_at', 'last_full_at'])(
    'sees that %s is not when the run ended',
    async (column) => {
      const path = await someHistory();
      alterFile(path, `UPDATE collections SET ${column} = replace(${column}, '2026', '202>')`);
      expect((await verify(path)).problems).not.toEqual([]);
    },
  );

  it.each([
    ['that was read then', 2],
    ['that was read later', 1],
  ])('sees that an empty list %s did not go with its parent', async (_name, run) => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    await sync(mirror, 'roles', ORG, []);
    mirror.close();
    alterFile(mirror.path, `UPDATE collections SET retired_run = ${run}`);
    expect((await verify(mirror.path)).problems).toMatchObject([
      {
        kind: 'index',
        message: `roles is marked as gone with its parent since run ${run}, but it was read then or later`,
        recordKind: 'roles',
        scope: ORG,
        run,
      },
    ]);
  });

  it('finds nothing wrong with a list that did go with its parent, also after retention', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const run = begin(mirror);
    await run.retire('roles', ORG);
    const went = sweep('roles', ORG, 0, { mode: null });
    await run.publish({ outcome: 'complete', sweeps: [went], requests: 1, retries: 0 });
    const problems = async (): Promise<unknown> => (await mirror.verify()).problems;
    expect(await problems()).toEqual([]);
    await sync(mirror, 'domains', ORG, []);
    const skipped = sweep('roles', ORG, 0, { mode: null, outcome: 'skipped' });
    await begin(mirror).publish({ outcome: 'partial', sweeps: [skipped], requests: 1, retries: 0 });
    expect(await problems()).toEqual([]);
    await mirror.retention.forget({
      policy: { last: 1 },
      isEqual: (_source, kind, one, other) => isEqual(kind, one, other),
    });
    expect(mirror.runs.collections()).toMatchObject([{ retiredRun: 3 }, { retiredRun: null }]);
    expect(await problems()).toEqual([]);
  });

  it('goes on past a damaged page and reports it', async () => {
    const mirror = open();
    const texts = Array.from({ length: 200 }, (_, i) => `{"id":"r${i}","name":"${'x'.repeat(300)}"}`);
    await sync(mirror, 'roles', ORG, texts);
    mirror.close();
    const at = readFileSync(mirror.path).indexOf('"id":"r150"');
    const file = openSync(mirror.path, 'r+');
    writeSync(file, Buffer.alloc(8192, 0x5a), 0, 8192, Math.floor(at / 8192) * 8192);
    closeSync(file);
    const { problems, checked } = await verify(mirror.path);
    expect(problems.some(({ kind }) => kind === 'index')).toBe(true);
    expect(checked.runs).toBe(1);
  });

  it('reports how far it is', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const steps: unknown[] = [];
    await mirror.verify((progress) => steps.push(progress));
    expect(steps.at(-1)).toEqual({ records: 1, of: 1 });
  });
});

describe('what no run vouches for', () => {
  const accepted = {
    source: 'production',
    fingerprint: 'f1',
    kind: 'roles',
    scope: ORG,
    id: 'a',
    path: '/name',
    reason: 'agreed',
    acceptedAt: '2026-03-01T12:00:00.000Z',
  } as const;
  const other = { ...accepted, fingerprint: 'f2', id: 'b', until: '2026-04-01T00:00:00.000Z' };

  /** Two acceptances, a run that failed (2), one that was given up (3) and one whose process died (4). */
  async function mirrorWithBoth(): Promise<string> {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B')]);
    await begin(mirror).publish({ outcome: 'failed', sweeps: [], requests: 7, retries: 2 });
    begin(mirror).abandon({ code: 'unreachable', message: 'no answer' });
    begin(mirror);
    mirror.close();
    const again = open({ path: mirror.path });
    for (const one of [accepted, other]) again.acceptances.add(one);
    again.close();
    return mirror.path;
  }

  function change(path: string, statement: string): void {
    const file = new Database(path);
    expect(file.prepare(statement).run().changes).toBeGreaterThan(0);
    file.close();
  }

  const told = ({ message, recordKind, id }: VerifyProblem): string =>
    recordKind === undefined ? message : `${recordKind} ${id ?? ''}: ${message}`;
  const messages = async (path: string): Promise<string[]> => (await verify(path)).problems.map(told);

  const A = 'roles a: the acceptance of /name of production';
  const ALTERED = `${A} is not as it was accepted`;
  it.each([
    ['the reason', `UPDATE acceptances SET reason = 'who knows' WHERE remote_id = 'a'`, [ALTERED]],
    ['the fingerprint', `UPDATE acceptances SET fingerprint = 'f3' WHERE remote_id = 'a'`, [ALTERED]],
    ['the end', `UPDATE acceptances SET until = '2027-01-01T00:00:00.000Z' WHERE remote_id = 'a'`, [ALTERED]],
    [
      'that there is an end',
      `UPDATE acceptances SET until = NULL WHERE remote_id = 'b'`,
      [ALTERED.replace('roles a', 'roles b')],
    ],
    [
      'the place',
      `UPDATE acceptances SET path = '/other' WHERE remote_id = 'a'`,
      [
        'roles a: the acceptance of /other of production was inserted by another program: the audit log has no entry of it',
        `${A} is gone, though entry 1 of the audit log (ann@here) has it`,
      ],
    ],
    [
      'the kind',
      `UPDATE acceptances SET kind = 'rolez' WHERE remote_id = 'a'`,
      [
        `${A} is gone, though entry 1 of the audit log (ann@here) has it`,
        'the acceptance of /name of production (unknown kind "rolez", id "a") was inserted by another program: the audit log has no entry of it',
      ],
    ],
    [
      'by adding one',
      `INSERT INTO acceptances SELECT source, kind, scope, 'c', path, 'f4', reason, accepted_at, accepted_by, until
       FROM acceptances WHERE remote_id = 'a'`,
      [
        'roles c: the acceptance of /name of production was inserted by another program: the audit log has no entry of it',
      ],
    ],
    [
      'by removing one',
      `DELETE FROM acceptances WHERE remote_id = 'a'`,
      [`${A} is gone, though entry 1 of the audit log (ann@here) has it`],
    ],
    ['who accepted it', `UPDATE acceptances SET accepted_by = 'eve' WHERE remote_id = 'a'`, [ALTERED]],
    [
      'who accepted it, in the log as well',
      `UPDATE audit_log SET by = 'eve' WHERE entry = 1`,
      [
        'entry 1 of the audit log (accept by eve (ann@here)) is not as it was written, or does not follow the entry before it',
      ],
    ],
    [
      'the key of fingerprints',
      `UPDATE fingerprint_key SET key = zeroblob(32)`,
      ['the key of the drift fingerprints is not as it was made'],
    ],
    [
      'when a failed run ended',
      `UPDATE runs SET finished_at = '2027-01-01T00:00:00.000Z' WHERE run = 2`,
      ['the row of run 2 is not as it was written when the run ended'],
    ],
    [
      'when one given up began',
      `UPDATE runs SET started_at = '2025-01-01T00:00:00.000Z' WHERE run = 3`,
      ['the row of run 3 is not as it was written when the run ended'],
    ],
    [
      'why it failed',
      `UPDATE runs SET error = NULL WHERE run = 3`,
      ['the row of run 3 is not as it was written when the run ended'],
    ],
    [
      'the end of one that died',
      `UPDATE runs SET finished_at = started_at WHERE run = 4`,
      ['the row of run 4 is not as it was written when the run ended'],
    ],
    [
      'a failed run back to running',
      `UPDATE runs SET outcome = 'running' WHERE run = 4`,
      ['the row of run 4 says that the run has not ended, though its hash says that it has'],
    ],
    [
      'that a published run was narrowed',
      `UPDATE runs SET kinds = '["roles"]' WHERE run = 1`,
      ['the row of run 1 is not as it was written when the run ended'],
    ],
    [
      'that a published run was narrowed to what is no kind',
      `UPDATE runs SET kinds = '["roles", "nonsense"]' WHERE run = 1`,
      [
        'run 1 was narrowed to nonsense: there is no such kind',
        'the row of run 1 is not as it was written when the run ended',
      ],
    ],
    [
      'by removing a failed run',
      `DELETE FROM runs WHERE run = 3`,
      ['the row of run 3 is gone: its hash is left'],
    ],
  ])('is missed: somebody changed %s', async (_name, statement, expected) => {
    const path = await mirrorWithBoth();
    expect(await messages(path)).toEqual([]);
    change(path, statement);
    expect((await messages(path)).sort()).toEqual([...expected].sort());
  });

  it.each([
    [2, 'run 2 made revisions, but was not published'],
    [9, 'run 9 made revisions, but its row is gone'],
  ])(
    'of a version that another program moved to run %d: whether the row of that run is there',
    async (run, text) => {
      const path = await mirrorWithBoth();
      change(path, `UPDATE records SET run = ${run} WHERE remote_id = 'b'`);
      expect(await messages(path)).toContain(text);
      expect(open({ path, mode: 'read' }).runs.alteredChangesText({ after: 1, among: null })).toBe(text);
    },
  );

  it('is missed when the row and its entry went together, whatever the program does afterwards', async () => {
    const path = await mirrorWithBoth();
    change(path, `DELETE FROM acceptances WHERE remote_id = 'a'`);
    change(path, `DELETE FROM audit_log WHERE entry = 1`);
    const mirror = open({ path });
    mirror.acceptances.add({ ...accepted, id: 'c', fingerprint: 'f5' });
    // The hash of the next entry covers the one that is gone: nothing shows any more that it is as it was written.
    const says = 'rests on entry 2 of the audit log, which cannot be checked: entry 1 is gone';
    expect(mirror.acceptances.checked()).toMatchObject([{ id: 'b', contradiction: says }, { id: 'c' }]);
    expect(() => mirror.acceptances.withdraw('production', 'f2')).toThrow(says);
    mirror.close();
    expect(await messages(path)).toEqual(['entry 1 of the audit log is gone']);
  });

  it('is not made good by what the program does elsewhere, nor there', async () => {
    const path = await mirrorWithBoth();
    change(path, `UPDATE acceptances SET reason = 'who knows'`);
    const mirror = open({ path });
    const found = (await mirror.verify()).problems.map(told);
    expect(found).toContain('roles b: the acceptance of /name of production is not as it was accepted');
    mirror.acceptances.add({ ...accepted, id: 'c', fingerprint: 'f5' });
    expect(() => mirror.acceptances.add({ ...accepted, reason: 'looked at again' })).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
    expect(() => mirror.acceptances.withdraw('production', 'f2')).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
    expect((await mirror.verify()).problems.map(told)).toEqual(found);
  });

  it('stands through accepting, withdrawing, runs, retention, an upgrade and in copies', async () => {
    const path = await mirrorWithBoth();
    const mirror = open({ path });
    const sound = async (): Promise<void> => expect((await mirror.verify()).problems).toEqual([]);
    mirror.acceptances.add({ ...accepted, reason: 'again', fingerprint: 'f6' });
    mirror.acceptances.add({ ...accepted, source: 'a "quoted"\n\u0001 é \u{1f600}', path: '' });
    await sound();
    mirror.acceptances.withdraw('a "quoted"\n\u0001 é \u{1f600}', 'f1');
    mirror.acceptances.withdraw('production', 'f2');
    await sound();
    const under = begin(mirror);
    await sound();
    under.abandon({ code: 'unreachable', message: 'no answer' });
    for (const name of ['A2', 'A3', 'A4']) await sync(mirror, 'roles', ORG, [role('a', name)]);
    await mirror.retention.forget({ policy: { last: 1 }, isEqual: () => false });
    expect(mirror.runs.list().length).toBeLessThan(8);
    await sound();
    const copy = `${path}.copy`;
    await mirror.backupTo(copy);
    mirror.close();
    expect(await messages(copy)).toEqual([]);
    change(path, `DELETE FROM acceptances`);
    expect(await messages(path)).toEqual([`${A} is gone, though entry 3 of the audit log (ann@here) has it`]);
  });
});
