import { chmodSync, mkdirSync } from 'node:fs';
import { inspect } from 'node:util';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { thrownBy, workspace } from './workspace.ts';

const { directory, write, load, yaml, refused } = workspace();
const BASE = { TIDEMARK_BASE_URL: 'https://svc.example.com' } as const;
const withFile = (name: string): string =>
  `sources:\n  - baseUrl: https://svc.example.com\n    apiKeyFile: ${name}\n`;

describe('a name of a source', () => {
  const KEY = `phx_${'Ab3dE6gH9k'.repeat(4)}`;

  it.each([
    ['the key itself', 'pasted-by-accident', 'pasted-by-accident'],
    ['of the form of a key', KEY.toLowerCase(), 'another-secret'],
    ['of the form of a key, and no name', KEY, 'another-secret'],
  ])('that is %s is refused without being shown', (_what, name, key) => {
    const error = refused(
      `sources:\n  - name: ${name}\n    baseUrl: https://svc.example.com\n    apiKey: ${key}\n`,
    );
    expect(error.code).toBe('config_invalid');
    expect(error.message).toMatch(
      /sources\[0\]\.name: (this is an API key, not a name|expected a name .* got a secret)/,
    );
    expect(error.message).not.toContain(name);
    expect(error.message.split('\n')).toHaveLength(1);
  });

  it.each([
    ['of no known form', 'Q7rT2mXw9LpZ4vKc8sYb', false],
    ['that is short', 'Team-2', true],
    ['of words', 'Production-of-the-whole-company', true],
  ])('%s that the rule refuses is shown unless it may be a key', (_what, name, isShown) => {
    const { message } = refused(
      `sources:\n  - name: ${name}\n    baseUrl: https://svc.example.com\n    apiKey: another-secret\n`,
    );
    expect(message).toMatch(/sources\[0\]\.name: expected a name/);
    expect(message.includes(name)).toBe(isShown);
  });
});

describe('a key file', () => {
  it('is read and trimmed, relative to the configuration or the current directory', () => {
    write('key', '  phx_file\r\n\n');
    expect(yaml(withFile('./key')).sources[0]!.apiKey.reveal()).toBe('phx_file');
    expect(load({ ...BASE, TIDEMARK_API_KEY_FILE: 'key' }).sources[0]!.apiKey.reveal()).toBe('phx_file');
    expect(yaml(withFile('./key')).warnings).toEqual([]);
  });

  it('may be named by a variable', () => {
    write('key', 'phx_file');
    const config = yaml(withFile('${CREDENTIALS}/key'), { CREDENTIALS: directory });
    expect(config.sources[0]!.apiKey.reveal()).toBe('phx_file');
  });

  it('that everybody can read gives a warning', () => {
    const path = write('open-key', 'phx_file');
    chmodSync(path, 0o644);
    expect(yaml(withFile('open-key')).warnings).toEqual([
      `tidemark.yaml:3: sources[0].apiKeyFile: ${path} can be read by every user of this machine; chmod 600 it`,
    ]);
    const source = (name: string) =>
      `  - { name: ${name}, baseUrl: https://${name}.example.com, apiKeyFile: open-key }\n`;
    expect(yaml(`sources:\n${['a', 'b', 'c'].map(source).join('')}`).warnings, 'one for all').toEqual([
      `tidemark.yaml:2: sources[0].apiKeyFile: ${path} can be read by every user of this machine; chmod 600 it (3 options name it)`,
    ]);
  });

  it.each([
    ['missing', undefined, 'does not exist'],
    ['empty', '', 'is empty'],
    ['blank', ' \n\n', 'is empty'],
    ['of two lines', 'phx_leak\nphx_leak\n', 'expected one secret'],
    ['binary', '\u0000phx_leak\u0001', 'expected one secret'],
    ['huge', 'k'.repeat(20_000), 'too large'],
  ])('that is %s is a mistake', (name, content, message) => {
    if (content !== undefined) write(name, content);
    const error = refused(withFile(name));
    expect(error.code).toBe('config_invalid');
    expect(error.message).toContain(`tidemark.yaml:3: sources[0].apiKeyFile: ${join(directory, name)}`);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('phx_leak');
    expect(error.message.split('\n')).toHaveLength(1);
  });

  it('that is a directory is a mistake', () => {
    mkdirSync(join(directory, 'keys'), { recursive: true });
    expect(refused(withFile('keys')).message).toContain('is a directory');
  });

  it('beside a key is a mistake, unless the environment chose', () => {
    write('key', 'phx_file');
    const both = `${withFile('key')}    apiKey: \${KEY}\n`;
    expect(refused(both, { KEY: 'k' }).message).toContain('expected apiKey or apiKeyFile, got both');
    expect(yaml(withFile('nowhere'), { TIDEMARK_API_KEY: 'phx_env' }).sources[0]!.apiKey.reveal()).toBe(
      'phx_env',
    );
    expect(yaml(both, { KEY: 'k', TIDEMARK_API_KEY_FILE: 'key' }).sources[0]!.apiKey.reveal()).toBe(
      'phx_file',
    );
    write('tidemark.yaml', '');
    const twice = thrownBy(() => load({ ...BASE, TIDEMARK_API_KEY: 'k', TIDEMARK_API_KEY_FILE: 'key' }));
    expect(twice.message).toBe('TIDEMARK_API_KEY_FILE: expected apiKey or apiKeyFile, got both');
  });
});

