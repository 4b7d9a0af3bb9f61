/** What the jobs of a mirror say of a damage that was found. */
import { expect, it } from 'vitest';
import type { JobEnd, JobName } from '../../src/mirror/daemon-store.ts';
import { readLastJobs } from '../../src/daemon/last-jobs.ts';
import { Rig } from './rig.ts';

it('a damage stays whatever the same job did since, until a check of all contents ends well', async () => {
  const rig = await Rig.create({});
  await rig.start();
  const writer = rig.effects().openMirror(rig.view.config(), 'write', 'test');
  const at = '2026-03-02T10:00:00.000Z';
  const add = (name: JobName, end: Partial<JobEnd>): void => {
    const job = writer.daemon.beginJob({ name, source: null, trigger: 'schedule', startedAt: at });
    const none = { run: null, summary: {}, errorCode: null, error: null };
    writer.daemon.finishJob(job, { finishedAt: at, outcome: 'done', ...none, ...end });
  };
  const shown = (): unknown => {
    const { damaged, verifications } = readLastJobs(writer);
    return [damaged.map(({ name }) => name), verifications.map(({ outcome }) => outcome)];
  };
  const damage = { outcome: 'failed', errorCode: 'mirror_corrupt', error: 'it is damaged' } as const;
  try {
    add('drift', damage);
    add('backup', damage);
    add('backup', { summary: { job: 'backup', file: null } });
    add('drift', { summary: { job: 'drift' } });
    add('drift', { ...damage, summary: { isOfAuditLog: true, hint: 'look' } });
    expect(shown()).toEqual([['drift', 'backup'], []]);
    add('backup', { summary: { job: 'backup', file: 'b.tar' } });
    expect(shown()).toEqual([[], []]);
    add('drift', damage);
    add('verify', { outcome: 'failed', summary: { job: 'verify', problems: 2 } });
    add('verify', { outcome: 'interrupted' });
    expect(shown()).toEqual([['drift'], ['failed']]);
    add('verify', { summary: { job: 'verify', problems: 0 } });
    add('verify', { outcome: 'interrupted' });
    expect(shown()).toEqual([[], ['interrupted']]);
  } finally {
    writer.close();
  }
});
