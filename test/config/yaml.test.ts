import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { KEY, oneSource, thrownBy, workspace } from './workspace.ts';

const { directory, load, yaml, refused } = workspace();

/** An alias that doubles with each level: 2^40 values when followed. */
const bomb = [
  'a0: &a0 x',
  ...Array.from({ length: 40 }, (_unused, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`),
  '',
].join('\n');

describe('a file that is no configuration', () => {
  it.each([
    ['tab', 'sources:\n\t- name: a\n', 2, 'spaces for indentation'],
    ['open quote', 'mirror: "./m.db\nsources: []\n', 1, 'a quote is opened on this line and not closed'],
    ['open quote below', "mirror: a\nsources:\n  - { name: 'a\nlog: {}\n", 3, 'opened on this line and not'],
    ['text after a quote', 'mirror: a\nlog: "a"b\n', 2, 'not valid YAML'],
    ['open bracket', 'sources: [a, b\n', undefined, 'a bracket or brace that is not closed'],
    [
      'variable without quotes between braces',
      'sources:\n  - { name: a, apiKey: ${KEY} }\n',
      2,
      '${KEY} needs quotes between braces or brackets: write "${KEY}"',
    ],
    ['two keys on a line', 'mirror: a: b\n', 1, 'key: value'],
    ['double key', 'mirror: a\nmirror: b\n', 2, 'appears twice'],
    ['second document', 'mirror: a\n---\nmirror: b\n', undefined, 'second one after "---"'],
    ['list on top', '- mirror: a\n', 1, 'expected a mapping of options, got a list'],
    ['one word', 'hello\n', 1, 'expected a mapping of options, got a single value'],
    ['alias without anchor', 'mirror: *nowhere\n', 1, 'alias'],
    ['unknown tag', 'mirror: !exec ls\n', 1, 'tag'],
    ['key that is a list', '? [a]\n: b\n', 1, 'plain text as key'],
    ['item indented too little', 'sources:\n  - name: a\n   baseUrl: b\n', undefined, 'the indentation'],
    ['key indented too little', 'sources:\n  - name: a\n  baseUrl: b\n', 3, 'wrong indentation'],
    ['key indented too much', 'sources:\n  - name: a\n    baseUrl: b\n     c: d\n', 3, 'the indentation'],
    ['text before keys', 'sources:\n  a\n  b: c\n', 2, 'check the indentation'],
    ['alias bomb', bomb, undefined, 'at most 100 aliases'],
    ['alias inside itself', 'a: &a [*a]\n', undefined, 'nested deeper than 30 levels'],
    ['many values', `a: [${'1,'.repeat(100_001)}]\n`, undefined, 'at most 100000 values'],
  ])('%s', (_name, text, line, message) => {
    const error = refused(text);
    expect(error.code).toBe('config_invalid');
    expect(error.message).toContain(message);
    expect(error.message).toMatch(
      line === undefined ? /tidemark\.yaml:\d+: / : new RegExp(`tidemark\\.yaml:${line}: `),
    );
  });

  it.each([
    ['UTF-16', Buffer.from('\ufeffmirror: a', 'utf16le'), 'is not UTF-8 text'],
    ['Latin-1', Buffer.from([0x6d, 0x3a, 0x20, 0xe9, 0x0a]), 'is not UTF-8 text'],
    ['5 MB', Buffer.alloc(5 * 1024 * 1024, '#'), 'is larger than 4 MB'],
  ])('%s', (_name, bytes, message) => {
    expect(refused(bytes).message).toContain(message);
  });

  it('a double key is reported together with every other mistake', () => {
    const { message } = refused(
      `mirror: a\nmirror: b\npageSize: 5\nsources:\n  - name: a\n    name: b\n    baseUrl: nowhere\n    apiKey: phx_test\n    rate: { perMinute: many }\n`,
    );
    expect(message.split('\n').slice(1)).toEqual([
      expect.stringMatching(/^tidemark\.yaml:2: .*appears twice/),
      expect.stringMatching(/^tidemark\.yaml:3: pageSize: /),
      expect.stringMatching(/^tidemark\.yaml:6: .*appears twice/),
      expect.stringMatching(/^tidemark\.yaml:7: .*baseUrl: /),
      expect.stringMatching(/^tidemark\.yaml:9: .*perMinute: /),
    ]);
  });

  it('a merge key: said once, and not what it would have brought', () => {
    const { message } = refused(
      `x-common: &common { baseUrl: https://a.example.com, apiKey: k }\nsources:\n  - name: a\n    <<: *common\n`,
    );
    expect(message).toBe(
      'tidemark.yaml:4: merge keys (<<) are not supported: write the options out, or use an alias (*name) as a value',
    );
  });

  it('a directory', () => {
    mkdirSync(join(directory, 'tidemark.yaml'));
    const error = thrownBy(() => load());
    expect([error.code, error.message]).toEqual([
      'config_invalid',
      'tidemark.yaml is a directory: expected a YAML file',
    ]);
    expect(thrownBy(() => loadConfig({ file: '.', env: {}, cwd: directory })).message).toBe(
      `${directory} is a directory: expected a YAML file`,
    );
  });

  it('never quotes a line that may hold the key', () => {
    for (const broken of [
      'apiKey: "phx_leak',
      'apiKey: [phx_leak',
      'apiKey: phx_leak: x',
      '\tapiKey: phx_leak',
      'apiKey: *phx_leak',
    ]) {
      const error = refused(`sources:\n  - name: a\n    ${broken}\n`);
      expect(error.code).toBe('config_invalid');
      expect(`${error.message}${error.hint ?? ''}`).not.toContain('phx_leak');
    }
  });
});

describe('a file that is a little unusual', () => {
  it.each([
    ['with a byte order mark', `\ufeff${oneSource()}`],
    ['with Windows line ends', oneSource().replaceAll('\n', '\r\n')],
    ['with a document start', `---\n${oneSource()}`],
    ['as JSON', '{"sources": [{"baseUrl": "https://svc.example.com", "apiKey": "${KEY}"}]}'],
  ])('%s is read', (_name, text) => {
    expect(yaml(text, KEY).sources[0]!.apiKey.reveal()).toBe('phx_test');
  });
});
