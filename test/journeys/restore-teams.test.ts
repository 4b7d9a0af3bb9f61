/** An organization shows its projects: one that a restore created again is still the same one there. */
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

interface DiffJson {
  readonly changes: readonly { kind: string; fields: { path: string }[] }[];
}

it('a project that came back is no other project of its organization', async () => {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  const project = await story.call('POST', `${ORGANIZATION}projects/`, { name: 'Lost and found' });
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'good');
  await story.expectRun(0, 'snapshots', 'baseline', 'good');
  const pathsOf = async (code: number): Promise<string[]> => {
    const { stdout } = await story.expectRun(
      code,
      'diff',
      'baseline',
      'latest',
      '--kind',
      'organizations',
      '--json',
    );
    return (JSON.parse(stdout) as DiffJson).changes.flatMap(({ fields }) => fields.map(({ path }) => path));
  };
  await story.call('DELETE', `${ORGANIZATION}projects/${String(project['id'])}/`);
  await story.expectRun(0, 'sync', '--accept-removals', '100', '--quiet');
  expect(await pathsOf(2)).toEqual([expect.stringMatching(/^\/teams\/\d+$/)]);

  await story.applied(3, 'restore', 'baseline', '--apply', '--kind', 'projects');
  await story.expectRun(0, 'sync', '--quiet');
  const again = await story.named('projects', 'Lost and found');
  expect(again['id']).not.toBe(project['id']);
  // The same project, neither gone nor new: what the service gave it again is reported, as at the project itself.
  expect((await pathsOf(2)).map((path) => path.replace(/\d+/, 'N'))).toEqual([
    '/teams/N/api_token',
    '/teams/N/uuid',
  ]);
});
