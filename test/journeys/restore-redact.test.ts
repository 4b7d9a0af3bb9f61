import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story, type Body } from './restore-story.ts';

const FIRST = 'clear-secret-of-monday';
const SECOND = 'clear-secret-of-tuesday';
const PASSWORD = 'password-in-a-url';
const POINTER = '/config_schema/auth/api_key';
const URL_POINTER = '/config_schema/dsn';
const DSN = `postgres://reader:${PASSWORD}@db.example/1`;

const settings = (secret: string): Body => ({
  auth: { api_key: secret, has_token: true },
  dsn: DSN,
  batch: 500,
});

/** Everything that lies in the story's directory, as one text. */
function filesOf({ directory }: Story): string {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n');
}

function expectNoSecret(text: string): void {
  for (const secret of [FIRST, SECOND, PASSWORD]) expect(text.includes(secret), secret).toBe(false);
}

/** A component with secrets in clear, which nothing but their names tells of; synced. */
async function withSecret(env: Readonly<Record<string, string>>): Promise<{ story: Story; path: string }> {
  const story = await Story.start(env);
  const [component] = await story.list('pipeline_destinations');
  const path = `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`;
  await story.call('PATCH', path, { config_schema: settings(FIRST) });
  await story.expectRun(0, 'sync', '--quiet');
  return { story, path };
}

