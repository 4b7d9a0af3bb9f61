import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commandLine } from '../journeys/command-line.ts';
import { scratch } from '../journeys/harness.ts';

const RECIPIENT = 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p';

/** On Linux, memory, which has a device of its own. */
const OTHER_DISK = '/dev/shm';
const hasOtherDisk = existsSync(OTHER_DISK) && statSync(OTHER_DISK).dev !== statSync(tmpdir()).dev;

async function check(backup: string, directory = scratch()): Promise<string> {
  writeFileSync(join(directory, 'tidemark.yaml'), backup);
  const env = { TIDEMARK_BASE_URL: 'https://a.example.com', TIDEMARK_API_KEY: 'k' };
  const { code, stdout } = await commandLine(['config', 'check'], { env, cwd: directory });
  expect(code).toBe(0);
  return stdout;
}

it('config check counts the rules that hide drift: no audit log has them', async () => {
  const rules = 'drift: { ignore: [{ kind: roles, reason: a }, { kind: domains, reason: b }] }\n';
  expect(await check(rules)).toContain('\ndrift: 2 rules to ignore; `tidemark drift --verbose` lists');
  expect(await check('')).not.toContain('\ndrift:');
});

describe('config check on backups', () => {
  it('warns of a directory that is missing, or no directory, and of backups without recipients', async () => {
    const stdout = await check('backup: { targets: [./away, ./tidemark.yaml, "s3://bucket/a"] }\n');
    expect(stdout).toMatch(/warning: backup.targets: .*\/away does not exist/);
    expect(stdout).toMatch(/warning: backup.targets: .*tidemark.yaml is not a directory/);
    expect(stdout).toContain('warning: backup: without backup.recipients backups are not encrypted');
    expect(stdout.match(/warning:/g)).toHaveLength(3);
  });

  it('says how often backups are made and which are kept, and when several of a day are of no use', async () => {
    const said = async (more: string): Promise<string> =>
      /^backups: .*$/m.exec(await check(`backup: { targets: [./a]${more} }\n`))?.[0] ?? '';
    expect(await said('')).toBe('backups: every 24 h, kept: 7 daily, 4 weekly, 12 monthly');
    expect(await said(', every: 1h')).toMatch(
      /^backups: every 60 min, kept: 7 daily, 4 weekly, 12 monthly; of those of one day only the newest stays: add /,
    );
    expect(await said(', every: 0s, keepHourly: 24, keepDaily: 7')).toMatch(/of one hour only the newest/);
    expect(await said(', every: 1h, keepHourly: 24, keepDaily: 7')).not.toContain('newest');
    expect(await said(', every: 1h, keepWithin: 2d, keepDaily: 7')).toBe(
      'backups: every 60 min, kept: all of 2 d, 7 daily',
    );
    expect(await check('{}')).not.toContain('backups:');
  });

  it('warns once of directories on the disk of the mirror, and of nothing else where backups are encrypted', async () => {
    const directory = scratch();
    for (const name of ['one', 'two']) mkdirSync(join(directory, name));
    const stdout = await check(
      `backup: { targets: [./one, ./two], recipients: [${RECIPIENT}] }\n`,
      directory,
    );
    expect(stdout.match(/warning:.*/g)).toEqual([
      `warning: backup.targets: ${directory}/one and ${directory}/two are on the disk of the mirror: if that disk fails, backups there are lost too`,
    ]);
    expect(await check('{}')).not.toContain('warning:');
  });

  it.skipIf(!hasOtherDisk)('has nothing to say of encrypted backups on another disk', async () => {
    const elsewhere = mkdtempSync(join(OTHER_DISK, 'tidemark-'));
    onTestFinished(() => rmSync(elsewhere, { recursive: true }));
    const stdout = await check(`backup: { targets: [${elsewhere}], recipients: [${RECIPIENT}] }\n`);
    expect(stdout).not.toContain('warning:');
  });
});

