/** The command line within this process: for tables of cases, where a process for each would take too long. */
import { Writable } from 'node:stream';
import { runCommandLine } from '../../src/cli/program.ts';
import type { Clock } from '../../src/core/clock.ts';
import { inject } from 'vitest';

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

class Sink extends Writable {
  text = '';

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

interface Options {
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** False where jobs of a daemon and the work on a backup are to have processes of their own, as they have in earnest. */
  readonly isOneProcess?: boolean;
  /** What a restore waits by. */
  readonly clock?: Clock;
  /** True where stdout and stderr are one file, as with `2>&1`. */
  readonly isOneFile?: boolean;
}

/** A command that runs until somebody stops it. */
export interface Running {
  readonly ended: Promise<Ended>;
  /** What it has written to stderr so far. */
  readonly stderr: () => string;
  /** As SIGTERM does. */
  readonly stop: () => void;
  /** As SIGHUP does. */
  readonly reload: () => void;
}

/** Begins `tidemark ARGS`, away from any terminal. */
export function begin(args: readonly string[], options: Options): Running {
  const stdout = new Sink();
  const stderr = new Sink();
  const stopping = new AbortController();
  const hangups: (() => void)[] = [];
  const code = runCommandLine(args, {
    isOneProcess: true,
    ...options,
    stdin: { isTTY: false },
    stdout,
    stderr,
    signal: stopping.signal,
    onHangup: (listener) => void hangups.push(listener),
    pid: process.pid,
    execPath: process.execPath,
    entry: inject('program'),
  });
  return {
    ended: code.then((ended) => ({ code: ended, stdout: stdout.text, stderr: stderr.text })),
    stderr: () => stderr.text,
    stop: () => stopping.abort(new Error('interrupted')),
    reload: () => hangups.forEach((listener) => listener()),
  };
}

/** Runs `tidemark ARGS` to its end, away from any terminal. */
export function commandLine(args: readonly string[], options: Options): Promise<Ended> {
  return begin(args, options).ended;
}
