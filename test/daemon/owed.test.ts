/** What a daemon owes when it starts, whatever ended the one before it: read from the mirror, done once. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { JobEnd, JobName, JobTrigger } from '../../src/mirror/daemon-store.ts';
import { addToRestored } from '../../src/mirror/backup.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { openBySource } from '../../src/daemon/health/drift-counts.ts';
import { restoredStates } from '../../src/daemon/notices/perhaps-open.ts';
import { METRICS } from '../../src/daemon/http/metrics.ts';
import { DRIFT_JOB } from '../../src/daemon/jobs/drift-job.ts';
import type { FindingSummary } from '../../src/daemon/jobs/summaries.ts';
import { isoTime } from '../../src/core/clock.ts';
import { starterText } from '../../src/daemon/http/wording.ts';
import { unreadRestores } from '../../src/state/runs.ts';
import { respond } from '../journeys/service.ts';
import { begin } from '../mirror/fixture.ts';
import { Rig } from './rig.ts';

const HOURLY = { sync: '0 * * * *' };
const HOURLY_AND_DRIFT = { ...HOURLY, drift: '0 7 * * *' };
/** Nothing comes by its time within these tests. */
const YEARLY = { sync: '0 0 1 1 *' };

function write<T>(rig: Rig, work: (mirror: Mirror) => T): T {
  const mirror = openMirror(rig.mirrorPath, { mode: 'write', command: 'test', clock: rig.clock });
  try {
    return work(mirror);
  } finally {
    mirror.close();
  }
}

/** A job whose process was killed. */
function die(rig: Rig, name: JobName, trigger: JobTrigger): void {
  write(rig, (mirror) =>
    mirror.daemon.beginJob({
      name,
      source: 'a',
      trigger,
      startedAt: new Date(rig.clock.now()).toISOString(),
    }),
  );
}

function failDrift(rig: Rig, outcome: JobEnd['outcome']): void {
  write(rig, (mirror) => {
    const state = mirror.daemon;
    const at = new Date(rig.clock.now()).toISOString();
    const job = state.beginJob({ name: 'drift', source: 'a', trigger: 'schedule', startedAt: at });
    const end = { finishedAt: at, outcome, run: null, summary: {}, errorCode: 'internal', error: 'no' };
    state.finishJob(job, end);
  });
}

function outcomes(rig: Rig, name: JobName = 'drift'): string[] {
  return rig.jobs({ name }).map(({ trigger, outcome }) => `${trigger} ${outcome}`);
}

/** A daemon with a baseline, stopped. */
async function withBaseline(): Promise<Rig> {
  const rig = await Rig.create(HOURLY_AND_DRIFT);
  await (await rig.start()).stop();
  write(rig, (mirror) => {
    mirror.snapshots.pin('start', 1);
    mirror.snapshots.setBaseline('start');
  });
  return rig;
}

/** A sync that finds a change, with the daemon told to stop in the middle of it. */
async function stoppedInSync(): Promise<Rig> {
  const rig = await withBaseline();
  await rig.start();
  rig.service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
  const held = { is: true };
  rig.service.quirks.push(({ path }, response) => {
    if (!held.is || !path.endsWith('/roles/')) return false;
    held.is = false;
    rig.heldAnswers = 1;
    void rig.clock.sleep(2_000).then(() => {
      rig.heldAnswers = 0;
      respond(response, 200, '{"count":0,"next":null,"previous":null,"results":[]}');
    });
    return true;
  });
  await rig.advanceMinutes(59);
  expect(rig.view.running()).toMatchObject([{ name: 'sync', trigger: 'schedule' }]);
  const stopped = rig.daemon.stop();
  await rig.advance(3_000);
  await stopped;
  expect(rig.jobs({ name: 'sync' }).at(-1)?.outcome).toBe('done');
  expect(outcomes(rig)).toEqual([]);
  return rig;
}

