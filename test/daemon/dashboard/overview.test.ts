/** The first page, as text: what it says in words that a picture would not give away. */
import { mkdtempSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { isoTime } from '../../../src/core/clock.ts';
import { backupName, manifestName } from '../../../src/backup/name.ts';
import { type BackupManifest, MANIFEST_SCHEMA, manifestText } from '../../../src/backup/manifest.ts';
import { mirrorId } from '../../../src/backup/plain-backup.ts';
import { columnChart } from '../../../src/daemon/dashboard/charts.ts';
import { BackupCatalog } from '../../../src/backup/known-backups.ts';
import type { TargetConfig } from '../../../src/config/config.ts';
import { ahead } from '../../../src/daemon/http/wording.ts';
import { overwriteTable } from '../../mirror/overwrite-table.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { DAY_MS, HeldClock, MINUTE_MS, NARROW_KEY, World } from '../http/world.ts';
import { smallDemo } from '../../server/small-demo.ts';

const ends: (() => Promise<void>)[] = [];
let directory: string;
let world: World;
let url: string;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  directory = mkdtempSync(join(tmpdir(), 'tidemark-backup-'));
  world = await World.create(
    { TIDEMARK_KINDS_INCLUDE: 'organizations,domains', TIDEMARK_BACKUP_TARGETS: directory },
    later,
    smallDemo,
  );
  const run = await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', run);
    mirror.snapshots.setBaseline('as-approved');
  });
  ({ url } = await world.listen({}, later));
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
  rmSync(directory, { recursive: true, force: true });
});

