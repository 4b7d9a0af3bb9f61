import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/tools/build-program.ts'],
    setupFiles: ['test/tools/own-temporary-directory.ts'],
    pool: 'forks',
    // Test files wait for processes and sockets more than they compute: as many at a time as there are cores leaves some idle.
    maxWorkers: availableParallelism() + 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
