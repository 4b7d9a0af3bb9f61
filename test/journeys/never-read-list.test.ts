/** Lists that every run was denied, or that always failed: what may be in them is nowhere denied. */
import { expect, it } from 'vitest';
import { world, type World } from './comparison.ts';
import { forbidden, organizationPaths, ORG, respond } from './service.ts';

const TERN = '0190aaaa-0000-7000-8000-000000000002';

/** Plugins are denied, roles fail; batch exports are denied of Tern, and read of Harbor, from the second run on denied as well. */
async function deniedWorld(): Promise<World> {
  const made = await world();
  const { service, expectRun } = made;
  const organization = (id: string, name: string, teams: object[]): string =>
    JSON.stringify({ id, name, teams });
  service.lists.set('/api/organizations/', [
    organization(ORG, 'Harbor', [{ id: 1 }]),
    organization(TERN, 'Tern', []),
  ]);
  for (const path of organizationPaths(TERN)) service.lists.set(path, []);
  service.set('batch_exports', [{ id: 'b1', name: 'Nightly' }]);
  let isLater = false;
  service.quirks.push(({ path }, response) => {
    if (/\/plugins\/$/.test(path)) return forbidden(response, 'plugin:read');
    if (/\/roles\/$/.test(path)) return respond(response, 500, '{}');
    if (path === `/api/organizations/${TERN}/batch_exports/` || (isLater && /domains\/$/.test(path)))
      return forbidden(response, 'batch_export:read');
    return false;
  });
  await expectRun(3, 'sync', '--quiet');
  isLater = true;
  await expectRun(3, 'sync', '--quiet');
  return made;
}

it('each command that looks for a record says which list was never read', async () => {
  const { run } = await deniedWorld();
  const plugins =
    /is not known\n.*the list of plugins of organization Harbor \(.*\) was never read \(denied: .*plugin:read/;
  const roles = /the list of roles of organization Harbor \(.*\) was never read completely \(failed/;
  const tern =
    /the list of batch exports of organization Tern \(.*\) was never read \(denied: .*\n.*→ give the key the permission batch_export:read, .*`tidemark doctor`/;
  const stale =
    /not in the list of domains of organization Harbor \(.*\) when it was last read completely, in run 1; not read since \(denied/;
  const cases: readonly (readonly [code: number, said: RegExp, ...args: string[]])[] = [
    ...['show', 'log', 'blame'].flatMap((command): [number, RegExp, ...string[]][] => [
      [3, plugins, command, 'plugins', '122'],
      [3, plugins, command, 'plugins', '122', '--organization', 'Harbor'],
      [3, roles, command, 'roles', 'Ops'],
      [3, roles, command, 'role_memberships', 'm1'],
      [3, tern, command, 'batch_exports', 'b9'],
      [3, tern, command, 'batch_exports', 'b9', '--organization', 'Tern'],
      [4, /the mirror has no batch export/, command, 'batch_exports', 'b9', '--organization', 'Harbor'],
      [4, stale, command, 'domains', 'd9'],
    ]),
    ...[['export'], ['export', '--history'], ['changes']].flatMap(
      (command): [number, RegExp, ...string[]][] => [
        [3, plugins, ...command, '--kind', 'plugins', '--id', '122'],
        [3, tern, ...command, '--kind', 'batch_exports', '--id', 'b9'],
        [
          4,
          /no record .*b9/,
          ...command,
          '--kind',
          'batch_exports',
          '--id',
          'b9',
          '--organization',
          'Harbor',
        ],
        [4, stale, ...command, '--kind', 'domains', '--id', 'd9'],
      ],
    ),
    [0, /Nightly/, 'show', 'batch_exports', 'b1'],
    [0, /Nightly/, 'export', '--kind', 'batch_exports', '--id', 'b1'],
  ];
  for (const [code, said, ...args] of cases) {
    const ended = await run(...args);
    const text = `${ended.stdout}${ended.stderr}`;
    expect(text, args.join(' ')).toMatch(said);
    expect(ended.code, `${args.join(' ')}\n${text}`).toBe(code);
  }

  // The run that read domains last is one that no command shows any more.
  await run('sync', '--quiet');
  expect((await run('forget', '--keep-last', '2')).code).toBe(0);
  expect((await run('show', 'domains', 'd9')).stderr).toContain(
    'completely, in a run that was forgotten; not',
  );
  const { stdout } = await run('diff', 'run:2', 'run:3', '--kind', 'domains');
  expect(stdout).toContain('last read by a run that was forgotten');
  expect(stdout).not.toContain('run 1');
});
