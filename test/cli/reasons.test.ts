/** What ends with 1, 3, 5 or 6 says why on stderr: of that alone a person hears where cron keeps stdout. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Ended, commandLine } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService, forbidden, ORG, respond, type Quirk } from '../journeys/service.ts';

const domain = (id: string, name = `${id}.example`): string => `{"id":"${id}","domain":"${name}"}`;
const DOMAINS = `/api/organizations/${ORG}/domains/`;

const domainsDenied: Quirk = ({ path }, response) =>
  path === DOMAINS && forbidden(response, 'organization:read');
const allDenied: Quirk = (_request, response) => forbidden(response, 'organization:read');
const allFailing: Quirk = (_request, response) => respond(response, 500, '{"detail":"down"}');
const keyRefused: Quirk = (_request, response) =>
  respond(
    response,
    401,
    '{"type":"authentication_error","code":"authentication_failed","detail":"Invalid key."}',
  );

interface Scene {
  readonly service: FakeService;
  readonly cwd: string;
  readonly run: (...words: string[]) => Promise<Ended>;
}

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  readonly quirk?: Quirk;
  /** False: no run came before. */
  readonly isSynced?: boolean;
  /** What else comes before it, before the quirk. */
  readonly before?: (scene: Scene) => Promise<void>;
  /** Whether a run with the quirk comes before the command. */
  readonly isSyncedWithQuirk?: boolean;
  readonly code: number;
  readonly says: RegExp;
}

const CASES: readonly Case[] = [
  {
    name: 'sync, one list denied',
    args: ['sync'],
    quirk: domainsDenied,
    code: 3,
    says: /default is partial[^]*domains.*denied/,
  },
  {
    name: 'sync, service down',
    args: ['sync'],
    quirk: allFailing,
    code: 1,
    says: /default failed[^]*500/,
  },
  { name: 'sync, key refused', args: ['sync'], quirk: keyRefused, code: 5, says: /default failed[^]*key/ },
  {
    name: 'diff, one list denied',
    args: ['diff'],
    quirk: domainsDenied,
    code: 3,
    says: /not compared: .*[Dd]omains/,
  },
  { name: 'diff, all denied', args: ['diff'], quirk: allDenied, code: 5, says: /organization:read/ },
  { name: 'diff, service down', args: ['diff'], quirk: allFailing, code: 1, says: /500/ },
  {
    name: 'drift --live, one list denied',
    args: ['drift', '--from', 'run:1', '--live'],
    quirk: domainsDenied,
    code: 3,
    says: /not compared: .*[Dd]omains/,
  },
  {
    name: 'restore, one list denied',
    args: ['restore'],
    quirk: domainsDenied,
    code: 3,
    says: /not compared: .*[Dd]omains/,
  },
  {
    name: 'doctor, one list denied',
    args: ['doctor'],
    quirk: domainsDenied,
    code: 3,
    says: /domains[^]*organization:read/,
  },
  { name: 'doctor, service down', args: ['doctor'], quirk: allFailing, code: 1, says: /500/ },
  { name: 'doctor, key refused', args: ['doctor'], quirk: keyRefused, code: 5, says: /key/ },
  {
    name: 'status, one list denied',
    args: ['status'],
    quirk: domainsDenied,
    isSyncedWithQuirk: true,
    code: 3,
    says: /default is not complete[^]*domains[^]*denied/,
  },
  {
    name: 'status, the last sync failed',
    args: ['status'],
    quirk: allFailing,
    isSyncedWithQuirk: true,
    code: 3,
    says: /the last sync of default failed; the mirror is complete as of run 1\n[^]*run 2 failed/,
  },
  {
    name: 'drill, one list denied',
    args: ['drill'],
    quirk: domainsDenied,
    isSynced: false,
    isSyncedWithQuirk: true,
    code: 3,
    says: /not in the snapshot: .*[Dd]omains/,
  },
  { name: 'export, no mirror', args: ['export'], isSynced: false, code: 1, says: /sync/ },
  { name: 'verify, no mirror', args: ['verify'], isSynced: false, code: 1, says: /sync|mirror/ },
  {
    name: 'restore, more removals than allowed',
    args: ['restore', 'run:1', '--prune', '--max-removals', '1'],
    before: async ({ service, run }) => {
      service.lists.set(
        DOMAINS,
        ['d1', 'd2', 'd3'].map((id) => domain(id)),
      );
      expect((await run('sync')).code).toBe(0);
    },
    code: 6,
    says: /2 .*1/,
  },
  {
    name: 'apply, live has moved on',
    args: ['apply', 'plan.json', '--yes'],
    before: async ({ service, run }) => {
      service.lists.set(DOMAINS, [domain('d1', 'two.example')]);
      const planned = await run('restore', 'run:1', '--out', 'plan.json');
      expect(planned.code, planned.stderr).toBe(2);
      service.lists.set(DOMAINS, [domain('d1', 'three.example')]);
    },
    code: 6,
    says: /the service has changed since the plan/,
  },
  {
    name: 'apply, key refused',
    args: ['apply', 'plan.json', '--yes'],
    before: async ({ service, run }) => {
      service.lists.set(DOMAINS, [domain('d1', 'two.example')]);
      expect((await run('restore', 'run:1', '--out', 'plan.json')).code).toBe(2);
    },
    quirk: keyRefused,
    code: 5,
    says: /key/,
  },
  {
    name: 'backup create, the directory cannot be made',
    args: ['backup', 'create'],
    before: ({ cwd }) => {
      writeFileSync(join(cwd, 'taken'), '');
      writeFileSync(
        join(cwd, 'tidemark.yaml'),
        'mirror: ./mirror.db\nbackup: { targets: [./taken/backups] }\nsources: [{ name: default, baseUrl: "${TIDEMARK_BASE_URL}", apiKey: "${TIDEMARK_API_KEY}" }]\n',
      );
      return Promise.resolve();
    },
    code: 1,
    says: /taken/,
  },
  {
    name: 'notify test, the channel fails',
    args: ['notify', 'test'],
    before: ({ cwd }) => {
      writeFileSync(
        join(cwd, 'tidemark.yaml'),
        'mirror: ./mirror.db\nnotices: [{ name: hook, type: webhook, url: "http://127.0.0.1:9/" }]\nsources: [{ name: default, baseUrl: "${TIDEMARK_BASE_URL}", apiKey: "${TIDEMARK_API_KEY}" }]\n',
      );
      return Promise.resolve();
    },
    code: 1,
    says: /hook/,
  },
  { name: 'daemon --check, no daemon', args: ['daemon', '--check'], code: 1, says: /no daemon/ },
];

