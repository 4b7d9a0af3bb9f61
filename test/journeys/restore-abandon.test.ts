/** `restore --abandon`: an interrupted restore that nobody is to resume ends, and with it what a daemon reported of it. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runCommandLine } from '../../src/cli/program.ts';
import { commandActor } from '../../src/core/actor.ts';
import { Keyboard, Screen } from '../cli/terminal.ts';
import { receiver } from '../daemon/notices/receiver.ts';
import { begin } from './command-line.ts';
import { start, startHere } from './harness.ts';
import {
  IMPATIENT,
  killedInside,
  ORGANIZATION,
  type PlanJson,
  type RestoreJson,
  Story,
} from './restore-story.ts';

const { via } = commandActor();
const RESTORE = ['restore', '--apply', '--yes'];

/** Two records differ from run 1; a request at a time is sent. */
async function damaged(): Promise<Story> {
  const story = await Story.start();
  const owen = await story.member('Owen');
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
  story.env['TIDEMARK_RATE_CONCURRENCY'] = '1';
  return story;
}

/** Holds the first such request back until `open` is called; `reached` resolves when it came. */
function gate(story: Story, method = 'PATCH'): { open: () => void; reached: Promise<unknown> } {
  const opened = Promise.withResolvers<undefined>();
  const came = Promise.withResolvers<undefined>();
  const fault = { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const;
  story.proxy.setRules([{ method, nth: 1, fault }]);
  return { open: () => opened.resolve(undefined), reached: came.promise };
}

/** Restore 1 was stopped after the first of its two steps; `meanwhile` is called while it runs. */
async function interrupted(
  story: Story,
  meanwhile: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const held = gate(story);
  const running = begin(RESTORE, { env: story.env, cwd: story.directory });
  await held.reached;
  await meanwhile();
  running.stop();
  held.open();
  expect((await running.ended).code).toBe(130);
  story.proxy.setRules([]);
}

/** Restore 1 was killed before its first request was answered. */
async function killed(story: Story, method = 'PATCH'): Promise<void> {
  const held = gate(story, method);
  const { child, ended } = start(RESTORE, { env: story.env, cwd: story.directory });
  await Promise.race([held.reached, ended.then(({ stderr }) => expect(stderr).toBe('still running'))]);
  child.kill('SIGKILL');
  expect((await ended).code).toBe(null);
  story.proxy.setRules([]);
}

it('a restore that is being applied is shown with how far it is, by status and on the overview', async () => {
  const story = await damaged();
  await interrupted(story, async () => {
    const { stdout } = await story.expectRun(0, 'status');
    expect(stdout).toMatch(
      /^restore 1 began just now and is running \(process \d+ on .*\): 0 of 2 steps done; last request just now$/m,
    );
    const json = JSON.parse((await story.expectRun(0, 'status', '--json')).stdout) as object;
    expect(json).toMatchObject({
      sources: [{ running_restore: { restore: 1, steps: 2, ended_steps: 0 } }],
    });
    const daemon = startHere(['daemon'], {
      env: { ...story.env, TIDEMARK_HTTP_LISTEN: '127.0.0.1:0', TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *' },
      cwd: story.directory,
    });
    const page = async (): Promise<string> => {
      const card = JSON.parse(readFileSync(story.file('mirror.db.daemon'), 'utf8')) as { url: string };
      return (await fetch(card.url, { headers: { accept: 'text/html' } })).text();
    };
    const shown = async (): Promise<string> => (await page().catch(() => '')).replaceAll(/<[^>]*>/g, '');
    await expect.poll(shown, { timeout: 30_000 }).toMatch(/Restore 1 began .*: 0 of 2 steps done/);
    daemon.stop();
    await daemon.ended;
  });
  const { stdout } = await story.run('status');
  expect(stdout).not.toContain('is running');
  expect(stdout).toContain('restore 1 was interrupted');
});

it('the list of restores counts the steps whose result is not certain', async () => {
  const story = await damaged();
  await killed(story);
  expect((await story.expectRun(0, 'restores')).stdout).toMatch(/ interrupted, 2 to check /);
  const listed = async (): Promise<unknown> =>
    JSON.parse((await story.expectRun(0, 'restores', '--json')).stdout) as unknown;
  expect(await listed()).toMatchObject({ restores: [{ to_check: 2, summary: { sent: 2 } }] });
  await story.expectRun(0, 'restore', '--resume', '1');
  expect((await story.expectRun(0, 'restores')).stdout).not.toContain('to check');
  expect(await listed()).toMatchObject({ restores: [{ to_check: 0 }] });
});

type Journaled = RestoreJson['steps'][number] & { readonly kind: string; readonly id: string };

describe('restore --abandon', () => {
  it('ends the incident beside a running daemon, under the name of who did it; the restore can still be resumed', async () => {
    const story = await damaged();
    const told = await receiver({ status: 200 });
    const { TIDEMARK_API_KEY: KEY = '' } = story.env;
    for (const name of Object.keys(story.env)) Reflect.deleteProperty(story.env, name);
    story.env['KEY'] = KEY;
    const rest = 'rate: { perMinute: 0, perHour: 0, concurrency: 1 }, retry: { attempts: 1 }';
    const config = [
      'mirror: ./mirror.db',
      'sources:',
      `  - { name: default, baseUrl: "${story.proxy.url}", apiKey: "\${KEY}", ${rest}, kinds: { exclude: [session_recordings, recording_sharing] } }`,
      'schedules: { sync: { cron: "0 0 1 1 *" }, drift: { cron: "off" }, verify: { cron: "off" }, drill: { cron: "off" } }',
      'http: { listen: "127.0.0.1:0", publicUrl: "https://tidemark.example" }',
      `notices: [{ name: hook, type: webhook, url: "${told.url}" }]`,
    ];
    writeFileSync(story.file('tidemark.yaml'), config.join('\n'), { mode: 0o600 });

    await interrupted(story, async () => {
      const living = await story.expectRun(1, 'restore', '--abandon', '1', '--yes');
      expect(living.stderr).toMatch(/is held by `restore` \(pid \d+ on /);
    });
    const daemon = startHere(['daemon'], { env: story.env, cwd: story.directory });
    const get = async (path: string): Promise<string> => {
      const card = JSON.parse(readFileSync(story.file('mirror.db.daemon'), 'utf8')) as Record<
        'url' | 'token',
        string
      >;
      const headers = { authorization: `Bearer ${card.token}`, accept: 'text/html, application/json' };
      return (await fetch(card.url + path, { headers })).text();
    };
    const page = async (path: string): Promise<string> => {
      const text = await get(path).catch(() => '');
      return text.replaceAll(/<[^>]*>/g, '');
    };
    await expect.poll(() => page('/'), { timeout: 60_000 }).toContain('restore 1 was interrupted');
    // After a job the daemon looks at once.
    await story.expectRun(0, 'sync', '--quiet');
    await told.came(1);
    const notice = (at: number): Record<string, unknown> =>
      JSON.parse(told.received[at]?.body ?? '{}') as Record<string, unknown>;
    expect(notice(0)).toMatchObject({
      event: 'restore_interrupted',
      link: 'https://tidemark.example/restores/1',
      hint: expect.stringContaining('`tidemark restore --abandon 1` leaves it as it is') as string,
    });
    const way = 'tidemark restore --abandon 1 leaves it as it is';
    expect(await page('/restores/1')).toContain(way);

    const from = story.writes().length;
    const abandoned = await story.expectRun(0, 'restore', '--abandon', '1', '--yes', '--as', 'Bea', '--json');
    expect(JSON.parse(abandoned.stdout)).toMatchObject({
      ...{
        schema: 'tidemark.restore/1',
        restore: 1,
        outcome: 'partial',
        by: via,
        abandoned_by: { by: 'Bea', via },
      },
      summary: { applied: 1, open: 1 },
    });
    expect(story.writes()).toHaveLength(from);
    await expect.poll(() => page('/'), { timeout: 60_000 }).not.toContain('restore 1 was interrupted');
    const journal = await page('/restores/1');
    expect(journal).toMatch(/Abandoned by\s*Bea/);
    expect(journal).not.toContain(way);
    await story.expectRun(0, 'sync', '--quiet');
    await told.came(2);
    expect(notice(1)).toMatchObject({
      event: 'restore_settled',
      link: 'https://tidemark.example/restores/1',
    });
    expect(told.received).toHaveLength(2);

    const { stdout } = await story.expectRun(0, 'audit', '--action', 'abandon', '--json');
    const { entries } = JSON.parse(stdout) as { entries: unknown[] };
    expect(entries).toEqual([
      expect.objectContaining({
        ...{ action: 'abandon', by: 'Bea', via, source: 'default' },
        restore: expect.objectContaining({ restore: 1, outcome: 'partial', by: via }) as unknown,
      }),
    ]);
    await story.expectRun(0, 'verify');
    const shown = await story.expectRun(0, 'restores', 'show', '1');
    expect(shown.stdout).toContain(`by ${via}, abandoned by Bea (${via}): `);
    expect(shown.stdout).toContain('to continue it even so: `tidemark restore --resume 1`');
    expect(shown.stdout).toContain('to undo it: `tidemark undo 1`');
    const writes = story.writes().length;
    expect((await story.expectRun(1, 'restore', '--resume')).stderr).toContain('restore 1 was abandoned');
    await story.expectRun(2, 'undo', '1');
    expect(story.writes()).toHaveLength(writes);

    const resumed = await story.expectRun(0, 'restore', '--resume', '1', '--json');
    const report = JSON.parse(resumed.stdout) as object;
    expect(report).toMatchObject({ outcome: 'complete', summary: { applied: 2 } });
    expect(report).not.toHaveProperty('abandoned_by');
    daemon.stop();
    expect((await daemon.ended).code).toBe(0);
  });

  it('and a new plan is the way where what is left was accepted as drift since: it is not resumed', async () => {
    const story = await damaged();
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await interrupted(story);
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
    const { steps } = JSON.parse(stdout) as { readonly steps: readonly Journaled[] };
    const [left] = steps.filter(({ outcome }) => outcome === 'planned');
    const record = [left?.kind ?? '', left?.id ?? ''];
    await story.expectRun(0, 'drift', 'accept', ...record, '--live', '--reason', 'wanted', '--as', 'ada');
    const before = story.writes().length;
    const refused = await story.expectRun(6, 'restore', '--resume');
    expect(refused.stderr).toContain(
      '1 step would set back what was accepted as drift after the plan was made:',
    );
    expect(refused.stderr).toMatch(
      / was accepted by ada \(\S+@\S+\) on .*: wanted\n {2}→ .*`tidemark restore --abandon 1`/,
    );
    expect(story.writes()).toHaveLength(before);
    await story.expectRun(0, 'drift', 'unaccept', ...record);
    await story.expectRun(0, 'restore', '--resume');
    expect(story.writes().length).toBeGreaterThan(before);
  });

  it('of one that was killed before it was answered ends it as partial; only a resume by its number sends the rest', async () => {
    const story = await damaged();
    await killed(story);
    const refused = await story.expectRun(4, 'restore', '--abandon', '1');
    expect(refused.stderr).toContain(
      'look at what was done with `tidemark restores show 1`, then give --yes',
    );
    expect((await story.expectRun(4, 'restore', '--abandon', '--json')).stdout).toContain('give --yes');
    expect((await story.run('status')).stdout).toContain('restore 1 was interrupted');

    const { stdout } = await story.expectRun(0, 'restore', '--abandon', '--yes');
    expect(stdout).toMatch(
      /^restore 1 of default: abandoned; (?:2 sent without an answer|1 sent without an answer, 1 not reached)\n/,
    );
    const listed = JSON.parse((await story.expectRun(0, 'restores', '--json')).stdout) as object;
    expect(listed).toMatchObject({
      restores: [{ restore: 1, outcome: 'partial', abandoned_by: { by: via, via }, to_check: 0 }],
    });
    // Who abandoned it was told of them.
    expect((await story.expectRun(0, 'restores')).stdout).toMatch(
      /partial \(abandoned\)(?:, 1 not reached)? /,
    );
    expect((await story.run('status')).stdout).not.toContain('interrupted');
    expect((await story.run('doctor', '--json')).stdout).not.toContain('restore_interrupted');
    expect((await story.expectRun(2, 'restore')).stderr).not.toContain('unfinished');
    const audited = await story.expectRun(0, 'audit', '--json');
    const { entries } = JSON.parse(audited.stdout) as { entries: { action: string }[] };
    expect(entries.map(({ action }) => action)).toEqual(['abandon', 'end', 'restore']);
    const text = (await story.expectRun(0, 'audit', '--action', 'end')).stdout;
    expect(text).toContain('interrupted: its process died; recorded by the process that noticed it');
    expect(stdout).toContain('to continue it even so: `tidemark restore --resume 1`');
    expect(stdout).toContain('to undo it: `tidemark undo 1`, which first looks up what has no answer');
    const writes = story.writes().length;
    const nothing = await story.expectRun(4, 'undo', '1');
    expect(nothing.stderr).toContain('restore 1 applied nothing: there is nothing to undo');
    const bare = await story.expectRun(1, 'restore', '--resume');
    expect(bare.stderr).toContain(
      'restore 1 was abandoned: `tidemark restore --resume 1` continues it even so',
    );
    expect(story.writes()).toHaveLength(writes);
    // What was without an answer is looked up, as ever.
    await story.expectRun(0, 'restore', '--resume', '1');
    await story.expectRun(0, 'diff', 'latest', 'live');
  });

  it('refuses what has ended, what there is not, and other options', async () => {
    const story = await damaged();
    const none = await story.expectRun(1, 'restore', '--abandon', '--yes');
    expect(none.stderr).toContain('the latest restore of default is not interrupted');
    await interrupted(story);
    await story.expectRun(0, 'restore', '--resume', '1');
    const cases = [
      [4, ['1', '--yes'], 'restore 1 has ended (complete): there is nothing to abandon'],
      [4, ['2', '--yes'], 'there is no restore 2'],
      [4, ['last', '--yes'], 'a restore is a number, not last'],
      [
        4,
        ['1', '--yes', '--apply'],
        '--abandon sends nothing, and takes no other option than --yes and --as',
      ],
      [4, ['1', '--yes', '--resume'], 'takes no other option'],
      [1, ['--yes'], 'the latest restore of default is not interrupted'],
    ] as const;
    for (const [code, args, said] of cases) {
      const { stderr } = await story.expectRun(code, 'restore', '--abandon', ...args);
      expect(stderr).toContain(said);
    }
    await story.expectRun(4, 'restore', 'run:1', '--abandon', '1', '--yes');
    const { stdout } = await story.expectRun(0, 'audit', '--json');
    expect(stdout).not.toContain('"abandon"');
  });

  it('leaves what ended with steps that could be sent: --resume no longer lists it', async () => {
    const story = await damaged();
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    story.proxy.setRules([{ method: 'PATCH', fault }]);
    for (const _restore of [1, 2]) await story.run(...RESTORE);
    story.proxy.setRules([]);
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: true });
    await story.expectRun(0, ...RESTORE);
    const listed = await story.expectRun(4, 'restore', '--resume');
    expect(listed.stderr).toContain('several restores are unfinished: 2 of ');
    expect(listed.stderr).toContain('`tidemark restore --abandon 2`, which leaves it as it is');
    const endOf = async (): Promise<unknown> => {
      const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
      const { outcome, finished_at: at } = JSON.parse(stdout) as Record<string, unknown>;
      return { outcome, at };
    };
    const before = await endOf();
    const asked = await onTerminal(story, ['restore', '--abandon', '1'], 'n');
    expect(asked.text).toContain('restore 1 is still unfinished: nothing was changed');
    for (const n of ['1', '2']) await story.expectRun(0, 'restore', '--abandon', n, '--yes');
    expect(await endOf()).toEqual(before);
    const none = await story.expectRun(1, 'restore', '--resume');
    expect(none.stderr).toContain('no restore of default is unfinished');
    const again = await story.expectRun(4, 'restore', '--abandon', '1', '--yes');
    expect(again.stderr).toContain('restore 1 has ended (failed): there is nothing to abandon');
  });

  it.each([
    ['no', 'n', 1, 'restore 1 is still interrupted: nothing was changed', 'interrupted'],
    ['Ctrl-C', '\u0003', 130, 'restore 1 is still interrupted: nothing was changed', 'interrupted'],
    ['yes', 'y', 0, '1 of 2 steps applied', 'partial'],
  ])('asks on a terminal; the answer is %s', async (_name, keys, code, said, outcome) => {
    const story = await damaged();
    await interrupted(story);
    const asked = await onTerminal(story, ['restore', '--abandon'], keys);
    expect(asked.code, asked.text).toBe(code);
    expect(asked.text.replaceAll(/\s+/g, ' ')).toContain('End it as partial?');
    expect(asked.text).toContain(said);
    const { stdout } = await story.expectRun(0, 'restores', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ restores: [{ restore: 1, outcome }] });
  });
});

