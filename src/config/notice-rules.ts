/** `notices[]`: the channels through which the daemon notifies people, and what each one gets. */
import * as z from 'zod';
import { SEVERITIES } from '../catalog/severities.ts';
import { Secret } from '../core/secret.ts';
import { suggest } from '../core/suggest.ts';
import { type Checking, absolutePath } from './checking.ts';
import { parseDuration } from './duration.ts';
import { type Channel, type ChannelConfig, NOTICE_EVENTS } from './notice-channel.ts';
import { unsetLines, urlSecret } from './notice-secrets.ts';
import type { Path } from './tree.ts';
import { structured } from './value-types.ts';

const CHANNEL_TYPES = ['webhook', 'slack', 'email', 'command'] as const;
type ChannelType = (typeof CHANNEL_TYPES)[number];

/** Keys that only some types have; the others are every channel's. */
const KEYS_OF: Readonly<Record<ChannelType, readonly string[]>> = {
  webhook: ['url', 'urlFile', 'secret', 'secretFile', 'contentType'],
  slack: ['url', 'urlFile'],
  email: ['smtpUrl', 'smtpUrlFile', 'from', 'to', 'subject'],
  command: ['command', 'timeout', 'env'],
};

const TEXT = z.string().min(1);

// What words it may hold is checked below, where a mistake can be reported with a suggestion.
const CHANNEL = z.strictObject({
  name: TEXT,
  type: TEXT,
  on: z.array(TEXT).min(1).optional(),
  sources: z.array(TEXT).min(1).optional(),
  severity: TEXT.optional(),
  template: TEXT.optional(),
  url: TEXT.optional(),
  urlFile: TEXT.optional(),
  secret: TEXT.optional(),
  secretFile: TEXT.optional(),
  contentType: TEXT.optional(),
  smtpUrl: TEXT.optional(),
  smtpUrlFile: TEXT.optional(),
  from: TEXT.optional(),
  to: z.array(TEXT).min(1).optional(),
  subject: TEXT.optional(),
  command: z.array(TEXT).min(1).optional(),
  timeout: TEXT.optional(),
  env: z.record(TEXT, z.string()).optional(),
});

type ParsedChannel = z.output<typeof CHANNEL>;

export const NOTICES = structured<readonly ParsedChannel[]>(
  'list of channels',
  'a list of {name, type, on, sources, severity, template} and, by type: webhook {url or urlFile, secret or secretFile, contentType}, ' +
    'slack {url or urlFile}, email {smtpUrl or smtpUrlFile, from, to, subject}, command {command, timeout, env}',
  z.array(CHANNEL),
);

const DEFAULT_TIMEOUT_MS = 30_000;
const LONGEST_TIMEOUT_MS = 600_000;
const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
const ADDRESS = /^[^\s@<>(),;:"\\\p{C}]+@[^\s@<>(),;:"\\\p{C}]+$/u;
const NAMED_ADDRESS = /^[^@<>\r\n\p{Cc}]*<([^<>]*)>$/u;
const MEDIA_TYPE = /^[\w.+-]+\/[\w.+-]+(; ?charset=[\w-]+)?$/;

/** The channels with their secrets read; every mistake is added, every secret that is not there makes a `problem`. */
export function checkNotices(
  checking: Checking,
  parsed: readonly ParsedChannel[],
  sources: readonly string[],
): ChannelConfig[] {
  const names = new Set<string>();
  return parsed.flatMap((channel, index) => {
    const at: Path = ['notices', index];
    const { name } = channel;
    const add = (key: string, message: string): void =>
      checking.mistakes.add(checking.tree, [...at, key], message);
    if (!NAME.test(name)) add('name', 'expected a name of lower-case letters, digits, - and _');
    else if (names.has(name)) add('name', 'expected a different name for each channel');
    names.add(name);
    const made = checkChannel({ checking, at, add }, channel, sources);
    return made === null ? [] : [made];
  });
}

interface Place {
  readonly checking: Checking;
  readonly at: Path;
  readonly add: (key: string, message: string) => void;
}

