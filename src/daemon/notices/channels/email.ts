/** Sends a notice as plain text and simple HTML. The only file that uses nodemailer. */
import type { ChannelOf } from '../../../config/channels.ts';
import { isLoopback } from '../../../core/local-url.ts';
import { abortReason } from '../../../core/clock.ts';
import { TidemarkError, type ErrorCode } from '../../../core/errors.ts';
import { escapeControlCharacters } from '../../../core/escape-control.ts';
import { type Message, linesOf } from '../message.ts';
import { byTemplate, scrubbed, type Sender } from './shared.ts';

type EmailChannel = ChannelOf<'email'>;

export const sendEmail: Sender<'email'> = async (channel, message, signal, { log, onRefused }) => {
  const refused = await sendMail(channel, mailOf(channel, message), signal);
  if (refused.length === 0) return;
  log.warn({ channel: channel.name, refused }, 'the mail server refused some recipients');
  onRefused?.(channel.name, refused);
};

interface Address {
  readonly name: string;
  readonly address: string;
}

/** A message for nodemailer. Addresses are objects, so that nodemailer does not look for more of them in a text. */
interface Mail {
  readonly from: Address;
  readonly to: readonly Address[];
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly messageId: string;
  readonly date: Date;
  readonly headers: Readonly<Record<string, string>>;
}

/** Mail programs cut longer subjects. */
const SUBJECT_LENGTH = 200;

/** The mail, the same for every attempt: a repeated one is recognized by its Message-ID. @internal */
export function mailOf({ from, to, subject, template, name }: EmailChannel, message: Message): Mail {
  const sender = addressOf(from);
  const { title, hint, link, event, at, run, source } = message;
  const facts = [`event: ${event}`, `at: ${at}`, ...(source === '' ? [] : [`source: ${source}`])];
  const lines = [
    title,
    ...linesOf(message),
    ...(hint === null ? [] : ['', hint]),
    ...(link === null ? [] : ['', link]),
    '',
    ...facts,
    ...(run === null ? [] : [`run: ${run}`]),
  ];
  const text = byTemplate(template, message, (value) => value) ?? lines.join('\n');
  const heading = byTemplate(subject, message, (value) => value) ?? `[tidemark] ${title}`;
  return {
    from: sender,
    to: to.map(addressOf),
    subject: escapeControlCharacters(heading).slice(0, SUBJECT_LENGTH).toWellFormed(),
    text: `${text}\n`,
    html: htmlOf(text),
    messageId: `<${message.id}.${name}@${sender.address.slice(sender.address.lastIndexOf('@') + 1)}>`,
    date: new Date(at),
    headers: {
      // RFC 3834: prevents automatic replies.
      'Auto-Submitted': 'auto-generated',
      'X-Tidemark-Event': event,
      'X-Tidemark-Notice': message.id,
    },
  };
}

function addressOf(text: string): Address {
  const named = /^([^<>]*)<([^<>]*)>$/.exec(text);
  return { name: named?.[1]?.trim() ?? '', address: (named?.[2] ?? text).trim() };
}

function htmlOf(text: string): string {
  const safe = text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
  const [first = '', ...rest] = safe.split('\n');
  return `<!doctype html><html><body style="font-family:sans-serif"><p><strong>${first}</strong></p><p>${rest.join('<br>\n')}</p></body></html>\n`;
}

/** What nodemailer reports besides its types. */
interface Refusals {
  readonly rejected: readonly unknown[];
  readonly rejectedErrors?:
    | readonly { readonly recipient?: string | undefined; readonly response?: string | undefined }[]
    | undefined;
}

/** Limits of one message, milliseconds. */
const LIMITS = { connectionMs: 10_000, greetingMs: 10_000, socketMs: 20_000, totalMs: 45_000 };

/**
 * Sends one message through the channel's server. Credentials are sent only over an encrypted connection, unless the server is this
 * machine.
 * @returns the recipients that the server refused, each with its response
 * @throws TidemarkError without the credentials; the abort reason if the signal is aborted
 */
async function sendMail(channel: EmailChannel, mail: Mail, signal: AbortSignal): Promise<readonly string[]> {
  signal.throwIfAborted();
  const { createTransport } = await import('nodemailer');
  const url = new URL(channel.smtpUrl.reveal());
  const isSecure = url.protocol === 'smtps:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const port = url.port === '' ? (isSecure ? 465 : 587) : Number(url.port);
  const hasCredentials = url.username !== '' || url.password !== '';
  const transport = createTransport({
    host,
    port,
    secure: isSecure,
    requireTLS: hasCredentials && !isLoopback(host),
    ...(hasCredentials
      ? { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }
      : {}),
    connectionTimeout: LIMITS.connectionMs,
    greetingTimeout: LIMITS.greetingMs,
    socketTimeout: LIMITS.socketMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  // Not the Clock's time: this is a limit for a real socket.
  const limit = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.totalMs)]);
  const over = new AbortController();
  try {
    const info = await Promise.race([
      transport.sendMail({ ...mail, to: [...mail.to], headers: { ...mail.headers } }),
      new Promise<never>((_resolve, reject) => {
        limit.addEventListener('abort', () => reject(new LimitPassed()), { once: true, signal: over.signal });
      }),
    ]);
    const { rejectedErrors = [] }: Refusals = info;
    return rejectedErrors.map(({ recipient, response }) =>
      [recipient, response].map((text) => scrubbed(text ?? '', [channel.smtpUrl])).join(': '),
    );
  } catch (error) {
    if (signal.aborted) throw abortReason(signal);
    throw mailError(error, `${host}:${port}`, channel);
  } finally {
    over.abort();
    transport.close();
  }
}

/** The message as a whole took too long. */
class LimitPassed extends Error {
  readonly code = 'ETIMEDOUT';
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  EAUTH: 'unauthorized',
  ENOAUTH: 'unauthorized',
  EENVELOPE: 'rejected',
  EMESSAGE: 'rejected',
  ETIMEDOUT: 'timeout',
  EPROTOCOL: 'malformed',
};

const WORDS: Readonly<Partial<Record<ErrorCode, string>>> = {
  unauthorized: 'the mail server refused the credentials',
  rejected: 'the mail server refused the message',
  timeout: 'the mail server took too long',
  malformed: 'the mail server does not speak SMTP',
  unreachable: 'the mail server could not be used',
};

function mailError(error: unknown, host: string, { smtpUrl }: EmailChannel): TidemarkError {
  const facts = error as { readonly code?: unknown; readonly response?: unknown; readonly message?: unknown };
  const code = (typeof facts.code === 'string' ? CODES[facts.code] : undefined) ?? 'unreachable';
  const said = typeof facts.response === 'string' ? facts.response : facts.message;
  const why = typeof said === 'string' ? scrubbed(said, [smtpUrl]) : '';
  // The cause stays out: it holds what was sent to the server.
  return new TidemarkError(code, `${host}: ${WORDS[code] ?? 'it failed'}${why === '' ? '' : `: ${why}`}`, {
    hint: /certificate/i.test(why)
      ? 'have the mail server show a certificate that this machine trusts, or trust it: NODE_EXTRA_CA_CERTS=FILE before the daemon starts'
      : 'check smtpUrl, from and to of the channel; `tidemark notify test` tries it',
    isRetryable: code !== 'rejected',
  });
}