it('refuses a directory as the mirror', async () => {
  const directory = scratch();
  writeFileSync(join(directory, 'tidemark.yaml'), 'mirror: .\n');
  const env = { TIDEMARK_BASE_URL: 'https://a.example.com', TIDEMARK_API_KEY: 'k' };
  const { code, stderr } = await commandLine(['config', 'check'], { env, cwd: directory });
  expect([code, stderr]).toEqual([
    4,
    `tidemark: mirror: ${directory} is a directory; a mirror is a file\n  → name a file in it, such as ${directory}/mirror.db\n`,
  ]);
  // Also of one source.
  mkdirSync(join(directory, 'b.db'));
  const sources = ['a', 'b'].map((name) => `{ name: ${name}, baseUrl: "https://a.example.com", apiKey: k }`);
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: "{source}.db"\nsources: [${sources.join(', ')}]\n`,
  );
  const many = await commandLine(['config', 'check'], { env: {}, cwd: directory });
  expect([many.code, many.stderr]).toEqual([4, expect.stringContaining(`${directory}/b.db is a directory`)]);
});

it('warns of sources with one key and different limits, which the service counts together', async () => {
  const checked = async (limits: readonly string[], keys = ['k', 'k']): Promise<string> => {
    const sources = limits.map(
      (rate, index) =>
        `  - { name: s${index}, baseUrl: "https://a.example.com", apiKey: ${keys[index]}, rate: ${rate} }`,
    );
    const directory = scratch();
    writeFileSync(join(directory, 'tidemark.yaml'), ['sources:', ...sources].join('\n'), { mode: 0o600 });
    const { code, stdout, stderr } = await commandLine(['config', 'check'], { env: {}, cwd: directory });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const limits = ['{ perHour: 1000 }', '{ perHour: 2000 }'];
  expect(await checked(limits)).toMatch(/^warning: rate: s0 and s1 have the same address and key/m);
  expect(await checked(limits, ['k', 'other'])).not.toContain('warning: rate');
  expect(await checked(['{ perHour: 1000 }', '{ perHour: 1000, concurrency: 2 }'])).not.toContain(
    'warning: rate',
  );
});

it('names the limit of a kind only where it is one: the kind is synced, and the limit of the source is higher', async () => {
  const said = async (more: string): Promise<string> => {
    const source = `{ name: a, baseUrl: "https://a.example.com", apiKey: key-of-some-length${more} }`;
    return /^source a: .*$/m.exec(await check(`sources: [${source}]\n`))?.[0] ?? '';
  };
  expect(await said('')).toContain('; session_recordings at most 240 a minute');
  const both = 'session_recordings, recording_sharing';
  expect(await said(`, kinds: { exclude: [${both}] }`)).not.toContain('240');
  // One limit for both.
  const shared = await said(', kinds: { exclude: [session_recordings] }');
  expect(shared).toContain('; recording_sharing at most 240 a minute');
  expect(await said(', kinds: { include: [organizations, roles] }')).not.toContain('session_recordings');
  expect(await said(', rate: { perMinute: 120, perHour: 1000 }')).not.toContain('session_recordings');
});

it('lists the schedules, channels and pings that it read, without their secrets', async () => {
  const url = 'https://hooks.example.com/secret-path';
  const stdout = await check(
    `schedules: { sync: { cron: "0 3 * * *", zone: Europe/Berlin }, drill: { cron: off } }\nnotices: [{ name: ops, type: slack, url: "${url}" }]\npings: [{ success: "${url}" }]\n`,
  );
  expect(stdout).toMatch(
    /^schedules: sync `0 3 \* \* \*` Europe\/Berlin, drift `\S+ .*` UTC, verify [^\n]*$/m,
  );
  expect(stdout).toMatch(/^notices: ops \(slack\), 1 ping$/m);
  expect(stdout).not.toMatch(/drill|secret-path/);
});
