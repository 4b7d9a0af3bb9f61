import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { describe, expect, it } from 'vitest';
import { type DiffJson, type World, DOMAINS, MEMBERS, world } from './comparison.ts';
import { alterFile } from '../tools/alter.ts';
import { mirrorOnce } from './harness.ts';
import { FakeService, forbidden, ORG } from './service.ts';

const FORMATS = ['text', 'json', 'markdown', 'html', 'junit', 'sarif', 'patch'] as const;

interface JUnitElement {
  readonly '@_name'?: string;
  readonly '@_classname'?: string;
  readonly '@_tests'?: string;
  readonly '@_failures'?: string;
  readonly testsuite?: readonly JUnitElement[];
  readonly testcase?: readonly JUnitElement[];
  readonly failure?: readonly unknown[];
}

/** Run 1 with DOMAINS, pinned as `start` and the baseline; run 2 with a domain changed, one removed, one added. */
async function twoRuns(more: Readonly<Record<string, string>> = {}): Promise<World> {
  const it = await world(more);
  const change = (): void =>
    it.service.set('domains', [
      { ...DOMAINS[0], jit_provisioning_enabled: true },
      { id: 'd3', domain: 'three.example', jit_provisioning_enabled: false },
    ]);
  await mirrorOnce(`two runs ${JSON.stringify(more)}`, join(it.directory, 'mirror.db'), async () => {
    await it.expectRun(0, 'sync', '--quiet');
    await it.expectRun(0, 'snapshots', 'pin', 'start');
    await it.expectRun(0, 'snapshots', 'baseline', 'start');
    change();
    await it.expectRun(0, 'sync', '--quiet');
  });
  change();
  return it;
}

const told = ({ changes }: DiffJson): string[] => changes.map(({ id, change }) => `${id} ${change}`).sort();
const CHANGES = ['d1 changed', 'd2 removed', 'd3 added'];

