/** Who accepted removals that were held: in the audit log, with the run that carried them out. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { collectionKey, scopeKey } from '../../src/catalog/catalog.ts';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { settledRemovals } from '../../src/state/held-names.ts';
import { commandActor } from '../../src/core/actor.ts';
import { type World, world } from './comparison.ts';
import { commandLine } from './command-line.ts';
import { program, scratch, start } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { FakeService, ORG, organizationPaths, respond } from './service.ts';
import { receiver } from '../daemon/notices/receiver.ts';
import { alterFile } from '../tools/alter.ts';

const { via } = commandActor();
const EXPORTS = Array.from({ length: 12 }, (_, n) => ({
  id: `b${n}`,
  name: `Export ${n}`,
  team_id: 1,
  paused: false,
}));

interface Entry {
  readonly entry: number;
  readonly action: string;
  readonly by: string;
  readonly via: string;
  readonly source: string;
  readonly removals: Readonly<Record<string, unknown>>;
}

/** All exports are gone from the service, and run 2 holds their removals. */
async function held(): Promise<World> {
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  found.service.set('batch_exports', EXPORTS);
  await found.expectRun(0, 'sync');
  found.service.set('batch_exports', []);
  await found.expectRun(3, 'sync');
  return found;
}

it('are all that is to do: the list counts as read, in a sync and in the status', async () => {
  const { expectRun } = await held();
  const { stderr } = await expectRun(3, 'sync', '--quiet');
  expect(stderr).toContain('is partial');
  expect(stderr).not.toContain('was not read');
  const { stdout } = await expectRun(3, 'status');
  expect(stdout).toContain('One thing needs you');
  expect(stdout).toMatch(/Complete +Uncertain +12 removals held/);
  expect(stdout).not.toContain('the last sync was partial');
});

async function entries({ expectRun }: World, ...more: string[]): Promise<readonly Entry[]> {
  const { stdout } = await expectRun(0, 'audit', '--json', ...more);
  return (JSON.parse(stdout) as { entries: Entry[] }).entries;
}

const shortened = (text: string): string => text.replaceAll(/ {2,}/g, ' | ');

