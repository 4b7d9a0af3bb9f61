import Database from 'better-sqlite3';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addToRestored } from '../../src/mirror/backup.ts';
import { type AuditEntry, entryHash } from '../../src/mirror/audited-rows.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { makeMovedMirror } from '../../src/mirror/move.ts';
import { ORG, begin, open, sync, temporaryDirectory } from './fixture.ts';

const AT = '2026-03-01T12:00:01.000Z';
const ACCEPTED = {
  source: 'production',
  fingerprint: 'f1',
  kind: 'roles',
  scope: ORG,
  id: 'r1',
  path: '/name',
  reason: 'agreed',
  acceptedAt: AT,
} as const;

function restore(mirror: Mirror, undoes?: number): void {
  const steps = [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }] as const;
  const number = mirror.restores.begin({
    ...{
      source: 'production',
      planHash: 'abc',
      plan: '{}',
      from: 'latest',
      approved: {},
      startedAt: AT,
      steps,
    },
    ...(undoes === undefined ? {} : { undoes }),
  });
  const [row] = mirror.restores.steps(number);
  if (row !== undefined) mirror.restores.journal([{ row: { ...row, outcome: 'applied', status: 200 } }]);
  mirror.restores.finish(number, 'partial', AT);
}

/** Entries 1 to 5 are sealed by run 6, entry 6 (the forget of runs 1 to 4) and 7 (an undo) are after it. */
async function story(): Promise<string> {
  const mirror = open();
  const run = (name: string) => sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
  for (const name of ['A', 'B', 'C', 'D', 'E']) await run(name);
  mirror.acceptances.add(ACCEPTED);
  mirror.snapshots.pin('five', 5);
  mirror.snapshots.setBaseline('five');
  restore(mirror);
  await run('F');
  await mirror.retention.forget({ policy: { last: 2 }, isEqual: () => false });
  mirror.snapshots.pin('six', 6);
  mirror.close();
  return mirror.path;
}

function change(path: string, ...statements: string[]): void {
  const file = new Database(path);
  for (const statement of statements) expect(file.prepare(statement).run().changes).toBeGreaterThan(0);
  file.close();
}

function rows(path: string, statement: string): unknown[] {
  const file = new Database(path, { readonly: true });
  const found = file.prepare(statement).raw().all();
  file.close();
  return found;
}

async function problems(path: string): Promise<string[]> {
  return (await open({ path, mode: 'read' }).verify()).problems.map(({ message }) => message);
}

const NOT_WRITTEN = 'is not as it was written, or does not follow the entry before it';

