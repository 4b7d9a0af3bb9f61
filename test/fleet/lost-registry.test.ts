/** The work on a cell whose registry was lost: it continues from the newest mirror, and never from one of two histories. */
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openMirror } from '../../src/mirror/open.ts';
import { CELL, fleet as openFleet, type Fleet, KIND, NO_STORAGE } from './cell-fixture.ts';

interface LostFleet extends Fleet {
  /** Nothing is known any more; returns the runs that were, as number and root hash. */
  readonly lose: () => string[];
  /** Has a worker read another state of the service, and publishes it. */
  readonly sync: (...order: Parameters<Fleet['work']>) => Promise<ReturnType<Fleet['registry']['publish']>>;
  /** Names of what is stored. */
  readonly stored: () => string[];
  /** Moves what is stored of a run away; returns what puts it back. */
  readonly hide: (run: number) => () => void;
}

const BASELINE = { name: 'good', run: 1, time: null, by: 'somebody' };

async function fleet(): Promise<LostFleet> {
  const base = await openFleet();
  const { registry, service, work, pass, storage, directory } = base;
  if (storage.type !== 'directory') throw new Error('it is a directory');
  const stored = (): string[] => readdirSync(storage.path).toSorted();
  let state = 0;
  return {
    ...base,
    stored,
    lose: () => {
      const runs = rootsOf(registry.runs);
      registry.known = null;
      registry.runs.length = 0;
      return runs;
    },
    sync: async (...order) => {
      state += 1;
      service.set(KIND, [{ id: 'r1', name: `State ${state}` }]);
      pass();
      return registry.publish(await work(...order));
    },
    hide: (run) => {
      const away = join(directory, `away-${run}`);
      mkdirSync(away);
      const names = stored().filter((name) => name.includes(`-run${run}-`));
      for (const name of names) renameSync(join(storage.path, name), join(away, name));
      return () => {
        for (const name of names) renameSync(join(away, name), join(storage.path, name));
      };
    },
  };
}

function rootsOf(runs: readonly { readonly run: number; readonly root: string | null }[]): string[] {
  return runs.map(({ run, root }) => `${run} ${root ?? ''}`);
}

