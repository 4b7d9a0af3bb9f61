import { describe, expect, it } from 'vitest';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, begin, open, sync, testClock } from './fixture.ts';

async function twoRuns(): Promise<Mirror> {
  const mirror = open({ clock: testClock() });
  for (const name of ['A', 'B']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
  return mirror;
}

describe('snapshots', () => {
  it('pin published runs under names, listed by name', async () => {
    const mirror = await twoRuns();
    const pinned = { name: 'b', run: 1, pinnedAt: '2026-03-01T12:00:00.000Z', isBaseline: false };
    expect(mirror.pin('b', 1)).toEqual(pinned);
    expect(mirror.pin('b', 1)).toEqual(pinned);
    mirror.pin('a', 2);
    expect(mirror.snapshots()).toEqual([{ ...pinned, name: 'a', run: 2 }, pinned]);
    expect(mirror.unpin('b')).toEqual(pinned);
    expect(mirror.snapshots().map(({ name }) => name)).toEqual(['a']);
  });

  it('have at most one baseline', async () => {
    const mirror = await twoRuns();
    expect(mirror.baseline()).toBeUndefined();
    mirror.pin('a', 1);
    mirror.pin('b', 2);
    expect(mirror.setBaseline('a')).toMatchObject({ name: 'a', isBaseline: true });
    expect(mirror.setBaseline('b')).toMatchObject({ name: 'b', isBaseline: true });
    expect(mirror.snapshots().map(({ isBaseline }) => isBaseline)).toEqual([false, true]);
    expect(() => mirror.setBaseline('c')).toThrow(expect.objectContaining({ code: 'reference_unknown' }));
    expect(mirror.baseline()?.name).toBe('b');
    mirror.unpin('b');
    expect(mirror.baseline()).toBeUndefined();
  });

  it('take names that a reference can hold', async () => {
    const mirror = await twoRuns();
    for (const name of ['x', 'before-migration', 'v1.2_a', 'März', '三月', 'x'.repeat(100)]) {
      expect(mirror.pin(name, 1).name).toBe(name);
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
      expect(() => mirror.pin(name, 1), JSON.stringify(name)).toThrow(
        expect.objectContaining({ code: 'usage' }),
      );
    }
    expect(mirror.snapshots()).toHaveLength(6);
  });

  it('are of runs that were published', async () => {
    const mirror = await twoRuns();
    begin(mirror).abandon({ code: 'interrupted', message: 'stopped' });
    for (const [run, said] of [
      [3, /never published/],
      [9, /there is no run 9/],
    ] as const) {
      expect(() => mirror.pin('x', run)).toThrow(
        expect.objectContaining({
          code: 'reference_unknown',
          message: expect.stringMatching(said) as string,
        }),
      );
    }
    mirror.pin('x', 1);
    expect(() => mirror.pin('x', 2)).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('unpin') as string }),
    );
    expect(() => mirror.unpin('y')).toThrow(expect.objectContaining({ code: 'reference_unknown' }));
  });
});