describe('drift of what a sync changed', () => {
  it('is looked for at the next start where the daemon ended before it, once', async () => {
    const rig = await stoppedInSync();
    await rig.start();
    expect(outcomes(rig)).toEqual(['overdue done']);
    expect(rig.jobs({ name: 'drift' })[0]?.summary).toMatchObject({ to: 2, open: 1 });
    await rig.advanceMinutes(120);
    await rig.daemon.stop();
    await (await rig.start()).stop();
    expect(outcomes(rig)).toEqual(['overdue done']);
  });

  it('is looked for again after the next sync where a finding was accepted, or an acceptance withdrawn', async () => {
    const rig = await stoppedInSync();
    await rig.start();
    const found = rig.jobs({ name: 'drift' })[0]?.summary as { findings?: FindingSummary[] } | undefined;
    const [finding] = found?.findings ?? [];
    const { fingerprint, kind, scope, id } = finding!;
    await rig.advanceMinutes(1);
    const acceptedAt = isoTime(rig.clock.now());
    const accepted = { source: 'a', kind, scope, id, path: '', fingerprint, reason: 'planned', acceptedAt };
    write(rig, (mirror) => mirror.acceptances.add(accepted));
    await rig.advanceMinutes(120);
    expect(outcomes(rig)).toEqual(['overdue done', 'after_run done']);
    expect(rig.jobs({ name: 'drift' }).at(-1)?.summary).toMatchObject({ open: 0, accepted: 1 });
    write(rig, (mirror) => mirror.acceptances.withdraw('a', fingerprint));
    await rig.advanceMinutes(120);
    expect(outcomes(rig)).toEqual(['overdue done', 'after_run done', 'after_run done']);
    expect(rig.jobs({ name: 'drift' }).at(-1)?.summary).toMatchObject({ open: 1, accepted: 0 });
  });

  it('is looked for again, once, after the first sync past the end of an acceptance', async () => {
    const rig = await stoppedInSync();
    await rig.start();
    const found = rig.jobs({ name: 'drift' })[0]?.summary as { findings?: FindingSummary[] } | undefined;
    const { fingerprint, kind, scope, id } = found!.findings![0]!;
    const now = rig.clock.now();
    const accepted = { source: 'a', kind, scope, id, path: '', fingerprint, reason: 'planned' };
    const times = { acceptedAt: isoTime(now + 1), until: isoTime(now + 180 * 60_000) };
    write(rig, (mirror) => mirror.acceptances.add({ ...accepted, ...times }));
    await rig.advanceMinutes(120);
    expect(outcomes(rig)).toEqual(['overdue done', 'after_run done']);
    expect(rig.jobs({ name: 'drift' }).at(-1)?.summary).toMatchObject({ open: 0, accepted: 1 });
    await rig.advanceMinutes(240);
    expect(outcomes(rig)).toEqual(['overdue done', 'after_run done', 'after_run done']);
    expect(rig.jobs({ name: 'drift' }).at(-1)?.summary).toMatchObject({ open: 1, accepted: 0 });
  });

  it('is looked for by --once too', async () => {
    const rig = await stoppedInSync();
    for (let times = 0; times < 2; times += 1) {
      await rig.start({ isOnce: true });
      await rig.daemon.done;
    }
    expect(outcomes(rig)).toEqual(['overdue done']);
  });

  it('is looked for at each start as long as it is cut short, once a start', async () => {
    const rig = await stoppedInSync();
    for (const trigger of ['after_run', 'overdue', 'overdue'] as const) die(rig, 'drift', trigger);
    await (await rig.start()).stop();
    expect(outcomes(rig)).toEqual([
      'after_run interrupted',
      'overdue interrupted',
      'overdue interrupted',
      'overdue done',
    ]);
    die(rig, 'drift', 'request');
    failDrift(rig, 'failed');
    await rig.start();
    expect(outcomes(rig).slice(4)).toEqual(['request running', 'schedule failed']);
  });

  it('comes after the sync that is due, and once for both', async () => {
    const rig = await stoppedInSync();
    await rig.advanceMinutes(60);
    rig.service.set('domains', [{ id: 'd1', domain: 'quay.example' }]);
    await rig.start();
    expect(outcomes(rig)).toEqual(['overdue done']);
    expect(rig.jobs({ name: 'drift' })[0]?.summary).toMatchObject({ to: 3 });
  });

  it('comes once where its own schedule is due as well', async () => {
    const rig = await stoppedInSync();
    rig.configure({ ...YEARLY, drift: '0 7 * * *' });
    await rig.advanceMinutes(24 * 60);
    await rig.start();
    expect(outcomes(rig)).toEqual(['overdue done']);
  });

  it('is made up for after the next sync where it failed, though that one changed nothing', async () => {
    const rig = await withBaseline();
    await rig.start();
    rig.service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    rig.onOpen = (_mode, command) => {
      if (command === 'daemon drift') throw new Error('not now');
    };
    await rig.advanceMinutes(60);
    expect(rig.jobs({ name: 'sync' })).toHaveLength(2);
    rig.onOpen = () => undefined;
    await rig.advanceMinutes(60);
    expect(outcomes(rig)).toEqual(['after_run done']);
    await rig.advanceMinutes(60);
    expect(outcomes(rig)).toEqual(['after_run done']);
  });

  it('is pending by nobody without a baseline, or without a change since', async () => {
    const rig = await Rig.create(HOURLY_AND_DRIFT);
    await (await rig.start()).stop();
    await (await rig.start()).stop();
    write(rig, (mirror) => {
      mirror.snapshots.pin('start', 1);
      mirror.snapshots.setBaseline('start');
    });
    await (await rig.start()).stop();
    expect(outcomes(rig)).toEqual([]);
  });
});