it('is named by drift until it has ended, also once the mirror has what it did', async () => {
  const story = await damaged();
  await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
  await interrupted(story);
  await story.run('sync', '--quiet');
  const named = 'restore 1 was interrupted, so some of this may be its own: `tidemark restore --resume 1`';
  for (const asked of [['drift'], ['drift', '--live'], ['drift', '--json']]) {
    const { stdout, stderr } = await story.run(...asked);
    expect((stdout + stderr).replaceAll(/\s+/g, ' '), asked.join(' ')).toContain(named);
  }
  await story.expectRun(0, 'restore', '--abandon', '--yes');
  expect((await story.run('drift')).stdout).not.toContain('restore 1');
});

describe('an interrupted restore that was undone', () => {
  it('is over: nothing offers to resume it, and it is refused, until the undo is undone', async () => {
    const story = await damaged();
    await interrupted(story);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    const writes = story.writes().length;
    const bare = await story.expectRun(1, 'restore', '--resume');
    expect(bare.stderr).toContain('no restore of default is unfinished');
    const refused = await story.expectRun(4, 'restore', '--resume', '1');
    expect(refused.stderr).toContain('restore 1 was undone by restore 2: it is not continued');
    expect(refused.stderr).toContain('→ `tidemark restore run:1 --source default` makes a new plan');
    expect(story.writes()).toHaveLength(writes);
    expect((await story.expectRun(0, 'restores')).stdout).toContain('interrupted (undone)');
    const asks = [
      ['restores'],
      ['restores', 'show', '1'],
      ['status'],
      ['doctor'],
      ['drift', '--live'],
      ['restore'],
    ];
    for (const asked of asks) {
      const said = await story.run(...asked);
      expect(said.stdout + said.stderr, asked.join(' ')).not.toMatch(/--resume|was interrupted|unfinished/);
    }
    // The undo was a mistake: then what it took back is there again, and the rest may be sent.
    await story.expectRun(0, 'undo', '2', '--apply', '--yes');
    const undo = await story.expectRun(4, 'restore', '--resume', '2');
    expect(undo.stderr).toMatch(
      /restore 2 was undone by restore 3: .*\n.*`tidemark undo 1` makes a new plan/,
    );
    for (const asked of [['status'], ['doctor'], ['restore', '--kind', 'roles']]) {
      const said = await story.run(...asked);
      expect(said.stdout + said.stderr, asked.join(' ')).toMatch(/restore 1 .*(interrupted|unfinished)/);
    }
    const { stdout } = await story.expectRun(0, 'restore', '--resume', '1', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ outcome: 'complete', summary: { applied: 2 } });
    expect((await story.run('status')).stdout).not.toContain('restore 1');
  });

  it('is over too while its undo is unfinished, and once it is abandoned', async () => {
    const story = await damaged();
    await interrupted(story);
    const held = gate(story);
    const { child, ended } = start(['undo', '1', '--apply', '--yes'], {
      env: story.env,
      cwd: story.directory,
    });
    await Promise.race([held.reached, ended.then(({ stderr }) => expect(stderr).toBe('still running'))]);
    child.kill('SIGKILL');
    expect((await ended).code).toBe(null);
    story.proxy.setRules([]);
    const refused = await story.expectRun(4, 'restore', '--resume', '1');
    expect(refused.stderr).toContain('restore 1 was undone by restore 2: it is not continued');
    const abandoned = await story.expectRun(0, 'restore', '--abandon', '1', '--yes');
    expect(abandoned.stdout).not.toContain('--resume');
    const { stdout } = await story.expectRun(0, 'restore', '--resume', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ restore: 2, undoes: 1, outcome: 'complete' });
    const bare = await story.expectRun(1, 'restore', '--resume');
    expect(bare.stderr).not.toContain('--resume');
  });
});

