import Database from 'better-sqlite3';
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { LogSync } from '../../src/mirror/write-ahead-log.ts';
import { start } from './harness.ts';
import { type Body, ORGANIZATION, Story, type RestoreJson } from './restore-story.ts';

/** Two settings changed by somebody. */
async function damaged(): Promise<Story> {
  const story = await Story.start();
  const owen = await story.member('Owen');
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
  return story;
}

/** Holds the first request of that method back until `open` is called; `reached` tells that it came. */
function gate(story: Story, method: string): { open: () => void; reached: Promise<void> } {
  const opened = Promise.withResolvers<undefined>();
  const came = Promise.withResolvers<undefined>();
  const fault = { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const;
  story.proxy.setRules([{ method, nth: 1, fault }]);
  return { open: () => opened.resolve(undefined), reached: came.promise };
}

/** Resolves when a process has said that on stderr. */
function said({ stderr }: ChildProcess, words: string): Promise<void> {
  return new Promise((resolve) => {
    let text = '';
    stderr?.on('data', (chunk: string) => {
      text += chunk;
      if (text.includes(words)) resolve();
    });
  });
}

describe('consent', () => {
  it('is needed: without a terminal and without --yes nothing is sent, not even read', async () => {
    const story = await damaged();
    await story.expectRun(2, 'restore', '--out', 'plan.json');
    await story.expectRun(0, 'restore', '--apply', '--yes', '--field', '/enforce_2fa');
    const from = story.proxy.requests.length;
    for (const args of [
      ['restore', '--apply'],
      ['restore', '--apply', '--json'],
      ['apply', 'plan.json'],
      ['undo', '1', '--apply'],
    ]) {
      const { stderr, stdout } = await story.expectRun(4, ...args);
      expect(stderr + stdout).toContain('--yes');
    }
    expect(story.proxy.requests.slice(from)).toEqual([]);
  });

  it('is needed as well for the latest restore, which needs no number', async () => {
    const story = await damaged();
    const none = await story.expectRun(1, 'undo', 'latest');
    expect(none.stderr).toContain('there is no restore yet');
    await story.expectRun(0, 'restore', '--apply', '--yes', '--field', '/enforce_2fa');
    await story.expectRun(0, 'restore', '--apply', '--yes', '--quiet');
    const shown = await story.expectRun(0, 'restores', 'show', 'latest');
    expect(shown.stdout).toContain('restore 2 of default');
    const from = story.writes().length;
    const refused = await story.expectRun(4, 'undo', 'latest', '--apply');
    expect(refused.stderr).toContain('check the plan with `tidemark undo latest`, then give --yes');
    expect(story.writes()).toHaveLength(from);
    const undone = await story.expectRun(0, 'undo', 'latest', '--apply', '--yes');
    expect(undone.stdout).toContain('undo of restore 2: ');
    const resumed = await story.expectRun(1, 'restore', '--resume', 'latest');
    expect(resumed.stderr).toContain('no restore of default is unfinished');
  });

  it('and what makes no sense are refused in words', async () => {
    const story = await Story.start();
    const cases: [string[], string][] = [
      [['restore', 'live'], 'live is the state to restore'],
      [['restore', '2130-01-01'], '2130-01-01 is in the future (2130-01-01 is read as 2130-01-01T00:00:00Z'],
      [['restore', '--yes'], '--yes agrees to what --apply sends'],
      [['apply', 'nofile.json'], 'there is no plan'],
      [['restore', '--max-removals', '3'], '--max-removals limits what --prune removes'],
      [['restore', '--max-share', '2'], 'from 0 to 1'],
      [['restore', '--kind', 'session_recordings'], 'never written'],
      [['restore', '--resume', '--kind', 'roles'], '--resume continues what was approved'],
      [['restore', '--resume', 'x'], 'a restore is a number'],
      [['restore', '--field', 'name'], 'not a JSON pointer'],
      [['restore', '--json', '--format', 'html'], 'exclude each other'],
      [['restore', 'run:99'], 'there is no run 99'],
      [['undo', '7'], 'there is no restore 7'],
      [['restores', 'show', '7'], 'there is no restore 7'],
    ];
    for (const [args, words] of cases) {
      const { stderr, stdout } = await story.expectRun(4, ...args);
      expect(stderr + stdout, args.join(' ')).toContain(words);
    }
  });
});

describe('a saved plan', () => {
  it('is applied as it was shown, once', async () => {
    const story = await damaged();
    const plan = await story.plan(2, '--out', 'plan.json');
    const report = await story.applied(0, 'apply', 'plan.json');
    expect(report).toMatchObject({ outcome: 'complete', summary: { applied: 2 } });
    expect((JSON.parse(readFileSync(story.file('plan.json'), 'utf8')) as { plan: string }).plan).toBe(
      plan.plan,
    );
    const sent = story.writes().map(({ method, path }) => `${method} ${path}`);
    expect(sent.sort()).toEqual(
      plan.steps.map(({ request }) => `${request?.method} ${request?.path}`).sort(),
    );
    await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(story.writes()).toHaveLength(2);
  });

  it('is shown in a line where nobody is asked, and with -v in full; refused, it is saved to be read', async () => {
    const story = await damaged();
    await story.plan(2, '--out', 'plan.json');
    const applied = await story.expectRun(0, 'apply', 'plan.json', '--yes');
    expect(applied.stdout).toMatch(
      /^plan\.json: 2 to \w+; \d+ unchanged \(-v lists the steps\)\n\nrestore 1 of default: 2 applied and verified\n/,
    );
    await story.call('POST', `${ORGANIZATION}domains/`, { domain: 'raffle.example' });
    const refused = await story.expectRun(6, 'restore', 'run:1', '--prune', '--out', 'refused.json');
    expect(refused.stderr).toContain(
      'the plan is refused: saved to refused.json to be read, `tidemark apply` will not send it\n',
    );
    const brief = await story.expectRun(6, 'apply', 'refused.json', '--yes');
    expect(brief.stdout).toMatch(/^refused\.json: 1 to remove; \d+ unchanged \(-v lists the steps\)\n$/);
    expect(brief.stderr).toContain('the plan is refused: 1 record would be removed');
    const full = await story.expectRun(6, 'apply', 'refused.json', '--yes', '-v');
    expect(full.stdout).toContain('remove domain raffle.example');
  });

  it('is refused with what moved since, where it was edited, and where it is none', async () => {
    const story = await damaged();
    await story.plan(2, '--out', 'plan.json');
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: true });
    const { stderr } = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(stderr).toContain('organization Kittiwake Analytics changed: /enforce_2fa: false → true');
    const path = story.file('plan.json');
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace('"level": 1', '"level": 15'));
    const edited = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(edited.stderr).toContain('the plan was edited');
    writeFileSync(path, '{"schema":"tidemark.diff/1"}');
    await story.expectRun(4, 'apply', 'plan.json', '--yes');
    await story.expectRun(4, 'apply', 'nowhere.json', '--yes');
    expect(story.writes()).toEqual([]);
  });

  it('is refused when a secret that it counts on is gone from the configuration', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Checkout funnel → S3');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    story.supplySecrets('s3cr3t');
    await story.plan(2, '--out', 'plan.json');
    delete story.env['TIDEMARK_SECRETS'];
    const { stderr } = await story.expectRun(4, 'apply', 'plan.json', '--yes');
    expect(stderr).toContain('Checkout funnel → S3: /destination/config/aws_secret_access_key');
    expect(story.writes()).toEqual([]);
    story.supplySecrets('s3cr3t');
    await story.applied(0, 'apply', 'plan.json');
  });
});