describe('a token file', () => {
  const text = 'http: { listen: "0.0.0.0:8787", tokenFile: ./token }\n';
  const source = { ...BASE, TIDEMARK_API_KEY: 'k' };

  it('is read like a key file', () => {
    write('token', 'token-of-the-daemon\n');
    const { http, warnings } = yaml(text, source);
    expect(http.token?.reveal()).toBe('token-of-the-daemon');
    expect(http.tokenFile).toBe(join(directory, 'token'));
    expect(warnings).toEqual([]);
  });

  it('with a short token is a warning where other machines may try it', () => {
    write('token', 'tok\n');
    const [warning, ...more] = yaml(text, source).warnings;
    expect(warning).toMatch(/^tidemark.yaml:1: http.tokenFile: a token this short can be guessed/);
    expect(more).toEqual([]);
    expect(yaml(text.replace('0.0.0.0', '127.0.0.1'), source).warnings).toEqual([]);
  });

  it('that cannot be read is a warning: only the daemon needs it', () => {
    const config = yaml(text.replace('./token', './no-token'), source);
    expect(config.http).toMatchObject({ token: null, tokenFile: join(directory, 'no-token') });
    expect(config.warnings).toEqual([
      `tidemark.yaml:1: http.tokenFile: ${join(directory, 'no-token')} does not exist`,
    ]);
  });
});

describe('the token of the replica', () => {
  const source = { ...BASE, TIDEMARK_API_KEY: 'k', TIDEMARK_HTTP_TOKEN: 'tok' };

  it('is its own, from the environment or a file', () => {
    expect(load(source).replica).toEqual({ token: null, tokenFile: null });
    expect(load({ ...source, TIDEMARK_REPLICA_TOKEN: 'own' }).replica.token?.reveal()).toBe('own');
    write('replica', 'own\n');
    const { replica } = load({ ...source, TIDEMARK_REPLICA_TOKEN_FILE: 'replica' });
    expect([replica.token?.reveal(), replica.tokenFile]).toEqual(['own', join(directory, 'replica')]);
  });

  it.each([
    ['tok', 'http.token'],
    ['k', 'the key of source default'],
  ])('is not %s, which opens something else', (token, what) => {
    const { message } = thrownBy(() => load({ ...source, TIDEMARK_REPLICA_TOKEN: token }));
    expect(message).toBe(`TIDEMARK_REPLICA_TOKEN: expected a separate token, got ${what}`);
  });

  it('in a file that cannot be read is a warning', () => {
    const { replica, warnings } = load({ ...source, TIDEMARK_REPLICA_TOKEN_FILE: 'nowhere' });
    expect(replica).toEqual({ token: null, tokenFile: join(directory, 'nowhere') });
    expect(warnings).toHaveLength(1);
  });
});

describe('the token of webhooks', () => {
  const source = { ...BASE, TIDEMARK_API_KEY: 'k', TIDEMARK_HTTP_TOKEN: 'tok' };

  it('is its own, from the environment or a file', () => {
    expect(load(source).http.triggerToken).toBeNull();
    expect(load({ ...source, TIDEMARK_HTTP_TRIGGER_TOKEN: 'own' }).http.triggerToken?.reveal()).toBe('own');
    write('trigger', 'own\n');
    const { http } = load({ ...source, TIDEMARK_HTTP_TRIGGER_TOKEN_FILE: 'trigger' });
    expect([http.triggerToken?.reveal(), http.token?.reveal()]).toEqual(['own', 'tok']);
  });

  it('is not the token that reads, nor the one of the replica', () => {
    const { message } = thrownBy(() => load({ ...source, TIDEMARK_HTTP_TRIGGER_TOKEN: 'tok' }));
    expect(message).toBe('TIDEMARK_HTTP_TRIGGER_TOKEN: expected a separate token, got http.token');
    const both = { TIDEMARK_HTTP_TRIGGER_TOKEN: 'own', TIDEMARK_REPLICA_TOKEN: 'own' };
    expect(thrownBy(() => load({ ...source, ...both })).message).toContain('got http.triggerToken');
  });

  it('in a file that cannot be read is a warning', () => {
    const { http, warnings } = load({ ...source, TIDEMARK_HTTP_TRIGGER_TOKEN_FILE: 'nowhere' });
    expect(http.triggerToken).toBeNull();
    expect(warnings).toHaveLength(1);
  });
});

it('a configuration shows no secret, however it is printed', () => {
  const config = load({ ...BASE, TIDEMARK_API_KEY: 'phx_leak', TIDEMARK_HTTP_TOKEN: 'tok_leak' });
  const printed = [
    inspect(config, { depth: 20, showHidden: true }),
    JSON.stringify(config),
    String(config.sources[0]!.apiKey),
  ];
  expect(printed.join()).not.toMatch(/phx_leak|tok_leak/);
  expect(printed.join()).toContain('[secret]');
});
