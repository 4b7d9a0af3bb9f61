/**
 * Runs a command of this program in a child process and reads the JSON document that it prints: whatever an MCP client asks
 * for, the server itself opens no mirror and no connection, and a command that takes too long or too much ends alone.
 */
import { spawn } from 'node:child_process';
import { nodeOptions } from '../core/child-process.ts';
import { afterRealTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';

/** How this program is started again, and with which options that all its commands take (`--config`, `--source`). */
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
  /** What it said beside the document, such as why something could not be read. */
  readonly notes: string;
}

/** Commands at once: each takes some 100 MB, and a client may call many tools together. */
const AT_ONCE = 3;
/** Waiting ones, over all clients. */
const MOST_WAITING = 50;
const MOST_BYTES = 32 * 1024 * 1024;
const NOTES_CHARACTERS = 4_000;
/** Between asking a command to stop and ending it. */
const GRACE_MS = 3_000;

export class ChildCommands {
  readonly #program: Program;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(program: Program) {
    this.#program = program;
  }

  /** @throws TidemarkError as `printedBy`, or because the command took too long or too much */
  async run(command: Command): Promise<Printed> {
    if (this.#waiting.length >= MOST_WAITING)
      throw new TidemarkError('throttled', 'too many tools were called at once', { hint: 'call it again' });
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      command.signal.throwIfAborted();
      return await this.#spawned(command);
    } finally {
      // Its place goes to the next one.
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
 * What a command that has ended answers.
 * @throws TidemarkError with the reason that the command gave where it printed no document
 * @internal
 */
export function printedBy({ stdout, stderr }: { readonly stdout: string; readonly stderr: string }): Printed {
  const notes = stderr
    .slice(0, NOTES_CHARACTERS)
    .replaceAll(/^tidemark: /gm, '')
    .trim();
  if (stdout.trim() === '') throw failed(notes === '' ? 'it ended without an answer' : notes);
  const document = parseLossless(stdout);
  // Its own error, with a code and a hint.
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
