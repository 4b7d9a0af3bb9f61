/** A member that no documentation tells of, whose name says that it is a secret: masked at any depth, the top included. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const FIELD = 'webhook_secret';

/** The service sends one with the organization from now on. */
function sends(story: Story, value: string): void {
  const withIt = (body: unknown): unknown => {
    const answer = body as { results?: { id: string }[]; id?: string };
    const isMeant = (each: { id?: string }): boolean => ORGANIZATION.includes(each.id ?? 'none');
    const added = <T extends object>(each: T) => ({ ...each, [FIELD]: value, token_count: 41 });
    if (answer.results === undefined) return isMeant(answer) ? added(answer) : answer;
    return { ...answer, results: answer.results.map((each) => (isMeant(each) ? added(each) : each)) };
  };
  const path = /\/organizations\/([0-9a-f-]*\/?)(\?|$)/;
  story.proxy.setRules([{ method: 'GET', path, fault: { kind: 'rewrite', json: withIt } }]);
}

describe('a field called webhook_secret that the catalog does not know', () => {
  it('is masked in every report, and shown where --show-secrets asks for it', async () => {
    const story = await Story.start();
    const values = ['whsec-first-4711', 'whsec-second-4712'];
    for (const value of values) {
      sends(story, value);
      await story.expectRun(0, 'sync', '--kind', 'organizations', '--quiet');
    }
    const organization = 'Kittiwake Analytics';
    const reports: [number, string[]][] = [
      [0, ['show', 'organizations', organization]],
      [0, ['show', 'organizations', organization, '--json']],
      [0, ['log', 'organizations', organization]],
      [0, ['log', 'organizations', organization, '--json']],
      [0, ['blame', 'organizations', organization]],
      [0, ['blame', 'organizations', organization, '--json']],
      [0, ['changes']],
      ...['text', 'json', 'markdown', 'html', 'junit', 'sarif', 'patch'].map((format): [number, string[]] => [
        2,
        ['diff', 'run:2', 'run:3', '--format', format],
      ]),
    ];
    for (const [code, args] of reports) {
      const { stdout, stderr } = await story.expectRun(code, ...args);
      for (const value of values) expect(stdout + stderr, args.join(' ')).not.toContain(value);
      expect(stdout, args.join(' ')).toContain(args[0] === 'changes' ? organization : FIELD);
    }
    const shown = await story.expectRun(0, 'show', 'organizations', organization, '--show-secrets');
    expect(shown.stdout).toContain(values[1]);
    expect(shown.stdout).toContain('token_count: 41');
    const masked = await story.expectRun(0, 'show', 'organizations', organization);
    expect(masked.stdout).toContain('token_count: 41');
  });
});
