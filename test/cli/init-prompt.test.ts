/** `init` with somebody at the keyboard: each question is answered once it stands on the screen. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/program.ts';
import { scratch } from '../journeys/harness.ts';
import { FakeService, notFound, respond } from '../journeys/service.ts';
import { Keyboard, Screen } from './terminal.ts';

const KEY = 'a-key-that-nobody-may-see';
const ENTER = '\r';
const DOWN = '\u001b[B';
const CTRL_C = '\u0003';
/** After this, a test says what it waits for, instead of reaching its own limit without a word. */
const SILENCE_MS = 120_000;

/** What to type once these words are shown. */
type Step = readonly [words: string, keys: string];

async function atTheKeyboard(
  directory: string,
  steps: readonly Step[],
  env: Readonly<Record<string, string>> = {},
  args: readonly string[] = [],
  entry = '',
): Promise<{ code: number; shown: string; left: readonly Step[] }> {
  const [stdin, stdout, stderr] = [new Keyboard(), new Screen(), new Screen()];
  const left = [...steps];
  let answered = 0;
  stderr.onText = (text) => {
    const next = left[0];
    // What stood there before the last answer asks for nothing.
    if (next === undefined || !text.slice(answered).includes(next[0])) return;
    answered = text.length;
    left.shift();
    // Once the question is drawn: keys one after the other, as somebody types them.
    setImmediate(() => stdin.write(next[1]));
  };
  const command = runCommandLine(['init', ...args], {
    ...{ env, cwd: directory, stdin, stdout, stderr, pid: process.pid },
    ...{ signal: new AbortController().signal, execPath: process.execPath, entry, isOneProcess: true },
  });
  const done = new AbortController();
  const code = await Promise.race([command, delay(SILENCE_MS, null, { signal: done.signal })]).finally(() =>
    done.abort(),
  );
  if (code === null)
    throw new Error(
      `init still waits; to be typed: ${JSON.stringify(left)}; shown:\n${stdout.text + stderr.text}`,
    );
  return { code, shown: stdout.text + stderr.text, left };
}

/** All of them; the first sync is declined, and every other answer is Enter's, but for the schedule. */
function questions(url: string): Step[] {
  return [
    ['Address of the service', `${url}${ENTER}`],
    ['Where is the API key?', ENTER],
    ['API key (not shown)', `${KEY}${ENTER}`],
    ['Keep it in this file', ENTER],
    ['Name of the source', ENTER],
    ['What kind of deployment', ENTER],
    ['Mirror session recordings', ENTER],
    ['Where should alerts go?', ENTER],
    ['Where should backups of the mirror go?', ENTER],
    ['When should the daemon sync?', `${DOWN}${ENTER}`],
    ['What should start it?', ENTER],
    ['Write tidemark.yaml?', `${DOWN}${ENTER}`],
  ];
}