describe('diff of two states of the mirror', () => {
  it('takes every reference, and each means what it says', async () => {
    const { run, diff, expectRun } = await twoRuns();
    const first = await diff(2, 'run:1', 'latest');
    expect(told(first)).toEqual(CHANGES);
    expect(first).toMatchObject({
      schema: 'tidemark.diff/1',
      source: 'default',
      from: { ref: 'run:1', run: 1 },
      to: { ref: 'latest', run: 2 },
      skipped: [],
      stale: [],
      summary: { added: 1, removed: 1, changed: 1 },
    });
    expect(first.changes[0]?.fields).toEqual([{ path: '/jit_provisioning_enabled', from: false, to: true }]);
    const at = first.from.at ?? '';
    for (const from of ['baseline', 'run:-1', 'snapshot:start', at, at.replace('Z', '+00:00')]) {
      const again = await diff(2, from, 'run:2');
      expect({ ...again, from: null, to: null }).toEqual({ ...first, from: null, to: null });
      expect(again.from.run).toBe(1);
    }
    expect(told(await diff(2, 'latest', 'run:1'))).toEqual(['d1 changed', 'd2 added', 'd3 removed']);
    expect(await diff(0, 'run:2', 'latest')).toMatchObject({ changes: [] });

    const assumed = await run('diff', at.replace('Z', ''), 'latest');
    const shown = at.replace(/\.\d+Z/, 'Z');
    expect(assumed.stderr).toContain(`is read as ${shown}`);
    const early = await expectRun(4, 'diff', '2020-01-01T00:00Z', 'latest');
    expect(early.stderr).toContain(shown);
  });

  it('writes every format, with the same exit code', async () => {
    const { directory, expectRun } = await twoRuns();
    const begins: Record<(typeof FORMATS)[number], string> = {
      text: 'run:1 (',
      json: '{',
      markdown: '## ',
      html: '<!doctype html>',
      junit: '<?xml',
      sarif: '{',
      patch: '{',
    };
    for (const format of FORMATS) {
      const { stdout } = await expectRun(2, 'diff', 'run:1', 'run:2', '--format', format);
      expect(stdout.toLowerCase().startsWith(begins[format])).toBe(true);
      expect(stdout).toContain('three.example');
      const file = join(directory, `out.${format}`);
      const into = await expectRun(
        2,
        'diff',
        'run:1',
        'run:2',
        '--format',
        format,
        '--output',
        `out.${format}`,
      );
      expect(into.stdout).toBe('');
      const timeless = (text: string): string => text.replaceAll(/\d{4}-\d\d-\d\d[T ][\d:.]+/g, '');
      expect(timeless(readFileSync(file, 'utf8'))).toBe(timeless(stdout));
    }
    const patch = JSON.parse(readFileSync(join(directory, 'out.patch'), 'utf8')) as {
      records: { id: string; patch: unknown[] }[];
    };
    expect(patch.records.find(({ id }) => id === 'd1')?.patch).toEqual([
      { op: 'replace', path: '/jit_provisioning_enabled', value: true },
    ]);
    await expectRun(4, 'diff', 'run:1', 'run:2', '--json', '--format', 'html');
    // Directories that are missing are made; where a file is in the way, they cannot be.
    await expectRun(2, 'diff', 'run:1', 'run:2', '--output', 'new/directory/out.txt');
    expect(readFileSync(join(directory, 'new/directory/out.txt'), 'utf8')).toContain('three.example');
    const nowhere = await expectRun(1, 'diff', 'run:1', 'run:2', '--output', 'out.text/place');
    expect(nowhere.stderr).toContain('out.text/place');
  });

  it('writes JUnit that is well-formed XML and keeps the main rules of its schema', async () => {
    const { directory, expectRun } = await twoRuns();
    await expectRun(2, 'diff', 'run:1', 'run:2', '--format', 'junit', '--output', 'out.junit');
    const text = readFileSync(join(directory, 'out.junit'), 'utf8');
    // oxlint-disable-next-line typescript/no-deprecated -- it moves to a package of its own, and does the same there
    expect(XMLValidator.validate(text)).toBe(true);
    const list = ['testsuite', 'testcase', 'failure'];
    const parsed = new XMLParser({ ignoreAttributes: false, isArray: (name) => list.includes(name) }).parse(
      text,
    ) as { testsuites: JUnitElement };
    expect(Object.keys(parsed).filter((name) => name !== '?xml')).toEqual(['testsuites']);
    const suites = parsed.testsuites.testsuite ?? [];
    expect(suites.length).toBeGreaterThan(0);
    for (const suite of suites) {
      const cases = suite.testcase ?? [];
      expect(suite['@_name']).toBeTruthy();
      expect(Number(suite['@_tests'])).toBe(cases.length);
      expect(Number(suite['@_failures'])).toBe(cases.filter(({ failure }) => failure !== undefined).length);
      for (const one of cases) {
        expect(one['@_name']).toBeTruthy();
        expect(one['@_classname']).toBeTruthy();
      }
    }
  });

  it('narrows by kind, id, organization, project and field', async () => {
    const { diff, expectRun } = await twoRuns();
    expect(told(await diff(2, 'run:1', 'latest', '--kind', 'domains', '--id', 'd1', '--id', 'd2'))).toEqual([
      'd1 changed',
      'd2 removed',
    ]);
    expect((await diff(0, 'run:1', 'latest', '--kind', 'members')).compared.records).toBe(2);
    expect(told(await diff(2, 'run:1', 'latest', '--organization', ORG))).toEqual(CHANGES);
    expect(told(await diff(0, 'run:1', 'latest', '--project', '1'))).toEqual([]);
    expect(told(await diff(2, 'run:1', 'latest', '--kind', 'domains', '--field', '/domain'))).toEqual([
      'd2 removed',
      'd3 added',
    ]);
    for (const [args, message] of [
      [['--id', 'nobody'], 'no record of either state matches --id nobody'],
      [['--kind', 'roles', '--organization', ORG, '--id', 'd1'], `--organization ${ORG} --id d1`],
      [['--kind', 'domains', '--id', 'u1'], '--kind domains --id u1'],
      [['--field', '/jit_provisioning_enabld'], 'did you mean /jit_provisioning_enabled?'],
      [['--kind', 'members', '--field', '/last_login'], 'is volatile'],
      [['--kind', 'domains', '--field', '/is_verified', '--managed-only'], 'is not managed'],
    ] as const) {
      const { stderr } = await expectRun(
        args.some((arg) => arg === '--field' || arg === '--id') ? 4 : 1,
        'diff',
        'run:1',
        'latest',
        ...args,
      );
      expect(stderr).toContain('nothing was compared');
      expect(stderr).toContain(message);
    }
    const { stderr } = await expectRun(4, 'diff', 'run:1', 'latest', '--organization', 'nobody');
    expect(stderr).toContain('the mirror has no organization nobody');
    await expectRun(4, 'diff', 'run:1', 'latest', '--field', 'paused');
    await expectRun(4, 'diff', 'run:1', 'latest', '--managed-only', '--all');
  });

  it('leaves volatile fields out unless asked, and looks at managed ones only when asked', async () => {
    const { service, diff, expectRun } = await twoRuns();
    service.set('members', [{ ...MEMBERS[0], last_login: '2026-02-02T00:00:00Z', level: 8, joined_at: 'x' }]);
    await expectRun(0, 'sync', '--quiet');
    const paths = async (...args: string[]): Promise<string[]> =>
      (await diff(2, 'run:2', 'latest', '--id', 'u1', ...args)).changes.flatMap(({ fields }) =>
        fields.map(({ path }) => path),
      );
    expect(await paths()).toEqual(['/joined_at', '/level']);
    expect(await paths('--managed-only')).toEqual(['/level']);
    // The earlier state has no values of volatile fields (volatile-fields.test.ts: latest and live have).
    expect(await paths('--all')).toEqual(['/joined_at', '/level']);
  });

  it('says what the mirror could not read freshly, and exits with 3', async () => {
    const { service, diff, expectRun } = await twoRuns();
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false,
    );
    await expectRun(3, 'sync', '--quiet');
    const document = await diff(3, 'run:1', 'latest');
    expect(told(document)).toEqual(CHANGES);
    expect(document.stale).toMatchObject([{ kind: 'domains', scope: { organization_id: ORG }, side: 'to' }]);
    expect(document.stale[0]?.reason).toMatch(/^denied in run 3: .*; last read by run 2$/);
    const people = await expectRun(3, 'diff', 'run:1', 'latest');
    expect(people.stdout).toContain('not fresh: domains');
    // In FROM it only dates what is reported.
    expect((await diff(2, 'latest', 'run:1')).stale).toMatchObject([{ side: 'from' }]);
    const { stdout } = await expectRun(3, 'diff', 'run:1', 'latest', '--format', 'junit');
    expect(stdout).toContain('not fresh: denied in run 3');
  });

  it('does not take what was not asked for yet for something new', async () => {
    const { service, diff, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet', '--kind', 'members');
    await expectRun(0, 'sync', '--quiet');
    const document = await diff(3, 'run:1', 'latest');
    expect(document.changes).toEqual([]);
    expect(document.skipped.find(({ kind }) => kind === 'domains')?.reason).toBe(
      'the mirror had not read it by run 1',
    );
    // What came with a new organization is new, however.
    const other = '0190bbbb-0000-7000-8000-000000000002';
    service.lists.get('/api/organizations/')?.push(JSON.stringify({ id: other, name: 'Pier', teams: [] }));
    for (const [path, records] of [...service.lists]) {
      if (path.includes(ORG))
        service.lists.set(path.replace(ORG, other), path.endsWith('domains/') ? records : []);
    }
    await expectRun(0, 'sync', '--quiet');
    expect(told(await diff(2, 'run:2', 'latest'))).toEqual([`${other} added`, 'd1 added', 'd2 added']);
  });
});

