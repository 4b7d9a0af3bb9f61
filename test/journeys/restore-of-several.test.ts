/** Several sources: the commands that are printed about an interrupted restore run as printed. */
import { copyFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, it } from 'vitest';
import { begin } from './command-line.ts';
import { start } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

const RESUME = /`tidemark (restore --resume 1[^`]*)`/;

it('a restore by its number, or the only unfinished one, tells its source where sources share a mirror', async () => {
  const story = await Story.start();
  const owen = await story.member('Owen');
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
  const key = story.env['TIDEMARK_API_KEY'] ?? '';
  const configure = (mirror: string): void => {
    const rest = `baseUrl: "${story.proxy.url}", apiKey: "\${KEY}", rate: { concurrency: 1 }, retry: { attempts: 1 }, kinds: { exclude: [session_recordings, recording_sharing] }`;
    writeFileSync(
      story.file('tidemark.yaml'),
      `mirror: ${mirror}\nsources:\n  - { name: default, ${rest} }\n  - { name: staging, ${rest} }\n`,
      { mode: 0o600 },
    );
  };
  for (const name of Object.keys(story.env)) Reflect.deleteProperty(story.env, name);
  story.env['KEY'] = key;
  configure('./mirror.db');

  const none = await story.expectRun(1, 'restore', '--resume');
  expect(none.stderr).toContain('no restore is unfinished');
  const unknown = await story.expectRun(4, 'restore', '--resume', '1');
  expect(unknown.stderr).toContain('there is no restore 1');
  await story.expectRun(4, 'undo', '1');

  const opened = Promise.withResolvers<undefined>();
  const came = Promise.withResolvers<undefined>();
  const fault = { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const;
  story.proxy.setRules([{ method: 'PATCH', nth: 1, fault }]);
  const begun = begin(['restore', '--source', 'default', '--apply', '--yes'], {
    env: story.env,
    cwd: story.directory,
  });
  await came.promise;
  begun.stop();
  opened.resolve(undefined);
  const stopped = await begun.ended;
  expect(stopped.code, stopped.stderr).toBe(130);
  expect(RESUME.exec(stopped.stdout)?.[1]).toBe('restore --resume 1 --source default');
  story.proxy.setRules([]);

  // Where each source has a mirror of its own, a number alone says nothing: the printed commands name the source.
  configure('./{source}/mirror.db');
  const own = story.file('default/mirror.db');
  mkdirSync(dirname(own));
  renameSync(story.file('mirror.db'), own);
  for (const command of [['status'], ['restores', 'show', '1']]) {
    const { stdout } = await story.run(...command, '--source', 'default');
    expect(RESUME.exec(stdout)?.[1], stdout).toBe('restore --resume 1 --source default');
  }
  copyFileSync(own, story.file('kept.db'));
  const { stdout: hint } = await story.run('status', '--source', 'default');
  const abandon = /`tidemark (restore --abandon 1[^`]*)`/.exec(hint)?.[1];
  expect(abandon, hint).toBe('restore --abandon 1 --source default');
  const left = await story.expectRun(0, ...(abandon ?? '').split(' '), '--yes');
  expect(RESUME.exec(left.stdout)?.[1], left.stdout).toBe('restore --resume 1 --source default');
  expect((await story.run('status', '--source', 'default')).stdout).not.toContain('interrupted');
  renameSync(story.file('kept.db'), story.file('mirror.db'));
  configure('./mirror.db');

  for (const command of [['status'], ['restores', 'show', '1']]) {
    const { stdout } = await story.run(...command);
    expect(RESUME.exec(stdout)?.[1], stdout).toBe('restore --resume 1');
  }
  await story.expectRun(4, 'restore', '--abandon', '1', '--source', 'staging', '--yes');
  await story.expectRun(0, 'restore', '--abandon', '--yes');
  const bare = await story.expectRun(1, 'restore', '--resume');
  expect(bare.stderr).toContain('`tidemark restore --resume 1` continues it even so');
  const resumed = await story.expectRun(0, 'restore', '--resume', '1');
  expect(resumed.stderr).toContain('continuing restore 1');
  expect(resumed.stdout).toContain('`tidemark undo 1 --source default`');
  const undo = await story.expectRun(2, 'undo', '1');
  expect(undo.stdout).toContain('/enforce_2fa');
  const over = await story.expectRun(4, 'restore', '--resume', '1');
  expect(over.stderr).toContain('restore 1 is complete: there is nothing to continue');
  expect(over.stderr).toContain('`tidemark restore --source default` makes a new plan');
  const document = await story.expectRun(4, 'restore', '--resume', '1', '--json');
  expect(JSON.parse(document.stdout)).toMatchObject({
    hint: '`tidemark restore --source default` makes a new plan',
  });

  // A saved plan names its source as well.
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  const selected = ['--source', 'default', '--kind', 'organizations', '--max-share', '0.5'];
  await story.expectRun(2, 'restore', ...selected, '--out', 'plan.json');
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: true });
  const moved = await story.expectRun(6, 'apply', 'plan.json', '--yes');
  expect(moved.stderr).toContain(`\`tidemark restore run:1 ${selected.join(' ')} --out FILE\``);
});

