import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/tools/build-program.ts'],
    setupFiles: ['test/tools/own-temporary-directory.ts'],
    pool: 'forks',
    // One process for many files: the program is loaded, and compiled, once for each worker. So a file leaves nothing behind.
    isolate: false,
    // Test files wait for processes and sockets more than they compute: as many at a time as there are cores leaves some idle.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
