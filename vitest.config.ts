import { availableParallelism } from 'node:os';
import { matchesGlob } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What `npm run test:fast` leaves out: whole stories, processes, browsers, kills, long walks, and what else takes long. */
const SLOW = [
  'test/{backup,browser,container,docs,formats,journeys,properties}/**',
  'test/{api/{breaker,throttled-service},core/watchdog,report/value-text,sync/endless}.test.ts',
  'test/cli/{completion-shells,missing-mirror,names,output,pager,reasons,status,terminal}.test.ts',
  'test/daemon/{*,dashboard/{contradicted,html},http/*,notices/{ends,removed-source}}.test.ts',
  'test/fleet/{apply,cell-work,registry,serve,sql,work}.test.ts',
  'test/mirror/{absence,audit-log,backup,bit-flips,crash,field-shapes,file-task,forget,history}.test.ts',
  'test/mirror/{litestream,migrations,move,record-at,verify}.test.ts',
  'test/restore/{apply*,drill,look-and-write,lost-refused,pause-time,sent-again,shared-slots}.test.ts',
  'test/restore/{unanswered,undo-*,write-paths}.test.ts',
  'test/server/{many-recordings,page-shelf,replica-walk}.test.ts',
];

/**
 * Small files that take long. In a clean clone, where no run before says how long each takes, the largest are begun first,
 * and these would be left for the end, when the other processes have nothing to do any more.
 */
const LONG = [
  'browser/{dashboard,report,sources}',
  'container/{dockerfile,package}',
  'daemon/{backup-due,backup-failure,owed,problems,soak}',
  'docs/{adding-a-kind,snippets,sql-tools}',
  'fleet/work',
  'journeys/{daemon,daemon-jobs,demo,disk,drill,git,live,mcp,memory,mirror-move,page-restore,rate-limit}',
  'journeys/{recreated-by-hand,restore-families,undo-acted-since,undo-own,undo-unanswered,unkeepable}',
  'mirror/{bit-flips,crash,forget,history}',
  'properties/{churn,history-diff}',
  'restore/{apply-killed,undo-properties}',
].map((files) => `**/test/${files}.test.ts`);

const DRIZZLE = ['', '/better-sqlite3', '/migrator', '/node-postgres', '/pg-core', '/sqlite-core'].map(
  (part) => `drizzle-orm${part}`,
);

// Of glibc, read as a process starts: its memory that was freed is kept. To hand it back and get it again takes a twentieth of the
// processor's time in those that run the tests.
process.env['MALLOC_TRIM_THRESHOLD_'] ??= '100000000';
process.env['MALLOC_MMAP_THRESHOLD_'] ??= '32000000';

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean =>
      LONG.some((each) => matchesGlob(moduleId, each));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig(({ mode }) => ({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(mode === 'fast' ? SLOW : [])],
    globalSetup: ['test/tools/build-program.ts'],
    setupFiles: ['test/tools/own-temporary-directory.ts', 'test/tools/built-workers.ts'],
    // Text shows local times.
    env: { TZ: 'UTC' },
    // Bundled, since Node reads and copies drizzle-orm's package.json, 180 kB, for each of its modules: 2 s of the processor and
    // 100 MB in each process.
    deps: { optimizer: { ssr: { enabled: true, include: DRIZZLE } } },
    pool: 'forks',
    // One process for many files: the program is loaded, and compiled, once for each worker. So a file leaves nothing behind.
    isolate: false,
    // Test files wait for processes and sockets more than they compute: as many at a time as there are cores leaves some idle.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // How long `expect.poll` asks again: its own second is less than a busy machine takes for a page.
    expect: { poll: { timeout: 60_000 } },
  },
}));
