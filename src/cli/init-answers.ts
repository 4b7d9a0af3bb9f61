/** What `init` needs before it probes the service, and where secrets are kept: from options, or asked for on the terminal. */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { basename, dirname, relative, resolve } from 'node:path';
import { shownReference } from '../catalog/masks.ts';
import { readSecretFile } from '../config/checking.ts';
import { isKey } from '../config/known-secrets.ts';
import { aboutOf, baseUrl, name as sourceName, type OptionType } from '../config/schema.ts';
import { TidemarkError } from '../core/errors.ts';
import { isLoopback } from '../core/local-url.ts';
import { Secret } from '../core/secret.ts';
import { isInteractive, printNote, type CommandContext } from './context.ts';
import { askChoice, askSecret, askText } from './prompt.ts';

export interface InitOptions {
  readonly url?: string;
  readonly key?: string;
  readonly keyEnv?: string;
  readonly keyFile?: string;
  readonly profile?: string;
  readonly name?: string;
  readonly output?: string;
  readonly force?: boolean;
  readonly check?: boolean;
  readonly sync?: boolean;
  readonly notify?: readonly string[];
  readonly backup?: readonly string[];
  readonly recipient?: readonly string[];
  readonly recordings?: boolean;
  readonly baseline?: boolean;
  readonly schedule?: string;
  readonly service?: 'systemd' | 'cron' | 'compose';
}

/** Where a secret is kept: never in the configuration. */
export type SecretReference =
  { readonly by: 'variable'; readonly name: string } | { readonly by: 'file'; readonly path: string };

/** The API key, or another secret, by reference. */
export interface GivenKey {
  readonly reference: SecretReference;
  /** Null if unknown: a variable that is not set here. */
  readonly secret: Secret | null;
  /** Absolute path of the file that is still to be written with it; null if the secret is already in its place. */
  readonly newFile: string | null;
}

const DEFAULT_VARIABLE = 'TIDEMARK_API_KEY';

/** True if the user can be asked. */
export function canAsk(context: CommandContext): boolean {
  return context.stdin.isTTY && isInteractive(context) && context.options.json !== true;
}

/** The answer. @throws TidemarkError `interrupted` if the user left the question */
export function answered<T>(answer: T | null): T {
  if (answer !== null) return answer;
  throw interrupted();
}

/** The error if the user interrupts `init`. */
export function interrupted(cause?: unknown): TidemarkError {
  return new TidemarkError('interrupted', 'interrupted; nothing was written', { cause });
}

/** What is wrong with a text, by the type of its option. */
export function mistakeIn(type: OptionType): (text: string) => string | undefined {
  return (text) => {
    const parsed = type.safeParse(text);
    if (parsed.success) return undefined;
    const message = parsed.error.issues[0]?.message ?? '';
    return message !== '' && !/^(invalid|expected string)/i.test(message)
      ? message
      : `expected ${aboutOf(type).expected ?? 'another text'}`;
  };
}

/** @throws TidemarkError `usage` for wrong options of the source, before anything is asked or sent */
export function requireSourceOptions(context: CommandContext, options: InitOptions, output: string): void {
  const { url, name, keyEnv, keyFile } = options;
  if (url !== undefined) refuse('--url', addressMistake(url));
  if (name !== undefined) refuse('--name', mistakeIn(sourceName)(name));
  if (keyEnv !== undefined && keyFile !== undefined)
    throw new TidemarkError('usage', '--key-env and --key-file exclude each other: give one');
  keyFromOption(context, options, output);
}

/** @throws TidemarkError `usage` if there is a mistake */
export function refuse(option: string, mistake: string | undefined): void {
  if (mistake !== undefined) throw new TidemarkError('usage', `${option}: ${mistake}`);
}

/** The address of the service, without `/api`, with which the paths begin. */
export async function urlFor(context: CommandContext, { url }: InitOptions): Promise<string> {
  if (url === undefined && !canAsk(context)) throw missing('--url', 'the address of the service');
  const question = 'Address of the service (https://…)';
  const given = url ?? answered(await askText(context, question, { check: addressMistake }));
  const address = new URL(withScheme(given));
  const path = address.pathname.replace(/\/+$/, '');
  if (path.endsWith('/api')) {
    printNote(context, ['the paths begin with /api: it is left out of the address']);
    address.pathname = path.slice(0, -'/api'.length) || '/';
  }
  return address.href.replace(/\/$/, '');
}

/** What is wrong with an address; if only the scheme is missing, suggests one. */
function addressMistake(text: string): string | undefined {
  const check = mistakeIn(baseUrl);
  // A single word is more often a typing error than a host of this network.
  const isWord = /^(?!localhost$)[\w-]*$/i.test(text.trim());
  const mistake = check(isWord ? text : withScheme(text));
  const near = `${likelyScheme(text.trim())}${text.trim()}`;
  const isNear = mistake !== undefined && !text.includes(':/') && check(near) === undefined;
  return isNear ? `${mistake}; did you mean ${near}?` : mistake;
}

