/** What an operator reads where a restore cannot do everything. */
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { commandLine } from './command-line.ts';
import { tidemark, type Ended } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

const POINTER = '/config_schema/api_key';

describe('a secret that the mirror never stored', () => {
  it('is one line that names it, and the lines of configuration that give it, in plan and report', async () => {
    const story = await Story.start({ TIDEMARK_REDACT: 'true' });
    const [component] = await story.list('pipeline_destinations');
    const path = `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`;
    await story.call('PATCH', path, { config_schema: { api_key: 'of-monday' } });
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('PATCH', path, { config_schema: { api_key: 'of-tuesday' }, tag: 'v9' });
    const line =
      'the mirror never stored the secrets (redact: true): add them under secrets in the configuration';
    const variable = `${String(component?.['name'])} api_key`.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();
    const rule = [
      'secrets:',
      '  pipeline_destinations:',
      `    - match: ${JSON.stringify({ name: component?.['name'] })}`,
      '      values:',
      `        ${POINTER}: \${${variable}}`,
    ].map((each) => each.trim());
    const inOrder = (shown: string): string[] =>
      shown
        .split('\n')
        .map((each) => each.trim())
        .filter((each) => rule.includes(each));

    const args = ['--kind', 'pipeline_destinations'];
    for (const format of ['text', 'markdown']) {
      const { stdout } = await story.expectRun(3, 'restore', ...args, '--format', format);
      expect(stdout.replaceAll('\\', '')).toContain(line);
      expect(inOrder(stdout)).toEqual(rule);
    }
    const applied = await story.expectRun(3, 'restore', ...args, '--apply', '--yes', '--quiet');
    const shown = await story.expectRun(0, 'restores', 'show', '1');
    for (const report of [applied.stdout, shown.stdout]) {
      expect(report).toContain(line);
      expect(inOrder(report)).toEqual(rule);
      expect(report).not.toContain('of-tuesday');
    }
    // What needs no secret went through.
    expect((await story.call('GET', path))['tag']).toBe(component?.['tag']);
  });
});

/** In a process of its own: the log goes to its stderr, as JSON where a level is given. */
async function logged({ env, directory: cwd }: Story, kind: string): Promise<Ended> {
  const args = ['restore', '--kind', kind, '--apply', '--yes', '--log-level', 'warn'];
  const ended = await tidemark(args, { env, cwd });
  expect(ended.code, ended.stderr).toBe(3);
  return ended;
}

