import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { environment, program, scratch, start, tidemark } from './harness.ts';
import { type Quirk, FakeService, forbidden, ORG, organizationPaths } from './service.ts';
import { alterFile } from '../tools/alter.ts';

interface Mirrored {
  readonly service: FakeService;
  readonly directory: string;
  readonly tree: string;
  readonly env: Record<string, string>;
}

/** A mirror of two domains and one role. */
async function mirrored(more: Readonly<Record<string, string>> = {}): Promise<Mirrored> {
  const service = await FakeService.start();
  service.set('domains', [
    { id: 'd1', domain: 'one.example' },
    { id: 'd2', domain: 'two.example' },
  ]);
  service.set('roles', [{ id: 'r1', name: 'Readers' }]);
  service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
  const directory = scratch();
  const env: Record<string, string> = environment(service.url, directory, more);
  await ok(['sync'], env);
  return { service, directory, tree: join(directory, 'tree'), env };
}

async function ok(args: readonly string[], env: Record<string, string>): Promise<string> {
  const ended = await tidemark(args, { env });
  expect(ended.code, ended.stdout + ended.stderr).toBe(0);
  return ended.stderr;
}

/** Paths of all files below, sorted. */
function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .sort();
}

const D1 = join('domains', `organization-${ORG}`, 'd1.yaml');
const D2 = join('domains', `organization-${ORG}`, 'd2.yaml');

