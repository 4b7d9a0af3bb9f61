/**
 * Runs a command of this program in a child process and reads the JSON document that it prints. So the MCP server itself opens
 * neither mirrors nor connections, and a command that takes too much time or memory does not affect it.
 */
import { spawn } from 'node:child_process';
import { nodeOptions } from '../core/child-process.ts';
import { afterRealTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';

/** How to start this program, and the options that every command gets (`--config`, `--source`). */
interface Program {
  readonly execPath: string;
  readonly entry: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly globalOptions: readonly string[];
}

interface Command {
  readonly args: readonly string[];
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

export interface Printed {
  readonly document: JsonValue;
  /** What it printed on stderr, such as why something could not be read. */
  readonly notes: string;
}

/** Commands at the same time: each takes some 100 MB, and a client may call many tools at once. */
const AT_ONCE = 3;
/** Waiting commands of all clients. */
const MOST_WAITING = 50;
const MOST_BYTES = 32 * 1024 * 1024;
const NOTES_CHARACTERS = 4_000;
/** Between SIGTERM and SIGKILL. */
const GRACE_MS = 3_000;

/** Runs a few commands at a time; others wait for their turn. */
export class ChildCommands {
  readonly #program: Program;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(program: Program) {
    this.#program = program;
  }

  /** Runs a command. @throws TidemarkError as `printedBy`, or because the command took too long or its answer is too large */
  async run(command: Command): Promise<Printed> {
    if (this.#waiting.length >= MOST_WAITING)
      throw new TidemarkError('throttled', 'too many tools were called at once', { hint: 'call it again' });
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      command.signal.throwIfAborted();
      return await this.#spawned(command);
    } finally {
      // The next waiting command takes its place.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  async #spawned({ args, limitMs, signal }: Command): Promise<Printed> {
    const { execPath, entry, env, cwd, globalOptions } = this.#program;
    const [name = '', ...rest] = args;
    const child = spawn(execPath, [...nodeOptions(), entry, name, ...globalOptions, '--json', ...rest], {
      env,
      cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stopped, stderr, received] = ['', '', 0];
    const stdout: Buffer[] = [];
    const stop = (why: string): void => {
      if (stopped !== '') return;
      stopped = why;
      child.kill('SIGTERM');
      afterRealTime(GRACE_MS, () => child.kill('SIGKILL'));
    };
    child.stdout.on('data', (chunk: Buffer) => {
      received += chunk.length;
      if (received > MOST_BYTES) stop(`its answer has more than ${MOST_BYTES / 1024 / 1024} MB`);
      else stdout.push(chunk);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (stderr.length < NOTES_CHARACTERS) stderr += text;
    });
    const cancelLimit = afterRealTime(limitMs, () => stop(`it took longer than ${limitMs / 1000} s`));
    const onAbort = (): void => stop('it was cancelled');
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await new Promise<void>((resolve, reject) => {
        child.once('error', reject);
        child.once('close', () => resolve());
      });
    } finally {
      cancelLimit();
      signal.removeEventListener('abort', onAbort);
    }
    if (stopped !== '') throw failed(stopped);
    return printedBy({ stdout: Buffer.concat(stdout).toString('utf8'), stderr });
  }
}

/**
 * The answer of a command that has ended.
 * @throws TidemarkError with the reason that the command gave, if it printed no document
 * @internal
 */
export function printedBy({ stdout, stderr }: { readonly stdout: string; readonly stderr: string }): Printed {
  const notes = stderr
    .slice(0, NOTES_CHARACTERS)
    .replaceAll(/^tidemark: /gm, '')
    .trim();
  if (stdout.trim() === '') throw failed(notes === '' ? 'it ended without an answer' : notes);
  const document = parseLossless(stdout);
  if (isJsonObject(document) && document['schema'] === 'tidemark.error/1') {
    const { message, hint } = document;
    throw new TidemarkError(
      'usage',
      typeof message === 'string' ? message : notes,
      typeof hint === 'string' ? { hint } : {},
    );
  }
  return { document, notes };
}

function failed(why: string): TidemarkError {
  return new TidemarkError('internal', why);
}