describe('namesakes', () => {
  /** An export that another desired one shares its name with; the id of the second. */
  async function counterparts(story: Story): Promise<string> {
    const { name, team_id, destination, interval } = await story.named('batch_exports', 'Load test sink');
    const body = { name, team_id, destination, interval, model: 'events', paused: true };
    return String((await story.call('POST', `${ORGANIZATION}batch_exports/`, body))['id']);
  }

  it('are told apart by a saved plan: the one that is there is no reason not to make the other', async () => {
    const story = await Story.start();
    const second = await counterparts(story);
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${second}/`);
    await story.plan(2, '--out', 'plan.json');
    // The service puts it into another project than it was in, which is for a person to mend.
    await story.applied(3, 'apply', 'plan.json');
    expect(await story.plan(3)).toMatchObject({ steps: [{ action: 'manual' }] });
  });

  it('are told apart by undo', async () => {
    const story = await Story.start();
    await counterparts(story);
    const before = (await story.list('batch_exports')).length;
    await story.applied(0, 'restore', '--prune', '--max-removals', '1', '--apply');
    expect(await story.list('batch_exports')).toHaveLength(before - 1);
    await story.applied(3, 'undo', '1', '--apply');
    expect(await story.list('batch_exports')).toHaveLength(before);
  });
});

describe('one writer', () => {
  it('a second restore, a resumed one and a sync leave with a clear line while one is under way, and send nothing', async () => {
    const story = await damaged();
    story.env['TIDEMARK_RATE_CONCURRENCY'] = '1';
    const held = gate(story, 'PATCH');
    const first = story.run('restore', '--apply', '--yes', '--json');
    await held.reached;
    const from = story.writes().length;
    for (const args of [['restore', '--apply', '--yes'], ['restore', '--resume'], ['sync']]) {
      const { stderr } = await story.expectRun(1, ...args);
      expect(stderr).toMatch(/restore/);
    }
    // Looking is free, and tells the living one from one that was left behind.
    const looked = await story.expectRun(2, 'restore');
    expect(looked.stderr).toMatch(/restore 1 of \S+ by \S+@\S+ is running: wait/);
    expect(looked.stderr).not.toContain('--resume');
    expect((await story.expectRun(0, 'restores', 'list')).stdout).toContain('running');
    expect((await story.expectRun(0, 'restores', 'show', '1')).stdout).not.toContain('--resume');
    expect(story.writes().length).toBe(from);
    held.open();
    expect((await first).code).toBe(0);
    await story.expectRun(0, 'diff', 'latest', 'live');
  });

  it('a restore waits while a sync is under way, and sends what is right then', async () => {
    const story = await damaged();
    const held = gate(story, 'GET');
    const syncing = story.run('sync', '--quiet');
    await held.reached;
    const restoring = story.run('restore', 'run:1', '--apply', '--yes');
    await delay(1_000);
    expect(story.writes()).toEqual([]);
    held.open();
    expect((await syncing).code).toBe(0);
    const { code, stderr } = await restoring;
    expect(stderr).toContain('waiting until it is free');
    expect(code, stderr).toBe(0);
    await story.expectRun(0, 'diff', 'run:1', 'live');
  });
});

describe('Ctrl-C', () => {
  it('finishes the step in flight, says how to go on, and --resume does only the rest', async () => {
    const story = await damaged();
    story.env['TIDEMARK_RATE_CONCURRENCY'] = '1';
    const held = gate(story, 'PATCH');
    const begun = ['restore', '--apply', '--yes', '--as', 'Ada'];
    const { child, ended } = start(begun, { env: story.env, cwd: story.directory });
    // A process that ended before it wrote fails here, and not by waiting.
    await Promise.race([held.reached, ended.then(({ stderr }) => expect(stderr).toBe('still running'))]);
    const heard = said(child, 'finishing the steps under way');
    child.kill('SIGINT');
    await Promise.race([heard, ended]);
    held.open();
    const { code, stdout, stderr: warned } = await ended;
    expect((await story.run('status')).stdout).toContain('restore 1 was interrupted');
    expect(code, stdout).toBe(130);
    // Whoever presses it twice hears no more than this.
    expect(warned).toContain(
      'Ctrl-C again to quit at once, and continue later with `tidemark restore --resume 1`',
    );
    expect(stdout).toContain('`tidemark restore --resume 1`');
    expect(story.writes()).toHaveLength(1);
    story.proxy.setRules([]);
    const listed = await story.expectRun(0, 'restores');
    expect(listed.stdout).toContain('interrupted');
    const another = await story.expectRun(2, 'restore');
    expect(another.stderr).toMatch(
      /restore 1 of \S+ by Ada \(\S+@\S+\) is unfinished: `tidemark restore --resume 1` continues it/,
    );

    const resumed = await story.expectRun(0, 'restore', '--resume', '--as', 'Bea', '--json');
    const report = JSON.parse(resumed.stdout) as RestoreJson;
    expect(report).toMatchObject({ restore: 1, outcome: 'complete', summary: { applied: 2 } });
    const whole = await story.expectRun(0, 'restores', 'show', '1');
    expect(whole.stdout).toMatch(/^restore 1 of default by Ada \(\S+@\S+\), resumed by Bea \(\S+@\S+\): /);
    expect((await story.expectRun(0, 'restores')).stdout).toMatch(/ Ada \(\S+@\S+\) /);
    expect(JSON.parse((await story.expectRun(0, 'restores', 'show', '1', '--json')).stdout)).toMatchObject({
      by: 'Ada',
      via: expect.stringMatching(/^\S+@\S+$/) as string,
    });
    expect(story.writes()).toHaveLength(2);
    await story.expectRun(0, 'diff', 'latest', 'live');
    const { stderr } = await story.expectRun(1, 'restore', '--resume');
    expect(stderr).toContain('no restore of default is unfinished');
  });
});

it('an older restore is not unfinished where nothing was left for a later one, as a sync shows', async () => {
  const story = await Story.start();
  const exports = await story.list('batch_exports');
  const [one, other] = exports;
  const at = (record: Body | undefined): string => `${ORGANIZATION}batch_exports/${String(record?.['id'])}/`;
  for (const record of [one, other]) await story.call('PATCH', at(record), { name: 'Damaged' });
  story.proxy.setRules([{ method: 'PATCH', fault: { kind: 'answer', status: 403, body: { detail: 'no' } } }]);
  const kind = ['--kind', 'batch_exports'];
  await story.run('restore', 'run:1', ...kind, '--apply', '--yes');
  story.proxy.setRules([]);
  // Somebody mends one by hand, so that the later plan has only the other.
  await story.call('PATCH', at(one), { name: one?.['name'] });
  await story.expectRun(0, 'restore', 'run:1', ...kind, '--apply', '--yes');
  const listed = await story.expectRun(4, 'restore', '--resume');
  expect(listed.stderr).toMatch(
    /restore 1 of \S+ \(2 steps not applied\) is unfinished, but is not the latest/,
  );
  await story.expectRun(0, 'sync', '--quiet');
  expect((await story.expectRun(1, 'restore', '--resume')).stderr).toContain(
    'no restore of default is unfinished',
  );
  // It is again where the record changes once more.
  await story.call('PATCH', at(one), { name: 'Damaged' });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(4, 'restore', '--resume');
});

describe('a disk that is full in the middle of a restore', () => {
  it('ends with how to continue, as does a new plan, also a refused one', async () => {
    const story = await Story.start();
    for (const name of ['One', 'Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Ten']) {
      const destination = { type: 'NoOp', config: {} };
      const content = { name, model: 'events', interval: 'day', destination };
      await story.call('POST', `${ORGANIZATION}batch_exports/`, content);
    }
    await story.expectRun(0, 'sync', '--quiet');
    for (const { id, destination } of await story.list('batch_exports')) {
      if ((destination as { type: string }).type === 'NoOp')
        await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    }
    const args = ['restore', 'latest', '--kind', 'batch_exports', '--apply', '--yes'];
    let calls = 0;
    const disk = vi.spyOn(LogSync.prototype, 'settled').mockImplementation(() => {
      calls += 1;
      return calls < 3
        ? Promise.resolve()
        : Promise.reject(
            new TidemarkError('disk_full', 'the disk is full', { hint: 'run the command again' }),
          );
    });
    const full = await story.expectRun(1, ...args);
    disk.mockRestore();
    const sent = new Set(story.writes().map(({ body }) => body)).size;
    expect(sent).toBeGreaterThan(0);
    expect(full.stderr).toBe(
      `tidemark: the disk is full\n  → restore 1 is interrupted: ${sent} step${sent === 1 ? ' was' : 's were'} sent; free space, then \`tidemark restore --resume 1\`\n`,
    );
    const first =
      /^tidemark: restore 1 of \S+ by \S+ is unfinished: `tidemark restore --resume 1` continues it\n/;
    const dry = await story.run(...args.slice(0, 4));
    expect(dry.stderr).toMatch(first);
    const refused = await story.expectRun(6, ...args, '--max-share', '0.001', '--prune');
    expect(refused.stderr).toMatch(/the plan is refused(.*\n)+.*nothing was sent\n/);
    expect(refused.stderr).toMatch(first);
    await story.run('restore', '--resume', '1');
    const names = (await story.list('batch_exports')).map(({ name }) => name);
    for (const name of ['One', 'Ten']) expect(names.filter((each) => each === name)).toHaveLength(1);
  });
});

