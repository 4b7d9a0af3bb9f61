/** `undo` of a restore that was killed with requests under way: what they did is looked up, and nothing else is sent. */
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { start } from './harness.ts';
import { type Body, killedInside, ORGANIZATION, type RestoreJson, Story } from './restore-story.ts';

/** What the machine may take. */
const POLL = { timeout: 60_000 };
const EXPORTS = `${ORGANIZATION}batch_exports/`;

/** Five exports less than run 1 has, and a member with another level. */
async function damaged(): Promise<Story> {
  const story = await Story.start();
  await damage(story);
  return story;
}

async function damage(story: Story): Promise<void> {
  story.supplySecrets('s');
  const owen = await story.member('Owen');
  await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
  // Where the service creates them again: one of another project is left paused.
  const own = (await story.list('batch_exports')).filter((each) => each['team_id'] === 1);
  for (const { id } of own.slice(0, 5)) await story.call('DELETE', `${EXPORTS}${String(id)}/`);
}

/**
 * Kills restore 1 of the damaged story while its first creation is answered and three requests are under way: those of
 * `arrives` reach the service after the kill, the others never do.
 */
async function killed(story: Story, arrives: readonly number[]): Promise<void> {
  story.env['TIDEMARK_RATE_CONCURRENCY'] = '3';
  const command = ['restore', 'run:1', '--kind', 'batch_exports', '--kind', 'members'];
  const list = { method: 'GET', path: /batch_exports\/(?:\?|$)/ };
  const readings = (): number =>
    story.proxy.requests.filter(({ method, path }) => method === list.method && list.path.test(path)).length;
  const before = readings();
  await story.run(...command);
  const planned = readings() - before;
  const gates = [2, 3, 4].map((nth) => ({
    nth,
    opened: Promise.withResolvers<undefined>(),
    came: Promise.withResolvers<undefined>(),
  }));
  const changed = Promise.withResolvers<undefined>();
  story.proxy.setRules([
    // The list is read once more before the first creation. This waits for the change of the member: afterwards, the requests
    // under way leave no slot for it.
    { ...list, nth: planned + 1, fault: { kind: 'gate', until: changed.promise } },
    ...gates.map(({ nth, opened, came }) => ({
      ...{ method: 'POST', path: /batch_exports\/$/, nth },
      fault: { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const,
    })),
  ]);
  const exports = async (): Promise<number> => (await story.list('batch_exports')).length;
  const count = await exports();
  const { child, ended } = start([...command, '--apply', '--yes'], { env: story.env, cwd: story.directory });
  const failed = ended.then(({ stderr }) => expect(stderr).toBe('still running'));
  // The answer to the change is in the journal: of one without an answer, undo leaves what it may have done.
  const isApplied = expect.poll(() => memberOutcome(story), POLL).toBe('applied');
  await Promise.race([isApplied, failed]);
  changed.resolve(undefined);
  await Promise.race([Promise.all(gates.map(({ came }) => came.promise)), failed]);
  child.kill('SIGKILL');
  expect((await ended).code).toBe(null);
  story.proxy.setRules([]);
  for (const { nth, opened } of gates) if (arrives.includes(nth)) opened.resolve(undefined);
  await expect.poll(exports, POLL).toBe(count + 1 + arrives.length);
}

/** Everything of the service that the restore may touch, without what changes by itself. */
async function held(story: Story): Promise<{ exports: Body[]; members: Body[] }> {
  const members = (await story.list('members')).map((each) => ({ ...each, updated_at: null }));
  return { exports: await story.list('batch_exports'), members };
}

function ids(records: readonly Body[]): unknown[] {
  return records.map(({ id }) => id).sort();
}

/** In the journal, read as it is: a command would compete with the restore. */
function memberOutcome(story: Story): unknown {
  const mirror = new Database(story.file('mirror.db'), { readonly: true });
  try {
    return mirror
      .prepare(
        `SELECT s.outcome FROM restores r, json_each(r.plan, '$.steps') planned
         JOIN restore_steps s ON s.restore = r.restore AND s.step = planned.value ->> 'n'
         WHERE planned.value ->> 'kind' = 'members'`,
      )
      .pluck()
      .get();
  } finally {
    mirror.close();
  }
}

async function outcomes(story: Story): Promise<string[]> {
  const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
  return (JSON.parse(stdout) as RestoreJson).steps.map(({ outcome }) => outcome).sort();
}

/** What the restore is said to have created is there under the ids that it names. */
async function expectIdsOfNow(story: Story, kind: string): Promise<void> {
  const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
  const { steps } = JSON.parse(stdout) as { steps: { kind: string; new_id: string | null }[] };
  const named = steps.flatMap((step) => (step.kind === kind && step.new_id !== null ? [step.new_id] : []));
  expect(named.length).toBeGreaterThan(1);
  expect(ids(await story.list(kind))).toEqual(expect.arrayContaining(named));
}

async function actions(story: Story): Promise<string[]> {
  const { stdout } = await story.expectRun(0, 'audit', '--json');
  return (JSON.parse(stdout) as { entries: { action: string }[] }).entries.map(({ action }) => action);
}

describe('undo of a restore that was killed with requests under way', () => {
  it('takes back what they did, and sends nothing of its rest', async () => {
    const story = await damaged();
    const before = await held(story);
    await killed(story, [2, 4]);
    const { stdout: abandoned } = await story.expectRun(0, 'restore', '--abandon', '--yes');
    expect(abandoned).toContain('to undo it: `tidemark undo 1`');
    const from = story.writes().length;
    const journal = await outcomes(story);

    // A dry run records nothing.
    const dry = await story.expectRun(2, 'undo', '1');
    expect(dry.stderr).toContain('had an effect');
    expect(dry.stdout).toContain('3 to remove');
    // Of the three, the kill left one an answer at most: the others may be somebody else's.
    const found = 'found by a look-up: its creation had no answer';
    const named =
      dry.stderr.match(/step \d+ \(create batch export .+\): found by a look-up: .+: [0-9a-f-]{36}/g) ?? [];
    expect([2, 3]).toContain(named.length);
    expect(dry.stdout.split(found)).toHaveLength(named.length + 1);
    expect(await outcomes(story)).toEqual(journal);
    expect(await actions(story)).toEqual(['abandon', 'end', 'restore']);
    expect(story.writes()).toHaveLength(from);

    await story.expectRun(0, 'undo', '1', '--apply', '--yes', '--as', 'Bea');
    const sent = story.writes().slice(from);
    expect(sent.map(({ method }) => method).filter((method) => method !== 'PATCH')).toEqual(
      Array.from({ length: 3 }, () => 'DELETE'),
    );
    expect(await held(story)).toEqual(before);
    expect((await outcomes(story)).filter((outcome) => outcome === 'sent')).toEqual([]);
    expect(await actions(story)).toEqual(['end', 'undo', 'look_up', 'abandon', 'end', 'restore']);
    const { stdout } = await story.expectRun(0, 'audit', '--action', 'look_up');
    expect(stdout).toMatch(/Bea .*look_up.*restore 1/);
    await story.expectRun(0, 'verify');
    // It stays abandoned: only its number continues it.
    await story.expectRun(1, 'restore', '--resume');
    const again = await story.expectRun(0, 'undo', '1');
    expect(again.stdout).toContain('nothing to do');
  });

  it('that was undone itself lets the restore continue, with the new ids of what is there again', async () => {
    const story = await Story.start();
    const original = await story.list('batch_exports');
    await damage(story);
    const before = await held(story);
    await killed(story, [2, 4]);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    await story.expectRun(0, 'undo', '2', '--apply', '--yes');
    const resumed = await story.run('restore', '--resume', '1');
    expect(resumed.stdout).not.toContain('is gone');
    const now = await story.list('batch_exports');
    const shown = (records: readonly Body[]): unknown[] =>
      records.map(({ name, paused }) => `${String(name)} ${String(paused)}`).sort();
    expect(shown(now)).toEqual(shown(original));
    expect([0, 3]).toContain(resumed.code);
    await expectIdsOfNow(story, 'batch_exports');
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(ids(await story.list('batch_exports'))).toEqual(ids(before.exports));
    const last = await story.expectRun(0, 'undo', '1');
    expect(last.stdout).toContain('nothing to do');
  });

  it('that was undone itself, and continued: an undo takes back what was created in what is there again', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    const original = await story.list('roles');
    for (const { id } of original.slice(0, 2))
      await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    const before = ids(await story.list('roles'));
    await killedInside(story, ['roles', 'role_memberships'], {
      ...{ method: 'POST', path: /role_memberships/, nth: 2 },
    });
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    await story.expectRun(0, 'undo', '2', '--apply', '--yes');
    const resumed = await story.run('restore', '--resume', '1');
    expect([0, 3]).toContain(resumed.code);
    await expectIdsOfNow(story, 'roles');
    expect(await story.list('roles')).toHaveLength(original.length);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(ids(await story.list('roles'))).toEqual(before);
  });

  it('that was undone itself, and continued: what somebody changed after that is still kept', async () => {
    const story = await Story.start();
    await damage(story);
    const before = await held(story);
    await killed(story, [2, 4]);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    await story.expectRun(0, 'undo', '2', '--apply', '--yes');
    await story.run('restore', '--resume', '1');
    const known = ids(before.exports);
    const [one] = (await story.list('batch_exports')).filter(({ id }) => !known.includes(id));
    await story.call('PATCH', `${EXPORTS}${String(one?.['id'])}/`, { name: 'of a colleague' });
    const plan = await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    expect(plan.stdout).toContain('it was changed since restore 1; add --force-changed');
    expect(ids(await story.list('batch_exports'))).toEqual([...known, one?.['id']].sort());
  });

  it('of one that nobody abandoned does the same; it stays interrupted until the undo came after it', async () => {
    const story = await damaged();
    const before = await held(story);
    await killed(story, []);
    expect((await story.run('status')).stdout).toContain('interrupted');
    expect((await story.expectRun(2, 'undo', '1')).stdout).toContain('1 to remove');
    expect((await story.run('status')).stdout).toContain('interrupted');
    expect((await story.expectRun(0, 'restores')).stdout).toMatch(/ interrupted, \d to check /);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(await held(story)).toEqual(before);
    expect((await story.run('status')).stdout).not.toContain('interrupted');
    expect((await story.expectRun(0, 'restores')).stdout).toMatch(/ interrupted \(undone\) /);
    const listed = JSON.parse((await story.expectRun(0, 'restores', '--json')).stdout) as object;
    expect(listed).toMatchObject({ restores: [{ to_check: 0 }, { restore: 1, to_check: 0 }] });
    await story.expectRun(0, 'verify');
  });

  it('leaves what a later restore created, and goes on', async () => {
    const story = await damaged();
    const before = await held(story);
    await killed(story, []);
    await story.expectRun(0, 'restore', '--abandon', '--yes');
    const own = ids((await held(story)).exports);
    const kinds = ['--kind', 'batch_exports', '--kind', 'members'];
    const { summary } = await story.applied(0, 'restore', 'run:1', ...kinds, '--apply');
    expect(summary).toMatchObject({ failed: 0 });
    const later = ids(await story.list('batch_exports')).filter((id) => !own.includes(id));
    expect(later).toHaveLength(4);

    // Restore 2 may have unpaused what restore 1 had created.
    const undo = ['undo', '1', '--force-changed'];
    const dry = await story.expectRun(2, ...undo);
    expect(dry.stderr).not.toContain('found by a look-up');
    expect(dry.stdout).toContain('1 to remove');
    await story.expectRun(0, ...undo, '--apply', '--yes');
    const left = await held(story);
    expect(ids(left.exports)).toEqual([...ids(before.exports), ...later].sort());
    expect(left.members).toEqual(before.members);
    // They are restore 2's; what else that changed is gone with what restore 1 had created.
    await story.run('undo', '2', '--apply', '--yes');
    expect(await held(story)).toEqual(before);
    await story.expectRun(0, 'verify');
  });

  it('is refused where what a request did cannot be found out, and takes nothing back', async () => {
    const story = await Story.start();
    const original = await story.list('batch_exports');
    await damage(story);
    const before = await held(story);
    await killed(story, [2]);
    await story.expectRun(0, 'restore', '--abandon', '--yes');
    const there = await held(story);
    const from = story.writes().length;
    const down = { kind: 'answer', status: 503 } as const;
    story.proxy.setRules([{ method: 'GET', path: /batch_exports/, fault: down }]);
    const away = await story.expectRun(4, 'undo', '1', '--apply', '--yes');
    expect(away.stderr).toMatch(
      /what restore 1 did is not fully known: step \d+ \(create batch export .*\): .*503/,
    );
    expect(story.writes()).toHaveLength(from);
    story.proxy.setRules([]);
    await story.expectRun(0, 'verify');
    await story.expectRun(2, 'undo', '1');

    // Somebody creates one by hand that never arrived: undoing the restore must not remove it.
    const names = there.exports.map(({ name }) => name);
    const { name, model, interval, destination } =
      original.find((each) => !names.includes(each['name']) && each['paused'] === false) ?? {};
    const made = await story.call('POST', EXPORTS, { name, model, interval, destination, paused: true });
    const lookedUp = story.writes().length;
    const named = await story.expectRun(4, 'undo', '1', '--apply', '--yes');
    expect(named.stderr).toContain(
      `there is a batch export of that name already: ${String(made['id'])}, which is not as sent`,
    );
    expect(story.writes()).toHaveLength(lookedUp);
    await story.call('PATCH', `${EXPORTS}${String(made['id'])}/`, { name: 'of somebody else' });
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(ids(await story.list('batch_exports'))).toEqual([...ids(before.exports), made['id']].sort());
    await story.expectRun(0, 'verify');
  });
});
