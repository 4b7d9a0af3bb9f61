/** The channel of alerts that `init` sets up, from its option or asked for. */
import { openPoster } from '../api/post.ts';
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
  inVariable,
  variableMistake,
  type GivenKey,
  type InitOptions,
  refuseSecret,
  secretInClear,
} from './init-answers.ts';
import { CHANNELS, type InitChannelType } from './init-config.ts';
import { attempt } from './notify.ts';
import { askChoice, askText } from './prompt.ts';
import { commandLog } from './source-probe.ts';

/** A channel with where its secret is kept. */
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
 * Null where nobody else is to be notified.
 * @param earlier the channels before it
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

/** @throws TidemarkError `usage` for a channel that cannot be one */
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
    // An address in clear has a colon after its scheme.
    if (to?.startsWith('//') === true)
      throw secretInClear('--notify: an address is a secret, which', '--notify');
    refuseSecret(text, '--notify');
    throw new TidemarkError(
      'usage',
      `--notify: expected TYPE:VARIABLE, TYPE:FILE or email:VARIABLE:ADDRESS, got ${JSON.stringify(text)}`,
      { hint: `types are: ${Object.keys(CHANNELS).join(', ')}` },
    );
  }
  if (to !== null && addressMistake(to) !== undefined)
    throw new TidemarkError('usage', `--notify: ${addressMistake(to)}`);
  const isVariable = variableMistake(reference) === undefined;
  const given = isVariable
    ? inVariable(context, reference, options, '--notify')
    : inFile(context, reference, output, '--notify');
  const mistake = given.secret === null ? undefined : secretMistake(type, given.secret.reveal());
  if (mistake !== undefined) throw new TidemarkError('usage', `--notify: ${mistake}`);
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

/** Calls the URL of a ping, as after a complete sync. @returns what went wrong; null where it was taken */
export async function testPing(context: CommandContext, url: Secret): Promise<TidemarkError | null> {
  const poster = openPoster(() => proxySettings(context.env));
  try {
    const answer = await poster.post({
      ...{ method: 'POST', url, body: 'called by tidemark init, as a test\n', signal: context.signal },
      headers: { 'content-type': 'text/plain; charset=utf-8' },
    });
    requireAccepted(answer, [url], systemClock.now());
    return null;
  } catch (error) {
    if (!context.signal.aborted) return asTidemarkError(error);
    throw new TidemarkError('interrupted', 'interrupted; nothing was written', { cause: error });
  } finally {
    await poster.close();
  }
}

/** Sends a test notice. @returns what went wrong; null where it was delivered */
export async function testChannel(
  context: CommandContext,
  channel: ChannelConfig,
): Promise<TidemarkError | null> {
  const poster = openPoster(() => proxySettings(context.env));
  try {
    const log = commandLog(context, 'silent');
    const send = createSend({ poster, clock: systemClock, log, env: context.env });
    return (await attempt(send, channel, null, context.signal)).error;
  } catch (error) {
    if (!context.signal.aborted) throw error;
    throw new TidemarkError('interrupted', 'interrupted; nothing was written', { cause: error });
  } finally {
    await poster.close();
  }
}