describe('a cell whose registry was lost', () => {
  it('continues from storage where the cache of its worker is older', async () => {
    const { sync, lose, registry, stored, verified } = await fleet();
    await sync('two', 1);
    await sync('one', 2);
    await sync('one', 3, { baseline: BASELINE });
    const before = lose();
    const report = await sync('two', 1);
    expect(report).toMatchObject({ chain: 'ahead', baseline: { name: 'good', run: 1 } });
    expect(rootsOf(registry.runs).slice(0, 3)).toEqual(before);
    expect(report.runs.map(({ run }) => run)).toEqual([1, 2, 3, 4]);
    expect(
      stored().filter((name) => /-run[12]-fence1\.db/.test(name) && !name.endsWith('.json')),
    ).toHaveLength(1);
    expect(await verified('two')).toMatchObject({ run: 4, problems: 0 });
    // The worker whose cache had the newest run continues as well.
    expect(await sync('one', 2)).toMatchObject({ chain: 'equal', runs: [{ run: 5 }] });
  });

  it('continues from the cache where storage did not get the newest run, also from that of another group', async () => {
    const { sync, lose, registry, directory, pass, work } = await fleet();
    await sync('one', 1);
    await sync('one', 2, { storage: NO_STORAGE });
    const before = lose();
    // While storage is away nobody knows whether it has a newer one.
    expect(await work('one', 1, { storage: NO_STORAGE })).toMatchObject({
      status: 'left',
      isOfStorage: true,
    });
    const group = join(directory, 'one', '7');
    const place = {
      mirror: join(group, `${CELL}.db`),
      configFile: join(group, `${CELL}.yaml`),
      rateLog: join(group, 'group'),
    };
    const report = registry.publish(await work('one', 2, place));
    expect(report).toMatchObject({ chain: 'ahead', storage: { stored: { run: 2 } } });
    expect(rootsOf(registry.runs)).toEqual(before);
    expect(readdirSync(join(directory, 'one', '1')).filter((name) => name.startsWith(`${CELL}.db`))).toEqual(
      [],
    );
    pass();
    expect(registry.publish(await work('one', 3, place))).toMatchObject({
      chain: 'equal',
      runs: [{ run: 3 }],
    });
  });

  it('continues from storage where that has the same run, and more entries of the audit log', async () => {
    const { sync, lose, registry, work } = await fleet();
    await sync('two', 1);
    registry.publish(await work('one', 2, { baseline: BASELINE }));
    const before = lose();
    const report = registry.publish(await work('two', 1));
    expect(report).toMatchObject({ chain: 'ahead', baseline: { name: 'good', run: 1 } });
    expect(rootsOf(registry.runs)).toEqual(before);
  });

  it('is quarantined where the cache and storage have two histories, which both stay', async () => {
    const { sync, lose, registry, stored, hide, verified, work, mirrorOf } = await fleet();
    await sync('two', 1);
    const first = registry.known;
    const one = await sync('one', 2);
    registry.known = first;
    const two = await sync('two', 3, { storage: NO_STORAGE });
    expect(two.runs).toMatchObject([{ run: 2 }]);
    expect(two.root).not.toBe(one.root);
    lose();
    const names = stored();
    const refused = await work('two', 1);
    expect(refused).toMatchObject({ status: 'quarantined', error: { code: 'mirror_corrupt' } });
    const { message } = refused.status === 'quarantined' ? refused.error : { message: '' };
    expect(message).toMatch(
      /^two histories of acme, of which none is continued until you move .*docs\/fleet\.md/,
    );
    expect(message).toContain(`${mirrorOf('two')} with run 2 has not`);
    expect(message).toContain(`-run2-fence2.db.zst has run 2 with the root hash ${one.root?.slice(0, 12)}…`);
    expect(stored()).toEqual(names);
    expect(await verified('two')).toMatchObject({ run: 2, root: two.root });
    // Once one of them is moved away, it continues from the other one.
    const restore = hide(2);
    expect(registry.publish(await work('two', 2))).toMatchObject({ chain: 'ahead', root: two.root });
    // The same of what storage alone has.
    restore();
    lose();
    rmSync(dirname(mirrorOf('two')), { recursive: true });
    expect(await work('three', 1)).toMatchObject({
      status: 'quarantined',
      error: { message: expect.stringMatching(/^two histories.*-fence2\.db.*-fence2\.db/) as string },
    });
  });

  it('keeps the run of a cache that storage did not get, where another worker continued without it', async () => {
    const { sync, lose, registry, mirrorOf, clock, warnings } = await fleet();
    await sync('one', 1);
    const only = await sync('one', 2, { storage: NO_STORAGE });
    lose();
    expect((await sync('two', 1)).runs.map(({ run }) => run)).toEqual([1, 2]);
    expect(await sync('one', 2)).toMatchObject({ chain: 'equal', runs: [{ run: 3 }] });
    expect(registry.runs.map(({ root }) => root)).not.toContain(only.root);
    const kept = `${mirrorOf('one')}-replaced`;
    const mirror = openMirror(kept, { mode: 'read', command: 'test', clock });
    expect(mirror.runs.latest(CELL)).toMatchObject({ run: 2, root: only.root });
    mirror.close();
    expect(warnings.filter((line) => line.includes(`it is kept as ${kept}`))).toHaveLength(1);
  });

  it('publishes the run of a worker that died before it could, though stored mirrors have higher fences', async () => {
    const { sync, lose, registry, service, work } = await fleet();
    for (const fence of [11, 12, 13, 14, 15]) await sync('one', fence);
    lose();
    await sync('two', 1);
    const known = registry.known;
    const unpublished = await sync('two', 2);
    registry.known = known;
    registry.runs.pop();
    const asked = service.seen.length;
    const report = registry.publish(await work('three', 3));
    expect(report).toMatchObject({ chain: 'ahead', root: unpublished.root, runs: [{ run: 7 }] });
    expect(service.seen).toHaveLength(asked);
  });
});

it('a new cell continues from the first run with the higher fence, where two workers stored one and died before they published it', async () => {
  const { work, registry, service, hide } = await fleet();
  await work('one', 1);
  const restore = hide(1);
  service.set(KIND, [{ id: 'r1', name: 'Changed' }]);
  const second = await work('two', 2);
  restore();
  const report = registry.publish(await work('three', 3));
  expect(report).toMatchObject({
    chain: 'ahead',
    root: second.status === 'worked' ? second.report.root : '',
  });
});