describe('drift of a mirror that was restored from a backup', () => {
  it('waits until a sync has read the source, and then comes though that changed nothing', async () => {
    const rig = await stoppedInSync();
    addToRestored(rig.mirrorPath, { states: restoredStates(['a'], 2, ''), entry: null });
    await (await rig.start()).stop();
    expect(outcomes(rig)).toEqual([]);
    await rig.start();
    await rig.advanceMinutes(60);
    expect(rig.jobs({ name: 'sync' }).at(-1)).toMatchObject({ outcome: 'done', run: 3 });
    expect(outcomes(rig)).toEqual(['after_run done']);
    expect(rig.jobs({ name: 'drift' })[0]?.summary).toMatchObject({ to: 3, open: 1 });
    await rig.advanceMinutes(60);
    expect(outcomes(rig)).toEqual(['after_run done']);
  });
});

describe('the commit of a mirror that was restored from a backup', () => {
  it('waits until a sync has read the source, and then comes though that changed nothing', async () => {
    const rig = await Rig.create(HOURLY);
    await (await rig.start()).stop();
    const clone = join(rig.directory, 'clone');
    execFileSync('git', ['init', '--quiet', '--initial-branch=main', clone]);
    const ofSource = `  - name: a\n    git: { directory: ${clone}, author: A <a@harbor.example> }\n`;
    writeFileSync(rig.configFile, readFileSync(rig.configFile, 'utf8').replace('  - name: a\n', ofSource));
    addToRestored(rig.mirrorPath, { states: restoredStates(['a'], 1, ''), entry: null });
    await (await rig.start()).stop();
    expect(outcomes(rig, 'git')).toEqual([]);
    await rig.start();
    await rig.advanceMinutes(60);
    expect(rig.jobs({ name: 'sync' }).at(-1)).toMatchObject({ outcome: 'done', run: 2 });
    expect(outcomes(rig, 'git')).toEqual(['after_run done']);
    expect(rig.jobs({ name: 'git' })[0]?.summary).toMatchObject({ run: 2 });
    expect(execFileSync('git', ['-C', clone, 'log', '--format=%B'], { encoding: 'utf8' })).toContain(
      'Tidemark-Run: 2',
    );
    await rig.advanceMinutes(60);
    expect(outcomes(rig, 'git')).toEqual(['after_run done']);
  });
});

