import { existsSync, readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import * as z from 'zod';
import { loadConfig } from '../../src/config/load.ts';
import { configJsonSchema } from '../../src/config/json-schema.ts';
import { OPTIONS } from '../../src/config/options.ts';
import { profileOption } from '../../src/config/profile.ts';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { defaultOf } from '../../src/config/schema.ts';
import { packageFile } from '../../src/core/package-root.ts';
import { configReference, defaultFile, exampleFile } from '../tools/config-docs.ts';

const read = (...path: string[]): string => readFileSync(packageFile(...path), 'utf8');
const rows = OPTION_ROWS;

describe('the options table', () => {
  it.each(rows)('$text: its default and its example are values of its type', ({ schema, about }) => {
    // Of a URL only a reference is shown.
    const example: unknown = JSON.parse(
      JSON.stringify(about.example)
        .replaceAll('${DATABASE_URL}', 'postgresql://db.example.com/tidemark')
        .replaceAll(/\$\{(\w+)\}/g, 'https://example.com/$1'),
    );
    expect(z.safeParse(schema, example).error).toBeUndefined();
    const value = defaultOf(schema);
    if (value !== undefined) expect(z.safeParse(schema, value).success).toBe(true);
    expect(about.description).toMatch(/^[A-Z].*\.$/);
  });

  it('has the rates of the default profile', () => {
    expect(OPTIONS.parse({ sources: [{}] })).toMatchObject({
      sources: [{ rate: profileOption('svc', '.').rate }],
    });
  });
});

describe('files written from the table are up to date', () => {
  it.each([
    ['docs/configuration.md', configReference],
    ['config/example.yaml', exampleFile],
    ['config/default.yaml', defaultFile],
  ])('%s', async (path, write) => {
    const file = packageFile(...path.split('/'));
    expect(existsSync(file)).toBe(true);
    // `npx vitest run test/config/generated.test.ts -u` writes them again.
    await expect(write()).toMatchFileSnapshot(file);
  });
});

describe('config/example.yaml', () => {
  it('loads without a warning', () => {
    const file = packageFile('config', 'example.yaml');
    const urls = { SLACK_URL: 'https://hooks.example.com/1', PING_URL: 'https://ping.example.com/2' };
    const env = { SVC_API_KEY: 'k', NIGHTLY_S3_SECRET: 's', ...urls };
    const config = loadConfig({ file, env, cwd: '/' });
    expect(config.sources.map(({ name }) => name)).toEqual(['production']);
    expect(config.warnings).toEqual([]);
  });

  it.each(rows.map(({ text, keys }) => [text, keys] as const))('shows %s', (_text, keys) => {
    const uncommented = read('config', 'example.yaml').replaceAll(
      /^(\s*)# (apiKeyFile|include|token|tokenFile|triggerToken|triggerTokenFile|userHeader): /gm,
      '$1$2: ',
    );
    let value: unknown = parse(uncommented);
    for (const key of keys) value = (value as Record<string, unknown>)[key === '[]' ? '0' : key];
    expect(value).toBeDefined();
  });
});

it('config/default.yaml holds every default and changes nothing', () => {
  const filled = OPTIONS.parse({ sources: [{}] });
  expect(OPTIONS.parse(parse(read('config', 'default.yaml')))).toEqual(filled);
  for (const { text, schema } of rows) {
    const byDefault = defaultOf(schema);
    if (byDefault === undefined) continue;
    let value: unknown = parse(read('config', 'default.yaml'));
    for (const key of text.replaceAll('[]', '.0').split('.')) value = (value as Record<string, unknown>)[key];
    expect(value, text).toEqual(byDefault);
  }
});

it('the reference names every option, its variable and its default', () => {
  const lines = configReference().split('\n');
  for (const { text, variable } of rows) {
    expect(
      lines.filter((line) => line.startsWith(`| \`${text}\` |`) && line.includes(`\`${variable}\``)),
    ).toHaveLength(1);
  }
});

describe('the JSON Schema', () => {
  type Schema = {
    properties?: Record<string, Schema>;
    items?: Schema;
    description?: string;
    additionalProperties?: unknown;
  };
  const schema = configJsonSchema() as Schema & { $schema: string };

  it('is of draft 2020-12 and survives as JSON', () => {
    expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(JSON.parse(JSON.stringify(schema))).toEqual(schema);
  });

  it('has only patterns that every validator can read', () => {
    const patterns = [...JSON.stringify(schema).matchAll(/"pattern":("(?:\\.|[^"\\])*")/g)].map(
      ([, text = '']) => JSON.parse(text) as string,
    );
    expect(patterns.length).toBeGreaterThan(10);
    // Those of Python know no classes of Unicode, those of Go no lookarounds.
    expect(patterns.filter((each) => /\\[pP]\{|\(\?<?[=!]/.test(each))).toEqual([]);
    for (const isUnicode of [true, false]) {
      const ajv = new Ajv2020({ strict: false, unicodeRegExp: isUnicode });
      const isValid = (git: object): boolean =>
        ajv.validate(schema, { sources: [{ name: 'a', baseUrl: 'https://svc.example.com', git }] });
      expect(isValid({ branch: 'release/p{Cc}-ü', author: 'Ana Pé <ana.p@example.com>' })).toBe(true);
      for (const wrong of [{ branch: 'a b' }, { branch: 'a\u0007' }, { author: 'A\u0085 <a@example.com>' }])
        expect(isValid(wrong), JSON.stringify(wrong)).toBe(false);
    }
  });

  it.each(rows.map(({ text, keys }) => [text, keys] as const))('describes %s', (_text, keys) => {
    let at: Schema | undefined = schema;
    for (const key of keys) {
      if (key !== '[]') expect(at?.additionalProperties).toBe(false);
      at = key === '[]' ? at?.items : at?.properties?.[key];
    }
    expect(at?.description).toBeTruthy();
  });
});
