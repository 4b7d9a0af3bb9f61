/** An acceptance that another program wrote hides nothing from the daemon: not on its pages, not in metrics, not from its jobs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { selectionOf } from '../../../src/daemon/dashboard/restore-selection.ts';
import { DRIFT_JOB } from '../../../src/daemon/jobs/drift-job.ts';
import { VERIFY_JOB } from '../../../src/daemon/jobs/verify-result.ts';
import { backupWork, jobWorks } from '../../../src/daemon/jobs/job-table.ts';
import { contentOf, findingLine } from '../../../src/daemon/notices/message.ts';
import { transitionsOf } from '../../../src/daemon/notices/transitions.ts';
import { summaryOf } from '../../../src/daemon/jobs/summaries.ts';
import type { JobContext } from '../../../src/daemon/jobs/work.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { DriftNow } from '../../../src/daemon/health/drift-now.ts';
import { World } from '../http/world.ts';
import { job, seen } from '../notices/seen.ts';
import { alterFile } from '../../tools/alter.ts';

function jobContext(world: World, name: 'drift' | 'verify' | 'forget' | 'backup'): JobContext {
  const [source = null] = world.config().sources;
  return {
    job: { name, source: 'default', trigger: 'schedule', schedule: null, full: false, kinds: null },
    config: world.config(),
    source,
    mirror: world.mirror(),
    effects: { clock: world.clock },
    signal: new AbortController().signal,
  } as unknown as JobContext;
}

function finished(end: () => Promise<void>): void {
  onTestFinished(end);
}

/** With a baseline, and a change since. */
async function drifted(more: Readonly<Record<string, string>> = {}): Promise<World> {
  const world = await World.create(
    { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing', ...more },
    finished,
  );
  await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('b', 1);
    mirror.snapshots.setBaseline('b');
  });
  await world.send('PATCH', `/api/organizations/${KITTIWAKE_ID}/`, { enforce_2fa: false });
  await world.sync();
  return world;
}

it('shows a finding as open whose acceptance is not as the audit log has it', async () => {
  const world = await drifted();
  const now = world.clock.now();
  const found = await new DriftNow().of(world.mirror(), world.config(), 'default', now);
  const [finding] = found?.open ?? [];
  if (finding === undefined || found?.open.length !== 1) throw new Error('one finding was expected');
  const { fingerprint, kind, scope, id, path } = finding;
  world.write((mirror) => {
    mirror.acceptances.add({
      ...{ source: 'default', fingerprint, kind, scope, id, path },
      ...{ reason: 'agreed', acceptedAt: new Date(now).toISOString() },
    });
  });
  const { url } = await world.listen({}, finished);
  const text = async (at: string): Promise<string> =>
    await (await fetch(url + at, { headers: { accept: 'text/html' } })).text();
  const openIn = (metrics: string): number =>
    [...metrics.matchAll(/^tidemark_drift_findings\{.*\} (\d+)$/gm)].reduce(
      (sum, [, value]) => sum + Number(value),
      0,
    );
  expect(openIn(await text('/metrics'))).toBe(0);
  expect(await text('/drift')).not.toContain('audit log has it');
  expect(await text('/')).not.toContain('audit log');

  alterFile(world.mirrorPath, `UPDATE acceptances SET accepted_by = 'ciso'`);
  expect(openIn(await text('/metrics'))).toBe(1);
  const page = await text('/drift');
  expect(page).toContain('1 drift finding');
  expect(page).toMatch(/the audit log does not prove its acceptance/);
  const overview = await text('/');
  expect(overview).toContain('is not as it was accepted');
  expect(overview).toContain('records and history match their hashes');
  const drift = await DRIFT_JOB.run(jobContext(world, 'drift'));
  expect(summaryOf('drift', { name: 'drift', summary: drift.summary })).toMatchObject({
    open: 1,
    accepted: 0,
    findings: [{ path: '/enforce_2fa', reopened: 'contradicted' }],
  });
  const [named] = summaryOf('drift', { name: 'drift', summary: drift.summary })?.findings ?? [];
  expect(named === undefined ? '' : findingLine(named)).toMatch(
    /: \/enforce_2fa \(the audit log does not prove its acceptance\)$/,
  );
  // Retention refuses for it, and that is no damage.
  await world.sync();
  const forget = jobWorks(null).get('forget');
  const context = jobContext(world, 'forget');
  const mirror = openMirror(world.mirrorPath, { mode: 'write', command: 'test', clock: world.clock });
  const config = { ...context.config, retention: { last: 1 } };
  const refused = await forget?.run({ ...context, mirror, config }).finally(() => mirror.close());
  expect(refused?.outcome).toBe('failed');
  expect(refused?.error?.message).toMatch(/is not as it was accepted.*: nothing was forgotten$/);
  const row = job('forget', 'failed', {
    summary: refused?.summary ?? {},
    ...{ errorCode: 'mirror_corrupt', error: refused?.error?.message ?? '' },
  });
  const titles = transitionsOf([], seen(row)).notices.map((notice) => contentOf(notice));
  expect(titles.map(({ title }) => title)).toContain('mirror: it does not match its audit log');
  expect(titles.map(({ title }) => title)).not.toContain('mirror: it is damaged');
  expect(titles[0]?.hint).toMatch(/^the row and the log stay as they are/);
  const verified = await VERIFY_JOB.run(jobContext(world, 'verify'));
  expect(verified.error?.message).toMatch(/^the mirror does not match its audit log: /);
  expect(verified.error?.hint).toContain('records and history match their hashes');
});