it.each(['interrupted', 'failed'] as const)(
  'the gauge of findings shows the last finished drift job, not one that %s',
  async (outcome) => {
    const rig = await stoppedInSync();
    await rig.start();
    failDrift(rig, outcome);
    const row = METRICS.find(({ name }) => name === 'tidemark_drift_findings');
    const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
    // Too much changed to compare it at a scrape.
    const problem = { source: 'a', cause: '', reason: '', line: '', isTooMuch: true };
    const openDrift = openBySource({ drifts: [], problems: [problem] }, snapshot.lastJobs);
    const samples = row?.read({ snapshot, openDrift } as unknown as Parameters<typeof row.read>[0]) ?? [];
    expect(samples.reduce((sum, [value]) => sum + (value ?? 0), 0)).toBe(1);
  },
);

it('health says that drift waits for a run of all kinds, however many of some kinds there are', async () => {
  const rig = await withBaseline();
  await rig.start();
  const waiting = (): unknown[] => {
    const { sources } = readHealthSnapshot(rig.view, rig.clock.now()).health;
    return sources.flatMap(({ reasons }) => reasons.filter(({ code }) => code === 'drift_waiting'));
  };
  expect(waiting()).toEqual([]);
  const since = '2026-03-02T09:00:00.000Z';
  addToRestored(rig.mirrorPath, { states: restoredStates(['a'], 1, since), entry: null });
  const [reason] = waiting();
  expect(reason).toMatchObject({ state: 'degraded', since });
  expect(reason).toMatchObject({ message: expect.stringContaining('nothing is committed to git') as string });
  expect(reason).toMatchObject({ hint: expect.stringMatching(/^`tidemark sync --source a`/) as string });
  // As \`tidemark sync --kind\` does it.
  rig.view.request('sync', ['a'], { kinds: ['roles'] });
  await rig.settle();
  expect(rig.jobs({ name: 'sync' }).at(-1)).toMatchObject({ run: 2, outcome: 'done' });
  expect(waiting()).toEqual([reason]);
  rig.view.request('sync', ['a']);
  await rig.settle();
  expect(waiting()).toEqual([]);
});

describe('a source that never had a complete run', () => {
  it('is synced at each start, whatever cut the last one short', async () => {
    const rig = await Rig.create(YEARLY);
    const isDown = { is: true };
    rig.service.quirks.push(
      ({ path }, response) => isDown.is && path.endsWith('/roles/') && respond(response, 403, '{}'),
    );
    await (await rig.start()).stop();
    die(rig, 'sync', 'overdue');
    await (await rig.start()).stop();
    die(rig, 'sync', 'overdue');
    isDown.is = false;
    await (await rig.start()).stop();
    expect(outcomes(rig, 'sync')).toEqual([
      'overdue partial',
      'overdue interrupted',
      'overdue partial',
      'overdue interrupted',
      'overdue done',
    ]);
    die(rig, 'sync', 'overdue');
    await rig.start();
    expect(outcomes(rig, 'sync').slice(5)).toEqual(['overdue running']);
    const told = rig.lines.filter(({ message }) => /is not run again/.test(message));
    expect(told).toMatchObject([
      {
        level: 'info',
        message: 'the interrupted sync is not run again: it is next due at 2027-01-01T00:00:00.000Z',
        facts: { sources: ['a'] },
      },
    ]);
  });

  it('is synced by --once only where the last one was cut short: who calls it keeps the times', async () => {
    const rig = await Rig.create(YEARLY);
    rig.service.quirks.push(({ path }, response) => path.endsWith('/roles/') && respond(response, 403, '{}'));
    const once = async (): Promise<void> => {
      await rig.start({ isOnce: true });
      await rig.daemon.done;
    };
    await once();
    await once();
    expect(outcomes(rig, 'sync')).toEqual(['schedule partial']);
    die(rig, 'sync', 'overdue');
    await once();
    await once();
    expect(outcomes(rig, 'sync').slice(1)).toEqual(['overdue interrupted', 'schedule partial']);
  });
});

