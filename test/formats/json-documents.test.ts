/**
 * The page about JSON documents against what commands print: every key on the page is there, every key that is there is
 * on the page. The page's notation is read as a JSON Schema: `a, b?: {c}, d: [{e}]`, where `?` marks what can be missing.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from '../journeys/restore-story.ts';

interface Shape {
  readonly type?: string;
  readonly properties: Record<string, object>;
  readonly required: readonly string[];
  readonly additionalProperties: false;
}

/** `a, b?: {c}, d: [{e}]` as a schema. Values are of any type: null stands for nothing to say. */
function shapeOf(notation: string): Shape {
  let at = 0;
  const skip = (pattern: RegExp): string => {
    const found = new RegExp(pattern, 'y');
    found.lastIndex = at;
    const [text = ''] = found.exec(notation) ?? [];
    at += text.length;
    return text;
  };
  const members = (): Shape => {
    const properties: Record<string, object> = {};
    const required: string[] = [];
    do {
      const name = skip(/\s*[a-z_0-9]+/).trim();
      if (name === '') throw new Error(`no key at ${notation.slice(at)}`);
      if (skip(/\?/) === '') required.push(name);
      properties[name] = skip(/:\s*/) === '' ? {} : value();
    } while (skip(/\s*,/) !== '');
    return { properties, required, additionalProperties: false };
  };
  const value = (): object => {
    if (skip(/\[TEXT\]/) !== '') return { type: 'array', items: { type: 'string' } };
    if (skip(/\[\s*\{/) !== '') {
      const items = { ...members(), type: 'object' };
      if (skip(/\s*\}\s*\]/) === '') throw new Error(`unclosed: ${notation.slice(at)}`);
      return { type: ['array', 'null'], items };
    }
    if (skip(/\{/) === '') throw new Error(`no value at ${notation.slice(at)}`);
    const inner = { ...members(), type: ['object', 'null'] };
    if (skip(/\s*\}/) === '') throw new Error(`unclosed: ${notation.slice(at)}`);
    return inner;
  };
  const shape = { ...members(), type: 'object' };
  if (at < notation.length) throw new Error(`left over: ${notation.slice(at)}`);
  return shape;
}

/** Schema → the notation of its keys, of the table of what commands print. */
function documented(): Map<string, string> {
  const page = readFileSync(fileURLToPath(new URL('../../docs/json-documents.md', import.meta.url)), 'utf8');
  const [, printed = ''] = /## What commands print([\s\S]*?)\n## /.exec(page) ?? [];
  return new Map(
    [...printed.matchAll(/^\| `(tidemark\.[a-z_]+\/\d)` \| [^|]* \| `([^`|]+)`/gm)].map(
      ([, schema = '', notation = '']) => [schema, notation],
    ),
  );
}

it('what commands print is what the page says, key by key', async () => {
  const story = await Story.start();
  const ajv = new Ajv({ allErrors: true, strict: false });
  const shapes = documented();
  const seen = new Set<string>();
  const problems: string[] = [];
  const check = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { stdout, stderr } = await story.run(...args);
    const document = JSON.parse(stdout) as Record<string, unknown>;
    const { schema, ...rest } = document;
    const notation = shapes.get(String(schema));
    seen.add(String(schema));
    if (notation === undefined)
      problems.push(`${args.join(' ')}: ${String(schema)} is not on the page: ${stderr}`);
    else if (!ajv.validate(shapeOf(notation), rest))
      for (const error of ajv.errors ?? [])
        problems.push(
          `${args.join(' ')}: ${String(schema)} ${error.instancePath} ${error.message ?? ''} ${JSON.stringify(error.params)}`,
        );
    return document;
  };
  await tellAll(story, check);
  expect(problems).toEqual([]);
  // Commands that go on, or need several sources, are tried elsewhere.
  expect(seen.size).toBeGreaterThan(23);
});

it('a key too many, or one too few, would be found out', () => {
  const ajv = new Ajv({ allErrors: true, strict: false });
  const shape = shapeOf('a, b?: {c}, d: [{e, f?}]');
  expect(ajv.validate(shape, { a: 1, d: [{ e: null }] })).toBe(true);
  expect(ajv.validate(shape, { a: 1, b: null, d: null })).toBe(true);
  for (const wrong of [
    { a: 1 },
    { a: 1, d: [], x: 1 },
    { a: 1, d: [{ e: 1, g: 1 }] },
    { a: 1, b: {}, d: [] },
  ])
    expect(ajv.validate(shape, wrong), JSON.stringify(wrong)).toBe(false);
});

/** Every document once, or more often where its keys differ. */
async function tellAll(
  story: Story,
  check: (...args: string[]) => Promise<Record<string, unknown>>,
): Promise<void> {
  await story.expectRun(0, 'snapshots', 'pin', 'base');
  await story.expectRun(0, 'snapshots', 'baseline', 'base');
  const [first, other] = await story.list('batch_exports');
  const [id, lost] = [String(first?.['id']), String(other?.['id'])];
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${id}/`, { name: 'Renamed' });
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${lost}/`);
  await story.call('POST', `${ORGANIZATION}domains/`, { domain: 'new.example' });
  await check('sync', '--json');
  for (const command of ['status', 'runs', 'snapshots', 'verify', 'catalog', 'restores'])
    await check(command, '--json');
  await check('runs', 'show', '2', '--json');
  await check('config', 'check', '--json');
  for (const record of [id, lost]) {
    await check('show', 'batch_exports', record, '--json');
    await check('log', 'batch_exports', record, '--json');
    await check('blame', 'batch_exports', record, '--json');
  }
  await check('changes', '--json');
  await check('diff', 'run:1', 'latest', '--json');
  await check('diff', 'run:1', 'latest', '--format', 'patch');
  await check('drift', '--json');
  await check(
    'drift',
    'accept',
    'batch_exports',
    id,
    '--reason',
    'x',
    '--until',
    '2130-01-01T00:00Z',
    '--json',
  );
  await check('drift', 'accepted', '--json');
  await check('drift', '--json');
  await check('drift', '--severity', 'critical', '--json');
  await check('drift', 'unaccept', 'batch_exports', id, '--json');
  await check('drift', 'unaccept', 'batch_exports', id, '--json');
  await check('export', '--format', 'json');
  await check('export', '--output', story.file('out'), '--json');
  const filter = ['--kind', 'batch_exports', '--id', id];
  await check('restore', 'baseline', '--kind', 'batch_exports', '--json');
  await check('restore', 'baseline', ...filter, '--apply', '--yes', '--json');
  await check('restores', '--json');
  await check('restores', 'show', '1', '--json');
  await check('undo', '1', '--json');
  await check('drill', '--kind', 'domains', '--json');
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'sync', '--quiet');
  await check('forget', '--keep-last', '1', '--dry-run', '--json');
  await check('forget', '--keep-last', '1', '--json');
  await check('runs', 'show', '4', '--json');
  await check('changes', '--json');
  // With the backup that the mirror is restored from, entries on everything.
  mkdirSync(story.file('backups'));
  story.env['TIDEMARK_BACKUP_TARGETS'] = story.file('backups');
  await story.expectRun(0, 'backup', 'create');
  for (const suffix of ['', '-wal', '-shm']) rmSync(story.file(`mirror.db${suffix}`), { force: true });
  await check('backup', 'restore', 'latest', '--to', story.file('mirror.db'), '--json');
  await check('audit', '--json');
  await story.run('audit', '--json', '--output', 'audit.json');
  await check('verify', '--audit', 'audit.json', '--json');
  await check('verify', '--backups', '--root', 'ab'.repeat(32), '--json');
}
