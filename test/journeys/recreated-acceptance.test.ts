/** An acceptance goes on with a record that a restore created again under another id, in both directions. */
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { type Body, ORGANIZATION, Story } from './restore-story.ts';

interface Named {
  readonly kind: string;
  readonly id: string;
  readonly path: string;
  readonly change: string;
}
interface Drifted {
  readonly findings: readonly Named[];
  readonly accepted: readonly (Named & { readonly acceptance: { readonly reason: string } })[];
  readonly withdrawable: readonly Named[];
}
interface Accepted {
  readonly accepted: readonly (Named & { readonly reason: string })[];
}

const EXPORTS = `${ORGANIZATION}batch_exports/`;
const settings: Body = {
  model: 'events',
  interval: 'day',
  paused: true,
  destination: { type: 'NoOp', config: {} },
};

const json = async <T>(story: Story, code: number, ...args: string[]): Promise<T> =>
  JSON.parse((await story.expectRun(code, ...args, '--json')).stdout) as T;
const drift = (story: Story, code = 0): Promise<Drifted> =>
  json(story, code, 'drift', '--kind', 'batch_exports');
const places = (found: readonly Named[]): string[] => found.map(({ id, path }) => `${id} ${path}`.trim());
const idOf = async (story: Story, name: string): Promise<string> =>
  String((await story.named('batch_exports', name))['id']);

/** The export `Loads` as the baseline has it; after that its interval was changed, and that was accepted. */
async function accepted(): Promise<{ story: Story; first: string }> {
  const story = await Story.start();
  const { id } = await story.call('POST', EXPORTS, { name: 'Loads', ...settings });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'agreed', '--baseline');
  await story.call('PATCH', `${EXPORTS}${String(id)}/`, { interval: 'hour' });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', String(id), '--reason', 'hourly is wanted');
  return { story, first: String(id) };
}

/** Somebody deletes it, and a restore of run 3 creates it again; each is seen by a run. */
async function recreated(story: Story, id: string): Promise<string> {
  await story.call('DELETE', `${EXPORTS}${id}/`);
  await story.expectRun(0, 'sync', '--quiet');
  await story.applied(0, 'restore', 'run:3', '--apply', '--kind', 'batch_exports');
  await story.expectRun(0, 'sync', '--quiet');
  return idOf(story, 'Loads');
}

