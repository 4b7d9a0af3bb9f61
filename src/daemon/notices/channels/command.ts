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

/** The variables that it gets of this process's environment, which also has keys. */
const HANDED_ON = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** The most bytes of the output that are kept. */
const OUTPUT_BYTES = 4096;
/** Time between SIGTERM and SIGKILL. */
const END_GRACE_MS = 2000;

interface CommandInput {
  readonly input: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The input (the JSON document, or the template's text) and the environment of the program. */
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
 * Runs the program; at its time limit, kills it with all processes that it started.
 * @param onOutput gets the beginning of its output
 * @throws TidemarkError if it could not be started, or did not end with 0; the abort reason if the signal is aborted
 */
async function runCommand(
  { command, timeout: timeoutMs, directory }: ChannelOf<'command'>,
  { input, env }: CommandInput,
  signal: AbortSignal,
  onOutput: (text: string) => void,
): Promise<void> {
  const [first = '', ...args] = command.map((part) => part.reveal());
  // A bare name is looked up in PATH; a relative path starts in the directory of the configuration.
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
    // The message of the error may have the arguments, and these may be secrets.
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
