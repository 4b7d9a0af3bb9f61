/** docs/adding-a-kind.md, followed to the letter in a copy of the sources: the kind works in every command. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { packageFile } from '../../src/core/package-root.ts';
import { blocksOf } from './markdown.ts';

const PAGE = readFileSync(packageFile('docs/adding-a-kind.md'), 'utf8');
const KIND = 'feature_flags';

const execute = promisify(execFile);

/** What a clone needs to run from the sources, and to be built. */
const COPIED = ['src', 'drizzle', 'config', 'package.json', 'tsconfig.json', 'build.ts'];

function copyOfTheSources(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-kind-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const each of COPIED) cpSync(packageFile(each), join(directory, each), { recursive: true });
  symlinkSync(packageFile('node_modules'), join(directory, 'node_modules'));
  return directory;
}

function edit(path: string, from: string | RegExp, to: string): void {
  const text = readFileSync(path, 'utf8');
  const edited = text.replace(from, to);
  expect(edited, `nothing of ${path} was changed`).not.toBe(text);
  writeFileSync(path, edited);
}

/** Sections 1 and 2 of the page. */
function addTheKind(directory: string): void {
  const definition = blocksOf(PAGE).find(({ language }) => language === 'ts');
  const file = (path: string): string => join(directory, 'src', path);
  writeFileSync(file('catalog/kinds/feature-flags.ts'), definition!.text);
  edit(file('catalog/kinds.ts'), /(const ROWS[^=]*= \[[^\]]*)\]/, `$1  featureFlags,\n]`);
  edit(
    file('catalog/kinds.ts'),
    /^import /m,
    "import { featureFlags } from './kinds/feature-flags.ts';\nimport ",
  );
}

interface Commands {
  /** Address of the copy's sandbox. */
  readonly url: string;
  readonly run: (...args: string[]) => Promise<{ code: number | null; out: string; err: string }>;
}

/** The copy in a process of its own, with a sandbox. */
async function startCopy(directory: string, env: NodeJS.ProcessEnv): Promise<Commands> {
  const child = spawn(process.execPath, [packageFile('test/docs/commands-child.ts'), directory], {
    cwd: directory,
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  onTestFinished(async () => {
    child.stdin.end();
    await ended;
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('the copy ended');
    return line.value;
  };
  return {
    url: await next(),
    run: async (...args) => {
      child.stdin.write(`${JSON.stringify(args)}\n`);
      return JSON.parse(await next()) as { code: number | null; out: string; err: string };
    },
  };
}

/**
 * Why the page's kind is checked with the catalog alone, a tenth of the work: these types would refuse a new kind elsewhere.
 * `Partial` says that a kind may be missing, and a cast is not refused.
 */
const OF_EVERY_KIND =
  /(?<!Partial<|\bas (?:Readonly<)?)Record<Kind\b|\bin Kind\]|\b(?:Exclude|Extract)<Kind\b|\bsatisfies never\b/;

it('no type asks something of every kind outside the catalog', () => {
  const asking = globSync('src/**/*.ts', { cwd: packageFile() }).filter(
    (path) => !path.startsWith('src/catalog/') && OF_EVERY_KIND.test(readFileSync(packageFile(path), 'utf8')),
  );
  expect(asking).toEqual([]);
  expect('const each: Record<Kind, string>').toMatch(OF_EVERY_KIND);
  expect('const each: Readonly<Record<Kind, string>>').toMatch(OF_EVERY_KIND);
});

it(
  'a kind added by the page is mirrored, compared, restored and diagnosed',
  { timeout: 400_000 },
  async () => {
    const directory = copyOfTheSources();
    addTheKind(directory);
    writeFileSync(
      join(directory, 'catalog.json'),
      JSON.stringify({ extends: './tsconfig.json', include: ['src/catalog'] }),
    );
    const checked = [packageFile('node_modules/typescript/bin/tsc'), '--noEmit', '--project', 'catalog.json'];
    await execute(process.execPath, checked, { cwd: directory });

    const env: NodeJS.ProcessEnv = {
      PATH: process.env['PATH'],
      HOME: directory,
      NO_COLOR: '1',
      TIDEMARK_API_KEY: 'sandbox-key',
      TIDEMARK_MIRROR: join(directory, 'm.db'),
      TIDEMARK_RATE_PER_MINUTE: '0',
      TIDEMARK_RATE_PER_HOUR: '0',
    };
    const { url, run } = await startCopy(directory, env);
    const flags = async (
      method = 'GET',
      body?: object,
      path = '',
    ): Promise<{ id: number; active: boolean }> => {
      const response = await fetch(`${url}/api/projects/1/${KIND}/${path}`, {
        method,
        headers: {
          authorization: 'Bearer sandbox-key',
          'content-type': 'application/json',
          connection: 'close',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      expect(response.ok, `${method} ${path}: ${response.status}`).toBe(true);
      return (await response.json()) as { id: number; active: boolean };
    };

    const { id } = await flags('POST', { key: 'beta', name: 'Beta', active: true, filters: { groups: [] } });
    expect(await run('sync', '--quiet')).toMatchObject({ code: 0, err: '' });
    const mirror = new Database(env['TIDEMARK_MIRROR'], { readonly: true });
    onTestFinished(() => void mirror.close());
    expect(mirror.prepare(`SELECT key, active FROM ${KIND}`).all()).toEqual([{ key: 'beta', active: 1 }]);

    await flags('PATCH', { active: false }, `${id}/`);
    const diff = await run('diff', 'latest', 'live', '--kind', KIND, '--json');
    expect(diff.code).toBe(2);
    expect(JSON.parse(diff.out)).toMatchObject({
      changes: [{ kind: KIND, change: 'changed', fields: [{ path: '/active', from: true, to: false }] }],
    });

    expect(await run('restore', '--kind', KIND, '--apply', '--yes')).toMatchObject({ code: 0 });
    expect(await flags('GET', undefined, `${id}/`)).toMatchObject({ key: 'beta', active: true });
    // The profile cannot create the project that it hangs from: with the kind alone, the project is there.
    for (const damage of [[], ['--damage', '100']]) {
      const drill = await run('drill', '--kind', KIND, ...damage, '--json');
      expect(drill, drill.out).toMatchObject({ code: 0, err: '' });
      expect(JSON.parse(drill.out)).toMatchObject({
        outcome: 'equal',
        kinds: [{ kind: KIND, records: 1, comes_back: 1 }],
      });
    }
    expect(JSON.parse((await run('drill', '--json')).out)).toMatchObject({
      kinds: expect.arrayContaining([
        expect.objectContaining({ kind: KIND, records: 1, comes_back: 0 }),
      ]) as unknown,
    });
    const doctor = await run('doctor', '--json');
    expect(doctor.out).toContain(KIND);

    // All of that ran from the sources.
    await execute(process.execPath, ['build.ts'], { cwd: directory });
    const shown = await execute(process.execPath, ['dist/main.js', 'show', KIND, String(id), '--json'], {
      cwd: directory,
      env: { ...env, TIDEMARK_BASE_URL: url },
    });
    expect(JSON.parse(shown.stdout)).toMatchObject({ body: { key: 'beta' } });
  },
);