it('does not take sharing that had only not had its turn for something new', async () => {
  const { service, diff, expectRun } = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '2' });
  const path = '/api/projects/1/session_recordings/';
  const ids = ['r1', 'r2', 'r3'];
  service.lists.set(
    path,
    ids.map((id) => JSON.stringify({ id, start_time: '2026-01-01T00:00:00Z' })),
  );
  for (const id of ids) service.objects.set(`${path}${id}/sharing/`, '{"enabled":false}');
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'sync', '--quiet');
  const document = await diff(0, 'run:1', 'latest');
  expect(document.left_out).toMatchObject([{ kind: 'recording_sharing' }]);
  expect(document.left_out[0]?.reason).toContain('perhaps not read yet by run 1');
  // Nor where the kind is named, and drift does not either.
  const named = await diff(0, 'run:1', 'latest', '--kind', 'recording_sharing');
  expect(named.summary).toMatchObject({ added: 0, unchanged: 2 });
  expect(named.left_out).toEqual(document.left_out);
  const drift = await expectRun(0, 'drift', '--from', 'run:1', '--kind', 'recording_sharing');
  expect(drift.stdout).toContain('1 recording sharing: perhaps not read yet by run 1');
  const one = ['--kind', 'recording_sharing', '--id', 'r3'];
  expect((await expectRun(1, 'diff', 'run:1', 'latest', ...one)).stderr).toContain(
    'nothing was compared: recording_sharing: 1 recording sharing: perhaps not read yet by run 1',
  );
  // What was read by then is compared.
  service.objects.set(`${path}r1/sharing/`, '{"enabled":true}');
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'sync', '--quiet');
  expect(told(await diff(2, 'run:1', 'latest', '--kind', 'recording_sharing'))).toEqual(['r1 changed']);
});

describe('a reference that means nothing', () => {
  it.each([
    [['latst'], 4, 'did you mean latest?'],
    [['run:7', 'latest'], 4, 'there is no run 7'],
    [['snapshot:strat', 'latest'], 4, 'did you mean snapshot:start?'],
    [['file:nothing.ndjson', 'latest'], 4, 'no file or directory nothing.ndjson'],
    [['latest', 'live', 'run:1'], 4, ''],
    [['latest', '--kind', 'domain'], 4, 'did you mean domains?'],
    [['latest', '--source', 'nobody'], 4, 'no source nobody'],
  ])('%j', async (args, code, message) => {
    const { expectRun } = await twoRuns();
    const { stderr } = await expectRun(code, 'diff', ...args);
    expect(stderr).toContain(message);
  });

  it('is none without a mirror, a run, or a baseline', async () => {
    const { service, expectRun } = await world();
    expect((await expectRun(1, 'diff', 'run:1', 'latest')).stderr).toContain('tidemark sync');
    service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    await expectRun(5, 'sync', '--quiet');
    const { stderr } = await expectRun(1, 'diff', 'latest', 'live');
    expect(stderr).toContain('no published run');
    expect(stderr).toContain('tidemark sync');
  });
});

