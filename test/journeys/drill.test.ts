/** The drill by the command line: against a mirror alone, with no service and no key. */
import { readdirSync, readFileSync, writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, afterAll } from 'vitest';
import type { DrillDocument } from '../../src/diff/drill-document.ts';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { start, tidemark } from './harness.ts';

let directory = '';

/** A mirror of the demo; the service is gone when the drills begin. */
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'tidemark-test-'));
  const sandbox = start(['sandbox', '--port', '0', '--json', '--key', 'demo-key-of-some-length']);
  try {
    const url = await new Promise<string>((resolve) => {
      sandbox.child.stdout?.once('data', (text: string) =>
        resolve((JSON.parse(text) as { url: string }).url),
      );
    });
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      [
        'mirror: ./mirror.db',
        'sources:',
        '  - name: production',
        `    baseUrl: ${url}`,
        '    profile: posthog',
        '    apiKey: ${DEMO_KEY}',
        '    rate: { perMinute: 0, perHour: 0 }',
        '    recordings: { sharingPerRun: 20 }',
      ].join('\n'),
    );
    const env = { DEMO_KEY: 'demo-key-of-some-length' };
    const synced = await tidemark(['sync', '--quiet'], { cwd: directory, env });
    expect(synced.code, synced.stderr).toBe(0);
  } finally {
    sandbox.child.kill();
    await sandbox.ended;
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const drill = (...args: string[]): ReturnType<typeof tidemark> =>
  tidemark(['drill', ...args], { cwd: directory });

async function document(...args: string[]): Promise<DrillDocument & { readonly code: number | null }> {
  const { stdout, stderr, code } = await drill('--json', ...args);
  expect(stderr === '', stderr).toBe(code === 0);
  return { ...(JSON.parse(stdout) as DrillDocument), code };
}

describe('tidemark drill', () => {
  it('practises with the whole demo: what lacks only a secret makes it short', async () => {
    const found = await document();
    expect(found).toMatchObject({
      schema: 'tidemark.drill/1',
      source: 'production',
      outcome: 'short',
      code: 3,
    });
    const kinds = Object.fromEntries(found.kinds.map((each) => [each.kind, each]));
    expect(kinds['projects']).toMatchObject({ records: 4, comes_back: 4, score: 1 });
    expect(kinds['roles']).toMatchObject({ records: 9, comes_back: 9 });
    // Each has a new target, which somebody has to publish in DNS.
    expect(kinds['proxy_records']).toMatchObject({ records: 5, comes_back: 0, needs_person: 5 });
    expect(kinds['batch_exports']).toMatchObject({ records: 28, comes_back: 1, needs_secret: 27 });
    expect(kinds['members']).toMatchObject({ records: 55, unknown: 0, cannot: 0 });
    expect(kinds['session_recordings']).toMatchObject({ records: 3000, cannot: 3000, restored: false });
    expect(found.kinds.reduce((sum, { unknown }) => sum + unknown, 0)).toBe(0);
    expect(found.remaining.some(({ kind }) => kind === 'session_recordings')).toBe(false);
  });

  it('brings back what the profile knows to be writable, as docs/restore-cases.md says', async () => {
    const page = readFileSync(new URL('../../docs/restore-cases.md', import.meta.url), 'utf8');
    const text = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    for (const profile of ['svc', 'svc-writable', 'posthog']) {
      const config = `${profile}.yaml`;
      writeFileSync(join(directory, config), text.replace('profile: posthog', `profile: ${profile}`));
      const found = await document('--config', config);
      const sum = (of: 'records' | 'comes_back' | 'needs_secret' | 'needs_person' | 'unknown'): number =>
        found.kinds.reduce((total, each) => total + (each.restored ? each[of] : 0), 0);
      const share = ((100 * sum('comes_back')) / sum('records')).toFixed(0);
      const cells = [sum('needs_secret'), sum('needs_person'), sum('unknown')].join(' | ');
      const row = page.split('\n').find((line) => line.startsWith(`| \`${profile}\``));
      expect(row, profile).toContain(`| ${sum('comes_back')} (${share} %) | ${cells} |`);
      expect(page).toContain(`The sandbox's ${sum('records')} records of configuration`);
    }
  });

  it('writes a runbook whose lines of configuration, once filled in, bring the exports back', async () => {
    const runbook = await drill('--kind', 'batch_exports', '--runbook', 'runbook.md');
    expect(runbook.code).toBe(3);
    expect(runbook.stderr).toContain('runbook written to runbook.md');
    expect(runbook.stderr + runbook.stdout).not.toContain('drill --runbook');
    const text = readFileSync(join(directory, 'runbook.md'), 'utf8');
    const [, snippet = ''] = /```yaml\n([\s\S]*?)```/.exec(text) ?? [];
    const names = [...snippet.matchAll(/\$\{([A-Z0-9_]+)\}/g)].map((match) => match[1] ?? '');
    expect(names.length).toBeGreaterThan(27);
    expect(new Set(names).size).toBe(names.length);
    const config = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    writeFileSync(join(directory, 'filled.yaml'), `${config}\n${snippet}`);
    const env = Object.fromEntries(names.map((name) => [name, `value-of-${name}`]));
    const filled = await tidemark(['drill', '--config', 'filled.yaml', '--kind', 'batch_exports', '--json'], {
      cwd: directory,
      env,
    });
    expect(filled.code, filled.stderr).toBe(0);
    expect(JSON.parse(filled.stdout)).toMatchObject({ outcome: 'equal', score: 1, remaining: [] });
    expect(filled.stdout).not.toContain('value-of-');
  });

  it('names what allows a kind, and its runbook has the entire line, to be copied', async () => {
    const open = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    const closed = open.replace(/^ *(- )?profile: .*\n/m, '');
    expect(closed).not.toBe(open);
    writeFileSync(join(directory, 'closed.yaml'), closed);
    const args = ['drill', '--config', 'closed.yaml', '--kind', 'projects', '--runbook', 'allow.md'];
    const { stdout } = await tidemark(args, { cwd: directory });
    const line = /definitions: \{ projects: \{ fields: \{ .*writable: true \} \} \} \}/;
    expect(stdout).toContain('to allow it: definitions.projects.fields (a runbook has the lines)');
    const runbook = readFileSync(join(directory, 'allow.md'), 'utf8');
    expect(runbook).toMatch(new RegExp(`\`${line.source}\``));
    expect(runbook).not.toContain('more characters');
  });

  it('restores damage, the same for the same seed', async () => {
    const args = ['--damage', '30', '--seed', '7', '--kind', 'roles', '--kind', 'projects'];
    const [one, two] = [await document(...args), await document(...args)];
    expect(one).toMatchObject({ start: 'damaged', outcome: 'equal', score: 1, code: 0, remaining: [] });
    expect(one.damage).toMatchObject({ percent: 30, seed: 7 });
    expect((one.damage?.removed ?? 0) + (one.damage?.altered ?? 0)).toBeGreaterThan(0);
    expect(two.damage).toEqual(one.damage);
  });

  it('writes a page, and takes an export of the mirror as well', async () => {
    const exported = await tidemark(
      ['export', '--format', 'ndjson', '--kind', 'roles', '--kind', 'organizations'],
      {
        cwd: directory,
      },
    );
    writeFileSync(join(directory, 'kept.ndjson'), exported.stdout);
    const page = await drill('file:kept.ndjson', '--format', 'html', '--output', 'drill.html', '--quiet');
    expect(page, page.stderr).toMatchObject({ code: 0, stdout: '' });
    expect(readFileSync(join(directory, 'drill.html'), 'utf8')).toContain('<h1>Restore drill</h1>');
  });

  it.each([
    [['live'], 4, 'needs a stored state'],
    [['--seed', '3'], 4, '--damage'],
    [['--damage', '101'], 4, 'at most 100'],
    [['--kind', 'session_recordings'], 1, 'never restored'],
  ])('%j ends with %i', async (args, code, message) => {
    const ended = await drill(...args);
    expect(ended.code).toBe(code);
    expect(ended.stderr).toContain(message);
    expect(ended.stdout).toBe('');
  });

  it('ends with 130 when it is interrupted, and leaves nothing behind', async () => {
    const left = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('tidemark-live-'));
    const before = new Set(left());
    const { child, ended } = start(['drill'], { cwd: directory });
    await new Promise<void>((resolve) => {
      const watch = (): void => {
        if (left().some((name) => !before.has(name)) || child.exitCode !== null) resolve();
        else setImmediate(watch);
      };
      watch();
    });
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(stderr).toContain('interrupted');
    expect(left().filter((name) => !before.has(name))).toEqual([]);
  });
});

describe('a drill by hand', () => {
  const drills = (): number => {
    const mirror = openMirror(join(directory, 'mirror.db'), {
      mode: 'read',
      command: 'status',
      clock: systemClock,
    });
    try {
      return mirror.daemon.jobs({ name: 'drill', limit: 100 }).length;
    } finally {
      mirror.close();
    }
  };

  it('counts for status when it is one of all of the latest state, as the daemon makes them', async () => {
    const before = drills();
    for (const args of [['--kind', 'roles'], ['run:1'], ['--damage', '10']]) await drill(...args);
    expect(drills()).toBe(before);
    await drill();
    expect(drills()).toBe(before + 1);
    const { stdout } = await tidemark(['status'], { cwd: directory });
    expect(stdout).toMatch(
      /^ +Restorable +\d.* % +from nothing, by the last drill, of run \d+, just now; \d+ of the \d+ records that a restore writes /m,
    );
    expect((await tidemark(['status', '--json'], { cwd: directory })).code).toBe(0);
  });
});
