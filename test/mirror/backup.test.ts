import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ORG, bodies, open, sync, temporaryDirectory } from './fixture.ts';

const roles = (count: number, name: string): string[] =>
  Array.from({ length: count }, (_unused, index) => `{"id":"r${index}","name":"${name} ${index}"}`);

/** More than the pages of one step. */
const manyRoles = (name: string): string[] =>
  Array.from(
    { length: 2500 },
    (_unused, i) => `{"id":"r${i}","name":"${name} ${i}","x":"${'x'.repeat(2000)}"}`,
  );

describe('a backup', () => {
  it('is a mirror of its own that holds all that was published, history included, and verifies', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, roles(20, 'A'));
    await sync(mirror, 'roles', ORG, roles(19, 'B'));
    const path = join(temporaryDirectory(), 'copy.db');
    await mirror.backupTo(path);
    expect(statSync(path).mode & 0o777).toBe(0o600);

    const copy = open({ path, mode: 'read' });
    expect(bodies(copy, 'roles')).toEqual(bodies(mirror, 'roles'));
    expect(bodies(copy, 'roles', 1)).toEqual(bodies(mirror, 'roles', 1));
    expect(copy.runs.list()).toEqual(mirror.runs.list());
    expect(await copy.verify()).toMatchObject({ problems: [], checked: { runs: 2 } });
  });

  it('is of the moment at which it began, and a run that is published meanwhile is not held up', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, manyRoles('A'));
    const reader = open({ path: mirror.path, mode: 'read' });
    const path = join(temporaryDirectory(), 'copy.db');
    const left: number[] = [];
    let published: Promise<unknown> | undefined;
    await reader.backupTo(path, {
      onProgress: ({ pagesLeft }) => {
        left.push(pagesLeft);
        published ??= sync(mirror, 'roles', ORG, manyRoles('B'));
      },
    });
    await published;
    expect(mirror.runs.list()).toHaveLength(2);
    // In several steps, each nearer to the end: it never began again.
    expect(left.length).toBeGreaterThan(1);
    expect(left).toEqual(left.toSorted((a, b) => b - a));
    const copy = open({ path, mode: 'read' });
    expect(copy.runs.list().filter(({ root }) => root !== null)).toHaveLength(1);
    expect(bodies(copy, 'roles')['r7']).toContain('A 7');
    expect(await copy.verify()).toMatchObject({ problems: [] });
  });

  it('takes the place of what stood there, with its log', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, roles(3, 'A'));
    const path = join(temporaryDirectory(), 'copy.db');
    for (const suffix of ['', '-wal', '-shm', '-journal'])
      writeFileSync(`${path}${suffix}`, 'something else');
    await mirror.backupTo(path);
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(bodies(open({ path, mode: 'read' }), 'roles')).toEqual(bodies(mirror, 'roles'));
  });

  it('leaves nothing when it is interrupted', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, manyRoles('A'));
    const directory = temporaryDirectory();
    const stop = new AbortController();
    const copied = mirror.backupTo(join(directory, 'copy.db'), {
      signal: stop.signal,
      onProgress: () => stop.abort(),
    });
    await expect(copied).rejects.toMatchObject({ code: 'interrupted' });
    expect(readdirSync(directory)).toEqual([]);
    // The mirror's own connections are as they were.
    await sync(mirror, 'roles', ORG, roles(1, 'B'));
  });

  it('says which path could not be written', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, roles(3, 'A'));
    const path = join(temporaryDirectory(), 'missing', 'copy.db');
    await expect(mirror.backupTo(path)).rejects.toMatchObject({
      code: 'file_system',
      message: expect.stringContaining(path) as string,
    });
  });
});
