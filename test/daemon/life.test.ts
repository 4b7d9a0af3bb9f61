/** A daemon's beginning and end: what is made up for, what is cut short, what is left behind. */
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { commandActor } from '../../src/core/actor.ts';
import type { EndedJob, JobObserver } from '../../src/daemon/jobs/observers.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { silentEvents } from '../../src/sync/events.ts';
import { syncSource } from '../../src/sync/run.ts';
import { respond } from '../journeys/service.ts';
import { Rig } from './rig.ts';

const HOURLY = { sync: '0 * * * *' };

function outcomes(rig: Rig): string[] {
  return rig.jobs().map(({ name, trigger, outcome }) => `${name} ${trigger} ${outcome}`);
}

/** As `tidemark sync` of another process does, which holds the mirror. */
async function syncByHand(rig: Rig, mirror: Mirror): Promise<void> {
  const effects = rig.effects();
  const config = onlyMirrorConfig(effects.loadConfig());
  const [source] = config.sources;
  if (source === undefined) throw new Error('no source');
  const client = await effects.openReadClient(source, effects.log, config.rateLogBeside);
  const { clock, log } = effects;
  await syncSource({
    ...{ mirror, source, client, clock, log, events: silentEvents },
    ...{
      signal: new AbortController().signal,
      trigger: 'command',
      kinds: null,
      isFull: false,
      acceptRemovals: 0,
    },
  });
  await client.close();
}

/** The service takes three seconds for its first answer. */
function holdFirstAnswer(rig: Rig): void {
  rig.service.quirks.push((_request, response) => {
    if (rig.service.seen.length !== 1) return false;
    rig.heldAnswers = 1;
    void rig.clock.sleep(3_000).then(() => {
      rig.heldAnswers = 0;
      respond(response, 200, '{"count":0,"next":null,"previous":null,"results":[]}');
    });
    return true;
  });
}

describe('the beginning', () => {
  it('syncs at once where nothing was ever mirrored, and is found by its file', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    expect(outcomes(rig)).toEqual(['sync overdue done']);
    const path = `${rig.mirrorPath}.daemon`;
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
      pid: process.pid,
      host: 'here',
      url: null,
    });
    const stopped = rig.daemon.stop();
    await stopped;
    expect(await rig.daemon.done).toBe(0);
    expect(existsSync(path)).toBe(false);
  });

  it('makes up for what was missed while down, once', async () => {
    const rig = await Rig.create(HOURLY);
    const first = await rig.start();
    await first.stop();
    await rig.advanceMinutes(200);
    await rig.start();
    expect(outcomes(rig)).toEqual(['sync overdue done', 'sync overdue done']);
    expect(rig.read((mirror) => mirror.daemon.schedules())).toMatchObject([
      { schedule: 'sync', missedTicks: 3, dueAt: '2026-03-02T14:00:00.000Z' },
    ]);
  });

  it('starts what died with its process once more, and what died twice no more', async () => {
    const rig = await Rig.create(HOURLY);
    await (await rig.start()).stop();
    const die = (trigger: 'schedule' | 'overdue'): void => {
      const mirror = openMirror(rig.mirrorPath, { mode: 'write', command: 'test', clock: rig.clock });
      mirror.daemon.beginJob({ name: 'sync', source: 'a', trigger, startedAt: '2026-03-02T10:00:00.000Z' });
      mirror.close();
    };
    die('schedule');
    await (await rig.start()).stop();
    expect(outcomes(rig).slice(1)).toEqual(['sync schedule interrupted', 'sync overdue done']);
    die('overdue');
    await rig.start();
    await rig.advanceMinutes(5);
    expect(rig.jobs()).toHaveLength(4);
  });

  it('leaves the mirror to another daemon that lives', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    const second = rig.start();
    const refused = expect(second).rejects.toThrow(
      /another daemon is running on this mirror \(pid \d+ on here\)/,
    );
    await rig.advance(1000);
    await refused;
  });
});