describe('diff with an export', () => {
  it.each(['ndjson', 'json', 'yaml'])('written as %s is what the mirror holds', async (format) => {
    const { directory, diff, expectRun } = await twoRuns();
    const { stdout } = await expectRun(0, 'export', '--format', format, '--at', 'run:1');
    writeFileSync(join(directory, `a.${format}`), stdout);
    await expectRun(0, 'export', '--format', format, '--at', 'run:1', '--output', 'tree', '--quiet');
    for (const path of [`a.${format}`, 'tree']) {
      expect(told(await diff(0, `file:${path}`, 'run:1'))).toEqual([]);
      // Lines and streams have no room to say that they are complete: what they lack is not compared.
      const saysIt = path === 'tree' || format === 'json';
      const forth = saysIt ? CHANGES : CHANGES.filter((change) => !change.endsWith(' added'));
      expect(told(await diff(saysIt ? 2 : 3, `file:${path}`, 'latest'))).toEqual(forth);
      const back = ['d1 changed', 'd2 added', 'd3 removed'].filter(
        (change) => saysIt || !change.endsWith(' removed'),
      );
      expect(told(await diff(saysIt ? 2 : 3, 'latest', `file:${path}`))).toEqual(back);
    }
    // Two exports need neither mirror nor configuration.
    const { commandLine } = await import('./command-line.ts');
    const alone = await commandLine(['diff', 'file:tree', `file:a.${format}`], { env: {}, cwd: directory });
    expect(alone.code, alone.stderr).toBe(0);
  });

  it('of some kinds says nothing of the others', async () => {
    const { directory, diff, expectRun } = await twoRuns();
    const { stdout } = await expectRun(0, 'export', '--kind', 'domains', '--at', 'run:1', '--format', 'json');
    writeFileSync(join(directory, 'domains.json'), stdout);
    const args = ['file:domains.json', 'latest'];
    const document = await diff(2, ...args);
    expect(told(document)).toEqual(CHANGES);
    // It says that it was narrowed.
    expect(document.skipped).toEqual([]);
    expect(document.left_out.map(({ kind }) => kind)).toContain('members');
    const { stdout: report } = await expectRun(2, 'diff', ...args);
    expect(report).toMatch(/left out: .*: the export holds none of this kind/);
    expect(told(await diff(2, ...args, '--kind', 'domains'))).toEqual(CHANGES);
  });

  it('that is broken is refused with file and line', async () => {
    const { directory, expectRun } = await twoRuns();
    const { stdout } = await expectRun(0, 'export');
    writeFileSync(join(directory, 'a.ndjson'), `${stdout}{"kind":"domans"}\n`);
    const { stderr } = await expectRun(4, 'diff', 'file:a.ndjson', 'latest');
    expect(stderr).toContain(`a.ndjson:${stdout.split('\n').length}: there is no kind "domans"`);
    mkdirSync(join(directory, 'csv'));
    await expectRun(0, 'export', '--format', 'csv', '--output', 'csv', '--quiet');
    expect((await expectRun(4, 'diff', 'file:csv', 'latest')).stderr).toContain('CSV');
  });
});

