/** Rows of runs and restores that another program altered or removed: whoever reads them is told, in commands and on pages. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { loadConfig } from '../../src/config/load.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { changesPage } from '../../src/daemon/dashboard/changes.ts';
import { recordPage } from '../../src/daemon/dashboard/record.ts';
import { journalPage, restoresPage } from '../../src/daemon/dashboard/restores.ts';
import { runPage, runsPage } from '../../src/daemon/dashboard/runs.ts';
import { runNamed } from '../../src/daemon/http/api.ts';
import { ChangesCache, changesOf, findChanges } from '../../src/daemon/http/changes.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { open, ORG, sync, testClock } from '../mirror/fixture.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { alterFile } from '../tools/alter.ts';

/** Three runs, and a restore before the third. */
async function restored(): Promise<Story> {
  const story = await Story.start();
  const id = await story.createExport('Gone');
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${id}/`);
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
  await story.expectRun(0, 'sync', '--quiet');
  return story;
}

/** The pages as they are now. */
function pages(
  story: Story,
): Record<'restores' | 'restore' | 'runs' | 'run' | 'changes', () => string> & { readonly mirror: Mirror } {
  const mirror = openMirror(story.file('mirror.db'), { mode: 'read', command: 'test', clock: systemClock });
  onTestFinished(() => mirror.close());
  const config = onlyMirrorConfig(loadConfig({ env: story.env, cwd: story.directory, keys: 'unused' }));
  const now = systemClock.now();
  const facts = { mirror, config, now, sources: ['default'] };
  return {
    mirror,
    restores: () => restoresPage(facts, []).body.text,
    restore: () => journalPage(facts, '1').body.text,
    changes: () => {
      const found = { runs: [], isCut: false };
      const asked = { days: 7, byDay: [], kind: null };
      return changesPage({ unread: [], ...facts, ...asked, found }).body.text;
    },
    runs: () => runsPage(facts, null).body.text,
    run: () => {
      const run = mirror.runs.get(2);
      if (run === undefined) throw new Error('there is no run 2');
      return runPage({ ...facts, run, changes: null, canAct: false }).body.text;
    },
  };
}

/** What the JSON form of a command says of the row: that it is altered, and the warnings. */
async function told(story: Story, ...command: string[]): Promise<{ altered: unknown[]; warnings: string[] }> {
  interface Row {
    readonly is_altered: boolean;
  }
  const { code, stdout } = await story.run(...command, '--json', '--quiet');
  const document = JSON.parse(stdout) as Row & {
    readonly warnings: string[];
    readonly runs?: readonly Row[];
    readonly restores?: readonly Row[];
  };
  expect(code, command.join(' ')).toBe(document.warnings.length === 0 ? 0 : 1);
  const rows = document.runs ?? document.restores ?? [document];
  return { altered: rows.map(({ is_altered }) => is_altered), warnings: document.warnings };
}

const WARNING = 'class="warning"';

it('warns of a restore that is not as the audit log has it, and of one that is gone', async () => {
  const story = await restored();
  const shown = pages(story);
  const commands = [
    [0, 'restores'],
    [0, 'restores', 'show', '1'],
    [2, 'undo', '1'],
  ] as const;
  for (const [code, ...command] of commands)
    expect((await story.expectRun(code, ...command)).stderr, command.join(' ')).not.toContain('audit log');
  for (const page of [shown.restores, shown.restore]) expect(page()).not.toContain(WARNING);
  for (const command of [['restores'], ['restores', 'show', '1']])
    expect(await told(story, ...command)).toEqual({ altered: [false], warnings: [] });

  story.alter(`UPDATE restores SET started_by = 'nobody'`);
  const line = 'restore 1 is not as it was recorded; entry';
  for (const [code, ...command] of commands) {
    // The plan of an undo is one even so; with --apply it is refused.
    const { stderr } = await story.expectRun(code === 0 ? 1 : code, ...command);
    expect(stderr, command.join(' ')).toContain(line);
    expect(stderr, command.join(' ')).toContain('has started_by ');
  }
  for (const page of [shown.restores, shown.restore]) expect(page()).toContain(line);
  for (const command of [['restores'], ['restores', 'show', '1']])
    expect(await told(story, ...command)).toEqual({
      altered: [true],
      warnings: [expect.stringContaining(line)],
    });

  const doctor = await story.expectRun(1, 'doctor');
  expect(doctor.stdout).toContain('ALTERED BY ANOTHER PROGRAM');
  expect(doctor.stdout).toContain(line);

  expect((await story.expectRun(1, 'verify')).stdout).toMatch(
    /^chain: restore 1 is not as it was recorded \(entry \d+ of the audit log \(end by \S+\) has started_by "[^"]+"\)$/m,
  );
  story.alter(`UPDATE records SET body = replace(body, '"name"', '"name" ') WHERE record =
      (SELECT record FROM records r JOIN collections c ON c.id = r.collection WHERE c.kind = 'roles' LIMIT 1)`);
  expect((await story.expectRun(1, 'verify')).stdout).toMatch(
    /^body: the stored content does not match its hash \(roles \S.* [0-9a-f-]{36}, organization .*, run \d+\)$/m,
  );

  for (const plan of [`''`, `'{'`, `replace(plan, '{', '[')`]) {
    story.alter(`UPDATE restores SET plan = ${plan}, started_at = 'noon'`);
    expect(shown.restores()).toContain(line);
    expect(shown.restore()).toContain('its plan is not readable');
  }

  story.alter('PRAGMA foreign_keys = OFF; DELETE FROM restore_steps; DELETE FROM restores');
  expect((await story.expectRun(1, 'restores')).stderr).toContain('restore 1 is gone, though entry');
  expect((await story.expectRun(1, 'restores', 'show', '1')).stderr).toContain('restore 1 is gone, though');
  expect(shown.restores()).toContain('restore 1 is gone, though entry');
  expect(await told(story, 'restores')).toEqual({
    altered: [],
    warnings: [expect.stringContaining('restore 1 is gone, though entry')],
  });
  expect(shown.restore).toThrow('restore 1 is gone, though entry');
});

it('warns of a run whose row is not as it was written when it ended, and of one that is gone', async () => {
  const story = await restored();
  const shown = pages(story);
  const commands = [['runs'], ['runs', 'show', '2']];
  for (const command of commands)
    expect((await story.expectRun(0, ...command)).stderr, command.join(' ')).not.toContain('the row of run');
  for (const page of [shown.runs, shown.run]) expect(page()).not.toContain(WARNING);
  expect(await told(story, 'runs')).toEqual({ altered: [false, false, false], warnings: [] });
  const dated = [
    ['changes'],
    ['changes', '--json'],
    ['log', 'batch_exports', 'Gone'],
    ['log', 'batch_exports', 'Gone', '--json'],
    ['export', '--history', '--kind', 'batch_exports'],
  ];
  for (const command of dated)
    expect((await story.expectRun(0, ...command)).stderr, command.join(' ')).not.toContain('the row of run');

  story.alter(`UPDATE runs SET "trigger" = 'command eve@x' WHERE run = 2`);
  const line = 'the row of run 2 is not as it was written when the run ended';
  for (const command of commands)
    expect((await story.expectRun(1, ...command)).stderr, command.join(' ')).toContain(line);
  for (const command of dated)
    expect((await story.expectRun(1, ...command)).stderr, command.join(' ')).toContain(`tidemark: ${line}\n`);
  const [domain] = await story.list('domains');
  expect((await story.expectRun(0, 'log', 'domains', String(domain?.['id']))).stderr).not.toContain(line);
  expect((await story.expectRun(0, 'runs', '--limit', '1')).stderr).not.toContain(line);
  expect((await story.expectRun(0, 'runs', 'show', '3')).stderr).not.toContain(line);
  for (const page of [shown.runs, shown.run]) expect(page()).toContain(line);
  expect(await told(story, 'runs')).toEqual({ altered: [false, true, false], warnings: [line] });
  expect(await told(story, 'runs', 'show', '2')).toEqual({ altered: [true], warnings: [line] });
  expect(await told(story, 'runs', 'show', '3')).toEqual({ altered: [false], warnings: [] });

  expect((await story.expectRun(1, 'doctor')).stdout).toContain(line);

  story.alter('DELETE FROM runs WHERE run = 2');
  expect((await story.expectRun(1, 'runs')).stderr).toContain('the row of run 2 is gone');
  for (const command of [['changes'], ['changes', '--json']]) {
    const { stderr } = await story.expectRun(1, ...command);
    expect(stderr).toContain('the row of run 2 is gone');
    expect(stderr).toContain('what run 2 changed is shown with the next run of its source');
  }
  expect(shown.changes()).toContain('what run 2 changed is shown with the next run');
  // Without the row nobody knows when it was.
  for (const command of dated.slice(2)) {
    const { stdout, stderr } = await story.expectRun(1, ...command);
    expect(`${stderr}${stdout}`, command.join(' ')).toContain('is damaged: the row of run 2 is gone');
    expect(stderr, command.join(' ')).toContain('`tidemark verify` says what is damaged');
  }
  const { stderr } = await story.expectRun(1, 'runs', 'show', '2');
  expect(stderr).toContain('run 2 was deleted by another program: its hash is left');
  expect(stderr).toContain('the oldest one is run:1, the latest one is run:3');
  expect(() => runNamed(shown.mirror, '2')).toThrow('run 2 was deleted by another program');
  expect((await story.expectRun(4, 'runs', 'show', '9')).stderr).toContain('there is no run 9');
  expect(shown.runs()).toContain('the row of run 2 is gone');
  expect((await told(story, 'runs')).warnings).toEqual([expect.stringContaining('the row of run 2 is gone')]);

  story.alter('DELETE FROM runs WHERE run = 3');
  const { stderr: newest } = await story.expectRun(1, 'changes');
  for (const run of [2, 3])
    expect(newest).toContain(`what run ${run} changed is not shown: its row is gone, and no run`);
});

it('warns of who made a change, where the row of that restore or the entry of its beginning was altered', async () => {
  const story = await Story.start();
  const [gone, kept] = [await story.createExport('Gone'), await story.createExport('Kept')];
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${gone}/`);
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${kept}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  await story.applied(0, 'restore', 'run:2', '--apply', '--kind', 'batch_exports');
  await story.expectRun(0, 'sync', '--quiet');
  const commands = [
    ['log', 'batch_exports', 'Kept'],
    ['log', 'batch_exports', 'Gone'],
    ['blame', 'batch_exports', 'Kept'],
    ['blame', 'batch_exports', 'Gone'],
    ['show', 'batch_exports', 'Gone'],
    ['changes'],
    ['runs', 'show', '4'],
    ['restores'],
    ['restores', 'show', '1'],
  ];
  const { mirror } = pages(story);
  const config = onlyMirrorConfig(loadConfig({ env: story.env, cwd: story.directory, keys: 'unused' }));
  const now = systemClock.now();
  const shownPages = async (): Promise<string[]> => {
    const [row] = mirror.records.find('batch_exports', kept);
    const run = mirror.runs.get(4);
    if (row === undefined || run === undefined) throw new Error('it is gone');
    const facts = { mirror, config, now, sources: ['default'] };
    const question = {
      period: { since: { at: '' }, until: { at: '2100' } },
      sources: ['default'],
      kinds: null,
      limit: 100,
    };
    const found = await findChanges(mirror, config, question, new ChangesCache());
    const changes = await changesOf(mirror, config, run, { kinds: null, limit: 100 });
    return [
      recordPage({ ...facts, row, query: new URLSearchParams(), isPoll: false }),
      runPage({ ...facts, run, changes, canAct: false }),
      changesPage({ unread: [], ...facts, found, days: 7, byDay: [], kind: null }),
    ].map(({ body }) => body.text);
  };
  for (const command of commands) await story.expectRun(0, ...command);
  for (const page of await shownPages()) expect(page).not.toContain(WARNING);
  const whole = readFileSync(story.file('mirror.db'));
  const alterations = [
    [
      `UPDATE restores SET started_by = 'nobody'`,
      /restore 1 is not as it was recorded; entry 2 of the audit log \(end by \S+\) has started_by "/,
    ],
    [
      `UPDATE audit_log SET via = 'eve@there' WHERE action = 'restore'`,
      /restore 1 rests on entry 1 of the audit log, which is not as it was written/,
    ],
  ] as const;
  for (const [sql, line] of alterations) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    for (const command of commands) {
      const { stderr } = await story.expectRun(1, ...command, '--quiet');
      expect(stderr, command.join(' ')).toMatch(line);
      const document = JSON.parse((await story.run(...command, '--json')).stdout) as { warnings: string[] };
      expect(document.warnings, command.join(' ')).toEqual([expect.stringMatching(line)]);
    }
    for (const page of await shownPages()) expect(page.replaceAll('&quot;', '"')).toMatch(line);
    // Also where no restore is named: an altered one may have made the change nevertheless.
    await story.expectRun(1, 'log', 'domains', String((await story.list('domains'))[0]?.['id']));
    await story.expectRun(1, 'runs', 'show', '3');
  }
});

