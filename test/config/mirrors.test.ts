import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { type LoadedConfig, mirrorConfigs, onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { KEY, thrownBy, workspace } from './workspace.ts';

const { directory, write, refused } = workspace();

const SOURCES = `sources:
  - { name: acme, baseUrl: https://svc.example.com, apiKey: "\${KEY}" }
  - { name: beta, baseUrl: https://svc.example.com, apiKey: "\${KEY}" }
  - { name: core, baseUrl: https://other.example.com, apiKey: "\${KEY}" }
`;

function loaded(text: string, env: Readonly<Record<string, string>> = KEY): LoadedConfig {
  write('tidemark.yaml', text);
  return loadConfig({ env, cwd: directory });
}

describe('mirrorConfigs', () => {
  it('gives one Config where all sources share a mirror', () => {
    const [config, ...more] = mirrorConfigs(loaded(`mirror: ./data/all.db\n${SOURCES}`));
    expect(more).toEqual([]);
    expect(config).toMatchObject({ mirror: join(directory, 'data/all.db') });
    expect(config?.rateLogBeside).toBe(config?.mirror);
    expect(config?.sources.map(({ name }) => name)).toEqual(['acme', 'beta', 'core']);
  });

  it('gives each source a Config of its own, that knows no other source', () => {
    const whole = loaded(
      `mirror: ./data/{source}/{source}.db
${SOURCES}schedules:
  drift: { sources: [beta, core] }
  drill: { cron: off }
`,
    );
    const configs = mirrorConfigs(whole);
    expect(configs.map(({ mirror }) => mirror)).toEqual(
      ['acme', 'beta', 'core'].map((name) => join(directory, 'data', name, `${name}.db`)),
    );
    for (const [index, config] of configs.entries()) {
      expect(config.sources).toEqual([whole.sources[index]]);
      expect(config.configured).toEqual([whole.sources[index]]);
      expect(config.digest).toBe(whole.digest);
      expect(config.schedules.sync?.sources).toEqual([whole.sources[index]?.name]);
      expect(config.schedules.drill).toBeNull();
    }
    expect(configs.map(({ schedules }) => schedules.drift?.sources ?? null)).toEqual([
      null,
      ['beta'],
      ['core'],
    ]);
  });

  it('has one log of request starts for all mirrors, in the directory that they share', () => {
    for (const [mirror, beside] of [
      ['./data/{source}.db', 'data/tidemark.mirrors'],
      ['./data/{source}/mirror.db', 'data/tidemark.mirrors'],
      ['./data/of-{source}.db', 'data/tidemark.mirrors'],
      ['{source}.db', 'tidemark.mirrors'],
    ] as const) {
      const found = mirrorConfigs(loaded(`mirror: "${mirror}"\n${SOURCES}`));
      expect(new Set(found.map(({ rateLogBeside }) => rateLogBeside))).toEqual(
        new Set([join(directory, beside)]),
      );
    }
  });

  it('keeps the backups of each apart, so that retention of one counts none of another', () => {
    const configs = mirrorConfigs(
      loaded(
        `mirror: ./data/{source}.db\n${SOURCES}backup: { targets: [./b, "s3://bucket/prefix", "s3://bucket"] }\n`,
      ),
    );
    expect(configs.map(({ backup }) => backup?.targets)).toMatchObject(
      ['acme', 'beta', 'core'].map((name) => [
        { type: 'directory', path: join(directory, 'b', name), within: join(directory, 'b') },
        { type: 's3', bucket: 'bucket', prefix: `prefix/${name}` },
        { type: 's3', bucket: 'bucket', prefix: name },
      ]),
    );
  });

  it('takes the path from the environment, and a single source without a file', () => {
    const env = {
      TIDEMARK_BASE_URL: 'https://svc.example.com',
      TIDEMARK_API_KEY: 'key',
      TIDEMARK_MIRROR: './m/{source}.db',
    };
    expect(onlyMirrorConfig(loadConfig({ env, cwd: directory })).mirror).toBe(
      join(directory, 'm/default.db'),
    );
  });

  it('onlyMirrorConfig refuses several mirrors, and none', () => {
    const whole = loaded(`mirror: ./data/{source}.db\n${SOURCES}`);
    expect(thrownBy(() => onlyMirrorConfig(whole))).toMatchObject({
      code: 'usage',
      message: 'each source has a mirror of its own: name one with --source',
      hint: 'there are acme, beta and core',
    });
    expect(thrownBy(() => onlyMirrorConfig({ ...whole, sources: [] }))).toMatchObject({
      code: 'config_missing',
    });
  });
});

describe('the path of the mirror', () => {
  it.each([
    './data/{name}.db',
    './data/{source.db',
    './data/source}.db',
    './data/{}.db',
    './data/{Source}.db',
  ])('refuses %s: {source} is the only placeholder', (mirror) => {
    expect(refused(`mirror: "${mirror}"\n${SOURCES}`, KEY).message).toBe(
      `tidemark.yaml:1: mirror: expected a path without braces, or with {source} before an ending such as .db, got "${mirror}"`,
    );
  });

  it.each(['./data/{source}', './data/x.{source}', './data/{source}-mirror', './{source}.db/{source}'])(
    'refuses %s: the lock of one source could be the mirror of another',
    (mirror) => {
      expect(refused(`mirror: "${mirror}"\n${SOURCES}`, KEY).message).toContain(
        'before an ending such as .db',
      );
    },
  );

  it.each(['Acme', 'a/b', '..', 'a b', 'straße', 'con:', '{source}', ''])(
    'refuses a source named %j, which is no file name everywhere or differs from another by case only',
    (name) => {
      const text = `mirror: ./{source}.db\n${SOURCES.replace('name: beta', `name: "${name}"`)}`;
      expect(refused(text, KEY).message).toMatch(/^tidemark\.yaml:4: sources\[1\]\.name: expected a name/);
    },
  );
});
