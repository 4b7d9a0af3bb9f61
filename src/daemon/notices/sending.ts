/** Sends one message through one channel, whatever its type. */
import type { ChildProcess } from 'node:child_process';
import type { Poster, PostRequest } from '../../api/post.ts';
import type { ChannelConfig, SlackChannel, CommandChannel } from '../../config/notice-channel.ts';
import type { NoticeEvent } from '../../config/notice-channel.ts';
import { renderTemplate } from '../../config/notice-rules.ts';
import { aborted } from '../../core/aborted.ts';
import { type Clock, abortReason } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import {
  closeOutput,
  endProgram,
  endText,
  programEnd,
  startProgram,
  startError,
} from '../../core/program.ts';
import { mailOf, sendMail } from './email.ts';
import { withoutMentions } from './webhook.ts';
import { type Message, linesOf, templateValues, noticeDocument } from './message.ts';
import { requireAccepted, webhookRequest } from './webhook.ts';

interface SendingEffects {
  readonly poster: Poster;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this process; commands get only a few harmless variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Delivers or throws. */
export type Send = (channel: ChannelConfig, message: Message, signal: AbortSignal) => Promise<void>;

/**
 * The sender over real sockets, mail servers and processes. It throws a TidemarkError that holds no secret of the channel,
 * `isRetryable` false where the receiver refused this very message; the abort reason when the signal is aborted.
 */
export function createSend({ poster, clock, log, env }: SendingEffects): Send {
  return async (channel, message, signal) => {
    if (channel.problem !== null) {
      throw new TidemarkError('config_invalid', channel.problem, {
        hint: 'correct the configuration of the channel; `tidemark config check` reads it again',
        isRetryable: true,
      });
    }
    switch (channel.type) {
      case 'webhook': {
        const answer = await poster.post({ ...webhookRequest(channel, message, clock.now()), signal });
        const secrets = channel.secret === null ? [channel.url] : [channel.url, channel.secret];
        requireAccepted(answer, secrets, clock.now());
        return;
      }
      case 'slack': {
        const answer = await poster.post({ ...slackRequest(channel, message), signal });
        requireAccepted(answer, [channel.url], clock.now());
        return;
      }
      case 'email': {
        const refused = await sendMail(channel, mailOf(channel, message), signal);
        if (refused > 0)
          log.warn({ channel: channel.name, refused }, 'the mail server refused some recipients');
        return;
      }
      case 'command': {
        await runCommand(channel, commandInput(channel, message, env), signal, (output) => {
          if (output !== '') log.debug({ channel: channel.name, output }, 'the command said');
        });
        return;
      }
    }
  };
}

// Slack's incoming webhooks, and what understands the same: Mattermost, Rocket.Chat, Discord's `/slack` addresses.

// Slack's limits: 150 for a header, 3,000 for a section, 40,000 for `text`, of which it advises to keep to 4,000.
const HEADER_LENGTH = 150;
const SECTION_LENGTH = 3000;
const TEXT_LENGTH = 4000;

const COLOURS = { critical: '🔴', high: '🟠', medium: '🟡', low: '🟢' } as const;
const WELL = '🟢';
/** What got better, however grave it was. */
const BETTER: ReadonlySet<string> = new Set<NoticeEvent>([
  'run_recovered',
  'sync_on_time',
  'removals_settled',
  'drift_resolved',
  'verify_recovered',
  'drill_recovered',
  'job_recovered',
]);

/** What is posted: `text` for notifications and for receivers that know no blocks, `blocks` for the message itself. */
export function slackRequest({ url, template }: SlackChannel, message: Message): PostRequest {
  return {
    method: 'POST',
    url,
    body: JSON.stringify(template === null ? ownForm(message) : { text: byTemplate(template, message) }),
    headers: { 'content-type': 'application/json', 'idempotency-key': message.id },
  };
}

function byTemplate(template: string, message: Message): string {
  const values = templateValues(message);
  // What is written in the template may be Slack's markup; what is put in may not.
  return cut(
    renderTemplate(template, (name) => escaped(values[name])),
    TEXT_LENGTH,
  );
}

function ownForm(message: Message): object {
  const { severity, title, hint, event, at } = message;
  const lines = linesOf(message);
  const heading = withoutMentions(`${BETTER.has(event) ? WELL : COLOURS[severity]} ${title}`);
  const below = [event, at, ...(message.run === null ? [] : [`run ${message.run}`])].join(' · ');
  const bodies = [...(lines.length === 0 ? [] : [lines.join('\n')]), ...(hint === null ? [] : [`→ ${hint}`])];
  return {
    text: cut(escaped([heading, ...lines, ...(hint === null ? [] : [`→ ${hint}`])].join('\n')), TEXT_LENGTH),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: cut(heading, HEADER_LENGTH), emoji: false } },
      ...bodies.map((text) => ({ type: 'section', text: markup(text) })),
      { type: 'context', elements: [markup(below)] },
    ],
  };
}

/** `verbatim`: names and links that a record holds are not made to work. */
function markup(text: string): object {
  return { type: 'mrkdwn', text: cut(escaped(text), SECTION_LENGTH), verbatim: true };
}

/** Without mentions, and without the three characters by which Slack knows links and markup. */
function escaped(text: string): string {
  return withoutMentions(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Cuts to a number of UTF-16 units, never inside a character or an escape. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text
    .slice(0, length - 1)
    .replace(/&[a-z]{0,3}$/, '')
    .replace(/[\ud800-\udbff]$/, '')}…`;
}

// Commands: a program with its arguments, never a shell, which reads the notice as JSON.

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
async function runCommand(
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
  // One that does not read what it is given is not a failure.
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
