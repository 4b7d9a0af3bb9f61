/**
 * A temporary directory for each test file, which its child processes inherit: tests look for what is left behind there,
 * and must not see what other files' tests are doing meanwhile. In memory where there is room: on a disk, the tests wait for
 * SQLite, git and PostgreSQL to sync more than for anything else. `TMPDIR` names another place.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const MEMORY = '/dev/shm';
/** More than the files of all tests at a time take. */
const ROOM_BYTES = 2 * 1024 ** 3;

/** Whether programs may be started from there, as some tests do, and it is not the small one of a container. */
function hasRoomInMemory(): boolean {
  if (process.platform !== 'linux') return false;
  const mounted = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .findLast(([, directory]) => directory === MEMORY);
  const [, , type, options = ''] = mounted ?? [];
  if (type !== 'tmpfs' || !options.split(',').includes('rw') || options.split(',').includes('noexec'))
    return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize >= ROOM_BYTES;
}

const shared = process.env['TMPDIR'];
const own = mkdtempSync(
  join(shared === undefined && hasRoomInMemory() ? MEMORY : tmpdir(), 'tidemark-tests-'),
);
// Some tests act as another user.
chmodSync(own, 0o1777);
process.env['TMPDIR'] = own;

afterAll(() => {
  if (shared === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = shared;
  rmSync(own, { recursive: true, force: true });
});