function checkChannel(place: Place, parsed: ParsedChannel, sources: readonly string[]): ChannelConfig | null {
  const { add } = place;
  const type = wordOf(CHANNEL_TYPES, parsed.type);
  if (type === undefined) {
    add('type', `expected one of ${CHANNEL_TYPES.join(', ')}${nearOf(CHANNEL_TYPES, parsed.type)}`);
    return null;
  }
  // A key that several other types have is one mistake.
  const foreign = new Set(Object.values(KEYS_OF).flat()).difference(new Set(KEYS_OF[type]));
  for (const key of foreign) {
    if (key in parsed) add(key, `not for a channel of type ${type}, which has ${KEYS_OF[type].join(', ')}`);
  }
  const severity = wordOf(SEVERITIES, parsed.severity ?? 'low');
  if (severity === undefined) add('severity', `expected one of ${SEVERITIES.join(', ')}`);
  const on = (parsed.on ?? NOTICE_EVENTS.filter((event) => event !== 'test')).flatMap((event) => {
    const known = wordOf(NOTICE_EVENTS, event);
    if (known !== undefined) return [known];
    add(
      'on',
      `there is no event ${JSON.stringify(event.slice(0, 40))}${nearOf(NOTICE_EVENTS, event) || `; expected ${NOTICE_EVENTS.join(', ')}`}`,
    );
    return [];
  });
  for (const source of parsed.sources ?? []) {
    if (!sources.includes(source))
      add(
        'sources',
        `expected names of sources; ${JSON.stringify(source.slice(0, 60))} is none${nearOf(sources, source)}`,
      );
  }
  const problems = unsetLines(place.checking, place.at);
  const shared = {
    name: parsed.name,
    on: [...new Set(on)],
    sources: parsed.sources ?? null,
    severity: severity ?? 'low',
    template: parsed.template ?? null,
  };
  const made = ofType(place, type, parsed, problems);
  checkTemplates(place, made, parsed);
  return { ...shared, ...made, problem: problems.length === 0 ? null : problems.join('; ') };
}

type OfType = ChannelConfig extends infer C
  ? C extends ChannelConfig
    ? Omit<C, keyof Channel>
    : never
  : never;

function ofType(place: Place, type: ChannelType, parsed: ParsedChannel, problems: string[]): OfType {
  const { checking, at } = place;
  const secretAt = (
    key: 'url' | 'secret' | 'smtpUrl',
    isNeeded: boolean,
    schemes: readonly string[] | null,
  ): Secret | null =>
    urlSecret(
      checking,
      at,
      key,
      { text: parsed[key], file: parsed[`${key}File`], isNeeded, schemes },
      problems,
    );
  switch (type) {
    case 'webhook':
      return {
        type,
        url: secretAt('url', true, ['http:', 'https:']) ?? new Secret(''),
        secret: secretAt('secret', false, null),
        contentType: mediaType(place, parsed.contentType),
      };
    case 'slack':
      return { type, url: secretAt('url', true, ['http:', 'https:']) ?? new Secret('') };
    case 'email':
      return {
        type,
        smtpUrl: secretAt('smtpUrl', true, ['smtp:', 'smtps:']) ?? new Secret(''),
        ...addresses(place, parsed, problems.length > 0),
        subject: parsed.subject ?? null,
      };
    case 'command':
      return {
        type,
        command: program(place, parsed, problems.length > 0),
        timeoutMs: timeoutOf(place, parsed.timeout),
        env: variables(place, parsed.env),
        directory: checking.fileDirectory,
      };
  }
}

function mediaType({ add }: Place, given: string | undefined): string {
  if (given !== undefined && !MEDIA_TYPE.test(given))
    add('contentType', 'expected a media type such as text/plain');
  return given ?? 'application/json';
}

function addresses(
  { add }: Place,
  { from, to }: ParsedChannel,
  isUnread: boolean,
): { readonly from: string; readonly to: readonly string[] } {
  // A value with an unset variable cannot be checked.
  if (!isUnread) {
    if (from === undefined)
      add('from', 'missing; expected the sender, such as Tidemark <tidemark@example.com>');
    else if (!ADDRESS.test(NAMED_ADDRESS.exec(from)?.[1] ?? from))
      add('from', 'expected an e-mail address, or Name <address>');
    if (to === undefined) add('to', 'missing; expected a list of e-mail addresses');
    else if (!to.every((address) => ADDRESS.test(address)))
      add('to', 'expected a list of e-mail addresses without names');
  }
  return { from: from ?? '', to: to ?? [] };
}

function program({ add, checking, at }: Place, { command }: ParsedChannel, isUnread: boolean): Secret[] {
  if (command === undefined && !isUnread)
    add(
      'command',
      'missing; expected a list of the program and its arguments, such as [/usr/local/bin/page, ops]',
    );
  const [first = '', ...rest] = command ?? [];
  if (command?.some((part) => part.includes('\0')) === true)
    add('command', 'expected texts without a zero byte');
  // A bare name is looked up in PATH; a path starts where every path of the file does.
  const path = first.includes('/') ? absolutePath(checking, [...at, 'command'], first) : first;
  return [path, ...rest].map((part) => new Secret(part));
}