describe('a YAML tree', () => {
  it('below the current directory, or in its git work tree, is where code scanning finds what differs; another has made-up names', async () => {
    const { service, directory, tree, env } = await mirrored();
    await ok(['export', '--format', 'yaml', '--output', tree], env);
    service.set('domains', [{ id: 'd1', domain: 'changed.example' }]);
    const dotted = join(directory, '..d1.ndjson');
    await ok(['export', '--format', 'ndjson', '--output', dotted, '--kind', 'domains', '--id', 'd1'], env);
    const below = join(directory, 'ci', 'drift');
    mkdirSync(below, { recursive: true });
    for (const [cwd, path, file] of [
      [directory, tree, `tree/${D1}`],
      [directory, dotted, '..d1.ndjson'],
      [below, tree, `domains/${ORG}/d1`],
      [scratch(), tree, `domains/${ORG}/d1`],
      ['repository', tree, `tree/${D1}`],
    ] as const) {
      const isRepository = cwd === 'repository';
      if (isRepository) mkdirSync(join(directory, '.git'));
      const args = ['diff', `file:${path}`, 'live', '--kind', 'domains', '--id', 'd1', '--format', 'sarif'];
      const { stdout } = await tidemark(args, { env, cwd: isRepository ? below : cwd });
      expect(JSON.parse(stdout)).toMatchObject({
        runs: [{ results: [{ locations: [{ physicalLocation: { artifactLocation: { uri: file } } }] }] }],
      });
    }
  });

  it('is brought up to date: own files of removed records go, others stay, unchanged ones are not touched', async () => {
    const { service, tree, env } = await mirrored();
    mkdirSync(join(tree, '.git'), { recursive: true });
    writeFileSync(join(tree, '.git', 'HEAD'), 'ref');
    writeFileSync(join(tree, 'README.md'), 'ours');
    await ok(['export', '--format', 'yaml', '--output', tree], env);
    const first = filesBelow(tree);
    expect(first).toContain(D2);

    const folder = join(tree, 'domains', `organization-${ORG}`);
    writeFileSync(join(folder, 'notes.yaml'), 'not: ours\n');
    writeFileSync(join(folder, 'copy-of-d1.yaml'), readFileSync(join(tree, D1)));
    const manifest = readFileSync(join(tree, '.tidemark-export.json'), 'utf8');
    const old = new Date('2020-01-01T00:00:00Z');
    for (const file of [D1, D2, '.tidemark-export.json']) utimesSync(join(tree, file), old, old);
    service.set('domains', [{ id: 'd1', domain: 'one.example' }]);
    service.set('roles', [{ id: 'r1', name: 'Readers and writers' }]);
    await ok(['sync'], env);
    const said = await ok(['export', '--format', 'yaml', '--output', tree], env);

    expect(filesBelow(tree)).toEqual(
      [
        ...first.filter((file) => file !== D2),
        ...['notes', 'copy-of-d1'].map((name) => join(folder.slice(tree.length + 1), `${name}.yaml`)),
      ].sort(),
    );
    expect(statSync(join(tree, D1)).mtime).toEqual(old);
    expect(statSync(join(tree, '.tidemark-export.json')).mtime).toEqual(old);
    expect(readFileSync(join(tree, '.tidemark-export.json'), 'utf8')).toBe(manifest);
    expect(readFileSync(join(tree, 'roles', `organization-${ORG}`, 'r1.yaml'), 'utf8')).toContain(
      'and writers',
    );
    expect(said).toMatch(/1 written, 3 unchanged; 1 of an earlier export removed/);
  });

  it('gives way to another format, and what that one left gives way again', async () => {
    const { tree, env } = await mirrored();
    await ok(['export', '--format', 'yaml', '--output', tree], env);
    const yaml = filesBelow(tree);
    await ok(['export', '--format', 'csv', '--output', tree], env);
    expect(filesBelow(tree).filter((file) => !file.endsWith('.csv'))).toEqual(['.tidemark-export.json']);
    expect(existsSync(join(tree, 'domains'))).toBe(false);
    const ended = await tidemark(['export', '--format', 'yaml', '--output', tree, '--json'], { env });
    expect(JSON.parse(ended.stdout)).toMatchObject({
      schema: 'tidemark.export_directory/1',
      run: 1,
      files: yaml.length - 1,
      removed: KINDS.length,
    });
    expect(filesBelow(tree)).toEqual(yaml);
    // Whoever refreshes one kind loses the others: that is said.
    const note = 'a directory holds one export: files of kinds that --kind leaves out were removed';
    const one = ['export', '--format', 'yaml', '--kind', 'domains', '--output', tree];
    expect(await ok(one, env)).toContain(note);
    expect(await ok(one, env)).not.toContain(note);
  });

  it('refuses a folder that no export left, and writes nothing', async () => {
    const { tree, env } = await mirrored();
    mkdirSync(join(tree, 'domains'), { recursive: true });
    writeFileSync(join(tree, 'domains', 'mine.txt'), 'mine');
    const ended = await tidemark(['export', '--format', 'yaml', '--output', tree], { env });
    expect(ended.code).toBe(4);
    expect(ended.stderr).toContain(`${join(tree, 'domains')} exists already`);
    expect(filesBelow(tree)).toEqual([join('domains', 'mine.txt')]);
    // A manifest that leads elsewhere is none.
    writeFileSync(
      join(tree, '.tidemark-export.json'),
      '{"schema":"tidemark.export_manifest/1","format":"yaml","paths":["../"]}',
    );
    expect((await tidemark(['export', '--output', tree], { env })).code).toBe(4);
  });
});