it('reports no drift from a baseline that is not as the audit log has it, and says why', async () => {
  const world = await drifted();
  const { url } = await world.listen({}, finished);
  const text = async (at: string): Promise<string> =>
    await (await fetch(url + at, { headers: { accept: 'text/html' } })).text();
  expect(await text('/metrics')).toMatch(/^tidemark_drift_findings\{.*\} 1$/m);
  const record = selectionOf({ kind: 'organizations', scope: {}, id: KITTIWAKE_ID });
  const restore = async (): Promise<string> => await text(`/restore?source=default&record=${record}`);
  expect(await restore()).toContain('What it would do');
  alterFile(world.mirrorPath, 'UPDATE snapshots SET run = 2');
  const said = 'is not as it was pinned (now at run 2)';
  expect(await text('/metrics')).not.toContain('tidemark_drift_findings{');
  const page = await text('/drift');
  expect(page).toContain('Not measured: the baseline is not as the audit log has it.');
  expect(page).toContain(said);
  expect(page.replaceAll(/<[^>]+>/g, '')).toContain('tidemark drift --from run:1');
  const plan = await restore();
  expect(plan).toContain(`The baseline cannot be used: snapshot &quot;b&quot; ${said}`);
  expect(plan).toContain('<code>run:1</code> names the state that the audit log has');
  expect(plan).not.toContain('What it would do');
  const overview = await text('/');
  expect(overview).toContain(said);
  expect(overview).not.toContain('found damaged');
  const drift = await jobWorks(null).get('drift')?.run(jobContext(world, 'drift'));
  expect(drift?.outcome).toBe('failed');
  expect(drift?.error?.message).toContain(said);
  const row = job('drift', 'failed', {
    summary: drift?.summary ?? {},
    ...{ errorCode: 'mirror_corrupt', error: drift?.error?.message ?? '' },
  });
  const told = transitionsOf([], seen(row)).notices.map((notice) => contentOf(notice));
  expect(told.map(({ title }) => title)).toContain('mirror: it does not match its audit log');
  expect(told[0]?.hint).toMatch(/^`run:1` names the state that the audit log has/);
});

it('refuses a backup of a baseline that is not as the audit log has it, also from its own process, and does not call it damage', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-backups-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const world = await drifted({ TIDEMARK_BACKUP_TARGETS: directory });
  alterFile(world.mirrorPath, 'UPDATE snapshots SET run = 2');
  const context = jobContext(world, 'backup');
  const effects = { ...context.effects, host: 'here', pid: process.pid };
  const backup = jobWorks(backupWork({ PATH: process.env['PATH'] })).get('backup');
  const refused = await backup?.run({ ...context, effects, log: silentLogger, onWait: () => undefined });
  expect(refused).toMatchObject({
    ...{ outcome: 'failed', summary: { isOfAuditLog: true } },
    error: {
      code: 'mirror_corrupt',
      message: expect.stringMatching(
        /^the backup of .* does not verify: .*is not as it was pinned/,
      ) as string,
      hint: expect.stringMatching(/^the row and the log stay as they are/) as string,
    },
  });
  const row = job('backup', 'failed', {
    summary: refused?.summary ?? {},
    ...{ errorCode: 'mirror_corrupt', error: refused?.error?.message ?? '' },
  });
  const titles = transitionsOf([], seen(row)).notices.map((notice) => contentOf(notice).title);
  expect(titles).toContain('mirror: it does not match its audit log');
  expect(titles).not.toContain('mirror: it is damaged');
  // Records that are damaged too are damage.
  alterFile(
    world.mirrorPath,
    `UPDATE records SET body = replace(body, '{', '{"x":1,') WHERE rowid IN (SELECT min(rowid) FROM records)`,
  );
  await expect(
    backup?.run({ ...context, effects, log: silentLogger, onWait: () => undefined }),
  ).rejects.toMatchObject({
    code: 'mirror_corrupt',
    isOfAuditLog: false,
    hint: expect.stringContaining('whether the mirror itself is damaged') as string,
  });
});

it('previews no forgetting by pins that are not as the audit log has them', async () => {
  const world = await drifted();
  const policy = { last: 1 };
  await world.sync();
  expect(world.mirror().retention.plan({ policy }).forgotten).not.toEqual([]);
  alterFile(world.mirrorPath, 'UPDATE snapshots SET run = 2');
  const said = /is not as it was pinned.*: nothing was forgotten$/;
  expect(() => world.mirror().retention.plan({ policy })).toThrow(said);
  const mirror = openMirror(world.mirrorPath, { mode: 'write', command: 'test', clock: world.clock });
  await expect(
    mirror.retention.forget({ policy, isEqual: () => true }).finally(() => mirror.close()),
  ).rejects.toThrow(said);
});