const FLAGS = [[], ['--json'], ['--quiet'], ['--json', '--quiet']] as const;

// None of these commands changes what the next one meets.
describe('with and without --json and --quiet', () => {
  it.each(CASES)(
    '$name: exit $code and why',
    async ({ args, before, quirk, isSynced, isSyncedWithQuirk, code, says }) => {
      const service = await FakeService.start();
      service.lists.set(DOMAINS, ['{"id":"d1","domain":"one.example"}']);
      const cwd = scratch();
      const env = environment(service.url, cwd, { TIDEMARK_RETRY_ATTEMPTS: '1' });
      const run = (...words: string[]) => commandLine(words, { env, cwd });
      if (isSynced !== false) expect((await run('sync')).code).toBe(0);
      await before?.({ service, cwd, run });
      if (quirk !== undefined) service.quirks.push(quirk);
      if (isSyncedWithQuirk === true) await run('sync');
      for (const flags of FLAGS) {
        const ended = await run(...args, ...flags);
        const about = `with ${JSON.stringify(flags)}: ${ended.stderr}`;
        expect(ended.stderr, about).toMatch(says);
        expect(ended.code, about).toBe(code);
        // Once: the same reason twice would be noise.
        const lines = ended.stderr.split('\n').filter((line) => line.startsWith('tidemark: '));
        expect(new Set(lines).size, about).toBe(lines.length);
        if (flags.some((flag) => flag === '--json'))
          expect(() => void JSON.parse(ended.stdout), about).not.toThrow();
      }
    },
  );
});

