/**
 * Builds the program once for the whole run, as users get it: tests that start processes run what ships, and each start takes
 * a fifth of what it takes from the sources. Into a directory of its own, since `dist/` may be at work elsewhere.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildProgram } from '../../build.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Path of the built program's entry. */
    program: string;
    /** A directory of the run for what its test files share. */
    shared: string;
  }
}

export default async function setup(project: TestProject): Promise<() => void> {
  // Below node_modules, so that what stays outside the bundle is found from there.
  const cache = join(import.meta.dirname, '../../node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, 'tidemark-tests-'));
  // Some tests act as another user.
  chmodSync(directory, 0o755);
  const built = join(directory, 'dist');
  const shared = join(directory, 'shared');
  await buildProgram(built);
  mkdirSync(shared);
  project.provide('program', join(built, 'main.js'));
  project.provide('shared', shared);
  return () => rmSync(directory, { recursive: true, force: true });
}
