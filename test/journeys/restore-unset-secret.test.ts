/** A secret of the configuration whose variable or file is missing: the plan says that, and does not ask for a rule that is there. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const POINTER = '/destination/config/aws_secret_access_key';

/** A story whose S3 export is gone, with these rules in the configuration, lines of YAML. */
async function storyWith(...rules: string[]): Promise<Story> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  const exports = await story.list('batch_exports');
  const s3 = exports.find(({ destination }) => (destination as { type: string }).type === 'S3');
  const { TIDEMARK_BASE_URL: baseUrl, TIDEMARK_API_KEY: apiKey } = story.env;
  for (const name of [
    'BASE_URL',
    'API_KEY',
    'PROFILE',
    'KINDS_EXCLUDE',
    'RETRY_ATTEMPTS',
    'RATE_PER_MINUTE',
    'RATE_PER_HOUR',
  ])
    Reflect.deleteProperty(story.env, `TIDEMARK_${name}`);
  writeFileSync(
    story.file('tidemark.yaml'),
    [
      'sources:',
      `  - { name: default, baseUrl: '${baseUrl}', apiKey: '${apiKey}', profile: posthog, rate: { perMinute: 0, perHour: 0 },`,
      '      kinds: { exclude: [session_recordings, recording_sharing] },',
      `      secrets: { batch_exports: [${rules.join(', ')}] } }`,
    ].join('\n'),
  );
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(s3?.['id'])}/`);
  return story;
}

const ofS3 = (value: string): string =>
  `{ match: { /destination/type: S3 }, values: { ${POINTER}: ${value} } }`;

it('is named by its variable and place, in text and only where the plan needs it', async () => {
  const story = await storyWith(ofS3(`'\${NOT_SET_HERE}'`));
  const { stdout, stderr } = await story.expectRun(3, 'restore', 'run:1');
  const reasons = stdout.replaceAll(/\s+/g, ' ');
  expect(reasons).toContain(
    `${POINTER}: it is under secrets in the configuration, but \${NOT_SET_HERE} is not set`,
  );
  expect(reasons).not.toContain(`${POINTER}: add the value`);
  expect(stdout).not.toContain(`${POINTER}: \${`);
  expect(stderr).toContain('${NOT_SET_HERE} is not set in the environment');
  const other = await story.expectRun(0, 'restore', 'run:1', '--kind', 'domains');
  expect(other.stdout + other.stderr).not.toContain('NOT_SET_HERE');
});

it('is named by its file, in the plan and the runbook, and no later rule takes its place', async () => {
  const story = await storyWith(ofS3('{ file: nonexist.pem }'), `{ values: { ${POINTER}: '\${OF_ALL}' } }`);
  story.env['OF_ALL'] = 'the secret of all others';
  const { stdout } = await story.expectRun(3, 'restore', 'run:1');
  const reasons = stdout.replaceAll(/\s+/g, ' ');
  expect(reasons).toMatch(
    /aws_secret_access_key: it is under secrets in the configuration, but \S+nonexist\.pem does not exist/,
  );
  expect(stdout).not.toContain(`${POINTER}: \${`);
  await story.expectRun(3, 'drill', '--kind', 'batch_exports', '--runbook', 'runbook.md');
  const runbook = readFileSync(story.file('runbook.md'), 'utf8');
  const [, list = ''] = /the configuration already names them:\n([^]+?)\n\w/.exec(runbook) ?? [];
  expect(list).toMatch(/nonexist\.pem does not exist: `\/destination\/config\/aws_secret_access_key`/);
  expect(runbook).not.toContain(`${POINTER}: \${`);
});
