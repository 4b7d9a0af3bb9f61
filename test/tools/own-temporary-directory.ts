/**
 * A temporary directory for each test file, which its child processes inherit: tests look for what is left behind there,
 * and must not see what other files' tests are doing meanwhile.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const shared = process.env['TMPDIR'];
const own = mkdtempSync(join(tmpdir(), 'tidemark-tests-'));
// Some tests act as another user.
chmodSync(own, 0o1777);
process.env['TMPDIR'] = own;

afterAll(() => {
  if (shared === undefined) delete process.env['TMPDIR'];
  else process.env['TMPDIR'] = shared;
  rmSync(own, { recursive: true, force: true });
});
