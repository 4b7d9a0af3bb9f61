/** The channels for alerts that `init` configures, from its options or asked for. */
import { openPoster, type Poster } from '../api/post.ts';
import { proxySettings } from '../config/proxy.ts';
import type { ChannelConfig } from '../config/channels.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { requireAccepted } from '../daemon/notices/channels/shared.ts';
import { createSend } from '../daemon/notices/sending.ts';
import type { CommandContext } from './context.ts';
import {
  answered,
  askedSecret,
  canAsk,
  inFile,
  interrupted,
  inVariable,
  variableMistake,
  type GivenKey,
  type InitOptions,
  refuse,
  refuseSecret,
  secretInClear,
} from './init-answers.ts';
import { CHANNELS, type InitChannelType } from './init-config.ts';
import { attempt } from './notify.ts';
import { askChoice, askText } from './prompt.ts';
import { commandLog } from './command-log.ts';

/** A channel, and where its secret is kept. */
export interface GivenChannel {
  readonly type: InitChannelType;
  readonly given: GivenKey;
  /** Recipient of e-mail; null for the other types. */
  readonly to: string | null;
}

const ADDRESS = /^[^\s@<>(),;:"]+@[^\s@<>(),;:"]+$/;

function addressMistake(text: string): string | undefined {
  return ADDRESS.test(text) ? undefined : 'expected an e-mail address without a name';
}

function isChannelType(text: string): text is InitChannelType {
  return Object.hasOwn(CHANNELS, text);
}

/**
 * The next channel; null if there is to be no other one.
 * @param earlier the channels so far
 */
export async function channelFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
  earlier: readonly GivenChannel[],
): Promise<GivenChannel | null> {
  const option = options.notify?.[earlier.length];
  if (option !== undefined) return channelFromOption(context, options, option, output);
  if (!canAsk(context)) return null;
  const types = Object.keys(CHANNELS).filter(isChannelType);
  const isFirst = earlier.length === 0;
  const question = isFirst ? 'Where should alerts go?' : 'Where else should alerts go?';
  const type = answered(
    await askChoice<InitChannelType | 'none'>(context, question, [
      isFirst
        ? { value: 'none', label: 'Nowhere for now', hint: 'nobody is notified of drift or failed runs' }
        : { value: 'none', label: 'Nowhere else' },
      ...types.map((value) => ({ value, label: CHANNELS[value].label })),
    ]),
  );
  if (type === 'none') return null;
  const { what } = CHANNELS[type];
  const count = earlier.filter((each) => each.type === type).length + 1;
  const numbered = (name: string, separator: string): string =>
    count === 1 ? name : `${name}${separator}${count}`;
  const variable = `${type.toUpperCase()}_${type === 'email' ? 'SMTP_URL' : what.includes('URL') ? 'URL' : 'KEY'}`;
  const given = await askedSecret(context, options, output, {
    where: `Where is the ${what}?`,
    variable: numbered(variable, '_'),
    secret: `The ${what.replace(/ \(.*/, '')} (not shown)`,
    check: (text) => secretMistake(type, text),
    newFile: `${numbered(`tidemark-${type}`, '-')}.secret`,
    taken: earlier.flatMap((each) => each.given.newFile ?? []),
    option: '--notify',
  });
  const to =
    type === 'email' ? answered(await askText(context, 'Send the mail to', { check: addressMistake })) : null;
  return { type, given, to };
}

/** @throws TidemarkError `usage` for a wrong `--notify` */
export function requireChannels(context: CommandContext, options: InitOptions, output: string): void {
  for (const option of options.notify ?? []) channelFromOption(context, options, option, output);
}

function channelFromOption(
  context: CommandContext,
  options: InitOptions,
  text: string,
  output: string,
): GivenChannel {
  const [type = '', reference = '', to = null, ...more] = text.split(':');
  if (!isChannelType(type) || reference === '' || more.length > 0 || (to !== null) !== (type === 'email')) {
    // The scheme of a URL ends with a colon.
    if (to?.startsWith('//') === true)
      throw secretInClear('--notify: an address is a secret, which', '--notify');
    refuseSecret(text, '--notify');
    throw new TidemarkError(
      'usage',
      `--notify: expected TYPE:VARIABLE, TYPE:FILE or email:VARIABLE:ADDRESS, got ${JSON.stringify(text)}`,
      { hint: `types are: ${Object.keys(CHANNELS).join(', ')}` },
    );
  }
  if (to !== null) refuse('--notify', addressMistake(to));
  const isVariable = variableMistake(reference) === undefined;
  const given = isVariable
    ? inVariable(context, reference, options, '--notify')
    : inFile(context, reference, output, '--notify');
  if (given.secret !== null) refuse('--notify', secretMistake(type, given.secret.reveal()));
  return { type, given, to };
}

function secretMistake(type: InitChannelType, text: string): string | undefined {
  const { key, what } = CHANNELS[type];
  const schemes =
    key === 'url' || key === 'success' ? ['http:', 'https:'] : key === 'smtpUrl' ? ['smtp:', 'smtps:'] : null;
  if (schemes === null) return text === '' ? `expected the ${what}` : undefined;
  if (URL.canParse(text) && schemes.includes(new URL(text).protocol)) return undefined;
  return `expected a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`;
}

/** Calls the URL of a ping, as after a complete sync. @returns the error; null if the call was accepted */
export async function testPing(context: CommandContext, url: Secret): Promise<TidemarkError | null> {
  return await withPoster(context, async (poster) => {
    try {
      const answer = await poster.post({
        ...{ method: 'POST', url, body: 'called by tidemark init, as a test\n', signal: context.signal },
        headers: { 'content-type': 'text/plain; charset=utf-8' },
      });
      requireAccepted(answer, [url], systemClock.now());
      return null;
    } catch (error) {
      if (context.signal.aborted) throw error;
      return asTidemarkError(error);
    }
  });
}

/** Sends a test notice. @returns the error; null if it was delivered */
export async function testChannel(
  context: CommandContext,
  channel: ChannelConfig,
): Promise<TidemarkError | null> {
  return await withPoster(context, async (poster) => {
    const log = commandLog(context, 'silent');
    const send = createSend({ poster, clock: systemClock, log, env: context.env });
    return (await attempt(send, channel, null, context.signal)).error;
  });
}

/** @throws TidemarkError `interrupted` if the user interrupts */
async function withPoster<T>(context: CommandContext, work: (poster: Poster) => Promise<T>): Promise<T> {
  const poster = openPoster(() => proxySettings(context.env));
  try {
    return await work(poster);
  } catch (error) {
    throw context.signal.aborted ? interrupted(error) : error;
  } finally {
    await poster.close();
  }
}
