import { describe, expect, it } from 'vitest';
import { type Body, ORGANIZATION, type PlanJson, Story } from './restore-story.ts';

/** More than a sync removes without being asked. */
const MANY = 12;
const EXPORTS = `${ORGANIZATION}batch_exports/`;
const ONLY = ['--kind', 'batch_exports'];
/** More than are looked up one by one. */
const VERY_MANY = 210;

const named = (count: number): string[] =>
  Array.from({ length: count }, (_each, index) => `Again ${index + 1}`);
const NAMES = named(MANY);

async function createAll(story: Story, names: readonly string[] = NAMES): Promise<void> {
  for (const name of names) await story.createExport(name);
}

async function removeAll(story: Story): Promise<void> {
  for (const name of NAMES) {
    const { id } = await story.named('batch_exports', name);
    await story.call('DELETE', `${EXPORTS}${String(id)}/`);
  }
}

async function namesLive(story: Story): Promise<unknown[]> {
  const all = await story.list('batch_exports');
  return all.map((each) => each['name']).filter((name) => String(name).startsWith('Again '));
}

describe('records that were made again', () => {
  it('by hand, while their removal is held back, are not made a second time', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await createAll(story);
    await story.expectRun(3, 'sync', '--quiet');

    const plan = await story.plan(3, ...ONLY);
    expect(plan.summary).toMatchObject({ create: 0, blocked: MANY });
    const [step] = plan.steps;
    expect(step).toMatchObject({ action: 'blocked' });
    const { id } = await story.named('batch_exports', String(step?.name));
    expect(step?.reason).toContain(`run 3 found it gone, and live has ${String(id)} called`);
    await story.expectRun(3, 'restore', ...ONLY, '--apply', '--yes');
    expect((await namesLive(story)).sort()).toEqual([...NAMES].sort());

    // Both ways out that the plan names.
    // Adopted, and equal but for the time of the pause that created them.
    const before = await story.plan(0, 'run:2', ...ONLY);
    expect(before.summary).toMatchObject({ create: 0, update: 0, blocked: 0 });
    expect(before.left).toMatchObject([{ kind: 'batch_exports', count: MANY }]);
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', String(MANY));
    expect((await story.expectRun(0, 'restore', ...ONLY)).stdout).toContain('nothing to do');
  });

  it('by hand beside what is lost: the lost ones alone come back', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.expectRun(3, 'sync', '--quiet');
    // Held, and without a namesake: lost.
    const { summary } = await story.plan(2, ...ONLY);
    expect(summary).toMatchObject({ create: MANY, blocked: 0 });
  });

  it('by a restore, however many: a second plan is empty, and a comparison whole', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    // Roles have names of their own: before it creates one of a batch export, a restore reads all of them.
    const roles = `${ORGANIZATION}roles/`;
    const only = ['--kind', 'roles'];
    const removeRoles = async (names: readonly string[]): Promise<void> => {
      for (const { id, name } of await story.list('roles'))
        if (names.includes(String(name))) await story.call('DELETE', `${roles}${String(id)}/`);
    };
    for (const name of named(VERY_MANY)) await story.call('POST', roles, { name });
    await story.expectRun(0, 'sync', '--quiet');
    await removeRoles(named(VERY_MANY));
    const report = await story.applied(0, 'restore', 'run:2', ...only, '--apply');
    expect(report.summary.applied).toBe(VERY_MANY);
    const again = await story.expectRun(0, 'restore', 'run:2', ...only);
    expect(again.stdout).toContain('nothing to do');
    expect(again.stdout).not.toContain('not compared');
    await story.expectRun(0, 'diff', 'run:2', 'live', '--managed-only', ...only);
    // What the restore made, and is gone again, is looked for as ever.
    await removeRoles(NAMES);
    expect((await story.plan(2, 'run:2', ...only)).summary).toMatchObject({ create: MANY });
  });

  it('by two restores, one after the other, are one record with one history', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    await story.expectRun(0, 'sync', '--quiet');

    expect((await story.expectRun(0, 'restore', ...ONLY)).stdout).toContain('nothing to do');
    expect((await namesLive(story)).sort()).toEqual([...NAMES].sort());
    const { stdout } = await story.expectRun(0, 'log', 'batch_exports', 'Again 1');
    expect(stdout).toMatch(/created again by restore 1/);
    expect(stdout).toMatch(/created again by restore 2/);
  });

  it('by hand, and found again: recorded as the same by a restore that sends nothing, once', async () => {
    const story = await Story.start();
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'good', 'latest');
    await story.expectRun(0, 'snapshots', 'baseline', 'good');
    const { id: old } = await story.named('batch_exports', 'Again 1');
    await story.call('DELETE', `${EXPORTS}${String(old)}/`);
    await createAll(story, ['Again 1']);
    const { id: now } = await story.named('batch_exports', 'Again 1');
    await story.expectRun(0, 'sync', '--quiet');
    const pair = `batch export Again 1: ${String(old)} → ${String(now)}, found by its name`;
    expect((await story.expectRun(2, 'drift')).stdout).toMatch(/1 record added, 1 removed/);

    const planned = await story.expectRun(0, 'restore', 'baseline', '--out', 'found.json');
    expect(planned.stdout).toMatch(/^nothing to send, 1 new id to record; \d+ unchanged$/m);
    expect(planned.stdout).toContain(pair);
    expect(planned.stderr).toContain('`tidemark apply found.json` records the ids');
    const dry = await story.expectRun(0, 'restore', 'baseline');
    expect(dry.stderr).toContain(
      'nothing would be sent, and --apply records 1 new id: drift lists it as added and removed until `restore --apply` records that it is the same',
    );
    await story.expectRun(2, 'drift');
    expect((await story.run('restore', 'baseline', '--apply')).code).toBe(4);

    const recorded = await story.expectRun(0, 'restore', 'baseline', '--apply', '--yes');
    expect(recorded.stdout).toContain(
      'restore 1 of default: nothing to send; 1 new id recorded: drift no longer lists it as added and removed',
    );
    expect(story.writes()).toEqual([]);
    // The time of the pause that created it is its own.
    const drift = await story.expectRun(2, 'drift');
    expect(drift.stdout).toMatch(/1 record changed \(189 records/);
    expect(drift.stdout).toContain('~ Again 1 changed [low]');
    expect((await story.expectRun(0, 'verify')).stdout).not.toContain('earlier id');
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1');
    expect(stdout).toContain('1 new id recorded');
    expect((await story.expectRun(0, 'audit')).stdout).toMatch(/restore/);
    expect((await story.expectRun(0, 'log', 'batch_exports', 'Again 1')).stdout).toContain(String(old));

    // Known by now: neither a new plan nor the saved one records it again.
    const again = await story.expectRun(0, 'restore', 'baseline', '--apply', '--yes');
    expect(again.stdout).toContain('nothing to do');
    expect(again.stdout).toContain('1 record known from an earlier restore (-v lists it)');
    const whole = await story.expectRun(0, 'restore', 'baseline', '-v');
    expect(whole.stdout).toContain(`${String(old)} → ${String(now)}, known from an earlier restore`);
    expect((await story.expectRun(0, 'apply', 'found.json', '--yes')).stderr).toContain('nothing was sent');
    expect((await story.expectRun(1, 'restore', '--resume')).stderr).toContain('unfinished');
    const kept = await story.expectRun(4, 'undo', '1');
    expect(kept.stderr).toMatch(
      /restore 1 applied nothing: .*\n.*new ids that it only recorded stay recorded/,
    );
  });

  it('by hand, while the removal of the restored one is held back: recorded, the next sync ends its wait', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'good', 'latest');
    await story.expectRun(0, 'snapshots', 'baseline', 'good');
    await removeAll(story);
    await story.applied(0, 'restore', 'baseline', ...ONLY, '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.expectRun(3, 'sync', '--quiet');
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'restore', 'baseline', '--id', 'Again 1', '--out', 'found.json');
    const recorded = await story.expectRun(0, 'apply', 'found.json', '--yes');
    expect(recorded.stdout).toContain('1 new id recorded: drift no longer lists it as added and removed');
    await story.expectRun(3, 'sync', '--quiet');
    const { stdout } = await story.expectRun(3, 'drift');
    expect(stdout).toMatch(/^11 batch exports are missing, their removal is held: .*; 1 record changed \(/m);
    expect(stdout).toContain('~ Again 1 changed [low]');
    expect((await story.expectRun(0, 'apply', 'found.json', '--yes')).stderr).toContain('nothing was sent');
    expect((await story.expectRun(0, 'verify')).stdout).not.toContain('earlier id');
  });

  it('by hand, in a plan that also sends something: no line says that nothing would be sent', async () => {
    const story = await Story.start();
    await createAll(story, ['Again 1', 'Again 2']);
    await story.expectRun(0, 'sync', '--quiet');
    for (const name of ['Again 1', 'Again 2']) {
      const { id } = await story.named('batch_exports', name);
      await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    }
    await createAll(story, ['Again 1']);
    const records = 'applying the plan also records 1 new id: drift lists it as added and removed until then';
    for (const saved of [['--out', 'mixed.json'], []]) {
      const { stdout, stderr } = await story.expectRun(2, 'restore', 'run:2', ...ONLY, ...saved);
      expect(stdout).toMatch(/^1 to create, 1 new id to record/m);
      expect(stderr).toContain(records);
      expect(stderr).not.toContain('nothing would be sent');
      expect(stderr.includes('dry run: apply with --apply')).toBe(saved.length === 0);
    }
  });

  it('by hand: a saved plan records them, unless they are gone again', async () => {
    const story = await Story.start();
    await createAll(story, ['Again 1', 'Again 2']);
    await story.expectRun(0, 'sync', '--quiet');
    const remove = async (name: string): Promise<void> => {
      const { id } = await story.named('batch_exports', name);
      await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    };
    for (const name of ['Again 1', 'Again 2']) await remove(name);
    await createAll(story, ['Again 1', 'Again 2']);
    await story.expectRun(0, 'restore', 'run:2', '--out', 'found.json');
    const { stdout } = await story.expectRun(0, 'apply', 'found.json', '--yes', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ restore: 1, outcome: 'complete', steps: [], continued: 2 });

    await remove('Again 1');
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'restore', 'run:2', '--out', 'lost.json');
    await remove('Again 1');
    const { stderr } = await story.expectRun(6, 'apply', 'lost.json', '--yes');
    expect(stderr).toContain('does not show what the plan found under other ids:\n  batch export Again 1');
    expect((await story.expectRun(0, 'verify')).stdout).not.toContain('earlier id');
  });

  it('by hand beside a step that is blocked: recorded all the same', async () => {
    const story = await Story.start();
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'sync', '--quiet');
    for (const name of ['Again 1', 'Checkout funnel → S3']) {
      const { id } = await story.named('batch_exports', name);
      await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    }
    await createAll(story, ['Again 1']);
    const report = await story.applied(3, 'restore', 'run:2', ...ONLY, '--apply');
    expect(report).toMatchObject({ restore: 1, outcome: 'partial', continued: 1, summary: { blocked: 1 } });
    expect(story.writes()).toEqual([]);
  });
});

