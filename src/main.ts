#!/usr/bin/env node
/**
 * argv in, exit code out. The only file that touches the process: arguments, environment, signals, exit code. Nothing
 * is imported before the version check, because better-sqlite3 crashes on an old Node instead of saying so.
 */
const OLDEST_NODE = [22, 18] as const;

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
}

async function main(): Promise<number> {
  if (isTooOld(process.versions.node)) {
    process.stderr.write(
      `tidemark needs Node.js ${OLDEST_NODE.join('.')} or newer, this is ${process.versions.node}: install Node.js 24, or run through npm in a checkout\n`,
    );
    return 1;
  }
  const { setFlagsFromString } = await import('node:v8');
  // V8 lets its heap grow out of laziness, to 400 MB at a million records; told to mind its size, it holds half of that.
  setFlagsFromString('--optimize-for-size');
  setFlagsFromString('--max-semi-space-size=8');
  const { runCommandLine } = await import('./cli/program.ts');
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(130);
    stop.abort(new Error('interrupted'));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  // A reader that went away (`tidemark export | head`) is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`tidemark: the output could not be written: ${error.message}\n`);
    process.exit(1);
  });
  return runCommandLine(process.argv.slice(2), {
    env: process.env,
    cwd: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    signal: stop.signal,
    pid: process.pid,
    execPath: process.execPath,
    entry: process.argv[1] ?? '',
  });
}

process.exitCode = await main();