it('says nothing where a command ends well, or finds differences', async () => {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = environment(service.url, cwd);
  const run = (...words: string[]) => commandLine(words, { env, cwd });
  expect(await run('sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
  service.lists.set(DOMAINS, ['{"id":"d1","domain":"one.example"}']);
  expect(await run('diff', '--quiet')).toMatchObject({ code: 2, stderr: '' });
});

it('names the configuration file in the commands of a reason, as in hints', async () => {
  const service = await FakeService.start();
  service.quirks.push(domainsDenied);
  const cwd = scratch();
  const env = environment(service.url, cwd);
  writeFileSync(
    join(cwd, 'other.yaml'),
    'mirror: ./mirror.db\nsources: [{ name: default, baseUrl: "${TIDEMARK_BASE_URL}", apiKey: "${TIDEMARK_API_KEY}" }]\n',
  );
  const run = (...words: string[]) => commandLine([...words, '--config', 'other.yaml'], { env, cwd });
  expect((await run('sync')).code).toBe(3);
  const { stderr } = await run('status');
  const commands = stderr.match(/`tidemark [^`]*`/g) ?? [];
  expect(commands.length, stderr).toBeGreaterThan(0);
  for (const command of commands) expect(command).toContain(' --config other.yaml');
});

it.each([
  ['failed', allFailing, 1, /default failed[^]*500/],
  ['partial', domainsDenied, 3, /default is partial\n {2}domains .*denied/],
] as const)(
  'sync --quiet says of a %s run on stderr alone what cron would mail twice',
  async (_outcome, quirk, exitCode, says) => {
    const service = await FakeService.start();
    service.quirks.push(quirk);
    const cwd = scratch();
    const env = environment(service.url, cwd, { TIDEMARK_RETRY_ATTEMPTS: '1' });
    const { code, stdout, stderr } = await commandLine(['sync', '--quiet'], { env, cwd });
    expect(code, stderr).toBe(exitCode);
    expect(stdout).toBe('');
    expect(stderr).toMatch(says);
  },
);

it.each([['sync', '--quiet'], ['sync']])(
  'a command warns in plain text, as cron mails it: %s',
  async (...args) => {
    const service = await FakeService.start();
    const nameless = '{"count":1,"next":null,"previous":null,"results":[{"name":"x"}]}';
    service.quirks.push(({ path }, response) => path.endsWith('/roles/') && respond(response, 200, nameless));
    const cwd = scratch();
    const { stderr } = await commandLine(args, { env: environment(service.url, cwd), cwd });
    expect(stderr).toMatch(
      /^tidemark: warning: (default: )?roles: records without an id were not mirrored$/m,
    );
    expect(stderr).not.toContain('{"level"');
  },
);

describe('an outage of the service during a sync', () => {
  const outage = (): Quirk => {
    let number = 0;
    return ({ path }, response) => {
      if (path === '/api/organizations/' || path.endsWith('/projects/')) return false;
      number += 1;
      return respond(response, 502 + (number % 3), '<h1>down</h1>');
    };
  };
  const failing = async (...words: string[]): Promise<Ended> => {
    const service = await FakeService.start();
    service.quirks.push(outage());
    const cwd = scratch();
    const env = environment(service.url, cwd, { TIDEMARK_RETRY_ATTEMPTS: '1' });
    return commandLine(words, { env, cwd });
  };
  const hints = (text: string): number => text.split('\n').filter((line) => /^ *→/.test(line)).length;

  it('is named once, with the number of collections and what reads them again', async () => {
    const { code, stdout, stderr } = await failing('sync');
    expect(code, stderr).toBe(3);
    expect(hints(stdout), stdout).toBe(1);
    expect(stdout).toMatch(
      /\d+ collections of \d+ kinds: failed: the service failed \(50\d\) and 2 other errors\n {2}→ the next sync reads them again; -v lists each/,
    );
    // Of the run's problems, and the last line of the reason.
    expect(hints(stderr), stderr).toBe(2);
  });

  it('is listed for each collection with -v', async () => {
    const { stdout } = await failing('sync', '-v');
    for (const status of [502, 503, 504]) expect(stdout).toContain(`the service failed (${status})`);
    // The advice is the same for all of them.
    expect(hints(stdout), stdout).toBe(1);
  });
});

it('lists that come back empty although their records exist are one line, whatever each had', async () => {
  const service = await FakeService.start();
  const lists = new Map([
    [DOMAINS, ['d1', 'd2']],
    [`/api/organizations/${ORG}/proxy_records/`, ['p1', 'p2', 'p3']],
  ]);
  for (const [path, ids] of lists) {
    service.lists.set(
      path,
      ids.map((id) => domain(id)),
    );
    for (const id of ids) service.objects.set(`${path}${id}/`, domain(id));
  }
  const cwd = scratch();
  const env = environment(service.url, cwd);
  expect((await commandLine(['sync'], { env, cwd })).code).toBe(0);
  for (const path of lists.keys()) service.lists.set(path, []);
  const { stdout, stderr } = await commandLine(['sync', '-v'], { env, cwd });
  expect(stdout).toMatch(
    /^domains \(\S+ \S+\), proxy_records \(\S+ \S+\): incomplete: the lists are empty, and records of each exist by id: nothing was removed\n {2}→/m,
  );
  expect(stderr).not.toContain('{"level"');
});

it('names some of the kinds that one reason is for and counts the others: a lost organization is a line to read', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: scratch() });
  expect((await run('sync', '--quiet')).code).toBe(0);
  service.quirks.push(
    ({ path }, response) =>
      path.startsWith(`/api/organizations/${ORG}/`) && forbidden(response, 'organization:read'),
  );
  const { code, stderr } = await run('diff', 'latest', 'live', '--quiet');
  expect(code).toBe(3);
  const [line = ''] = stderr.split('\n');
  expect(line).toMatch(
    /^tidemark: not compared: (?:[^:]* \(organization [^)]*\),? ?){6} and \d+ more kinds: /,
  );
});
