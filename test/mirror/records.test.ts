import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { RecordFilter } from '../../src/mirror/record-filter.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { begin, open, PROJECT, scan, sync } from './fixture.ts';

const O1 = { organization_id: 'o1' };
const O2 = { organization_id: 'o2' };

async function twoOrganizations(): Promise<Mirror> {
  const mirror = open();
  const run = begin(mirror);
  const put = (kind: Parameters<typeof scan>[0], scope: object, texts: string[]): void => {
    run.stage(kind, scope).accept(texts.map((text) => scan(kind, text)));
  };
  put('organizations', {}, ['{"id":"o1"}', '{"id":"o2"}']);
  put('session_recordings', { project_id: '2' }, ['{"id":"rec2"}']);
  put('session_recordings', { project_id: '1' }, ['{"id":"rec1"}']);
  put('projects', O1, ['{"id":1}']);
  put('projects', O2, ['{"id":2}']);
  put('roles', O2, ['{"id":"same"}', '{"id":"b"}']);
  put('roles', O1, ['{"id":"same"}']);
  put('members', O1, ['{"id":"m","user":{"uuid":"u1"}}']);
  await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
  return mirror;
}

describe('reading records', () => {
  it('goes by catalog order, scope and id', async () => {
    const mirror = await twoOrganizations();
    expect(
      [...mirror.records.read()].map(({ kind, scope, id }) => `${kind} ${JSON.stringify(scope)} ${id}`),
    ).toEqual([
      'organizations {} o1',
      'organizations {} o2',
      'projects {"organization_id":"o1"} 1',
      'projects {"organization_id":"o2"} 2',
      'roles {"organization_id":"o1"} same',
      'roles {"organization_id":"o2"} b',
      'roles {"organization_id":"o2"} same',
      'members {"organization_id":"o1"} u1',
      'session_recordings {"project_id":"1"} rec1',
      'session_recordings {"project_id":"2"} rec2',
    ]);
  });

  it.each<[string, RecordFilter, string[]]>([
    ['kinds', { kinds: ['members', 'projects'] }, ['1', '2', 'u1']],
    [
      'an organization with everything below it',
      { organizations: ['o1'] },
      ['o1', '1', 'same', 'u1', 'rec1'],
    ],
    ['a project with everything below it', { projects: ['2'] }, ['2', 'rec2']],
    ['ids', { ids: ['same', 'o1', 'nobody'] }, ['o1', 'same', 'same']],
    ['an exact scope', { scope: O2 }, ['2', 'b', 'same']],
    ['an unknown source', { sources: ['nowhere'] }, []],
    ['both at once', { organizations: ['o2'], kinds: ['roles'], ids: ['b'] }, ['b']],
    ['an id outside of the organization', { organizations: ['o2'], ids: ['o1'] }, []],
  ])('is narrowed by %s, today and as of a run', async (_name, filter, expected) => {
    const mirror = await twoOrganizations();
    expect([...mirror.records.read(filter)].map(({ id }) => id)).toEqual(expected);
    expect([...mirror.records.readAt(1, filter)].map(({ id }) => id)).toEqual(expected);
    expect([...mirror.records.keys(filter)].map(({ id }) => id)).toEqual(expected);
    expect([...mirror.records.keysAt(1, filter)].map(({ id }) => id)).toEqual(expected);
  });

  it('finds a record by its id, once for each scope that has it', async () => {
    const mirror = await twoOrganizations();
    expect(mirror.records.find('roles', 'same').map(({ scope }) => scope)).toEqual([O1, O2]);
    const inO2 = { sources: ['production'], scope: O2 };
    expect(mirror.records.find('roles', 'same', inO2)).toMatchObject([{ scope: O2, run: 1 }]);
    expect(mirror.records.find('roles', 'nobody', { sources: ['production'] })).toEqual([]);
  });
});