it('an undo on a terminal shows how far it is with looking up', async () => {
  const story = await Story.start();
  const [{ id, domain } = {}] = await story.list('domains');
  await story.call('DELETE', `${ORGANIZATION}domains/${String(id)}/`);
  const arrives = await killedInside(story, ['domains'], { method: 'POST', path: /domains\/$/, nth: 1 });
  arrives.resolve(undefined);
  const names = async () => (await story.list('domains')).map((each) => each['domain']);
  await expect.poll(names, { timeout: 60_000 }).toContain(domain);
  // The look-up is answered once a person has seen that it takes its time.
  const seen = Promise.withResolvers<undefined>();
  const fault = { kind: 'gate', until: seen.promise } as const;
  story.proxy.setRules([{ method: 'GET', path: /domains\//, nth: 1, fault }]);
  const { code, text } = await onTerminal(story, ['undo', '1'], '', (shown) => {
    if (/restore 1: 0 of 1 step looked up, [1-9]\d* s: /.test(shown)) seen.resolve(undefined);
  });
  expect(code, text).toBe(2);
  expect(text).toContain('1 to remove');
});

/** Applies a restore to its end, and makes a backup while its first such request is held back. Its exit code. */
async function backedUpMeanwhile(story: Story, method: string, ...more: string[]): Promise<number | null> {
  backUpTo(story, 'backups');
  const held = gate(story, method);
  const running = begin(['restore', ...more, '--apply', '--yes'], { env: story.env, cwd: story.directory });
  await held.reached;
  await story.expectRun(0, 'backup', 'create');
  held.open();
  const { code, stdout, stderr } = await running.ended;
  expect([0, 3], stdout + stderr).toContain(code);
  story.proxy.setRules([]);
  return code;
}

function backUpTo(story: Story, directory: string): void {
  const backups = story.file(directory);
  mkdirSync(backups);
  story.env['TIDEMARK_BACKUP_TARGETS'] = backups;
}

/** The latest backup takes the place of the mirror. Its path. */
async function toBackup(story: Story): Promise<string> {
  const mirror = story.env['TIDEMARK_MIRROR'] ?? '';
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${mirror}${suffix}`, { force: true });
  await story.expectRun(0, 'backup', 'restore', 'latest', '--to', mirror);
  return mirror;
}

/** As a backup has it that was made before they began, the creations of a restore. How many there are. */
function unbegunCreations(mirror: string, restore: number): number {
  const file = new Database(mirror);
  const { changes } = file
    .prepare(
      `UPDATE restore_steps SET outcome = 'planned', status = NULL, attempts = 0, sent_at = NULL WHERE restore = @restore AND step IN (
        SELECT s.value ->> 'n' FROM restores r, json_each(r.plan, '$.steps') s
        WHERE r.restore = @restore AND s.value ->> 'action' = 'create')`,
    )
    .run({ restore });
  file.close();
  return changes;
}

const unknownEnd = (restore: number): RegExp =>
  new RegExp(
    `restore ${restore}(?: of \\S+)? had not ended when the backup was made \\(2\\S+Z\\) that this mirror comes from: whether it ended is not known`,
  );

describe('a restore that had not ended in the backup that the mirror comes from', () => {
  it('is not called interrupted; resumed, it finds what was done after the backup, and sends nothing', async () => {
    const story = await damaged();
    for (const { id } of (await story.list('domains')).slice(0, 2))
      await story.call('DELETE', `${ORGANIZATION}domains/${String(id)}/`);
    const code = await backedUpMeanwhile(story, 'POST');
    const sent = story.writes().length;
    expect(sent).toBe(4);

    const mirror = await toBackup(story);
    expect(unbegunCreations(mirror, 1)).toBe(2);
    const unknown = unknownEnd(1);
    for (const command of [['restores'], ['restores', 'show', '1'], ['status'], ['doctor']]) {
      const said = await story.run(...command);
      expect(said.stdout + said.stderr, command.join(' ')).toMatch(unknown);
      expect(said.stdout + said.stderr).not.toContain('was interrupted');
    }
    const resumed = await story.run('restore', '--resume', '--yes', '--json');
    expect(resumed.code, resumed.stderr).toBe(code);
    expect(resumed.stdout + resumed.stderr).not.toMatch(/somebody changed it|of that name already/);
    const { summary, steps } = JSON.parse(resumed.stdout) as RestoreJson;
    expect(summary).toMatchObject({ failed: 0 });
    // Another step may have begun before the backup too.
    const found = steps.filter(({ outcome, new_id: id }) => outcome === 'skipped' && id !== null);
    expect(found.map(({ verified }) => verified)).toEqual([true, true]);
    expect(story.writes().length, 'nothing is sent again').toBe(sent);
    expect((await story.run('restores')).stderr).not.toMatch(unknown);
    // The new ids are known: the next plan finds every record.
    const plan = await story.run('restore', 'run:1', '--json');
    expect((JSON.parse(plan.stdout) as PlanJson).steps.filter(({ action }) => action === 'create')).toEqual(
      [],
    );
  });

  it('finds a record that it created again after an earlier restore had created it again', async () => {
    const story = await damaged();
    const names = (await story.list('domains')).slice(0, 2).map(({ domain }) => domain);
    const removeDomains = async (): Promise<void> => {
      for (const { id, domain } of await story.list('domains'))
        if (names.includes(domain)) await story.call('DELETE', `${ORGANIZATION}domains/${String(id)}/`);
    };
    await removeDomains();
    await story.run('restore', 'run:1', '--apply', '--yes');
    await removeDomains();
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    const before = story.writes().length;
    const code = await backedUpMeanwhile(story, 'PATCH', 'run:1');
    const sent = story.writes().length;
    expect(sent - before).toBe(3);

    expect(unbegunCreations(await toBackup(story), 2)).toBe(2);
    const resumed = await story.run('restore', '--resume', '--yes', '--json');
    expect(resumed.code, resumed.stdout + resumed.stderr).toBe(code);
    const { summary, steps } = JSON.parse(resumed.stdout) as RestoreJson;
    expect(summary).toMatchObject({ failed: 0 });
    const now = (await story.list('domains')).filter(({ domain }) => names.includes(domain));
    const found = steps.filter(({ outcome }) => outcome === 'skipped').map(({ new_id: id }) => id);
    expect(found.toSorted()).toEqual(now.map(({ id }) => id).toSorted());
    expect(story.writes().length, 'nothing is sent again').toBe(sent);
    const plan = await story.run('restore', 'run:1', '--json');
    expect((JSON.parse(plan.stdout) as PlanJson).steps.filter(({ action }) => action === 'create')).toEqual(
      [],
    );
  });

  it('is called interrupted once it was resumed here', async () => {
    const story = await damaged();
    const others = (await story.list('members')).filter(({ level }) => level === 1).slice(0, 1);
    expect(others).toHaveLength(1);
    const [other] = others as unknown as { readonly user: { readonly uuid: string } }[];
    await story.call('PATCH', `${ORGANIZATION}members/${other?.user.uuid ?? ''}/`, { level: 8 });
    backUpTo(story, 'backups');
    await interrupted(story);
    await story.expectRun(0, 'backup', 'create');
    await toBackup(story);
    const held = gate(story);
    const running = begin(['restore', '--resume', '--yes'], { env: story.env, cwd: story.directory });
    await held.reached;
    running.stop();
    held.open();
    expect((await running.ended).code).toBe(130);
    story.proxy.setRules([]);
    for (const command of [['restores'], ['restores', 'show', '1'], ['status'], ['doctor']]) {
      const said = await story.run(...command);
      expect(said.stdout + said.stderr, command.join(' ')).toContain('interrupted');
      expect(said.stdout + said.stderr, command.join(' ')).not.toMatch(unknownEnd(1));
    }
  });

  it('is not spoken of where a later restore took its place', async () => {
    const story = await damaged();
    await interrupted(story);
    await story.run(...RESTORE);
    backUpTo(story, 'backups');
    await story.expectRun(0, 'backup', 'create');
    await toBackup(story);
    for (const command of [['restores'], ['restores', 'show', '1']]) {
      const { stdout, stderr } = await story.run(...command);
      expect(stdout).toContain('interrupted');
      expect(stderr, command.join(' ')).not.toMatch(/had not ended|--resume/);
    }
  });
});

/** Runs the command with a person at the terminal, who presses these keys when asked. */
async function onTerminal(
  story: Story,
  args: readonly string[],
  keys: string,
  isShown: (text: string) => void = () => undefined,
): Promise<{ readonly code: number; readonly text: string }> {
  const [keyboard, screen] = [new Keyboard(), new Screen(200)];
  onTestFinished(() => void keyboard.destroy());
  let isPressed = false;
  screen.onText = (text) => {
    isShown(text);
    if (isPressed || !text.includes('End it as')) return;
    isPressed = true;
    setImmediate(() => keyboard.write(keys));
  };
  const code = await runCommandLine([...args, '--no-color'], {
    ...{ env: story.env, cwd: story.directory, stdin: keyboard, stdout: screen, stderr: screen },
    ...{ signal: new AbortController().signal, pid: process.pid, execPath: process.execPath, entry: '' },
    ...{ isOneProcess: true, clock: IMPATIENT },
  });
  return { code, text: screen.text };
}
