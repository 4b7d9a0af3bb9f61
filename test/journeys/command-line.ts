/** The command line within this process: for tables of cases, where a process for each would take too long. */
import { Writable } from 'node:stream';
import { runCommandLine } from '../../src/cli/program.ts';
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

/** Runs `tidemark ARGS` to its end, away from any terminal. */
export async function commandLine(
  args: readonly string[],
  options: { readonly env: Readonly<Record<string, string>>; readonly cwd: string },
): Promise<Ended> {
  const stdout = new Sink();
  const stderr = new Sink();
  const code = await runCommandLine(args, {
    ...options,
    stdin: { isTTY: false },
    stdout,
    stderr,
    signal: new AbortController().signal,
    pid: process.pid,
    execPath: process.execPath,
    entry: inject('program'),
  });
  return { code, stdout: stdout.text, stderr: stderr.text };
}
