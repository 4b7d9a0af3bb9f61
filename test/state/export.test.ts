import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { parseLossless } from '../../src/core/json.ts';
import { parseLosslessYaml, stringifyYaml } from '../../src/core/yaml.ts';
import { jsonDocument, ndjsonLines, yamlDocument, yamlDocuments } from '../../src/report/export/documents.ts';
import { recordPath } from '../../src/report/export/file-name.ts';
import type { ExportRecord } from '../../src/report/export/documents.ts';
import { readExport } from '../../src/state/export-state.ts';
import type { LoadedState } from '../../src/state/state.ts';

function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const ORG = { organization_id: 'o' };
const RECORDS: ExportRecord[] = [
  { kind: 'organizations', scope: {}, id: 'o', body: '{"id":"o","name":"Harbor"}', source: null },
  {
    kind: 'projects',
    scope: ORG,
    id: '7',
    body: '{"id":7,"big":12345678901234567890,"price":1.10}',
    source: null,
  },
  { kind: 'domains', scope: ORG, id: 'd', body: '{"id":"d","domain":"a.example","x":[]}', source: null },
  {
    kind: 'recording_sharing',
    scope: { project_id: '7' },
    id: 'r',
    body: '{"enabled":true,"access_token":"t"}',
    source: null,
  },
];

/** `{path: text}` below a fresh directory. */
function written(files: Readonly<Record<string, string | Buffer>>): string {
  const directory = scratch();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  return directory;
}

function read(directory: string, path: string, source: string | null = null): Promise<LoadedState> {
  return readExport({ path, cwd: directory, source });
}

function recordsOf(state: LoadedState): unknown[] {
  return [...state.records({})].map(({ kind, scope, id, body }) => ({
    kind,
    scope,
    id,
    body: parseLossless(body),
  }));
}

const EXPECTED = RECORDS.map(({ kind, scope, id, body }) => ({ kind, scope, id, body: parseLossless(body) }));

describe('an export read back', () => {
  it.each([
    ['a.ndjson', [...ndjsonLines(RECORDS)].join('')],
    ['a.json', [...jsonDocument(RECORDS)].join('')],
    ['a.yaml', [...yamlDocuments(RECORDS)].join('')],
    ['without-extension', [...ndjsonLines(RECORDS)].join('')],
    ['also-without', [...yamlDocuments(RECORDS)].join('')],
    ['and-json', [...jsonDocument(RECORDS)].join('')],
    ['other-order.ndjson', [...ndjsonLines(RECORDS.toReversed())].join('\r\n\n')],
    ['lines-called.json', [...ndjsonLines(RECORDS)].join('')],
    ['pretty.json', JSON.stringify({ schema: 'tidemark.export/1', records: EXPECTED }, null, 2)],
    ['with-mark.ndjson', `\ufeff${[...ndjsonLines(RECORDS)].join('')}`],
  ])('%s', async (name, text) => {
    const state = await read(written({ [name]: text }), name);
    expect(recordsOf(state)).toEqual(EXPECTED);
    expect(state.reference).toEqual({ ref: `file:${name}` });
    expect([...state.records({})][1]?.body).toContain('12345678901234567890');
    expect([...state.records({})][1]?.body).toContain('1.10');
  });

  it.each(['yaml', 'ndjson', 'json'])(
    'a directory of %s, and nothing else that stands there',
    async (format) => {
      const files = Object.fromEntries(
        RECORDS.map((record): [string, string] =>
          format === 'yaml'
            ? [`t/${recordPath(record).join('/')}.yaml`, yamlDocument(record)]
            : [
                `t/${record.kind}.${format}`,
                [...(format === 'json' ? jsonDocument([record]) : ndjsonLines([record]))].join(''),
              ],
        ),
      );
      const others = { 't/README.md': '# ours', 't/.git/config.yaml': 'a: 1', 't/x.csv': 'a,b' };
      const state = await read(written({ ...files, ...others }), 't');
      expect(recordsOf(state)).toEqual(EXPECTED);
    },
  );

  it('keeps every value: YAML gives back what it was given', () => {
    const leaf = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        'yes',
        '~',
        'null',
        '0o17',
        '1_000',
        '1e3',
        '- x',
        '? y',
        '<<',
        '\u2028',
        '\u0085\u009b\u007f',
        '\ufeff\ufffe\u202e',
        '\u200b\u{e0041}\u{1ffff}',
        'a: b',
        '\ud800',
        '#',
        '\t',
      ),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    );
    const value = fc.letrec<{ any: unknown }>((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('any'), { maxLength: 4 }),
        fc.dictionary(fc.string({ unit: 'binary', maxLength: 6 }), tie('any'), { maxKeys: 4 }),
      ),
    })).any;
    const number = fc
      .tuple(fc.boolean(), fc.stringMatching(/^(0|[1-9][0-9]{0,24})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?$/))
      .map(([isNegative, text]) => `${isNegative ? '-' : ''}${text}`);
    fc.assert(
      fc.property(fc.dictionary(fc.string(), value), number, (object, text) => {
        const json = JSON.stringify({ n: 0, object }).replace('"n":0', `"n":${text}`);
        const yaml = stringifyYaml(parseLossless(json));
        const [document] = parseLosslessYaml(yaml);
        // Nothing that YAML forbids, and nothing that acts on a terminal.
        expect(yaml).not.toMatch(/[^\t\n -~\u00a0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u);
        expect(yaml).not.toMatch(/[\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/);
        expect(JSON.stringify(document?.value)).toBe(JSON.stringify(parseLossless(json)));
      }),
      { numRuns: 300 },
    );
  });
});

