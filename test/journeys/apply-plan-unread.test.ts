/** A saved plan where live cannot be looked at: the command says that, not that live has moved. */
import { describe, expect, it } from 'vitest';
import { KEY, startSandbox } from '../server/running-sandbox.ts';
import { ORGANIZATION, Story, type Body } from './restore-story.ts';

interface ErrorJson {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly exit_code: number;
}

const NOWHERE = 'http://127.0.0.1:1'; // no service has port 1
const plans = ['an update', 'a creation'] as const;

/** Saves a plan that begins with that as `plan.json`. */
async function planned(what: (typeof plans)[number]): Promise<Story> {
  const story = await Story.start();
  if (what === 'an update') await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  else {
    // One that needs no secret.
    const exports = await story.list('batch_exports');
    const bare = exports.find(({ destination }) => (destination as Body)['type'] === 'NoOp');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(bare?.['id'])}/`);
  }
  const { steps } = await story.plan(2, '--out', 'plan.json');
  expect(steps[0]?.action).toBe(what === 'an update' ? 'update' : 'create');
  expect(steps.slice(1).every(({ action }) => action === 'act')).toBe(true);
  return story;
}

async function refusal(story: Story, code: number): Promise<ErrorJson> {
  const { stdout } = await story.expectRun(code, 'apply', 'plan.json', '--yes', '--json');
  const error = JSON.parse(stdout) as ErrorJson;
  expect(error.exit_code).toBe(code);
  expect(error.hint).toContain('nothing was sent');
  expect(story.writes()).toEqual([]);
  const listed = await story.expectRun(0, 'restores', 'list', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject({ restores: [] });
  return error;
}

describe.each(plans)('a saved plan of %s', (what) => {
  it('ends as unauthorized with a refused key, and is still good with the right one', async () => {
    const story = await planned(what);
    const key = story.env['TIDEMARK_API_KEY'] ?? '';
    story.env['TIDEMARK_API_KEY'] = 'wrong';
    const error = await refusal(story, 5);
    expect(error.code).toBe('unauthorized');
    expect(error.message).toContain('the key was refused (401)');
    expect(error.message).not.toContain('moved');
    expect(error.hint).toContain('apiKey');
    story.env['TIDEMARK_API_KEY'] = key;
    // The service creates the export in another project, which a person has to know.
    await story.applied(what === 'a creation' ? 3 : 0, 'apply', 'plan.json');
  });

  it('ends as unreachable where nothing answers', async () => {
    const story = await planned(what);
    story.env['TIDEMARK_BASE_URL'] = NOWHERE;
    const error = await refusal(story, 1);
    expect(error.code).toBe('unreachable');
    expect(error.message).toContain('the connection was refused');
    expect(error.hint).toContain('baseUrl');
  });
});

it('a saved plan of creations is refused by a service that has none of its organizations', async () => {
  const story = await planned('a creation');
  const empty = await startSandbox();
  story.env['TIDEMARK_BASE_URL'] = empty.url;
  story.env['TIDEMARK_API_KEY'] = KEY;
  const error = await refusal(story, 6);
  expect(error.code).toBe('unsafe_plan');
  expect(error.message).toContain('it seems to be a different account');
});

describe('a saved plan of which a record cannot be looked at', () => {
  const members = `${ORGANIZATION}members/`;

  async function twoSteps(): Promise<Story> {
    const story = await Story.start();
    const owen = await story.member('Owen');
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    await story.call('PATCH', `${members}${owen.id}/`, { level: 8 });
    await story.plan(2, '--out', 'plan.json');
    return story;
  }

  it.each([
    { status: 403, exit: 5, code: 'forbidden' },
    { status: 503, exit: 1, code: 'server_error' },
  ])('ends with $code for $status, naming the step', async ({ status, exit, code }) => {
    const story = await twoSteps();
    story.proxy.setRules([{ path: /\/members\//, fault: { kind: 'answer', status } }]);
    const error = await refusal(story, exit);
    expect(error.code).toBe(code);
    expect(error.message).toMatch(new RegExp(`step \\d: member owen.* could not be read: .*${status}`));
    expect(error.message).not.toContain('moved');
  });

  it('tells what moved with 6, and what could not be read beside it', async () => {
    const story = await twoSteps();
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: true });
    story.proxy.setRules([{ path: /\/members\//, fault: { kind: 'answer', status: 403 } }]);
    const error = await refusal(story, 6);
    expect(error.code).toBe('unsafe_plan');
    expect(error.message).toContain('the service has changed since the plan was made, which affects 1 step:');
    expect(error.message).toContain('/enforce_2fa');
    expect(error.message).toMatch(/member owen.* could not be read: .*403/);
  });

  it('still says that live has moved where it was read whole', async () => {
    const story = await planned('an update');
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: true });
    const error = await refusal(story, 6);
    expect(error.message).toContain('the service has changed since the plan was made, which affects 1 step:');
    expect(error.message).not.toContain('could not be read');
  });
});