function withScheme(text: string): string {
  const [host = ''] = text.split(/[:/]/, 1);
  const isBare = (/^[a-z]/i.test(text) || isIPv4(host)) && /^[\w.-]+(:\d+)?(\/|$)/.test(text);
  return isBare ? `${likelyScheme(text)}${text}` : text;
}

const PRIVATE = /^(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\./;

/** https, except for addresses of this machine and of private networks, where services seldom have a certificate. */
function likelyScheme(text: string): 'http://' | 'https://' {
  const [host = ''] = text.split(/[:/]/, 1);
  return isLoopback(host) || (isIPv4(host) && PRIVATE.test(host)) ? 'http://' : 'https://';
}

/**
 * The name of the source: the given one, or the answer to the question.
 * @param name from the option, or an answer before another key was given
 * @param key refused as a name: it was pasted by mistake
 * @throws TidemarkError `usage` if the name is the key and the user cannot be asked
 */
export async function nameFor(
  context: CommandContext,
  name: string | undefined,
  { secret }: Pick<GivenKey, 'secret'>,
): Promise<string> {
  const keys = secret === null ? [] : [{ apiKey: secret }];
  const check = (text: string): string | undefined =>
    isKey(text, keys)
      ? 'this is an API key, not a name; it would be in the mirror and in every report'
      : mistakeIn(sourceName)(text);
  const proposal = 'production';
  if (name === undefined && !canAsk(context)) return proposal;
  if (name !== undefined) {
    const mistake = check(name);
    if (mistake === undefined) return name;
    if (!canAsk(context)) refuse('--name', mistake);
    printNote(context, [`the name of the source: ${mistake}`]);
  }
  return answered(await askText(context, 'Name of the source, for commands', { proposal, check }));
}

function keyFromOption(context: CommandContext, options: InitOptions, output: string): GivenKey | null {
  const { keyEnv, keyFile } = options;
  if (keyFile !== undefined) return inFile(context, keyFile, output, '--key-file');
  return keyEnv === undefined ? null : inVariable(context, keyEnv, options, '--key-env');
}

/** @throws TidemarkError `usage` if no key is given and the user cannot be asked */
export async function keyFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<GivenKey> {
  const given = keyFromOption(context, options, output);
  if (given !== null) return given;
  if (canAsk(context)) {
    return await askedSecret(context, options, output, {
      where: 'Where is the API key?',
      variable: DEFAULT_VARIABLE,
      secret: 'API key (not shown)',
      check: keyMistake,
      newFile: 'tidemark.key',
      option: '--key-env',
    });
  }
  if ((context.env[DEFAULT_VARIABLE] ?? '') !== '')
    return inVariable(context, DEFAULT_VARIABLE, options, '--key-env');
  throw missing('--key-env or --key-file', 'where the key is');
}

/** @throws TidemarkError `usage` for a key on the command line, which other users of the machine can see */
export function refuseKeyInClear({ key }: InitOptions): void {
  if (key !== undefined) throw secretInClear('a key');
}

/** The error for a secret on the command line. @param what begins the message: never the secret itself */
export function secretInClear(what: string, option = '--key-env'): TidemarkError {
  const message = `${what} does not belong on the command line, which histories keep and \`ps\` shows`;
  const instead = option === '--notify' ? '--notify slack:SLACK_URL' : '--key-env NAME or --key-file FILE';
  return new TidemarkError('usage', message, {
    hint: `put it into a variable or a file, and name that: ${instead}; replace this one, it has been seen`,
  });
}

/** @throws TidemarkError `usage`, without the text, if it looks like a secret instead of the name of its variable or file */
export function refuseSecret(reference: string, option: string): void {
  if (shownReference(reference) === reference) return;
  throw secretInClear(`${option}: this looks like a secret, which`, option);
}

function missing(option: string, what: string): TidemarkError {
  return new TidemarkError('usage', `no terminal to ask on: ${option} is needed, ${what}`, {
    hint: 'see `tidemark init --help`',
  });
}

/** The secret in an environment variable. @param option for errors */
export function inVariable(
  context: CommandContext,
  name: string,
  { check }: InitOptions,
  option: string,
): GivenKey {
  if (context.env[name] === undefined) refuseSecret(name, option);
  refuse(option, variableMistake(name));
  const value = (context.env[name] ?? '').trim();
  if (value === '' && check !== false) {
    const message = `${option}: the variable ${name} is not set here, so it cannot be checked`;
    throw new TidemarkError('usage', message, { hint: 'set it for this command, or give --no-check' });
  }
  if (value !== '') refuse(`the variable ${name}`, keyMistake(value));
  return {
    reference: { by: 'variable', name },
    secret: value === '' ? null : new Secret(value),
    newFile: null,
  };
}

/** What is wrong with the name of a variable. */
export function variableMistake(name: string): string | undefined {
  return /^[A-Za-z_]\w*$/.test(name) ? undefined : 'expected the name of a variable: letters, digits and _';
}

function keyMistake(text: string): string | undefined {
  if (text === '') return 'the key is missing';
  return /^[\x21-\x7e]+$/.test(text) ? undefined : 'a key has no spaces, and no characters beyond ASCII';
}

/** The secret in an existing file. @param option for errors */
export function inFile(context: CommandContext, given: string, output: string, option: string): GivenKey {
  const path = resolve(context.cwd, given);
  if (!existsSync(path)) refuseSecret(basename(given), option);
  const file = readSecretFile(path);
  if ('mistake' in file) throw new TidemarkError('usage', `${option}: ${file.mistake}`);
  return {
    reference: { by: 'file', path: asWritten(path, output) },
    secret: new Secret(file.value),
    newFile: null,
  };
}

/** A path as the configuration has it: relative if it is in or below the same directory, so that both can be moved together. */
export function asWritten(path: string, output: string): string {
  const short = relative(dirname(output), path);
  return short.startsWith('..') || short === path ? path : `./${short}`;
}

/** Why no new file can be written to the path; missing directories will be created. */
export function newFileMistake(path: string): string | undefined {
  let directory = dirname(path);
  while (!existsSync(directory)) directory = dirname(directory);
  if (!statSync(directory).isDirectory()) return `${directory} is not a directory: name a file elsewhere`;
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
    return undefined;
  } catch {
    return `you may not write in ${directory}: name a file elsewhere`;
  }
}

