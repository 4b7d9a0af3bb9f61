/** Commands: a program with its arguments, never a shell, which reads the notice as JSON. */
import { resolve } from 'node:path';
import type { ChannelOf } from '../../../config/channels.ts';
import { TidemarkError } from '../../../core/errors.ts';
import { endText, runProgram, startError } from '../../../core/program.ts';
import { type Message, noticeDocument } from '../message.ts';
import { byTemplate, type Sender } from './shared.ts';

export const sendByCommand: Sender<'command'> = (channel, message, signal, { env, log }) =>
  runCommand(channel, commandInput(channel, message, env), signal, (output) => {
    if (output !== '') log.debug({ channel: channel.name, output }, 'the command said');
  });

/** What it gets of this process's own environment: not the keys that are in there. */
const HANDED_ON = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** Of what it says; the rest is not kept. */
const OUTPUT_BYTES = 4096;
/** Between asking it to end and ending it. */
const END_GRACE_MS = 2000;

interface CommandInput {
  readonly input: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The input of the program: the JSON document, or the template's text, and a few variables. */
function commandInput(
  { template, env }: ChannelOf<'command'>,
  message: Message,
  own: Readonly<Record<string, string | undefined>>,
): CommandInput {
  const handedOn = HANDED_ON.flatMap((name): [string, string][] => {
    const value = own[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    input: byTemplate(template, message, (value) => value) ?? `${JSON.stringify(noticeDocument(message))}\n`,
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
 * Runs the program; after its time limit, kills it with all processes that it started.
 * @returns the beginning of what it said
 * @throws TidemarkError when it could not be started, or did not end with 0; the abort reason when the signal is aborted
 */
async function runCommand(
  { command, timeout: timeoutMs, directory }: ChannelOf<'command'>,
  { input, env }: CommandInput,
  signal: AbortSignal,
  onOutput: (text: string) => void,
): Promise<void> {
  const [first = '', ...args] = command.map((part) => part.reveal());
  // A bare name is looked up in PATH; a path starts where every path of the configuration does.
  const program = first.includes('/') ? resolve(directory, first) : first;
  const output = new FirstBytes();
  const end = await runProgram(program, args, {
    cwd: directory,
    env,
    input: [input],
    onStdout: output.keep,
    onStderr: output.keep,
    needsOutput: false,
    timeoutMs,
    graceMs: END_GRACE_MS,
    signal,
  });
  if (end === null)
    throw failed('timeout', `the command took longer than ${timeoutMs / 1000} s and was ended`);
  onOutput(output.text());
  if (end.error !== null) {
    // Its message may hold the arguments, and they secrets.
    const why = startError(end.error, end.error.code ?? 'no reason given');
    throw failed('file_system', `the command could not be started: ${why}`);
  }
  if (end.code === 0) return;
  throw failed('rejected', `the command ${endText(end)}`);
}

function failed(code: 'timeout' | 'file_system' | 'rejected', message: string): TidemarkError {
  return new TidemarkError(code, message, {
    hint: 'its output is in the log at level debug; `tidemark notify test` runs it',
    isRetryable: code !== 'rejected',
  });
}

class FirstBytes {
  readonly #chunks: Buffer[] = [];
  #length = 0;

  readonly keep = (chunk: Buffer): void => {
    if (this.#length < OUTPUT_BYTES) this.#chunks.push(chunk.subarray(0, OUTPUT_BYTES - this.#length));
    this.#length += chunk.length;
  };

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}