describe('an acceptance of a record that a restore created again', () => {
  it('counts under each id that the record gets, and can be withdrawn by any of them', async () => {
    const { story, first } = await accepted();
    const second = await recreated(story, first);
    expect(second).not.toBe(first);
    const found = await drift(story);
    expect(places(found.findings)).toEqual([]);
    expect(places(found.accepted)).toEqual([`${second} /interval`]);
    expect(found.withdrawable).toEqual([]);
    for (const args of [['--live'], ['--id', second], ['--id', first], ['--field', '/interval']])
      expect(
        places((await json<Drifted>(story, 0, 'drift', '--kind', 'batch_exports', ...args)).accepted),
        args.join(' '),
      ).toEqual([`${second} /interval`]);
    expect((await story.expectRun(0, 'drift', '--kind', 'batch_exports')).stdout).not.toContain(
      'no longer drifts',
    );

    // And again: the restore is undone, and the undo as well.
    await story.applied(0, 'undo', '1', '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    const gone = await drift(story, 2);
    expect(gone.findings.map(({ id, change }) => `${id} ${change}`)).toEqual([`${first} removed`]);
    await story.applied(0, 'undo', '2', '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    const third = await idOf(story, 'Loads');
    expect([first, second]).not.toContain(third);
    expect(places((await drift(story)).accepted)).toEqual([`${third} /interval`]);

    for (const command of [['drift', 'accepted'], ['audit']])
      expect((await story.expectRun(0, ...command)).stdout, command.join(' ')).toContain('Loads');
    // A further change opens it again, and with another value the acceptance does not hold.
    await story.call('PATCH', `${EXPORTS}${third}/`, { interval: 'week' });
    await story.expectRun(0, 'sync', '--quiet');
    expect((await drift(story, 2)).findings).toMatchObject([
      { id: third, path: '/interval', reopened: { because: 'value' } },
    ]);
    // The new acceptance replaces the old one, as of a record that kept its id; the old id names it too.
    await story.expectRun(0, 'drift', 'accept', 'batch_exports', first, '--reason', 'weekly is wanted');
    const list = await json<Accepted>(story, 0, 'drift', 'accepted');
    expect(list.accepted.map(({ id, reason }) => [id, reason])).toEqual([[third, 'weekly is wanted']]);
    await story.call('PATCH', `${EXPORTS}${third}/`, { interval: 'hour' });
    await story.expectRun(0, 'sync', '--quiet');
    expect(places((await drift(story, 2)).findings)).toEqual([`${third} /interval`]);
    await story.expectRun(0, 'drift', 'unaccept', 'batch_exports', second);
    expect((await json<Accepted>(story, 0, 'drift', 'accepted')).accepted).toEqual([]);
    await story.expectRun(0, 'verify');
  });

  it('counts for a record that the baseline has not, as it was accepted', async () => {
    const { story, first } = await accepted();
    const { id: extra } = await story.call('POST', EXPORTS, { name: 'Extra', ...settings });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'drift', 'accept', 'batch_exports', 'Extra', '--reason', 'new');
    await story.call('DELETE', `${EXPORTS}${String(extra)}/`);
    await story.expectRun(0, 'sync', '--quiet');
    await story.applied(0, 'restore', 'run:4', '--apply', '--kind', 'batch_exports');
    await story.expectRun(0, 'sync', '--quiet');
    const again = await idOf(story, 'Extra');
    expect(again).not.toBe(String(extra));
    const found = await drift(story);
    expect(places(found.findings)).toEqual([]);
    expect(places(found.accepted).sort()).toEqual([again, `${first} /interval`].sort());
    expect(found.withdrawable).toEqual([]);
    for (const args of [['--field', '/name'], ['--managed-only']])
      expect(
        places((await json<Drifted>(story, 0, 'drift', '--kind', 'batch_exports', ...args)).findings),
      ).toEqual([]);
    // As accepted: another value of it is not.
    await story.call('PATCH', `${EXPORTS}${again}/`, { paused: false });
    await story.expectRun(0, 'sync', '--quiet');
    expect((await drift(story, 2)).findings).toMatchObject([
      { id: again, change: 'added', reopened: { because: 'value' } },
    ]);
  });

  it('does not count if another program altered it', async () => {
    const { story, first } = await accepted();
    const second = await recreated(story, first);
    const database = new Database(story.file('mirror.db'));
    database.prepare(`UPDATE acceptances SET reason = 'forged'`).run();
    database.close();
    expect((await drift(story, 2)).findings).toMatchObject([
      { id: second, path: '/interval', reopened: { because: 'contradicted' } },
    ]);
  });

  it('is replaced by one that is accepted again after another program deleted it', async () => {
    const { story, first } = await accepted();
    const second = await recreated(story, first);
    const database = new Database(story.file('mirror.db'));
    database.prepare('DELETE FROM acceptances').run();
    database.close();
    expect((await drift(story, 2)).findings).toMatchObject([{ id: second, path: '/interval' }]);
    await story.expectRun(1, 'verify');
    await story.expectRun(0, 'drift', 'accept', 'batch_exports', 'Loads', '--reason', 'hourly is wanted');
    const found = await drift(story);
    expect(places(found.accepted)).toEqual([`${second} /interval`]);
    const list = await json<{ accepted: object[] }>(story, 0, 'drift', 'accepted');
    expect(list.accepted).toMatchObject([{ id: second, contradiction: null }]);
    await story.expectRun(0, 'verify');
    expect((await story.expectRun(0, 'audit')).stdout).toContain('unaccept');
  });
});
