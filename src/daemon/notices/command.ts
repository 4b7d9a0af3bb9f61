/** Commands: a program with its arguments, never a shell, which reads the notice as JSON. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import type { CommandChannel } from '../../config/notice-rules.ts';
import { renderTemplate } from '../../config/notice-template.ts';
import { abortReason } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Message } from './message.ts';
import { noticeDocument, templateValues } from './message.ts';

/** What it gets of this process's own environment: not the keys that stand in there. */
const HANDED_ON = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** Of what it says; the rest is not kept. */
const OUTPUT_BYTES = 4096;
/** Between asking it to end and ending it. */
const END_GRACE_MS = 2000;

export interface CommandInput {
  readonly input: string;
  readonly env: Readonly<Record<string, string>>;
}

/** What the program is handed: the JSON document, or the template's text, and a few variables. */
export function commandInput(
  { template, env }: CommandChannel,
  message: Message,
  own: Readonly<Record<string, string | undefined>>,
): CommandInput {
  const values = templateValues(message);
  const handedOn = HANDED_ON.flatMap((name): [string, string][] => {
    const value = own[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    input:
      template === null
        ? `${JSON.stringify(noticeDocument(message))}\n`
        : renderTemplate(template, (name) => values[name]),
    env: {
      ...Object.fromEntries(handedOn),
      ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value.reveal()])),
      TIDEMARK_NOTICE_ID: message.id,
      TIDEMARK_NOTICE_EVENT: message.event,
      TIDEMARK_NOTICE_SOURCE: message.source,
      TIDEMARK_NOTICE_SEVERITY: message.severity,
      TIDEMARK_NOTICE_TITLE: message.title.replaceAll('\0', ''),
    },
  };
}

/**
 * Runs the program to its end, or ends it with all that it started when its time is over.
 * @returns the beginning of what it said
 * @throws TidemarkError when it could not be started, or did not end with 0; the abort reason when the signal is aborted
 */
export async function runCommand(
  { command, timeoutMs, directory }: CommandChannel,
  { input, env }: CommandInput,
  signal: AbortSignal,
  onOutput: (text: string) => void,
): Promise<void> {
  signal.throwIfAborted();
  const [program = '', ...args] = command.map((part) => part.reveal());
  const child = spawn(program, args, {
    cwd: directory,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    // A group of its own, so that what it starts ends with it.
    detached: true,
  });
  const output = keepOutput(child);
  const ended = endOf(child);
  // One that does not read what it is given is no failure.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  // Not the Clock's: it guards a real process.
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const isOver = await Promise.race([ended.then(() => false), aborted(limit).then(() => true)]);
  if (isOver) {
    await endGroup(child, ended);
    if (signal.aborted) throw abortReason(signal);
    throw failed('timeout', `the command took longer than ${timeoutMs / 1000} s and was ended`);
  }
  const end = await ended;
  onOutput(output());
  if (end.error !== null) throw failed('file_system', `the command could not be started: ${end.error}`);
  if (end.code === 0) return;
  const how = end.code === null ? `ended by ${end.signal ?? 'a signal'}` : `ended with exit code ${end.code}`;
  throw failed('rejected', `the command ${how}`);
}

function failed(code: 'timeout' | 'file_system' | 'rejected', message: string): TidemarkError {
  return new TidemarkError(code, message, {
    hint: 'what it said is in the log at debug; `tidemark notify test` runs it',
    isRetryable: code !== 'rejected',
  });
}

interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly error: string | null;
}

function endOf(child: ChildProcess): Promise<End> {
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'ENOENT' ? 'there is no such program' : (error.code ?? 'no reason given');
      resolve({ code: null, signal: null, error: why });
    });
    // Not `close`: what it left running in the background may hold its output open for ever.
    child.once('exit', (code, signal) => {
      resolve({ code, signal, error: null });
      child.stdout?.destroy();
      child.stderr?.destroy();
    });
  });
}

function keepOutput(child: ChildProcess): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  const keep = (chunk: Buffer): void => {
    if (length < OUTPUT_BYTES) chunks.push(chunk.subarray(0, OUTPUT_BYTES - length));
    length += chunk.length;
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => Buffer.concat(chunks).toString('utf8');
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

async function endGroup(child: ChildProcess, ended: Promise<End>): Promise<void> {
  signalGroup(child, 'SIGTERM');
  const isGone = await Promise.race([
    ended.then(() => true),
    aborted(AbortSignal.timeout(END_GRACE_MS)).then(() => false),
  ]);
  // What it started may outlive it.
  signalGroup(child, 'SIGKILL');
  if (!isGone) await ended;
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    // It is gone already.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