describe('a list that does not show what was made again', () => {
  const LIST = new RegExp(`^${EXPORTS}\\?`);
  const isMade = ({ method }: { method: string }): boolean => method === 'POST';

  /** One export that somebody made again by hand, as the newest run has it, and `run:2` has the lost one. */
  async function remade(): Promise<{ story: Story; old: string; now: string }> {
    const story = await Story.start();
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'sync', '--quiet');
    const { id: old } = await story.named('batch_exports', 'Again 1');
    await story.call('DELETE', `${EXPORTS}${String(old)}/`);
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'sync', '--quiet');
    const { id: now } = await story.named('batch_exports', 'Again 1');
    return { story, old: String(old), now: String(now) };
  }

  const without = (hidden: (row: Body) => boolean) => ({
    method: 'GET',
    path: LIST,
    fault: {
      kind: 'rewrite' as const,
      json: (body: unknown) => {
        const page = body as { count: number; results: Body[] };
        const results = page.results.filter((row) => !hidden(row));
        return { ...page, count: page.count - (page.results.length - results.length), results };
      },
    },
  });

  it.each([
    ['any', () => true],
    ['that one alone', (row: Body) => row['name'] === 'Again 1'],
  ])('(%s) leads to no second one: the record of the newest run is asked for', async (_what, hidden) => {
    const { story, old, now } = await remade();
    story.proxy.setRules([without(hidden)]);
    const options = [...ONLY, '--id', old, '--json', '--log-level', 'info'];
    const { stdout, stderr } = await story.expectRun(3, 'restore', 'run:2', ...options);
    const plan = JSON.parse(stdout) as PlanJson;
    expect(plan.summary).toMatchObject({ create: 0 });
    // A line for each time that it is asked, not for each record.
    expect(stderr.match(/"a list that was read completely did not show/g)?.length).toBeLessThanOrEqual(2);
    expect(plan).toMatchObject({ adopted: [{ desired_id: old, live_id: now }] });
    await story.expectRun(3, 'restore', 'run:2', ...ONLY, '--id', old, '--apply', '--yes');
    expect(story.writes().filter(isMade)).toEqual([]);
    expect(await namesLive(story)).toEqual(['Again 1']);
  });

  it('is not believed of the others either: what else is missing is not created', async () => {
    const { story } = await remade();
    await createAll(story, ['Again 2', 'Again 3']);
    await story.expectRun(0, 'sync', '--quiet');
    const { id } = await story.named('batch_exports', 'Again 2');
    await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    story.proxy.setRules([without((row) => row['name'] === 'Again 3')]);
    const plan = await story.plan(3, 'run:4', ...ONLY, '--id', String(id));
    expect(plan.steps).toMatchObject([
      { action: 'blocked', reason: expect.stringContaining('so it is not known to be missing') as string },
    ]);
    story.proxy.setRules([]);
    expect((await story.plan(2, 'run:4', ...ONLY, '--id', String(id))).summary).toMatchObject({ create: 1 });
  });

  it('leads to no second one where it begins to after the plan', async () => {
    const { story, old } = await remade();
    story.proxy.setRules([
      without(({ name }) => name === 'Again 1'),
      {
        method: 'GET',
        path: /\/batch_exports\/[^/?]+\/$/,
        nth: [1, 2],
        fault: { kind: 'answer', status: 404, body: '{}' },
      },
    ]);
    const { stdout } = await story.expectRun(6, 'restore', 'run:2', ...ONLY, '--id', old, '--apply', '--yes');
    expect(stdout).toContain('of that name already');
    expect(story.writes().filter(isMade)).toEqual([]);
    expect(await namesLive(story)).toEqual(['Again 1']);
  });

  it('hides what an earlier restore made: nothing is offered that is refused later', async () => {
    const story = await Story.start();
    await createAll(story, ['Again 1']);
    await story.expectRun(0, 'sync', '--quiet');
    const { id: old } = await story.named('batch_exports', 'Again 1');
    await story.call('DELETE', `${EXPORTS}${String(old)}/`);
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    story.proxy.setRules([without(() => true)]);
    const plan = await story.plan(3, 'run:2', ...ONLY);
    expect(plan.summary).toMatchObject({ create: 0, blocked: 0 });
  });
});
