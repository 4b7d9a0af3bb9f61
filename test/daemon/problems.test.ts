/** What goes wrong around a daemon: told once when it begins and once when it ends, and gone on from without a restart. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { DriftNow } from '../../src/daemon/health/drift-now.ts';
import { createMetrics } from '../../src/daemon/http/metrics.ts';
import { fiveAnswers, verdictText } from '../../src/daemon/health/status-answers.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import type { JobObserver } from '../../src/daemon/jobs/observers.ts';
import { type DaemonLockfile, findDaemon, registerDaemon } from '../../src/daemon/lockfile.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { scratch } from '../journeys/harness.ts';
import { respond } from '../journeys/service.ts';
import { Rig } from './rig.ts';

const EVERY_TEN = { sync: '*/10 * * * *' };
const REFUSED = '{"type":"authentication_error","code":"authentication_failed","detail":"no"}';
const EVERY_TWO_HOURS = { sync: '0 */2 * * *' };

function outcomes(rig: Rig): string[] {
  return rig.jobs({ name: 'sync' }).map(({ trigger, outcome }) => `${trigger} ${outcome}`);
}

describe('the service', () => {
  it('down for a day: one line when it goes, one when it is back', async () => {
    const rig = await Rig.create(EVERY_TWO_HOURS);
    await rig.start();
    const down = { is: true };
    rig.service.quirks.push((_request, response) => down.is && respond(response, 503, '{"detail":"down"}'));
    await rig.advanceMinutes(24 * 60);
    expect(rig.loud()).toHaveLength(1);
    expect(rig.view.problems().map(({ about }) => about)).toEqual(['job:sync:a']);
    down.is = false;
    await rig.advanceMinutes(120);
    expect(rig.loud()).toHaveLength(1);
    expect(rig.lines.filter(({ message }) => message === 'sync is done again')).toHaveLength(1);
    expect(rig.view.problems()).toEqual([]);
    const jobs = rig.jobs({ name: 'sync' });
    // Two tries between the first ticks; later ones would come when the schedule does.
    const failed = jobs.filter(({ outcome }) => outcome === 'failed');
    expect(failed.filter(({ trigger }) => trigger === 'schedule')).toHaveLength(12);
    expect(failed.filter(({ trigger }) => trigger === 'overdue')).toHaveLength(2);
    expect(jobs.at(-1)?.outcome).toBe('done');
  });

  it('answers for one source while another has had no complete run: the sentence counts what needs a person', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
    const starting = { ...snapshot, health: { ...snapshot.health, state: 'starting' as const } };
    expect(verdictText(starting, null, 2)).toBe('2 things need you');
    expect(verdictText(starting, null, 0)).toBe('The first sync has not completed yet');
  });

  it('names the restore of each of several sources that the mirror does not have yet', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
    const [status] = snapshot.sourceStatuses;
    const restored = (source: string, restore: number, isApplied: boolean) => ({
      ...{ ...status!, source },
      unreadRestore: { restore, run: 4, outcome: 'complete' as const, isApplied, endedAt: null },
    });
    const drift = { open: 0, severities: { critical: 0, high: 0, medium: 0, low: 0 }, bySource: [] };
    const counts = { ...drift, run: null, at: null, uncompared: 0, unknown: null };
    const texts = (...sourceStatuses: (typeof status & object)[]) => {
      const own = { ...snapshot, sourceStatuses, health: { ...snapshot.health, state: 'ok' as const } };
      const found = fiveAnswers(own, counts).find(({ question }) => question === 'Drift');
      return [verdictText(own, null, 0), found?.line];
    };
    const sync = 'tidemark sync of all kinds reads what it changed';
    expect(texts(restored('a', 1, true))).toEqual([
      'The mirror does not have yet what restore 1 changed after run 4',
      `restore 1 was applied after run 4: ${sync}`,
    ]);
    expect(texts(restored('a', 1, true), restored('b', 2, false))).toEqual([
      'The mirror does not have yet what restore 1 of a changed after run 4, and what restore 2 of b may have changed after run 4',
      `restore 1 of a was applied after run 4: ${sync}; restore 2 of b was begun after run 4: ${sync}`,
    ]);
  });

  it('shows only a part: the line says which, how many and why', async () => {
    const rig = await Rig.create(EVERY_TEN);
    rig.service.quirks.push(
      ({ path }, response) =>
        /\/(roles|members|invites)\/$/.test(path) &&
        respond(response, 403, '{"detail":"no","code":"permission_denied"}'),
    );
    await rig.start();
    expect(rig.loud()).toEqual([
      expect.stringMatching(/^sync is partly done: 3 of \d+ collections did not complete$/),
    ]);
    expect(rig.lines.find(({ level }) => level === 'warn')?.facts).toMatchObject({
      causes: [
        expect.stringMatching(
          /^roles \(organization [\w-]+\), members \(.*\), invites \(.*\): denied: [^;]*$/,
        ),
      ],
      hint: 'give the key the permissions organization:read, organization_member:read, or exclude the kind in the configuration',
    });
    await rig.advanceMinutes(10);
    expect(rig.loud()).toHaveLength(1);
  });

  it('shows only a part: drift says how many collections it could not compare', async () => {
    const rig = await Rig.create({ ...EVERY_TEN, drift: '5-59/10 * * * *' });
    await (await rig.start()).stop();
    const mirror = openMirror(rig.mirrorPath, { mode: 'write', command: 'test', clock: rig.clock });
    mirror.snapshots.pin('start', 1);
    mirror.snapshots.setBaseline('start');
    mirror.close();
    await rig.start();
    rig.service.quirks.push(
      ({ path }, response) =>
        path.endsWith('/roles/') && respond(response, 403, '{"detail":"no","code":"permission_denied"}'),
    );
    await rig.advanceMinutes(20);
    expect(rig.loud()).toContainEqual(
      expect.stringMatching(/^drift is partly done: 1 collection not compared or not fresh$/),
    );
  });

  it('refuses the key until another one is put in its file', async () => {
    const rig = await Rig.create(EVERY_TEN);
    rig.service.quirks.push(
      ({ headers }, response) =>
        headers.authorization !== 'Bearer new-key' &&
        respond(
          response,
          401,
          '{"type":"authentication_error","code":"authentication_failed","detail":"no"}',
        ),
    );
    await rig.start();
    await rig.advanceMinutes(10);
    expect(outcomes(rig)).toEqual(['overdue refused', 'schedule refused']);
    expect(rig.view.problems()[0]?.error.code).toBe('unauthorized');
    writeFileSync(rig.keyFile, 'new-key');
    await rig.advanceMinutes(10);
    expect(outcomes(rig).at(-1)).toBe('schedule done');
    expect(rig.loud()).toHaveLength(1);
  });
});

