/** The entry of removals that somebody accepted: written with the run that carries them out, or not at all. */
import Database from 'better-sqlite3';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type AuditEntry, entryHash } from '../../src/mirror/audited-rows.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { compareMoved, makeMovedMirror } from '../../src/mirror/move.ts';
import { ORG, begin, open, scan, sweep, sync, temporaryDirectory } from './fixture.ts';

const ROLES = ['r1', 'r2', 'r3'].map((id) => `{"id":"${id}"}`);

/** A run that shows no role, and in which `count` of their removals were accepted; the others stay. */
function accepting(mirror: Mirror, count = 3, name = 'production') {
  const run = begin(mirror, { source: { name, baseUrl: 'https://svc.example.com' } });
  const stage = run.stage('roles', ORG);
  stage.accept(ROLES.slice(count).map((body) => scan('roles', body)));
  for (const { id } of stage.absent()) stage.remove(id);
  const accepted = {
    atMost: 5,
    collections: [{ kind: 'roles', scope: ORG, accepted: 3, below: 2 }],
  } as const;
  const sweeps = [sweep('roles', ORG, ROLES.length - count)];
  return { run, input: { outcome: 'complete', sweeps, requests: 1, retries: 0, accepted } as const };
}

async function removed(mirror: Mirror, name = 'production'): Promise<void> {
  const source = { name, baseUrl: 'https://svc.example.com' };
  await sync(mirror, 'roles', ORG, ROLES, { source });
  const { run, input } = accepting(mirror, 3, name);
  await run.publish(input);
}

function change(path: string, work: (file: Database.Database) => void): void {
  const file = new Database(path);
  work(file);
  file.close();
}

async function problems(path: string): Promise<string[]> {
  return (await open({ path, mode: 'read' }).verify()).problems.map(({ message }) => message);
}