describe('what is wrong with an export', () => {
  const line = (over: object): string =>
    `${JSON.stringify({ kind: 'domains', scope: ORG, id: 'd', body: { id: 'd' }, ...over })}\n`;

  it.each([
    [
      'a.ndjson',
      line({}) + line({ kind: 'domans' }),
      'a.ndjson:2: there is no kind "domans"; did you mean domains?',
    ],
    ['a.ndjson', line({ kind: undefined }), 'a.ndjson:1: kind is missing'],
    ['a.ndjson', `\n${line({ scope: {} })}`, 'a.ndjson:2: domains: expected scope with organization_id'],
    ['a.ndjson', line({ scope: { ...ORG, role_id: 'r' } }), 'got "role_id"'],
    ['a.ndjson', line({ scope: { organization_id: 7 } }), 'each a text in quotes'],
    ['a.ndjson', line({ id: 7 }), 'expected id as a text, in quotes'],
    ['a.ndjson', line({ id: '' }), 'expected id as a text'],
    ['a.ndjson', line({ body: undefined }), 'body is missing'],
    ['a.ndjson', line({ body: [] }), 'expected body to be an object'],
    ['a.ndjson', line({ body: { id: 'other' } }), 'its body says that it is "other"'],
    ['a.ndjson', line({}) + line({}), 'a.ndjson:2: domains "d" is at a.ndjson:1 already'],
    ['a.ndjson', `${line({})}{"kind":"dom`, 'a.ndjson:2: not valid JSON'],
    ['a.ndjson', '7\n', 'a.ndjson:1: expected a record'],
    ['a.json', '{"schema":"tidemark.export/1","records":[\n{},\n{}]}', 'a.json:3: kind is missing'],
    ['a.json', '{"schema":"tidemark.diff/1"}', 'expected the schema tidemark.export/1'],
    ['a.json', '{"schema":"tidemark.export/1"}', 'expected records: a list'],
    ['a.json', '{"schema":\n', 'a.json:'],
    ['a.yaml', 'kind: domains\nkind: x\n', 'a.yaml:2: not valid YAML'],
    ['a.yaml', 'kind: domains\nbody: *x\n', 'an alias'],
    [
      'a.yaml',
      '---\nkind: domains\nscope:\n  organization_id: 7\nid: d\n',
      'a.yaml:2: domains: expected scope',
    ],
  ])('%s: %j', async (name, text, message) => {
    const error = await read(written({ [name]: text }), name).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(TidemarkError);
    expect((error as TidemarkError).code).toBe('usage');
    expect((error as TidemarkError).message).toContain(message);
    expect((error as TidemarkError).hint).toBeDefined();
  });

  it.each([
    ['a.csv', { 'a.csv': '_id\r\n' }, 'usage', 'CSV'],
    ['t', { 't/members.csv': '_id\r\n' }, 'usage', 'CSV'],
    ['t', { 't/README.md': 'x' }, 'usage', 'holds no export'],
    ['b', { b: Buffer.from([0xff, 0xfe, 0x00]) }, 'usage', 'not UTF-8'],
    ['missing', {}, 'reference_unknown', 'no file or directory'],
  ])('%s is refused', async (path, files, code, message) => {
    const error = await read(written(files), path).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) as string });
  });

  it('names the first ten mistakes and counts the rest', async () => {
    const error = await read(written({ 'a.ndjson': line({ kind: 'x' }).repeat(14) }), 'a.ndjson').catch(
      (thrown: unknown) => thrown as TidemarkError,
    );
    expect((error as TidemarkError).message.split('\n')).toHaveLength(12);
    expect((error as TidemarkError).message).toContain('and 4 more');
  });
});