/** The exports are gone from both sources, and both hold their removals. */
async function heldInTwo(mirror: string) {
  const services = [await FakeService.start(), await FakeService.start()] as const;
  const cwd = scratch();
  const kinds = 'kinds: { include: [organizations, batch_exports] }, retry: { attempts: 1 }';
  const sources = ['acme', 'beta'].map(
    (name, index) =>
      `  - { name: ${name}, baseUrl: "${services[index]?.url ?? ''}", apiKey: key-of-${name}, ${kinds} }`,
  );
  writeFileSync(join(cwd, 'tidemark.yaml'), [`mirror: "${mirror}"`, 'sources:', ...sources].join('\n'), {
    mode: 0o600,
  });
  const expectRun = async (code: number, ...args: string[]) => {
    const ended = await commandLine(args, { env: {}, cwd });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  for (const service of services) service.set('batch_exports', EXPORTS);
  await expectRun(0, 'sync');
  for (const service of services) service.set('batch_exports', []);
  const { stdout } = await expectRun(3, 'sync');
  return { services, expectRun, stdout };
}

it('are named by `drift` and `runs show` while they are held, and no longer', async () => {
  const { expectRun } = await held();
  await expectRun(0, 'snapshots', 'pin', 'base', 'run:1');
  await expectRun(0, 'snapshots', 'baseline', 'base');
  const line =
    '12 batch exports are missing, their removal is held: Export 0, Export 1, Export 10, Export 11, Export 2 and 7 more';
  const drift = await expectRun(3, 'drift');
  expect(drift.stdout.split('\n')[2]).toMatch(
    new RegExp(
      `^${line}; no other differences in what could be compared \\(.* compared: \\d+ unchanged, 12 missing with their removal held\\)`,
    ),
  );
  expect(drift.stdout).toMatch(
    /\n\n`tidemark diff latest live --kind batch_exports` shows what is missing\n`tidemark restore --kind batch_exports` plans to restore them\nif they were really removed: `tidemark sync --accept-removals 12` \(held until you accept it or a run after \S+ confirms it\)\n$/,
  );
  const elsewhere = await expectRun(0, 'drift', '--kind', 'roles');
  expect(elsewhere.stdout).toMatch(/^No differences \(/m);
  expect(elsewhere.stdout).not.toContain('accept-removals');
  expect(drift.stderr).not.toContain('are missing');
  const inJson = await expectRun(3, 'drift', '--json');
  expect([inJson.stdout.includes('are missing'), inJson.stderr]).toEqual([
    false,
    expect.stringContaining(line),
  ]);
  expect((await expectRun(0, 'runs', 'show', '2')).stdout).toContain(`${line}\n`);
  expect((await expectRun(0, 'runs', 'show', '1')).stdout).not.toContain('are missing');
  await expectRun(0, 'sync', '--accept-removals', '12');
  for (const args of [['drift'], ['runs', 'show', '2'], ['runs', 'show', '3']])
    expect((await expectRun(args[0] === 'drift' ? 2 : 0, ...args)).stdout).not.toContain('are missing');
});

it('are named by a narrowed `drift` only where they are of what it is about', async () => {
  const OTHER = '0190aaaa-0000-7000-8000-000000000002';
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  const { service, expectRun } = found;
  const organizations = [
    { id: ORG, name: 'Harbor', teams: [{ id: 1 }] },
    { id: OTHER, name: 'Quay', teams: [] },
  ];
  service.lists.set(
    '/api/organizations/',
    organizations.map((each) => JSON.stringify(each)),
  );
  for (const path of organizationPaths(OTHER)) service.lists.set(path, []);
  service.lists.set(`/api/organizations/${OTHER}/batch_exports/`, ['{"id":"o1","name":"Other"}']);
  service.set('batch_exports', EXPORTS);
  service.set('roles', [{ id: 'r1', name: 'Crew' }]);
  const memberships = `/api/organizations/${ORG}/roles/r1/role_memberships/`;
  service.lists.set(memberships, ['{"id":"m1"}', '{"id":"m2"}']);
  await expectRun(0, 'sync');
  await expectRun(0, 'snapshots', 'pin', 'base', 'run:1', '--baseline');
  service.set('batch_exports', []);
  service.set('roles', []);
  service.lists.delete(memberships);
  await expectRun(3, 'sync');
  const said = async (code: number, ...args: string[]): Promise<string> => {
    const inMarkdown = await expectRun(code, 'drift', ...args, '--format', 'markdown');
    const inText = await expectRun(code, 'drift', ...args);
    const inJson = await expectRun(code, 'drift', ...args, '--json');
    const areMissing = [inMarkdown.stdout, inText.stdout, inJson.stderr].map((text) => /missing/.test(text));
    expect(new Set(areMissing).size, args.join(' ')).toBe(1);
    return inText.stdout;
  };
  const ofOther = [
    ['--organization', OTHER],
    ['--organization', 'Quay', '--kind', 'batch_exports'],
    ['--id', 'o1', '--kind', 'batch_exports'],
    ['--kind', 'domains'],
  ];
  for (const args of ofOther) {
    const code = args.includes('--id') ? 3 : 0;
    expect(await said(code, ...args), args.join(' ')).not.toContain('missing');
  }

  const own = await said(3, '--organization', ORG, '--kind', 'batch_exports');
  expect(own).toContain('12 batch exports are missing, their removal is held: ');
  const narrowed = `--kind batch_exports --organization ${ORG}`;
  expect(own).toContain(
    `\`tidemark diff latest live ${narrowed}\` shows what is missing\n\`tidemark restore ${narrowed}\` plans`,
  );
  // These alone are all that is held of the kind.
  expect(own).toContain(
    'if they were really removed: `tidemark sync --accept-removals 12 --kind batch_exports`',
  );
  const one = await said(3, '--id', 'b3', '--kind', 'batch_exports');
  expect(one).toContain('1 batch export is missing, its removal is held: Export 3');
  expect(one).toContain(
    'if it and all else that is held were really removed: `tidemark sync --accept-removals 15`',
  );
  // What is below a missing record is missing too.
  const below = await said(3, '--kind', 'role_memberships');
  expect(below).toContain('1 role and 2 below it are missing, their removal is held: Crew');
  expect(below).not.toContain('accept-removals');
});

describe.each([
  ['one mirror', './mirror.db'],
  ['a mirror each', './{source}.db'],
])('removals that two sources of %s hold', (_name, mirror) => {
  it('are accepted in the source that is named only, as every hint says it', async () => {
    const { services, expectRun, stdout } = await heldInTwo(mirror);
    for (const source of ['acme', 'beta']) {
      const commands = ['sync --accept-removals 12', 'diff latest live --kind batch_exports'];
      for (const command of [...commands, 'restore --kind batch_exports'])
        expect(stdout).toContain(`\`tidemark ${command} --source ${source}\``);
    }
    expect((await expectRun(3, 'sync', '--source', 'beta', '--json')).stdout).toContain(
      '`tidemark sync --accept-removals 12 --source beta`',
    );

    const asked = services.map(({ seen }) => seen.length);
    const refused = await expectRun(4, 'sync', '--accept-removals', '20');
    expect(refused.stdout).toBe('');
    expect(refused.stderr).toContain('acme (12 records) and beta (12 records) hold some');
    expect(refused.stderr).toContain('`tidemark sync --accept-removals 20 --source acme`');
    expect(services.map(({ seen }) => seen.length)).toEqual(asked);

    await expectRun(0, 'sync', '--accept-removals', '20', '--source', 'beta');
    // Of one that holds some, another may hold more by the time that it is read.
    const again = await expectRun(4, 'sync', '--accept-removals', '20');
    expect(again.stderr).toContain('acme (12 records) holds some');
    const { stdout: log } = await expectRun(0, 'audit', '--json');
    const { entries: found } = JSON.parse(log) as { entries: Entry[] };
    expect(found).toMatchObject([{ action: 'accept_removals', source: 'beta', removals: { accepted: 12 } }]);
    await expectRun(0, 'sync', '--accept-removals', '12', '--source', 'acme', '--source', 'beta');
    expect((await expectRun(4, 'sync', '--accept-removals', '1')).stderr).toContain(
      'none of the 2 sources holds any',
    );
  });
});

interface DriftCounts {
  readonly summary: Readonly<Record<string, unknown>>;
  readonly compared: { readonly records: number };
}

describe('held removals', () => {
  it('of several lists of a kind have one line, and one hint, unless with -v', async () => {
    const { service, expectRun } = await world();
    const list = (n: number): string => `/api/organizations/${ORG}/roles/r${n}/role_memberships/`;
    const roles = [1, 2, 3];
    service.set(
      'roles',
      roles.map((n) => ({ id: `r${n}`, name: `R${n}` })),
    );
    for (const role of roles)
      service.lists.set(
        list(role),
        Array.from({ length: 1 + role }, (_, n) => `{"id":"m${role}-${n}","user_uuid":"u${n}"}`),
      );
    await expectRun(0, 'sync');
    for (const role of roles) service.lists.set(list(role), []);
    service.set('batch_exports', EXPORTS);
    await expectRun(3, 'sync', '--quiet');
    service.set('batch_exports', []);
    const { stdout } = await expectRun(3, 'sync');
    expect(stdout).toMatch(
      /^role_memberships \(.*\) and 2 others: held: the lists no longer show 9 records; their removal is held until you accept it or (?:a run after .+ confirms it|later runs confirm it, of the first after .+)$/m,
    );
    expect(stdout.match(/role_memberships \(/g)).toHaveLength(1);
    expect(stdout).toContain(
      '  → `tidemark diff latest live --source default --kind role_memberships` shows them; -v lists each\n' +
        '  → restore cannot create role_memberships with this profile: create them by hand, or configure a profile that can write them\n' +
        '  → `tidemark sync --accept-removals 9 --kind role_memberships --source default` removes all held role_memberships now\n',
    );
    expect(stdout).toContain('any of its 12 records');
    const each = await expectRun(3, 'sync', '-v');
    expect(each.stdout.match(/^role_memberships \(.*: held: the list no longer shows/gm)).toHaveLength(3);
    expect((await expectRun(3, 'status')).stdout).toContain('--accept-removals 21');
    // The number of one list covers neither kind, and a run of one kind leaves the other one held.
    const hints = each.stdout.matchAll(/`tidemark (sync --accept-removals [^`]*)` removes/g);
    const commands = [...new Set([...hints].map(([, command = '']) => command))];
    expect(commands.sort()).toEqual([
      'sync --accept-removals 12 --kind batch_exports --source default',
      'sync --accept-removals 9 --kind role_memberships --source default',
    ]);
    for (const command of commands) await expectRun(0, ...command.split(' '));
    expect((await expectRun(3, 'status')).stdout).not.toContain('accept-removals');
  });

  it('are counted by their own kind, and the records below them apart', async () => {
    const { service, expectRun } = await world();
    const roles = Array.from({ length: 4 }, (_, n) => ({ id: `r${n}`, name: `R${n}` }));
    service.set('roles', roles);
    for (const { id } of roles)
      service.lists.set(`/api/organizations/${ORG}/roles/${id}/role_memberships/`, [
        '{"id":"m1","user_uuid":"u1"}',
        '{"id":"m2","user_uuid":"u2"}',
      ]);
    await expectRun(0, 'sync');
    service.set('roles', []);
    await expectRun(3, 'sync', '--quiet');
    expect((await expectRun(3, 'sync', '--accept-removals', '3', '--quiet')).stderr).toContain(
      '12 removals are held (4 roles with 8 records below), and --accept-removals 3 allows 3: this run accepts none\n',
    );
    await expectRun(0, 'snapshots', 'pin', 'base', 'run:1');
    await expectRun(0, 'snapshots', 'baseline', 'base');
    const drift = await expectRun(3, 'drift', '--json');
    const { summary, compared } = JSON.parse(drift.stdout) as DriftCounts;
    expect(summary).toMatchObject({ held: 12, unchanged: compared.records - 12 });
  });

  it('of several lists of several kinds have one command for all of them, and one for each kind', async () => {
    const { service, expectRun } = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const lists = ['o1', 'o2'].flatMap((id) =>
      ['domains', 'invites'].map((kind) => `/api/organizations/${id}/${kind}/`),
    );
    service.lists.set('/api/organizations/', ['{"id":"o1","name":"One"}', '{"id":"o2","name":"Two"}']);
    for (const path of lists)
      service.lists.set(
        path,
        [1, 2, 3].map((n) => `{"id":"${path.replaceAll('/', '-')}${n}","domain":"${n}.example"}`),
      );
    const sync = ['sync', '--kind', 'organizations', '--kind', 'domains', '--kind', 'invites'];
    await expectRun(0, ...sync);
    for (const path of lists) service.lists.set(path, []);
    const { stdout } = await expectRun(3, ...sync);
    const commands = [...stdout.matchAll(/`tidemark (sync --accept-removals [^`]*)` removes/g)].map(
      ([, command = '']) => command,
    );
    expect(commands).toEqual([
      'sync --accept-removals 12 --kind invites --kind domains --source default',
      'sync --accept-removals 6 --kind invites --source default',
      'sync --accept-removals 6 --kind domains --source default',
    ]);
    await expectRun(0, ...(commands[0] ?? '').split(' '));
    expect((await expectRun(0, ...sync)).stdout).not.toContain('accept-removals');
  });

  it('are printed once where stdout and stderr go to one file, and in both where they do not', async () => {
    const { env, directory } = await held();
    const text = 'the list no longer shows any of its 12 records';
    const printed = async (...stdio: ('pipe' | number)[]): Promise<void> => {
      const child = spawn(process.execPath, [program, 'sync'], {
        ...{ env: { ...env, PATH: process.env['PATH'] ?? '' }, cwd: directory },
        stdio: ['ignore', ...stdio],
      });
      child.stdout?.resume();
      child.stderr?.resume();
      const [code] = (await once(child, 'close')) as [number];
      expect(code).toBe(3);
    };
    const file = (name: string): number => openSync(join(directory, name), 'a');
    const both = file('both.log');
    await printed(both, both);
    const together = readFileSync(join(directory, 'both.log'), 'utf8');
    expect(together.split(text)).toHaveLength(2);
    expect(together).toContain('tidemark: run 3 of default is partial\n');
    await printed(file('out.log'), file('err.log'));
    expect(readFileSync(join(directory, 'out.log'), 'utf8')).toContain(text);
    expect(readFileSync(join(directory, 'err.log'), 'utf8')).toContain(text);
  });
});

const NONE = { accepted: [], restored: 0, confirmed: 0 };

describe('how held removals ended', () => {
  it.each<[string, (found: World) => Promise<unknown>, object]>([
    [
      'accepted by somebody',
      ({ expectRun }) => expectRun(0, 'sync', '--accept-removals', '20', '--as', 'Ann Lee'),
      {
        accepted: [{ records: 12, by: 'Ann Lee', via: commandActor().via, run: 3 }],
        restored: 0,
        confirmed: 0,
      },
    ],
    [
      'confirmed by a later run',
      (found) => {
        found.env['TIDEMARK_REMOVALS_CONFIRM_AFTER'] = '1ms';
        return found.expectRun(0, 'sync');
      },
      { accepted: [], restored: 0, confirmed: 12 },
    ],
    [
      'the records are back',
      ({ service, expectRun }) => {
        service.set('batch_exports', EXPORTS);
        return expectRun(0, 'sync');
      },
      { accepted: [], restored: 0, confirmed: 0 },
    ],
  ])('%s', async (_name, end, expected) => {
    const found = await held();
    const mirror = openMirror(found.env['TIDEMARK_MIRROR'] ?? '', {
      ...{ mode: 'read', command: 'test', clock: systemClock },
    });
    onTestFinished(() => mirror.close());
    const collections = new Set(
      mirror.runs.heldRemovals('default').map(({ kind, scope }) => `${kind} ${scopeKey(scope)}`),
    );
    const since = mirror.runs.get(2)?.finishedAt ?? '';
    await end(found);
    expect(settledRemovals(mirror, 'default', { collections, since })).toEqual(expected);
    const others = new Set([`roles ${scopeKey({ organization_id: ORG })}`]);
    expect(settledRemovals(mirror, 'default', { collections: others, since })).toEqual(NONE);
  });
});

it('held removals of records that a restore created again do not count as confirmed', async () => {
  const story = await Story.start();
  story.env['TIDEMARK_REMOVALS_MAX_RECORDS'] = '1';
  story.env['TIDEMARK_REMOVALS_MAX_SHARE'] = '0';
  const settings = {
    model: 'events',
    interval: 'day',
    paused: true,
    destination: { type: 'NoOp', config: {} },
  };
  const ids: string[] = [];
  for (const name of ['One', 'Two', 'Three'])
    ids.push(
      String((await story.call('POST', `${ORGANIZATION}batch_exports/`, { name, ...settings }))['id']),
    );
  await story.expectRun(0, 'sync', '--quiet');
  for (const id of ids) await story.call('DELETE', `${ORGANIZATION}batch_exports/${id}/`);
  await story.expectRun(3, 'sync', '--quiet');
  const mirror = openMirror(story.file('mirror.db'), { mode: 'read', command: 'test', clock: systemClock });
  onTestFinished(() => mirror.close());
  const [waiting] = mirror.runs.heldRemovals('default');
  expect(waiting).toMatchObject({ kind: 'batch_exports', records: 3 });
  await story.applied(0, 'restore', 'run:2', '--apply', '--id', ids[0]!, '--id', ids[1]!);
  // The third one alone is within the limit, and still waits.
  await story.expectRun(3, 'sync', '--quiet');
  expect(mirror.runs.heldRemovals('default')).toMatchObject([{ kind: 'batch_exports', records: 1 }]);
  story.env['TIDEMARK_REMOVALS_CONFIRM_AFTER'] = '1ms';
  await story.expectRun(0, 'sync', '--quiet');
  const collections = new Set([collectionKey(waiting!)]);
  const since = mirror.runs.get(3)?.finishedAt ?? '';
  const settled = settledRemovals(mirror, 'default', { collections, since });
  expect(settled).toEqual({ accepted: [], restored: 2, confirmed: 1 });
});

describe('accepted removals', () => {
  it('are recorded with who accepted them, in which run, and how many of which collection', async () => {
    const found = await held();
    await found.expectRun(0, 'sync', '--accept-removals', '20', '--as', 'Ann Lee', '--quiet');
    const [entry, ...others] = await entries(found);
    expect(others).toEqual([]);
    expect(entry).toMatchObject({
      ...{ entry: 1, action: 'accept_removals', by: 'Ann Lee', via, source: 'default' },
      removals: {
        ...{ run: 3, source: 'default', at_most: 20, accepted: 12, below: 0, removed: 12 },
        collections: [
          { kind: 'batch_exports', scope: { organization_id: ORG }, accepted: 12, below: 0, removed: 12 },
        ],
      },
    });
    const said = '12 records, of at most 20: 12 batch exports';
    expect(shortened((await found.expectRun(0, 'audit')).stdout)).toContain(
      ` | Ann Lee (${via}) | accept_removals | run 3 | ${said}`,
    );
    const csv = (await found.expectRun(0, 'audit', '--format', 'csv')).stdout.split('\r\n')[1];
    expect(csv).toMatch(
      /^1,[^,]+Z,Ann Lee,[^,]+,accept_removals,run 3,"12 records, of at most 20: 12 batch exports",default,,,,,,,,,,3,,,,[0-9a-f]{64},false,$/,
    );
    expect((await found.expectRun(0, 'audit', '--format', 'html')).stdout).toContain(`${said}</td>`);
    expect(await entries(found, '--action', 'accept_removals', '--source', 'default')).toHaveLength(1);
  });

  it('are named with the run', async () => {
    const found = await held();
    await found.expectRun(0, 'sync', '--accept-removals', '12', '--as', 'ann', '--quiet');
    const show = async (...args: string[]): Promise<string> =>
      (await found.expectRun(0, 'runs', 'show', ...args)).stdout;
    expect(await show('3')).toContain(
      `removals accepted by ann (${via}): 12 records, of at most 12: 12 batch exports (entry 1 of the audit log)`,
    );
    expect(await show('3')).toContain(`started by command of ann (${via})`);
    expect(await show('2')).not.toContain('accepted');
    expect(JSON.parse(await show('3', '--json'))).toMatchObject({
      ...{ trigger: 'command', by: 'ann', via },
      accepted_removals: { entry: 1, by: 'ann', via, at_most: 12, accepted: 12, below: 0, removed: 12 },
    });
    expect(JSON.parse(await show('2', '--json'))).toMatchObject({ by: via, accepted_removals: null });
  });

  it('are accepted only by a number that covers all of them: a smaller one does not say which were looked at', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const domains = Array.from({ length: 3 }, (_, n) => ({ id: `d${n}`, domain: `d${n}.example` }));
    found.service.set('batch_exports', EXPORTS);
    found.service.set('domains', domains);
    await found.expectRun(0, 'sync');
    found.service.set('batch_exports', []);
    found.service.set('domains', []);
    await found.expectRun(3, 'sync', '--quiet');
    const refused = await found.expectRun(3, 'sync', '--accept-removals', '12', '--quiet');
    expect(refused.stderr).toContain(
      '15 removals are held (3 domains, 12 batch exports), and none of them was accepted: --accept-removals 12 allows 12\n',
    );
    expect(refused.stderr).toContain(
      'accept all of them: `tidemark sync --accept-removals 15 --source default`',
    );
    expect(refused.stderr).toContain(
      'those of one kind: `tidemark sync --accept-removals 3 --kind domains --source default` or `tidemark sync --accept-removals 12 --kind batch_exports --source default`',
    );
    // A run that was limited to kinds: its number covers these alone.
    const limited = await found.expectRun(
      3,
      ...['sync', '--accept-removals', '1', '--kind', 'domains', '--quiet'],
    );
    expect(limited.stderr).toContain('`tidemark sync --accept-removals 3 --kind domains --source default`');
    expect(limited.stderr).not.toContain('those of one kind');
    expect(await entries(found)).toEqual([]);
    await found.expectRun(0, 'sync', '--accept-removals', '12', '--kind', 'batch_exports', '--quiet');
    expect(await entries(found)).toMatchObject([{ removals: { accepted: 12, removed: 12 } }]);
    await found.expectRun(0, 'sync', '--accept-removals', '3', '--quiet');
    expect(await entries(found)).toHaveLength(2);
  });

  it.each([401, 403, 404, 500])(
    'are not asked for again with the same number after an answer with %d: nobody knows whether it covers them',
    async (status) => {
      const found = await held();
      found.service.quirks.push(
        ({ path }, response) =>
          path.endsWith('/batch_exports/') && respond(response, status, '{"detail":"no"}'),
      );
      const limit = ['--kind', 'batch_exports', '--accept-removals', '12'];
      const { code, stdout, stderr } = await found.run('sync', ...limit);
      expect(code).not.toBe(0);
      expect(stdout + stderr).not.toContain('did not cover');
      expect(stdout + stderr).not.toContain('accept all of them');
    },
  );

  it('are recorded only where a removal was held', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    found.service.set('batch_exports', EXPORTS);
    await found.expectRun(0, 'sync');
    found.service.set('batch_exports', EXPORTS.slice(1));
    await found.expectRun(0, 'sync', '--accept-removals', '20', '--quiet');
    // More than are accepted: all stay.
    found.service.set('batch_exports', []);
    await found.expectRun(3, 'sync', '--accept-removals', '10', '--quiet');
    expect(await entries(found)).toEqual([]);
  });

  it('are not recorded where none of them was gone, nor where the run failed', async () => {
    const found = await held();
    found.service.quirks.push(({ path }, response) => {
      const [, id] = /\/batch_exports\/(b\d+)\/$/.exec(path) ?? [];
      return id === undefined ? false : respond(response, 200, JSON.stringify({ id, name: 'there' }));
    });
    await found.expectRun(3, 'sync', '--accept-removals', '12', '--quiet');
    found.service.quirks.push((_request, response) => respond(response, 500, '{}'));
    await found.expectRun(1, 'sync', '--accept-removals', '12', '--quiet');
    expect(await entries(found)).toEqual([]);
  });

  it('name how many of them were really removed', async () => {
    const found = await held();
    found.service.quirks.push(({ path }, response) =>
      path.endsWith('/batch_exports/b3/')
        ? respond(response, 200, JSON.stringify({ ...EXPORTS[3], name: 'there' }))
        : false,
    );
    await found.expectRun(3, 'sync', '--accept-removals', '12', '--quiet');
    const [entry] = await entries(found);
    expect(entry).toMatchObject({
      by: via,
      removals: { accepted: 12, removed: 11, collections: [{ accepted: 12, removed: 11 }] },
    });
    expect((await found.expectRun(0, 'audit')).stdout).toContain(
      '12 records, of at most 12: 12 batch exports (11 removed)',
    );
  });

  it('are compared by verify with what the run removed', async () => {
    const found = await held();
    await found.expectRun(0, 'sync', '--accept-removals', '12', '--quiet');
    await found.expectRun(0, 'verify');
    alterFile(join(found.directory, 'mirror.db'), `UPDATE audit_log SET row = replace(row, '12', '11')`);
    const { stdout } = await found.expectRun(1, 'verify');
    expect(stdout).toContain('is not as it was written');
    expect(stdout).toContain('says that run 3 removed 11 batch_exports, not 12');
  });
});

it('are announced by the next `daemon --once`, once, where a sync by hand has held them and none is due', async () => {
  const hook = await receiver({ status: 200 });
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  const file = join(scratch(), 'notices.yaml');
  writeFileSync(file, `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]\n`);
  found.env['TIDEMARK_CONFIG'] = file;
  found.service.set('batch_exports', EXPORTS);
  await found.expectRun(0, 'daemon', '--once', '--quiet');
  found.service.set('batch_exports', []);
  await found.expectRun(3, 'sync');
  for (const _call of [1, 2]) await found.run('daemon', '--once', '--quiet');
  const events = hook.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);
  expect(events).toEqual(['removals_held']);
});