describe('this machine', () => {
  it('a mirror held by another process: waits, says so once, goes on', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'restore', clock: rig.clock });
    await rig.advanceMinutes(25);
    expect(rig.loud().filter((line) => line.includes('waiting for it'))).toHaveLength(1);
    expect(rig.loud().filter((line) => line.includes('this due time is skipped'))).toHaveLength(1);
    other.close();
    await rig.advanceMinutes(1);
    expect(outcomes(rig)).toEqual(['overdue done', 'schedule done']);
    expect(rig.read((mirror) => mirror.daemon.schedules()[0]?.skippedTicks)).toBe(1);
    expect(rig.lines.at(-1)?.message).toBe('sync is done');
  });

  it('a full disk: the job fails without a row, and the next one is done', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    rig.onOpen = (mode) => {
      if (mode === 'write') throw new TidemarkError('disk_full', 'the disk is full', { hint: 'make room' });
    };
    await rig.advanceMinutes(20);
    expect(rig.loud()).toEqual(['sync failed: the disk is full']);
    expect(rig.view.problems().map(({ error }) => error.code)).toEqual(['disk_full']);
    rig.onOpen = () => undefined;
    await rig.advanceMinutes(10);
    expect(rig.view.problems()).toEqual([]);
    expect(outcomes(rig)).toEqual(['overdue done', 'schedule done']);
  });

  it.each([
    [
      'key_refused',
      (rig: Rig): void => void rig.service.quirks.push((_seen, response) => respond(response, 401, REFUSED)),
    ],
    [
      'run_failed',
      (rig: Rig): void => void rig.service.quirks.push((_seen, response) => respond(response, 400, '{}')),
    ],
    [
      'run_failed',
      (rig: Rig) => {
        rig.onOpen = (mode) => {
          if (mode === 'write')
            throw new TidemarkError('disk_full', 'the disk is full', { hint: 'make room' });
        };
      },
    ],
  ] as const)('%s is a reason of health since the first sync that failed so', async (code, fail) => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const since = (): string | null | undefined => {
      const [source] = readHealthSnapshot(rig.view, rig.clock.now()).health.sources;
      return source?.reasons.find((reason) => reason.code === code)?.since;
    };
    await rig.advanceMinutes(15);
    expect(since()).toBeUndefined();
    fail(rig);
    await rig.advanceMinutes(10);
    const first = since();
    expect(first).toEqual(expect.any(String));
    await rig.advanceMinutes(20);
    expect(since()).toBe(first);
  });

  it('a full disk that lets no job begin is a reason of health until one begins again', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const reasons = (): string[] => {
      const { health } = readHealthSnapshot(rig.view, rig.clock.now());
      return [...health.reasons, ...health.sources.flatMap((source) => source.reasons)].map(
        ({ code, message }) => `${code} ${message}`,
      );
    };
    const metrics = createMetrics(rig.daemon.cells, new DriftNow());
    onTestFinished(() => metrics.close());
    const jobOutcome = async (): Promise<string | undefined> =>
      /^tidemark_job_timestamp_seconds\{name="sync",source="a",outcome="(\w+)"\} /m.exec(
        await metrics.scrape(rig.clock.now()),
      )?.[1];
    const lastOutcome = async (): Promise<string | undefined> =>
      /^tidemark_last_run_outcome\{source="a",outcome="(\w+)"\} 1$/m.exec(
        await metrics.scrape(rig.clock.now()),
      )?.[1];
    expect(reasons()).toEqual([]);
    expect(await lastOutcome()).toBe('complete');
    rig.onOpen = (mode) => {
      if (mode === 'write') throw new TidemarkError('disk_full', 'the disk is full', { hint: 'make room' });
    };
    await rig.advanceMinutes(10);
    expect(reasons()).toEqual(['run_failed the last sync failed before its run began: the disk is full']);
    expect([await lastOutcome(), await jobOutcome()]).toEqual(['failed', 'failed']);
    rig.onOpen = () => undefined;
    await rig.advanceMinutes(10);
    expect(reasons()).toEqual([]);
    expect([await lastOutcome(), await jobOutcome()]).toEqual(['complete', 'done']);
  });

  describe('a full disk after a sync published its run', () => {
    /** The end of the first sync by schedule cannot be written down, and nothing after it. */
    async function unendedSync(): Promise<Rig> {
      const rig = await Rig.create(EVERY_TEN);
      await rig.start();
      let writes = 0;
      rig.onOpen = (mode) => {
        if (mode === 'write' && (writes += 1) > 2)
          throw new TidemarkError('disk_full', 'the disk is full', { hint: 'make room' });
      };
      await rig.advanceMinutes(10);
      expect(outcomes(rig)).toEqual(['overdue done', 'schedule running']);
      expect(rig.read((mirror) => mirror.runs.list({ source: 'a' }).map(({ outcome }) => outcome))).toEqual([
        'complete',
        'complete',
      ]);
      return rig;
    }

    it('the job has its end once there is room', async () => {
      const rig = await unendedSync();
      rig.onOpen = () => undefined;
      await rig.advanceMinutes(10);
      expect(outcomes(rig)).toEqual(['overdue done', 'schedule done', 'schedule done']);
      expect(rig.jobs().map(({ run }) => run)).toEqual([1, 2, 3]);
    });

    it('a daemon that starts then ends it as its run says', async () => {
      const rig = await unendedSync();
      await rig.daemon.stop();
      rig.onOpen = () => undefined;
      await rig.start();
      await rig.advanceMinutes(10);
      expect(outcomes(rig).slice(0, 2)).toEqual(['overdue done', 'schedule done']);
      expect(rig.jobs()[1]).toMatchObject({ run: 2, errorCode: null });
      expect(rig.lines.filter(({ message }) => message.includes('its process died'))).toEqual([]);
    });
  });

  it('a mirror that was deleted: told once, no new one is begun, and work goes on when it is back', async () => {
    const rig = await Rig.create({ sync: '0 * * * *', verify: '30 * * * *' });
    await rig.start();
    const health = () => readHealthSnapshot(rig.view, rig.clock.now()).health;
    await rig.view.mirror().backupTo(join(rig.directory, 'copy.db'));
    for (const end of ['', '-wal', '-shm', '-lock']) rmSync(`${rig.mirrorPath}${end}`, { force: true });
    await rig.advanceMinutes(180);
    expect(rig.loud()).toEqual([`the mirror is gone: ${rig.mirrorPath} is not there any more`]);
    // Each of the two jobs says once that it fails for it, not at each of the five further ticks.
    const failed = rig.lines.filter(({ message }) => /^(sync|verify) failed/.test(message));
    expect(failed.filter(({ level }) => level !== 'debug').map(({ message }) => message)).toEqual([
      expect.stringMatching(/^verify failed: /),
      expect.stringMatching(/^sync failed: /),
    ]);
    expect(existsSync(rig.mirrorPath)).toBe(false);
    expect(health()).toMatchObject({ state: 'failing', reasons: [{ code: 'mirror_unreadable' }] });
    expect(health().reasons[0]?.hint).toMatch(/restore a copy of the file/);
    renameSync(join(rig.directory, 'copy.db'), rig.mirrorPath);
    await rig.advanceMinutes(60);
    expect(rig.lines.filter(({ message }) => message === 'the mirror is there again')).toHaveLength(1);
    expect(outcomes(rig).at(-1)).toBe('schedule done');
    expect(rig.loud()).toHaveLength(1);
    expect(health()).toMatchObject({ state: 'ok', reasons: [] });
  });

  it('a mirror that is back: what failed without it counts no more, and a sync that was missed starts at once', async () => {
    const rig = await Rig.create({ sync: '0 * * * *', verify: '30 * * * *' });
    await rig.start();
    const away = join(rig.directory, 'copy.db');
    const health = () => readHealthSnapshot(rig.view, rig.clock.now()).health;
    const move = async (minutes: number): Promise<void> => {
      await rig.view.mirror().backupTo(away);
      for (const end of ['', '-wal', '-shm', '-lock']) rmSync(`${rig.mirrorPath}${end}`, { force: true });
      await rig.advanceMinutes(minutes);
      expect(health().state).toBe('failing');
      renameSync(away, rig.mirrorPath);
      await rig.advanceMinutes(2);
    };
    // From 10:01 to 10:34: only the verification falls into it.
    await move(33);
    expect(outcomes(rig)).toEqual(['overdue done']);
    expect(health()).toMatchObject({ state: 'ok', reasons: [] });
    // To 11:05: a sync does.
    await move(29);
    expect(outcomes(rig)).toEqual(['overdue done', 'overdue done']);
    expect(health()).toMatchObject({ state: 'ok', reasons: [] });
    await rig.advanceMinutes(10);
    expect(outcomes(rig)).toHaveLength(2);
  });

  it('a mirror that was emptied in its place: each job fails at once, no new one is begun, and work goes on', async () => {
    const rig = await Rig.create({ sync: '0 * * * *' });
    await rig.start();
    await rig.advanceMinutes(60);
    await rig.view.mirror().backupTo(join(rig.directory, 'copy.db'));
    truncateSync(rig.mirrorPath);
    for (const end of ['-wal', '-shm']) rmSync(`${rig.mirrorPath}${end}`, { force: true });
    await rig.advanceMinutes(120);
    expect(statSync(rig.mirrorPath).size).toBe(0);
    const said = rig.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message);
    expect(said).toContainEqual(
      `sync failed: the mirror was emptied: ${rig.mirrorPath} has no content any more`,
    );
    expect(said.filter((message) => message.includes('waiting for it'))).toEqual([]);
    expect(readHealthSnapshot(rig.view, rig.clock.now()).health).toMatchObject({ state: 'failing' });
    renameSync(join(rig.directory, 'copy.db'), rig.mirrorPath);
    await rig.advanceMinutes(60);
    expect(outcomes(rig).at(-1)).toBe('schedule done');
  });

  it('a volume that was away and came back: the daemon is found on it again, and keeps others off', async () => {
    const rig = await Rig.create({ sync: '0 * * * *' });
    await rig.start();
    const found = (): DaemonLockfile | null =>
      findDaemon(rig.mirrorPath, { pid: 1, host: 'here', now: rig.clock.now() });
    const first = found();
    const [home, name, away] = [dirname(rig.mirrorPath), basename(rig.mirrorPath), scratch()];
    const files = readdirSync(home).filter((file) => file.startsWith(name));
    expect(files).toContain(`${name}.daemon-lock`);
    for (const file of files) renameSync(join(home, file), join(away, file));
    await rig.advanceMinutes(2);
    // What the daemon wrote in the empty place is hidden below the volume.
    expect(found()).toMatchObject({ pid: process.pid });
    for (const file of files) renameSync(join(away, file), join(home, file));
    expect(found()).toBeNull();
    await rig.advanceMinutes(2);
    expect(found()?.token.reveal()).toBe(first?.token.reveal());
    const refused = expect(rig.start()).rejects.toThrow(/another daemon is running on this mirror/);
    await rig.advance(1000);
    await refused;
    expect(rig.view.problems()).toEqual([]);
  });

  it('a directory that was moved away is not made again, and all goes on when it is back', async () => {
    const rig = await Rig.create({ sync: '0 * * * *' });
    const home = join(rig.directory, 'data');
    const mirror = join(home, 'mirror.db');
    writeFileSync(rig.configFile, readFileSync(rig.configFile, 'utf8').replace(rig.mirrorPath, mirror));
    await rig.start();
    expect(existsSync(mirror)).toBe(true);
    renameSync(home, `${home}.gone`);
    await rig.advanceMinutes(130);
    expect(existsSync(home)).toBe(false);
    expect(rig.loud()).toEqual([`the mirror is gone: ${mirror} is not there any more`]);
    renameSync(`${home}.gone`, home);
    await rig.advanceMinutes(60);
    expect(rig.view.problems()).toEqual([]);
    expect(findDaemon(mirror, { pid: 1, host: 'here', now: rig.clock.now() })).toMatchObject({
      pid: process.pid,
    });
    expect(rig.view.mirror().daemon.jobs({ name: 'sync', limit: 1 })[0]).toMatchObject({ outcome: 'done' });
  });

  it('a volume that came back with another daemon on it: that one keeps it', async () => {
    const rig = await Rig.create({ sync: '0 * * * *' });
    await rig.start();
    const [card, lock] = [`${rig.mirrorPath}.daemon`, `${rig.mirrorPath}.daemon-lock`];
    for (const file of [card, lock]) rmSync(file);
    const other = await registerDaemon(rig.mirrorPath, { clock: systemClock, pid: 4711, host: 'there' });
    await rig.advanceMinutes(2);
    expect(JSON.parse(readFileSync(card, 'utf8'))).toMatchObject({ pid: 4711, host: 'there' });
    expect(rig.view.problems().map(({ about, error }) => [about, error.code])).toEqual([
      ['registration', 'mirror_locked'],
    ]);
    other.leave();
    other.release();
    await rig.advanceMinutes(2);
    expect(JSON.parse(readFileSync(card, 'utf8'))).toMatchObject({ pid: process.pid, host: 'here' });
    expect(rig.view.problems()).toEqual([]);
  });

  it('a mirror that goes away while a sync that ended is reported: one line', async () => {
    const rig = await Rig.create(EVERY_TEN);
    let told = 0;
    const observer: JobObserver = {
      name: 'test',
      ended: async (_job, { mirrorAccess }) => {
        rmSync(rig.mirrorPath, { force: true });
        told += 1;
        await Promise.resolve(mirrorAccess.reader());
      },
    };
    await rig.start({ observers: [observer] });
    expect(told).toBe(1);
    expect(rig.loud()).toEqual([`the mirror is gone: ${rig.mirrorPath} is not there any more`]);
  });

  it('a mirror that is not there at the start: a new one is begun, with a line', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const begun = rig.lines.filter(({ message }) =>
      message.startsWith('there is no mirror: a new one is created'),
    );
    expect(begun).toHaveLength(1);
    await rig.advanceMinutes(30);
    expect(rig.lines.filter(({ message }) => message.startsWith('there is no mirror'))).toHaveLength(1);
  });

  it('a configuration that is wrong: the old one stays, until it is right again', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    writeFileSync(rig.configFile, 'sources: 7\n');
    await rig.advanceMinutes(30);
    expect(rig.view.configProblem()?.code).toBe('config_invalid');
    expect(rig.loud()).toHaveLength(1);
    expect(rig.loud()[0]).toMatch(/the old configuration stays active/);
    expect(outcomes(rig)).toHaveLength(4);
    rig.configure({ sync: '5 * * * *' });
    rig.daemon.reload();
    await rig.settle();
    expect(rig.view.configProblem()).toBeNull();
    expect(rig.view.schedules()[0]?.dueAt).toBe('2026-03-02T11:05:00.000Z');
  });

  it('a configuration that is wrong in one way after another: each is reported, and each time that somebody asks', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    const refuse = (text: string): void => {
      writeFileSync(rig.configFile, text);
      rig.daemon.reload();
    };
    refuse('sources: 7\n');
    refuse('sauces: []\n');
    refuse('sources: 7\n');
    rig.daemon.reload();
    expect(rig.loud()).toHaveLength(4);
    expect(rig.loud()[1]).toMatch(/^the old configuration stays active: .*sauces/);
    expect(rig.loud()[3]).toBe(rig.loud()[0]);
    expect(rig.loud().join('\n')).not.toContain(':;');
    await rig.advanceMinutes(20);
    expect(rig.loud()).toHaveLength(4);
    writeFileSync(rig.configFile, 'sauces: []\n');
    await rig.advanceMinutes(20);
    expect(rig.loud().slice(4)).toEqual([rig.loud()[1]]);
  });

  it('a clock that steps back by hours: no storm, no silence', async () => {
    const rig = await Rig.create(EVERY_TEN);
    await rig.start();
    await rig.advanceMinutes(30);
    expect(rig.loud()).toEqual([]);
    rig.clock.stepWall(-3 * 60 * 60_000);
    await rig.advanceMinutes(30);
    expect(rig.loud()).toEqual(['the clock was set back by 3 h; schedules use the new time']);
    expect(outcomes(rig)).toHaveLength(1 + 3 + 3);
    rig.clock.stepWall(5 * 60 * 60_000);
    await rig.advanceMinutes(30);
    expect(rig.loud().filter((line) => line.startsWith('the clock went forward by 5 h'))).toHaveLength(1);
    expect(outcomes(rig).filter((each) => each.startsWith('overdue'))).toHaveLength(2);
    expect(outcomes(rig).length).toBeLessThanOrEqual(1 + 3 + 3 + 4);
  });

  it('a port that is taken: told once, tried again every minute, and found when it is free', async () => {
    const rig = await Rig.create(EVERY_TEN);
    const taken = { is: true, tries: 0 };
    await rig.start({
      startHttp: () => {
        taken.tries += 1;
        if (taken.is) throw new TidemarkError('port_in_use', 'port 8787 is taken');
        return Promise.resolve({ url: 'http://127.0.0.1:8787', close: () => Promise.resolve() });
      },
    });
    await rig.advanceMinutes(20);
    expect(rig.loud()).toEqual(['port 8787 is taken']);
    expect(taken.tries).toBeGreaterThan(15);
    expect(rig.view.problems().map(({ about }) => about)).toEqual(['http']);
    expect(outcomes(rig)).toEqual(['overdue done', 'schedule done', 'schedule done']);
    taken.is = false;
    await rig.advanceMinutes(1);
    expect(rig.lines.filter(({ message }) => message === 'HTTP is available again')).toHaveLength(1);
    expect(JSON.parse(readFileSync(`${rig.mirrorPath}.daemon`, 'utf8'))).toMatchObject({
      url: 'http://127.0.0.1:8787',
    });
    expect(rig.view.problems()).toEqual([]);
  });

  it('a registration that cannot be written as the daemon stops, as on a full disk: it stops as usual, and leaves nothing half written', async () => {
    const rig = await Rig.create(EVERY_TEN);
    let isClosed = false;
    const close = (): Promise<void> => {
      isClosed = true;
      return Promise.resolve();
    };
    await rig.start({ startHttp: () => Promise.resolve({ url: 'http://127.0.0.1:8787', close }) });
    const card = `${rig.mirrorPath}.daemon`;
    rmSync(card);
    // What cannot be replaced by a file.
    mkdirSync(card);
    await rig.daemon.stop();
    expect(await rig.daemon.done).toBe(0);
    expect(isClosed).toBe(true);
    expect(rig.lines.at(-1)?.message).toBe('daemon stopped');
    expect(readdirSync(rig.directory).filter((name) => name.includes('.daemon.'))).toEqual([]);
  });
});
