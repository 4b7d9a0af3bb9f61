/**
 * Bundles a program of the tests that they start as a process of its own, and kill: from its sources, each start would take
 * a second of the processor to load all of Tidemark.
 */
import { globSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { inject, onTestFinished } from 'vitest';
import { bundle } from '../../build.ts';

/** Builds `path`, a TypeScript file; returns the path of what Node starts, which goes with the test. */
export async function childProgram(path: string): Promise<string> {
  // Below node_modules, so that what stays outside the bundle is found from there.
  const cache = join(import.meta.dirname, '../../node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, 'tidemark-child-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  await bundle([path], directory, { entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' });
  // The workers that it starts are those of the built program.
  const built = dirname(inject('program'));
  for (const worker of globSync('*-worker.js', { cwd: built }))
    symlinkSync(join(built, worker), join(directory, worker));
  return join(directory, `${basename(path, '.ts')}.mjs`);
}