describe('redact: true', () => {
  it('keeps secrets out of every file, tells that one changed, and puts back what the configuration gives', async () => {
    const { story, path } = await withSecret({ TIDEMARK_REDACT: 'true' });
    expectNoSecret(filesOf(story));
    await story.expectRun(0, 'verify', '--quiet');
    const exported = (await story.expectRun(0, 'export', '--kind', 'pipeline_destinations')).stdout;
    expectNoSecret(exported);
    expect(exported).toMatch(/"auth":\{"api_key":"\[redacted:[0-9a-f]{16}\]","has_token":true\}/);
    expect(exported).toContain('"batch":500');
    await story.expectRun(0, 'diff', 'latest', 'live');
    expect((await story.plan(0)).steps).toEqual([]);

    await story.call('PATCH', path, { config_schema: settings(SECOND) });
    const diff = await story.expectRun(2, 'diff', 'latest', 'live', '--json');
    expectNoSecret(diff.stdout);
    const { changes } = JSON.parse(diff.stdout) as {
      changes: { kind: string; fields: { path: string }[] }[];
    };
    // The component is in two lists, and one change.
    expect(changes.map(({ kind }) => kind)).toEqual(['pipeline_destinations']);
    for (const { fields } of changes) expect(fields.map(({ path: at }) => at)).toEqual([POINTER]);

    const blocked = await story.plan(3, '--out', 'blocked.json');
    expect(blocked.steps).toMatchObject([{ action: 'blocked' }]);
    expect(blocked.steps[0]?.needs.map(({ any_of: anyOf }) => anyOf)).toEqual([[POINTER], [URL_POINTER]]);

    const values = { [POINTER]: FIRST, [URL_POINTER]: DSN };
    story.env['TIDEMARK_SECRETS'] = JSON.stringify({ pipeline_destinations: [{ values }] });
    await story.expectRun(2, 'restore', '--out', 'plan.json');
    const report = await story.applied(0, 'apply', 'plan.json');
    expect(report.outcome).toBe('complete');
    expect((await story.call('GET', path))['config_schema']).toEqual(settings(FIRST));
    await story.expectRun(0, 'diff', 'latest', 'live');
    await story.expectRun(0, 'sync', '--quiet');
    expectNoSecret(filesOf(story));
  });

  it('switched on and off, is no change of a secret; a secret that was replaced is one', async () => {
    const { story, path } = await withSecret({});
    const expectNone = async (): Promise<void> => {
      await story.expectRun(0, 'diff', 'snapshot:clear', 'latest');
      await story.expectRun(0, 'diff', 'snapshot:clear', 'live');
      await story.expectRun(0, 'drift');
    };
    await story.expectRun(0, 'snapshots', 'pin', 'clear', '--baseline');
    for (const redact of ['true', 'false']) {
      story.env['TIDEMARK_REDACT'] = redact;
      await story.expectRun(0, 'diff', 'latest', 'live');
      const { stdout } = await story.expectRun(0, 'sync', '--json');
      expect(JSON.parse(stdout)).toMatchObject({ runs: [{ changed: 0 }] });
      const held = (await story.expectRun(0, 'export', '--kind', 'pipeline_destinations')).stdout;
      expect(held.includes(FIRST)).toBe(redact === 'false');
      await expectNone();
    }
    // What was read before keeps its values.
    const old = await story.expectRun(
      0,
      'export',
      '--at',
      'snapshot:clear',
      '--kind',
      'pipeline_destinations',
    );
    expect(old.stdout).toContain(FIRST);
    const id = path.split('/').at(-2) ?? '';
    const log = await story.expectRun(0, 'log', 'pipeline_destinations', id, '--json');
    expect(JSON.parse(log.stdout)).toMatchObject({ revisions: [{ run: 2 }, { run: 1 }] });
    const { stdout } = await story.expectRun(0, 'blame', 'pipeline_destinations', id, '--json');
    const { fields } = JSON.parse(stdout) as { fields: { since: { run: number } }[] };
    expect(fields.filter(({ since }) => since.run > 2)).toEqual([]);

    story.env['TIDEMARK_REDACT'] = 'true';
    await story.call('PATCH', path, { config_schema: settings(SECOND) });
    const diff = await story.expectRun(2, 'diff', 'snapshot:clear', 'live', '--json');
    expectNoSecret(diff.stdout);
    expect(JSON.parse(diff.stdout)).toMatchObject({ changes: [{ fields: [{ path: POINTER }] }] });
  });

  it('switched on and off, leaves drift of a secret accepted', async () => {
    const { story, path } = await withSecret({});
    await story.expectRun(0, 'snapshots', 'pin', 'clear', '--baseline');
    await story.call('PATCH', path, { config_schema: settings(SECOND) });
    await story.expectRun(0, 'sync', '--quiet');
    const found = async (
      code: number,
    ): Promise<{ findings: object[]; accepted: { fingerprint: string }[] }> =>
      JSON.parse((await story.expectRun(code, 'drift', '--json')).stdout) as Awaited<
        ReturnType<typeof found>
      >;
    const { findings } = await found(2);
    expect(findings).toMatchObject([{ path: POINTER }]);
    const id = path.split('/').at(-2) ?? '';
    await story.expectRun(0, 'drift', 'accept', 'pipeline_destinations', id, '--reason', 'rotated');
    const { accepted } = await found(0);
    for (const redact of ['true', 'false']) {
      story.env['TIDEMARK_REDACT'] = redact;
      await story.expectRun(0, 'sync', '--full', '--quiet');
      expect((await found(0)).accepted.map(({ fingerprint }) => fingerprint)).toEqual([
        accepted[0]?.fingerprint,
      ]);
    }
  });

  it('tells that the configured secret is not the recorded one, and does not send it for ever', async () => {
    const { story, path } = await withSecret({ TIDEMARK_REDACT: 'true' });
    await story.call('PATCH', path, { config_schema: settings(SECOND) });
    const values = { [POINTER]: 'neither-of-the-two', [URL_POINTER]: DSN };
    story.env['TIDEMARK_SECRETS'] = JSON.stringify({ pipeline_destinations: [{ values }] });
    const first = await story.plan(2);
    expect(first.steps).toMatchObject([{ action: 'update' }]);
    expect(first.steps[0]?.reason).toBe(
      `the secret in the configuration for ${POINTER} differs from the recorded one; the configured one is sent`,
    );
    const shown = await story.expectRun(2, 'restore');
    expect(shown.stdout).toContain('the secret in the configuration for');
    await story.applied(0, 'restore', '--apply');
    const again = await story.plan(0);
    expect(again.steps).toEqual([]);
    expect(again.left).toMatchObject([
      {
        kind: 'pipeline_destinations',
        reason: `live has the secret of the configuration at ${POINTER}, which is not the one that was recorded`,
      },
    ]);
    expectNoSecret(filesOf(story));

    // One that has to be made again says it, too; with the recorded secret there is nothing to say.
    await story.call('DELETE', path);
    expect((await story.plan(2)).steps[0]).toMatchObject({
      action: 'create',
      reason: expect.stringContaining(`${POINTER} differs from the recorded one`) as unknown,
    });
    story.env['TIDEMARK_SECRETS'] = JSON.stringify({
      pipeline_destinations: [{ values: { ...values, [POINTER]: FIRST } }],
    });
    expect((await story.plan(2)).steps[0]).toMatchObject({
      action: 'create',
      reason: 'no request takes url: the service chooses it',
    });
  });
});

describe('secrets that only their names tell of', () => {
  it('stand neither in the plan, nor in its file, nor in the journal, and are put back all the same', async () => {
    const { story, path } = await withSecret({});
    await story.call('PATCH', path, { config_schema: settings(SECOND), description: 'by a careless hand' });
    const printed = await story.expectRun(2, 'restore', '--out', 'plan.json');
    const saved = readFileSync(story.file('plan.json'), 'utf8');
    expectNoSecret(printed.stdout + saved);
    expect(saved).toContain('[secret]');
    await story.expectRun(0, 'apply', 'plan.json', '--yes');
    expect((await story.call('GET', path))['config_schema']).toEqual(settings(FIRST));
    const shown = await story.expectRun(0, 'restores', 'show', '1', '--json');
    expectNoSecret(shown.stdout);
    const { default: Database } = await import('better-sqlite3');
    const mirror = new Database(story.file('mirror.db'), { readonly: true });
    const journal = [
      ...mirror.prepare('SELECT plan FROM restores').all(),
      ...mirror.prepare('SELECT * FROM restore_steps').all(),
    ];
    mirror.close();
    expectNoSecret(JSON.stringify(journal));
    await story.expectRun(0, 'diff', 'latest', 'live');
  });
});