describe('plain SQL on the mirror', () => {
  it('sees documented fields as typed columns of the kind', async () => {
    const mirror = open();
    await sync(mirror, 'batch_exports', O1, [
      '{"id":"1","name":"Nightly","paused":true,"team_id":7,"destination":{"type":"S3","config":{}},"end_at":null}',
      '{"id":"2","name":"Hourly","paused":false,"team_id":7,"schema":[1]}',
    ]);
    const file = new Database(mirror.path, { readonly: true });
    expect(file.prepare('SELECT name FROM batch_exports WHERE paused').pluck().all()).toEqual(['Nightly']);
    expect(
      file
        .prepare('SELECT paused, team_id, destination, end_at, schema FROM batch_exports ORDER BY id')
        .all(),
    ).toEqual([
      { paused: 1, team_id: 7, destination: '{"type":"S3","config":{}}', end_at: null, schema: null },
      { paused: 0, team_id: 7, destination: null, end_at: null, schema: '[1]' },
    ]);
    const perOrganization = `SELECT source, organization_id, count(*) AS n FROM batch_exports GROUP BY 1, 2`;
    expect(file.prepare(perOrganization).all()).toEqual([
      { source: 'production', organization_id: 'o1', n: 2 },
    ]);
    file.close();
  });

  it('lists what was removed in a view', async () => {
    const mirror = open();
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Auditors"}']);
    await sync(mirror, 'roles', O1, []);
    const file = new Database(mirror.path, { readonly: true });
    expect(file.prepare('SELECT * FROM removed_records').all()).toEqual([
      {
        kind: 'roles',
        source: 'production',
        organization_id: 'o1',
        project_id: null,
        role_id: null,
        id: 'a',
        name: 'Auditors',
        removed_run: 2,
        removed_at: '2026-03-01T12:00:00.000Z',
        record: 1,
      },
    ]);
    file.close();
  });

  it('shows the last name of a removed record in its history, and the present one once it is back', async () => {
    const mirror = open();
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Auditors"}', '{"id":"b"}']);
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Reviewers"}', '{"id":"b"}']);
    await sync(mirror, 'roles', O1, []);
    const file = new Database(mirror.path, { readonly: true });
    const history = file
      .prepare<[], unknown[]>('SELECT id, name, change FROM changes ORDER BY id, run')
      .raw();
    const before = [
      ['a', 'Reviewers', 'initial'],
      ['a', 'Reviewers', 'changed'],
      ['a', 'Reviewers', 'removed'],
      ['b', null, 'initial'],
      ['b', null, 'removed'],
    ];
    expect(history.all()).toEqual(before);
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Owners"}']);
    expect(history.all().filter(([id]) => id === 'a')).toEqual([
      ...before.slice(0, 3).map(([id, , change]) => [id, 'Owners', change]),
      ['a', 'Owners', 'added'],
    ]);
    expect(file.prepare('SELECT name FROM removed_records').pluck().all()).toEqual([null]);
    file.close();
  });

  it('shows in every kind the organization and the project that a record belongs to', async () => {
    const mirror = open();
    await sync(mirror, 'organizations', {}, ['{"id":"o1","name":"Harbor"}']);
    await sync(mirror, 'projects', O1, ['{"id":1,"name":"Web"}']);
    await sync(mirror, 'batch_exports', O1, ['{"id":"e","name":"Nightly","team_id":1}']);
    await sync(mirror, 'session_recordings', PROJECT, ['{"id":"r"}']);
    const file = new Database(mirror.path, { readonly: true });
    const place = (kind: string): unknown =>
      file.prepare(`SELECT organization_id, organization, project_id FROM ${kind}`).raw().all();
    expect(place('organizations')).toEqual([['o1', 'Harbor', null]]);
    for (const kind of ['projects', 'batch_exports', 'session_recordings'])
      expect(place(kind), kind).toEqual([['o1', 'Harbor', '1']]);
    const plan = file.prepare(`EXPLAIN QUERY PLAN SELECT * FROM session_recordings WHERE id = 'r'`).all();
    expect(JSON.stringify(plan)).toContain('SEARCH r USING INDEX records_key (collection=? AND remote_id=?');
    file.close();
  });

  it('gives records with the times that their view shows, as of an earlier run too', async () => {
    const mirror = open();
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Old"}', '{"id":"b","name":"B"}']);
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"New"}', '{"id":"c","name":"C"}']);
    // Another notation of the same changes no time.
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"N\\u0065w"}', '{"id":"b","name":"B"}']);
    const dated = (run: number | null): unknown =>
      [...mirror.records.dated(run)].map(({ id, firstSeenAt, lastChangedAt }) => [
        ...[id, firstSeenAt, lastChangedAt],
      ]);
    const file = new Database(mirror.path, { readonly: true });
    const shown = file
      .prepare('SELECT id, first_seen_at, last_changed_at FROM roles ORDER BY id')
      .raw()
      .all();
    const [one, two, three] = file.prepare('SELECT finished_at FROM runs ORDER BY run').pluck().all();
    file.close();
    expect(shown).toEqual([
      ['a', one, two],
      ['b', one, three],
    ]);
    expect(dated(null)).toEqual(shown);
    expect(dated(2)).toEqual([
      ['a', one, two],
      ['c', two, two],
    ]);
    expect(dated(1)).toEqual(['a', 'b'].map((id) => [id, one, one]));
  });

  it('names the organization of what changed, also of an organization and of a removed record', async () => {
    const mirror = open();
    await sync(mirror, 'organizations', {}, ['{"id":"o1","name":"Harbor"}']);
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"A"}']);
    await sync(mirror, 'roles', O1, []);
    const file = new Database(mirror.path, { readonly: true });
    expect(file.prepare('SELECT kind, organization, change FROM changes ORDER BY run').raw().all()).toEqual([
      ['organizations', 'Harbor', 'initial'],
      ['roles', 'Harbor', 'first_read'],
      ['roles', 'Harbor', 'removed'],
    ]);
    // For tools that go by the declared type; a field of any type is the text of its value.
    for (const view of ['changes', 'batch_exports', 'members']) {
      const columns = file.pragma(`table_info(${view})`) as readonly { name: string; type: string }[];
      const untyped = columns.filter(({ type }) => type === '').map(({ name }) => name);
      expect(untyped, view).toEqual([]);
    }
    file.close();
  });

  it('lists what changed in a view, apart from what the first run found', async () => {
    const mirror = open();
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"Old"}', '{"id":"b","name":"B"}']);
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"New"}', '{"id":"c","name":"C"}']);
    // Another notation of the same is no change.
    await sync(mirror, 'roles', O1, ['{"id":"a","name":"N\\u0065w"}', '{"id":"c","name":"C"}']);
    const file = new Database(mirror.path);
    const changes = (): unknown =>
      file
        .prepare('SELECT run, kind, id, name, source, organization_id, change FROM changes ORDER BY run, id')
        .raw()
        .all();
    const row = (run: number, id: string, name: string | null, change: string): unknown[] => [
      ...[run, 'roles', id, name, 'production', 'o1', change],
    ];
    expect(changes()).toEqual([
      row(1, 'a', 'New', 'initial'),
      row(1, 'b', 'B', 'initial'),
      row(2, 'a', 'New', 'changed'),
      row(2, 'b', 'B', 'removed'),
      row(2, 'c', 'C', 'added'),
    ]);
    file.exec(`INSERT INTO id_map VALUES
      ('production', 'roles', '{"organization_id":"o1"}', 'b', '{"organization_id":"o1"}', 'c', 1, '')`);
    expect(changes()).toContainEqual(row(2, 'c', 'C', 'recreated'));
    // The list of a family and that of all of them show one component: the id map has it once.
    for (const kind of ['pipeline_destinations', 'plugins'] as const) {
      await sync(mirror, kind, O1, ['{"id":1,"name":"P"}']);
      await sync(mirror, kind, O1, ['{"id":2,"name":"P"}']);
    }
    file.exec(`INSERT INTO id_map VALUES ('production', 'pipeline_destinations',
      '{"organization_id":"o1"}', '1', '{"organization_id":"o1"}', '2', 1, '')`);
    expect(
      file.prepare("SELECT run, kind, id FROM changes WHERE change = 'recreated' ORDER BY run").raw().all(),
    ).toEqual([
      [2, 'roles', 'c'],
      [5, 'pipeline_destinations', '2'],
      [7, 'plugins', '2'],
    ]);
    // The history that is exported has the same words.
    const ofHistory = [...mirror.records.history()].map(({ run, id, change }) => [run, id, change]);
    const ofView = file.prepare('SELECT run, id, change FROM changes ORDER BY id, run').raw().all();
    expect(ofHistory.sort()).toEqual(ofView.sort());
    file.close();
  });
});