function timeoutOf({ add }: Place, given: string | undefined): number {
  if (given === undefined) return DEFAULT_TIMEOUT_MS;
  const ms = parseDuration(given);
  if (ms !== undefined && ms > 0 && ms <= LONGEST_TIMEOUT_MS) return ms;
  add('timeout', 'expected a duration up to 10m, such as 30s');
  return DEFAULT_TIMEOUT_MS;
}

function variables(
  { add }: Place,
  given: Readonly<Record<string, string>> | undefined,
): Record<string, Secret> {
  const entries = Object.entries(given ?? {});
  if (!entries.every(([name, value]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !value.includes('\0')))
    add('env', 'expected a mapping of names of variables to texts');
  return Object.fromEntries(entries.map(([name, value]) => [name, new Secret(value)]));
}

function checkTemplates({ add }: Place, made: OfType, { template, subject }: ParsedChannel): void {
  const isJson = made.type === 'webhook' && made.contentType.startsWith('application/json');
  const mistake =
    template === undefined ? undefined : isJson ? jsonTemplateMistake(template) : templateMistake(template);
  if (mistake !== undefined) add('template', mistake);
  const ofSubject = subject === undefined ? undefined : templateMistake(subject);
  if (ofSubject !== undefined) add('subject', ofSubject);
  else if (subject !== undefined && /\p{Cc}/u.test(subject)) add('subject', 'expected one line');
}

function wordOf<const T extends string>(words: readonly T[], word: string): T | undefined {
  return words.find((each) => each === word);
}

function nearOf(words: readonly string[], word: string): string {
  const near = suggest(word, words);
  return near === undefined ? '' : `; did you mean ${near}?`;
}

// Templates of notices: text in which `{{ name }}` stands for a value. No code, no conditions, no nesting.

/** Every value that a template may name, with what it is. One that a notice does not have is empty. */
export const TEMPLATE_VALUES = {
  id: 'The same for every attempt to deliver this notice, and for no other notice.',
  event: 'As in `on`, e.g. `run_failed`.',
  at: 'When it happened, ISO 8601 in UTC.',
  source: 'Name of the source; `mirror` for what concerns the mirror as a whole.',
  severity: '`critical`, `high`, `medium` or `low`.',
  title: 'One line that says it all.',
  text: 'What there is to know beside the title, a line each.',
  hint: 'What to do about it.',
  job: '`sync`, `drift`, `verify`, `forget`, `drill` or `backup`.',
  run: 'Number of the run.',
  count: 'How many: findings, collections, removals or problems.',
  'error.code': 'Code of the error, e.g. `unreachable`.',
  'error.message': 'The error in one line.',
  critical: 'Findings of that severity; likewise the next three.',
  high: 'Findings.',
  medium: 'Findings.',
  low: 'Findings.',
} as const;

type TemplateValue = keyof typeof TEMPLATE_VALUES;
export type TemplateValues = Readonly<Record<TemplateValue, string>>;

const PLACE = /\{\{([^{}]*)\}\}/g;

/** What is wrong with a template, as a message of the configuration; undefined where nothing is. */
function templateMistake(template: string): string | undefined {
  for (const [, inside = ''] of template.matchAll(PLACE)) {
    const name = inside.trim();
    if (Object.hasOwn(TEMPLATE_VALUES, name)) continue;
    const near = suggest(name, Object.keys(TEMPLATE_VALUES));
    const known =
      near === undefined ? `known are ${Object.keys(TEMPLATE_VALUES).join(', ')}` : `did you mean ${near}?`;
    return `there is no value {{ ${name.slice(0, 40)} }}; ${known}`;
  }
  return template.replace(PLACE, '').includes('{{')
    ? 'expected }} behind every {{, and nothing but a name between them'
    : undefined;
}

/** The same for a template that has to give JSON: its places must be within quotes. */
function jsonTemplateMistake(template: string): string | undefined {
  const mistake = templateMistake(template);
  if (mistake !== undefined) return mistake;
  try {
    JSON.parse(renderTemplate(template, () => 'x'));
    return undefined;
  } catch {
    // SyntaxError: its position would be that in the rendered text.
    return 'expected JSON with every {{ … }} within quotes (or another contentType)';
  }
}

/** The template with every place filled. What is put in is not looked at again. */
export function renderTemplate(template: string, valueOf: (name: TemplateValue) => string): string {
  return template.replace(PLACE, (_place, inside: string) => valueOf(inside.trim() as TemplateValue));
}