describe('the end', () => {
  it('comes within the grace during a long Retry-After, and the work starts again next time', async () => {
    const rig = await Rig.create(HOURLY);
    const isBusy = { is: true };
    rig.service.quirks.push(
      (_request, response) =>
        isBusy.is && respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '240' }),
    );
    await rig.start();
    expect(rig.view.running()).toMatchObject([{ name: 'sync', source: 'a', trigger: 'overdue' }]);
    const stopped = rig.daemon.stop();
    await rig.advance(10_000);
    await stopped;
    expect(outcomes(rig)).toEqual(['sync overdue interrupted']);
    isBusy.is = false;
    await rig.start();
    expect(outcomes(rig)).toEqual(['sync overdue interrupted', 'sync overdue done']);
    expect(rig.loud()).toEqual([expect.stringContaining('the service asks for fewer requests')]);
  });

  it('lets work end that ends soon', async () => {
    const rig = await Rig.create(HOURLY);
    holdFirstAnswer(rig);
    await rig.start();
    const stopped = rig.daemon.stop();
    await rig.advance(4_000);
    await stopped;
    expect(rig.jobs()[0]?.outcome).not.toBe('interrupted');
  });
});

describe('what is due, once', () => {
  it('is done, and then nothing is left to do', async () => {
    const rig = await Rig.create({ sync: '0 * * * *', verify: '0 3 * * *' });
    await rig.start({ isOnce: true });
    expect(await rig.daemon.done).toBe(0);
    await rig.start({ isOnce: true });
    expect(await rig.daemon.done).toBe(0);
    expect(outcomes(rig)).toEqual(['sync schedule done']);
    await rig.advanceMinutes(60);
    await rig.start({ isOnce: true });
    await rig.daemon.done;
    expect(outcomes(rig)).toEqual(['sync schedule done', 'sync schedule done']);
  });

  it.each([true, false])(
    'is not synced again after a sync by hand that it waited for (complete: %s)',
    async (isComplete) => {
      const rig = await Rig.create(HOURLY);
      const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
      const replaced: string[] = [];
      const observer: JobObserver = {
        name: 'test',
        replaced: (source) => Promise.resolve(void replaced.push(source)),
      };
      const ended = rig.start({ isOnce: true, observers: [observer] });
      await rig.advance(20_000);
      let isDenied = !isComplete;
      rig.service.quirks.push(
        ({ path }, response) => isDenied && path.endsWith('/roles/') && respond(response, 403, '{}'),
      );
      await syncByHand(rig, other);
      other.close();
      isDenied = false;
      await rig.advanceMinutes(1);
      expect(await (await ended).done).toBe(0);
      expect(outcomes(rig)).toEqual(isComplete ? [] : ['sync schedule done']);
      // A monitor is to hear of a sync even so.
      expect(replaced).toEqual(isComplete ? ['a'] : []);
      // The tick is served: the next one comes in its time.
      await rig.start({ isOnce: true });
      await rig.daemon.done;
      expect(outcomes(rig)).toHaveLength(isComplete ? 0 : 1);
    },
  );

  it('says what is unusual in the configuration, but not where it is to be quiet', async () => {
    const rig = await Rig.create(HOURLY);
    chmodSync(rig.keyFile, 0o644);
    await rig.start({ isOnce: true, isQuiet: true });
    expect(await rig.daemon.done).toBe(0);
    expect(rig.loud()).toEqual([]);
    await rig.start({ isOnce: true });
    await rig.daemon.done;
    expect(rig.loud()).toEqual([expect.stringContaining('can be read by every user of this machine')]);
  });

  it('asks the observers of jobs a last time, when nothing was due too', async () => {
    const rig = await Rig.create(HOURLY);
    const heard: string[] = [];
    const observer: JobObserver = {
      name: 'attentive',
      ended: ({ row }) => Promise.resolve(void heard.push(`${row.name} ended`)),
      finish: ({ mirrorAccess }) =>
        Promise.resolve(void heard.push(mirrorAccess.isThere() ? 'last' : 'no mirror')),
    };
    for (let times = 0; times < 2; times += 1) {
      await rig.start({ isOnce: true, observers: [observer] });
      await rig.daemon.done;
    }
    expect(heard).toEqual(['sync ended', 'last', 'last']);
  });

  it('ends with the worst of it', async () => {
    const rig = await Rig.create(HOURLY);
    rig.service.quirks.push(({ path }, response) => path.endsWith('/roles/') && respond(response, 500, '{}'));
    const ended = rig.start({ isOnce: true });
    await rig.advanceMinutes(20);
    expect(await (await ended).done).toBe(3);
  });
});