describe('what goes wrong', () => {
  it('something in the way: one line with the path, and nothing is left beside it', async () => {
    const { directory, tree, env } = await mirrored();
    await ok(['export', '--kind', 'domains', '--output', tree], env);
    rmSync(join(tree, 'domains.ndjson'));
    mkdirSync(join(tree, 'domains.ndjson'));
    const blocked = await tidemark(['export', '--kind', 'domains', '--output', tree], { env });
    expect(blocked.code).toBe(1);
    expect(blocked.stderr).toContain(
      `${join(tree, 'domains.ndjson')} could not be written: it is a directory`,
    );
    expect(readdirSync(tree)).toEqual(['.tidemark-export.json', 'domains.ndjson']);

    writeFileSync(join(directory, 'file'), '');
    for (const output of [join(directory, 'file'), join(directory, 'file', 'below'), '/proc/nowhere']) {
      const ended = await tidemark(['export', '--output', output], { env });
      expect(ended.code).toBe(1);
      expect(ended.stderr).toContain(`tidemark: ${output} could not be made: `);
      // The name of a temporary directory may hold what looks like an error's code.
      expect(ended.stderr.replaceAll(output, '')).not.toMatch(/E[A-Z]{4,}/);
    }
  });

  it('a limit on file sizes stops it as a full disk would: no cut file under its name', async () => {
    const { service, tree, env } = await mirrored();
    service.set('domains', [{ id: 'd1', domain: 'x'.repeat(300_000) }]);
    await ok(['sync'], env);
    const run = spawnSync(
      'bash',
      [
        '--norc',
        '-c',
        `ulimit -f 100; trap '' XFSZ; exec "$0" "$@"`,
        process.execPath,
        program,
        'export',
        '--output',
        tree,
      ],
      { env: { PATH: process.env['PATH'], ...env }, encoding: 'utf8' },
    );
    expect(run.status, run.stderr).toBe(1);
    expect(run.stderr).toContain(`${join(tree, 'domains.ndjson')} could not be written: `);
    expect(filesBelow(tree).filter((file) => file.includes('domains'))).toEqual([]);
  });

  it('an interrupted one leaves whole files only, and the next one finishes', async () => {
    const { service, tree, env } = await mirrored();
    service.pageCap = 1000;
    service.set(
      'domains',
      Array.from({ length: 3000 }, (_each, index) => ({ id: `d${index}`, domain: `${index}.example` })),
    );
    await tidemark(['sync'], { env });
    const { child, ended } = start(['export', '--format', 'yaml', '--output', tree], { env });
    const domains = join(tree, 'domains');
    while (!existsSync(domains)) await new Promise((resolve) => setImmediate(resolve));
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code, stderr).toBe(130);
    const left = filesBelow(tree);
    expect(left.filter((file) => file.endsWith('.tidemark-tmp'))).toEqual([]);
    expect(left.length).toBeLessThan(3000);
    await ok(['export', '--format', 'yaml', '--output', tree], env);
    expect(filesBelow(tree).length).toBeGreaterThan(3000);
  });

  it.each(['parquet', 'csv', 'ndjson', 'yaml'])(
    'damage found half-way leaves nothing of a first %s export, and a later one is named as partial',
    async (format) => {
      const { service, directory, env } = await mirrored();
      const [fresh, kept] = [join(directory, 'fresh'), join(directory, 'kept')];
      await ok(['export', '--format', format, '--output', kept], env);
      service.set('domains', [{ id: 'd1', domain: 'changed.example' }]);
      await ok(['sync', '--accept-removals', '9'], env);
      alterFile(
        env['TIDEMARK_MIRROR'] ?? '',
        `UPDATE records SET body = replace(body, 'changed.', 'altered.')`,
      );
      const first = await tidemark(['export', '--format', format, '--output', fresh], { env });
      expect([first.code, filesBelow(fresh)], first.stderr).toEqual([1, []]);
      expect(first.stderr).not.toContain('left partial');
      const second = await tidemark(['export', '--format', format, '--output', kept], { env });
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(`${kept} is left partial: some of its files are of this export`);
      const manifest = JSON.parse(readFileSync(join(kept, '.tidemark-export.json'), 'utf8')) as object;
      expect(manifest).toMatchObject({ is_partial: true });
      expect(manifest).not.toHaveProperty('whole');
    },
  );

  it('a damaged mirror is an error, not a shorter export', async () => {
    const { directory, env } = await mirrored();
    alterFile(
      join(directory, 'mirror.db'),
      `DELETE FROM records WHERE remote_id = (SELECT max(id) FROM domains)`,
    );
    const ended = await tidemark(['export', '--kind', 'domains'], { env });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('is damaged: 2 records of domains are counted, 1 could be read');
  });
});

