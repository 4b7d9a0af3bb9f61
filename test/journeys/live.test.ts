import { mkdirSync, readdirSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DOMAINS, askedFor, world, type World } from './comparison.ts';
import { runProgram, start, tidemark } from './harness.ts';
import { forbidden, notFound, ORG } from './service.ts';

const DOMAIN_PATH = `/api/organizations/${ORG}/domains/`;

async function synced(more: Readonly<Record<string, string>> = {}): Promise<World> {
  const it = await world(more);
  await it.expectRun(0, 'sync', '--quiet');
  return it;
}

describe('diff with live', () => {
  it('is what an operator types after the night: 0 in sync, 2 when something moved, GET only', async () => {
    const { service, diff, expectRun } = await synced();
    expect((await expectRun(0, 'diff')).stdout).toContain('No differences');
    service.set('domains', [{ ...DOMAINS[0], jit_provisioning_enabled: true }]);
    const document = await diff(2);
    expect(document).toMatchObject({ from: { ref: 'latest', run: 1 }, to: { ref: 'live' }, skipped: [] });
    expect(document.to.at).toMatch(/Z$/);
    expect(document.summary).toMatchObject({ added: 0, removed: 1, changed: 1 });
    expect((await diff(2, 'live', 'latest')).summary).toMatchObject({ added: 1, removed: 0, changed: 1 });
    expect(new Set(service.seen.map(({ method }) => method))).toEqual(new Set(['GET']));
    // What was read live is nowhere kept: the mirror is as it was.
    expect((await diff(2)).from.run).toBe(1);
  });

  it('reads the collections that the filters need, and no other', async () => {
    const { service, expectRun } = await synced();
    service.lists.set('/api/organizations/', [
      ...(service.lists.get('/api/organizations/') ?? []),
      JSON.stringify({ id: 'other', name: 'Other', teams: [] }),
    ]);
    const asked = async (...args: string[]): Promise<string[]> => {
      const from = service.seen.length;
      await expectRun(0, 'diff', ...args);
      return askedFor(service, from);
    };
    expect(await asked('--kind', 'domains', '--organization', ORG)).toEqual([
      '/api/organizations/ORG/',
      '/api/organizations/ORG/domains/',
    ]);
    expect(await asked('--project', '1', '--kind', 'session_recordings')).toEqual([
      '/api/projects/1/session_recordings/',
    ]);
    expect(await asked('run:1', 'latest')).toEqual([]);
  });

  it('names a kind that the key may not read, and compares the rest', async () => {
    const { service, diff, expectRun } = await synced();
    service.set('members', []);
    service.quirks.push(({ path }, response) =>
      path === DOMAIN_PATH ? forbidden(response, 'organization:read') : false,
    );
    const document = await diff(3);
    expect(document.skipped).toMatchObject([{ kind: 'domains', scope: { organization_id: ORG } }]);
    expect(document.skipped[0]?.reason).toContain("missing required scope 'organization:read'");
    expect(document.changes.map(({ kind }) => kind)).toEqual(['members', 'members']);
    const { stdout } = await expectRun(3, 'diff');
    expect(stdout).toContain('not compared');
    const { stderr } = await expectRun(5, 'diff', '--kind', 'domains');
    expect(stderr).toContain('organization:read');
  });

  it('is refused when everything is, and fails when nobody answers', async () => {
    const { service, env, directory, expectRun } = await synced();
    service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    expect((await expectRun(5, 'diff')).stderr).toContain('nothing was compared');
    const { code, stderr } = await tidemark(['diff'], {
      env: { ...env, TIDEMARK_BASE_URL: 'http://127.0.0.1:9' },
      cwd: directory,
    });
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('nothing was compared');
  });

  it('takes a 404 for "not offered", never for removals', async () => {
    const { service, diff, expectRun } = await synced();
    const gone = (paths: readonly string[]): void => {
      service.quirks.length = 0;
      service.quirks.push(({ path }, response) =>
        paths.some((kind) => path.endsWith(`/${kind}/`)) ? notFound(response) : false,
      );
    };
    gone(['domains', 'plugins']);
    const document = await diff(3);
    expect(document.changes).toEqual([]);
    expect(document.skipped.map(({ kind }) => kind)).toEqual(['domains', 'plugins']);
    expect(document.skipped[0]?.reason).toContain('not offered by the service');
    // What was offered neither then nor now differs in nothing.
    gone(['plugins']);
    const other = await world();
    other.service.quirks.push(...service.quirks);
    await other.expectRun(3, 'sync', '--quiet');
    const never = await other.diff(0);
    expect(never.left_out).toMatchObject([{ kind: 'plugins', reason: 'not offered by the service' }]);
    await expectRun(3, 'diff');
  });

  it('tells a removed organization with all that was below it', async () => {
    const { service, diff } = await synced();
    service.lists.set('/api/organizations/', []);
    for (const path of [...service.lists.keys()]) if (path.includes(ORG)) service.lists.delete(path);
    service.lists.delete('/api/projects/1/session_recordings/');
    const document = await diff(2);
    expect(document.skipped).toEqual([]);
    expect(document.summary).toMatchObject({ removed: 6, added: 0, changed: 0 });
  });

  it('does not call removed what hangs from a list that could not be read', async () => {
    const { service, diff, expectRun } = await world();
    service.set('roles', [{ id: 'r1', name: 'Auditors' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, [
      '{"id":"m1","user_uuid":"u1"}',
    ]);
    await expectRun(0, 'sync', '--quiet');
    service.quirks.push(({ path }, response) =>
      path.endsWith('/roles/') ? forbidden(response, 'organization:read') : false,
    );
    const document = await diff(3);
    expect(document.changes).toEqual([]);
    expect(document.skipped.map(({ kind }) => kind)).toEqual(['roles', 'role_memberships']);
    expect(document.skipped[1]?.reason).toContain('the roles that it may belong to could not be read');
  });

  it('reads sharing as far as a sync would, and whole where it is named', async () => {
    const { service, diff, expectRun } = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '2' });
    const path = '/api/projects/1/session_recordings/';
    const record = (id: string): string => JSON.stringify({ id, start_time: '2026-01-01T00:00:00Z' });
    const share = (id: string, enabled: boolean): void =>
      void service.objects.set(`${path}${id}/sharing/`, JSON.stringify({ enabled }));
    service.lists.set(path, ['r1', 'r2'].map(record));
    for (const id of ['r1', 'r2']) share(id, false);
    await expectRun(0, 'sync', '--quiet');
    share('r2', true);
    expect((await diff(2)).changes).toMatchObject([
      { kind: 'recording_sharing', id: 'r2', change: 'changed' },
    ]);

    // A third recording is more than a sync asks for at once.
    service.lists.set(path, ['r3', 'r1', 'r2'].map(record));
    share('r3', true);
    const from = service.seen.length;
    const document = await diff(2);
    expect(document.changes).toMatchObject([{ kind: 'session_recordings', id: 'r3', change: 'added' }]);
    expect(document.left_out).toMatchObject([{ kind: 'recording_sharing', scope: { project_id: '1' } }]);
    expect(askedFor(service, from).filter((each) => each.endsWith('/sharing/'))).toEqual([]);
    const named = await diff(2, '--kind', 'recording_sharing');
    expect(named.changes.map(({ id, change }) => `${id} ${change}`)).toEqual(['r2 changed', 'r3 added']);
  });

  it('leaves nothing behind, and takes away what a killed process left', async () => {
    const { service, env, directory, expectRun } = await synced();
    const temporary = join(directory, 'tmp');
    mkdirSync(temporary);
    const left = join(temporary, 'tidemark-live-abandoned');
    mkdirSync(left);
    utimesSync(left, 0, 0);
    const own = { ...env, TMPDIR: temporary };
    const live = (): string[] => readdirSync(temporary).filter((name) => name.startsWith('tidemark-live-'));
    expect((await runProgram(['diff', '--quiet'], { env: own, cwd: directory })).code).toBe(0);
    expect(live()).toEqual([]);

    const { child, ended } = start(['diff'], { env: own, cwd: directory });
    const hanging = new Promise<void>((resolve) => {
      service.quirks.push(({ path }) => {
        if (path !== DOMAIN_PATH) return false;
        resolve();
        return true;
      });
    });
    await hanging;
    expect(live()).toHaveLength(1);
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    expect(code, stderr).toBe(130);
    expect(live()).toEqual([]);
    service.quirks.length = 0;
    await expectRun(0, 'diff', '--quiet');
  });

  it('follows no link that lies among what killed processes left', async () => {
    const { env, directory } = await synced();
    const temporary = join(directory, 'tmp');
    const elsewhere = join(directory, 'elsewhere');
    for (const each of [temporary, elsewhere]) mkdirSync(each);
    symlinkSync(elsewhere, join(temporary, 'tidemark-live-link'));
    utimesSync(elsewhere, 0, 0);
    const own = { ...env, TMPDIR: temporary };
    expect((await runProgram(['diff', '--quiet'], { env: own, cwd: directory })).code).toBe(0);
    expect([readdirSync(elsewhere), readdirSync(temporary)]).toEqual([[], ['tidemark-live-link']]);
  });

  it('needs no mirror to be compared with an export', async () => {
    const { env, directory, service, expectRun } = await synced();
    await expectRun(0, 'export', '--output', 'tree', '--quiet');
    service.set('domains', []);
    const { code, stdout } = await tidemark(['diff', 'file:tree', 'live'], {
      env: { ...env, TIDEMARK_MIRROR: join(directory, 'none', 'mirror.db') },
      cwd: directory,
    });
    expect(code).toBe(2);
    expect(stdout).toContain('2 records removed');
    expect(readdirSync(directory)).not.toContain('none');
  });
});
