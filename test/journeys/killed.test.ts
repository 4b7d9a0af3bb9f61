import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { environment, scratch, start, tidemark } from './harness.ts';
import { FakeService, ORG } from './service.ts';

const DOMAINS = `/api/organizations/${ORG}/domains/`;

function domains(count: number, version: number): string[] {
  return Array.from({ length: count }, (_each, index) =>
    JSON.stringify({ id: `d${index}`, domain: `v${version}.example`, pad: 'x'.repeat(300) }),
  );
}

/** What a reader sees: how many versions of the domains at once (one, as runs are whole), and what is wrong. */
async function shown(path: string): Promise<{ versions: number; problems: readonly unknown[] }> {
  const mirror = openMirror(path, { mode: 'read', command: 'test', clock: systemClock });
  try {
    const bodies = [...mirror.records.read({ kinds: ['domains'] })].map(({ body }) => body);
    const versions = new Set(bodies.map((body) => (JSON.parse(body) as { domain: string }).domain));
    return { versions: versions.size, problems: (await mirror.verify()).problems };
  } finally {
    mirror.close();
  }
}

describe('killed at any instant', () => {
  it('the mirror opens, verifies, shows a whole run, and the next run goes on', async () => {
    const service = await FakeService.start();
    service.pageCap = 50;
    const env = environment(service.url, scratch());
    service.lists.set(DOMAINS, domains(600, 0));
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    // Killed at its 4th, 12th … request: from the first lists to the walk of the domains and beyond. While it stages and publishes,
    // test/mirror/crash.test.ts kills it.
    for (const [index, victim] of [4, 12, 20, 32].entries()) {
      service.lists.set(DOMAINS, domains(600, index + 1));
      let seen = 0;
      const { child, ended } = start(['sync'], { env });
      service.quirks.splice(0, service.quirks.length, () => {
        seen += 1;
        if (seen === victim) child.kill('SIGKILL');
        return false;
      });
      await ended;
      service.quirks.length = 0;
      expect(await shown(env.TIDEMARK_MIRROR ?? '')).toMatchObject({ versions: 1, problems: [] });
    }
    expect((await tidemark(['verify'], { env })).code).toBe(0);
    const last = await tidemark(['sync', '--json'], { env });
    expect(last.code, last.stderr).toBe(0);
    expect((await tidemark(['export', '--kind', 'domains'], { env })).stdout).toContain('v4.example');
    const runs = await tidemark(['runs', '--json'], { env });
    expect(runs.stdout).toContain('interrupted');
  });

  it('the next run says that one died, what it goes on from, and only once', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const die = async (): Promise<void> => {
      const { child, ended } = start(['sync'], { env });
      service.quirks.push(() => child.kill('SIGKILL'));
      await ended;
      service.quirks.length = 0;
    };
    await die();
    const first = await tidemark(['sync'], { env });
    expect(first.code).toBe(0);
    expect(first.stderr).toMatch(
      /^tidemark: run 1 of default, begun 2\S+Z, did not end: .*nothing was published before\n$/,
    );
    await die();
    // Before the next one is there to write it down.
    const table = (await tidemark(['runs'], { env })).stdout;
    expect(table).toMatch(/\n +3 +default .* failed \(interrupted\)/);
    expect((await tidemark(['runs', 'show', '3'], { env })).stdout).toMatch(/^run 3 of default: failed, /);
    expect((await tidemark(['status'], { env })).stdout).toMatch(
      /run 3 began .* and never ended: its process died\n/,
    );
    expect(JSON.parse((await tidemark(['status', '--json'], { env })).stdout)).toMatchObject({
      sources: [{ last_run: { outcome: 'failed', error: { code: 'interrupted' } } }],
    });
    const second = await tidemark(['sync', '--json'], { env });
    expect(second.stderr).toMatch(/^tidemark: run 3 of default, .*did not end: .*the mirror holds run 2\n$/);
    expect(JSON.parse(second.stdout)).toMatchObject({ runs: [{ run: 4, outcome: 'complete' }] });
    expect((await tidemark(['sync'], { env })).stderr).toBe('');
  });

  it('SIGINT ends with 130, publishes nothing, and leaves nothing behind', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    service.lists.set(DOMAINS, domains(10, 0));
    const { child, ended } = start(['sync'], { env });
    service.quirks.push(({ path }) => {
      if (path !== DOMAINS) return false;
      child.kill('SIGINT');
      return true; // never answered: the run waits until it is stopped
    });
    const { code, stderr } = await ended;
    expect(code, stderr).toBe(130);
    expect(stderr).toContain('interrupted');
    const { stdout } = await tidemark(['runs', '--json'], { env });
    const [run] = (JSON.parse(stdout) as { runs: { outcome: string; requests: number }[] }).runs;
    expect(run).toMatchObject({ outcome: 'failed', error: { code: 'interrupted' } });
    expect(run?.requests).toBeGreaterThan(0);
    service.quirks.length = 0;
    const next = await tidemark(['sync'], { env });
    expect([next.code, next.stderr]).toEqual([0, '']); // it ended, if not well: nothing to tell
    expect(readdirSync(directory).filter((file) => file.includes('stage'))).toEqual([]);
  });
});

describe('two at once', () => {
  it('the process that comes second is kept out, and says which one holds the lock and since when', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    let release = (): void => undefined;
    const reached = new Promise<void>((resolve) => {
      service.quirks.push(({ path }, response) => {
        if (path !== DOMAINS || service.quirks.length === 0) return false;
        release = () =>
          void response
            .writeHead(200, { 'content-type': 'application/json' })
            .end('{"count":0,"next":null,"previous":null,"results":[]}');
        resolve();
        return true;
      });
    });
    const first = start(['sync'], { env });
    onTestFinished(() => void first.child.kill('SIGKILL'));
    await reached;
    // In this process, not in that of the first; its requests would be known by their key.
    const key = 'key-of-the-second-sync';
    const second = await tidemark(['sync'], { env: { ...env, TIDEMARK_API_KEY: key } });
    expect(second.code).toBe(1);
    expect(/\(pid (\d+)/.exec(second.stderr)?.[1], second.stderr).toBe(String(first.child.pid));
    expect(second.stderr).not.toContain(`pid ${process.pid}`);
    expect(service.seen.filter(({ headers }) => headers.authorization?.includes(key))).toEqual([]);
    expect(second.stderr).toMatch(/since \d{4}-\d\d-\d\dT/);
    expect((await tidemark(['status'], { env })).code).not.toBe(130); // readers are not kept out
    release();
    expect((await first.ended).code).toBe(0);
  });
});

describe('files', () => {
  it('are for their owner only', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, join(directory, 'data'));
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    for (const file of readdirSync(join(directory, 'data'))) {
      expect(statSync(join(directory, 'data', file)).mode & 0o077, file).toBe(0);
    }
  });
});
