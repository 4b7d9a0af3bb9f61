#!/usr/bin/env node
/**
 * argv in, exit code out. The only file that touches the process: arguments, environment, signals, exit code. Nothing
 * is imported before the version check, because better-sqlite3 crashes on an old Node instead of saying so.
 */
const OLDEST_NODE = [22, 18] as const;

/** The young generation as it is held, and how many arrays of 8 KB may be allocated until it has grown to that. */
const YOUNG_BYTES = 8 * 1024 * 1024;
const MOST_BALLAST = 1024;

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
}

/**
 * Tells V8 to collect before it grows. Left alone, it lets the young generation grow to 134 MB and the old one fourfold,
 * though some 20 MB live: 310 MB at 300,000 records, 404 MB at a million. Held at 16 MB and twofold, a sync peaks at the
 * same size from 100,000 records on, below 220 MB, and costs no more processor time (3.85 s against 3.84 s for 100,000).
 * Tried and left: `--optimize-for-size` and `--memory-saver-mode` (165 MB, but 30 % more processor time: V8 then marks all
 * the time); a young generation of 2 MB from the start (185 MB, 15 % more: it is scavenged five times a page).
 * Set here and not on Node's command line, so that it holds however the program is started. V8 reads both flags anew
 * whenever it sizes a generation; `--max-semi-space-size` is read once, before any of our code runs.
 *
 * The young generation is grown at once, by a ballast that lives through two collections (some 4 ms), and then held. To
 * watch the collections and hold it when it has grown is a race: where many modules load without the event loop turning,
 * it had reached 128 MB before anybody looked, and a sync 300 MB.
 */
async function boundHeap(): Promise<void> {
  const { getHeapSpaceStatistics, setFlagsFromString } = await import('node:v8');
  const youngBytes = (): number =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? Infinity;
  setFlagsFromString('--heap-growing-percent=100');
  // From the 1 MB that it begins with to 8 MB (counted twice) in one step, and then no further.
  setFlagsFromString('--semi-space-growth-factor=8');
  const ballast: number[][] = [];
  while (youngBytes() < YOUNG_BYTES && ballast.length < MOST_BALLAST)
    ballast.push(new Array<number>(1024).fill(0));
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Keeps V8's compiled code beside the built program, so that every start after the first saves some 25 ms. Nowhere else:
 * whoever may write there may write the program itself. Where that is nobody, as in the container, there is none. Sources
 * are run for development and tests, which bring a cache of their own (NODE_COMPILE_CACHE) where they want one.
 */
async function keepCompiledCode(): Promise<void> {
  const { enableCompileCache } = await import('node:module');
  if (import.meta.filename.endsWith('.js')) enableCompileCache(`${import.meta.dirname}/compile-cache`);
}

async function main(): Promise<number> {
  if (isTooOld(process.versions.node)) {
    process.stderr.write(
      `tidemark needs Node.js ${OLDEST_NODE.join('.')} or newer, this is ${process.versions.node}: install Node.js 24, or run through npm in a checkout\n`,
    );
    return 1;
  }
  await keepCompiledCode();
  await boundHeap();
  const { runCommandLine } = await import('./cli/program.ts');
  const { isReaderGone, outputLostText: lossText } = await import('./cli/output-watch.ts');
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort(new Error('interrupted'));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // Remarks that nobody can read any more: no reason to stop, and no place to say so.
  process.stderr.on('error', () => undefined);
  return runCommandLine(process.argv.slice(2), {
    env: process.env,
    cwd: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    onOutputLost: (error) => {
      // A reader that went away (`tidemark export | head`) is no failure of ours.
      if (isReaderGone(error)) process.exit(0);
      process.stderr.write(`${lossText(error)}\n`);
      process.exit(1);
    },
    signal: stop.signal,
    onHangup: (listener) => void process.on('SIGHUP', listener),
    leave: (code) => process.exit(code),
    pid: process.pid,
    execPath: process.execPath,
    entry: process.argv[1] ?? '',
  });
}

/** Node's own for a program whose last wait can never end. */
const NEVER_SETTLED = 13;
process.once('exit', (code) => {
  if (code !== NEVER_SETTLED) return;
  process.stderr.write(
    'tidemark stopped: everything that it waited for waits for something else; this is a defect of Tidemark: report it with the command that you ran\n',
  );
  process.exitCode = 1;
});
process.exitCode = await main();
