import {
  copyFileSync,
  watch,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { alterRow } from '../tools/alter.ts';
import { commandLine, type Ended } from './command-line.ts';
import { mirrorOnce, nextSecond, scratch, start } from './harness.ts';
import { FakeService } from './service.ts';

const SOURCES = ['acme', 'beta', 'core'];
const SPLIT = './data/{source}.db';

/** One mirror is exported kind by kind, several one after the other. */
const sortedLines = (text: string): string => text.split('\n').sort().join('\n');

/** Three sources in one mirror, with history, a baseline, accepted drift and forgotten runs. */
async function world() {
  const services = await Promise.all(SOURCES.map(() => FakeService.start()));
  const directory = scratch();
  const configure = (mirror: string): void => {
    const sources = SOURCES.map(
      (name, index) =>
        `  - { name: ${name}, baseUrl: "${services[index]?.url ?? ''}", apiKey: "\${KEY}", kinds: { include: [organizations, roles] } }`,
    );
    writeFileSync(join(directory, 'tidemark.yaml'), `mirror: ${mirror}\nsources:\n${sources.join('\n')}\n`);
  };
  configure('./data/all.db');
  const run = async (code: number, ...args: string[]): Promise<Ended> => {
    const ended = await commandLine(args, { env: { KEY: 'test-key-of-some-length' }, cwd: directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  const set = (round: number): void => {
    for (const [index, service] of services.entries())
      service.set('roles', [
        { id: `r${index}`, name: `${SOURCES[index] ?? ''} ${round}` },
        ...(round === 2 ? [] : [{ id: `other${index}`, name: 'Other' }]),
      ]);
  };
  const path = (name: string): string => join(directory, 'data', name);
  mkdirSync(path('.'));
  await mirrorOnce('three sources', path('all.db'), async () => {
    for (const round of [1, 2, 3]) {
      set(round);
      await run(0, 'sync', '--quiet');
      if (round === 1) await run(0, 'snapshots', 'pin', 'base');
      if (round === 1) await run(0, 'snapshots', 'baseline', 'base');
    }
    await run(0, 'drift', 'accept', 'roles', 'r1', '--source', 'beta', '--reason', 'known');
    await run(0, 'forget', '--keep-last', '2');
  });
  set(3);
  /** What people see of each source, without numbers of runs. */
  const seen = async (): Promise<string[]> => {
    const texts = [
      (await run(0, 'export', '--kind', 'roles')).stdout,
      (await run(0, 'export', '--at', 'snapshot:base', '--kind', 'roles')).stdout,
    ].map(sortedLines);
    for (const name of SOURCES)
      texts.push((await run(name === 'beta' ? 0 : 2, 'drift', '--source', name, '--kind', 'roles')).stdout);
    return texts.map((text) => text.replaceAll(/run \d+, \S+\)/g, 'run'));
  };
  const files = (): string[] =>
    readdirSync(join(directory, 'data'))
      .filter((name) => !name.includes('-'))
      .sort();
  return { run, configure, path, seen, files, directory, set };
}

describe('mirror move', () => {
  it('splits and joins a mirror, and keeps what people see; old roots are found as replaced', async () => {
    const { run, configure, path, seen, files } = await world();
    const { root } = JSON.parse((await run(0, 'verify', '--json')).stdout) as { root: string };
    const before = await seen();
    const split = await run(0, 'mirror', 'move', '--to', SPLIT);
    expect(split.stdout).toContain(`Now set in the configuration:  mirror: ${SPLIT}`);
    expect(files()).toEqual(['acme.db', 'all.db.moved', 'beta.db', 'core.db']);
    configure(SPLIT);
    expect(await seen()).toEqual(before);
    await run(0, 'verify');
    expect((await run(3, 'verify', '--root', root, '--source', 'core')).stderr).toContain(
      'since a move replaced it',
    );
    // Of another source nothing is left in the file.
    expect(readFileSync(path('acme.db')).includes('beta 1')).toBe(false);
    expect(readFileSync(path('acme.db')).includes('known')).toBe(false);
    await run(0, 'sync', '--quiet');

    await run(0, 'mirror', 'move', '--to', './data/all.db', '--remove');
    expect(files()).toEqual(['all.db', 'all.db.moved']);
    configure('./data/all.db');
    expect(await seen()).toEqual(before);
    expect((await run(3, 'verify', '--root', root)).stdout).toContain('until it was moved');
    await run(0, 'sync', '--quiet');
    await run(0, 'verify');
  });

  it('names the runs of other sources as theirs, and takes what its own source held then', async () => {
    const { run, configure, path, set } = await world();
    for (const name of readdirSync(path('.'))) rmSync(path(name), { recursive: true });
    // Runs 1, 4 and 7 are of acme, 2, 5 and 8 of beta, 3, 6 and 9 of core.
    for (const round of [1, 2, 3]) {
      set(round);
      await run(0, 'sync', '--quiet');
    }
    const since = ['export', '--history', '--source', 'beta', '--kind', 'roles', '--since'];
    const changed = async (): Promise<unknown> => {
      const { stdout } = await run(0, 'changes', '--source', 'beta', '--json', '--since', 'run:6');
      return (JSON.parse(stdout) as { runs: unknown }).runs;
    };
    const before = {
      at: (await run(0, 'export', '--source', 'beta', '--at', 'run:3')).stdout,
      rows: (await run(0, ...since, 'run:4')).stdout,
      changes: await changed(),
    };
    expect(before.rows.split('\n').length).toBeGreaterThan(3);
    await run(0, 'mirror', 'move', '--to', SPLIT);
    configure(SPLIT);
    const at = await run(0, 'export', '--source', 'beta', '--at', 'run:3');
    expect(at.stdout).toBe(before.at);
    expect(at.stderr).toMatch(
      /run 3 was of another source \(`mirror move` separated them at [^)]+\): the state of beta then, of its run 2, is taken/,
    );
    expect((await run(0, ...since, 'run:4')).stdout).toBe(before.rows);
    expect(await changed()).toEqual(before.changes);
    // Each source by the same number.
    await run(0, 'changes', '--since', 'run:4');
    const shown = await run(4, 'runs', 'show', '4', '--source', 'beta');
    expect(shown.stderr).toContain('run 4 was of another source');
    expect(shown.stderr).not.toContain('retention');
    const early = await run(4, 'export', '--source', 'core', '--at', 'run:2');
    expect(early.stderr).toMatch(
      /run 2 was of another source .+ nothing of source core .+ its first run is 3/,
    );
    // What retention drops later is still what it says.
    await run(0, 'forget', '--keep-last', '1', '--source', 'beta');
    const dropped = await run(4, ...since, 'run:2');
    expect(dropped.stderr).toContain('run 2 was dropped by retention');
    expect((await run(4, ...since, 'run:4')).stderr).toContain(
      'what source beta held as of run 4 was dropped by retention',
    );
    // One of its own that another program deleted is not taken for one of another source.
    alterRow(path('core.db'), 'DELETE FROM runs WHERE run = 6');
    const deleted = await run(1, 'export', '--source', 'core', '--at', 'run:6');
    expect(deleted.stderr).toContain('run 6 was deleted by another program');
  });

  it('is completed by the same command, wherever it was killed', async () => {
    const { run, configure, path, seen, files } = await world();
    const before = await seen();
    const old = path('copy');
    copyFileSync(path('all.db'), old);
    // While the new files were made: one is there in part.
    writeFileSync(path('acme.db-moving'), 'half a file');
    await run(0, 'mirror', 'move', '--to', SPLIT);
    // Before the last of them had its name; before the old one was put away.
    for (const unnamed of ['core.db', null]) {
      renameSync(path('all.db.moved'), path('all.db'));
      if (unnamed !== null) renameSync(path(unnamed), path(`${unnamed}-moving`));
      expect(await seen()).toEqual(before);
      await run(0, 'mirror', 'move', '--to', SPLIT);
      expect(files()).toEqual(['acme.db', 'all.db.moved', 'beta.db', 'copy', 'core.db']);
    }
    // After the end.
    expect((await run(0, 'mirror', 'move', '--to', SPLIT)).stdout).toContain('moved already');
    configure(SPLIT);
    expect(await seen()).toEqual(before);
    // The way back: one of the old files was put away, the others were not.
    rmSync(path('all.db.moved'));
    await run(0, 'mirror', 'move', '--to', './data/all.db');
    for (const name of ['beta.db', 'core.db']) renameSync(path(`${name}.moved`), path(name));
    await run(0, 'mirror', 'move', '--to', './data/all.db');
    // With the new file gone, it must not be made without the first.
    renameSync(path('beta.db.moved'), path('beta.db'));
    rmSync(path('all.db'));
    expect((await run(1, 'mirror', 'move', '--to', './data/all.db')).stderr).toContain('was moved before');
  });

  it('begins no new history in the old place, and says that TIDEMARK_MIRROR counts', async () => {
    const { run, directory, files } = await world();
    const env = { KEY: 'test-key-of-some-length', TIDEMARK_MIRROR: './data/all.db' };
    const moved = await commandLine(['mirror', 'move', '--to', SPLIT], { env, cwd: directory });
    expect(moved.code, moved.stderr).toBe(0);
    expect(moved.stdout).toContain('TIDEMARK_MIRROR is set here, and counts in place of the file');
    const before = files();
    for (const command of ['sync', 'status', 'runs', 'verify']) {
      const { stderr } = await run(1, command);
      expect(stderr, command).toContain('all.db was moved: all.db.moved is beside it');
      expect(stderr, command).toContain(
        'set `mirror` (and TIDEMARK_MIRROR, where it is set) to the new place',
      );
    }
    expect(files()).toEqual(before);
    const checked = await commandLine(['config', 'check'], { env, cwd: directory });
    expect(checked.stdout).toContain('all.db (TIDEMARK_MIRROR is set: `mirror` of a file does not count)');
  });

  it('refuses what would lose something, in one line, and leaves all as it was', async () => {
    const { run, path, files, seen, configure } = await world();
    const before = await seen();
    writeFileSync(path('beta.db'), '');
    expect((await run(1, 'mirror', 'move', '--to', SPLIT)).stderr).toContain('beta.db');
    rmSync(path('beta.db'));
    await run(0, 'mirror', 'move', '--to', SPLIT);
    renameSync(path('all.db.moved'), path('all.db'));
    // Written since: it is nobody's left-over any more.
    configure(SPLIT);
    await run(0, 'sync', '--quiet', '--source', 'beta');
    configure('./data/all.db');
    expect((await run(1, 'mirror', 'move', '--to', SPLIT)).stderr).toContain('exists already');
    expect(await seen()).toEqual(before);
    expect(files()).toEqual(['acme.db', 'all.db', 'beta.db', 'core.db']);
    await run(4, 'mirror', 'move', '--to', './data/other.db');
    await run(4, 'mirror', 'move', '--to', './data/{name}.db');
    expect(existsSync(path('other.db'))).toBe(false);
  });

  it('killed at any change of a file, leaves the old mirror or the new ones whole', async () => {
    const { run, configure, path, files, directory } = await world();
    const shown = async (): Promise<string> =>
      sortedLines((await run(0, 'export', '--at', 'snapshot:base')).stdout);
    const before = await shown();
    const env = { KEY: 'test-key-of-some-length' };
    const original = path('original');
    copyFileSync(path('all.db'), original);
    let deaths = 0;
    // After 1, 2, 4, 8 … changes: the first ones make the files, many more fill them, and the last ones, the new names, are
    // each a case of the test above.
    for (let victim = 1; ; victim *= 2) {
      const { child, ended } = start(['mirror', 'move', '--to', SPLIT], { env, cwd: directory });
      let changes = 0;
      const watcher = watch(join(directory, 'data'), () => {
        changes += 1;
        if (changes === victim) child.kill('SIGKILL');
      });
      const { code } = await ended;
      watcher.close();
      const isOver = code === 0;
      deaths += Number(code === null);
      const isMoved = !existsSync(path('all.db'));
      if (isMoved) configure(SPLIT);
      expect(await shown(), `killed at change ${victim}`).toEqual(before);
      // What the command says after its end is a case of the test above.
      if (isOver) break;
      configure('./data/all.db');
      // The same command completes it.
      await run(0, 'mirror', 'move', '--to', SPLIT);
      configure(SPLIT);
      expect(await shown(), `completed after change ${victim}`).toEqual(before);
      await run(0, 'verify');
      expect(files()).toEqual(['acme.db', 'all.db.moved', 'beta.db', 'core.db', 'original']);
      for (const name of readdirSync(join(directory, 'data')))
        if (name !== 'original') rmSync(path(name), { recursive: true });
      copyFileSync(original, path('all.db'));
      configure('./data/all.db');
    }
    expect(deaths).toBeGreaterThan(4);
  }, 240_000);

  it('joins mirrors that were begun separately; accepted drift of more than one keeps them apart', async () => {
    const { run, configure, path, files, set } = await world();
    for (const name of readdirSync(path('.'))) rmSync(path(name), { recursive: true });
    configure(SPLIT);
    await run(0, 'sync', '--quiet');
    for (const source of SOURCES) {
      await run(0, 'snapshots', 'pin', 'base', '--source', source);
      await run(0, 'snapshots', 'baseline', 'base', '--source', source);
    }
    set(2);
    await run(0, 'sync', '--quiet');
    // The record tells whose mirror it is in.
    const accepted = await run(0, 'drift', 'accept', 'roles', 'r1', '--reason', 'known');
    expect(accepted.stdout).toContain('accepted: role beta 2');
    const exported = async (): Promise<string[]> =>
      Promise.all(SOURCES.map(async (name) => (await run(0, 'export', '--source', name)).stdout));
    const acceptedCount = async (source: string): Promise<number> => {
      const { stdout } = await run(2, 'drift', '--source', source, '--json');
      return (JSON.parse(stdout) as { accepted: unknown[] }).accepted.length;
    };
    const [before, drift] = [await exported(), await acceptedCount('beta')];
    expect(drift).toBeGreaterThan(0);
    await run(0, 'mirror', 'move', '--to', './data/all.db');
    configure('./data/all.db');
    expect(await exported()).toEqual(before);
    await run(0, 'verify');
    // What was accepted counts for the same value.
    expect((await run(0, 'drift', 'accepted', '--json')).stdout).toContain('"source":"beta"');
    expect(await acceptedCount('beta')).toBe(drift);
    await run(0, 'sync', '--quiet');
    expect(files()).toEqual(['acme.db.moved', 'all.db', 'beta.db.moved', 'core.db.moved']);
    // Accepted in two of them: one key cannot be that of both.
    rmSync(path('all.db'));
    for (const source of SOURCES) renameSync(path(`${source}.db.moved`), path(`${source}.db`));
    configure(SPLIT);
    await run(0, 'drift', 'accept', 'roles', 'r2', '--source', 'core', '--reason', 'known too');
    const refused = await run(4, 'mirror', 'move', '--to', './data/all.db');
    expect(refused.stderr).toContain('beta and core have accepted drift');
    expect(files()).toEqual(['acme.db', 'beta.db', 'core.db']);
    // And what is in several mirrors has to be named.
    expect((await run(4, 'runs', 'show', '2')).stderr).toContain(
      'the mirrors of acme, beta and core have run 2',
    );
    expect((await run(4, 'runs', 'show', '77')).stderr).toContain('no mirror of 3 sources has run 77');
    await run(0, 'sync', '--quiet', '--source', 'core');
    expect((await run(0, 'runs', 'show', '3')).stdout).toContain('run 3 of core');
    expect((await run(0, 'drift', 'unaccept', 'roles', 'r2')).stdout).toContain('withdrawn');
    expect((await run(4, 'drift', 'unaccept', 'roles', 'r0')).stderr).toContain(
      'no mirror of 3 sources has an acceptance of roles r0',
    );
  });

  it('joins mirrors that were begun separately and splits them again: each is backed up as before', async () => {
    const { run, path, directory } = await world();
    for (const name of readdirSync(path('.'))) rmSync(path(name), { recursive: true });
    const stores = join(directory, 'stores');
    mkdirSync(stores);
    const configuration = readFileSync(join(directory, 'tidemark.yaml'), 'utf8');
    const configure = (mirror: string): void =>
      writeFileSync(
        join(directory, 'tidemark.yaml'),
        `${configuration.replace('./data/all.db', mirror)}backup: { targets: [./stores], every: 0s, keepLast: 9 }
schedules: { sync: { cron: '* * * * * *' }, drift: { cron: off } }
`,
      );
    const held = (place: string): number =>
      readdirSync(join(stores, place)).filter((name) => name.endsWith('.zst')).length;
    const daemonOnce = async (code: number): Promise<Ended> => {
      await nextSecond();
      return run(code, 'daemon', '--once');
    };
    configure(SPLIT);
    // Their places are made with the first backup.
    expect((await run(0, 'backup', 'list')).stdout).toContain(`no backups in ${join(stores, 'acme')} yet\n`);
    await daemonOnce(0);
    expect(SOURCES.map(held)).toEqual([1, 1, 1]);
    expect((await run(0, 'mirror', 'move', '--to', './data/all.db', '--remove')).stdout).toContain(
      'earlier backups of beta and core, if there are any, count as those of another mirror: retention does not remove them\n',
    );
    configure('./data/all.db');
    // Those that are there are in places which the target of one mirror does not list.
    const places = `there is no backup in ${stores} itself, but in these places below it, one for each source: acme, beta, core\n`;
    const listed = await run(0, 'backup', 'list');
    expect(listed.stdout).toBe(`no backups in ${stores} yet\n`);
    expect(listed.stderr).toContain(
      `${places}  → \`tidemark backup list ${stores}/acme\` lists those of acme\n`,
    );
    expect(JSON.parse((await run(0, 'backup', 'list', '--json')).stdout)).toMatchObject({ backups: [] });
    const restored = await run(4, 'backup', 'restore', 'latest', '--to', 'x.db');
    expect(restored.stderr).toContain(places);
    expect(restored.stderr).toContain(
      `\`tidemark backup restore ${stores}/acme --to x.db\` restores the newest of acme`,
    );
    expect((await run(4, 'backup', 'verify')).stderr).toContain(`\`tidemark backup verify ${stores}/acme\``);
    await daemonOnce(0);
    expect(held('.')).toBe(1);
    expect((await run(0, 'mirror', 'move', '--to', SPLIT, '--remove')).stdout).not.toContain('earlier');
    configure(SPLIT);
    await daemonOnce(0);
    expect(SOURCES.map(held)).toEqual([2, 2, 2]);
    await run(0, 'verify');
    // The last one of all sources is older: it is not the latest any more, but has its name.
    configure('./data/all.db');
    const [older = ''] = readdirSync(stores).filter((name) => name.endsWith('.zst'));
    const newer = `${older} is the newest backup in ${stores} itself, but there are newer ones in these places below it, one for each source: acme, beta, core\n`;
    for (const place of ['latest', stores])
      expect((await run(4, 'backup', 'restore', place, '--to', 'x.db')).stderr).toContain(newer);
    expect((await run(4, 'backup', 'verify')).stderr).toContain(newer);
    const both = await run(0, 'backup', 'list');
    expect([both.stdout, both.stderr]).toEqual([
      expect.stringContaining(older),
      expect.stringContaining(newer),
    ]);
    await run(0, 'backup', 'restore', older, '--to', 'x.db');
    configure(SPLIT);

    // Of these it is known again where they are: another disk in its place is noticed, and one that is not mounted.
    for (const name of readdirSync(join(stores, 'beta')).toSorted().slice(-2))
      rmSync(join(stores, 'beta', name));
    expect((await daemonOnce(3)).stderr).toContain(
      `${join(stores, 'beta')} has none of the backups that were stored there, only those of another mirror: is it`,
    );
    expect((await run(3, 'doctor', '--source', 'beta')).stderr).toContain('only those of another mirror');
    rmSync(join(stores, 'beta'), { recursive: true });
    mkdirSync(join(stores, 'beta'));
    const { stderr } = await daemonOnce(3);
    expect(stderr).toContain(
      `${join(stores, 'beta')} has none of the backups that were stored there: is its`,
    );
    expect(SOURCES.map(held)).toEqual([4, 0, 4]);
  });
});
