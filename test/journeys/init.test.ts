import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { KINDS } from '../../src/catalog/kinds.ts';
import { serviceText } from '../../src/cli/init-config.ts';
import { serviceNotes } from '../../src/cli/init-service.ts';
import { Deployment } from '../profiles/deployment.ts';
import { commandLine } from './command-line.ts';
import { type Ended, scratch, start } from './harness.ts';
import { FakeService, notFound, respond } from './service.ts';

const KEY = 'test-key-of-some-length';
/** Given where its variable or file should be. */
const CLEAR = 'phx_AuditorKeySecret0123456789abcdefgh';
const UNKNOWN_FORM = 'A7f3kQ9mZx2LpR8vTb4Ns6Wd';

interface Rig {
  readonly directory: string;
  readonly service: FakeService;
  readonly env: Record<string, string>;
  readonly run: (...args: string[]) => Promise<Ended>;
  readonly written: () => string;
}

async function rig(): Promise<Rig> {
  const service = await FakeService.start();
  const directory = scratch();
  const env: Record<string, string> = { SVC_KEY: KEY };
  return {
    directory,
    service,
    env,
    run: (...args) => commandLine(args, { env, cwd: directory }),
    written: () => readFileSync(join(directory, 'tidemark.yaml'), 'utf8'),
  };
}