/** A world whose daemon has no sync of its own due, and a channel. */
async function notifying() {
  const hook = await receiver({ status: 200 });
  const found = await world({
    TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0',
    TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
    TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *',
  });
  const file = join(scratch(), 'notices.yaml');
  writeFileSync(file, `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]\n`);
  found.env['TIDEMARK_CONFIG'] = file;
  return { hook, found };
}

it('are announced by a daemon that runs when a sync by hand accepts them, at once and once, with the drift', async () => {
  const { hook, found } = await notifying();
  found.service.set('batch_exports', EXPORTS);
  await found.expectRun(0, 'sync');
  await found.expectRun(0, 'snapshots', 'pin', 'base');
  await found.expectRun(0, 'snapshots', 'baseline', 'base');
  const { child } = start(['daemon'], { env: found.env, cwd: found.directory });
  onTestFinished(() => void child.kill('SIGKILL'));
  const events = (): string[] =>
    hook.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);
  let log = '';
  child.stderr?.on('data', (text: string) => (log += text));
  await expect.poll(() => log, { timeout: 15_000 }).toContain('daemon started');
  found.service.set('batch_exports', []);
  await found.expectRun(3, 'sync');
  await expect.poll(events, { timeout: 15_000 }).toEqual(['removals_held']);
  await found.expectRun(0, 'sync', '--kind', 'batch_exports', '--accept-removals', '12');
  await expect.poll(events, { timeout: 15_000 }).toEqual(['removals_held', 'removals_settled', 'drift_new']);
  await found.expectRun(0, 'sync');
  expect(events()).toHaveLength(3);
});