interface SecretQuestions {
  readonly where: string;
  /** The suggested name of the variable. */
  readonly variable: string;
  /** The question for the secret itself. */
  readonly secret: string;
  readonly check: (text: string) => string | undefined;
  /** The suggested file for a secret that is typed. */
  readonly newFile: string;
  /** Absolute paths of files that will be written for other secrets. */
  readonly taken?: readonly string[];
  readonly option: string;
}

/** Asks where a secret is: typed now, in a variable, or in a file. */
export async function askedSecret(
  context: CommandContext,
  options: InitOptions,
  output: string,
  questions: SecretQuestions,
): Promise<GivenKey> {
  const isSet = (context.env[questions.variable] ?? '') !== '';
  const variable = {
    value: 'variable' as const,
    label: 'It is in an environment variable',
    ...(isSet ? { hint: `${questions.variable} is set` } : {}),
  };
  const typed = {
    value: 'typed' as const,
    label: 'Type or paste it',
    hint: 'not shown; kept in a file that only you can read',
  };
  const file = { value: 'file' as const, label: 'It is in a file' };
  const where = answered(
    await askChoice(context, questions.where, isSet ? [variable, typed, file] : [typed, variable, file]),
  );
  if (where === 'variable') {
    const details = { proposal: questions.variable, check: variableMistake };
    const name = answered(await askText(context, 'Name of the variable', details));
    if ((context.env[name] ?? '') === '') {
      printNote(context, [`${name} is not set in this environment`]);
      return askedSecret(context, options, output, questions);
    }
    return inVariable(context, name, options, questions.option);
  }
  if (where === 'file') {
    const check = (path: string): string | undefined => {
      const read = readSecretFile(resolve(context.cwd, path));
      return 'mistake' in read ? read.mistake : undefined;
    };
    const path = answered(await askText(context, 'File that holds it', { check }));
    return inFile(context, path, output, questions.option);
  }
  const secret = answered(await askSecret(context, questions.secret, questions.check));
  const absolute = (path: string): string => resolve(dirname(output), path);
  const proposal = asWritten(absolute(questions.newFile), output);
  const isTaken = (path: string): boolean => existsSync(path) || questions.taken?.includes(path) === true;
  const check = (path: string): string | undefined =>
    isTaken(absolute(path))
      ? 'there is a file of that name already: name another'
      : newFileMistake(absolute(path));
  const newFile = absolute(answered(await askText(context, 'Keep it in this file', { proposal, check })));
  return { reference: { by: 'file', path: asWritten(newFile, output) }, secret: new Secret(secret), newFile };
}

/** Asks a question, with Yes selected. */
export async function askYes(context: CommandContext, question: string, no = 'No'): Promise<boolean> {
  const answer = await askChoice(context, question, [
    { value: 'yes', label: 'Yes' },
    { value: 'no', label: no },
  ]);
  return answered(answer) === 'yes';
}

/** Whether session recordings are to be mirrored. */
export async function wantsRecordings(
  context: CommandContext,
  { recordings }: InitOptions,
): Promise<boolean> {
  if (recordings === true || !canAsk(context)) return recordings === true;
  const answer = await askChoice(context, 'Mirror session recordings as well?', [
    { value: 'no', label: 'No', hint: 'personal data, usually many, never restorable' },
    { value: 'yes', label: 'Yes' },
  ]);
  return answered(answer) === 'yes';
}