describe('accepted removals', () => {
  it('are in the log, sealed by the run that carried them out', async () => {
    const mirror = open();
    await removed(mirror);
    expect([...mirror.auditLog()].toReversed()).toMatchObject([
      {
        ...{ entry: 1, action: 'accept_removals', by: 'ann@here' },
        subject: {
          ...{ about: 'removals', run: 2, source: 'production', atMost: 5 },
          collections: [{ kind: 'roles', scope: ORG, accepted: 3, below: 2, removed: 3 }],
        },
      },
    ]);
    expect(mirror.acceptedRemovals(2)).toMatchObject({ entry: 1, by: 'ann@here' });
    expect(mirror.acceptedRemovals(1)).toBeUndefined();
    change(mirror.path, (file) => {
      expect(file.prepare('SELECT last_entry FROM runs ORDER BY run').pluck().all()).toEqual([null, 1]);
    });
    expect(await problems(mirror.path)).toEqual([]);
  });

  it('are not recorded where the run is not published, nor the other way round', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ROLES);
    for (const refused of ['UPDATE OF root ON runs', 'INSERT ON audit_log']) {
      change(mirror.path, (file) =>
        file.exec(`CREATE TRIGGER refuse BEFORE ${refused} BEGIN SELECT RAISE(ABORT, 'refused'); END`),
      );
      const { run, input } = accepting(mirror);
      await expect(run.publish(input)).rejects.toThrow();
      run.abandon({ code: 'internal', message: 'refused' });
      change(mirror.path, (file) => {
        file.exec('DROP TRIGGER refuse');
        expect(file.prepare('SELECT count(*) FROM audit_log').pluck().get()).toBe(0);
      });
      expect([...mirror.records.read()]).toHaveLength(3);
    }
    const { run, input } = accepting(mirror);
    await run.publish({ ...input, outcome: 'failed' });
    const again = accepting(mirror, 0);
    await again.run.publish(again.input);
    expect([...mirror.auditLog()].toReversed()).toEqual([]);
    expect(await problems(mirror.path)).toEqual([]);
  });

  it('stay in the log when their run is forgotten', async () => {
    const mirror = open();
    await removed(mirror);
    await sync(mirror, 'roles', ORG, ROLES);
    await mirror.retention.forget({ policy: { last: 1 }, isEqual: () => false });
    expect([...mirror.auditLog()].toReversed().map(({ action }) => action)).toEqual([
      'accept_removals',
      'forget',
    ]);
    expect(await problems(mirror.path)).toEqual([]);
  });

  it('name their run by its new number after a move, and stay with their source', async () => {
    const directory = temporaryDirectory();
    const parts: { path: string; sources: string[] }[] = [];
    for (const name of ['acme', 'beta']) {
      const mirror = open({ path: join(directory, `${name}-old.db`) });
      await removed(mirror, name);
      mirror.close();
      parts.push({ path: mirror.path, sources: [name] });
    }
    const facts = { at: '2026-03-02T00:00:00.000Z', actor: { by: 'ann@here', via: 'ann@here' } };
    const joined = join(directory, 'whole.db');
    makeMovedMirror(joined, parts, facts);
    compareMoved(joined, parts);
    const mirror = open({ path: joined, mode: 'read' });
    const said = [...mirror.auditLog()]
      .toReversed()
      .flatMap(({ subject }) => (subject.about === 'removals' ? [[subject.source, subject.run]] : []));
    const last = (source: string): number | undefined => mirror.runs.latest(source)?.run;
    expect(said).toEqual([
      ['acme', last('acme')],
      ['beta', last('beta')],
    ]);
    expect(new Set(said.map(([, run]) => run)).size).toBe(2);
    expect(mirror.acceptedRemovals(last('beta') ?? 0)?.subject.source).toBe('beta');
    mirror.close();
    expect(await problems(joined)).toEqual([]);
    const split = join(directory, 'beta.db');
    makeMovedMirror(split, [{ path: joined, sources: ['beta'] }], facts);
    const alone = open({ path: split, mode: 'read' });
    expect(
      [...alone.auditLog()]
        .toReversed()
        .flatMap(({ subject }) => (subject.about === 'removals' ? [subject.source] : [])),
    ).toEqual(['beta']);
    alone.close();
    expect(await problems(split)).toEqual([]);
  });

  it.each([
    ['a run in which none were', `[1]`, {}, 'is of run 1, in which no removals were accepted'],
    ['a run that never was', `[9]`, {}, 'is of run 9, which is not there'],
    ['another source', `[2]`, { source: 'beta' }, 'is of run 2, in which no removals were accepted'],
  ])('are compared with the run: %s', async (_what, member, facts, said) => {
    const mirror = open();
    await removed(mirror);
    mirror.close();
    change(mirror.path, (file) => {
      const entry = file.prepare<[], AuditEntry>('SELECT * FROM audit_log').get();
      if (entry === undefined) throw new Error('there is no entry');
      // As somebody who computes the hash as well.
      const { row } = entry;
      const altered = {
        ...entry,
        member,
        row: JSON.stringify({ ...(JSON.parse(row) as object), ...facts }),
      };
      file
        .prepare('UPDATE audit_log SET member = ?, row = ?, hash = ?')
        .run(altered.member, altered.row, entryHash(altered, null));
    });
    expect(await problems(mirror.path)).toContain(
      `entry 1 of the audit log (accept_removals by ann@here) ${said}`,
    );
  });

  it.each([
    ['row', '{"source":"production"}'],
    ['row', 'null'],
    ['row', 'x'],
    ['member', '7'],
  ])('that were damaged are found by verify (%s %s)', async (column, text) => {
    const mirror = open();
    await removed(mirror);
    mirror.close();
    change(mirror.path, (file) => file.prepare(`UPDATE audit_log SET "${column}" = ?`).run(text));
    expect(await problems(mirror.path)).toContainEqual(expect.stringContaining('is not as it was written'));
    const damaged = open({ path: mirror.path, mode: 'read' });
    // The list goes on after it.
    expect([...damaged.auditLog()]).toMatchObject([{ isAltered: true, subject: { about: 'unreadable' } }]);
  });
});