it('with a mirror per source, every command that is printed about a restore runs as printed', async () => {
  const story = await Story.start();
  const owen = await story.member('Owen');
  await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
  await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
  const key = story.env['TIDEMARK_API_KEY'] ?? '';
  for (const name of Object.keys(story.env)) Reflect.deleteProperty(story.env, name);
  story.env['KEY'] = key;
  const rest = `baseUrl: "${story.proxy.url}", apiKey: "\${KEY}", rate: { concurrency: 1 }, retry: { attempts: 1 }, kinds: { exclude: [session_recordings, recording_sharing] }`;
  const sources = ['default', 'staging'].map((name) => `  - { name: ${name}, ${rest} }`);
  const file = ['mirror: ./{source}/mirror.db', 'sources:', ...sources].join('\n');
  writeFileSync(story.file('several.yaml'), file, { mode: 0o600 });
  mkdirSync(story.file('default'));
  renameSync(story.file('mirror.db'), story.file('default/mirror.db'));
  const own = ['--source', 'default', '--config', 'several.yaml'];

  // Killed before the answer: what the request did is not known.
  const came = Promise.withResolvers<undefined>();
  const never = new Promise<void>(() => undefined);
  const fault = { kind: 'gate', until: never, reached: () => came.resolve(undefined) } as const;
  story.proxy.setRules([{ method: 'PATCH', nth: 1, fault }]);
  const restore = ['restore', '--apply', '--yes', ...own];
  const { child, ended } = start(restore, { env: story.env, cwd: story.directory });
  await Promise.race([came.promise, ended.then(({ stderr }) => expect(stderr).toBe('still running'))]);
  child.kill('SIGKILL');
  await ended;
  story.proxy.setRules([]);

  const printed = new Map<string, string>();
  const collect = async (code: number, ...args: string[]): Promise<void> => {
    const { stdout, stderr } = await story.expectRun(code, ...args, ...own);
    for (const [, command = ''] of (stdout + stderr).matchAll(/`tidemark ([^`]*)`/g))
      printed.set(command, args.join(' '));
  };
  await collect(4, 'undo', '1');
  expect([...printed]).toEqual([['restores show 1 --source default --config several.yaml', 'undo 1']]);
  await collect(2, 'restore');
  await collect(0, 'restores', 'show', '1');
  await collect(4, 'restore', '--abandon', '1');
  await story.run('status', ...own).then(({ stdout }) => {
    // It would run on.
    const daemon = 'daemon --config several.yaml';
    expect(stdout).toContain(`\`tidemark ${daemon}\``);
    for (const [, command = ''] of stdout.matchAll(/`tidemark ([^`]*)`/g))
      if (command !== daemon) printed.set(command, 'status');
  });
  await collect(0, 'restore', '--abandon', '1', '--yes');
  await collect(4, 'restore', '--abandon', '1', '--yes');
  await collect(0, 'restore', '--resume', '1');
  await collect(4, 'restore', '--resume', '1');
  expect(printed.size).toBeGreaterThan(6);
  // By now restore 1 is complete. Each is run as printed; one that does anything else, or is new here, fails.
  const ends: Readonly<Record<string, readonly [code: number, said: string]>> = {
    restore: [0, 'nothing to do'],
    'restore --resume 1': [4, 'restore 1 is complete: there is nothing to continue'],
    'restore --abandon 1': [4, 'no terminal to ask on, and --yes was not given'],
    'restores show 1': [0, '2 applied and verified'],
    'undo 1': [2, '/enforce_2fa'],
    'apply plan.json': [4, 'no terminal to ask on, and --yes was not given'],
    sync: [0, 'complete'],
  };
  await story.expectRun(0, 'restore', '--out', 'plan.json', ...own);
  const found = new Set<string>();
  for (const [command, from] of printed) {
    const args = command.replace(' FILE', ' plan.json').split(' ');
    const end = args.indexOf('--source') < 0 ? args.indexOf('--config') : args.indexOf('--source');
    const name = args.slice(0, end).join(' ');
    found.add(name);
    const { code, stdout, stderr } = await story.run(...args);
    const [expected, said] = ends[name] ?? [];
    expect([code, stdout + stderr], `${command}, printed by ${from}`).toEqual([
      expected,
      expect.stringContaining(said ?? 'a command of the table'),
    ]);
  }
  expect([...found].sort()).toEqual(Object.keys(ends).sort());
});