describe('an observer of jobs', () => {
  it('hears of each once, and disturbs nothing by failing', async () => {
    const rig = await Rig.create(HOURLY);
    const heard: string[] = [];
    const note = (what: string, { row, report }: EndedJob): void =>
      void heard.push(`${what} ${row.job} ${row.outcome} ${report?.outcome ?? ''}`);
    const wakes: number[] = [];
    let wakeAt: number | null = rig.clock.now() + 90_000;
    const attentive: JobObserver = {
      name: 'attentive',
      began: ({ row: { job } }) => Promise.resolve(void heard.push(`began ${job}`)),
      recorded: (ended, mirror) => {
        note(mirror.mode, ended);
      },
      ended: (ended) => {
        note('ended', ended);
        return Promise.resolve();
      },
      wakeAt: () => wakeAt,
      wake: () => {
        wakes.push(rig.clock.now());
        wakeAt = null;
        return Promise.resolve();
      },
    };
    const failing: JobObserver = {
      name: 'failing',
      began: () => Promise.reject(new Error('no')),
      recorded: () => {
        throw new Error('not at all');
      },
      ended: () => Promise.reject(new Error('never')),
    };
    const from = rig.clock.now();
    await rig.start({ observers: [failing, attentive] });
    await rig.advanceMinutes(5);
    expect(heard).toEqual(['began 1', 'write 1 done complete', 'ended 1 done complete']);
    expect(wakes).toEqual([from + 90_000]);
    expect(outcomes(rig)).toEqual(['sync overdue done']);
    expect(rig.loud().sort()).toEqual(['never', 'no', 'not at all']);
    // The next job fails in the same way: no warning of its own.
    await rig.advanceMinutes(60);
    expect(heard.length).toBeGreaterThan(3);
    expect(rig.loud().sort()).toEqual(['never', 'no', 'not at all']);
  });
});