describe('diff over several sources', () => {
  async function twoServices(names = ['one', 'two']) {
    const first = await world();
    const second = await FakeService.start();
    const other = '0190cccc-0000-7000-8000-000000000003';
    // The same configuration, every id another.
    second.lists.set('/api/organizations/', [
      JSON.stringify({ id: other, name: 'Copy', teams: [{ id: 9 }] }),
    ]);
    for (const [path, records] of [...first.service.lists]) {
      if (path.includes(ORG)) {
        second.lists.delete(path);
        second.lists.set(
          path.replace(ORG, other),
          records.map((text) => text.replace('"id":"d', '"id":"copy-d').replace('"id":1', '"id":9')),
        );
      }
    }
    second.lists.delete('/api/projects/1/session_recordings/');
    second.lists.set('/api/projects/9/session_recordings/', []);
    writeFileSync(
      join(first.directory, 'tidemark.yaml'),
      [first.service, second]
        .map(
          (service, index) =>
            `  - { name: ${names[index] ?? ''}, baseUrl: "${service.url}", apiKey: "\${KEY}" }\n`,
        )
        .join('')
        .replace(/^/, 'mirror: ./m.db\nsources:\n'),
    );
    const { commandLine } = await import('./command-line.ts');
    const run = (...args: string[]) =>
      commandLine(args, { env: { KEY: 'key-of-both' }, cwd: first.directory });
    return { first: first.service, second, other, run, directory: first.directory };
  }

  it('compares each with itself, and one with the other by natural key', async () => {
    const { first, second, other, run } = await twoServices();
    expect((await run('sync', '--quiet')).code).toBe(0);
    const same = await run('diff', '--source', 'one', '--to-source', 'two', '--json');
    expect(same.code, same.stderr).toBe(2);
    const document = JSON.parse(same.stdout) as DiffJson;
    expect(document).toMatchObject({ from: { source: 'one' }, to: { source: 'two' }, skipped: [] });
    expect(document.changes).toMatchObject([
      { kind: 'organizations', name: 'Copy', fields: [{ path: '/name' }] },
    ]);

    second.lists.set(`/api/organizations/${other}/domains/`, [
      '{"id":"z1","domain":"one.example","jit_provisioning_enabled":true}',
      '{"id":"z2","domain":"two.example","jit_provisioning_enabled":false}',
    ]);
    const live = await run(
      'diff',
      'latest',
      'live',
      '--source',
      'one',
      '--to-source',
      'two',
      '--kind',
      'domains',
      '--json',
    );
    expect(live.code, live.stderr).toBe(2);
    expect((JSON.parse(live.stdout) as DiffJson).changes).toMatchObject([
      { id: 'z1', change: 'changed', fields: [{ path: '/jit_provisioning_enabled', from: false, to: true }] },
    ]);

    first.set('domains', [...DOMAINS, { id: 'd9', domain: 'nine.example' }]);
    const each = await run('diff', '--json');
    expect(each.code, each.stderr).toBe(2);
    const all = JSON.parse(each.stdout) as { schema: string; documents: DiffJson[] };
    expect(all.schema).toBe('tidemark.reports/1');
    expect(all.documents.map(({ source }) => source)).toEqual(['one', 'two']);
    expect(all.documents.map(told)).toEqual([
      ['d9 added'],
      ['copy-d1 removed', 'copy-d2 removed', 'z1 added', 'z2 added'],
    ]);
    expect((await run('diff', '--format', 'html')).code).toBe(4);
    const headings = ['Configuration changes of one', 'Configuration changes of two'];
    expect((await run('diff', '--format', 'markdown')).stdout.match(/(?<=^## ).*$/gm)).toEqual(headings);
    expect((await run('diff')).stdout.match(/^Configuration changes.*$/gm)).toEqual(headings);

    // One that cannot be reached does not hide the other.
    first.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    const half = await run('diff');
    expect(half.code).toBe(3);
    expect(half.stderr).toContain('one: nothing was compared');
    expect(half.stdout).toContain('two.example');
  });

  it('names the source of drift in each report, also of one that was asked for, and in the status', async () => {
    const { first, second, other, run } = await twoServices();
    expect((await run('sync', '--quiet')).code).toBe(0);
    expect((await run('snapshots', 'pin', 'good', '--baseline')).code).toBe(0);
    first.set('domains', [...DOMAINS, { id: 'd9', domain: 'nine.example' }]);
    const domains = `/api/organizations/${other}/domains/`;
    second.lists.set(domains, [
      ...(second.lists.get(domains) ?? []),
      '{"id":"z1","domain":"eight.example"}',
      '{"id":"z2","domain":"nine.example"}',
    ]);
    expect((await run('sync', '--quiet')).code).toBe(0);
    const headings = ['Configuration drift of one', 'Configuration drift of two'];
    const text = await run('drift');
    expect(text.stdout.match(/^Configuration drift.*$/gm), text.stderr).toEqual(headings);
    const markdown = await run('drift', '--format', 'markdown');
    expect(markdown.stdout.match(/(?<=^## ).*$/gm)).toEqual(headings);
    expect((await run('drift', '--source', 'two')).stdout).toMatch(/^Configuration drift of two\n/);
    expect((await run('status')).stdout).toMatch(/Drift +3 findings +.*\(one 1, two 2\), as\s+of/);
  });

  it('never guesses between namesakes', async () => {
    const { second, other, run } = await twoServices();
    second.lists.set(`/api/organizations/${other}/domains/`, [
      '{"id":"z1","domain":"one.example"}',
      '{"id":"z2","domain":"one.example"}',
    ]);
    await run('sync', '--quiet');
    const { code, stdout } = await run(
      'diff',
      '--source',
      'one',
      '--to-source',
      'two',
      '--kind',
      'domains',
      '--json',
    );
    expect(code).toBe(3);
    const document = JSON.parse(stdout) as DiffJson;
    expect(document.skipped).toMatchObject([{ kind: 'domains', name: 'one.example' }]);
    expect(told(document)).toEqual(['d2 removed']);
  });

  it('names the parents of a removed record as its own source does', async () => {
    const { second, other, run } = await twoServices();
    second.lists.set(`/api/organizations/${other}/domains/`, ['{"id":"new","domain":"added.example"}']);
    await run('sync', '--quiet');
    const { stdout } = await run('diff', '--source', 'one', '--to-source', 'two', '--kind', 'domains');
    const back = await run('diff', '--source', 'two', '--to-source', 'one', '--kind', 'domains');
    for (const text of [stdout, back.stdout]) {
      expect(text).toMatch(/organization \w+ \(0190/);
      expect(text).not.toMatch(/organization 0190/);
    }
    expect(stdout).toContain(`organization Copy (${other})`);
    expect(back.stdout).toContain(`organization Copy (${other})`);
  });

  it('says what is added and removed because its parent has another name', async () => {
    const { first, second, other, run } = await twoServices();
    const roles = (name: string) => [`{"id":"r1","name":"${name}"}`];
    const memberships = (service: FakeService, organization: string): void => {
      service.lists.set(
        `/api/organizations/${organization}/roles/r1/role_memberships/`,
        ['m1', 'm2'].map((id) => `{"id":"${id}","user_uuid":"${id}"}`),
      );
    };
    first.lists.set(`/api/organizations/${ORG}/roles/`, roles('Editor'));
    second.lists.set(`/api/organizations/${other}/roles/`, roles('Author'));
    memberships(first, ORG);
    memberships(second, other);
    await run('sync', '--quiet');
    const { stdout } = await run('diff', '--source', 'one', '--to-source', 'two');
    const text = stdout.replaceAll(/\s+/g, ' ');
    const below = 'the 2 records below it are shown as';
    expect(text).toContain(`role "Editor" has no counterpart of its name in two: ${below} removed`);
    expect(text).toContain(`role "Author" has no counterpart of its name in one: ${below} added`);

    const kind = ['--kind', 'role_memberships'];
    const asked = await run('diff', '--source', 'one', '--to-source', 'two', ...kind);
    expect(asked.stdout.replaceAll(/\s+/g, ' ')).toContain(
      `role "Editor" has no counterpart of its name in two: ${below} removed`,
    );
    const { warnings } = JSON.parse(
      (await run('diff', '--source', 'one', '--to-source', 'two', ...kind, '--json')).stdout,
    ) as { warnings: string[] };
    expect(warnings).toEqual([
      `role "Editor" has no counterpart of its name in two: ${below} removed`,
      `role "Author" has no counterpart of its name in one: ${below} added`,
    ]);
  });

  it.each([
    ['one', 'and never read it', true],
    ['two', 'and never read it', true],
    ['one', 'since a run that read it', false],
    ['two', 'since a run that read it', false],
  ])('leaves out a kind that %s excludes %s', async (excluding, _since, isNever) => {
    const { directory, run } = await twoServices();
    if (!isNever) expect((await run('sync', '--quiet')).code).toBe(0);
    const file = join(directory, 'tidemark.yaml');
    const text = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      text.replace(`name: ${excluding},`, `name: ${excluding}, kinds: { exclude: [domains] },`),
    );
    expect((await run('sync', '--quiet')).code).toBe(0);
    const reason = `${excluding}: the configuration excludes the kind`;
    const between = ['--source', 'one', '--to-source', 'two', '--json'];
    for (const states of [[], ['latest', 'live'], ['live', 'latest']]) {
      const { code, stdout } = await run('diff', ...states, ...between);
      expect(code, stdout).toBe(2);
      const document = JSON.parse(stdout) as DiffJson;
      expect(document).toMatchObject({ skipped: [], stale: [] });
      expect(document.left_out).toContainEqual({ kind: 'domains', scope: {}, reason });
      expect(document.changes.map(({ kind }) => kind)).not.toContain('domains');
    }
    // Named, it is compared as it was last read; what was never read cannot be.
    const named = await run('diff', '--kind', 'domains', ...between);
    // As where one source is compared: an older reading of FROM hides nothing.
    expect(named.code, named.stdout).toBe(isNever ? 1 : excluding === 'one' ? 0 : 3);
    expect(named.stdout).toContain('the configuration excludes the kind');
  });

  it('names both configurations where they exclude the kind that is asked for', async () => {
    const { directory, run } = await twoServices();
    const file = join(directory, 'tidemark.yaml');
    const text = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      text.replaceAll(/name: (one|two),/g, 'name: $1, kinds: { exclude: [session_recordings] },'),
    );
    expect((await run('sync', '--quiet')).code).toBe(0);
    const between = ['--source', 'one', '--to-source', 'two'];
    const alone = await run('diff', ...between, '--kind', 'session_recordings');
    expect(alone.code).toBe(1);
    expect(alone.stderr).toContain(
      'nothing was compared: session_recordings: one, two: the configuration excludes the kind\n',
    );
    const kinds = ['--kind', 'session_recordings', '--kind', 'domains'];
    const { code, stdout } = await run('diff', ...between, ...kinds, '--json');
    expect(code, stdout).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      skipped: [],
      left_out: [
        { kind: 'session_recordings', scope: {}, reason: 'one, two: the configuration excludes the kind' },
      ],
    });
  });

  it('names the sources of namesakes, and the source of each note', async () => {
    const { first, second, other, run } = await twoServices();
    const roles = [{ id: 'r1', name: 'Ops' }];
    first.set('roles', [...roles, { id: 'r2', name: 'Ops' }]);
    second.lists.set(`/api/organizations/${other}/roles/`, ['{"id":"r9","name":"Ops"}']);
    for (const path of ['r1', 'r2'].map((id) => `/api/organizations/${ORG}/roles/${id}/role_memberships/`))
      first.lists.set(path, []);
    second.lists.set(`/api/organizations/${other}/roles/r9/role_memberships/`, []);
    expect((await run('sync', '--quiet')).code).toBe(0);
    const pair = await run('diff', '--source', 'one', '--to-source', 'two');
    expect(pair.code).toBe(3);
    expect(pair.stdout).toContain('ambiguous: 2 in one and 1 in two are called "Ops"');
    expect((await run('snapshots', 'pin', 'base', '--baseline')).code).toBe(0);
    expect((await run('sync', '--quiet', '--kind', 'domains')).code).toBe(0);
    for (const args of [['diff', 'snapshot:base', 'latest'], ['drift']]) {
      const { stderr } = await run(...args, '--json');
      const notes = stderr.split('\n').filter((line) => line.includes('older than the rest'));
      expect(notes, stderr).toEqual([
        expect.stringMatching(/^tidemark: one: older than the rest: .*run 3 was limited to domains/),
        expect.stringMatching(/^tidemark: two: older than the rest: .*run 4 was limited to domains/),
      ]);
    }
  });

  it('counts a component in two lists once, and shows both lists where plugins are asked for', async () => {
    const { first, second, other, run } = await twoServices();
    const lists = (id: number, description: string): [listed: object, all: object[]] => {
      const listed = { id, name: 'Warehouse', description };
      return [listed, [listed, { id: id + 1, name: 'In no family', description: 'same' }]];
    };
    const [listed, all] = lists(1, 'one');
    first.set('pipeline_destinations', [listed]);
    first.set('plugins', all);
    const [otherListed, otherAll] = lists(11, 'two');
    const path = `/api/organizations/${other}`;
    second.lists.set(`${path}/pipeline_destinations/`, [JSON.stringify(otherListed)]);
    second.lists.set(
      `${path}/plugins/`,
      otherAll.map((each) => JSON.stringify(each)),
    );
    expect((await run('sync', '--quiet')).code).toBe(0);
    const changed = async (...args: string[]): Promise<DiffJson> => {
      const { stdout, stderr } = await run(
        'diff',
        '--source',
        'one',
        '--to-source',
        'two',
        ...args,
        '--json',
      );
      expect(stderr).not.toContain('ambiguous');
      return JSON.parse(stdout) as DiffJson;
    };
    const every = await changed();
    expect(told(every)).toEqual([`${other} changed`, '11 changed']);
    const sum = Object.values(every.summary).reduce((total, each) => total + each, 0);
    expect(sum).toBe(every.compared.records);
    const names = every.changes.map(({ kind }) => kind);
    expect(names).toEqual(['organizations', 'pipeline_destinations']);
    // Beside the component of the family, and that of none.
    const others = ['organizations', 'projects', 'domains', 'members'].flatMap((kind) => ['--kind', kind]);
    expect(every.compared.records).toBe((await changed(...others)).compared.records + 2);
    expect(told(await changed('--managed-only', '--kind', 'pipeline_destinations'))).toEqual(['11 changed']);
    expect(told(await changed('--kind', 'plugins'))).toEqual(['11 changed']);
  });

  it('matches records whose names have secrets, of which one source stores fingerprints', async () => {
    const { first, second, other, directory, run } = await twoServices();
    const named = { domain: 'amqp://ann:hunter2@one.example', jit_provisioning_enabled: true };
    first.set('domains', [{ id: 'd1', ...named }]);
    second.lists.set(`/api/organizations/${other}/domains/`, [
      JSON.stringify({ id: 'z1', ...named, jit_provisioning_enabled: false }),
    ]);
    const file = join(directory, 'tidemark.yaml');
    writeFileSync(file, readFileSync(file, 'utf8').replace('name: one,', 'name: one, redact: true,'));
    expect((await run('sync', '--quiet')).code).toBe(0);
    const between = ['--source', 'one', '--to-source', 'two', '--kind', 'domains'];
    const { code, stdout, stderr } = await run('diff', ...between, '--json');
    expect(code, stderr).toBe(2);
    expect((JSON.parse(stdout) as DiffJson).changes).toMatchObject([
      { id: 'z1', change: 'changed', fields: [{ path: '/jit_provisioning_enabled', from: true, to: false }] },
    ]);
    alterFile(join(directory, 'm.db'), 'DELETE FROM fingerprint_key');
    const keyless = await run('diff', ...between);
    expect(keyless).toMatchObject({ code: 1, stdout: '' });
    expect(keyless.stderr).toContain('fingerprint');
  });

  it('refuses what cannot be meant', async () => {
    const { run } = await twoServices();
    await run('sync', '--quiet');
    for (const args of [
      ['--to-source', 'two'],
      ['--source', 'one', '--to-source', 'one'],
      ['--source', 'one', '--to-source', 'tow'],
      ['--source', 'one', '--to-source', 'two', '--id', 'd1'],
      ['--source', 'one', '--to-source', 'two', '--organization', ORG],
      ['file:x.ndjson', 'latest'],
    ]) {
      const { code, stderr } = await run('diff', ...args);
      expect(code, `${args.join(' ')}: ${stderr}`).toBe(4);
    }
    for (const args of [
      ['--to-source', 'two'],
      ['--source', 'one', '--to-source', 'one'],
    ])
      expect((await run('diff', ...args)).stderr).toContain('configured are: one, two');
  });
});

it('names the parents of records as FROM had them for what was removed, else as TO has them', async () => {
  const { service, expectRun } = await world();
  const organization = (name: string, domains: readonly object[]): void => {
    service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name, teams: [{ id: 1 }] })]);
    service.set('domains', domains);
  };
  const [one, two] = DOMAINS;
  organization('Harbor', [{ ...one }]);
  await expectRun(0, 'sync', '--quiet');
  organization('Harbour', [{ ...two }]);
  await expectRun(0, 'sync', '--quiet', '--accept-removals', '1');
  organization('Haven', [{ ...two }]);
  await expectRun(0, 'sync', '--quiet');
  const args = ['--kind', 'domains', '--format', 'markdown'];
  for (const [to, name] of [
    ['run:2', 'Harbour'],
    ['latest', 'Haven'],
    ['live', 'Haven'],
  ] as const) {
    const { stdout } = await expectRun(2, 'diff', 'run:1', to, ...args);
    expect(stdout, to).toMatch(new RegExp(`two\\.example[^\n]*organization ${name} `));
    expect(stdout, to).toMatch(/one\.example[^\n]*organization Harbor /);
  }
});