it('a job that was cut short is named with its source where there are several', async () => {
  const rig = await Rig.create(YEARLY);
  await (await rig.start()).stop();
  die(rig, 'sync', 'schedule');
  const said = (): string[] => rig.loud().filter((line) => line.includes('was cut short'));
  await (await rig.start()).stop();
  expect(said()).toEqual([expect.stringMatching(/^sync was cut short: /)]);
  die(rig, 'sync', 'schedule');
  const text = readFileSync(rig.configFile, 'utf8');
  const [, source = ''] = /^sources:\n([\s\S]*?)^schedules:/m.exec(text) ?? [];
  writeFileSync(rig.configFile, text.replace(source, `${source}${source.replace('name: a', 'name: b')}`));
  await rig.start();
  expect(said().slice(1)).toEqual([expect.stringMatching(/^sync of a was cut short: /)]);
});

describe('a sync that failed', () => {
  /** Shortly before the tick of the day. The service answers 500 while `isDown.is`. */
  async function beforeNoon(): Promise<{ rig: Rig; isDown: { is: boolean } }> {
    const rig = await Rig.create({ sync: '0 12 * * *' });
    const isDown = { is: false };
    rig.service.quirks.push((_request, response) => isDown.is && respond(response, 500, '{}'));
    await rig.start();
    await rig.advanceMinutes(115);
    isDown.is = true;
    return { rig, isDown };
  }
  const starts = (rig: Rig): string[] =>
    rig
      .jobs({ name: 'sync' })
      .slice(1)
      .map(({ startedAt, trigger, outcome }) => `${startedAt.slice(11, 16)} ${trigger} ${outcome}`);

  it('is tried again a quarter of an hour later, then after twice as long each time, until one ends well', async () => {
    const { rig, isDown } = await beforeNoon();
    await rig.advanceMinutes(60);
    const failed = ['12:00 schedule failed', '12:15 overdue failed', '12:45 overdue failed'];
    expect(starts(rig)).toEqual(failed);
    const next = rig.view.schedules().find(({ schedule }) => schedule === 'sync')?.dueAt;
    expect(next).toMatch(/^2026-03-02T13:4/);
    isDown.is = false;
    await rig.advanceMinutes(24 * 60);
    expect(starts(rig).join()).toBe([...failed, '13:45 overdue done', '12:00 schedule done'].join());
  });

  it.each([
    [
      'is tried again where lists failed with errors that may be over',
      500,
      ['12:15 overdue partial', '12:45 overdue done'],
    ],
    ['is left to its schedule where lists were denied', 403, []],
  ])('that was partial %s', async (_what, status, retried) => {
    const rig = await Rig.create({ sync: '0 12 * * *' });
    await rig.start();
    await rig.advanceMinutes(115);
    rig.service.quirks.push(
      ({ path }, response) => path.endsWith('/roles/') && respond(response, status, '{}'),
    );
    await rig.advanceMinutes(30);
    rig.service.quirks.pop();
    await rig.advanceMinutes(60);
    expect(starts(rig)).toEqual(['12:00 schedule partial', ...retried]);
  });

  it('is tried again where a command held the mirror', async () => {
    const rig = await Rig.create({ sync: '0 12 * * *' });
    await rig.start();
    await rig.advanceMinutes(121);
    await rig.daemon.stop();
    const error = 'the mirror is in use by another process';
    const end = { outcome: 'failed', run: null, summary: {}, errorCode: 'mirror_locked', error } as const;
    const at = new Date(rig.clock.now()).toISOString();
    write(rig, ({ daemon }) => {
      const job = daemon.beginJob({ name: 'sync', source: 'a', trigger: 'schedule', startedAt: at });
      daemon.finishJob(job, { finishedAt: at, ...end });
    });
    await rig.start();
    await rig.advanceMinutes(16);
    expect(starts(rig).slice(1)).toEqual(['12:02 schedule failed', '12:17 overdue done']);
  });

  it.each(['schedule', 'overdue'] as const)(
    'is made by the next call of --once where the call before was killed (%s)',
    async (trigger) => {
      const rig = await Rig.create(YEARLY);
      const once = async (): Promise<void> => {
        await rig.start({ isOnce: true });
        await rig.daemon.done;
      };
      await once();
      die(rig, 'sync', trigger);
      await once();
      await once();
      expect(outcomes(rig, 'sync')).toEqual(['schedule done', `${trigger} interrupted`, 'schedule done']);
    },
  );

  it('is tried again by --once, once its time has come', async () => {
    const { rig } = await beforeNoon();
    await rig.advanceMinutes(10);
    await rig.daemon.stop();
    const once = async (): Promise<string[]> => {
      await rig.start({ isOnce: true });
      const done = rig.daemon.done;
      await rig.advanceMinutes(3);
      await done;
      return starts(rig);
    };
    expect(await once()).toEqual(['12:00 schedule failed']);
    await rig.advanceMinutes(7);
    expect((await once()).slice(1)).toEqual(['12:16 overdue failed']);
    await rig.advanceMinutes(40);
    // Somebody has tried meanwhile, and the schedule comes next.
    write(rig, (mirror) =>
      begin(mirror, { source: { name: 'a', baseUrl: rig.service.url } }).abandon({
        code: 'unreachable',
        message: 'no',
      }),
    );
    expect((await once()).slice(2)).toEqual([]);
  });
});

