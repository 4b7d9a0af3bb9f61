/**
 * The heap is held whatever a command loads: that it was not was once seen by `npm run bench` alone, which measures whole
 * syncs (design.md, invariant 11).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { nodeFlags } from '../tools/node-flags.ts';
import { environment, scratch, runProgram } from './harness.ts';
import { FakeService } from './service.ts';

const MOST_BYTES = 24 * 1024 * 1024;

it('holds the young generation, by the flags that the program is started with, through a sync whose garbage would let it grow', async () => {
  const service = await FakeService.start();
  const records = Array.from({ length: 3000 }, (_, n) => ({
    ...{ id: `d-${n}`, domain: `d${n}.example` },
    verification_challenge: 'x'.repeat(2000),
  }));
  service.set('domains', records);
  const directory = scratch();
  const told = join(directory, 'young');
  const { code, stderr } = await runProgram(['sync', '--quiet'], {
    env: { ...environment(service.url, directory), YOUNG_GENERATION_FILE: told },
    node: [...nodeFlags(), '--import', fileURLToPath(new URL('young-generation.ts', import.meta.url))],
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(Number(readFileSync(told, 'utf8'))).toBeLessThan(MOST_BYTES);
});
