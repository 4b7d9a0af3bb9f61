/** `show`, `log` and `blame` through the command line, over a history of four runs. */
import { describe, expect, it } from 'vitest';
import { type Ended, environment, scratch } from './harness.ts';
import { commandLine } from './command-line.ts';
import { FakeService, forbidden, ORG } from './service.ts';

interface Point {
  run: number;
  at: string;
}
interface Log {
  revisions: {
    run: number;
    change: string;
    last_seen_before: Point | null;
    fields: { path: string; from?: unknown; to?: unknown }[];
    returned?: unknown[];
  }[];
}

const NASTY = '\u001b[2J\u202e=cmd()<script>';
const EXPORTS = [
  {
    id: 'b1',
    name: 'Nightly',
    paused: false,
    big: '@@',
    destination: { type: 'S3', config: { bucket: 'a', password: 'hunter2' } },
  },
  { id: 'b2', name: 'Hourly', paused: false },
  { id: 'b3', name: NASTY, paused: false },
];
const text = (records: readonly object[]): string[] =>
  records.map((record) => JSON.stringify(record).replace('"@@"', '12345678901234567890.10'));

/** Four runs: all there; one changed, one gone (run 2); nothing readable (run 3); the gone one is back, changed (run 4). */
async function history(): Promise<(args: readonly string[]) => Promise<Ended>> {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const run = (args: readonly string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
  const sync = async (code: number): Promise<void> => {
    const ended = await run(['sync', '--quiet']);
    expect(ended.code, ended.stderr + ended.stdout).toBe(code);
  };
  service.set('batch_exports', text(EXPORTS));
  service.set('domains', [
    { id: 'd1', domain: 'same.example' },
    { id: 'd2', domain: 'same.example' },
  ]);
  service.set('invites', [{ id: 'c0ffee-invite', target_email: 'mira@example.com', level: 1 }]);
  await sync(0);
  const [nightly, , nasty] = EXPORTS;
  service.set('batch_exports', text([{ ...nightly, paused: true }, nasty!]));
  await sync(0);
  service.quirks.push(({ path }, response) =>
    path.endsWith('/batch_exports/') ? forbidden(response, 'batch_export:read') : false,
  );
  await sync(3);
  service.quirks.length = 0;
  service.set(
    'batch_exports',
    text([{ ...nightly, paused: true }, { id: 'b2', name: 'Hourly', paused: true }, nasty!]),
  );
  await sync(0);
  return run;
}

describe('the history of a record', () => {
  it('is reported by show, log and blame, in text and JSON', async () => {
    const run = await history();
    const json = async (args: readonly string[]): Promise<unknown> => {
      const ended = await run([...args, '--json']);
      expect(ended.code, ended.stderr).toBe(0);
      expect(ended.stdout.match(/\n/g)).toHaveLength(1);
      return JSON.parse(ended.stdout);
    };

    // show: now, and as it was; secrets masked unless asked for; digits kept.
    const now = await run(['show', 'batch_exports', 'b1', '--json']);
    expect(now.stdout).toContain('"big":12345678901234567890.10');
    expect(now.stdout).not.toContain('hunter2');
    expect(JSON.parse(now.stdout)).toMatchObject({
      schema: 'tidemark.show/1',
      kind: 'batch_exports',
      scope: { organization_id: ORG },
      id: 'b1',
      name: 'Nightly',
      source: 'default',
      ref: 'latest',
      run: 4,
      state: 'present',
      first_seen: { run: 1 },
      changed: { run: 2 },
      last_seen: { run: 4 },
      body: { paused: true, destination: { config: { bucket: 'a' } } },
    });
    const then = await run(['show', 'batch_exports', 'b1', '--at', 'run:1', '--show-secrets', '--json']);
    expect(JSON.parse(then.stdout)).toMatchObject({
      ref: 'run:1',
      run: 1,
      changed: { run: 1 },
      body: { paused: false },
    });
    expect(then.stdout).toContain('hunter2');

    // log: the windows know that run 3 saw nothing.
    const log = (await json(['log', 'batch_exports', 'b2'])) as Log;
    expect(log).toMatchObject({
      schema: 'tidemark.log/1',
      kind: 'batch_exports',
      scope: { organization_id: ORG },
      id: 'b2',
    });
    expect(
      log.revisions.map(({ run: number, change, last_seen_before: before }) => [number, change, before?.run]),
    ).toEqual([
      [4, 'added', 2],
      [2, 'removed', 1],
      [1, 'added', undefined],
    ]);
    expect(log.revisions[0]!.returned).toEqual([{ path: '/paused', from: false, to: true }]);
    const nightly = (await json(['log', 'batch_exports', 'b1'])) as Log;
    expect(nightly.revisions[0]).toMatchObject({
      run: 2,
      change: 'changed',
      last_seen_before: { run: 1 },
      fields: [{ path: '/paused', from: false, to: true }],
    });

    // blame: since when each field is as it is.
    const blame = (await json(['blame', 'batch_exports', 'b1', '--deep'])) as {
      schema: string;
      fields: { path: string; value: unknown; since: Point }[];
    };
    expect(blame.schema).toBe('tidemark.blame/1');
    expect(Object.fromEntries(blame.fields.map(({ path, since }) => [path, since.run]))).toEqual({
      '/big': 1,
      '/destination/config/bucket': 1,
      '/destination/config/password': 1,
      '/destination/type': 1,
      '/id': 1,
      '/name': 1,
      '/paused': 2,
    });

    // A record that was gone at that point: what it was, and that it was removed.
    const gone = await run(['show', 'batch_exports', 'b2', '--at', 'run:2']);
    expect(gone.code).toBe(0);
    expect(gone.stdout).toMatch(/^batch export Hourly: removed, as of run 2/);
    expect(gone.stdout).toContain('as it was before it was removed');
    expect(gone.stdout).toContain('paused: false');

    const words = await run(['log', 'batch_exports', 'Hourly']);
    expect(words.stderr).toContain('"Hourly" is batch export b2');
    expect(words.stdout).toContain('organization Harbor (');
    expect(words.stdout).toMatch(/\+ returned by run 4.*\n {6}still away in run 2/);
    expect(words.stdout).toMatch(/- removed by run 2.*\n {6}previous version last seen in run 1/);
    expect(words.stdout).toContain('first seen here; it may be older');
  });

  it('of a time before it existed says so, by its name, and ends with 0', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (args: readonly string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    expect((await run(['sync', '--quiet'])).code).toBe(0);
    service.set('batch_exports', text(EXPORTS));
    expect((await run(['sync', '--quiet'])).code).toBe(0);
    for (const state of ['present', 'removed']) {
      for (const command of ['show', 'blame']) {
        const before = await run([command, 'batch_exports', 'b1', '--at', 'run:1']);
        expect(before.code, before.stderr).toBe(0);
        expect(before.stdout).toMatch(/^batch export Nightly: did not exist yet, as of run 1/);
        expect(before.stderr).toContain('batch export Nightly of default did not exist yet as of run 1');
        const json = await run([command, 'batch_exports', 'b1', '--at', 'run:1', '--json']);
        expect(json.code, state).toBe(0);
        expect(JSON.parse(json.stdout)).toMatchObject({ id: 'b1', name: 'Nightly', first_seen: null });
      }
      service.set('batch_exports', text(EXPORTS.slice(1)));
      expect((await run(['sync', '--quiet'])).code).toBe(0);
    }
  });

  it('has the parents by their names of then, and finds it by a former name of one', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (args: readonly string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    service.set('batch_exports', text(EXPORTS));
    expect((await run(['sync', '--quiet'])).code).toBe(0);
    const organizations = service.lists.get('/api/organizations/') ?? [];
    service.lists.set(
      '/api/organizations/',
      organizations.map((each) => each.replace('"Harbor"', '"Quay"')),
    );
    expect((await run(['sync', '--quiet'])).code).toBe(0);
    for (const command of ['show', 'blame']) {
      const nameOf = async (...args: string[]): Promise<string | undefined> =>
        /organization (\w+) \(/.exec((await run([command, 'batch_exports', 'b1', ...args])).stdout)?.[1];
      expect(await nameOf('--at', 'run:1')).toBe('Harbor');
      expect(await nameOf()).toBe('Quay');
      expect(await nameOf('--at', 'run:2')).toBe('Quay');
      expect(await nameOf('--organization', 'Harbor')).toBe('Quay');
    }
    const found = await run(['log', 'batch_exports', 'Nightly', '--organization', 'Harbor']);
    expect(found.code, found.stderr).toBe(0);
    expect(found.stderr).toContain('Harbor" is organization');
  });

  it('neutralises what a record holds, and masks what is secret, in every text', async () => {
    const run = await history();
    for (const command of ['show', 'log', 'blame']) {
      const nasty = await run([command, 'batch_exports', 'b3']);
      expect(nasty.code, nasty.stderr).toBe(0);
      expect(nasty.stdout).toContain('[2J');
      expect(nasty.stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
      const secret = await run([command, 'batch_exports', 'b1', '--json']);
      expect(secret.stdout).not.toContain('hunter2');
      const invite = await run([command, 'invites', 'c0ffee-invite']);
      expect(invite.stdout).toContain('mira@example.com');
      expect(invite.stdout).not.toContain('c0ffee');
    }
  });

  it('refuses what is not a record, with the nearest one, and asks where several fit', async () => {
    const run = await history();
    for (const [args, said] of [
      [['show', 'batch_export', 'b1'], 'did you mean batch_exports?'],
      [['show', 'batch_exports', 'Nightli'], 'did you mean "Nightly"?'],
      [['log', 'domains', 'same.example'], 'is the name of 2 records'],
      [['show', 'batch_exports', 'b1', '--at', 'run:9'], 'no run 9'],
      [['show', 'batch_exports', 'b1', '--at', 'live'], 'does not name a state of the mirror'],
      [['blame', 'batch_exports', 'b1', '--organization', 'elsewhere'], 'has no organization elsewhere'],
      [['log', 'batch_exports', 'b1', '--limit', '0'], 'expected at least 1'],
      [['changes', '--limit', '0'], 'expected at least 1'],
      [['runs', '--limit', '0'], 'expected at least 1'],
      [['restores', '--limit', '0'], 'expected at least 1'],
    ] as const) {
      const ended = await run(args);
      expect(ended.code, args.join(' ')).toBe(4);
      expect(ended.stderr).toContain(said);
      expect(ended.stderr).toContain('→');
      expect(ended.stdout).toBe('');
    }
    // Told apart only by a secret: the id is not given away.
    const invite = await run(['show', 'invites', 'c0ffee-invit']);
    expect(invite.code).toBe(4);
    expect(invite.stderr.replaceAll('"c0ffee-invit"', '')).not.toContain('c0ffee');
  });
});