/** The page without its marks. */
async function words(at = url): Promise<string> {
  const html = await (await fetch(`${at}/`, { headers: { accept: 'text/html' } })).text();
  return html
    .replace(/<style>.*?<\/style>|<script>.*?<\/script>/gs, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
}

function writeBackup(madeAt: number, more: Partial<BackupManifest> = {}, into = directory): void {
  const file = backupName(madeAt, 1, false);
  const manifest: BackupManifest = {
    schema: MANIFEST_SCHEMA,
    file,
    made_at: isoTime(madeAt),
    audit_log: null,
    mirror: mirrorId(world.mirror()),
    run: 1,
    root: world.mirror().runs.get(1)?.root ?? '',
    sources: [],
    bytes: 2300,
    sha256: '0'.repeat(64),
    plain_bytes: 1,
    plain_sha256: '0'.repeat(64),
    compression: 'zstd',
    encryption: null,
    checked: { records: 1, revisions: 1, runs: 1 },
    versions: { tidemark: '0.0.0', schema: 1, schema_digest: '' },
    ...more,
  };
  writeFileSync(join(into, file), 'x'.repeat(2300));
  writeFileSync(join(into, manifestName(file)), manifestText(manifest));
}

describe('the overview', () => {
  it('says that drift is compared after syncs too', async () => {
    const [sync, drift] = world.schedulesShown;
    const daily = { ...drift!, dueAt: isoTime(world.clock.at + 12 * 60 * MINUTE_MS) };
    world.schedulesShown = [sync!, daily];
    expect(await words()).toContain('drift after each sync with changes and in 12 h');
    world.schedulesShown = [daily];
    expect(await words()).toContain('drift in 12 h');
    world.schedulesShown = [sync!, drift!];
  });

  it('names lists that could not be read as failed, and not as read', async () => {
    const of = (kind: 'organizations' | 'roles' | 'domains' | 'members', failed: number, pending = 0) =>
      ({ kind, records: 3, expected: 9, lists: 2, failed, pending }) as const;
    const kinds = [of('organizations', 2), of('roles', 1), of('members', 1, 3), of('domains', 0)];
    const progress = { requests: 7, waitingUntil: null, records: 12, pages: 2, isLocal: false, kinds };
    const [name, trigger, source, startedAt] = [
      'sync',
      'schedule',
      'default',
      isoTime(world.clock.at),
    ] as const;
    const pausedUntil = world.clock.at + 60_000;
    world.runningShown = [{ job: 99, name, source, trigger, startedAt, progress, pausedUntil }];
    const shown = await words();
    const until = isoTime(pausedUntil).slice(11, 19);
    expect(shown).toMatch(
      new RegExp(`started just now ?; it waits until ${until}Z: the service asked for it \\(429 or 503\\)`),
    );
    const html = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text();
    world.runningShown = [];
    expect(shown).toMatch(/Organizations failed 3 of 9 failed Roles failed 3 of 9 1 of 2 lists failed /);
    expect(shown).toMatch(/ Members failed 3 of 9 2 of 5 lists, 1 failed Domains 3 read /);
    expect(html.match(/<progress [^>]*>/g)?.map((bar) => /value=.*/.exec(bar)?.[0])).toEqual([
      ...Array.from({ length: 3 }, () => 'value="3" max="9">'),
      'value="1" max="1">',
    ]);
  });

  it('says what comes as what comes', async () => {
    const [schedule] = world.schedulesShown;
    world.schedulesShown = [{ ...schedule!, dueAt: isoTime(world.clock.at + 2000) }];
    expect(await words()).toContain('next sync due now.');
    world.schedulesShown = [{ ...schedule!, dueAt: isoTime(world.clock.at - MINUTE_MS) }];
    expect(await words()).toContain('next sync due now.');
    world.schedulesShown = [{ ...schedule!, dueAt: isoTime(world.clock.at + 5 * MINUTE_MS) }];
    expect(await words()).toContain('next sync in 5 min.');
    expect(ahead(isoTime(world.clock.at), world.clock.at)).toBe('due now');
  });

  it.each([
    [0.178, 'bad', '17.8 %'],
    [0.799, 'bad', '79.9 %'],
    [0.8, 'warn', '80 %'],
    [0.95, 'good', '95 %'],
    [1, 'good', 'All of it'],
    [0.998, 'good', '99.8 %'],
  ])('a drill that brings %d back is %s', async (score, tone, word) => {
    const drill = { outcome: 'short', from: 1, kinds: [], tasks: 3, seconds: 4.2 } as const;
    world.job('drill', { ...drill, score });
    const html = await (await fetch(`${url}/`)).text();
    expect(html).toContain(`<li class="${tone}"><h2><a href="/drill">Restorable</a></h2><div><b>${word}</b>`);
    const [, verdict] = /<h1 class="is-(.*?)<\/h1>/.exec(html) ?? [];
    expect(verdict?.includes(`the last drill restored ${word}`)).toBe(tone === 'bad');
    expect(verdict?.startsWith('ok')).toBe(tone !== 'bad');
  });

  it('names a restore that was interrupted, with what to do next', async () => {
    world.write((mirror) => {
      const [source = ''] = mirror.runs.sources();
      const restore = { source, planHash: 'abc', plan: '{}', from: 'latest', approved: {}, steps: [] };
      mirror.restores.begin({ ...restore, startedAt: isoTime(world.clock.at - 5 * MINUTE_MS) });
    });
    expect(await words()).toMatch(
      /Needs you.* restore 1 was interrupted , 5 min ago.* tidemark restores show 1 lists what was done; tidemark restore --resume 1 continues it/,
    );
    world.write((mirror) => mirror.restores.finish(1, 'complete', isoTime(world.clock.at)));
    expect(await words()).not.toContain('was interrupted');
  });

  it('the state of a kind stands beside its name, where a phone still shows it', async () => {
    expect(await words()).toMatch(/Kind State Records As of Organizations complete 2 /);
  });

  it('tells of the latest backup of this mirror, and when the next one is due', async () => {
    expect(await words()).toContain('Backups None yet. The first one is made after a complete run');
    const shown = async (): Promise<string> => {
      world.clock.passedMs += 60_000;
      return / Backups (Latest .*?) As of/.exec(await words())?.[1]?.trim() ?? '';
    };
    writeBackup(world.clock.at - 60 * MINUTE_MS);
    writeBackup(world.clock.at - 30 * MINUTE_MS, { mirror: 'another' });
    writeBackup(world.clock.at - 2 * DAY_MS, { bytes: 17 });
    expect(await shown()).toBe(
      'Latest 60 min ago , as of run 1 Size 2.3 kB Verified when it was made : opened, 1 record and every hash checked; tidemark backup verify reads it again Next in 23 h , after a complete run Kept 1 backup, 1 more is incomplete ' +
        `Same disk : ${directory} is on the disk of the mirror: if that disk fails, backups there are lost too ` +
        'there are also backups made by another mirror, the latest of 2026-03-01T06:30:00.000Z: tidemark backup list names them',
    );
    world.clock.at += DAY_MS;
    expect(await shown()).toContain('Next after the next complete run');
    world.clock.at -= DAY_MS;
  });

  it('names a backup that is not in the chain of the mirror, as the health does', async () => {
    const at = world.clock.at - 3 * DAY_MS;
    writeBackup(at, { root: '0'.repeat(64) });
    world.clock.passedMs += 60_000;
    const name = backupName(at, 1, false);
    expect(await words()).toContain(
      `Not in the chain : 1 backup (${name}) is not in the chain of this mirror: it may have later runs, and retention keeps it until you delete it; tidemark verify --backups says what differs`,
    );
    const answer = await fetch(`${url}/readyz`, { headers: { accept: 'application/json' } });
    const { reasons } = (await answer.json()) as { reasons: { code: string }[] };
    expect(reasons.map(({ code }) => code)).toContain('backup_contradicts');
    for (const file of [name, manifestName(name)]) rmSync(join(directory, file));
    world.clock.passedMs += 60_000;
    expect(await words()).not.toContain('Not in the chain');
  });

  it('is overdue only where nobody made one, the daemon or somebody else', async () => {
    const later = world.clock.at + 3 * DAY_MS;
    const codes = async (): Promise<string[]> => {
      world.clock.passedMs += MINUTE_MS;
      const answer = await fetch(`${url}/readyz`, { headers: { accept: 'application/json' } });
      const { reasons } = (await answer.json()) as { reasons: { code: string }[] };
      return reasons.map(({ code }) => code);
    };
    const before = world.clock.at;
    onTestFinished(() => void (world.clock.at = before));
    world.clock.at = later;
    expect(await codes()).toContain('backup_overdue');
    writeBackup(later - 60 * MINUTE_MS, { mirror: 'another' });
    writeBackup(later + 60 * MINUTE_MS);
    expect(await codes()).toContain('backup_overdue');
    writeBackup(later - 30 * MINUTE_MS);
    expect(await codes()).not.toContain('backup_overdue');
  });

  it('tells Prometheus the space left, and of each target its newest backup, its limit, and whether it can be read', async () => {
    const readAgain = async (): Promise<string> => {
      world.clock.passedMs += MINUTE_MS;
      return await (await fetch(`${url}/metrics`)).text();
    };
    const at = Math.floor(world.clock.at / 1000) * 1000 - 5 * MINUTE_MS;
    writeBackup(at);
    const labels = `{source="",target="${directory}"}`;
    const seen = await readAgain();
    expect(seen).toContain(`tidemark_backup_newest_timestamp_seconds${labels} ${at / 1000}\n`);
    expect(seen).toContain(`tidemark_backup_target_readable${labels} 1\n`);
    // Backups are due every day, syncs every half hour.
    expect(seen).toContain(`tidemark_backup_allowed_age_seconds${labels} ${(2 * DAY_MS) / 1000}\n`);
    const { bavail, bsize } = statfsSync(directory);
    const [, free] = /^tidemark_mirror_volume_free_bytes (\S+)$/m.exec(seen) ?? [];
    expect(Math.abs(Number(free) - bavail * bsize)).toBeLessThan(0.1 * bavail * bsize);
    expect(seen).toMatch(/^tidemark_mirror_volume_size_bytes [1-9]/m);

    // A target that went away keeps the time of its newest backup: the alert for its age goes on.
    renameSync(directory, `${directory}-away`);
    const away = await readAgain();
    renameSync(`${directory}-away`, directory);
    expect(away).toContain(`tidemark_backup_target_readable${labels} 0\n`);
    expect(away).toContain(`tidemark_backup_newest_timestamp_seconds${labels} ${at / 1000}\n`);
    expect(await readAgain()).toContain(`tidemark_backup_target_readable${labels} 1\n`);
  });

  it('is degraded while a target could not take the latest backup', async () => {
    const reasons = async (): Promise<{ code: string; message: string }[]> => {
      const answer = await fetch(`${url}/readyz`, { headers: { accept: 'application/json' } });
      return ((await answer.json()) as { reasons: { code: string; message: string }[] }).reasons;
    };
    const job = (outcome: 'done' | 'partial', error: string | null): void =>
      world.write((mirror) => {
        const at = isoTime(world.clock.at);
        const number = mirror.daemon.beginJob({
          name: 'backup',
          source: null,
          trigger: 'after_run',
          startedAt: at,
        });
        const errorCode = error === null ? null : 'unreachable';
        const summary = { job: 'backup', file: 'a.db.zst', targets: [{ address: directory, error }] };
        const end = { finishedAt: at, outcome, run: null, summary, errorCode, error } as const;
        mirror.daemon.finishJob(number, end);
      });
    job('partial', `${directory} could not be written: no answer`);
    expect(await reasons()).toContainEqual(
      expect.objectContaining({
        code: 'job_failed',
        message: `the last backup was not completed everywhere: ${directory} could not be written: no answer; the newest backup, of 2026-03-01T06:55:00Z, is in ${directory}`,
      }),
    );
    // The same in words and for Prometheus: of the mirror, and not of its source.
    const text = await (await fetch(`${url}/readyz`, { headers: { accept: 'text/plain' } })).text();
    expect(text).toMatch(
      /^degraded\n {2}degraded: the last backup was not completed everywhere: .* → check the endpoint and the network; then `tidemark backup create`\ndefault: ok\n$/,
    );
    const metrics = await (await fetch(`${url}/metrics`)).text();
    for (const labels of ['source="",state="degraded"', 'source="default",state="ok"'])
      expect(metrics).toContain(`tidemark_health_state{${labels}} 1\n`);
    job('done', null);
    expect((await reasons()).map(({ code }) => code)).not.toContain('job_failed');
  });

  it('reads a target again as soon as a backup job has ended', async () => {
    const shelf = new BackupCatalog(world.clock);
    const newest = async (): Promise<string | undefined> =>
      (await shelf.look([targetAt(directory)], world.mirror(), MINUTE_MS))[0]?.newest?.madeAt;
    const before = await newest();
    const at = world.clock.at - MINUTE_MS;
    writeBackup(at);
    expect(await newest()).toBe(before);
    const startedAt = isoTime(world.clock.at);
    const job = world.write((mirror) =>
      mirror.daemon.beginJob({ name: 'backup', source: null, trigger: 'after_run', startedAt }),
    );
    expect(Date.parse((await newest()) ?? '')).toBe(at);
    // What the job stores is there when it ends.
    const later = world.clock.at - MINUTE_MS / 2;
    writeBackup(later);
    expect(Date.parse((await newest()) ?? '')).toBe(at);
    world.write((mirror) => {
      const rest = { outcome: 'done', run: null, summary: {}, errorCode: null, error: null } as const;
      mirror.daemon.finishJob(job, { finishedAt: startedAt, ...rest });
    });
    expect(Date.parse((await newest()) ?? '')).toBe(later);
  });

  it('does not wait for a directory that does not answer', async () => {
    const clock = new HeldClock();
    clock.sleep = () => Promise.resolve();
    const shelf = new BackupCatalog(clock);
    expect(await shelf.look([targetAt(directory)], world.mirror())).toEqual([]);
    const patient = new BackupCatalog(new HeldClock());
    const gone = mkdtempSync(join(tmpdir(), 'tidemark-gone-'));
    onTestFinished(() => rmSync(gone, { recursive: true, force: true }));
    const disk = {
      isOnMirrorDisk: true,
      isEmptied: false,
      earlier: [],
      byMirror: [],
      contradicting: [],
      owner: mirrorId(world.mirror()),
    };
    const empty = {
      ...disk,
      address: gone,
      whole: [],
      damaged: 0,
      problem: null,
      newest: null,
      volume: null,
    };
    expect(await patient.look([targetAt(gone)], world.mirror())).toEqual([empty]);
    const [away] = await patient.look([targetAt(join(gone, 'away'))], world.mirror());
    expect(away?.problem).toContain('does not exist');
  });
});

describe('the overview of a mirror that cannot be read', () => {
  it('says so in every answer, and shows the backups', async () => {
    const target = mkdtempSync(join(tmpdir(), 'tidemark-backup-'));
    onTestFinished(() => rmSync(target, { recursive: true, force: true }));
    const damaged = await World.create({
      TIDEMARK_KINDS_INCLUDE: 'organizations,domains',
      TIDEMARK_BACKUP_TARGETS: target,
    });
    await damaged.sync();
    const own = damaged.write(mirrorId);
    writeBackup(damaged.clock.at - 60 * MINUTE_MS, { mirror: own }, target);
    writeBackup(damaged.clock.at - 30 * MINUTE_MS, { mirror: 'another' }, target);
    overwriteTable(damaged.mirrorPath, 'runs');
    const { url: at } = await damaged.listen();
    // A page does not wait long for the targets of backups.
    let shown = await words(at);
    while (shown.includes('No target has answered')) shown = await words(at);
    expect(shown).toContain('default, the mirror cannot be read; next sync');
    for (const question of ['Fresh', 'Complete', 'Verified', 'Restorable', 'Drift'])
      expect(shown).toContain(`${question} Unknown the mirror cannot be read`);
    expect(shown).toContain(`the mirror cannot be read: ${damaged.mirrorPath} is damaged`);
    // The target has a backup of another mirror too.
    expect(shown).toContain('tidemark backup restore tidemark-20260301T060000Z-run1.db.zst --to');
    expect(shown).toContain('Backups Latest 60 min ago , as of run 1');
    expect(shown).not.toMatch(/No baseline|no complete run yet|0 records|Nothing done yet/);

    // Of a file that cannot even be opened, nothing says whose backups they are.
    const [doubtful] = await new BackupCatalog(damaged.clock).look([targetAt(target)], null);
    expect(doubtful?.problem).toContain('backups of several mirrors');
    rmSync(join(target, manifestName(backupName(damaged.clock.at - 30 * MINUTE_MS, 1, false))));
    const [only] = await new BackupCatalog(damaged.clock).look([targetAt(target)], null);
    expect(only).toMatchObject({ problem: null, damaged: 1, whole: [{ run: 1 }] });
  });
});

describe('the drift of what was read in part', () => {
  it('is not called none, and not shown as good', async () => {
    const partial = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations,projects,batch_exports' });
    const run = await partial.sync();
    partial.write((mirror) => {
      mirror.snapshots.pin('as-approved', run);
      mirror.snapshots.setBaseline('as-approved');
    });
    await partial.sync(NARROW_KEY);
    const { url: at } = await partial.listen();
    const html = await (await fetch(`${at}/`)).text();
    expect(html).toContain(
      '<li class="warn"><h2><a href="/drift">Drift</a></h2><div><b>None found</b></div>',
    );
    const shown = await words(at);
    expect(shown).toMatch(/None found \d+ collections? not compared or not fresh, as of run 2, /);
    expect(shown).toMatch(
      /No drift in what could be compared\. \d+ collections? not compared or not fresh\./,
    );
    expect(shown).not.toContain('No drift as of');
  });

  it('is said of the kinds of a filter too, and of the lists that lead to them', async () => {
    const partial = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations,projects,batch_exports' });
    const run = await partial.sync();
    partial.write((mirror) => {
      mirror.snapshots.pin('as-approved', run);
      mirror.snapshots.setBaseline('as-approved');
    });
    await partial.sync(NARROW_KEY);
    const { url: at } = await partial.listen();
    const drift = async (query: string): Promise<string> =>
      (await (await fetch(`${at}/drift${query}`)).text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    // Without any finding no filter is shown.
    expect(await drift('?kind=batch_exports')).toContain('so this may not be everything');
    await partial.send('PATCH', `/api/organizations/${KITTIWAKE_ID}/`, { enforce_2fa: false });
    await partial.sync(NARROW_KEY);
    expect(await drift('')).toContain('1 drift finding');
    for (const query of ['?kind=batch_exports', '?kind=batch_exports&severity=low', '?q=nowhere']) {
      const shown = await drift(query);
      expect(shown).toContain('Nothing in what could be compared matches the filter.');
      expect(shown).toContain('so this may not be everything');
      expect(shown).not.toContain('Nothing matches');
    }
    const read = await drift('?kind=organizations&q=nowhere');
    expect(read).toContain('Nothing matches the filter.');
    expect(read).not.toContain('so this may not be everything');
  });
});

it('a source that is newer than the baseline: the tile says so in few words, below and on its page is what to do', async () => {
  const newer = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations' });
  const baseline = await newer.sync(undefined, 'other');
  newer.write((mirror) => {
    mirror.snapshots.pin('as-approved', baseline);
    mirror.snapshots.setBaseline('as-approved');
  });
  await newer.sync();
  const { url: at } = await newer.listen();
  const shown = await words(at);
  expect(shown).toContain('Drift Unknown not compared: no state as of the baseline ');
  const whole =
    'the mirror held nothing of source default as of run 1: its first run is 2; tidemark drift --source default --from run:2 compares with its oldest state; ';
  expect(shown).toContain(`Drift ${whole}`);
  const page = await (await fetch(`${at}/drift`)).text();
  expect(page).toContain(
    '<code>tidemark drift <span class="unbroken">--source</span> default <span class="unbroken">--from</span> run:2</code>',
  );
});

describe('the drift of a mirror that is too damaged to compare', () => {
  it('is unknown, with the reason, whatever was found before: on the page, in the API and in metrics', async () => {
    const damaged = await World.create({ TIDEMARK_KINDS_INCLUDE: 'organizations' });
    const baseline = await damaged.sync();
    damaged.write((mirror) => {
      mirror.snapshots.pin('as-approved', baseline);
      mirror.snapshots.setBaseline('as-approved');
    });
    const [id = ''] = await damaged.ids('/api/organizations/');
    const none = {
      hasBaseline: true,
      from: 1,
      to: 1,
      open: 0,
      accepted: 0,
      ignored: 0,
      findings: [],
      skipped: 0,
    };
    const severities = { critical: 0, high: 0, medium: 0, low: 0 };
    damaged.job('drift', { ...none, severities, compared: { collections: 1, records: 2 } });
    await damaged.send('PATCH', `/api/organizations/${id}/`, { name: 'Renamed' });
    await damaged.sync();
    const { url: at } = await damaged.listen();
    const open = async (): Promise<unknown> => {
      const answer = await fetch(`${at}/api/v1/status`);
      return ((await answer.json()) as { sources: { drift: unknown }[] }).sources[0]?.drift;
    };
    const scraped = async (): Promise<string> => await (await fetch(`${at}/metrics`)).text();
    expect(await words(at)).toMatch(/Drift 1 finding /);
    expect(await open()).toMatchObject({ open: 1, unknown: null });
    expect(await scraped()).toMatch(/^tidemark_drift_findings\{.*\} 1$/m);

    const file = new Database(damaged.mirrorPath);
    const { changes } = file
      .prepare(`UPDATE records SET body = replace(body, '"Renamed"', '"Altered"') WHERE remote_id = ?`)
      .run(id);
    file.close();
    expect(changes).toBe(1);
    const error = `${damaged.mirrorPath} is damaged`;
    damaged.job('drift', null, { outcome: 'failed', errorCode: 'mirror_corrupt', error });
    const why = 'the stored content of 1 record does not match its hash';
    const shown = await words(at);
    expect(shown).toContain('One thing needs you');
    expect(shown).toContain('Verified No found damaged now; tidemark verify names what is damaged');
    expect(shown).toMatch(new RegExp(`Needs you \\S+ is damaged: ${why}.*; drift of default failed for it`));
    expect(shown).toContain('Drift Unknown not compared: the mirror is damaged ');
    expect(shown).toMatch(new RegExp(`Drift \\S+ is damaged: ${why}`));
    expect(shown).not.toMatch(/Drift None|No drift/);
    const ready = await fetch(`${at}/readyz`, { headers: { Accept: 'application/json' } });
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      { state: 'degraded', reasons: [{ code: 'verify_failed' }] },
    ]);
    expect(await open()).toEqual({
      open: null,
      severities: null,
      unknown: expect.stringContaining(why) as string,
    });
    expect(await scraped()).not.toMatch(/^tidemark_drift_findings\{/m);
    // What health says, before the next verification.
    expect(await scraped()).toMatch(/^tidemark_verify_problems\{source=""\} 1$/m);
    const pages = await Promise.all(
      ['/organizations', `/organizations/${id}`].map(async (path) => await (await fetch(at + path)).text()),
    );
    for (const page of pages) expect(page).toContain('not known');

    // A verification that finds nothing, of a mirror that was mended by hand, is believed.
    const mended = new Database(damaged.mirrorPath);
    mended
      .prepare(`UPDATE records SET body = replace(body, '"Altered"', '"Renamed"') WHERE remote_id = ?`)
      .run(id);
    mended.close();
    damaged.job('verify', {
      records: 2,
      revisions: 3,
      runs: 2,
      problems: 0,
      found: [],
      root: null,
      durationMs: 1,
    });
    expect(await words(at)).toContain('Verified Yes 3 revisions match');
  });
});

function targetAt(path: string): TargetConfig {
  return { type: 'directory', path, retention: null };
}

describe('the labels of a chart', () => {
  it.each([1, 2, 7, 20, 30, 60])('never touch each other, nor the edge, with %d columns', (columns) => {
    const chart = columnChart(
      Array.from({ length: columns }, () => ({
        label: '03-10 19:50',
        title: '',
        parts: [{ name: 'complete', value: 1 }],
        sign: '',
      })),
      { label: '', show: String, steps: [1], legend: [], narrow: 20 },
    ).text;
    // A wide font has 7.2 pixels a character at this size.
    const half = ('03-10 19:50'.length * 7.2) / 2;
    const drawings = [...chart.matchAll(/viewBox="0 0 (\d+) \d+" role.*?<\/svg>/gs)];
    expect(drawings).toHaveLength(2);
    for (const [drawing, width] of drawings) {
      const middles = [...drawing.matchAll(/<text x="([\d.]+)"[^>]*>03-10/g)].map(([, x]) => Number(x));
      expect(middles.length).toBeGreaterThan(0);
      expect(middles.length).toBeLessThanOrEqual(8);
      expect(Math.max(...middles) + half).toBeLessThanOrEqual(Number(width));
      for (const [index, x] of middles.slice(1).entries())
        expect(x - middles[index]!).toBeGreaterThan(2 * half + 16);
    }
  });
});
