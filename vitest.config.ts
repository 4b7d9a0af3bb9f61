import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

/** What `npm run test:fast` leaves out: whole stories, processes, browsers, kills and long walks. */
const SLOW = [
  'test/{backup,browser,container,docs,journeys,properties}/**',
  'test/daemon/*.test.ts',
  'test/fleet/work.test.ts',
  'test/daemon/http/**',
  'test/cli/reasons.test.ts',
  'test/mirror/{absence,bit-flips,crash,field-shapes,forget,history,litestream,verify}.test.ts',
  'test/restore/{apply*,look-and-write,lost-refused,sent-again,undo-*}.test.ts',
];

export default defineConfig(({ mode }) => ({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(mode === 'fast' ? SLOW : [])],
    globalSetup: ['test/tools/build-program.ts'],
    setupFiles: ['test/tools/own-temporary-directory.ts'],
    // Text shows local times.
    env: { TZ: 'UTC' },
    pool: 'forks',
    // One process for many files: the program is loaded, and compiled, once for each worker. So a file leaves nothing behind.
    isolate: false,
    // Test files wait for processes and sockets more than they compute: as many at a time as there are cores leaves some idle.
    maxWorkers: availableParallelism() + 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
}));