describe('a step that the service refuses', () => {
  it('is reported with record, field, what the service said and what to do, on the log and in the report', async () => {
    const story = await Story.start();
    const { id, name } = await story.named('batch_exports', 'Load test sink');
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(id)}/`, { interval: 'week' });
    const refusal = { type: 'validation_error', code: 'invalid', detail: 'Not now.', attr: 'interval' };
    story.proxy.setRules([{ method: 'PATCH', fault: { kind: 'answer', status: 400, body: refusal } }]);
    const { stdout, stderr } = await logged(story, 'batch_exports');
    const line = stderr.split('\n').find((each) => each.includes('a step of a restore failed'));
    expect(JSON.parse(line ?? '')).toMatchObject({
      ...{ action: 'update', kind: 'batch_exports', name, code: 'rejected', status: 400 },
      error: 'the service refused the request (400): Not now. (field: interval)',
      hint: expect.stringContaining('correct what it complains of') as string,
    });
    expect(stdout).toContain(
      [
        `update batch export ${String(name)}`,
        '      the service refused the request (400): Not now. (field: interval)',
        '      → correct what it complains of, in the service or in an edited export (file:PATH); then',
      ].join('\n'),
    );
    expect(stdout).not.toContain('--resume');
  });

  it('keeps a sign-up link out of the log, though the service names it', async () => {
    const story = await Story.start();
    const [invite, other] = await story.list('invites');
    await story.call('DELETE', `${ORGANIZATION}invites/${String(invite?.['id'])}/`);
    const detail = `invite ${String(other?.['id'])} is in the way`;
    story.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status: 400, body: { detail } } }]);
    const { stderr } = await logged(story, 'invites');
    expect(stderr).toContain('invite [secret] is in the way');
    expect(stderr).not.toContain(String(other?.['id']));
  });
});

describe('a plan of which a step is blocked', () => {
  const KINDS = ['--kind', 'role_memberships', '--kind', 'organizations'];
  const REASON = /the API does not document which fields are writable/g;

  async function damaged(): Promise<Story> {
    const story = await Story.start();
    const role = await story.named('roles', 'Compliance & Datenschutz');
    const path = `${ORGANIZATION}roles/${String(role['id'])}/role_memberships/`;
    const { results } = (await story.call('GET', path)) as { results: { id: string }[] };
    await story.call('DELETE', `${path}${results[0]?.id ?? ''}/`);
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    return story;
  }
  const timesIn = (text: string): number => [...text.matchAll(REASON)].length;

  it('sent without a question is one line and the result, which has the reason; -v lists the steps', async () => {
    const story = await damaged();
    const sent = await story.expectRun(3, 'restore', 'run:1', ...KINDS, '--apply', '--yes');
    expect(sent.stdout).toMatch(
      /^restore from run:1: 1 to update, 1 blocked; \d+ unchanged \(-v lists the steps\)\n\nrestore 1 of /,
    );
    expect(timesIn(sent.stdout)).toBe(1);
    expect(timesIn(sent.stderr)).toBe(1);
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    const whole = await story.expectRun(3, 'restore', 'run:1', ...KINDS, '--apply', '--yes', '-v');
    expect(whole.stdout).toContain(`PATCH ${ORGANIZATION} {"enforce_2fa":true}`);
  });

  it('has the reason once where stdout and stderr are one file', async () => {
    const story = await damaged();
    const { env, directory: cwd } = story;
    for (const more of [[], ['--apply', '--yes']]) {
      const { code, stdout, stderr } = await commandLine(['restore', 'run:1', ...KINDS, ...more], {
        ...{ env, cwd, isOneFile: true },
      });
      expect(code).toBe(3);
      expect(timesIn(stdout + stderr), stdout + stderr).toBe(1);
      expect(stderr).toMatch(
        more.length === 0
          ? /^tidemark: 1 step blocked: see the plan above$/m
          : /is partial\n {2}→ `tidemark restores show 1`/,
      );
    }
  });
});

it('prints commands with the configuration file, the organization and the project that were given', async () => {
  const story = await Story.start();
  const [invite] = await story.list('invites');
  const [other] = (await story.list('projects')).slice(1);
  await story.call('DELETE', `${ORGANIZATION}invites/${String(invite?.['id'])}/`);
  await story.call('POST', `${ORGANIZATION}invites/`, { target_email: invite?.['target_email'], level: 15 });
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.expectRun(0, 'sync', '--quiet');
  const { TIDEMARK_BASE_URL: url, TIDEMARK_API_KEY: key, ...env } = story.env;
  delete env['TIDEMARK_MIRROR'];
  delete env['TIDEMARK_KINDS_EXCLUDE'];
  delete env['TIDEMARK_RETRY_ATTEMPTS'];
  writeFileSync(
    story.file('own.yaml'),
    `mirror: ${story.file('mirror.db')}\nsources: [{ name: default, baseUrl: "${url ?? ''}", apiKey: "${key ?? ''}" }]\n`,
  );
  const config = ['--config', 'own.yaml'];
  const organization = ['--organization', KITTIWAKE_ID];
  const project = ['--project', String(other?.['id'])];
  for (const args of [
    ['restore', 'run:1', '--kind', 'invites', ...organization],
    ['restore', '--kind', 'organizations', ...organization],
    ['restore', 'run:99', ...organization],
    ['restore', 'run:99', ...project],
    ['drift', ...organization, ...project],
    ['restores', 'show', '1'],
    ['restores'],
  ]) {
    const { stdout, stderr } = await commandLine([...args, ...config], { env, cwd: story.directory });
    const printed = [...`${stdout}${stderr}`.matchAll(/`(tidemark [^`]*)`/g)].map(
      ([, command = '']) => command,
    );
    expect(printed, args.join(' ')).not.toEqual([]);
    for (const command of printed) {
      expect(command).toContain(' --config own.yaml');
      if (!/^tidemark (?:restore|diff|drift)/.test(command)) continue;
      for (const parent of [organization, project])
        if (args.includes(parent[0] ?? '')) expect(command, args.join(' ')).toContain(` ${parent.join(' ')}`);
    }
  }
});

it('a secret that the journal of a restore masks is said to be masked by Tidemark, not by the API', async () => {
  const story = await Story.start();
  const [component] = await story.list('pipeline_destinations');
  const path = `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`;
  await story.call('PATCH', path, { config_schema: { api_key: 'of-monday' } });
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('PATCH', path, { config_schema: { api_key: 'of-tuesday' } });
  await story.expectRun(0, 'restore', '--kind', 'pipeline_destinations', '--apply', '--yes', '--quiet');
  const { stdout } = await story.expectRun(3, 'undo', '1');
  expect(stdout.replaceAll(/\s+/g, ' ')).toContain('Tidemark masked the secrets when it recorded what was');
  const { stdout: json } = await story.expectRun(3, 'undo', '1', '--json');
  expect(json).toContain('"because":"hidden"');
});