describe('what is asked for', () => {
  it('waits once where it is the same, by itself where it is not, and is refused for a source that there is not', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    const { view } = rig;
    expect(() => view.request('sync', ['b'])).toThrow(/there is no source b/);
    view.request('verify', null);
    const [first] = view.request('sync', null, { kinds: ['roles', 'domains'] });
    const [same] = view.request('sync', ['a'], { kinds: ['domains', 'roles'] });
    const [other] = view.request('sync', ['a'], { kinds: ['domains'] });
    const [full] = view.request('sync', ['a'], { kinds: ['domains'], full: true });
    expect(first).toMatchObject({ name: 'sync', source: 'a' });
    expect(same).toEqual(first);
    expect(new Set([first?.request, other?.request, full?.request]).size).toBe(3);
    expect(view.queued()).toEqual(
      Array.from({ length: 3 }, () => ({ name: 'sync', source: 'a', trigger: 'request' })),
    );
    const standing = (): unknown[] => [first, other, full].map((each) => view.requested(each?.request ?? 0));
    expect(standing()).toMatchObject([
      { state: 'waiting', before: [{ name: 'verify' }] },
      { state: 'waiting', before: [{ name: 'verify' }, { name: 'sync' }] },
      { state: 'waiting', before: [{ name: 'verify' }, { name: 'sync' }, { name: 'sync' }] },
    ]);
    expect(view.requested(99)).toBeNull();
    await rig.settle();
    expect(outcomes(rig)).toEqual([
      'sync overdue done',
      'verify request done',
      ...Array.from({ length: 3 }, () => 'sync request done'),
    ]);
    expect(standing()).toMatchObject([3, 4, 5].map((job) => ({ state: 'ended', job, error: null })));
    const kinds = (run: number): string[] =>
      rig.read((mirror) => mirror.runs.sweeps(run).map(({ kind }) => kind));
    expect(kinds(2)).toEqual(expect.arrayContaining(['roles', 'domains']));
    expect(kinds(2)).not.toContain('members');
    expect(kinds(3)).not.toContain('roles');
  });

  it('is recorded with who asked, and how that is known', async () => {
    const rig = await Rig.create({ ...HOURLY, forget: '30 * * * *' }, 'retention: { keepLast: 1 }');
    await rig.start();
    const actor = { by: commandActor().by, via: 'token@http' };
    for (const name of ['sync', 'sync', 'forget'] as const) {
      rig.view.request(name, null, { actor });
      await rig.settle();
    }
    await rig.advanceMinutes(90);
    expect(rig.read((mirror) => [...mirror.auditLog()].toReversed())).toMatchObject([
      { action: 'forget', ...actor },
      { action: 'forget', by: 'schedule@daemon', via: 'schedule@daemon' },
    ]);
  });

  it('is recorded as a request, with its run, also where the schedule had queued the same', async () => {
    const rig = await Rig.create(HOURLY);
    const text = readFileSync(rig.configFile, 'utf8');
    const [row = ''] = / {2}- name: a\n(?: {4}.*\n)*/.exec(text) ?? [];
    writeFileSync(rig.configFile, text.replace(row, `${row}${row.replace('name: a', 'name: b')}`));
    holdFirstAnswer(rig);
    await rig.start();
    expect(rig.view.queued()).toEqual([{ name: 'sync', source: 'b', trigger: 'overdue' }]);
    rig.view.request('sync', ['b'], { actor: { by: 'ann', via: 'token@http' }, ignoresPause: true });
    await rig.advance(3_000);
    expect(outcomes(rig)).toEqual(['sync overdue done', 'sync request of ann (token@http) done']);
    expect(rig.read((mirror) => mirror.runs.latest('b'))).toMatchObject({
      trigger: 'request of ann (token@http)',
    });
  });

  it('is logged with who joins one that waits already', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    rig.view.request('verify', null);
    const ask = (by: string, via: string) => rig.view.request('sync', null, { actor: { by, via } })[0];
    const [first, same, other] = [ask('ann', 'token@http'), ask('ann', 'token@http'), ask('ann', 'root@vm')];
    expect([same?.request, other?.request]).toEqual([first?.request, first?.request]);
    const joined = rig.lines.filter(({ message }) => message.includes('joined'));
    expect(joined).toMatchObject([
      { message: 'sync that waits was joined', facts: { source: 'a', by: 'ann', via: 'root@vm' } },
    ]);
    await rig.settle();
    const [job] = rig.jobs().filter(({ trigger }) => trigger.startsWith('request of'));
    expect(job?.trigger).toBe('request of ann (token@http)');
  });

  it('has an end: who asks in a loop is refused, and what waits already is joined all the same', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    const { view } = rig;
    // Every choice of seven kinds is another request.
    const some = KINDS.slice(0, 7);
    const choices = Array.from({ length: 127 }, (_, n) => some.filter((_kind, bit) => ((n + 1) >> bit) & 1));
    // The first one is at work at once.
    for (const kinds of choices.slice(0, 102)) view.request('sync', null, { kinds });
    expect(view.queued()).toHaveLength(101);
    const tooMuch = () => view.request('sync', null, { kinds: choices[102]! });
    expect(tooMuch).toThrow(
      expect.objectContaining({ code: 'throttled', hint: expect.any(String) as string }),
    );
    expect(view.queued()).toHaveLength(101);
    expect(view.request('sync', ['a'], { kinds: choices[7]! })).toHaveLength(1);
    expect(view.queued()).toHaveLength(101);
  });

  it('that could not begin says why', async () => {
    const rig = await Rig.create(HOURLY);
    await rig.start();
    await rig.settle();
    const [asked] = rig.view.request('sync', null);
    const stopped = rig.daemon.stop();
    expect(() => rig.view.request('sync', null)).toThrow(/is stopping/);
    await stopped;
    expect(asked?.request).toBeGreaterThan(0);
  });
});
