/**
 * Bundles a program of the tests that they start as a process of its own, and kill: from its sources, each start would take
 * a second of the processor to load all of Tidemark.
 */
import { globSync, mkdtempSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { inject } from 'vitest';
import { bundle } from '../../build.ts';

const programs = new Map<string, Promise<string>>();

/** Builds `path`, a TypeScript file, once for all tests of this process; returns the path of what Node starts. */
export function childProgram(path: string): Promise<string> {
  const known = programs.get(path);
  if (known !== undefined) return known;
  const made = make(path);
  programs.set(path, made);
  return made;
}

async function make(path: string): Promise<string> {
  // Below node_modules, so that what stays outside the bundle is found from there; it goes with the run.
  const directory = mkdtempSync(join(inject('shared'), 'child-'));
  await bundle([path], directory, { entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' });
  // The workers that it starts are those of the built program.
  const built = dirname(inject('program'));
  for (const worker of globSync('*-worker.js', { cwd: built }))
    symlinkSync(join(built, worker), join(directory, worker));
  return join(directory, `${basename(path, '.ts')}.mjs`);
}
