import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { nodeFlags } from './tools/node-flags.ts';
import { importCycles, readSources } from './tools/structure.ts';

const sourceRoot = resolve(dirname(fileURLToPath(import.meta.url)), '../src');

interface SourceFile {
  readonly path: string;
  readonly imports: readonly string[];
  /** Those of `imports` that are nothing but types. */
  readonly typeImports: readonly string[];
  readonly text: string;
}

const files: SourceFile[] = readdirSync(sourceRoot, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => {
    const text = readFileSync(join(sourceRoot, path), 'utf8');
    const imports = [
      ...text.matchAll(/^(?:import|export)\b[^'";]*?\bfrom '([^']+)'/gm),
      ...text.matchAll(/^import '([^']+)'/gm),
      ...text.matchAll(/\bimport\('([^']+)'\)/g),
    ].map((match) => match[1]!);
    const types = [...text.matchAll(/^import type [^;]*? from '([^']+)';/gm)].map((match) => match[1]!);
    const values = [...text.matchAll(/^import (?!type )[^;]*? from '([^']+)';/gm)].map((match) => match[1]!);
    return { path, text, imports, typeImports: types.filter((each) => !values.includes(each)) };
  });

/** The same files as the compiler's parser reads them, which takes a second. */
const sources = readSources(sourceRoot);

/** What each folder may import beside itself (ARCHITECTURE.md, The picture). */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  catalog: ['core'],
  config: ['core', 'catalog'],
  api: ['core', 'config', 'catalog'],
  mirror: ['core', 'config', 'catalog'],
  diff: ['core', 'config', 'catalog'],
  sync: ['core', 'config', 'catalog', 'api', 'mirror', 'diff'],
  state: ['core', 'config', 'catalog', 'api', 'mirror', 'diff', 'sync'],
  restore: ['core', 'config', 'catalog', 'api', 'mirror', 'diff', 'sync', 'state'],
  doctor: ['core', 'config', 'catalog', 'api', 'mirror', 'diff', 'sync', 'state'],
  server: ['core', 'config', 'catalog', 'mirror', 'diff', 'state'],
  report: ['core', 'config', 'catalog', 'diff'],
  backup: ['core', 'config', 'catalog', 'mirror'],
  git: ['core', 'config', 'catalog', 'mirror', 'diff', 'sync', 'state', 'report', 'backup'],
  mcp: ['core', 'catalog'],
  daemon: [
    'core',
    'config',
    'catalog',
    'api',
    'mirror',
    'diff',
    'sync',
    'state',
    'restore',
    'server',
    'report',
    'backup',
    'git',
  ],
  fleet: ['core', 'config', 'catalog', 'api', 'mirror', 'diff', 'state', 'report', 'backup', 'daemon'],
  cli: [
    'core',
    'config',
    'catalog',
    'api',
    'mirror',
    'diff',
    'sync',
    'state',
    'restore',
    'doctor',
    'server',
    'report',
    'backup',
    'git',
    'daemon',
    'mcp',
    'fleet',
  ],
};

/** What a folder may import as types only: a report shows what others make. */
const MAY_IMPORT_TYPES: Record<string, readonly string[]> = { report: ['restore', 'state', 'mirror'] };

/** One door per dependency: the folders or files that may import it. */
const DOORS: Record<string, readonly string[]> = {
  // transport.ts holds the key and speaks with the service only; post.ts holds none and speaks with everybody else.
  // proxied.ts opens the tunnels of both, and sends nothing itself.
  undici: ['api/transport.ts', 'api/post.ts', 'api/proxied.ts'],
  'p-queue': ['api/limiter.ts'],
  'better-sqlite3': ['mirror/database.ts'],
  pino: ['core/logger.ts'],
  zod: ['config/', 'mcp/server.ts'],
  '@modelcontextprotocol/sdk': ['mcp/server.ts'],
  yaml: ['config/', 'core/yaml.ts'],
  commander: ['cli/'],
  hono: ['server/', 'daemon/'],
  '@aws-sdk/client-s3': ['backup/targets/s3.ts'],
  '@hono/node-server': ['server/', 'daemon/'],
  'csv-parse': ['config/cells.ts', 'cli/verify-audit-file.ts'],
  'fast-string-width': ['core/wrap.ts'],
  picocolors: ['cli/', 'report/'],
  '@clack/prompts': ['cli/prompt.ts'],
  'node-cron': ['config/cron.ts'],
  'prom-client': ['daemon/http/metrics.ts', 'fleet/serve/metrics.ts'],
  diff: ['report/html-field.ts'],
  nodemailer: ['daemon/notices/channels/email.ts'],
  'age-encryption': ['backup/encryption.ts'],
  'hyparquet-writer': ['report/export/parquet.ts'],
  'drizzle-orm': ['mirror/', 'fleet/registry/'],
  pg: ['fleet/registry/connection.ts'],
  'pg-boss': ['fleet/queue.ts'],
};

/** The text of ARCHITECTURE.md and of the README of each folder that has one. */
function pages(): string {
  return readdirSync(sourceRoot, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => readFileSync(join(sourceRoot, path), 'utf8'))
    .join('\n');
}

/** Tables, which drizzle-kit reads. */
function isSchema(path: string): boolean {
  return path.startsWith('mirror/schema/') || path === 'fleet/registry/schema.ts';
}

function folderOf(path: string): string {
  return path.includes('/') ? path.slice(0, path.indexOf('/')) : '';
}

describe('the layout', () => {
  it('has files to look at', () => {
    expect(files.length).toBeGreaterThan(40);
    // Nearly each file imports another: where none does, nothing below is looked at.
    expect(files.filter(({ imports }) => imports.length > 0).length).toBeGreaterThan(files.length / 2);
  });

  it('imports point down the list only', () => {
    const wrong: string[] = [];
    for (const file of files) {
      const from = folderOf(file.path);
      if (from === '') continue; // main.ts and wire.ts stand above all
      for (const target of file.imports.filter((each) => each.startsWith('.'))) {
        const to = folderOf(relative(sourceRoot, resolve(sourceRoot, dirname(file.path), target)));
        if (to === from) continue;
        if (to === '' && /\/wire(-client)?\.ts$/.test(target) && from === 'cli') continue;
        const isTypeOf = MAY_IMPORT_TYPES[from]?.includes(to) === true && file.typeImports.includes(target);
        if (!(MAY_IMPORT[from] ?? []).includes(to) && !isTypeOf) wrong.push(`${file.path} imports ${target}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('no file imports itself in a circle, for types neither', () => {
    expect(importCycles(sources)).toEqual([]);
  });

  it('has no SQL outside of mirror/ and fleet/registry/; but in examples and sample data', () => {
    const examples = ['cli/demo.ts', 'server/seed/batch-exports.ts'];
    const outside = sources.filter(
      ({ path, sqlStatements }) =>
        sqlStatements > 0 && !/^(mirror|fleet\/registry)\//.test(path) && !examples.includes(path),
    );
    expect(outside.map(({ path }) => path)).toEqual([]);
  });

  it('makes directories by core/file-errors.ts: the recursive way of Node never ends below /proc', () => {
    const recursive = files.filter(({ text }) => /mkdir(Sync)?\([^;]*recursive/.test(text));
    expect(recursive.map(({ path }) => path)).toEqual([]);
  });

  it('exports nothing that only its own file uses; tables aside, which drizzle-kit reads', () => {
    const rest = ['test', 'bench'].map((folder) => join(sourceRoot, '..', folder));
    const used = new Set([
      ...sources.flatMap(({ uses }) => uses),
      ...rest.flatMap((root) => readSources(root, sourceRoot)).flatMap(({ uses }) => uses),
    ]);
    const unused = sources
      .filter(({ path }) => !isSchema(path) && !used.has(`${path}#*`))
      .flatMap(({ path, exports }) => exports.map((name) => `${path}#${name}`))
      .filter((name) => !used.has(name));
    expect(unused).toEqual([]);
  });

  it('marks what it exports for tests alone @internal, and nothing else', () => {
    const used = new Set(sources.flatMap(({ uses }) => uses));
    const exported = sources
      .filter(({ path }) => !isSchema(path) && !used.has(`${path}#*`))
      .flatMap(({ path, exports }) => exports.map((name) => `${path}#${name}`));
    const marked = sources.flatMap(({ path, internal }) => internal.map((name) => `${path}#${name}`));
    expect(marked.sort()).toEqual(exported.filter((name) => !used.has(name)).sort());
  });

  it('ARCHITECTURE.md and the pages beside the code name files and folders that are there', () => {
    const page = pages();
    const named = [...page.matchAll(/`((?:[a-z][\w-]*\/)+[\w.-]*)`/g)].map((match) => match[1]!);
    expect(named.length).toBeGreaterThan(20);
    const missing = named.filter((path) => {
      const isThere = (from: string): boolean => existsSync(resolve(sourceRoot, from, path));
      return !isThere('.') && !isThere('..');
    });
    expect(missing).toEqual([]);
  });

  it('they name types, functions and members that are there', () => {
    const page = pages();
    const named = [...page.matchAll(/`([A-Za-z]+(?:\.[a-zA-Z]+)?)`/g)]
      .map((match) => match[1]!)
      .filter((name) => /[a-z][A-Z]|\.[a-zA-Z]+[A-Z]/.test(name) && !/\.(ts|md|json)$/.test(name));
    expect(named.length).toBeGreaterThan(5);
    const tests = readFileSync(fileURLToPath(import.meta.url), 'utf8');
    const code = [...files.map(({ text }) => text), tests].join('\n');
    const words = new Set(code.match(/\b[A-Za-z]\w*\b/g));
    expect(named.filter((name) => !name.split('.').every((word) => words.has(word)))).toEqual([]);
  });

  it('has one door per dependency', () => {
    const wrong: string[] = [];
    for (const file of files) {
      for (const name of file.imports.filter((each) => !each.startsWith('.') && !each.startsWith('node:'))) {
        const dependency = name.startsWith('@') ? name.split('/').slice(0, 2).join('/') : name.split('/')[0]!;
        const doors = DOORS[dependency];
        if (doors === undefined) wrong.push(`${file.path} imports ${dependency}, which has no door`);
        else if (
          !doors.some((door) => (door.endsWith('/') ? file.path.startsWith(door) : file.path === door))
        ) {
          wrong.push(`${file.path} imports ${dependency}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it.each([
    // SQLite reads two names of the process's own environment by itself: whoever foretells what it does has to look there.
    ['process.env', /\bprocess\.env\b(?!;\n\s+const places = \[SQLITE_TMPDIR, TMPDIR,)/, 'main.ts'],
    ['process.exit', /\bprocess\.(exit|exitCode)\b/, 'main.ts'],
    ['the clock', /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(/, 'core/clock.ts'],
    ['timers', /\bset(Timeout|Interval)\(/, 'core/clock.ts'],
  ])('has one door to %s', (_name, pattern, door) => {
    const code = (text: string): string => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    const users = files
      .filter((file) => file.path !== door && pattern.test(code(file.text)))
      .map((file) => file.path);
    expect(users).toEqual([]);
  });

  it('npm ci compiles nothing: better-sqlite3 brings its binaries', () => {
    const read = (name: string): unknown => JSON.parse(readFileSync(resolve(sourceRoot, '..', name), 'utf8'));
    expect(read('package.json')).toMatchObject({ allowScripts: { 'better-sqlite3': false } });
    // For older npm, which builds what has a binding.gyp unless this line says no. `npm install` takes it out: put it back.
    expect(read('package-lock.json')).toMatchObject({
      packages: { 'node_modules/better-sqlite3': { gypfile: false } },
    });
  });

  it("npm's scripts start the program with the flags of its first line", () => {
    const { scripts } = JSON.parse(readFileSync(resolve(sourceRoot, '../package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(nodeFlags()).not.toEqual([]);
    expect(scripts['tidemark']).toBe(['node', ...nodeFlags(), 'dist/main.js'].join(' '));
    expect(scripts['demo']).toBe(`${scripts['tidemark']} demo`);
  });

  it('reading code cannot reach a client that writes', () => {
    const readers = ['sync', 'state', 'doctor', 'diff', 'report', 'mirror', 'server'];
    const wrong = files.filter(
      (file) =>
        readers.includes(folderOf(file.path)) &&
        file.imports.some((each) => each.includes('write-client') || each.endsWith('api/post.ts')),
    );
    expect(wrong.map((file) => file.path)).toEqual([]);
  });
});