describe('a tick that falls while the daemon stops', () => {
  it('is no tick that is skipped: the next start makes up for it', async () => {
    const rig = await Rig.create({ sync: '*/2 * * * * *' }, 'daemon: { shutdownGraceMs: 60000 }');
    await rig.start();
    rig.service.quirks.push(({ path }, response) => {
      if (!path.endsWith('/roles/')) return false;
      rig.heldAnswers += 1;
      void rig.clock.sleep(20_000).then(() => {
        rig.heldAnswers -= 1;
        respond(response, 200, '{"count":0,"next":null,"previous":null,"results":[]}');
      });
      return true;
    });
    await rig.advance(2_000);
    expect(rig.view.running()).toHaveLength(1);
    const before = rig.clock.slept;
    const stopped = rig.daemon.stop();
    await rig.advance(30_000);
    await stopped;
    expect(rig.clock.slept - before).toBeLessThan(20);
    expect(rig.loud()).toEqual([]);
    expect(rig.jobs({ name: 'sync' }).at(-1)?.outcome).toBe('done');
    rig.service.quirks.splice(1);
    await rig.start();
    expect(outcomes(rig, 'sync').at(-1)).toBe('overdue done');
  });
});

describe('a sync after a restore', () => {
  /** As a command beside the daemon: one step that was applied. */
  function restore(rig: Rig, at = isoTime(rig.clock.now())): void {
    write(rig, (mirror) => restoreIn(mirror, at));
  }

  function restoreIn({ restores }: Mirror, at: string): void {
    const step = { n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null } as const;
    const start = { planHash: 'h', plan: '{"steps":[]}', from: 'run:1', approved: {}, startedAt: at };
    const number = restores.begin({ ...start, source: 'a', steps: [step] });
    const [row] = restores.steps(number);
    restores.journal([{ row: { ...row!, outcome: 'applied', status: 200, sentAt: at, endedAt: at } }]);
    restores.finish(number, 'complete', at);
  }

  it('is begun once by the daemon that works beside it, and not again where it fails', async () => {
    const rig = await Rig.create(YEARLY);
    await rig.start();
    expect(outcomes(rig, 'sync')).toEqual(['overdue done']);
    await rig.advanceMinutes(5);
    restore(rig);
    await rig.advanceMinutes(30);
    expect(outcomes(rig, 'sync')).toEqual(['overdue done', 'after_restore done']);
    const runs = rig.read((mirror) => mirror.runs.list({ source: 'a' }));
    expect(runs.map(starterText)).toEqual(['daemon, after a restore', 'schedule']);
    rig.service.quirks.push((_request, response) => {
      respond(response, 404, '{"detail":"no"}');
      return true;
    });
    restore(rig);
    await rig.advanceMinutes(30);
    const failed = ['overdue done', 'after_restore done', 'after_restore failed'];
    expect(outcomes(rig, 'sync')).toEqual(failed);
    await rig.daemon.stop();
    await rig.start();
    await rig.advanceMinutes(30);
    expect(outcomes(rig, 'sync')).toEqual(failed);
    // As where the clock was set back after it.
    restore(rig, isoTime(rig.clock.now() + 86_400_000));
    await rig.advanceMinutes(30);
    expect(outcomes(rig, 'sync')).toEqual([...failed, 'after_restore failed']);
  });

  it.each([true, false])(
    'is begun for one that was killed (while the daemon works: %s)',
    async (isBeside) => {
      const rig = await Rig.create(YEARLY);
      await rig.start();
      await rig.advanceMinutes(5);
      if (!isBeside) await rig.daemon.stop();
      const mirror = openMirror(rig.mirrorPath, { mode: 'write', command: 'restore', clock: rig.clock });
      try {
        const step = { n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null } as const;
        const at = isoTime(rig.clock.now());
        const start = { planHash: 'h', plan: '{"steps":[]}', from: 'run:1', approved: {}, startedAt: at };
        const number = mirror.restores.begin({ ...start, source: 'a', steps: [step] });
        const [row] = mirror.restores.steps(number);
        mirror.restores.journal([{ row: { ...row!, outcome: 'sent', attempts: 1, sentAt: at } }]);
        if (isBeside) await rig.advanceMinutes(3);
        // As long as its process works on it, none is begun.
        expect(outcomes(rig, 'sync')).toEqual(['overdue done']);
      } finally {
        mirror.close();
      }
      if (!isBeside) await rig.start();
      await rig.advanceMinutes(3);
      expect(outcomes(rig, 'sync')).toEqual(['overdue done', 'after_restore done']);
      await rig.advanceMinutes(30);
      expect(outcomes(rig, 'sync')).toHaveLength(2);
      expect(rig.read(({ restores }) => restores.list())).toMatchObject([
        { outcome: 'interrupted', finishedAt: null },
      ]);
    },
  );

  it('is begun although one of some kinds has read the source since', async () => {
    const rig = await Rig.create(YEARLY);
    await rig.start();
    await rig.advanceMinutes(5);
    restore(rig);
    rig.view.request('sync', ['a'], { kinds: ['roles'] });
    await rig.settle();
    expect(rig.read((mirror) => unreadRestores(mirror, 'a'))).toMatchObject([{ restore: 1, run: 1 }]);
    await rig.advanceMinutes(30);
    expect(outcomes(rig, 'sync')).toEqual(['overdue done', 'request done', 'after_restore done']);
    expect(rig.read((mirror) => unreadRestores(mirror, 'a'))).toEqual([]);
  });

  it.each([true, false])('comes before drift of the source is looked for (--once: %s)', async (isOnce) => {
    const rig = await revertedDrift();
    await rig.start({ isOnce });
    if (isOnce) await rig.daemon.done;
    expect(outcomes(rig, 'sync').slice(1)).toEqual(['schedule done', 'after_restore done']);
    expect(outcomes(rig)).toEqual(['after_run done']);
    expect(rig.jobs({ name: 'drift' })[0]?.summary).toMatchObject({ to: 3, open: 0 });
  });

  it('is waited for by drift of the source where it fails, but not by drift that somebody asks for', async () => {
    const rig = await revertedDrift();
    rig.service.quirks.push((_request, response) => respond(response, 404, '{"detail":"no"}'));
    for (let times = 0; times < 2; times += 1) {
      await rig.start({ isOnce: true });
      await rig.daemon.done;
    }
    expect(outcomes(rig, 'sync').slice(2)).toEqual(['after_restore failed']);
    expect(outcomes(rig)).toEqual([]);
    const said = rig.lines.filter(({ message }) => message.startsWith('drift is left out'));
    expect(said.at(-1)).toMatchObject({
      level: 'info',
      message:
        'drift is left out: restore 1 was applied after run 2: `tidemark sync` of all kinds reads what it changed',
      facts: { source: 'a' },
    });
    await rig.start();
    rig.view.request('drift', ['a']);
    await rig.settle();
    expect(outcomes(rig)).toEqual(['request done']);
  });

  it('is waited for by drift that was due while the restore held the mirror', async () => {
    const rig = await readDrift();
    rig.configure({ ...YEARLY, drift: '0 * * * *' });
    await rig.start();
    rig.service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    const mirror = openMirror(rig.mirrorPath, { mode: 'write', command: 'restore', clock: rig.clock });
    try {
      await rig.advanceMinutes(61);
      restoreIn(mirror, isoTime(rig.clock.now()));
    } finally {
      mirror.close();
    }
    await rig.advanceMinutes(5);
    expect(rig.lines.some(({ message }) => message.startsWith('drift is left out: restore 1'))).toBe(true);
    expect(outcomes(rig, 'sync').at(-1)).toBe('after_restore done');
    expect(outcomes(rig)).toEqual(['overdue done', 'after_run done']);
    expect(rig.jobs({ name: 'drift' })[1]?.summary).toMatchObject({ to: 3, open: 0 });
  });

  it('is waited for by drift that was at work when the restore was applied: nobody is told of what it found', async () => {
    const rig = await readDrift();
    rig.configure({ ...YEARLY, drift: '0 * * * *' });
    await rig.start();
    rig.service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    const { run } = DRIFT_JOB;
    const work = vi.spyOn(DRIFT_JOB, 'run').mockImplementationOnce(async (context) => {
      const found = await run(context);
      restore(rig);
      return found;
    });
    await rig.advanceMinutes(61);
    expect(work).toHaveBeenCalled();
    await rig.advanceMinutes(5);
    expect(outcomes(rig)).toEqual(['overdue done', 'schedule interrupted', 'after_run done']);
    const [, ...jobs] = rig.jobs({ name: 'drift' });
    expect(jobs.map(({ summary }) => summary)).toMatchObject([{}, { to: 3, open: 0 }]);
    expect(jobs[0]).toMatchObject({
      error: 'restore 1 was applied after run 2: `tidemark sync` of all kinds reads what it changed',
    });
  });

  /** Drift that a sync has read; no daemon runs. */
  async function readDrift(): Promise<Rig> {
    const rig = await Rig.create(HOURLY);
    const syncAs = async (domain: string): Promise<void> => {
      rig.service.set('domains', [{ id: 'd1', domain }]);
      await rig.advanceMinutes(60);
      await rig.start({ isOnce: true });
      await rig.daemon.done;
    };
    await syncAs('harbor.example');
    write(rig, (mirror) => {
      mirror.snapshots.pin('start', 1);
      mirror.snapshots.setBaseline('start');
    });
    await syncAs('quay.example');
    return rig;
  }

  /** Drift that a sync has read and a restore reverted; no daemon runs, and a drift job is due. */
  async function revertedDrift(): Promise<Rig> {
    const rig = await readDrift();
    rig.service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    await rig.advanceMinutes(1);
    restore(rig);
    rig.configure({ ...YEARLY, drift: '0 7 * * *' });
    const dueAt = isoTime(rig.clock.now() - 1);
    const due = { schedule: 'drift', cron: '0 7 * * *', zone: 'UTC', dueAt, skippedTicks: 0, missedTicks: 0 };
    write(rig, (mirror) => mirror.daemon.saveSchedule(due));
    return rig;
  }
});
