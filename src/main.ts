#!/usr/bin/env -S node --max-semi-space-size=4 --heap-growing-percent=50
/**
 * Starts the program. The only file that touches the process: arguments, environment, signals, exit code. Nothing is imported
 * before the version check, because better-sqlite3 crashes on an old Node instead of reporting that.
 *
 * The first line bounds the heap. By default, V8 lets the young generation grow to 100 MB, and the old one fourfold, before it
 * collects: 300 MB at 80,000 records instead of 180 MB, and at most 200 MB at a million (`npm run bench -- memory`). Without
 * these flags everything works, with more memory. npm's scripts, the container and the benches use the same flags
 * (`test/tools/node-flags.ts`).
 */
const OLDEST_NODE = [22, 18] as const;

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
}

/**
 * Keeps V8's compiled code beside the built program, which saves some 25 ms at every start after the first. Only there: who can
 * write there can change the program itself anyway. If nobody can, as in the container, nothing is kept. Development and tests
 * run the sources, and may set a cache of their own (NODE_COMPILE_CACHE).
 */
async function keepCompiledCode(): Promise<void> {
  const { enableCompileCache } = await import('node:module');
  if (import.meta.filename.endsWith('.js')) enableCompileCache(`${import.meta.dirname}/compile-cache`);
}

/** True if stdout and stderr are the same file, pipe or socket. */
async function haveOneFile(): Promise<boolean> {
  const { fstatSync } = await import('node:fs');
  try {
    const [out, err] = [fstatSync(1), fstatSync(2)];
    return out.dev === err.dev && out.ino === err.ino;
  } catch {
    // One of them is closed.
    return false;
  }
}

async function main(): Promise<number> {
  if (isTooOld(process.versions.node)) {
    process.stderr.write(
      `tidemark needs Node.js ${OLDEST_NODE.join('.')} or newer, this is ${process.versions.node}: install Node.js 24, or run through npm in a checkout\n`,
    );
    return 1;
  }
  await keepCompiledCode();
  const { runCommandLine } = await import('./cli/program.ts');
  const { isReaderGone, outputLostText: lossText } = await import('./cli/output-watch.ts');
  const stop = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort(new Error('interrupted', { cause: name }));
  };
  let isPaging = false;
  process.on('SIGINT', (name) => {
    if (!isPaging) onSignal(name);
  });
  process.on('SIGTERM', onSignal);
  // If stderr is closed, notes are lost; the program continues, and cannot report it anywhere.
  process.stderr.on('error', () => undefined);
  return runCommandLine(process.argv.slice(2), {
    env: process.env,
    cwd: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    isOneFile: await haveOneFile(),
    onOutputLost: (error) => {
      // A reader that closed the pipe (`tidemark export | head`) is not a failure.
      if (isReaderGone(error)) process.exit(0);
      process.stderr.write(`${lossText(error)}\n`);
      process.exit(1);
    },
    signal: stop.signal,
    onHangup: (listener) => void process.on('SIGHUP', listener),
    setPaging: (is) => {
      isPaging = is;
    },
    useUtc: () => {
      // Node reads the zone again after this.
      process.env['TZ'] = 'UTC';
    },
    leave: (code) => process.exit(code),
    pid: process.pid,
    execPath: process.execPath,
    entry: process.argv[1] ?? '',
  });
}

/** Node's exit code for a program that waits for something that can never happen. */
const NEVER_SETTLED = 13;
process.once('exit', (code) => {
  if (code !== NEVER_SETTLED) return;
  process.stderr.write(
    'tidemark stopped: internal deadlock; please report this bug, with the command that you ran\n',
  );
  process.exitCode = 1;
});
// Without a listener, Node opens a debugger port at this signal: whoever reaches it can do anything that this process can.
process.on('SIGUSR1', () => undefined);
process.exitCode = await main();
