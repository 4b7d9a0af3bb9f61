import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { interpolate } from '../../src/config/document.ts';
import { OPTION_ROWS } from '../../src/config/environment.ts';
import { KEY, oneSource, thrownBy, workspace } from './workspace.ts';

const { directory, load, yaml, refused } = workspace();
const SOURCE = { TIDEMARK_BASE_URL: 'https://svc.example.com', TIDEMARK_API_KEY: 'phx_env' } as const;

describe('the environment alone', () => {
  it('defines one source called default', () => {
    const config = load(SOURCE);
    expect(config.file).toBeNull();
    expect(config.mirror).toBe(join(directory, 'data/mirror.db'));
    expect(config.sources.map(({ name, baseUrl, apiKey }) => [name, baseUrl.href, apiKey.reveal()])).toEqual([
      ['default', 'https://svc.example.com/', 'phx_env'],
    ]);
    expect(config.warnings).toEqual([]);
  });

  it('sets every option', () => {
    const config = load({
      ...SOURCE,
      TIDEMARK_MIRROR: 'm.db',
      TIDEMARK_NAME: 'prod',
      TIDEMARK_PROFILE: 'posthog',
      TIDEMARK_ORGANIZATIONS: 'a, b',
      TIDEMARK_PROJECTS: 'all',
      TIDEMARK_KINDS_INCLUDE: 'roles,members',
      TIDEMARK_RATE_PER_MINUTE: '0',
      TIDEMARK_RATE_PER_HOUR: '7',
      TIDEMARK_RATE_CONCURRENCY: '2',
      TIDEMARK_PAGE_SIZE: '9',
      TIDEMARK_RETRY_ATTEMPTS: '1',
      TIDEMARK_RETRY_MAX_WAIT_SECONDS: '3',
      TIDEMARK_SYNC_MAX_DURATION: '90m',
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: 'all',
      TIDEMARK_RECORDINGS_FULL_SWEEP_EVERY: '2h',
      TIDEMARK_REMOVALS_MAX_RECORDS: '4',
      TIDEMARK_REMOVALS_MAX_SHARE: '0.5',
      TIDEMARK_REMOVALS_CONFIRM_AFTER: '5m',
      TIDEMARK_DEFINITIONS: '{"invites":{"fields":{"message":{"volatile":true}}}}',
      TIDEMARK_SCHEDULES_SYNC_CRON: '*/5 * * * *',
      TIDEMARK_SCHEDULES_SYNC_JITTER: '1s',
      TIDEMARK_HTTP_LISTEN: '0.0.0.0:1',
      TIDEMARK_HTTP_TOKEN: 'token-of-the-daemon',
      TIDEMARK_LOG_LEVEL: 'warn',
    });
    const source = config.sources[0]!;
    expect(config.mirror).toBe(join(directory, 'm.db'));
    expect(source).toMatchObject({
      name: 'prod',
      profile: 'posthog',
      organizations: ['a', 'b'],
      projects: 'all',
      kinds: { include: ['roles', 'members'], exclude: [] },
      rate: { perMinute: 0, perHour: 7, concurrency: 2 },
      pageSize: 9,
      retry: { attempts: 1, maxWaitSeconds: 3 },
      sync: { maxDurationMs: 5_400_000 },
      recordings: { sharingPerRun: 'all', fullSweepEveryMs: 7_200_000 },
      removals: { maxRecords: 4, maxShare: 0.5, confirmAfterMs: 300_000 },
    });
    const message = source.definitions
      .find(({ kind }) => kind === 'invites')!
      .fields.find(({ name }) => name === 'message');
    expect(message?.isVolatile).toBe(true);
    expect(config.schedules.sync).toEqual({
      cron: '*/5 * * * *',
      zone: 'UTC',
      jitterMs: 1000,
      sources: ['prod'],
    });
    expect(config.http).toMatchObject({ host: '0.0.0.0', port: 1 });
    expect(config.http.token?.reveal()).toBe('token-of-the-daemon');
    expect(config.log.level).toBe('warn');
    expect(config.warnings).toEqual([]);
  });

  it('is parsed strictly, each mistake under its variable, all at once', () => {
    const error = thrownBy(() =>
      load({
        ...SOURCE,
        TIDEMARK_RATE_PER_MINUTE: '480/min',
        TIDEMARK_PAGE_SIZE: '0x10',
        TIDEMARK_REMOVALS_MAX_SHARE: 'NaN',
        TIDEMARK_KINDS_EXCLUDE: 'roles,,rolez',
        TIDEMARK_DEFINITIONS: '{"invites":',
        TIDEMARK_LOG_LEVEL: 'true',
      }),
    );
    expect(error.message.split('\n').slice(1).toSorted()).toEqual([
      'TIDEMARK_DEFINITIONS: expected a mapping by kind, got "{\\"invites\\":"',
      'TIDEMARK_KINDS_EXCLUDE: expected a kind, got "rolez"; did you mean "roles"?',
      'TIDEMARK_KINDS_EXCLUDE: expected a kind, got nothing',
      'TIDEMARK_LOG_LEVEL: expected one of silent, error, warn, info, debug, trace, got "true"',
      'TIDEMARK_PAGE_SIZE: expected a whole number from 1 to 10000, got "0x10"',
      'TIDEMARK_RATE_PER_MINUTE: expected a whole number from 0 to 1000000, got "480/min"',
      'TIDEMARK_REMOVALS_MAX_SHARE: expected a number from 0 to 1, got "NaN"',
    ]);
  });

  it('says which half is missing', () => {
    expect(thrownBy(() => load({ TIDEMARK_API_KEY: 'k' })).message).toContain('sources[0].baseUrl: missing');
    const noKey = thrownBy(() =>
      load({ TIDEMARK_BASE_URL: 'https://svc.example.com', TIDEMARK_API_KEY: '' }),
    );
    expect(noKey.message).toContain('TIDEMARK_API_KEY or TIDEMARK_API_KEY_FILE');
  });

  it('never shows a key that is no key', () => {
    const error = thrownBy(() => load({ ...SOURCE, TIDEMARK_API_KEY: 'Bearer phx_leak' }));
    expect(error.message).toContain('TIDEMARK_API_KEY: expected a key');
    expect(error.message).not.toContain('phx_leak');
  });
});

