/** What a restore could not compare is told after it was applied, too: exit 3, in every output (invariant 10). */
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';

interface ReportJson {
  readonly restore: number;
  readonly outcome: string;
  readonly skipped?: readonly { readonly kind: string; readonly reason: string }[];
}

const UNREAD = /Roles|roles/;

/** A mirror that never held a role, since their list is denied; two batch exports have changed since. */
async function damaged(): Promise<{ story: Story; change: () => Promise<void> }> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
  const detail = "API key missing required scope 'organization:read'";
  const body = { type: 'authentication_error', code: 'permission_denied', detail, attr: null };
  story.proxy.setRules([{ method: 'GET', path: /\/roles\//, fault: { kind: 'answer', status: 403, body } }]);
  story.env['TIDEMARK_MIRROR'] = 'other.db';
  await story.expectRun(3, 'sync');
  const change = async (): Promise<void> => {
    for (const { id, interval } of (await story.list('batch_exports')).slice(0, 2)) {
      const other = interval === 'day' ? 'hour' : 'day';
      await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(id)}/`, { interval: other });
    }
  };
  await change();
  return { story, change };
}

const KINDS = ['--kind', 'roles', '--kind', 'batch_exports'];

it('ends with 3 after it was applied, as text, as JSON, quiet and from a saved plan', async () => {
  const { story, change } = await damaged();

  const text = await story.expectRun(3, 'restore', ...KINDS, '--apply', '--yes');
  expect(text.stdout).toContain('2 applied and verified');
  expect(text.stdout).toMatch(/not compared, so this may not be everything: .*roles.*denied/i);
  expect(text.stderr).toContain('restore 1 of default is complete, but not everything could be compared');
  expect(text.stderr).toMatch(/not compared: .*roles.*denied/i);

  await change();
  const json = await story.expectRun(3, 'restore', ...KINDS, '--apply', '--yes', '--json');
  const report = JSON.parse(json.stdout) as ReportJson;
  expect(report).toMatchObject({
    restore: 2,
    outcome: 'complete',
    skipped: [{ kind: 'roles' }, { kind: 'roles' }],
  });
  expect(json.stderr).toMatch(UNREAD);

  await change();
  const quiet = await story.expectRun(3, 'restore', ...KINDS, '--apply', '--yes', '--quiet');
  expect(quiet.stderr).toMatch(UNREAD);

  await change();
  await story.expectRun(3, 'restore', ...KINDS, '--out', 'plan.json');
  const saved = await story.expectRun(3, 'apply', 'plan.json', '--yes');
  expect(saved.stderr).toMatch(UNREAD);

  const shown = await story.expectRun(0, 'restores', 'show', '1');
  expect(shown.stdout).toMatch(/not compared, so this may not be everything: .*roles/i);

  story.proxy.setRules([]);
  await change();
  await story.expectRun(0, 'restore', '--kind', 'batch_exports', '--apply', '--yes');
});
