/** Starts an image's entry point the way an engine does: its environment and user, nothing of the caller's. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { isRoot, type Image } from './image.ts';

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Instead of the image's user, as `--user` has it. */
  readonly user?: { readonly uid: number; readonly gid: number };
}

export function startContainer(
  image: Image,
  args: readonly string[],
  options: StartOptions = {},
): { child: ChildProcess; ended: Promise<Ended> } {
  return startProgram(image, [...image.entrypoint, ...args], options);
}

/** Starts a program beside it, as an engine does for a health check or `exec`. */
export function startProgram(
  image: Image,
  command: readonly string[],
  options: StartOptions = {},
): { child: ChildProcess; ended: Promise<Ended> } {
  const [program = '', ...words] = command;
  // What is outside of it already, such as a scratch directory, stays there.
  const inside = (word: string): string =>
    word.startsWith('/') && !word.startsWith(image.root) ? join(image.root, word) : word;
  const env = Object.entries(image.env).map(([name, value]) => [name, inside(value)] as const);
  const child = spawn(
    program.startsWith('/') ? inside(program) : join(image.root, 'usr/local/bin', program),
    words.map(inside),
    {
      cwd: join(image.root, image.workdir),
      env: { ...Object.fromEntries(env), ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(isRoot ? (options.user ?? image.user) : {}),
    },
  );
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

/** Runs it to its end. */
export function runContainer(
  image: Image,
  args: readonly string[],
  options: StartOptions = {},
): Promise<Ended> {
  return startContainer(image, args, options).ended;
}
