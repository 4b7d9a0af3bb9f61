/** The work on one cell: which mirror it goes on from, what it stores, and what it reports. */
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { pack, unpack } from '../../src/backup/packing.ts';
import { parseS3Address } from '../../src/config/backup-target.ts';
import type { TargetConfig } from '../../src/config/config.ts';
import type { CellResult } from '../../src/fleet/cell.ts';
import { cleanCache } from '../../src/fleet/worker-cache.ts';
import { baselineDone, contentsOf } from '../../src/fleet/orders.ts';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import type { RateLogState } from '../../src/mirror/rate-log.ts';
import { ORG, respond } from '../journeys/service.ts';
import { CELL, fleet, INTERVAL_MS, KEY, KIND, NO_STORAGE } from './cell-fixture.ts';

/** A storage whose requests are answered like that. */
async function s3(listener: RequestListener): Promise<TargetConfig> {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    vi.unstubAllEnvs();
    server.closeAllConnections();
    server.close();
  });
  const place = parseS3Address(
    `s3://fleet/cells/acme?endpoint=http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  );
  if (place === null) throw new Error('an address');
  return { ...place, objectLock: null, retention: null };
}

/** As the next version of Tidemark would leave the file. */
function madeNewer(path: string): void {
  const database = new Database(path);
  database.pragma(`user_version = ${Number(database.pragma('user_version', { simple: true })) + 1}`);
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
}

describe('a cell', () => {
  it('gets the baseline that it is to have, and is stored with it though nothing else is new', async () => {
    const { work, registry, mirrorOf, clock } = await fleet();
    registry.publish(await work('a', 1));
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    const set = registry.publish(await work('a', 2, { baseline }));
    const isSet = {
      runs: [],
      baseline: { name: 'good', run: 1 },
      baselineError: null,
      findings: { count: 0 },
    };
    expect(set).toMatchObject({ ...isSet, storage: { stored: { run: 1 }, error: null } });
    const mirror = openMirror(mirrorOf('a'), { mode: 'read', command: 'test', clock });
    expect(mirror.snapshots.list()).toMatchObject([{ name: 'good', by: 'somebody', isBaseline: true }]);
    mirror.close();
    // Another worker has it from storage, and does it again without a change.
    expect(registry.publish(await work('b', 3))).toMatchObject({ baseline: { name: 'good', run: 1 } });
    expect(registry.publish(await work('b', 4, { baseline }))).toMatchObject(isSet);
    const time = '2020-01-01T00:00:00.000Z';
    const early = registry.publish(await work('b', 5, { baseline: { ...baseline, name: 'early', time } }));
    expect(early.baseline).toEqual({ name: 'good', run: 1 });
    expect(early.baselineError).toMatch(/2020-01-01/);
    // Without a storage it is not yet what others continue from.
    const away = { code: 'timeout', message: 'away', hint: null, isRetryable: true } as const;
    const other = { ...baseline, name: 'other' };
    const unstored = registry.publish(
      await work('b', 6, { baseline: other, storageAway: { error: away, until: Infinity } }),
    );
    expect(unstored).toMatchObject({ baseline: { name: 'other' }, storage: { stored: null } });
    const stored = registry.publish(await work('b', 7, { baseline: other }));
    expect(stored).toMatchObject({ baseline: { name: 'other' }, storage: { stored: { run: 1 } } });
  });

  it('logs a sync as missed only if no other worker did it, whatever its outcome', async () => {
    const { work, registry, service, pass, clock, warnings } = await fleet();
    registry.publish(await work('a', 1));
    // Failed runs are not stored.
    service.quirks.push((_request, response) => {
      respond(response, 403, '{}');
      return true;
    });
    for (const fence of [2, 3, 4]) {
      pass();
      expect(registry.publish(await work('b', fence)).runs).toMatchObject([{ outcome: 'failed' }]);
    }
    service.quirks.length = 0;
    pass();
    const missed = (): string[] => warnings.filter((line) => line.includes('missed'));
    expect(registry.publish(await work('a', 5)).runs).toMatchObject([{ run: 5, outcome: 'complete' }]);
    expect(missed()).toEqual([]);
    // Then nobody works for two hours.
    pass();
    const dueAt = clock.now();
    pass(4 * INTERVAL_MS);
    registry.publish(await work('a', 6, { dueAt }));
    expect(missed()).toEqual([expect.stringContaining('"missed":5')]);
  });

  it('has nothing left of a process that was killed, neither when it is worked on again nor once it is retired', async () => {
    const { work, registry, mirrorOf, directory } = await fleet();
    registry.publish(await work('a', 1));
    const [mirror, cache] = [mirrorOf('a'), join(directory, 'a')];
    const names = (): string[] => readdirSync(dirname(mirror)).toSorted();
    const before = names();
    const killed = (): void => {
      for (const place of ['.fetched-restore-work', '-backups-work', '-restore-work']) {
        mkdirSync(`${mirror}${place}`);
        writeFileSync(join(`${mirror}${place}`, 'backup.db'), 'half');
      }
      for (const file of ['.fetched', '.fetched-lock', '-backups-lock', '.daemon', '.daemon-lock'])
        writeFileSync(`${mirror}${file}`, '');
    };
    mkdirSync(`${mirror}.fetched-restore-work`);
    writeFileSync(`${mirror}.fetched`, '');
    await work('a', 2);
    expect(names()).toEqual(before);
    // Another cell of the group keeps the directory.
    killed();
    writeFileSync(join(dirname(mirror), 'other.db'), '');
    const place = { isStored: true, group: 1 };
    await cleanCache(
      cache,
      () =>
        Promise.resolve([
          { ...place, name: CELL, isRetired: true },
          { ...place, name: 'other', isRetired: false },
        ]),
      () => false,
    );
    expect(names()).toEqual(
      before
        .filter((name) => !name.startsWith(CELL))
        .concat('other.db')
        .toSorted(),
    );
  });

  it('sets no baseline in whose name, or that of whoever asks for it, is the key', async () => {
    const { work, registry, mirrorOf, clock } = await fleet();
    registry.publish(await work('a', 1));
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    for (const [index, secret] of [{ name: KEY }, { by: `somebody ${KEY}` }].entries()) {
      const done = registry.publish(await work('a', index + 2, { baseline: { ...baseline, ...secret } }));
      expect(done.baselineError).toContain('holds a key or token of the configuration');
      expect(JSON.stringify(done)).not.toContain(KEY);
    }
    const mirror = openMirror(mirrorOf('a'), { mode: 'read', command: 'test', clock });
    expect(mirror.snapshots.list()).toEqual([]);
    mirror.close();
  });

  it('keeps the order of a baseline that a passing error kept from being set', async () => {
    const { work, registry, mirrorOf } = await fleet();
    registry.publish(await work('a', 1));
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    const holder = { command: 'test', pid: process.pid, host: 'here', since: '2026-03-01T12:00:00.000Z' };
    const lock = acquireWriterLock(mirrorOf('a'), holder);
    expect(await work('a', 2, { baseline })).toMatchObject({
      status: 'failed',
      error: { code: 'mirror_locked' },
    });
    lock.release();
    expect(registry.publish(await work('a', 3, { baseline }))).toMatchObject({ baseline: { name: 'good' } });
  });

  it('names the other ids of a record that a restore created again with what is found of it', async () => {
    const { work, registry, service, pass, mirrorOf, clock } = await fleet();
    registry.publish(await work('a', 1));
    const scope = { organization_id: ORG };
    const scopes = { oldScope: scope, newScope: scope };
    const mirror = openMirror(mirrorOf('a'), { mode: 'write', command: 'test', clock });
    const at = '2026-03-01T12:00:00.000Z';
    const restore = mirror.restores.begin({
      ...{ source: CELL, planHash: 'abc', plan: '{}', from: 'run:1', approved: {}, startedAt: at },
      steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
    });
    const [step] = mirror.restores.steps(restore);
    mirror.restores.journal([
      {
        row: { ...step!, outcome: 'applied', newId: 'r9' },
        mappings: [{ source: CELL, kind: KIND, oldId: 'r1', newId: 'r9', ...scopes, restore, at }],
      },
    ]);
    mirror.close();
    service.set(KIND, [
      { id: 'r9', name: 'Other' },
      { id: 'r2', name: 'Third' },
    ]);
    pass();
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    const { findings } = registry.publish(await work('a', 2, { baseline }));
    expect(findings?.rows.map(({ id, path, otherKeys }) => ({ id, path, otherKeys }))).toEqual([
      { id: 'r2', path: '/name', otherKeys: [] },
      { id: 'r9', path: '/name', otherKeys: [{ kind: KIND, scope: `organization_id=${ORG}`, id: 'r1' }] },
    ]);
    // Where the service has both, they are two records.
    service.set(KIND, [
      { id: 'r1', name: 'Different' },
      { id: 'r9', name: 'Other' },
    ]);
    pass();
    const both = registry.publish(await work('a', 3, { baseline })).findings?.rows ?? [];
    expect(both.map(({ id }) => id).sort()).toEqual(['r1', 'r2', 'r9']);
    expect(both.flatMap(({ otherKeys }) => otherKeys)).toEqual([]);
  });

  it('is synced when it is due, stored under the fence, and reported with its records', async () => {
    const { work, registry, storage, service, pass } = await fleet();
    const first = registry.publish(await work('a', 7));
    expect(first).toMatchObject({
      chain: 'new',
      runs: [{ run: 1, outcome: 'complete', added: 4 }],
      recordCount: 4,
      changes: [],
      findings: null,
      error: null,
      storage: { error: null, stored: { run: 1 } },
    });
    expect(first.storage.stored?.key).toMatch(/^tidemark-20260301T120000Z-run1-fence7\.db\.zst$/);
    expect(readdirSync(storage.type === 'directory' ? storage.path : '').toSorted()).toEqual(
      [first.storage.stored?.key, `${first.storage.stored?.key}.json`].toSorted(),
    );
    expect(first.projection).toMatchObject({ run: 1, isWhole: true, removed: [] });
    expect(first.projection?.records.map(({ kind, id }) => `${kind} ${id}`).toSorted()).toContain(
      'proxy_records r1',
    );

    // Before it is due again nothing is asked, and nothing stored.
    const asked = service.seen.length;
    const idle = registry.publish(await work('a', 8));
    expect(idle).toMatchObject({ chain: 'equal', runs: [], projection: null, storage: { stored: null } });
    expect(service.seen.length).toBe(asked);

    service.set(KIND, [
      { id: 'r1', name: 'Reader of all' },
      { id: 'r3', name: 'New' },
    ]);
    pass();
    const second = registry.publish(await work('a', 9));
    expect(second.runs).toMatchObject([{ run: 2, added: 1, changed: 1, removed: 1 }]);
    expect(second.changes.map(({ id, change, paths }) => ({ id, change, paths }))).toEqual([
      { id: 'r1', change: 'changed', paths: ['/name'] },
      { id: 'r2', change: 'removed', paths: [] },
      { id: 'r3', change: 'added', paths: [] },
    ]);
    expect(second.projection).toMatchObject({ run: 2, isWhole: false, removed: [{ kind: KIND, id: 'r2' }] });
    expect(second.projection?.records.map(({ id }) => id)).toEqual(['r1', 'r3']);
  });

  it('has its next due time within two intervals, at a place of its own', async () => {
    const { work, registry, clock } = await fleet();
    const { dueAt } = registry.publish(await work('a', 1));
    const inMs = Date.parse(dueAt ?? '') - clock.now();
    expect(inMs).toBeGreaterThanOrEqual(INTERVAL_MS);
    expect(inMs).toBeLessThan(2 * INTERVAL_MS);
  });

  it('keeps its key out of every file', async () => {
    const { work, registry, directory } = await fleet();
    registry.publish(await work('a', 1));
    const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((each) =>
      each.isFile(),
    );
    expect(files.length).toBeGreaterThan(4);
    for (const { parentPath, name } of files)
      expect(readFileSync(join(parentPath, name)).includes(KEY), name).toBe(false);
  });

  it('goes on from storage on another worker, and its chain with it', async () => {
    const { work, registry, pass, verified } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    const report = registry.publish(await work('b', 2));
    expect(report).toMatchObject({ chain: 'equal', runs: [{ run: 2, outcome: 'complete' }] });
    expect(report.projection).toMatchObject({ isWhole: false, records: [], removed: [] });
    expect(await verified('b')).toMatchObject({ run: 2, root: report.root, problems: 0 });
    // And back: the first worker's cache is older than what the registry knows.
    pass();
    const third = registry.publish(await work('a', 3));
    expect(third).toMatchObject({ chain: 'equal', runs: [{ run: 3 }] });
    expect(await verified('a')).toMatchObject({ run: 3, problems: 0 });
  });

  it('publishes the run of a worker that died before it could', async () => {
    const { work, registry, pass, service } = await fleet();
    registry.publish(await work('a', 1));
    service.set(KIND, [
      { id: 'r1', name: 'Changed' },
      { id: 'r2', name: 'Second' },
    ]);
    pass();
    // Its result never reaches the registry; its mirror is in storage.
    await work('a', 2);
    const asked = service.seen.length;
    const report = registry.publish(await work('b', 3));
    expect(report).toMatchObject({ chain: 'ahead', runs: [{ run: 2, changed: 1 }], changes: [{ id: 'r1' }] });
    expect(service.seen.length, 'nothing is due again').toBe(asked);
    // The same where only the cache has it.
    pass();
    service.set(KIND, [{ id: 'r1', name: 'Changed' }]);
    const { storage } = await fleet();
    await work('b', 4, { storage });
    expect(registry.publish(await work('b', 5))).toMatchObject({
      chain: 'ahead',
      runs: [{ run: 3, removed: 1 }],
    });
  });

  it('leaves the run of a frozen worker aside once another one has published', async () => {
    const { work, registry, pass, verified, service } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    // It read the change, and was frozen before it stored anything.
    service.set(KIND, [{ id: 'r1', name: 'Once' }]);
    const frozen = await work('a', 2, { storage: NO_STORAGE });
    service.set(KIND, [{ id: 'r1', name: 'Later' }]);
    const other = registry.publish(await work('b', 3));
    expect(other).toMatchObject({ chain: 'equal', runs: [{ run: 2 }] });
    // It wakes: its own result may not be published (the fence), and its mirror follows the registry's again.
    expect(frozen.status).toBe('worked');
    pass();
    const back = registry.publish(await work('a', 4));
    expect(back.chain).toBe('equal');
    expect(await verified('a')).toMatchObject({ root: registry.known?.root, problems: 0 });
  });

  it('says which runs were lost with a dead worker, and gives none of their numbers again', async () => {
    const { work, registry, pass, verified, mirrorOf, warnings } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    // Storage is away: the run counts, and its backup is behind.
    const second = registry.publish(await work('a', 2, { storage: NO_STORAGE }));
    expect(second).toMatchObject({
      runs: [{ run: 2 }],
      storage: { stored: null, error: { code: 'file_system' } },
    });
    rmSync(dirname(mirrorOf('a')), { recursive: true });
    pass();
    // At first they are left to the worker that may have them.
    expect(await work('b', 3, { mayLoseRuns: false })).toMatchObject({ status: 'left' });
    const third = registry.publish(await work('b', 3));
    expect(third).toMatchObject({ chain: 'behind', runs: [{ run: 3, outcome: 'complete' }] });
    const lost = warnings.filter((line) => line.includes('the newest mirror lacks 1 run that'));
    expect(lost.map((line) => line.match(/"cell"/g))).toEqual([['"cell"']]);
    expect(lost[0]).toContain('"lostRuns":1');
    expect(third.projection).toMatchObject({ isWhole: true });
    expect(await verified('b')).toMatchObject({ run: 3, problems: 0 });
    const mirror = openMirror(mirrorOf('b'), { mode: 'read', command: 'test', clock: (await fleet()).clock });
    expect(mirror.runs.list({}).map(({ run, outcome }) => `${run} ${outcome}`)).toEqual([
      '3 complete',
      '2 failed',
      '1 complete',
    ]);
    mirror.close();
  });

  it('says of no run that it was lost where none was ever published', async () => {
    const { work, registry, pass, service, mirrorOf, warnings } = await fleet();
    service.quirks.push((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail":"no"}');
      return true;
    });
    registry.publish(await work('a', 1));
    pass();
    registry.publish(await work('a', 2));
    rmSync(dirname(mirrorOf('a')), { recursive: true });
    service.quirks.length = 0;
    pass();
    expect(registry.publish(await work('b', 3))).toMatchObject({ chain: 'new', runs: [{ run: 3 }] });
    expect(warnings.filter((line) => line.includes('lacks'))).toEqual([]);
  });

  it('is stored later where storage was away, with all that happened meanwhile', async () => {
    const { work, registry, pass } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    registry.publish(await work('a', 2, { storage: NO_STORAGE }));
    // Nothing is due, yet the backup is behind.
    const later = registry.publish(await work('a', 3));
    expect(later).toMatchObject({ runs: [], storage: { stored: { run: 2 }, error: null } });
  });

  it('is left to others where the cache is old and storage away', async () => {
    const { work, registry, pass } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    registry.publish(await work('b', 2));
    pass();
    const result = await work('a', 3, { storage: NO_STORAGE });
    expect(result).toMatchObject({ status: 'left' });
  });

  it('is stored encrypted, and read by who has the identity alone', async () => {
    const { work, registry, pass, verified } = await fleet();
    const [identity, other] = await Promise.all([generateIdentity(), generateIdentity()]);
    const recipients = [await identityToRecipient(identity)];
    const first = registry.publish(await work('a', 1, { recipients, identities: [identity] }));
    expect(first.storage.stored?.key).toMatch(/\.age$/);
    pass();
    // A worker without it, or with another one, cannot go on from there: it is no failure of the cell.
    for (const identities of [[], [other]])
      expect(await work('b', 2, { recipients, identities })).toMatchObject({
        status: 'left',
        error: {
          code: 'usage',
          message: expect.stringMatching(/is encrypted|none of the identities opens/) as string,
        },
      });
    const third = registry.publish(await work('b', 3, { recipients, identities: [identity] }));
    expect(third).toMatchObject({ chain: 'equal', runs: [{ run: 2 }] });
    expect(await verified('b')).toMatchObject({ run: 2, problems: 0 });
  });

  it('goes on where storage denies, says why, and is left by who has no cached mirror', async () => {
    const denied = await s3((request, response) => {
      request.resume();
      response.writeHead(403, { 'content-type': 'application/xml' });
      response.end('<Error><Code>AccessDenied</Code><Message>no</Message></Error>');
    });
    const { work, registry, pass } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    const second = registry.publish(await work('a', 2, { storage: denied }));
    expect(second).toMatchObject({
      runs: [{ run: 2, outcome: 'complete' }],
      storage: {
        stored: null,
        error: { code: 'rejected', message: expect.stringContaining('AccessDenied') as string },
      },
    });
    expect(await work('b', 3, { storage: denied })).toMatchObject({
      status: 'left',
      error: { code: 'rejected' },
    });
  });

  it('waits a moment for a storage that never answers, and not at all where that is known', async () => {
    let asked = 0;
    const silent = await s3(() => (asked += 1));
    const { work, registry, pass } = await fleet({ haste: 40 });
    registry.publish(await work('a', 1));
    pass();
    const second = registry.publish(await work('a', 2, { storage: silent }));
    const { error } = second.storage;
    expect(second.runs).toMatchObject([{ run: 2, outcome: 'complete' }]);
    expect(error).toMatchObject({
      code: 'timeout',
      message: 's3://fleet/cells/acme has not answered for 20 s',
    });
    const before = asked;
    expect(before).toBeGreaterThan(0);
    pass();
    const storageAway = { error: error!, until: Infinity };
    const third = registry.publish(await work('a', 3, { storage: silent, storageAway }));
    expect(third).toMatchObject({ runs: [{ run: 3 }], storage: { stored: null, error } });
    expect(await work('b', 4, { storage: silent, storageAway })).toMatchObject({
      status: 'left',
      error: { code: 'timeout' },
    });
    expect(asked).toBe(before);
    // A run that ends later asks again.
    pass();
    await work('a', 5, { storage: silent, storageAway: { ...storageAway, until: 0 } });
    expect(asked).toBeGreaterThan(before);
  });

  it('gives up a storage that stops in the middle', async () => {
    const stalled = await s3((request, response) => {
      request.resume();
      // It lists, and takes nothing.
      if (request.method !== 'GET') return;
      const list = (request.url ?? '').includes('uploads')
        ? 'ListMultipartUploadsResult'
        : 'ListBucketResult';
      response.writeHead(200, { 'content-type': 'application/xml' }).end(`<${list}></${list}>`);
    });
    const { work, registry, pass } = await fleet({ haste: 40 });
    registry.publish(await work('a', 1));
    pass();
    expect(registry.publish(await work('a', 2, { storage: stalled }))).toMatchObject({
      runs: [{ run: 2, outcome: 'complete' }],
      storage: {
        stored: null,
        error: {
          code: 'timeout',
          message: expect.stringMatching(
            /^s3:\/\/fleet\/cells\/acme: the storage took longer than 2 min/,
          ) as string,
        },
      },
    });
  });

  it('is left to newer workers where its mirror is newer, in the cache and in storage', async () => {
    const { work, registry, pass, storage, directory, mirrorOf } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    const [stored] = readdirSync(storage.type === 'directory' ? storage.path : '');
    const packed = join(storage.type === 'directory' ? storage.path : '', stored ?? '');
    const plain = join(directory, 'plain.db');
    await unpack(packed, plain, { identities: [] });
    madeNewer(plain);
    rmSync(packed);
    const { plain: inner, packed: outer } = await pack(plain, packed, { recipients: [] });
    const manifest = JSON.parse(readFileSync(`${packed}.json`, 'utf8')) as object;
    const changed = {
      ...manifest,
      ...{ bytes: outer.bytes, sha256: outer.sha256 },
      ...{ plain_bytes: inner.bytes, plain_sha256: inner.sha256 },
    };
    writeFileSync(`${packed}.json`, JSON.stringify(changed));
    const left = { status: 'left', error: { code: 'mirror_newer' } };
    expect(await work('b', 2)).toMatchObject(left);
    madeNewer(mirrorOf('a'));
    expect(await work('a', 3)).toMatchObject(left);
  });

  it('is quarantined where storage has another chain', async () => {
    const one = await fleet();
    const other = await fleet();
    one.registry.publish(await one.work('a', 1));
    other.service.set(KIND, [{ id: 'x', name: 'Other' }]);
    other.registry.publish(await other.work('a', 1));
    const result = await one.work('b', 2, { storage: other.storage });
    expect(result).toMatchObject({ status: 'quarantined', error: { code: 'mirror_corrupt' } });
    if (result.status === 'worked' || result.status === 'waits') throw new Error('it was worked on');
    expect(result.error.message).toContain(CELL);
    expect(result.error.hint).toMatch(/`tidemark backup restore \S+\.db\.zst --to look\.db` shows/);
  });

  it('is quarantined as altered where the registry has another root hash of a run than it published', async () => {
    const { work, registry, pass } = await fleet();
    registry.publish(await work('a', 1));
    pass();
    registry.publish(await work('a', 2));
    pass();
    const root = 'f'.repeat(64);
    const known = { ...registry.known!, root };
    // In the cache, in storage, and also after the wait for a worker that may have a newer mirror.
    for (const [index, [worker, mayLoseRuns]] of (
      [
        ['a', false],
        ['b', false],
        ['c', true],
      ] as const
    ).entries()) {
      const result = await work(worker, index + 3, { known, mayLoseRuns });
      expect(result).toMatchObject({
        status: 'quarantined',
        error: {
          code: 'mirror_corrupt',
          message: expect.stringMatching(
            /registry's root hash of acme was altered:.* run 2 .*ffffffffffff…/,
          ) as string,
        },
      });
    }
  });

  it('reports a refused key as its error, and the run that failed', async () => {
    const { work, registry, service, pass } = await fleet();
    registry.publish(await work('a', 1));
    service.quirks.push((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail":"no"}');
      return true;
    });
    pass();
    const report = registry.publish(await work('a', 2));
    expect(report.error?.code).toBe('unauthorized');
    expect(report.runs).toMatchObject([{ run: 2, outcome: 'failed', root: null }]);
    // Another worker, without that failed run: its number is not given again.
    service.quirks.length = 0;
    pass();
    expect(registry.publish(await work('b', 3)).runs).toMatchObject([{ run: 3, outcome: 'complete' }]);
  });

  it('reports why a run is partial: held removals, and the first kind that could not be read', async () => {
    const { work, registry, service, pass } = await fleet();
    registry.publish(await work('a', 1));
    service.set(KIND, []);
    service.quirks.push((request, response) => {
      if (!request.url.includes('/roles')) return false;
      response.writeHead(403, { 'content-type': 'application/json' }).end('{"detail":"No permission"}');
      return true;
    });
    pass();
    expect(registry.publish(await work('a', 2))).toMatchObject({
      runs: [
        {
          outcome: 'partial',
          errorCode: 'removals_held',
          error: expect.stringMatching(/^2 removals of proxy_records held; roles: .*403/) as string,
        },
      ],
      error: null,
    });
    service.set(KIND, [{ id: 'r1' }, { id: 'r2' }]);
    pass();
    expect(registry.publish(await work('a', 3)).runs).toMatchObject([
      { outcome: 'partial', errorCode: 'forbidden', error: expect.stringMatching(/^roles: /) as string },
    ]);
  });

  it('reports its run with a damaged body, says so, and leaves out what would show it', async () => {
    const { work, registry, service, pass, mirrorOf } = await fleet();
    registry.publish(await work('a', 1));
    const database = new Database(mirrorOf('a'));
    database.exec(`UPDATE records SET body = replace(body, 'Second', 'Forged') WHERE remote_id = 'r2'`);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    service.set(KIND, [
      { id: 'r1', name: 'Other' },
      { id: 'r2', name: 'Second' },
    ]);
    pass();
    const damaged = { changes: [], projection: null, findings: null, error: { code: 'mirror_corrupt' } };
    // All records at once, as for a registry that shows none.
    const known = registry.known === null ? null : { ...registry.known, projectedRun: null };
    expect(registry.publish(await work('a', 2, { known }))).toMatchObject({
      ...damaged,
      runs: [{ run: 2, outcome: 'complete', changed: 1 }],
    });
    service.set(KIND, [
      { id: 'r1', name: 'Other' },
      { id: 'r2', name: 'Third' },
    ]);
    pass();
    // The changes of a run.
    expect(registry.publish(await work('a', 3))).toMatchObject({
      ...damaged,
      runs: [{ run: 3, outcome: 'complete' }],
    });
  });

  it('reports its run beside a baseline that another program altered, and no findings', async () => {
    const { work, registry, service, pass, mirrorOf } = await fleet();
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    registry.publish(await work('a', 1));
    expect(registry.publish(await work('a', 2, { baseline })).error).toBeNull();
    const database = new Database(mirrorOf('a'));
    database.exec(`UPDATE snapshots SET pinned_by = 'ciso'`);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    service.set(KIND, [{ id: 'r1', name: 'Other' }]);
    pass();
    const report = registry.publish(await work('a', 3));
    expect(report).toMatchObject({ runs: [{ run: 2, outcome: 'complete' }], findings: null, baseline: null });
    expect(report.isRefusal).toBe(true);
    expect(contentsOf({ lastRun: 2 }, report)).toMatchObject({
      findings: { total: null, listed: [] },
      error: { isRefusal: true },
    });
    expect(report.changes.length).toBeGreaterThan(0);
    expect(report.error).toMatchObject({
      code: 'mirror_corrupt',
      message: expect.stringMatching(
        /^the baseline cannot be used: snapshot "good" is not as it was pinned/,
      ) as string,
    });
    // Another error hides neither, and is one that counts.
    service.quirks.push((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail":"no"}');
      return true;
    });
    pass();
    const failed = registry.publish(await work('a', 4));
    expect(failed).toMatchObject({ error: { code: 'unauthorized' }, isRefusal: false, findings: null });
    expect(contentsOf({ lastRun: 3 }, failed).findings).toEqual({ total: null, listed: [] });
  });

  it('is synced though the baseline that was asked for is refused, and continues from storage once its altered mirror was moved away', async () => {
    const { work, registry, pass, mirrorOf, verified } = await fleet();
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    registry.publish(await work('a', 1));
    registry.publish(await work('a', 2, { baseline }));
    pass();
    registry.publish(await work('a', 3));
    const database = new Database(mirrorOf('a'));
    database.exec(`UPDATE snapshots SET run = 2`);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    pass();
    const refused = registry.publish(
      await work('a', 4, { baseline: { ...baseline, name: 'other', run: 2 } }),
    );
    expect(refused).toMatchObject({
      runs: [{ run: 3, outcome: 'complete' }],
      baseline: null,
      baselineError: expect.stringMatching(/^snapshot "good" is not as it was pinned/) as string,
      error: { code: 'mirror_corrupt' },
      isRefusal: true,
      storage: { stored: null, error: { code: 'mirror_corrupt' } },
    });
    expect(baselineDone({ baselineOrder: baseline }, refused)).toEqual({ error: refused.baselineError });
    // As evidence; what is in storage is from before.
    renameSync(dirname(mirrorOf('a')), join(dirname(mirrorOf('a')), '..', 'altered'));
    pass();
    expect(await work('a', 5, { mayLoseRuns: false })).toMatchObject({ status: 'left' });
    expect(registry.publish(await work('a', 6))).toMatchObject({
      ...{ chain: 'behind', error: null, findings: { count: 0 } },
      runs: [{ run: 4, outcome: 'complete' }],
      baseline: { name: 'good', run: 1 },
      storage: { stored: { run: 4 }, error: null },
    });
    expect(await verified('a')).toMatchObject({ run: 4, problems: 0 });
  });

  it('ends the wait for a baseline in a mirror that cannot be stored since it does not verify', async () => {
    const { work, registry, mirrorOf } = await fleet();
    const baseline = { name: 'good', run: 1, time: null, by: 'somebody' };
    registry.publish(await work('a', 1));
    registry.publish(await work('a', 2, { baseline }));
    const mirror = openMirror(mirrorOf('a'), {
      mode: 'write',
      command: 'test',
      clock: (await fleet()).clock,
    });
    mirror.snapshots.pin('another', 1);
    mirror.close();
    const database = new Database(mirrorOf('a'));
    database.exec(`UPDATE snapshots SET pinned_by = 'ciso' WHERE name = 'another'`);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    const set = registry.publish(await work('a', 3, { baseline: { ...baseline, name: 'next' } }));
    expect(set).toMatchObject({ baseline: { name: 'next' }, baselineError: null, storage: { stored: null } });
    expect(baselineDone({ baselineOrder: baseline }, set)).toEqual({
      error: expect.stringMatching(/does not verify: snapshot "another"/) as string,
    });
    expect(contentsOf({ lastRun: 1 }, set).error).toMatchObject({
      message: expect.stringMatching(/does not verify: snapshot "another"/) as string,
      isRefusal: true,
    });
    const away = { code: 'timeout', message: 'away', hint: null, isRetryable: true } as const;
    expect(contentsOf({ lastRun: 1 }, { ...set, storage: { stored: null, error: away } }).error).toBeNull();
    expect(
      baselineDone({ baselineOrder: baseline }, { ...set, storage: { stored: null, error: away } }),
    ).toBeNull();
  });

  it('carries the starts of requests to the next worker', async () => {
    const { work, registry, pass, service, clock } = await fleet();
    const first = registry.publish(await work('a', 1));
    const countOf = ({ requests: known }: typeof first): number => startsOf(known!);
    expect(countOf(first)).toBe(service.seen.length);
    pass(60_000);
    const requests = aged(first.requests!, 60_000);
    expect(countOf(registry.publish(await work('b', 2, { requests })))).toBe(service.seen.length);
    const again = registry.publish(await work('b', 3, { requests }));
    expect(countOf(again), 'each counts once').toBe(service.seen.length);
    // What the first one is known to have sent in that minute is a part of what the limits allowed.
    const asked = service.seen.length;
    const taken = await work('b', 4, {
      uncounted: { since: clock.now() - 60_000, until: clock.now() - 30_000 },
    });
    expect(taken).toMatchObject({ status: 'waits', ms: 30_000 });
    const known = taken.status === 'waits' ? taken.requests : null;
    expect(startsOf(known!)).toBe(asked + 1000 - countOf(first));
    expect(service.seen).toHaveLength(asked);
    pass(60_000);
    expect((await work('b', 5, { requests: aged(known!, 60_000) })).status).toBe('worked');
  });

  it('assumes nothing of a worker that vanished while the limits were used up by what is assumed of another one', async () => {
    const { work, registry, pass, clock } = await fleet();
    const waits = async (...order: Parameters<typeof work>): Promise<Waits> => {
      const result = await work(...order);
      if (result.status !== 'waits') throw new Error(JSON.stringify(result));
      return result;
    };
    registry.publish(await work('a', 1));
    pass();
    const first = await waits('b', 2, { uncounted: { since: clock.now(), until: clock.now() } });
    expect(first.ms).toBe(60_000);
    expect(startsOf(first.requests!)).toBeGreaterThanOrEqual(1000);
    pass(20_000);
    const requests = aged(first.requests!, 20_000);
    const next = await waits('c', 3, { requests, uncounted: { since: clock.now(), until: clock.now() } });
    expect(next.ms).toBe(40_000);
    expect(startsOf(next.requests!)).toBe(startsOf(first.requests!));
    pass(60_000);
    const last = await work('c', 4, { requests: aged(next.requests!, 60_000) });
    expect(last.status).toBe('worked');
  });
});

it('assumes of a worker that vanished what the minutes since its last report allowed, and waits for the minute alone', async () => {
  const { work, service, registry, clock } = await fleet();
  const config = {
    source: { baseUrl: service.url, rate: { perMinute: 30, perHour: 1000 } },
    schedules: { sync: { cron: '*/30 * * * *' } },
  };
  const first = registry.publish(await work('a', 1, { config }));
  // The other list is of the kinds with limits of their own.
  const lists = Object.entries(first.requests!.ages).toSorted(([, a], [, b]) => b.length - a.length);
  const [id] = lists[0]!;
  const after = async (known: number, uncountedMs: number): Promise<{ ms: number; added: number }> => {
    const ages = Array.from({ length: known }, (_, index) => 3_000_000 - index);
    const until = clock.now();
    const result = await work(`after-${known}-${uncountedMs}`, 2, {
      config,
      requests: { ages: { [id]: ages }, paces: {} },
      uncounted: { since: until - uncountedMs, until },
    });
    if (result.status !== 'waits') throw new Error(JSON.stringify(result));
    return { ms: result.ms, added: result.requests!.ages[id]!.length - known };
  };
  expect(await after(600, 1_000)).toEqual({ ms: 60_000, added: 30 });
  expect(await after(600, 240_000)).toEqual({ ms: 60_000, added: 120 });
  expect((await after(950, 240_000)).added, 'as many as the hour allowed').toBe(50);
  // Of an hour that is used up, only what is older than an hour leaves room.
  expect((await after(1_000, 1_000)).ms).toBeGreaterThan(500_000);
});

it('that was cut short by the limit of an hour is partial, and then waits until the hour leaves a request', async () => {
  const { work, service, registry, pass, clock } = await fleet();
  const perHour = 2;
  const config = {
    source: { baseUrl: service.url, rate: { perMinute: 0, perHour } },
    schedules: { sync: { cron: '*/30 * * * *' } },
  };
  const until = new Date(clock.now() + 3_600_000).toISOString().slice(11, 19);
  const cut = registry.publish(await work('a', 1, { config }));
  expect(cut).toMatchObject({ error: null, runs: [{ outcome: 'partial', errorCode: 'throttled' }] });
  expect(service.seen).toHaveLength(perHour);
  const why = `rate.perHour is used up until ${until}Z: raise it, sync less often, or give cells keys of their own`;
  // The registry learns it with the run: the schedule comes sooner, and could send nothing.
  expect(cut.waits).toEqual({ ms: 3_600_000, why });
  expect(contentsOf({ lastRun: null }, cut).error).toEqual({
    code: 'throttled',
    message: why,
    isRefusal: false,
    waits: true,
  });
  pass();
  expect(await work('a', 2, { config })).toMatchObject({ status: 'waits', ms: INTERVAL_MS, why });
  expect(service.seen, 'nothing was sent').toHaveLength(perHour);
  pass(INTERVAL_MS + 1000);
  expect((await work('a', 3, { config })).status).toBe('worked');
});

it('whose service asks to wait has not failed: it waits until then', async () => {
  const { work, service, registry, pass, clock } = await fleet();
  service.quirks.push((_request, response) => {
    response.writeHead(429, { 'retry-after': '1800' }).end();
    return true;
  });
  const until = new Date(clock.now() + 1_800_000).toISOString().slice(0, 19);
  const asked = registry.publish(await work('a', 1));
  const why = `the service asked to wait until ${until}Z (429 or 503): if it repeats, set rate.perMinute lower, sync less often, or give cells keys of their own`;
  expect(asked).toMatchObject({ runs: [{ outcome: 'failed' }], waits: { ms: 1_800_000, why } });
  expect(contentsOf({ lastRun: null }, asked).error).toMatchObject({ message: why, waits: true });
  service.quirks.length = 0;
  const sent = service.seen.length;
  expect(await work('a', 2)).toMatchObject({ status: 'waits', why });
  expect(service.seen, 'nothing was sent').toHaveLength(sent);
  pass(7_200_000);
  expect(registry.publish(await work('a', 3)).runs).toMatchObject([{ outcome: 'complete' }]);
});

type Waits = Extract<CellResult, { status: 'waits' }>;

/** How many starts the limits count. */
function startsOf({ ages }: RateLogState): number {
  return Math.max(...Object.values(ages).map((each) => each.length));
}

/** The same some time later. */
function aged({ ages, paces }: RateLogState, ms: number): RateLogState {
  const older = Object.entries(ages).map(([id, each]) => [id, each.map((age) => age + ms)]);
  return { ages: Object.fromEntries(older) as RateLogState['ages'], paces };
}

it('is due by a schedule that was changed before its next run', async () => {
  const { work, registry, pass, service, clock } = await fleet();
  const first = registry.publish(await work('w1', 1));
  pass(60_000);
  const unchanged = registry.publish(await work('w1', 2));
  expect(unchanged).toMatchObject({ runs: [], dueAt: first.dueAt });
  const config = { source: { baseUrl: service.url }, schedules: { sync: { cron: '*/5 * * * *' } } };
  const changed = registry.publish(await work('w1', 3, { config }));
  expect(changed.runs).toEqual([]);
  const inMs = Date.parse(changed.dueAt ?? '') - clock.now();
  expect(inMs).toBeGreaterThan(0);
  expect(inMs).toBeLessThan(10 * 60_000);
});
