/**
 * The channels of `notices[]`: for each type, the keys that it has besides the shared ones, and which of them are
 * secrets. Validation, documentation, masking, and what hooks do not inherit follow from these rows;
 * `daemon/notices/channels/` has the senders.
 */
import * as z from 'zod';
import { SEVERITIES } from '../catalog/definition.ts';
import { isLong, Secret } from '../core/secret.ts';
import {
  fileSecret,
  checkSourceNames,
  unsetLines,
  type Checking,
  directoryOf,
  NOT_SENT,
} from './checking.ts';
import { Mistakes } from './mistakes.ts';
import { jsonTemplateMistake, NOTICE_EVENTS, templateMistake } from './notice-events.ts';
import { parseTree } from './parse.ts';
import * as t from './schema.ts';
import { mapping, type Path, type Tree, valueAt } from './tree.ts';

const NO_SECRET = new Secret('');

const webUrl = t.secretUrl('http:', 'https:');
/** A required secret URL, or the file with it. */
const hook = {
  url: webUrl.default(NO_SECRET).meta({ missing: 'give url: ${VARIABLE} or urlFile' }),
  urlFile: t.path.optional(),
};

const ADDRESS = /^[^\s@<>(),;:"\\\p{C}]+@[^\s@<>(),;:"\\\p{C}]+$/u;
const NAMED_ADDRESS = /^[^@<>\r\n\p{Cc}]*<([^<>]*)>$/u;

const sender = z
  .string()
  .refine((value) => ADDRESS.test(NAMED_ADDRESS.exec(value)?.[1] ?? value))
  .meta({ expected: 'an e-mail address, or Name <address>' });

const recipients = z
  .array(z.string().regex(ADDRESS).meta({ expected: 'an e-mail address without a name' }))
  .min(1)
  .readonly()
  .meta({ expected: 'a list of e-mail addresses without names' });

const mediaType = z
  .string()
  .regex(/^[\w.+-]+\/[\w.+-]+(; ?charset=[\w-]+)?$/)
  .meta({ expected: 'a media type such as text/plain' });

const LONGEST_TIMEOUT_MS = 600_000;

const timeout = z
  .string()
  .transform((value, context) => {
    const ms = t.parseDuration(value);
    if (ms !== undefined && ms > 0 && ms <= LONGEST_TIMEOUT_MS) return ms;
    context.addIssue({ code: 'custom', message: '' });
    return z.NEVER;
  })
  .meta({ expected: 'a duration up to 10m, such as 30s' });

/** An argument or a variable of a program. */
const word = z
  .string()
  .refine((value) => !value.includes('\0'), 'expected text without a zero byte')
  .transform((value) => new Secret(value))
  .meta({ isSecret: true });