describe('files of kinds', () => {
  it.each(['ndjson', 'json', 'csv', 'parquet'])(
    'as %s are written only where they changed',
    async (format) => {
      const { service, tree, env } = await mirrored();
      const args = ['export', '--format', format, '--output', tree];
      const first = await ok(args, env);
      const [files = ''] = /\d+ files/.exec(first) ?? [];
      const count = Number.parseInt(files, 10);
      expect(first).toContain(`${count} files in ${tree}: ${count} written, 0 unchanged`);
      const before = new Map(filesBelow(tree).map((name) => [name, statSync(join(tree, name)).mtimeMs]));
      expect(await ok(args, env)).toContain(`${count} files in ${tree}: 0 written, ${count} unchanged`);
      for (const [name, at] of before) expect(statSync(join(tree, name)).mtimeMs, name).toBe(at);
      service.set('roles', [{ id: 'r1', name: 'Writers' }]);
      await ok(['sync'], env);
      expect(await ok(args, env)).toContain(`: 1 written, ${count - 1} unchanged`);
      expect(filesBelow(tree).some((name) => name.endsWith('.tidemark-tmp'))).toBe(false);
    },
  );

  it('there is none of a kind that is not mirrored, unless it was, or is asked for', async () => {
    const { tree, env } = await mirrored();
    const args = ['export', '--format', 'csv', '--output', tree];
    const without = { ...env, TIDEMARK_KINDS_EXCLUDE: 'domains,invites' };
    const said = await ok(args, without);
    expect(filesBelow(tree)).toContain('domains.csv');
    expect(filesBelow(tree)).not.toContain('invites.csv');
    expect(said).toContain('no file for invites: the configuration does not mirror it\n');
    await ok([...args, '--kind', 'invites'], without);
    expect(filesBelow(tree)).toContain('invites.csv');
  });

  it('there is none of a kind that the mirror never read, if only the mirror says what is mirrored', async () => {
    const service = await FakeService.start();
    const [directory, elsewhere] = [scratch(), scratch()];
    const env = environment(service.url, directory);
    await ok(['sync'], { ...env, TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' });
    const tree = join(elsewhere, 'tree');
    const ended = await tidemark(['export', '--format', 'parquet', '--output', tree], {
      env: { TIDEMARK_MIRROR: join(directory, 'mirror.db') },
      cwd: elsewhere,
    });
    expect(ended.code, ended.stderr).toBe(0);
    // Read, and there are none; not read.
    expect(filesBelow(tree)).toContain('domains.parquet');
    expect(filesBelow(tree)).not.toContain('session_recordings.parquet');
    expect(ended.stderr).toMatch(
      /no file for (.+, )?session_recordings, recording_sharing: the mirror has no collection of them\n/,
    );
  });

  it('there is none of a kind that the past state had not read; its manifest, and a comparison, say so', async () => {
    const { tree, env } = await mirrored({ TIDEMARK_KINDS_EXCLUDE: 'domains,role_memberships' });
    delete env['TIDEMARK_KINDS_EXCLUDE'];
    await ok(['sync'], env);
    for (const format of ['csv', 'ndjson']) {
      const all = await tidemark(['export', '--at', 'run:1', '--format', format, '--output', tree], { env });
      expect(all.code).toBe(3);
      expect(all.stderr).toContain(
        'nothing of role_memberships, domains: the mirror had not read them by run 1\n',
      );
    }
    expect(filesBelow(tree)).not.toContain('domains.ndjson');
    expect(filesBelow(tree)).toContain('invites.ndjson');
    const manifest = readFileSync(join(tree, '.tidemark-export.json'), 'utf8');
    expect(JSON.parse(manifest)).toMatchObject({ unread: ['role_memberships', 'domains'] });
    for (const from of [`file:${tree}`, 'run:1']) {
      const { code, stdout } = await tidemark(['diff', from, 'latest', '--kind', 'domains', '--json'], {
        env,
      });
      expect(code, from).toBe(from === 'run:1' ? 3 : 1);
      expect(stdout, from).toMatch(/the mirror had not read it by|run:1 holds no reading of domains/);
    }
    // Columns for whoever asks for this one.
    const one = await tidemark(['export', '--at', 'run:1', '--format', 'csv', '--kind', 'domains'], { env });
    expect([one.code, one.stdout]).toEqual([3, expect.stringContaining('domain')]);
    expect(one.stderr).toContain('nothing of domains: the mirror had not read it by run 1\n');
  });

  it('there is none of a kind that every run was denied; its manifest, and a comparison, say so', async () => {
    const service = await FakeService.start();
    service.quirks.push(
      ({ path }, response) => path.endsWith('/domains/') && forbidden(response, 'domain:read'),
    );
    const directory = scratch();
    const env = environment(service.url, directory);
    const tree = join(directory, 'tree');
    for (let run = 1; run <= 2; run += 1) await tidemark(['sync', '--quiet'], { env });
    for (const format of ['csv', 'ndjson']) {
      const { code, stderr: said } = await tidemark(['export', '--format', format, '--output', tree], {
        env,
      });
      expect(code).toBe(3);
      expect(said).toContain('nothing of domains: the mirror has not read it yet\n');
      expect(said).toMatch(/domains .*: denied; never read completely\n/);
      expect(filesBelow(tree)).not.toContain(`domains.${format}`);
      expect(filesBelow(tree)).toContain(`invites.${format}`);
      const manifest = readFileSync(join(tree, '.tidemark-export.json'), 'utf8');
      expect(JSON.parse(manifest)).toMatchObject({ unread: ['domains'] });
    }
    const whole = await tidemark(['export', '--format', 'json'], { env });
    expect(JSON.parse(whole.stdout)).toMatchObject({ unread: ['domains'] });
    service.quirks.length = 0;
    await tidemark(['sync', '--quiet'], { env });
    const { code, stdout } = await tidemark(['diff', `file:${tree}`, 'latest', '--json'], { env });
    expect(code, stdout).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      skipped: [{ kind: 'domains', reason: expect.stringContaining('the mirror had not read it') as string }],
    });
  });

  it('a list that every run was denied, of a kind that was read elsewhere, is stale; a comparison says so', async () => {
    const service = await FakeService.start();
    const other = '0190aaaa-0000-7000-8000-000000000002';
    service.lists.set('/api/organizations/', [
      JSON.stringify({ id: ORG, name: 'Harbor', teams: [] }),
      JSON.stringify({ id: other, name: 'Quay', teams: [] }),
    ]);
    for (const path of organizationPaths(other)) service.lists.set(path, []);
    service.quirks.push(
      ({ path }, response) => path.includes(`${other}/roles/`) && forbidden(response, 'role:read'),
    );
    const directory = scratch();
    const env = environment(service.url, directory);
    const tree = join(directory, 'tree');
    await tidemark(['sync', '--quiet'], { env });
    const written = await tidemark(['export', '--output', tree], { env });
    expect(written.code).toBe(3);
    expect(written.stderr).toMatch(/roles .*: denied; never read completely\n/);
    const { stdout: whole } = await tidemark(['export', '--format', 'json'], { env });
    const manifest = readFileSync(join(tree, '.tidemark-export.json'), 'utf8');
    // Without the number of a run: the manifest of a tree that is kept changes only where something did.
    const DENIED = expect.stringMatching(/^denied: (?!.*run \d)/) as string;
    for (const text of [whole, manifest]) {
      const document = JSON.parse(text) as Record<string, unknown>;
      expect(document['stale']).toEqual([
        { kind: 'roles', scopes: [{ organization_id: other }], last_complete: null, reason: DENIED },
      ]);
      expect(document['unread']).toBeUndefined();
    }
    service.quirks.length = 0;
    await tidemark(['sync', '--quiet'], { env });
    const { code, stdout } = await tidemark(['diff', `file:${tree}`, 'latest', '--json'], { env });
    expect(code, stdout).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      stale: [{ kind: 'roles', scope: { organization_id: other } }],
    });
  });

  it('import blocks are counted', async () => {
    const { directory, env } = await mirrored();
    const path = join(directory, 'imports.tf');
    const said = await ok(['export', '--format', 'terraform-imports', '--output', path], env);
    const blocks = readFileSync(path, 'utf8').match(/^import \{$/gm)?.length ?? 0;
    expect(blocks).toBeGreaterThan(0);
    expect(said).toMatch(
      new RegExp(`: ${blocks} import blocks?, and \\d+ records? as comments, written to ${path}\n`),
    );
  });
});