describe('undo', () => {
  it('shows, then puts back what the restore overwrote, but not what was changed since', async () => {
    const story = await damaged();
    await story.applied(0, 'restore', '--apply');
    const shown = await story.expectRun(2, 'undo', '1');
    expect(shown.stdout).toContain('/enforce_2fa true → false');
    expect(story.writes()).toHaveLength(2);
    const owen = await story.member('Owen');
    await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 15 });
    const blocked = await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    expect(blocked.stdout).toContain('owen.prysjones@kittiwake.example');
    expect(await story.call('GET', ORGANIZATION)).toMatchObject({ enforce_2fa: false });
    expect((await story.member('Owen'))['level']).toBe(15);
    const unknown = await story.expectRun(3, 'undo', '1', '--force-changed');
    expect(unknown.stdout).toContain('restore.ownUser: `restore: { ownUser: ADDRESS }` in the source');
    const owner = (await story.list('members')).find(
      ({ level, user }) => level === 15 && (user as { uuid: string }).uuid !== owen.id,
    );
    story.env['TIDEMARK_RESTORE_OWN_USER'] = (owner!['user'] as { email: string }).email;
    await story.applied(0, 'undo', '1', '--force-changed', '--apply');
    expect((await story.member('Owen'))['level']).toBe(8);

    const { stdout } = await story.expectRun(0, 'restores', '--json');
    const { restores } = JSON.parse(stdout) as { restores: { restore: number; undoes: number | null }[] };
    expect(restores.map(({ restore, undoes }) => [restore, undoes])).toEqual([
      [3, 1],
      [2, 1],
      [1, null],
    ]);
    const steps = await story.expectRun(0, 'restores', 'show', '1', '--json');
    expect(JSON.parse(steps.stdout)).toMatchObject({
      schema: 'tidemark.restore/1',
      restore: 1,
      outcome: 'complete',
    });
  });

  it('of a creation removes what was created, and nothing else', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Load test sink');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    await story.applied(3, 'restore', '--apply');
    const count = (await story.list('batch_exports')).length;
    await story.applied(0, 'undo', '1', '--apply');
    expect((await story.list('batch_exports')).length).toBe(count - 1);
    await expect(story.named('batch_exports', 'Load test sink')).rejects.toThrow();
  });

  it('takes back a component that two lists show', async () => {
    const story = await Story.start();
    const [lost] = await story.list('pipeline_destinations');
    const name = String(lost?.['name']);
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(lost?.['id'])}/`);
    await story.applied(3, 'restore', '--kind', 'pipeline_destinations', '--apply');
    expect((await story.named('plugins', name))['id']).toBe(
      (await story.named('pipeline_destinations', name))['id'],
    );
    const shown = await story.expectRun(2, 'undo', '1');
    expect(shown.stdout).toContain(name);
    expect(shown.stderr).not.toContain('--out');
    await story.applied(0, 'undo', '1', '--apply');
    await expect(story.named('pipeline_destinations', name)).rejects.toThrow();
    await expect(story.named('plugins', name)).rejects.toThrow();
  });

  it.each([
    ['an answer under way', 'rewrite'],
    ['a request that never arrives', 'gate'],
  ] as const)('that is killed with %s, and gone on with, makes everything once', async (_what, kind) => {
    const story = await Story.start();
    const { name, team_id, destination, interval } = await story.named('batch_exports', 'Load test sink');
    const body = { name, team_id, destination, interval, model: 'events', paused: true };
    const path = `${ORGANIZATION}batch_exports/`;
    // Three of that name: two are removed and come back, the third stood there all the time.
    await story.call('POST', path, body);
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('POST', path, body);
    await story.call('POST', path, body);
    const before = (await story.list('batch_exports')).length;
    await story.applied(0, 'restore', '--prune', '--max-removals', '2', '--apply');
    expect(await story.list('batch_exports')).toHaveLength(before - 2);
    let child: ChildProcess | null = null;
    const kill = (given: unknown): unknown => {
      child?.kill('SIGKILL');
      return given;
    };
    const never = new Promise<void>(() => undefined);
    const fault =
      kind === 'gate'
        ? ({ kind, until: never, reached: () => void kill(null) } as const)
        : ({ kind, json: kill } as const);
    story.proxy.setRules([{ method: 'POST', fault }]);
    const undoing = start(['undo', '1', '--apply', '--yes'], { env: story.env, cwd: story.directory });
    child = undoing.child;
    expect((await undoing.ended).code).toBeNull();
    story.proxy.setRules([]);
    const status = await story.run('status');
    expect(status.stdout).toMatch(
      /Needs attention:\n(.*\n)* {2}\S+: restore 2 was interrupted, .*\n {4}→ `tidemark restores show 2` lists what was done; `tidemark restore --resume 2` continues it; `tidemark undo 2` takes back what it did; `tidemark restore --abandon 2` leaves it as it is\n/,
    );
    const doctor = await story.run('doctor', '--json');
    expect(JSON.parse(doctor.stdout)).toMatchObject({
      problems: expect.arrayContaining([
        expect.objectContaining({
          code: 'restore_interrupted',
          next: expect.stringContaining('`tidemark restore --resume 2` continues it') as string,
        }),
      ]) as unknown,
    });
    const made = (await story.list('batch_exports')).length - (before - 2);
    expect(made > 0).toBe(kind === 'rewrite');
    const { code } = await story.run('restore', '--resume', '--json');
    // What was sent again may be there twice yet: a request that was given up is done late now and then.
    expect(kind === 'gate' ? [3] : [0, 3]).toContain(code);
    expect(await story.list('batch_exports')).toHaveLength(before);
  });
});

describe('--resume', () => {
  it('with a key that is refused ends with 5, sends nothing, and continues with the right key', async () => {
    const story = await damaged();
    story.proxy.setRules([
      { method: 'PATCH', path: /members/, fault: { kind: 'answer', status: 400, body: { detail: 'no' } } },
    ]);
    await story.expectRun(3, 'restore', '--apply', '--yes');
    const refused = { kind: 'answer', status: 401, body: { detail: 'Invalid API key.' } } as const;
    story.proxy.setRules([{ fault: refused }]);
    const from = story.writes().length;
    const { stdout, stderr } = await story.expectRun(5, 'restore', '--resume');
    expect(stdout + stderr).toMatch(/the key was refused \(401\)/);
    expect(story.writes()).toHaveLength(from);
    story.proxy.setRules([]);
    await story.expectRun(0, 'restore', '--resume');
    await story.expectRun(0, 'diff', 'latest', 'live');
  });
});

describe('--resume without a number', () => {
  it('names the command that says what is to check where the last restore has ended', async () => {
    const story = await damaged();
    await story.expectRun(0, 'restore', '--apply', '--yes');
    const mirror = new Database(story.env['TIDEMARK_MIRROR'] ?? '');
    // As a step that could not be read back leaves it.
    mirror.exec('UPDATE restore_steps SET verified = NULL WHERE step = 1');
    mirror.close();
    const { stderr } = await story.expectRun(1, 'restore', '--resume');
    expect(stderr).toContain('restore 1 has ended with 1 to check: `tidemark restores show 1` says what');
  });

  it('reports what it did itself, and continues none that was undone', async () => {
    const story = await damaged();
    story.proxy.setRules([
      {
        method: 'PATCH',
        path: /members/,
        fault: { kind: 'answer', status: 400, body: { detail: 'no' } },
      },
    ]);
    await story.expectRun(3, 'restore', '--apply', '--yes');
    const again = await story.expectRun(3, 'restore', '--resume');
    expect(again.stdout).toContain('1 failed; 1 applied before');
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    story.proxy.setRules([]);
    const from = story.writes().length;
    const bare = await story.expectRun(1, 'restore', '--resume');
    expect(bare.stderr).toContain('no restore of default is unfinished');
    const named = await story.expectRun(4, 'restore', '--resume', '1');
    expect(named.stderr).toContain('restore 1 was undone by restore 2: it is not continued');
    expect(story.writes()).toHaveLength(from);
    expect((await story.expectRun(0, 'restores', 'show', '1')).stdout).not.toContain('--resume');
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ undone_by: 2 });
  });
});