describe("a field that repeats the parent's", () => {
  it('is not a change of the child: a renamed organization is one change, and --all shows the rest', async () => {
    const { service, expectRun } = await twoRuns();
    const organization = (name: string): void => {
      service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name, teams: [{ id: 1 }] })]);
      service.set(
        'plugins',
        [1, 2, 3].map((id) => ({ id, name: `P${id}`, organization_id: ORG, organization_name: name })),
      );
    };
    organization('Harbor');
    await expectRun(0, 'sync', '--quiet');
    organization('Harbour');
    expect((await expectRun(2, 'diff')).stdout).toMatch(/\n1 record changed \(/);
    expect((await expectRun(2, 'diff', '--all')).stdout).toMatch(/\n4 records changed \(/);
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(2, 'diff', 'run:3', 'run:4')).stdout).toMatch(/\n1 record changed \(/);
    // The mirror has the new name all the same.
    expect((await expectRun(0, 'export', '--kind', 'plugins')).stdout).not.toContain('"Harbor"');
  });
});

describe('secrets', () => {
  it.each([...FORMATS])('stay out of %s', async (format) => {
    const { service, expectRun } = await twoRuns();
    const secret = { id: 2, name: 'App', secret_api_token: 'phs_very-secret' };
    service.set('projects', ['{"id":1,"name":"Web"}', secret]);
    service.lists.set('/api/projects/2/session_recordings/', []);
    service.set('invites', [
      { id: '0190dddd-1111-7000-8000-00000000000f', target_email: 'c@one.example', level: 1 },
    ]);
    await expectRun(0, 'sync', '--quiet');
    service.set('projects', ['{"id":1,"name":"Web"}', { ...secret, secret_api_token: 'phs_another-one' }]);
    await expectRun(0, 'sync', '--quiet');
    for (const from of ['run:2', 'run:3']) {
      const { stdout, stderr } = await expectRun(2, 'diff', from, 'latest', '--format', format);
      expect(stdout + stderr).not.toMatch(/phs_|0190dddd-1111/);
    }
    const open = await expectRun(2, 'diff', 'run:3', 'latest', '--format', format, '--show-secrets');
    // The page marks what differs within a value.
    expect(open.stdout.replaceAll(/<\/?mark>/g, '')).toContain('phs_another-one');
  });

  it('stay out of the name of a component that is named by its URL', async () => {
    const { service, expectRun } = await twoRuns();
    const url = 'https://deploy:ghp_X@code.example/p?private_token=glpat-Y';
    const masked = 'https://deploy:[secret]@code.example/p?private_token=[secret]';
    service.set('pipeline_destinations', [{ id: 7, name: '', url, latest_tag: '1.0' }]);
    await expectRun(0, 'sync', '--quiet');
    const record = ['pipeline_destinations', '7'];
    const reports: [number, string[]][] = [
      ...FORMATS.map((format): [number, string[]] => [2, ['diff', 'run:2', 'latest', '--format', format]]),
      ...FORMATS.filter((format) => format !== 'patch').map((format): [number, string[]] => [
        2,
        ['drift', '--format', format],
      ]),
      [0, ['changes']],
      [0, ['show', ...record]],
      [0, ['log', ...record]],
      [0, ['blame', ...record]],
      // By its name, also as reports show it, and in other letter case.
      [0, ['show', 'pipeline_destinations', masked]],
      [0, ['show', 'pipeline_destinations', url]],
      [0, ['show', 'pipeline_destinations', url.toUpperCase()]],
      [0, ['log', 'pipeline_destinations', url]],
      [0, ['drift', 'accept', ...record, '--reason', 'known']],
    ];
    for (const [code, args] of reports) {
      const { stdout, stderr } = await expectRun(code, ...args);
      expect(stdout + stderr, args.join(' ')).not.toMatch(/ghp_X|glpat-Y/i);
      if (!args.includes('patch')) expect(stdout, args.join(' ')).toContain('deploy:[secret]@');
    }
  });
});