describe('what was asked for', () => {
  it('nothing published yet: 1, why, and what to do', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const { child, ended } = start(['sync'], { env });
    service.quirks.push(() => {
      child.kill('SIGINT');
      return false;
    });
    await ended;
    const exported = await tidemark(['export'], { env });
    expect(exported.code).toBe(1);
    expect(exported.stdout).toBe('');
    expect(exported.stderr).toMatch(/holds no published run: run 1 failed: .*interrupted/);
    expect(exported.stderr).toContain('tidemark sync');
  });

  it('unknown ids are errors, an empty match is a note', async () => {
    const { env } = await mirrored();
    const [id, organization, project, empty] = await Promise.all([
      tidemark(['export', '--kind', 'domains', '--id', 'd1', '--id', 'd9'], { env }),
      tidemark(['export', '--organization', ORG.replace(/1$/, '2'), '--json'], { env }),
      tidemark(['export', '--project', '77'], { env }),
      tidemark(['export', '--kind', 'plugins'], { env }),
    ]);
    expect([id.code, organization.code, project.code, empty.code]).toEqual([4, 4, 4, 0]);
    expect(id.stdout).toBe('');
    expect(id.stderr).toMatch(/no record has the id d9 \(with --kind domains\)/);
    expect(JSON.parse(organization.stdout)).toMatchObject({
      code: 'reference_unknown',
      message: expect.stringContaining(`did you mean ${ORG}?`) as string,
    });
    expect(project.stderr).toContain('has no project 77');
    expect(empty.stderr).toContain('nothing matches --kind plugins');
  });

  it('says on stderr which collections are stale, once for all that are alike', async () => {
    const { service, env } = await mirrored();
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false,
    );
    expect((await tidemark(['sync'], { env })).code).toBe(3);
    const [latest, earlier, quiet, unconcerned] = await Promise.all([
      tidemark(['export'], { env }),
      tidemark(['export', '--at', 'run:1'], { env }),
      tidemark(['export', '--quiet'], { env }),
      tidemark(['export', '--kind', 'roles'], { env }),
    ]);
    expect(latest.stdout).toBe(earlier.stdout);
    // Also with --quiet: why the exit code is 3.
    for (const { code, stderr } of [latest, quiet]) {
      expect(code).toBe(3);
      expect(stderr).toMatch(
        /1 collection could not be read completely .*\n {2}domains \(organization .*\): denied; last read completely (just now|\d+ s ago)/,
      );
    }
    expect([earlier, unconcerned].map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array(2).fill({ code: 0, stderr: '' }),
    );
  });

  it('says of an earlier state when such a collection had been read completely before', async () => {
    const { service, env } = await mirrored();
    const quirk: Quirk = ({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false;
    service.quirks.push(quirk);
    for (const run of [2, 3]) expect((await tidemark(['sync'], { env })).code, `run ${run}`).toBe(3);
    service.quirks.length = 0;
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    const LAST = { run: 1, at: expect.any(String) as string };
    const DENIED = expect.stringMatching(/^denied: /) as string;
    for (const run of [2, 3]) {
      const output = join(scratch(), 'out');
      const directory = ['export', '--at', `run:${run}`, '--kind', 'domains', '--output', output];
      const { stdout, stderr } = await tidemark([...directory, '--json'], { env });
      expect(JSON.parse(stdout)).toMatchObject({
        stale: [{ kind: 'domains', outcome: 'denied', last_complete: LAST, reason: DENIED }],
      });
      const said =
        /domains \(organization .*\): denied; until then last read completely (just now|\d+ s ago)/;
      expect(stderr + (await tidemark(directory, { env })).stderr).toMatch(said);
    }
  });
});

describe('a file that --output names', () => {
  it.each([
    ['roles.csv', /^(?:\ufeff)?organization|^source|id,/m],
    ['roles.parquet', /^PAR1/],
    ['roles.json', /"tidemark.export\/1"/],
    ['roles.ndjson', /^\{"kind":"roles"/],
    ['roles.jsonl', /^\{"kind":"roles"/],
    ['roles.yaml', /kind: roles/],
  ])('%s is written in the format of its ending', async (name, content) => {
    const { directory, env } = await mirrored();
    const file = join(directory, name);
    await ok(['export', '--kind', 'roles', '--output', file], env);
    expect(statSync(file).isFile()).toBe(true);
    expect(readFileSync(file, 'latin1')).toMatch(content);
  });

  it('is not written in another format than that of its ending', async () => {
    const { directory, env } = await mirrored();
    const file = join(directory, 'roles.csv');
    const args = ['export', '--kind', 'roles', '--format', 'json', '--output', file];
    const { code, stderr } = await tidemark(args, { env });
    expect([code, existsSync(file)]).toEqual([4, false]);
    expect(stderr).toContain('roles.csv is the name of a file of the format csv, not json');
  });
});