describe('init on a terminal', () => {
  it('asks, keeps the key in a file of its own, and shows it nowhere', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const { code, shown, left } = await atTheKeyboard(directory, questions(service.url));
    expect(code, shown).toBe(0);
    expect(left).toEqual([]);
    expect(shown).not.toContain(KEY);
    expect(service.seen[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    const written = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    expect(written).toContain('apiKeyFile: "./tidemark.key"');
    expect(written).toContain('sync: { cron: "0 * * * *"');
    expect(written).not.toContain(KEY);
    expect(readFileSync(join(directory, 'tidemark.key'), 'utf8')).toBe(`${KEY}\n`);
    expect(statSync(join(directory, 'tidemark.key')).mode & 0o777).toBe(0o600);
  });

  it('asks again for the name where the key was pasted in its place', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const steps = questions(service.url);
    const { code, shown, left } = await atTheKeyboard(directory, [
      ...steps.slice(0, 4),
      ['Name of the source', `${KEY}${ENTER}`],
      ['this is an API key, not a name', `\u0015harbor${ENTER}`],
      ...steps.slice(5),
    ]);
    expect([code, left], shown).toEqual([0, []]);
    expect(readFileSync(join(directory, 'tidemark.yaml'), 'utf8')).toContain('name: "harbor"');
  });

  it.each([
    ['typed', [], [['Name of the source', `${KEY}${ENTER}`]]],
    ['given by --name', ['--name', KEY], []],
  ] as const)(
    'asks again for a name, %s, that turns out to be the key once that is given again',
    async (_how, args, name) => {
      const service = await FakeService.start();
      service.quirks.push(
        ({ headers }, response) =>
          headers.authorization !== `Bearer ${KEY}` &&
          respond(response, 401, '{"detail":"Invalid API key."}'),
      );
      const directory = scratch();
      const steps = questions(service.url);
      const { code, shown, left } = await atTheKeyboard(
        directory,
        [
          ...steps.slice(0, 2),
          ['API key (not shown)', `harbor-for-the-mirror${ENTER}`],
          ...steps.slice(3, 4),
          ...name,
          ['Nothing can be read', ENTER],
          ...steps.slice(1, 4),
          ['Name of the source', `harbor${ENTER}`],
          ...steps.slice(5),
        ],
        {},
        args,
      );
      expect([code, left], shown).toEqual([0, []]);
      expect(shown).toContain('the name of the source: this is an API key, not a name');
      expect(readFileSync(join(directory, 'tidemark.yaml'), 'utf8')).toContain('name: "harbor"');
    },
  );

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])(
    'is left at question %i with nothing behind',
    async (at) => {
      const service = await FakeService.start();
      const directory = scratch();
      const steps = questions(service.url).slice(0, at + 1);
      const [words] = steps[at]!;
      const { code } = await atTheKeyboard(directory, [...steps.slice(0, at), [words, CTRL_C]]);
      expect(code).toBe(130);
      expect(readdirSync(directory)).toEqual([]);
    },
  );

  it('shows all answers before it writes, and asks again for any that the user wants to change', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const change: Step = ['Write tidemark.yaml?', `${DOWN}${DOWN}${ENTER}`];
    const { code, shown, left } = await atTheKeyboard(directory, [
      ...questions(service.url).slice(0, -1),
      change,
      ['Which one?', `${DOWN.repeat(4)}${ENTER}`],
      ['When should the daemon sync?', `${DOWN}${DOWN}${ENTER}`],
      change,
      ['Which one?', ENTER],
      ['Address of the service', `${service.url}${ENTER}`],
      ['Where is the API key?', ENTER],
      ['API key (not shown)', `another-key${ENTER}`],
      ['Keep it in this file', ENTER],
      ['Name of the source', `harbor${ENTER}`],
      ['What kind of deployment', ENTER],
      change,
      ['Which one?', `${DOWN.repeat(6)}${ENTER}`],
      ['Write tidemark.yaml?', `${DOWN}${ENTER}`],
    ]);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    expect(shown).toContain('0 * * * * (UTC)');
    expect(shown).not.toContain(KEY);
    expect(shown).not.toContain('another-key');
    const written = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    expect(written).toContain('sync: { cron: "0 2 * * *"');
    expect(written).toContain('name: "harbor"');
    expect(readFileSync(join(directory, 'tidemark.key'), 'utf8')).toBe('another-key\n');
  });

  it('a key pasted at a choice chooses nothing, not even with the Enter behind it, and is shown nowhere', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const [address, where, ...others] = questions(service.url);
    const steps = [
      address!,
      [where![0], `jkl-${KEY}\t${ENTER}`],
      ['Nothing can be typed', ENTER],
      ...others,
    ] as Step[];
    const { code, shown, left } = await atTheKeyboard(directory, steps);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    expect(shown).not.toContain(KEY);
    expect(readFileSync(join(directory, 'tidemark.key'), 'utf8')).toBe(`${KEY}\n`);
  });

  it('asks again for what cannot be, and takes a variable that is set', async () => {
    const service = await FakeService.start();
    service.quirks.push(({ path }, response) => path.endsWith('/plugins/') && notFound(response));
    const directory = scratch();
    const env = { TIDEMARK_API_KEY: KEY };
    const { code, shown } = await atTheKeyboard(
      directory,
      [
        ['Address of the service', `foo${ENTER}`],
        ['did you mean https://foo?', `${'\u007f'.repeat(3)}ftp://x${ENTER}`],
        ['expected an http', `${'\u007f'.repeat(7)}${service.url}${ENTER}`],
        ['TIDEMARK_API_KEY is set', ENTER],
        ['Name of the variable', ENTER],
        ['Name of the source', `harbor${ENTER}`],
        ['What kind of deployment', ENTER],
        ['Leave these kinds out?', ENTER],
        ...questions('').slice(6),
      ],
      env,
    );
    expect(code, shown).toBe(0);
    const written = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    expect(written).toContain('apiKey: ${TIDEMARK_API_KEY}');
    expect(written).toContain('kinds: { exclude: [plugins, session_recordings, recording_sharing] }');
  });

  it('asks again for a key that is refused and for an address that is none, with a line for each', async () => {
    const service = await FakeService.start();
    service.quirks.push(
      ({ headers }, response) =>
        headers.authorization !== `Bearer ${KEY}` && respond(response, 401, '{"detail":"Invalid API key."}'),
    );
    const page = await FakeService.start();
    page.quirks.push((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html><title>Log in</title></html>');
      return true;
    });
    const directory = scratch();
    const again = 'Nothing can be read';
    const { code, shown, left } = await atTheKeyboard(directory, [
      ['Address of the service', `${service.url.replace('http:', 'https:')}${ENTER}`],
      ['Where is the API key?', ENTER],
      ['API key (not shown)', `mistyped-key${ENTER}`],
      ['Keep it in this file', ENTER],
      ['Name of the source', ENTER],
      [again, ENTER],
      ['Address of the service', `${page.url}${ENTER}`],
      [again, ENTER],
      ['Address of the service', `${service.url}/${ENTER}`],
      [again, ENTER],
      ['Where is the API key?', ENTER],
      // As pasted: with a space before it and line ends behind it, of which the first ends the answer.
      ['API key (not shown)', ` ${KEY} ${ENTER}`],
      ['Keep it in this file', ENTER],
      ...questions('').slice(5),
    ]);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    expect(shown).not.toContain(KEY);
    expect(shown).not.toContain('mistyped-key');
    for (const line of [
      'does not speak https at this port',
      'an HTML page instead of JSON',
      'the key was refused (401)',
      'check the key that you entered; a revoked or mistyped key is refused',
    ])
      expect(shown).toContain(line);
    expect(readFileSync(join(directory, 'tidemark.yaml'), 'utf8')).toContain(`baseUrl: "${service.url}"`);
    expect(readFileSync(join(directory, 'tidemark.key'), 'utf8')).toBe(`${KEY}\n`);
  });

  it('where nothing can be read, writes only if told to', async () => {
    const service = await FakeService.start();
    service.quirks.push((_request, response) => respond(response, 401, '{"detail":"Invalid API key."}'));
    const steps = questions(service.url).slice(0, 5);
    const no = scratch();
    expect(
      (await atTheKeyboard(no, [...steps, ['Nothing can be read', `${DOWN}${DOWN}${DOWN}${ENTER}`]])).code,
    ).toBe(5);
    expect(readdirSync(no)).toEqual([]);
    const yes = scratch();
    const told = await atTheKeyboard(yes, [
      ...steps,
      ['Nothing can be read', `${DOWN}${DOWN}${ENTER}`],
      ...questions('').slice(6, -1),
      ['Write tidemark.yaml?', ENTER],
    ]);
    expect(told.code, told.shown).toBe(0);
    expect(existsSync(join(yes, 'tidemark.yaml'))).toBe(true);
  });

  it('proposes the backups again as they were answered', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const recipient = 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p';
    const backups = (where: string, target: string, encryption: string): Step[] => [
      ['Where should backups', where],
      ['Address', target],
      ['Encrypt for these age recipients', encryption],
    ];
    const asked = questions(service.url);
    const { code, shown, left } = await atTheKeyboard(directory, [
      ...asked.slice(0, 8),
      ...backups(`${DOWN}${DOWN}${ENTER}`, `s3://bucket/tidemark${ENTER}`, `${recipient}${ENTER}`),
      ...asked.slice(9, -1),
      ['Write tidemark.yaml?', `${DOWN}${DOWN}${ENTER}`],
      ['Which one?', `${DOWN.repeat(3)}${ENTER}`],
      ...backups(ENTER, ENTER, ENTER),
      ['Write tidemark.yaml?', `${DOWN}${ENTER}`],
    ]);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    const written = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    expect(written).toContain('targets: ["s3://bucket/tidemark"]');
    expect(written).toContain(`recipients: ["${recipient}"]`);
  });

  it('sets up notices, backups, a unit, the first sync and the baseline, all at the end, with secrets in files', async () => {
    const service = await FakeService.start();
    const hook = await FakeService.start();
    let tests = 0;
    hook.quirks.push(({ path }, response) => {
      if (path === '/refused') return respond(response, 403, 'no');
      tests += 1;
      return respond(response, 200, 'ok');
    });
    const directory = scratch();
    mkdirSync(join(directory, '.git', 'info'), { recursive: true });
    const steps: Step[] = [
      ...questions(service.url).slice(0, 6),
      ['Mirror session recordings', `${DOWN}${ENTER}`],
      ['Where should alerts go?', `${DOWN}${ENTER}`],
      ['Where is the incoming webhook URL?', `${DOWN}${ENTER}`],
      ['Name of the variable', ENTER],
      ['is not set in this environment', ''],
      ['Where is the incoming webhook URL?', ENTER],
      ['The incoming webhook URL (not shown)', `${hook.url}/refused${ENTER}`],
      ['Keep it in this file', ENTER],
      ['What now?', ENTER],
      ['Where should alerts go?', `${DOWN}${ENTER}`],
      ['Where is the incoming webhook URL?', ENTER],
      ['The incoming webhook URL (not shown)', `${hook.url}/T0/secret${ENTER}`],
      ['Keep it in this file', ENTER],
      ['Where else should alerts go?', `${DOWN}${ENTER}`],
      ['Where is the incoming webhook URL?', ENTER],
      ['The incoming webhook URL (not shown)', `${hook.url}/T1/secret${ENTER}`],
      ['Keep it in this file', ENTER],
      ['Where else should alerts go?', ENTER],
      ['Where should backups', `${DOWN}${ENTER}`],
      ['Directory', ENTER],
      ['does not exist. Create it?', ENTER],
      ['Encrypt for these age recipients', ENTER],
      ['When should the daemon sync?', `${DOWN}${DOWN}${ENTER}`],
      ['What should start it?', `${DOWN}${ENTER}`],
      ['Write it to', `${join(directory, 'units', 'tidemark.service')}${ENTER}`],
      ['Write tidemark.yaml?', ENTER],
      ['Make that state the baseline', ENTER],
    ];
    const stopped = await atTheKeyboard(directory, [
      ...steps.slice(0, -1),
      ['Make that state the baseline', CTRL_C],
    ]);
    expect(stopped.code).toBe(130);
    expect(readdirSync(directory)).toEqual(['.git']);
    expect(readdirSync(join(directory, '.git', 'info'))).toEqual([]);
    const { code, shown, left } = await atTheKeyboard(directory, steps);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    // Twice each: the first time, it was stopped.
    expect(tests).toBe(4);
    expect(shown).toContain('a test notice was delivered to slack');
    expect(shown).toContain('backups are not encrypted');
    expect(shown).not.toMatch(/T[01]\/secret/);
    expect(shown).not.toContain('next: `tidemark sync`');
    const written = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    expect(written).toContain(
      'notices:\n  - { name: ops, type: slack, urlFile: "./tidemark-slack.secret" }\n' +
        '  - { name: ops-2, type: slack, urlFile: "./tidemark-slack-2.secret" }\n',
    );
    expect(written).toContain('targets: ["./backups"]');
    expect(written).toContain('# kinds: { exclude: [session_recordings');
    expect(written).not.toContain('T0/secret');
    expect(statSync(join(directory, 'tidemark-slack.secret')).mode & 0o777).toBe(0o600);
    expect(statSync(join(directory, 'backups')).isDirectory()).toBe(true);
    expect(readFileSync(join(directory, '.git', 'info', 'exclude'), 'utf8')).toBe(
      '/tidemark.key\n/tidemark-slack.secret\n/tidemark-slack-2.secret\n/tidemark.env\n/backups\n',
    );
    expect(readFileSync(join(directory, 'units', 'tidemark.service'), 'utf8')).toContain(
      '"daemon" "--config"',
    );
    expect(shown).toContain('drift is measured from approved');
    expect(shown).toContain('Yes, and run the first sync and backup');
    expect(shown).toMatch(/drift is measured from approved[^]*run 1 backed up to/);
    expect(readdirSync(join(directory, 'backups'))).toHaveLength(2);
  });

  it('keeps a typed key in a directory that it creates, and asks again where there can be none', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    writeFileSync(join(directory, 'taken'), '');
    const key = 'etc/tidemark/key';
    const { code, shown, left } = await atTheKeyboard(directory, [
      ...questions(service.url).slice(0, 3),
      ['Keep it in this file', `taken/key${ENTER}`],
      ['taken is not a directory', `${'\u007f'.repeat(9)}${key}${ENTER}`],
      ...questions(service.url).slice(4),
    ]);
    expect(left).toEqual([]);
    expect(code, shown).toBe(0);
    expect(readFileSync(join(directory, key), 'utf8')).toBe(`${KEY}\n`);
    expect(statSync(join(directory, 'etc')).mode & 0o777).toBe(0o700);
  });

  it('writes a unit that outlives the cache of npx, and runs as the user who made it', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const cache = join(directory, '_npx', '1');
    mkdirSync(cache, { recursive: true });
    writeFileSync(join(directory, 'main.js'), '');
    symlinkSync(join(directory, 'main.js'), join(cache, 'tidemark'));
    const steps: Step[] = [
      ...questions(service.url).slice(0, 10),
      ['What should start it?', `${DOWN}${ENTER}`],
      ['Write it to', `./tidemark.service${ENTER}`],
      ['Write tidemark.yaml?', `${DOWN}${ENTER}`],
    ];
    const { code, shown } = await atTheKeyboard(directory, steps, {}, [], join(cache, 'tidemark'));
    expect(code, shown).toBe(0);
    const unit = readFileSync(join(directory, 'tidemark.service'), 'utf8');
    expect(unit).toContain(`"${join(realpathSync(directory), 'main.js')}" "daemon"`);
    expect(unit).not.toContain('_npx');
    // It is to be copied to /etc, where root would start it.
    expect(unit).toContain(`User=${userInfo().username}\n`);
    expect(unit).toContain('WantedBy=multi-user.target\n');
    expect(shown).toMatch(/to\s+\/etc\/systemd\/system,\s+then/);
  });
});