describe('what an export speaks of', () => {
  it('is what it holds, and collections of parents that it holds; nothing else reads as removed', async () => {
    const directory = written({ 'a.ndjson': [...ndjsonLines(RECORDS)].join('') });
    const state = await read(directory, 'a.ndjson');
    expect(state.coverage('domains', ORG)).toEqual({ how: 'read', isPartial: true });
    expect(state.coverage('organizations', {})).toEqual({ how: 'read', isPartial: true });
    expect(state.unknownIn('domains', ORG)).toMatchObject({ isUnproven: true });
    expect(state.coverage('members', ORG).how).toBe('left_out');
    expect(state.coverage('domains', { organization_id: 'another' }).how).toBe('left_out');
  });

  it('includes the empty kinds that the manifest of a directory names', async () => {
    const manifest = {
      schema: 'tidemark.export_manifest/1',
      format: 'ndjson',
      paths: ['organizations.ndjson', 'members.ndjson'],
      filter: {},
      whole: [
        { kind: 'organizations', scopes: [{}] },
        { kind: 'members', scopes: [ORG] },
        { kind: 'members', scopes: 'all' },
      ],
    };
    const directory = written({
      't/.tidemark-export.json': JSON.stringify(manifest),
      't/organizations.ndjson': [...ndjsonLines(RECORDS.slice(0, 1))].join(''),
      't/members.ndjson': '',
    });
    const state = await read(directory, 't');
    expect(state.coverage('members', ORG)).toEqual({ how: 'read' });
    expect(state.coverage('domains', ORG).how).toBe('left_out');
    // What is there now is between two exports.
    writeFileSync(join(directory, 't/.tidemark-export.unfinished'), '');
    expect((await read(directory, 't')).coverage('members', ORG)).toEqual({ how: 'read', isPartial: true });
  });

  it.each([
    ['a filter', { filter: { ids: ['d'] }, whole: [] }, undefined],
    [
      'a filter that is not known',
      { filter: { tags: ['x'] }, whole: [{ kind: 'domains', scopes: [ORG] }] },
      true,
    ],
    ['no filter, and not the collection', { filter: {}, whole: [] }, true],
    ['nothing', {}, true],
  ])('a JSON export that tells %s does not speak of what it lacks', async (_name, about, isUnproven) => {
    const state = await read(written({ 'a.json': [...jsonDocument(RECORDS, about)].join('') }), 'a.json');
    expect(state.coverage('domains', ORG)).toEqual({ how: 'read', isPartial: true });
    expect(state.unknownIn('domains', ORG)?.isUnproven).toBe(isUnproven);
  });

  it('is one source of several', async () => {
    const [organization] = RECORDS;
    if (organization === undefined) throw new Error('no record');
    const both = ['a', 'b'].map((source) => ({ ...organization, source }));
    const directory = written({ 'x.ndjson': [...ndjsonLines(both)].join('') });
    expect((await read(directory, 'x.ndjson', 'b')).source).toBe('b');
    await expect(read(directory, 'x.ndjson')).rejects.toThrow('several sources: a, b');
    await expect(read(directory, 'x.ndjson', 'c')).rejects.toThrow('nothing of source c');
  });
});