describe('the audit log', () => {
  it('has an entry of each acceptance, pin, restore and forget, with who did it', async () => {
    const path = await story();
    const mirror = open({ path });
    restore(mirror, 1);
    mirror.acceptances.withdraw('production', 'f1');
    mirror.snapshots.setBaseline('six');
    mirror.snapshots.unpin('five');
    expect(rows(path, `SELECT entry, by, action, about, member FROM audit_log`)).toEqual(
      [
        ['accept', 'acceptances', '["production","roles","{\\"organization_id\\":\\"o1\\"}","r1","/name"]'],
        ['pin', 'snapshots', '["five"]'],
        ['baseline', 'snapshots', '["five"]'],
        ['restore', 'restores', '[1]'],
        ['end', 'restores', '[1]'],
        ['forget', 'forgets', '[1]'],
        ['pin', 'snapshots', '["six"]'],
        ['undo', 'restores', '[2]'],
        ['end', 'restores', '[2]'],
        ['unaccept', 'acceptances', '["production","roles","{\\"organization_id\\":\\"o1\\"}","r1","/name"]'],
        ['not_baseline', 'snapshots', '["five"]'],
        ['baseline', 'snapshots', '["six"]'],
        ['unpin', 'snapshots', '["five"]'],
      ].map((entry, index) => [index + 1, 'ann@here', ...entry]),
    );
    // What was withdrawn is still known.
    expect(rows(path, `SELECT row ->> 'reason' FROM audit_log WHERE action = 'unaccept'`)).toEqual([
      ['agreed'],
    ]);
    expect(rows(path, `SELECT last_entry FROM runs ORDER BY run`)).toEqual([[null], [5]]);
    expect(await problems(path)).toEqual([]);
  });

  it.each<[what: string, statements: string[], problems: string[]]>([
    [
      'a pin taken out',
      [`DELETE FROM snapshots WHERE name = 'six'`],
      ['snapshot "six" is gone, though entry 7 of the audit log (ann@here) has it'],
    ],
    [
      'a pin put in',
      [`INSERT INTO snapshots VALUES ('x', 5, '${AT}', 'ann@here', 0)`],
      ['snapshot "x" was inserted by another program: the audit log has no entry of it'],
    ],
    [
      'a pin moved',
      [`UPDATE snapshots SET run = 6 WHERE name = 'five'`],
      ['snapshot "five" is not as it was pinned (now at run 6)'],
    ],
    [
      'who pinned',
      [`UPDATE snapshots SET pinned_by = 'eve' WHERE name = 'six'`],
      ['snapshot "six" is not as it was pinned (now at run 6)'],
    ],
    [
      'a restore taken out',
      [`DELETE FROM restores`],
      ['restore 1 is gone, though entry 5 of the audit log (ann@here) has it'],
    ],
    [
      'a restore put in',
      [
        `INSERT INTO restores SELECT 2, source, plan_hash, plan, from_ref, undoes, started_at, started_by,
        finished_at, outcome, approved FROM restores`,
      ],
      ['restore 2 was inserted by another program: the audit log has no entry of it'],
    ],
    ['who restored', [`UPDATE restores SET started_by = 'eve'`], ['restore 1 is not as it was recorded']],
    [
      'the plan of a restore',
      [`UPDATE restores SET plan = '{"a":1}'`],
      ['restore 1 is not as it was recorded'],
    ],
    [
      'what a restore did',
      [`UPDATE restore_steps SET outcome = 'failed'`],
      ['restore 1 is not as it was recorded'],
    ],
    ['a step taken out', [`DELETE FROM restore_steps`], ['restore 1 is not as it was recorded']],
    [
      'an ended restore back to running',
      [`UPDATE restores SET outcome = 'running', finished_at = NULL`],
      ['restore 1 is not as it was recorded'],
    ],
    [
      'an acceptance with its entry',
      [`DELETE FROM acceptances`, `DELETE FROM audit_log WHERE entry = 1`],
      ['entry 1 of the audit log is gone'],
    ],
    [
      'an entry',
      [`UPDATE audit_log SET by = 'eve' WHERE entry = 2`],
      [`entry 2 of the audit log (pin by eve (ann@here)) ${NOT_WRITTEN}`],
    ],
    [
      'how somebody was known',
      [`UPDATE audit_log SET via = 'eve@there' WHERE entry = 2`],
      [`entry 2 of the audit log (pin by ann@here (eve@there)) ${NOT_WRITTEN}`],
    ],
    [
      'several entries taken out',
      [`DELETE FROM audit_log WHERE entry IN (2, 3)`],
      [
        'entries 2 to 3 of the audit log are gone',
        'snapshot "five" was inserted by another program: the audit log has no entry of it',
      ],
    ],
    [
      'all that was sealed taken out',
      [`DELETE FROM acceptances`, `DELETE FROM restores`, `DELETE FROM audit_log WHERE entry < 6`],
      [
        'entries 1 to 5 of the audit log are gone',
        'run 6 has the hash of entry 5 of the audit log, which is gone',
        'snapshot "five" was inserted by another program: the audit log has no entry of it',
        '1 row of the journal is of restore 1, which is neither in the mirror nor in the audit log',
      ],
    ],
    [
      'an entry put in',
      [
        `INSERT INTO audit_log SELECT 8, at, by, via, 'unpin', about, member, row, root, hash FROM audit_log WHERE entry = 7`,
        `DELETE FROM snapshots WHERE name = 'six'`,
      ],
      [`entry 8 of the audit log (unpin by ann@here) ${NOT_WRITTEN}`],
    ],
    [
      'what the run sealed',
      [
        `UPDATE runs SET last_entry = 4, last_entry_hash = (SELECT hash FROM audit_log WHERE entry = 4) WHERE run = 6`,
      ],
      ['the root hash of run 6 does not match what is stored of the run'],
    ],
  ])('shows: %s', async (_what, statements, expected) => {
    const path = await story();
    expect(await problems(path)).toEqual([]);
    change(path, ...statements);
    expect((await problems(path)).toSorted()).toEqual(expected.toSorted());
  });

  it.each<[what: string, statement: string, command: (mirror: Mirror) => unknown, said: string]>([
    [
      'an acceptance that is withdrawn',
      `UPDATE acceptances SET reason = 'approved', accepted_by = 'ciso'`,
      (mirror) => mirror.acceptances.withdraw('production', 'f1'),
      'the acceptance of /name of production (roles) is not as it was accepted; entry 1 of the audit log (accept by ann@here) has reason "agreed", accepted_by "ann@here"',
    ],
    [
      'an acceptance that is replaced',
      `UPDATE acceptances SET until = '2030-01-01T00:00:00.000Z'`,
      (mirror) => mirror.acceptances.add({ ...ACCEPTED, reason: 'again' }),
      'the acceptance of /name of production (roles) is not as it was accepted; entry 1 of the audit log (accept by ann@here) has until null',
    ],
    [
      'an acceptance that nobody made',
      `INSERT INTO acceptances SELECT source, kind, scope, 'r2', path, 'f2', 'ok', accepted_at, 'ciso', until FROM acceptances`,
      (mirror) => mirror.acceptances.withdraw('production', 'f2'),
      'the acceptance of /name of production (roles) was inserted by another program: the audit log has no entry of it',
    ],
    [
      'a pin that is let go',
      `UPDATE snapshots SET run = 5, pinned_by = 'ciso' WHERE name = 'six'`,
      (mirror) => mirror.snapshots.unpin('six'),
      'snapshot "six" is not as it was pinned (now at run 5); entry 7 of the audit log (pin by ann@here) has run 6, pinned_by "ann@here"',
    ],
    [
      'a pin that becomes the baseline',
      `UPDATE snapshots SET run = 5 WHERE name = 'six'`,
      (mirror) => mirror.snapshots.setBaseline('six'),
      'snapshot "six" is not as it was pinned (now at run 5); entry 7 of the audit log (pin by ann@here) has run 6',
    ],
    [
      'a baseline that another one takes the place of',
      `UPDATE snapshots SET pinned_by = 'ciso' WHERE name = 'five'`,
      (mirror) => mirror.snapshots.setBaseline('six'),
      'snapshot "five" is not as it was pinned (now at run 5); entry 3 of the audit log (baseline by ann@here) has pinned_by "ann@here"',
    ],
    [
      'a baseline that nobody set',
      `UPDATE snapshots SET is_baseline = 1 WHERE name = 'six'`,
      (mirror) => mirror.snapshots.setBaseline('five'),
      'snapshot "six" is not as it was pinned (now at run 6); entry 7 of the audit log (pin by ann@here) has is_baseline 0',
    ],
    [
      'a restore that is resumed',
      `UPDATE restores SET started_by = 'ciso'`,
      (mirror) => mirror.restores.resume(1),
      'restore 1 is not as it was recorded; entry 5 of the audit log (end by ann@here) has started_by "ann@here"',
    ],
    [
      'a restore that is abandoned',
      `UPDATE restore_steps SET outcome = 'failed'`,
      (mirror) => mirror.restores.abandon(1, 'failed'),
      'restore 1 is not as it was recorded; entry 5 of the audit log (end by ann@here) has other steps',
    ],
    [
      'a restore that is undone',
      `UPDATE restores SET plan = '{"a":1}'`,
      (mirror) => {
        restore(mirror, 1);
      },
      'restore 1 is not as it was recorded; entry 5 of the audit log (end by ann@here) has another plan',
    ],
    [
      'a restore that nobody began',
      `INSERT INTO restores SELECT 2, source, plan_hash, plan, from_ref, undoes, started_at, 'ciso', finished_at, outcome, approved FROM restores`,
      (mirror) => mirror.restores.resume(2),
      'restore 2 was inserted by another program: the audit log has no entry of it',
    ],
  ])('is not made to say what another program wrote: %s', async (_what, statement, command, said) => {
    const path = await story();
    change(path, statement);
    const found = await problems(path);
    expect(found).toHaveLength(1);
    const log = rows(path, 'SELECT hash FROM audit_log');
    const mirror = open({ path });
    let refused: unknown;
    try {
      command(mirror);
    } catch (error) {
      refused = error;
    }
    expect(refused).toMatchObject({
      ...{ code: 'mirror_corrupt', message: said },
      hint: expect.stringMatching(/keep a copy of the mirror as evidence, and restore a backup/) as string,
    });
    mirror.close();
    expect(rows(path, 'SELECT hash FROM audit_log')).toEqual(log);
    expect(await problems(path)).toEqual(found);
  });

  it('is not made to say what another program wrote into a restore while it ran, or after it died', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    const steps = [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }] as const;
    const start = { source: 'production', planHash: 'abc', plan: '{}', from: 'latest', approved: {} };
    const number = mirror.restores.begin({ ...start, startedAt: AT, steps });
    change(mirror.path, `UPDATE restores SET started_by = 'ciso'`);
    const refused = expect.objectContaining({ code: 'mirror_corrupt' }) as Error;
    expect(() => mirror.restores.finish(number, 'complete', AT)).toThrow(refused);
    mirror.close();
    const again = open({ path: mirror.path });
    expect(again.restores.get(number)).toMatchObject({ outcome: 'running' });
    expect(() => again.restores.resume(number)).toThrow(refused);
    expect(() => again.restores.abandon(number, 'failed')).toThrow(refused);
    again.close();
    expect(rows(mirror.path, 'SELECT action FROM audit_log')).toEqual([['restore']]);
    expect(await problems(mirror.path)).toEqual(['restore 1 is not as it was recorded']);
  });

  it.each<[what: string, number: number, row: string, said: string]>([
    [
      'a withdrawal with another reason',
      8,
      `json_set(row, '$.reason', 'approved', '$.accepted_by', 'ciso')`,
      'entry 8 of the audit log (unaccept by ann@here) contradicts entry 1 (accept by ann@here): reason, accepted_by',
    ],
    [
      'an end of a restore that somebody else began',
      5,
      `json_set(row, '$.started_by', 'ciso', '$.started_at', '2026-01-01T00:00:00.000Z')`,
      'entry 5 of the audit log (end by ann@here) contradicts entry 4 (restore by ann@here): started_at, started_by',
    ],
    [
      'a baseline that is another run',
      3,
      `json_set(row, '$.run', 6)`,
      'entry 3 of the audit log (baseline by ann@here) contradicts entry 2 (pin by ann@here): run',
    ],
  ])('shows that two entries contradict each other: %s', async (_what, number, row, said) => {
    const path = await story();
    const mirror = open({ path });
    mirror.acceptances.withdraw('production', 'f1');
    mirror.close();
    expect(await problems(path)).toEqual([]);
    change(path, `UPDATE audit_log SET row = ${row} WHERE entry = ${number}`);
    // Chained again, as one who may write the file can.
    const file = new Database(path);
    const entries = file.prepare('SELECT * FROM audit_log ORDER BY entry').all() as AuditEntry[];
    let before: Buffer | null = null;
    for (const entry of entries) {
      before = entryHash(entry, before);
      file.prepare('UPDATE audit_log SET hash = ? WHERE entry = ?').run(before, entry.entry);
    }
    file.close();
    expect(await problems(path)).toContain(said);
  });

  it('shows a withdrawal of what nobody accepted', async () => {
    const path = await story();
    const file = new Database(path);
    const facts = file.prepare('SELECT * FROM audit_log WHERE entry = 7').get() as AuditEntry;
    const forged = { ...facts, entry: 8, action: 'unaccept', about: 'acceptances', member: '["x"]' } as const;
    const hash = entryHash(forged, facts.hash);
    file
      .prepare(
        `INSERT INTO audit_log VALUES (@entry, @at, @by, @via, @action, @about, @member, @row, @root, @hash)`,
      )
      .run({ ...forged, hash });
    file.close();
    expect(await problems(path)).toEqual([
      'entry 8 of the audit log (unaccept by ann@here) is of a row of which no entry before it says that it was there',
    ]);
  });

  it('does not give the number of a restore that was taken out to another one', async () => {
    const path = await story();
    change(path, 'DELETE FROM restores', 'DELETE FROM restore_steps');
    const mirror = open({ path });
    restore(mirror);
    expect(mirror.restores.list().map((row) => row.restore)).toEqual([2]);
    expect((await mirror.verify()).problems.map(({ message }) => message)).toEqual([
      'restore 1 is gone, though entry 5 of the audit log (ann@here) has it',
    ]);
  });

  it('shows that a forget was altered, taken out or put in', async () => {
    for (const statement of [
      `UPDATE forgets SET forgotten_by = 'eve'`,
      `DELETE FROM forgets`,
      `INSERT INTO forgets SELECT 2, at, forgotten_by, policy, sources, runs, run_count, tip_run, root_before, root_after,
         replaced_digest, link FROM forgets`,
    ]) {
      const path = await story();
      change(path, statement);
      expect((await problems(path)).join('\n'), statement).toMatch(/^forget [12] (is|was) .*/m);
    }
  });

  it('shows that the latest runs were taken out, where an entry came after them', async () => {
    const mirror = open();
    for (const name of ['A', 'B']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
    mirror.snapshots.pin('two', 2);
    mirror.close();
    change(mirror.path, `UPDATE runs SET root = zeroblob(32) WHERE run = 2`);
    expect(await problems(mirror.path)).toContain(
      'the run that entry 1 of the audit log (pin by ann@here) followed is gone, or has another root hash',
    );
  });

  it('is written with the row or not at all', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    const file = new Database(mirror.path);
    file.exec(`CREATE TRIGGER full BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'no room'); END`);
    expect(() => mirror.acceptances.add(ACCEPTED)).toThrow(/no room/);
    expect(() => mirror.snapshots.pin('one', 1)).toThrow(/no room/);
    expect(() => restore(mirror)).toThrow(/no room/);
    file.exec(`DROP TRIGGER full`);
    file.close();
    expect([mirror.acceptances.list(), mirror.snapshots.list(), mirror.restores.list()]).toEqual([
      [],
      [],
      [],
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('holds while a restore runs, after its process died, and after it was resumed', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    const steps = [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }] as const;
    const start = {
      source: 'production',
      planHash: 'abc',
      plan: '{}',
      from: 'latest',
      approved: {},
      startedAt: AT,
    };
    const number = mirror.restores.begin({ ...start, steps });
    const [row] = mirror.restores.steps(number);
    if (row !== undefined) mirror.restores.journal([{ row: { ...row, outcome: 'sent' } }]);
    expect((await mirror.verify()).problems).toEqual([]);
    mirror.close();
    const again = open({ path: mirror.path });
    expect(again.restores.get(number)).toMatchObject({ outcome: 'interrupted', by: 'ann@here' });
    expect((await again.verify()).problems).toEqual([]);
    again.restores.resume(number);
    again.restores.finish(number, 'complete', AT);
    expect(rows(mirror.path, `SELECT action FROM audit_log`).flat()).toEqual([
      'restore',
      'end',
      'resume',
      'end',
    ]);
    expect((await again.verify()).problems).toEqual([]);
  });

  it('has an entry of the backup that a mirror was restored from, through a forget and a move', async () => {
    const mirror = open();
    for (const name of ['A', 'B']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
    const [latest] = mirror.runs.list();
    const root = latest?.root ?? '';
    mirror.close();
    const backup = { name: 'b.zst', run: 2, root, madeAt: AT, sources: ['production'] };
    const actor = { by: 'ann', via: 'root@here' };
    addToRestored(mirror.path, { states: [], entry: { actor, at: AT, backup } });
    const again = open({ path: mirror.path });
    expect([...again.auditLog()].toReversed()).toMatchObject([
      { entry: 1, at: AT, ...actor, action: 'restore_backup', subject: { about: 'backup', ...backup } },
    ]);
    expect(again.findSeal(root)).toEqual({ status: 'run', run: 2 });
    expect((await again.verify()).problems).toEqual([]);
    await sync(again, 'roles', ORG, ['{"id":"r1","name":"C"}']);
    await again.retention.forget({ policy: { last: 1 }, isEqual: () => false });
    expect((await again.verify()).problems).toEqual([]);
    again.close();
    const moved = join(temporaryDirectory(), 'moved.db');
    makeMovedMirror(moved, [{ path: mirror.path, sources: ['production'] }], { at: AT, actor });
    const last = open({ path: moved });
    expect(last.restoredBackups()).toEqual([
      { entry: 1, at: AT, by: 'ann', via: 'root@here', name: 'b.zst', run: 2 },
    ]);
    expect((await last.verify()).problems).toEqual([]);
    last.close();
    for (const [statement, problem] of [
      [
        `UPDATE audit_log SET by = 'eve' WHERE entry = 1`,
        `entry 1 of the audit log (restore_backup by eve (root@here)) ${NOT_WRITTEN}`,
      ],
      [
        `UPDATE audit_log SET row = '{' WHERE entry = 1`,
        `entry 1 of the audit log (restore_backup by eve (root@here)) ${NOT_WRITTEN}`,
      ],
      [`DELETE FROM audit_log WHERE entry = 1`, 'entry 1 of the audit log is gone'],
    ] as const) {
      change(mirror.path, statement);
      expect(await problems(mirror.path)).toContain(problem);
      expect(open({ path: mirror.path, mode: 'read' }).restoredBackups()[0]?.run).toBe(
        statement.includes('eve') ? 2 : statement.includes('{') ? null : undefined,
      );
    }
  });

  it('is not covered by a run that was not published', async () => {
    const mirror = open();
    mirror.acceptances.add(ACCEPTED);
    begin(mirror).abandon({ code: 'interrupted', message: 'stopped' });
    expect(rows(mirror.path, `SELECT last_entry FROM runs`)).toEqual([[null]]);
    expect((await mirror.verify()).problems).toEqual([]);
  });
});