it('of roles are one notice, though the lists of their memberships are gone with them', async () => {
  const hook = await receiver({ status: 200 });
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  const file = join(scratch(), 'notices.yaml');
  writeFileSync(file, `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]\n`);
  found.env['TIDEMARK_CONFIG'] = file;
  const memberships = `/api/organizations/${ORG}/roles/r1/role_memberships/`;
  found.service.set('roles', [{ id: 'r1', name: 'Pilots' }]);
  found.service.lists.set(memberships, ['{"id":"m1","user_uuid":"u1"}']);
  await found.expectRun(0, 'daemon', '--once', '--quiet');
  found.service.set('roles', []);
  found.service.quirks.push(
    ({ path }, response) => path === memberships && respond(response, 404, '{"detail":"Not found."}'),
  );
  const { stdout } = await found.expectRun(3, 'sync');
  expect(stdout).toContain('missing: there is nothing at this path (404)');
  await found.run('daemon', '--once', '--quiet');
  const events = hook.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);
  expect(events).toEqual(['removals_held']);
});

describe.each(['a daemon that runs', '`daemon --once`'])(
  'removals of records with lists below them: %s',
  (how) => {
    it('names the run that settled them, and does not call the one before incomplete', async () => {
      const { hook, found } = await notifying();
      const roles = Array.from({ length: 8 }, (_, n) => `r${n}`);
      const below = (role: string): string => `/api/organizations/${ORG}/roles/${role}/role_memberships/`;
      found.service.set(
        'roles',
        roles.map((id) => ({ id, name: id })),
      );
      for (const role of roles)
        found.service.lists.set(
          below(role),
          Array.from({ length: 7 }, (_, n) => `{"id":"${role}m${n}"}`),
        );
      await found.expectRun(0, 'sync');
      const isOnce = how !== 'a daemon that runs';
      const look = async (): Promise<void> => {
        if (isOnce) await found.run('daemon', '--once', '--quiet');
      };
      if (!isOnce) {
        const { child } = start(['daemon'], { env: found.env, cwd: found.directory });
        onTestFinished(() => void child.kill('SIGKILL'));
        let log = '';
        child.stderr?.on('data', (text: string) => (log += text));
        await expect.poll(() => log, { timeout: 15_000 }).toContain('daemon started');
      }
      const told = (): unknown[] =>
        hook.received.map(({ body }) => {
          const { event, run } = JSON.parse(body) as { event: string; run: number | null };
          return [event, run];
        });
      found.service.set('roles', []);
      for (const role of roles) found.service.lists.delete(below(role));
      await found.expectRun(3, 'sync', '--accept-removals', '1');
      await look();
      await expect.poll(told, { timeout: 15_000 }).toEqual([['removals_held', 2]]);
      // As the command says for these alone.
      await found.expectRun(0, 'sync', '--accept-removals', '64', '--kind', 'roles');
      await look();
      await expect.poll(told, { timeout: 15_000 }).toHaveLength(2);
      await look();
      expect(told()).toEqual([
        ['removals_held', 2],
        ['removals_settled', 3],
      ]);
    });
  },
);
