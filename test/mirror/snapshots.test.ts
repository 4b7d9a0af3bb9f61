import { describe, expect, it } from 'vitest';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, begin, open, sync, testClock } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

async function twoRuns(): Promise<Mirror> {
  const mirror = open({ clock: testClock() });
  for (const name of ['A', 'B']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
  return mirror;
}

describe('snapshots', () => {
  it('pin published runs under names, listed by name', async () => {
    const mirror = await twoRuns();
    const pinned = {
      name: 'b',
      run: 1,
      pinnedAt: '2026-03-01T12:00:00.000Z',
      by: 'ann@here',
      via: 'ann@here',
      isBaseline: false,
    };
    expect(mirror.snapshots.pin('b', 1)).toEqual(pinned);
    expect(mirror.snapshots.pin('b', 1)).toEqual(pinned);
    mirror.snapshots.pin('a', 2);
    expect(mirror.snapshots.list()).toEqual([{ ...pinned, name: 'a', run: 2 }, pinned]);
    expect(mirror.snapshots.unpin('b')).toEqual(pinned);
    expect(mirror.snapshots.list().map(({ name }) => name)).toEqual(['a']);
  });

  it('do not rest on entries from before they were unpinned; earlier ones since then are named as such', async () => {
    const mirror = await twoRuns();
    mirror.snapshots.pin('a', 1);
    mirror.snapshots.unpin('a');
    mirror.snapshots.pin('a', 2);
    mirror.snapshots.pin('b', 1);
    mirror.snapshots.setBaseline('b');
    alterFile(mirror.path, `UPDATE audit_log SET via = 'eve@there' WHERE entry IN (1, 4)`);
    const lines = mirror.snapshots.contradictions().flatMap(({ name, line }) => (name === 'a' ? [line] : []));
    expect(lines).toEqual([]);
    expect(mirror.snapshots.unpin('a')).toMatchObject({ run: 2 });
    expect(() => mirror.snapshots.unpin('b')).toThrow(
      'snapshot "b" has an earlier entry in the audit log, entry 4, which is not as it was written',
    );
  });

  it('have at most one baseline', async () => {
    const mirror = await twoRuns();
    expect(mirror.snapshots.baseline()).toBeUndefined();
    mirror.snapshots.pin('a', 1);
    mirror.snapshots.pin('b', 2);
    expect(mirror.snapshots.setBaseline('a')).toMatchObject({ name: 'a', isBaseline: true });
    expect(mirror.snapshots.setBaseline('b')).toMatchObject({ name: 'b', isBaseline: true });
    expect(mirror.snapshots.list().map(({ isBaseline }) => isBaseline)).toEqual([false, true]);
    expect(() => mirror.snapshots.setBaseline('c')).toThrow(
      expect.objectContaining({ code: 'reference_unknown' }),
    );
    expect(mirror.snapshots.baseline()?.name).toBe('b');
    mirror.snapshots.unpin('b');
    expect(mirror.snapshots.baseline()).toBeUndefined();
  });

  it('take names that a reference can hold', async () => {
    const mirror = await twoRuns();
    for (const name of ['x', 'before-migration', 'v1.2_a', 'März', '三月', 'x'.repeat(100)]) {
      expect(mirror.snapshots.pin(name, 1).name).toBe(name);
    }
    for (const name of [
      '',
      ' ',
      ' x',
      'a b',
      'v1:2',
      'a/b',
      '<b>',
      "it's",
      '$x',
      '-x',
      'x ',
      'x\n',
      'a\tb',
      'a\u0000b',
      'a\u202eb',
      '\ud800',
      'x'.repeat(101),
    ]) {
      expect(() => mirror.snapshots.pin(name, 1), JSON.stringify(name)).toThrow(
        expect.objectContaining({ code: 'usage' }),
      );
    }
    expect(mirror.snapshots.list()).toHaveLength(6);
  });

  it('are of runs that were published', async () => {
    const mirror = await twoRuns();
    begin(mirror).abandon({ code: 'interrupted', message: 'stopped' });
    for (const [run, said] of [
      [3, /never published/],
      [9, /there is no run 9/],
    ] as const) {
      expect(() => mirror.snapshots.pin('x', run)).toThrow(
        expect.objectContaining({
          code: 'reference_unknown',
          message: expect.stringMatching(said) as string,
        }),
      );
    }
    mirror.snapshots.pin('x', 1);
    expect(() => mirror.snapshots.pin('x', 2)).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('unpin') as string }),
    );
    expect(() => mirror.snapshots.unpin('y')).toThrow(expect.objectContaining({ code: 'reference_unknown' }));
  });
});
