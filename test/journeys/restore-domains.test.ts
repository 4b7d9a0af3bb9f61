/** A domain that is created again has a new challenge: whoever has to publish it must see which. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const DOMAIN = 'kittiwake.example';
const FORMATS = ['text', 'json', 'markdown', 'html'];
const ABOUT = ['--kind', 'domains'];

interface Reported {
  readonly steps: readonly { readonly outcome: string; readonly reason: string | null }[];
}

async function without(more: Record<string, string> = {}): Promise<Story> {
  const story = await Story.start(more);
  const { id } = await story.named('domains', DOMAIN);
  await story.call('DELETE', `${ORGANIZATION}domains/${String(id)}/`);
  return story;
}

async function challengeOf(story: Story): Promise<string> {
  const challenge = String((await story.named('domains', DOMAIN))['verification_challenge']);
  expect(challenge.length).toBeGreaterThan(10);
  return challenge;
}

describe('the challenge of a domain that was created again', () => {
  it('is in every report of the restore, and in every plan from then on', async () => {
    const story = await without();
    const before = await story.plan(3, ...ABOUT);
    const manual = before.steps.find(({ action }) => action === 'manual');
    expect(manual?.reason).toContain(
      'verification_challenge will be new: the report of the restore shows it',
    );
    const applied = await story.expectRun(3, 'restore', ...ABOUT, '--apply', '--yes', '--quiet');
    const challenge = await challengeOf(story);
    const reason = `publish verification_challenge of the domain in DNS and have it verified (verification_challenge: ${challenge})`;
    expect(applied.stdout).toContain(reason);
    expect((await story.expectRun(0, 'restores', 'show', '1')).stdout).toContain(reason);
    const shown = await story.expectRun(0, 'restores', 'show', '1', '--json');
    const { steps } = JSON.parse(shown.stdout) as Reported;
    expect(steps.map(({ outcome }) => outcome)).toEqual(['applied', 'manual']);
    expect(steps[0]?.reason).toBeNull();
    expect(steps[1]?.reason).toContain(reason);
    for (const format of FORMATS)
      expect((await story.expectRun(3, 'restore', ...ABOUT, '--format', format)).stdout).toContain(challenge);
    await story.expectRun(0, 'sync', '--quiet');
    expect((await story.expectRun(0, 'show', 'domains', DOMAIN)).stdout).toContain(challenge);
  });

  it('comes with a way to get it where the configuration calls it a secret', async () => {
    const definitions = { domains: { fields: { verification_challenge: { secret: true } } } };
    const story = await without({ TIDEMARK_DEFINITIONS: JSON.stringify(definitions) });
    const report = await story.applied(3, 'restore', ...ABOUT, '--apply');
    const challenge = await challengeOf(story);
    const plan = await story.plan(3, 'run:1', ...ABOUT);
    expect(JSON.stringify([report, plan])).not.toContain(challenge);
    const command = `tidemark show domains ${DOMAIN} --show-secrets`;
    expect(plan.steps[0]?.reason).toContain(`\`tidemark sync\`, then \`${command}\``);
    await story.expectRun(0, 'sync', '--quiet');
    expect((await story.expectRun(0, ...command.split(' ').slice(1))).stdout).toContain(challenge);
  });

  it('comes with a way to get it in a runbook, which holds none of the sandbox', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'drill', ...ABOUT, '--runbook', 'runbook.md');
    const runbook = readFileSync(story.file('runbook.md'), 'utf8');
    expect(runbook).toContain(`\`tidemark show domains ${DOMAIN}\``);
    expect(runbook).not.toContain('(verification_challenge');
  });
});

describe('a step that is not sent', () => {
  it('says why in the report of the restore, as in the plan', async () => {
    const story = await without();
    const { id } = await story.named('batch_exports', 'Checkout funnel → S3');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const plan = await story.plan(3);
    const why = plan.steps.find(({ action }) => action === 'blocked')?.reason ?? 'none';
    const { stdout } = await story.expectRun(3, 'restore', '--apply', '--yes', '--quiet');
    expect(stdout).toContain(why);
    const report = JSON.parse(
      (await story.expectRun(0, 'restores', 'show', '1', '--json')).stdout,
    ) as Reported;
    expect(report.steps.filter(({ outcome }) => outcome === 'blocked').map(({ reason }) => reason)).toContain(
      why,
    );
  });
});
