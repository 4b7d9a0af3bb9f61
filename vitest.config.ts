import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/tools/build-program.ts'],
    setupFiles: ['test/tools/own-temporary-directory.ts'],
    pool: 'forks',
    // Test files wait for processes and sockets more than they compute: one at a time leaves a small machine idle.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
