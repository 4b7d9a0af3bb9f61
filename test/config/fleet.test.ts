import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { workspace } from './workspace.ts';

const { write, yaml, refused, directory } = workspace();
const SOURCE = 'sources: [{ name: a, baseUrl: "https://a.example.com", apiKey: "${KEY}" }]\n';
const URL_TEXT = 'postgresql://tidemark:hunter2@db.example.com/fleet';
const ENV = { KEY: 'k' };

describe('fleet', () => {
  it('is not configured unless it is', () => {
    expect(yaml(SOURCE, ENV).fleet).toEqual({
      database: null,
      databaseProblem: null,
      storage: null,
      recipients: [],
      identityFile: null,
      keyDirectory: '/run/secrets/cells',
      cache: expect.stringMatching(/\/data\/fleet$/) as string,
      heartbeatMs: 30_000,
      timeLimitMs: 21_600_000,
      stopTimeoutMs: 20_000,
      slots: 4,
    });
  });

  it('has its database by variable or file, and never shows it', () => {
    const text = `${SOURCE}fleet: { database: "\${DATABASE_URL}", storage: "s3://bucket/cells?region=eu-west-1", slots: 8 }`;
    const config = yaml(text, { ...ENV, DATABASE_URL: URL_TEXT });
    expect(config.fleet.database?.reveal()).toBe(URL_TEXT);
    expect(config.fleet).toMatchObject({
      slots: 8,
      storage: { type: 's3', bucket: 'bucket', prefix: 'cells' },
    });
    expect(config.secretVariables).toContain('DATABASE_URL');
    expect(JSON.stringify(config) + inspect(config, { depth: 9 })).not.toContain('hunter2');
    write('database', `${URL_TEXT}\n`);
    const fromFile = yaml(`${SOURCE}fleet: { databaseFile: ./database, storage: ./cells }`, ENV);
    expect(fromFile.fleet.database?.reveal()).toBe(URL_TEXT);
    expect(fromFile.fleet.storage).toMatchObject({ type: 'directory', path: `${directory}/cells` });
    expect(yaml(SOURCE, { ...ENV, TIDEMARK_FLEET_DATABASE: URL_TEXT }).fleet.database?.reveal()).toBe(
      URL_TEXT,
    );
  });

  it('without its variable or file keeps no other command from working', () => {
    expect(yaml(`${SOURCE}fleet: { database: "\${DATABASE_URL}" }`, ENV).fleet).toMatchObject({
      database: null,
      databaseProblem: expect.stringContaining('DATABASE_URL') as string,
    });
    expect(yaml(`${SOURCE}fleet: { databaseFile: ./missing }`, ENV).fleet).toMatchObject({
      database: null,
      databaseProblem: expect.stringContaining('missing does not exist') as string,
    });
  });

  it.each([
    ['another scheme', 'database: "mysql://root:hunter2@db/x"', 'postgresql://'],
    ['no URL', 'database: hunter2', 'postgresql://'],
    ['both forms', `{ database: "${URL_TEXT}", databaseFile: ./x }`, 'got both'],
    ['storage of another scheme', 'storage: "gs://x/y"', 's3://BUCKET/PREFIX'],
    ['a bucket that is none', 'storage: "s3://"', 's3://BUCKET/PREFIX'],
    ['no slot', 'slots: 0', 'from 1 to 64'],
    ['an unknown key', 'slot: 3', 'slots'],
  ])('refuses %s', (_name, text, expected) => {
    const fleet = text.startsWith('{') ? text : `{ ${text} }`;
    const error = refused(`${SOURCE}fleet: ${fleet}`, ENV);
    expect(error.message).toContain(expected);
    expect(error.message).not.toContain('hunter2');
  });
});