describe('the environment over a file', () => {
  it('goes before the file', () => {
    const config = yaml(oneSource('name: a', 'pageSize: 3', 'kinds: { exclude: [roles] }'), {
      ...KEY,
      TIDEMARK_PAGE_SIZE: '4',
      TIDEMARK_KINDS_INCLUDE: 'members',
      TIDEMARK_MIRROR: '/elsewhere/m.db',
    });
    expect(config.sources[0]).toMatchObject({
      name: 'a',
      pageSize: 4,
      kinds: { include: ['members'], exclude: [] },
    });
    expect(config.mirror).toBe('/elsewhere/m.db');
  });

  it('makes a variable that the file refers to needless', () => {
    expect(yaml(oneSource(), { TIDEMARK_API_KEY: 'k' }).sources[0]!.apiKey.reveal()).toBe('k');
    expect(() => yaml(oneSource('pageSize: ${SIZE}'), { ...KEY, TIDEMARK_PAGE_SIZE: '3' })).not.toThrow();
  });

  it('is refused for one source of several, unless the file refers to the variable', () => {
    const two = (key: string): string =>
      ['a', 'b']
        .map((name) => `  - { name: ${name}, baseUrl: https://x.example.com, apiKey: "\${${key}}" }\n`)
        .join('');
    expect(refused(`sources:\n${two('KEY')}`, { ...KEY, TIDEMARK_PAGE_SIZE: '4' }).message).toBe(
      'TIDEMARK_PAGE_SIZE: sets an option of a single source, and the file has 2',
    );
    const shared = yaml(`sources:\n${two('TIDEMARK_API_KEY')}`, { TIDEMARK_API_KEY: 'k' });
    expect(shared.sources.map(({ apiKey }) => apiKey.reveal())).toEqual(['k', 'k']);
  });

  it('warns of variables that are not an option, but not of those of container platforms', () => {
    const { warnings } = load({
      ...SOURCE,
      TIDEMARK_RATE_PERMINUTE: '1',
      TIDEMARK_XYZZY: '1',
      TIDEMARK_PORT: 'tcp://10.0.0.1:8787',
      TIDEMARK_PORT_8787_TCP_ADDR: '10.0.0.1',
      TIDEMARK_SERVICE_HOST: '10.0.0.1',
    });
    expect(warnings).toEqual([
      'TIDEMARK_RATE_PERMINUTE: no option has this variable; did you mean TIDEMARK_RATE_PER_MINUTE?',
      'TIDEMARK_XYZZY: no option has this variable',
    ]);
  });
});

describe('interpolation', () => {
  it('makes numbers and lists of texts where the option is one', () => {
    const env = { ...KEY, SIZE: '25', ORGS: 'a,b', HOST: 'svc.example.com' };
    const config = yaml(oneSource('pageSize: ${SIZE}', 'organizations: ${ORGS}', 'name: s-${SIZE}'), env);
    expect(config.sources[0]).toMatchObject({ pageSize: 25, organizations: ['a', 'b'], name: 's-25' });
  });

  it('shows the reference and not the value where the value is wrong', () => {
    const error = refused(oneSource('pageSize: ${SIZE}'), { ...KEY, SIZE: 'phx_leak' });
    expect(error.message).toContain(
      'pageSize: expected a whole number from 1 to 10000, got what "${SIZE}" gives',
    );
    expect(error.message).not.toContain('phx_leak');
  });

  it.each([
    ['plain', 'plain'],
    ['${A}', '1'],
    ['x${A}y${B}', 'x1y${A}'],
    ['$${A}', '${A}'],
    ['$A $ {A} }', '$A $ {A} }'],
  ])('%s gives %s', (text, value) => {
    expect(interpolate(text, { A: '1', B: '${A}' })).toMatchObject({ value });
  });

  it.each(['${', '${}', '${A', '${A-b}', '${0}', '${MISSING}', '${constructor}'])(
    '%s is a mistake',
    (text) => {
      expect(interpolate(text, { A: '1' })).toHaveProperty('mistake');
    },
  );

  it('leaves text without references alone', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        fc.pre(!text.includes('${'));
        expect(interpolate(text, {})).toEqual({ isPlain: true, value: text });
      }),
    );
  });
});

it('no two options share a variable', () => {
  const variables = OPTION_ROWS.map((row) => row.variable);
  expect(new Set(variables).size).toBe(variables.length);
  expect(variables).toContain('TIDEMARK_RATE_PER_MINUTE');
  expect(variables.every((name) => /^TIDEMARK_[A-Z_]+$/.test(name))).toBe(true);
});
