/** Where short-lived files go. */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  makeTemporaryDirectory,
  sharedTemporaryDirectory,
  sqliteTemporaryPlace,
  temporaryPlace,
} from '../../src/core/temporary-place.ts';
import { temporaryDirectory } from '../mirror/fixture.ts';

afterEach(() => vi.unstubAllEnvs());

describe('the temporary place', () => {
  it('is what TMPDIR names, and /tmp where that is no directory to write in', () => {
    const named = temporaryDirectory();
    vi.stubEnv('TMPDIR', named);
    expect(temporaryPlace()).toBe(named);
    const made = makeTemporaryDirectory('x-');
    expect(dirname(made)).toBe(named);
    expect(statSync(made).mode & 0o777).toBe(0o700);
    expect(readdirSync(made)).toEqual([]);
    const file = join(named, 'file');
    writeFileSync(file, '');
    for (const place of [join(named, 'gone'), file]) {
      vi.stubEnv('TMPDIR', place);
      expect(temporaryPlace()).toBe('/tmp');
    }
  });

  it('that processes share is of this user alone, and not used where it is open to others or a link', () => {
    const named = temporaryDirectory();
    vi.stubEnv('TMPDIR', named);
    expect(sharedTemporaryDirectory({ isMade: false })).toBeNull();
    const shared = sharedTemporaryDirectory({ isMade: true })!;
    expect(dirname(shared)).toBe(named);
    expect(statSync(shared).mode & 0o777).toBe(0o700);
    expect(sharedTemporaryDirectory({ isMade: false })).toBe(shared);
    chmodSync(shared, 0o770);
    expect(sharedTemporaryDirectory({ isMade: true })).toBeNull();
    chmodSync(shared, 0o700);
    if (process.getuid?.() === 0) {
      chownSync(shared, 1, 1);
      expect(sharedTemporaryDirectory({ isMade: true })).toBeNull();
    }
    rmdirSync(shared);
    symlinkSync(temporaryDirectory(), shared);
    expect(sharedTemporaryDirectory({ isMade: true })).toBeNull();
  });

  it('of SQLite is the first that it may write: SQLITE_TMPDIR, TMPDIR, /var/tmp', () => {
    const [own, general] = ['own', 'general'].map((name) => join(temporaryDirectory(), name));
    mkdirSync(own!);
    mkdirSync(general!);
    vi.stubEnv('SQLITE_TMPDIR', own);
    vi.stubEnv('TMPDIR', general);
    expect(sqliteTemporaryPlace()).toBe(own);
    vi.stubEnv('SQLITE_TMPDIR', join(own!, 'gone'));
    expect(sqliteTemporaryPlace()).toBe(general);
    vi.stubEnv('SQLITE_TMPDIR', '');
    vi.stubEnv('TMPDIR', undefined);
    expect(sqliteTemporaryPlace()).toBe('/var/tmp');
  });
});