describe('init away from a terminal', () => {
  it('looks, writes a configuration that is understood, and never the key', async () => {
    const { run, service, written, directory } = await rig();
    const ended = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stdout).toContain(`${KINDS.length} of ${KINDS.length} kinds readable`);
    expect(ended.stdout).not.toMatch(/members +empty/);
    expect(written()).toContain('kinds: { exclude: [session_recordings, recording_sharing] }');
    expect(written()).toContain('apiKey: ${SVC_KEY}');
    expect(ended.stdout + ended.stderr + written()).not.toContain(KEY);
    expect(readdirSync(directory)).toEqual(['tidemark.yaml']);
    const check = await run('config', 'check');
    expect(check.code, check.stderr).toBe(0);
    expect(check.stdout).toContain('\nvalid\n');
    expect(check.stdout).toContain('source production');
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
    expect((await run('sync', '--quiet')).code).toBe(0);
  });

  it('takes a key from a file, runs the first sync when asked, and says so as a document without', async () => {
    const { run, service, written, directory } = await rig();
    writeFileSync(join(directory, 'key'), `${KEY}\n`, { mode: 0o600 });
    const args = ['init', '--url', service.url, '--key-file', 'key', '--name', 'harbor'];
    const ended = await run(...args, '--sync');
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stdout).toContain('run 1 of harbor: complete');
    expect(written()).toContain('apiKeyFile: "./key"');
    const listed = await run(...args, '--force', '-v');
    expect(listed.stdout).toMatch(/members +empty/);
    const again = await run(...args, '--force', '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({
      schema: 'tidemark.init/1',
      key: { by: 'file', path: './key' },
      check: { profile: 'svc', error: null },
    });
  });

  it.each([
    ['localhost:1', 'http://localhost:1'],
    ['127.0.0.1:18520', 'http://127.0.0.1:18520'],
    ['10.0.0.5', 'http://10.0.0.5'],
    ['203.0.113.7:8443', 'https://203.0.113.7:8443'],
    ['svc.example', 'https://svc.example'],
  ])('adds the scheme that is most likely meant: %s', async (url, address) => {
    const { run, written } = await rig();
    const ended = await run('init', '--url', url, '--key-env', 'SVC_KEY', '--no-check');
    expect(ended.code, ended.stderr).toBe(0);
    expect(written()).toContain(`baseUrl: "${address}"`);
  });

  it('knows a deployment by its answers, and leaves out what it does not offer', async () => {
    const far = await Deployment.start({ isNewer: true });
    const { run, written } = await rig();
    const ended = await run('init', '--url', far.url, '--key-env', 'SVC_KEY');
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.stderr).toContain('this looks like posthog: roles answer only without a query string');
    expect(written()).toContain('profile: "posthog"');
    expect(written()).toContain('exclude: [pipeline_destinations');
    expect((await run('sync', '--quiet')).code).toBe(0);
  });

  it('leaves a file alone that is there, and asks nobody anything for it', async () => {
    const { run, service, directory } = await rig();
    writeFileSync(join(directory, 'tidemark.yaml'), 'mirror: ./mine.db\n');
    const { code, stderr } = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(code).toBe(4);
    expect(stderr).toContain('--force');
    expect(readFileSync(join(directory, 'tidemark.yaml'), 'utf8')).toBe('mirror: ./mine.db\n');
    expect(service.seen).toEqual([]);
  });

  it('writes nothing where the key is refused or nobody answers, unless told not to look', async () => {
    const { run, service, directory, written, env } = await rig();
    service.quirks.push((_request, response) => respond(response, 401, '{"detail":"Invalid API key."}'));
    const refused = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(refused.code).toBe(5);
    expect(refused.stderr).toContain('--no-check');
    // No file has an apiKey yet.
    expect(refused.stderr).toContain(
      'check the key in the variable SVC_KEY; a revoked or mistyped key is refused',
    );
    expect(refused.stderr + refused.stdout).not.toContain('apiKey');
    writeFileSync(join(directory, 'own.key'), 'key-of-file', { mode: 0o600 });
    const inFile = await run('init', '--url', service.url, '--key-file', 'own.key');
    expect(inFile.stderr).toMatch(/check the key in the file \S*own\.key;/);
    const nobody = await run('init', '--url', 'http://127.0.0.1:1', '--key-env', 'SVC_KEY');
    expect(nobody.code).toBe(1);
    expect(nobody.stderr).toContain(
      '127.0.0.1:1: the connection was refused\n  → check host and port in the address, and that the service runs there',
    );
    const odd = await run('init', '--url', 'ftp://there', '--key-env', 'SVC_KEY');
    expect(odd.stderr).not.toContain('did you mean');
    expect(existsSync(join(directory, 'tidemark.yaml'))).toBe(false);
    delete env['SVC_KEY'];
    const unseen = await run('init', '--url', service.url, '--key-env', 'SVC_KEY', '--no-check');
    expect(unseen.code, unseen.stderr).toBe(0);
    expect(written()).toContain('${SVC_KEY}');
  });

  it('gives up soon at a port that accepts and never answers, and says what to check', async () => {
    const { run, service, directory } = await rig();
    service.quirks.push(() => true);
    const startedAt = performance.now();
    const ended = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(ended.code).toBe(1);
    expect(performance.now() - startedAt).toBeLessThan(25_000);
    expect(ended.stderr).toMatch(
      /no answer within 6 s\n +→ check the host, the port, http:\/\/ or https:\/\/, and any firewall or VPN on the way; --no-check skips/,
    );
    expect(readdirSync(directory)).toEqual([]);
  }, 40_000);

  it('is 1 at a web page, with the word to look at the address', async () => {
    const { run, service, directory } = await rig();
    service.quirks.push((_request, response) =>
      respond(response, 200, '<!doctype html>', { 'content-type': 'text/html' }),
    );
    const { code, stderr } = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(code).toBe(1);
    expect(stderr).toContain('the address');
    expect(stderr).not.toContain('baseUrl');
    expect(readdirSync(directory)).toEqual([]);
  });

  it('says nothing of the profile where nothing is at the address', async () => {
    const { run, service, directory } = await rig();
    const { code, stderr } = await run('init', '--url', `${service.url}/nope`, '--key-env', 'SVC_KEY');
    expect(code).toBe(1);
    expect(stderr).toContain('nothing was written');
    expect(stderr).not.toMatch(/profile svc restores|not offered here/);
    expect(readdirSync(directory)).toEqual([]);
    const there = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(there.stderr).toContain('profile svc restores documented fields only');
  });

  it('drops what the paths bring along from the address', async () => {
    const { run, service, written } = await rig();
    const ended = await run('init', '--url', `${service.url}/api/`, '--key-env', 'SVC_KEY');
    expect(ended.code, ended.stderr).toBe(0);
    expect(written()).toContain(`baseUrl: "${service.url}"`);
  });

  it('keeps going where some of it cannot be read, and says what to add', async () => {
    const { run, service } = await rig();
    service.quirks.push(({ path }, response) => path.endsWith('/domains/') && notFound(response));
    const { code, stderr } = await run('init', '--url', service.url, '--key-env', 'SVC_KEY');
    expect(code).toBe(0);
    expect(stderr).toContain('not offered here: domains');
  });

  it.each([
    ['a key on the command line', ['--url', 'http://x', '--key', KEY], '--key-env NAME'],
    ...(
      [
        ['its variable', ['--key-env', CLEAR]],
        ['its variable, of no known form', ['--key-env', UNKNOWN_FORM]],
        ['its file', ['--key-file', CLEAR]],
        ["an alert's", ['--key-env', 'SVC_KEY', '--notify', `pagerduty:${CLEAR}`]],
        ['an alert without its type', ['--key-env', 'SVC_KEY', '--notify', CLEAR]],
      ] as const
    ).map(
      ([what, args]) =>
        [
          `a secret in place of ${what}`,
          ['--url', 'http://x', '--no-check', ...args],
          'looks like a secret',
        ] as [string, string[], string],
    ),
    ['no address', ['--key-env', 'SVC_KEY'], '--url is needed'],
    ['no key', ['--url', 'http://127.0.0.1:1'], '--key-env or --key-file is needed'],
    ['two keys', ['--url', 'http://x', '--key-env', 'SVC_KEY', '--key-file', 'y'], 'give one'],
    ['a variable that is not set', ['--url', 'http://x', '--key-env', 'NONE'], 'NONE is not set'],
    ['a name that is none', ['--url', 'http://x', '--key-env', 'A-B'], 'letters, digits'],
    ['a file that is not there', ['--url', 'http://x', '--key-file', 'none'], 'does not exist'],
    [
      'a profile that there is none of',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--profile', 'posthg'],
      'did you mean',
    ],
    ['an address with a password', ['--url', 'https://a:b@x', '--key-env', 'SVC_KEY'], 'credentials'],
    ['an address of another kind', ['--url', 'ftp://x', '--key-env', 'SVC_KEY'], 'http'],
    ['a word alone', ['--url', 'harbor'], 'did you mean https://harbor?'],
    [
      'an alert in clear',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--no-check', '--notify', 'slack:https://h/x'],
      'is a secret',
    ],
    [
      'an alert of no type',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--no-check', '--notify', 'fax:A'],
      'types are: slack',
    ],
    [
      'a schedule that is none',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--no-check', '--schedule', 'daily'],
      '--schedule',
    ],
    [
      'recipients without backups',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--no-check', '--recipient', 'age1x'],
      '--backup',
    ],
    [
      'a document and a run',
      ['--url', 'http://x', '--key-env', 'SVC_KEY', '--sync', '--json'],
      'one document',
    ],
  ])('is 4 for %s', async (_name, args, words) => {
    const { run, directory } = await rig();
    const ended = await run('init', ...args);
    expect(ended.code).toBe(4);
    expect(ended.stderr + ended.stdout).toContain(words);
    for (const secret of [KEY, CLEAR, UNKNOWN_FORM])
      expect(ended.stderr + ended.stdout).not.toContain(secret);
    expect(readdirSync(directory)).toEqual([]);
  });

  it.each([
    ['--schedule', 'daily'],
    ['--notify', 'fax:A'],
    ['--notify', 'slack:UNSET'],
    ['--notify', 'email:SVC_KEY:nobody'],
    ['--backup', 's3:/bucket'],
    ['--recipient', 'age1x', '--backup', './away'],
    ['--name', 'a b'],
  ])('asks the service nothing where %s %s cannot be right', async (option, ...values) => {
    const { run, service } = await rig();
    const ended = await run('init', '--url', service.url, '--key-env', 'SVC_KEY', option, ...values);
    expect(ended.code).toBe(4);
    expect(ended.stderr).toMatch(new RegExp(`^tidemark: ${option}: `));
    expect(service.seen).toEqual([]);
  });

  it('asks the service nothing where the name is the key, and does not show it', async () => {
    const { run, service } = await rig();
    const args = ['--url', service.url, '--key-env', 'SVC_KEY', '--name', KEY];
    const ended = await run('init', ...args);
    expect(ended.code).toBe(4);
    expect(ended.stderr).toMatch(/^tidemark: --name: this is an API key, not a name;/);
    expect(ended.stderr).not.toContain(KEY);
    expect(service.seen).toEqual([]);
  });

  it('says that a key goes unencrypted, and that variables contradict the answers', async () => {
    const { run, env, directory } = await rig();
    const args = ['init', '--url', 'http://svc.example.com', '--key-env', 'SVC_KEY', '--no-check'];
    const told = await run(...args);
    expect(told.code, told.stderr).toBe(0);
    expect(told.stderr).toContain('tidemark.yaml:9');
    expect(told.stderr).toContain('sends the key unencrypted');
    env['TIDEMARK_RATE_PER_MINUTE'] = 'fast';
    const refused = await run(...args, '--output', 'second.yaml');
    expect(refused.code).toBe(4);
    expect(refused.stderr).toContain('TIDEMARK_RATE_PER_MINUTE');
    expect(readdirSync(directory)).toEqual(['tidemark.yaml']);
  });

  it('writes a ping that was called as a test, and nothing where that is refused', async () => {
    const { run, service, written, env, directory } = await rig();
    const monitor = await FakeService.start();
    monitor.quirks.push(({ path }, response) => respond(response, path === '/gone' ? 404 : 200, 'ok'));
    env['PING'] = `${monitor.url}/gone`;
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--notify', 'ping:PING'];
    const refused = await run(...args);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('nothing was written: the test ping was not taken');
    expect(readdirSync(directory)).toEqual([]);
    env['PING'] = `${monitor.url}/alive`;
    const ended = await run(...args);
    expect(ended.code, ended.stderr).toBe(0);
    expect(monitor.seen.map(({ method, url }) => `${method} ${url}`)).toEqual(['POST /gone', 'POST /alive']);
    expect(parse(written())).toMatchObject({ pings: [{ success: '${PING}' }] });
    expect((await run('config', 'check')).stdout).toContain('no channel, 1 ping');
  });

  it('sets everything up by options', async () => {
    const { run, service, written, env, directory } = await rig();
    const hook = await FakeService.start();
    hook.quirks.push((_request, response) => respond(response, 200, 'ok'));
    env['HOOK'] = `${hook.url}/a`;
    mkdirSync(join(directory, '.git'));
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--notify', 'webhook:HOOK'];
    args.push('--notify', 'slack:HOOK');
    const ended = await run(
      ...args,
      ...[
        '--backup',
        './away',
        '--schedule',
        '0 2 * * *',
        '--service',
        'compose',
        '--recordings',
        '--baseline',
      ],
    );
    expect(ended.code, ended.stderr).toBe(3);
    expect(ended.stderr).toMatch(
      /no backup was made: .*away, does not exist\n {2}→ .*`tidemark backup create --config \S+` tries again/,
    );
    expect(ended.stderr).toContain('./away does not exist');
    expect(ended.stderr).toMatch(/--service compose will write \/\S+\/compose\.yaml\n/);
    expect(ended.stderr).toContain('backups are not encrypted');
    expect(hook.seen).toHaveLength(2);
    expect(written()).toContain('type: webhook, url: "${HOOK}"');
    expect(written()).toContain('name: ops-2, type: slack, url: "${HOOK}"');
    expect(written()).toContain('sync: { cron: "0 2 * * *"');
    expect(ended.stdout).toContain('drift is measured from approved');
    expect(ended.stdout).toMatch(
      /next: put SVC_KEY and HOOK into .*tidemark.env .*`docker build --tag tidemark:latest \.` .*docker compose --file/,
    );
    expect(readFileSync(join(directory, '.git', 'info', 'exclude'), 'utf8')).toBe(
      '/tidemark.env\n/tidemark.token\n',
    );
    expect(readFileSync(join(directory, 'compose.yaml'), 'utf8')).toContain('command: [daemon]');
    expect((await run('config', 'check')).stdout).toContain('away does not exist');
    hook.quirks.splice(0, 1, (_request, response) => respond(response, 404, 'gone'));
    const refused = await run(...args, '--output', 'second.yaml');
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('the test notice to webhook was not delivered');
    expect(existsSync(join(directory, 'second.yaml'))).toBe(false);
  });

  it('says that a loopback address is the container itself where Docker Compose starts it', async () => {
    const { run, service } = await rig();
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--service', 'compose'];
    const { code, stderr } = await run(...args);
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(
      /^tidemark: 127\.0\.0\.1 is the container itself there: .*`network_mode: host` to \S+compose\.yaml$/m,
    );
  });

  it('has Docker Compose mount a secret file that is outside the directory of the configuration', async () => {
    const { run, service, directory } = await rig();
    const [near, far] = [join(directory, 'near.key'), join(scratch(), 'svc.key')];
    for (const file of [near, far]) writeFileSync(file, 'k', { mode: 0o600 });
    const volumes = async (key: string): Promise<unknown> => {
      const args = ['init', '--url', service.url, '--key-file', key, '--service', 'compose', '--force'];
      const { code, stderr } = await run(...args, '--no-check');
      expect(code, stderr).toBe(0);
      const text = readFileSync(join(directory, 'compose.yaml'), 'utf8');
      return (parse(text) as { services: { tidemark: { volumes: unknown } } }).services.tidemark.volumes;
    };
    expect(await volumes(far)).toEqual([`${directory}:${directory}`, `${far}:${far}:ro`]);
    expect(await volumes(near)).toEqual([`${directory}:${directory}`]);
  });

  it('replaces what starts Tidemark with --force, if it wrote that itself', async () => {
    const { run, service, directory } = await rig();
    const unit = join(directory, 'compose.yaml');
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--service', 'compose'];
    const same = await run(...args, '--output', 'compose.yaml');
    expect(same).toMatchObject({ code: 4 });
    expect(same.stderr).toContain(`--service compose: ${unit} is where the configuration is written`);
    expect(await run(...args)).toMatchObject({ code: 0 });
    const text = readFileSync(unit, 'utf8');
    const before = service.seen.length;
    const other = await run(...args, '--output', 'other.yaml');
    expect(service.seen.length, 'requests before the refusal').toBe(before);
    expect(other).toMatchObject({ code: 4 });
    expect(other.stderr).toContain(`${unit} exists already and was not changed\n  → replace it with --force`);
    writeFileSync(unit, text.replace('mem_limit: 512m', 'mem_limit: 1m'));
    const forced = await run(...args, '--force');
    expect(forced, forced.stderr).toMatchObject({ code: 0 });
    expect(readFileSync(unit, 'utf8')).toBe(text);
    writeFileSync(unit, 'services: { mine: { image: mine } }\n');
    const refused = await run(...args, '--force');
    expect(refused).toMatchObject({ code: 4 });
    expect(refused.stderr).toContain('`tidemark init` did not write it: move it away');
    expect(readFileSync(unit, 'utf8')).toContain('mine');
    expect(readdirSync(directory).filter((name) => name.includes('tmp'))).toEqual([]);
  });

  it('leaves nothing behind where it is killed while it looks or is asked, and removes what was left while it wrote', async () => {
    const { service, env, directory, run } = await rig();
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY'];
    const { child, ended } = start(args, { env, cwd: directory });
    service.quirks.push(() => child.kill('SIGKILL'));
    await ended;
    service.quirks.length = 0;
    expect(readdirSync(directory)).toEqual([]);
    const [left, recent] = ['.tidemark.yaml.123.tidemark-tmp', '.tidemark.yaml.124.tidemark-tmp'];
    for (const name of [left, recent, '.other.yaml.123.tidemark-tmp'])
      writeFileSync(join(directory, name), '');
    const before = new Date(Date.now() - 2 * 3_600_000);
    for (const name of [left, '.other.yaml.123.tidemark-tmp'])
      utimesSync(join(directory, name), before, before);
    expect(await run(...args)).toMatchObject({ code: 0 });
    expect(readdirSync(directory)).toEqual(['.other.yaml.123.tidemark-tmp', recent, 'tidemark.yaml']);
  });

  // Not by the command: root's file would be one of this machine.
  it.each([
    ['* * * * *', true],
    ['0,30,40 2 * * *', true],
    ['*/20 0 2 * * *', true],
    ['*/15 * * * *', false],
    ['5 * * * *', false],
    ['off', false],
  ])('says of the schedule %s whether it is finer than the line for cron: %s', (syncCron, isFiner) => {
    const service = {
      form: 'cron',
      path: '/x/tidemark.cron',
      text: () => '',
      isReplacing: false,
      next: '',
    } as const;
    const notes = serviceNotes(service, { url: 'https://a.example', syncCron });
    expect(notes).toEqual(
      isFiner
        ? [
            `cron starts it every 15 minutes, the schedule "${syncCron}" is finer: it syncs every 15 minutes, unless you change \`*/15\` in /x/tidemark.cron`,
          ]
        : [],
    );
    expect(serviceNotes({ ...service, form: 'systemd' }, { url: 'http://localhost', syncCron })).toEqual([]);
  });

  it('writes the line for cron beside the configuration, also as root, and prints what installs it', async () => {
    const { run, service, directory } = await rig();
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--service', 'cron', '--no-check'];
    const { code, stdout, stderr } = await run(...args);
    expect(code, stderr).toBe(0);
    const file = join(directory, 'tidemark.cron');
    const isRoot = process.getuid?.() === 0;
    expect(readFileSync(file, 'utf8')).toContain(isRoot ? '*/15 * * * * root set -a' : '*/15 * * * * set -a');
    expect(stdout + stderr).toContain(
      isRoot ? `\`install -m 644 ${file} /etc/cron.d/tidemark\`` : `add the line of ${file}`,
    );
  });

  it('has Docker Compose mount the backup directories that are outside the directory of the configuration', async () => {
    const { run, service, directory } = await rig();
    const far = join(scratch(), 'backups');
    const args = ['init', '--url', service.url, '--key-env', 'SVC_KEY', '--service', 'compose', '--no-check'];
    const { code, stderr } = await run(
      ...args,
      '--backup',
      far,
      '--backup',
      'near',
      '--backup',
      's3://bucket/a',
    );
    expect(code, stderr).toBe(0);
    const text = readFileSync(join(directory, 'compose.yaml'), 'utf8');
    const { services } = parse(text) as { services: { tidemark: { volumes: unknown } } };
    expect(services.tidemark.volumes).toEqual([`${directory}:${directory}`, `${far}:${far}`]);
    expect(stderr).not.toContain('volumes');
  });

  it('Docker Compose: what the file leaves to uncomment publishes the dashboard on this machine only', () => {
    const facts = {
      config: '/x/tidemark.yaml',
      program: [],
      isSystem: false,
      user: { name: 'a', uid: 7, gid: 8 },
      secretFiles: [],
    };
    const text = serviceText('compose', facts);
    expect(text).toContain('docker build --tag tidemark:latest .');
    const tidemark = (yaml: string): object =>
      (parse(yaml) as { services: { tidemark: object } }).services.tidemark;
    const plain = {
      environment: { TIDEMARK_CONFIG: '/x/tidemark.yaml', TMPDIR: '/x', SQLITE_TMPDIR: '/x' },
      volumes: ['/x:/x'],
      user: '7:8',
      read_only: true,
    };
    expect(tidemark(text)).toMatchObject(plain);
    expect(tidemark(text)).not.toHaveProperty('ports');
    expect(tidemark(text.replaceAll(/^( *)# (TIDEMARK_|ports:)/gm, '$1$2'))).toMatchObject({
      ...plain,
      environment: {
        ...plain.environment,
        TIDEMARK_HTTP_LISTEN: '0.0.0.0:8787',
        TIDEMARK_HTTP_TOKEN_FILE: '/x/tidemark.token',
      },
      ports: ['127.0.0.1:8787:8787'],
    });
  });

  it('Docker Compose: a project for each directory, and `$` in a path is no variable', () => {
    const projectOf = (directory: string, secretFiles: readonly string[] = []) => {
      const facts = { config: `${directory}/tidemark.yaml`, program: [], isSystem: false, secretFiles };
      const text = serviceText('compose', { ...facts, user: { name: 'a', uid: 7, gid: 8 } });
      return parse(text) as { name: string; services: { tidemark: { volumes: string[] } } };
    };
    const names = ['/srv/acme', '/srv/My Bank_2', '/opt/acme', '/srv/acmé', '/'].map(
      (at) => projectOf(at).name,
    );
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^[a-z0-9][a-z0-9_-]*$/);
    expect(names.slice(0, 2)).toEqual([
      expect.stringMatching(/^tidemark-acme-[0-9a-f]{6}$/),
      expect.stringMatching(/^tidemark-my-bank-2-[0-9a-f]{6}$/),
    ]);
    expect(projectOf('/srv/a$b', ['/k$y']).services.tidemark.volumes).toEqual([
      '/srv/a$$b:/srv/a$$b',
      '/k$$y:/k$$y:ro',
    ]);
  });

  it('leaves the mode of the file to nobody’s surprise', async () => {
    const { run, service, directory } = await rig();
    await run('init', '--url', service.url, '--key-env', 'SVC_KEY', '--output', 'other.yaml');
    expect(statSync(join(directory, 'other.yaml')).mode & 0o022).toBe(0);
  });
});