it('shows what a deleted run changed with the next run, also where that is the first of the period', async () => {
  const clock = testClock();
  const mirror = open({ clock });
  for (const name of ['A', 'B', 'B']) {
    clock.move(60_000);
    await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`], {
      source: { name: 'default', baseUrl: 'https://svc.example.com' },
    });
  }
  alterFile(mirror.path, 'DELETE FROM runs WHERE run = 2');
  const env = { TIDEMARK_BASE_URL: 'https://svc.example.com', TIDEMARK_API_KEY: 'key-of-some-length' };
  const config = onlyMirrorConfig(loadConfig({ env, cwd: '/', keys: 'unused' }));
  const [{ finishedAt } = { finishedAt: null }] = mirror.runs.list();
  const question = { sources: ['default'], kinds: null, limit: 10 };
  for (const from of ['', finishedAt ?? '']) {
    const period = { since: { at: from }, until: { at: '2100' } };
    const { runs } = await findChanges(mirror, config, { ...question, period }, new ChangesCache());
    const changed = runs.filter(({ previous }) => previous !== null);
    expect(changed).toMatchObject([{ run: { run: 3 }, previous: 1, changes: [{ kind: 'roles', id: 'r1' }] }]);
  }
});

/** An export that run 2 has paused, and run 3 not. */
async function unpaused(): Promise<{ story: Story; id: string }> {
  const story = await Story.start();
  const id = await story.createExport('Nightly');
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { paused: false });
  await story.expectRun(0, 'sync', '--quiet');
  return { story, id: id };
}

it('of which record changed in which run hide nothing: comparison, changes and restore refuse them', async () => {
  const { story } = await unpaused();
  const compared = ['diff', 'run:2', 'latest', '--kind', 'batch_exports'];
  expect((await story.expectRun(2, ...compared)).stdout).toContain('/paused true → false');
  const whole = readFileSync(story.file('mirror.db'));
  for (const sql of [
    // As if it had been like this since run 2.
    `UPDATE records SET run = 2 WHERE run = 3 AND hash IS NOT NULL`,
    // With as many changes as before.
    `UPDATE records SET remote_id = remote_id || 'x' WHERE run = 3 AND hash IS NOT NULL`,
    `UPDATE records SET hash = (SELECT hash FROM revisions v WHERE v.record = records.record) WHERE run = 3 AND hash IS NOT NULL`,
  ]) {
    writeFileSync(story.file('mirror.db'), whole);
    story.alter(sql);
    await refusesAll(story, compared, sql);
  }
});

async function refusesAll(story: Story, compared: readonly string[], sql: string): Promise<void> {
  for (const args of [
    compared,
    ['drift', '--from', 'run:2', '--kind', 'batch_exports'],
    ['restore', 'run:2', '--kind', 'batch_exports'],
    ['changes', '--since', 'run:2'],
  ]) {
    const { stderr } = await story.expectRun(1, ...args);
    expect(stderr, `${sql}: ${args.join(' ')}`).toMatch(
      /the changes of run [23], or what identifies their records, do not match its root hash|does not match its hash/,
    );
  }
}

it('of a change that is taken out of the history are told first by what shows that history, with exit code 1', async () => {
  const { story, id } = await unpaused();
  const only = ['--kind', 'batch_exports', '--id', id];
  const exported = await story.expectRun(0, 'export', '--at', 'run:2', ...only);
  const { body } = JSON.parse(exported.stdout) as { body: unknown };
  const record = ['batch_exports', id];
  const shown = [
    ['show', ...record],
    ['log', ...record],
    ['blame', ...record],
    ['export', '--history', ...only],
    ['export', ...only],
  ];
  const page = ({ mirror, isPoll = false }: { mirror: Mirror; isPoll?: boolean } = pages(story)): string => {
    const config = onlyMirrorConfig(loadConfig({ env: story.env, cwd: story.directory, keys: 'unused' }));
    const [row] = mirror.records.find('batch_exports', id);
    if (row === undefined) throw new Error('the record is gone');
    const facts = { mirror, config, row, sources: ['default'], query: new URLSearchParams(), isPoll };
    return recordPage({ ...facts, now: systemClock.now() }).body.text;
  };
  for (const command of shown)
    expect((await story.expectRun(0, ...command)).stderr, command.join(' ')).not.toContain('altered');
  expect(page()).not.toContain(WARNING);
  const { mirror: served } = pages(story);
  expect(page({ mirror: served, isPoll: true })).not.toContain(WARNING);

  const where = `record = (SELECT record FROM records WHERE remote_id = '${id}')`;
  story.alter(`UPDATE records SET body = '${JSON.stringify(body)}', run = 2, change = 1, previous = NULL,
       ordinal = (SELECT ordinal FROM revisions v WHERE v.record = records.record),
       hash = (SELECT hash FROM revisions v WHERE v.record = records.record) WHERE ${where};
     DELETE FROM revisions WHERE ${where}`);
  const line = 'altered: the changes of run 3, or what identifies their records, do not match its root hash';
  const asRecorded = async (command: string[], text: string): Promise<string> => {
    const { stdout, stderr } = await story.expectRun(1, ...command);
    expect(stderr.startsWith(`tidemark: ${text}\n`), `${command.join(' ')}: ${stderr}`).toBe(true);
    expect(stderr).toContain('`tidemark verify` names everything that was changed');
    return stdout;
  };
  for (const command of shown) {
    const stdout = await asRecorded(command, line);
    // Evidence of what the mirror says now.
    expect(stdout, command.join(' ')).toContain('Nightly');
    if (command[0] !== 'export') expect(stdout.split('\n')[1], command.join(' ')).toBe(line);
  }
  for (const command of shown.slice(0, 3)) {
    const { stdout } = await story.expectRun(1, ...command, '--json', '--quiet');
    expect(JSON.parse(stdout), command.join(' ')).toMatchObject({ is_altered: true, warnings: [line] });
  }
  expect(page()).toContain(line);
  // An open page does not compute seals every few seconds: it keeps what was found when it, or another, was loaded.
  expect(page({ mirror: served, isPoll: true })).not.toContain(WARNING);
  expect(page({ mirror: served })).toContain(line);
  expect(page({ mirror: served, isPoll: true })).toContain(line);
  // What was before the change is as it was found, and so is another kind.
  for (const command of [
    ['show', ...record, '--at', 'run:2'],
    ['blame', ...record, '--at', 'run:2'],
    ['export', ...only, '--at', 'run:2'],
    ['export', '--kind', 'roles', '--history'],
    ['export', '--kind', 'roles'],
  ])
    expect((await story.expectRun(0, ...command)).stderr, command.join(' ')).not.toContain('altered');

  // Without the row of that run nothing says any more that it is not as sealed.
  story.alter('PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE run = 3');
  const gone = 'altered: the row of run 3 is gone: its hash is left';
  for (const command of [...shown.slice(1, 3), ['export', '--history', ...only]])
    await asRecorded(command, gone);
  expect(page()).toContain(gone);
  // No root hash of an earlier run is given as the newest one.
  await story.run('snapshots', 'pin', 'noted', 'run:2');
  expect(JSON.parse((await story.expectRun(1, 'audit', '--json', '--quiet')).stdout)).toMatchObject({
    head: null,
    warnings: [gone.replace('altered: ', ''), expect.any(String)],
  });
});

it('of a run that retention would drop are not dropped: what shows the alteration would go with them', async () => {
  const story = await restored();
  story.alter(`UPDATE runs SET "trigger" = "trigger" || ' (root@vm)' WHERE run = 2`);
  const { stderr } = await story.expectRun(1, 'forget', '--keep-last', '1');
  expect(stderr).toContain(
    'the row of run 2 is not as it was written when the run ended: nothing was forgotten',
  );
  expect((await story.expectRun(1, 'verify')).stdout).toContain('the row of run 2 is not as it was written');
});

it('of a view that another program put in its place are told by the command that replaces it', async () => {
  const story = await Story.start();
  // The first sync says that the address is another one.
  await story.expectRun(0, 'sync', '--quiet');
  const quiet = await story.expectRun(0, 'sync', '--quiet');
  expect(quiet.stderr).toBe('');
  const said = 'view members was not as it should be, and was created again';
  for (const [code, ...command] of [
    [0, 'sync', '--quiet'],
    [0, 'snapshots', 'pin', 'a', '--quiet'],
    [1, 'verify'],
  ] as const) {
    story.alter('DROP VIEW members; CREATE VIEW members AS SELECT 1 AS id');
    const { stdout, stderr } = await story.expectRun(code, ...command);
    expect(stderr).toContain(said);
    if (code === 1) expect(stdout).toContain('view members');
  }
  await story.expectRun(0, 'verify');
});