const template = z
  .string()
  .min(1)
  .superRefine((value, context) => {
    const message = templateMistake(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

/** A required key of a service. */
function serviceKey(key: string) {
  return t.secret
    .transform((value) => new Secret(value))
    .default(NO_SECRET)
    .meta({ missing: `give ${key}: \${VARIABLE} or ${key}File` });
}

/** Address of an incident service, for its regions and for tests. */
const apiUrl = t.baseUrl.transform(({ href }) => href.replace(/\/$/, ''));

/** Keys of every channel. */
const SHARED = {
  /** Unique; deliveries are kept by it. */
  name: t.name,
  on: z
    .array(z.enum(NOTICE_EVENTS).meta({ expected: 'an event' }))
    .min(1)
    .transform((events) => [...new Set(events)])
    .readonly()
    .prefault(NOTICE_EVENTS.filter((event) => event !== 'test'))
    .meta({ expected: 'a list of events' }),
  /** Null for all sources. Notices about the mirror as a whole go to every channel. */
  sources: z.array(t.text).min(1).readonly().nullable().default(null),
  /** The lowest severity of drift that is sent. */
  severity: z.enum(SEVERITIES).prefault('low'),
  /** Text with `{{ name }}` for values; null for the channel's own form. */
  template: template.nullable().default(null),
  /** False: a separate message for each event, even if many sources have it. */
  group: z.boolean().prefault(true),
  /** Most messages a minute; 0 for no limit. */
  perMinute: t.wholeNumber(0, 10_000).prefault(20),
};

function channel<const T extends string, S extends z.core.$ZodShape>(type: T, keys: S) {
  return z.strictObject({ ...SHARED, type: z.literal(type), ...keys });
}

const CHANNEL = z
  .discriminatedUnion('type', [
    channel('webhook', {
      ...hook,
      /** Signs every message; null for none. */
      secret: t.secretText.nullable().default(null),
      secretFile: t.path.optional(),
      contentType: mediaType.prefault('application/json'),
    }).superRefine(({ contentType, template: given }, context) => {
      if (given === null || !contentType.startsWith('application/json')) return;
      const message = jsonTemplateMistake(given);
      if (message !== undefined) context.addIssue({ code: 'custom', path: ['template'], message });
    }),
    channel('slack', hook),
    channel('teams', hook),
    channel('mattermost', hook),
    channel('discord', hook),
    channel('pagerduty', {
      routingKey: serviceKey('routingKey'),
      routingKeyFile: t.path.optional(),
      apiUrl: apiUrl.prefault('https://events.pagerduty.com'),
    }),
    channel('opsgenie', {
      apiKey: serviceKey('apiKey'),
      apiKeyFile: t.path.optional(),
      apiUrl: apiUrl.prefault('https://api.opsgenie.com'),
    }),
    channel('email', {
      smtpUrl: t
        .secretUrl('smtp:', 'smtps:')
        .default(NO_SECRET)
        .meta({ missing: 'give smtpUrl: ${VARIABLE} or smtpUrlFile' }),
      smtpUrlFile: t.path.optional(),
      from: sender
        .default('')
        .meta({ missing: 'expected the sender, such as Tidemark <tidemark@example.com>' }),
      to: recipients.default([]).meta({ missing: 'expected a list of e-mail addresses' }),
      /** A template; null for the title. */
      subject: template
        .refine((value) => !/\p{Cc}/u.test(value), 'expected one line')
        .nullable()
        .default(null),
    }),
    channel('command', {
      /** Program and arguments, which may contain secrets; run without a shell. */
      command: z.array(word).min(1).default([]).meta({
        isJson: true,
        missing: 'expected a list of the program and its arguments, such as [/usr/local/bin/page, ops]',
      }),
      timeout: timeout.prefault('30s'),
      /** Variables in addition to the few that every command gets. */
      env: z
        .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), word)
        .prefault({})
        .meta({ expected: 'a mapping of names of variables to strings' }),
    }),
  ])
  .meta({ keyTitle: 'channel' });

export const NOTICES = z
  .array(CHANNEL)
  .prefault([])
  .meta({
    type: 'list of channels',
    expected: `a list of channels, each with a name, a type (${CHANNEL.options.map(({ shape }) => shape.type.value).join(', ')}) and the keys of its type`,
  });

type ParsedChannel = z.output<typeof CHANNEL>;

/** A checked channel, with its secrets read. */
export type ChannelConfig = ParsedChannel & {
  /** Why nothing can be sent, such as a variable that is not set; null if it can. */
  readonly problem: string | null;
  /** The base of its relative paths, and the directory in which its command runs. */
  readonly directory: string;
};
export type ChannelType = ChannelConfig['type'];
export type ChannelOf<T extends ChannelType> = Extract<ChannelConfig, { readonly type: T }>;

/** Reads the secrets of the channels. Mistakes are added; a missing secret becomes the `problem` of its channel. */
export function checkNotices(
  checking: Checking,
  parsed: readonly ParsedChannel[],
  sources: readonly string[],
): ChannelConfig[] {
  const names = new Set<string>();
  return eachChannel(checking.tree, parsed).flatMap((given, index) => {
    if (given === undefined) return [];
    const at: Path = ['notices', index];
    if (names.has(given.name))
      checking.mistakes.add(checking.tree, [...at, 'name'], 'expected a different name for each channel');
    names.add(given.name);
    checkSourceNames(checking, [...at, 'sources'], given.sources ?? [], sources);
    const [form] = t.formOf(CHANNEL, given);
    return {
      ...withSecrets(checking, at, form ?? CHANNEL, given),
      directory: directoryOf(checking, at),
    };
  });
}

/**
 * The channels by their positions. If a channel is refused entirely, for example because of its type, so is the list.
 * Then each is parsed alone, and is undefined if it is refused; the mistake was reported with the list.
 */
function eachChannel(tree: Tree, parsed: readonly ParsedChannel[]): readonly (ParsedChannel | undefined)[] {
  const given = valueAt(tree.root, ['notices']);
  if (!Array.isArray(given) || given.length === parsed.length) return parsed;
  const alone = z.strictObject({ notices: NOTICES });
  return given.map((channel: unknown) => {
    const root = mapping();
    root['notices'] = [channel];
    return parseTree(alone, { ...tree, root }, new Mistakes()).notices[0];
  });
}

/**
 * The parsed values with the secrets of their `…File` keys. A missing key is a mistake; a variable that is not set, or
 * a file that cannot be read, is a warning and a `problem`: it disables the channel, but does not stop the daemon.
 */
function withSecrets<T extends object>(
  checking: Checking,
  at: Path,
  form: z.core.$ZodType,
  parsed: T,
): T & { readonly problem: string | null } {
  const { tree, mistakes } = checking;
  const problems = unsetLines(checking, at);
  const shape = t.shapeOf(form);
  const read: Record<string, unknown> = {};
  for (const [key, schema] of Object.entries(shape)) {
    const path = [...at, key];
    const file = (parsed as Readonly<Record<string, unknown>>)[`${key}File`];
    const content =
      `${key}File` in shape
        ? fileSecret(checking, at, key, typeof file === 'string' ? file : undefined, (line) => {
            checking.warnings.push(`${line}: ${NOT_SENT}`);
            problems.push(line);
          })
        : undefined;
    if (content !== undefined) {
      const checked = z.safeParse(schema, content);
      if (checked.success) read[key] = checked.data;
      else
        mistakes.add(
          tree,
          [...at, `${key}File`],
          `expected ${t.aboutOf(schema).expected ?? 'a secret'} in it`,
        );
    }
    const { missing } = t.aboutOf(schema);
    const isGiven = file !== undefined || valueAt(tree.root, path) !== undefined;
    if (missing !== undefined && !isGiven && problems.length === 0 && !mistakes.covers(tree, path))
      mistakes.add(tree, path, `missing; ${missing}`);
  }
  return { ...parsed, ...read, problem: problems.length === 0 ? null : problems.join('; ') };
}

/** The secrets of a channel: those of its keys, and the longer ones among the variables of its command. */
export function secretsOf(config: ChannelConfig): Secret[] {
  return Object.values(config).flatMap((value: unknown) => {
    if (value instanceof Secret) return [value];
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
    return Object.values(value).filter((each): each is Secret => each instanceof Secret && isLong(each));
  });
}

// `pings[]`: URLs of a dead man's switch, which raises an alarm if they are not called.

const pingUrl = webUrl.nullable().default(null);

const PING = z.strictObject({
  /** Null for all sources. */
  sources: z.array(t.text).min(1).readonly().nullable().default(null),
  method: z.enum(['POST', 'GET']).prefault('POST'),
  /** Called when a run begins, when it was complete, and when it was not; each may be null. */
  start: pingUrl,
  startFile: t.path.optional(),
  success: pingUrl,
  successFile: t.path.optional(),
  fail: pingUrl,
  failFile: t.path.optional(),
});

export const PINGS = z.array(PING).prefault([]).meta({
  type: 'list of pings',
  expected:
    'a list of {sources, method, start or startFile, success or successFile, fail or failFile}: method POST or GET, at least one URL',
});

type ParsedPing = z.output<typeof PING>;

/** `problem`: why some of its URLs cannot be called; null if all can be. */
export type PingConfig = ParsedPing & { readonly problem: string | null };

/** Reads the URLs of the pings. Mistakes are added; a missing URL becomes the `problem` of its ping. */
export function checkPings(
  checking: Checking,
  parsed: readonly ParsedPing[],
  sources: readonly string[],
): PingConfig[] {
  const { tree, mistakes } = checking;
  return parsed.map((given, index) => {
    const at: Path = ['pings', index];
    checkSourceNames(checking, [...at, 'sources'], given.sources ?? [], sources);
    const ping = withSecrets(checking, at, PING, given);
    const keys = ['start', 'success', 'fail'].flatMap((key) => [key, `${key}File`]);
    const isEmpty = keys.every((key) => valueAt(tree.root, [...at, key]) === undefined);
    if (isEmpty && ping.problem === null && !mistakes.covers(tree, at))
      mistakes.add(tree, at, 'expected at least one of start, success and fail');
    return ping;
  });
}
