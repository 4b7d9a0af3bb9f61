/** Commands: a program with its arguments, never a shell, which reads the notice as JSON. */
import type { ChildProcess } from 'node:child_process';
import type { CommandChannel } from '../../config/notice-channel.ts';
import { renderTemplate } from '../../config/notice-template.ts';
import { aborted } from '../../core/aborted.ts';
import { abortReason } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { closeOutput, endProgram, endText, programEnd, startProgram, startTrouble } from '../program.ts';
import { type Message, noticeDocument, templateValues } from './message.ts';

/** What it gets of this process's own environment: not the keys that stand in there. */
const HANDED_ON = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** Of what it says; the rest is not kept. */
const OUTPUT_BYTES = 4096;
/** Between asking it to end and ending it. */
const END_GRACE_MS = 2000;

interface CommandInput {
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
  const child = startProgram(program, args, { cwd: directory, env, stdin: 'pipe' });
  const output = keepOutput(child);
  const ended = programEnd(child).then((end) => {
    closeOutput(child);
    return end;
  });
  // One that does not read what it is given is no failure.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(input);
  // Not the Clock's: it guards a real process.
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const isOver = await Promise.race([ended.then(() => false), aborted(limit).then(() => true)]);
  if (isOver) {
    await endProgram(child, ended, aborted(AbortSignal.timeout(END_GRACE_MS)));
    if (signal.aborted) throw abortReason(signal);
    throw failed('timeout', `the command took longer than ${timeoutMs / 1000} s and was ended`);
  }
  const end = await ended;
  onOutput(output());
  if (end.error !== null) {
    // Its message may hold the arguments, and they secrets.
    const why = startTrouble(end.error, end.error.code ?? 'no reason given');
    throw failed('file_system', `the command could not be started: ${why}`);
  }
  if (end.code === 0) return;
  throw failed('rejected', `the command ${endText(end)}`);
}

function failed(code: 'timeout' | 'file_system' | 'rejected', message: string): TidemarkError {
  return new TidemarkError(code, message, {
    hint: 'what it said is in the log at debug; `tidemark notify test` runs it',
    isRetryable: code !== 'rejected',
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
