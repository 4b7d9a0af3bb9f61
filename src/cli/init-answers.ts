/** What `init` must know before it probes the service: from options, or asked for on the terminal. */
import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import { readSecretFile } from '../config/checking.ts';
import { aboutOf, baseUrl, name as sourceName, type OptionType } from '../config/schema.ts';
import { TidemarkError } from '../core/errors.ts';
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
}

export interface GivenKey {
  readonly reference: KeyReference;
  /** Null where it is not known yet: a variable that is not set here. */
  readonly secret: Secret | null;
  /** Absolute path of a file that is still to be written with it; null where the key is kept already. */
  readonly newFile: string | null;
}

const DEFAULT_VARIABLE = 'TIDEMARK_API_KEY';

/** True where somebody can be asked. */
export function canAsk(context: CommandContext): boolean {
  return context.stdin.isTTY && isInteractive(context) && context.options.json !== true;
}

/** An answer, or the end of the command where the question was left. */
export function answered<T>(answer: T | null): T {
  if (answer !== null) return answer;
  throw new TidemarkError('interrupted', 'interrupted; nothing was written');
}

/** What is wrong with a text, by the type of the option that it is for. */
function mistakeIn(type: OptionType): (text: string) => string | undefined {
  return (text) => {
    const parsed = type.safeParse(text);
    if (parsed.success) return undefined;
    const said = parsed.error.issues[0]?.message ?? '';
    return said !== '' && !/^(invalid|expected string)/i.test(said)
      ? said
      : `expected ${aboutOf(type).expected ?? 'another text'}`;
  };
}

/** The address, without what the paths bring along themselves. */
export async function urlFor(context: CommandContext, { url }: InitOptions): Promise<string> {
  const check = mistakeIn(baseUrl);
  const given =
    url ??
    (canAsk(context)
      ? answered(
          await askText(context, 'Address of the service (https://…)', {
            check: (text) => check(withScheme(text)),
          }),
        )
      : undefined);
  if (given === undefined) throw missing('--url', 'the address of the service');
  const mistake = check(withScheme(given));
  if (mistake !== undefined) throw new TidemarkError('usage', `--url: ${mistake}`);
  const address = new URL(withScheme(given));
  const path = address.pathname.replace(/\/+$/, '');
  if (path.endsWith('/api')) {
    printNote(context, ['the paths begin with /api by themselves: it is left out of the address']);
    address.pathname = path.slice(0, -'/api'.length) || '/';
  }
  return address.href.replace(/\/$/, '');
}

function withScheme(text: string): string {
  return /^[a-z][\w.-]*(:\d+)?(\/|$)/i.test(text) && !text.includes('://') ? `https://${text}` : text;
}

export async function nameFor(context: CommandContext, { name }: InitOptions): Promise<string> {
  const check = mistakeIn(sourceName);
  const proposal = 'production';
  const given =
    name ??
    (canAsk(context)
      ? answered(await askText(context, 'Name of the source, for commands', { proposal, check }))
      : proposal);
  const mistake = check(given);
  if (mistake !== undefined) throw new TidemarkError('usage', `--name: ${mistake}`);
  return given;
}

/** @throws TidemarkError `usage` where no key can be had, and for one on the command line */
export async function keyFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<GivenKey> {
  refuseKeyInClear(options);
  const { keyEnv, keyFile } = options;
  if (keyEnv !== undefined && keyFile !== undefined)
    throw new TidemarkError('usage', '--key-env and --key-file are two places for one key: give one');
  if (keyFile !== undefined) return inFile(context, keyFile, output);
  if (keyEnv !== undefined) return inVariable(context, keyEnv, options);
  if (canAsk(context)) return await askedFor(context, options, output);
  if ((context.env[DEFAULT_VARIABLE] ?? '') !== '') return inVariable(context, DEFAULT_VARIABLE, options);
  throw missing('--key-env or --key-file', 'where the key is');
}

/** Checked first: a command line is visible to the machine's other users. */
export function refuseKeyInClear({ key }: InitOptions): void {
  if (key === undefined) return;
  throw new TidemarkError(
    'usage',
    'a key does not belong on the command line, which histories keep and `ps` shows',
    {
      hint: 'put it into a variable (--key-env NAME) or a file (--key-file FILE); replace this one, it has been seen',
    },
  );
}

function missing(option: string, what: string): TidemarkError {
  return new TidemarkError('usage', `no terminal to ask on: ${option} is needed, ${what}`, {
    hint: 'see `tidemark init --help`',
  });
}

function inVariable(context: CommandContext, name: string, { check }: InitOptions): GivenKey {
  const mistake = variableMistake(name);
  if (mistake !== undefined) throw new TidemarkError('usage', `--key-env: ${mistake}`);
  const value = (context.env[name] ?? '').trim();
  if (value === '' && check !== false) {
    throw new TidemarkError('usage', `the variable ${name} is not set here, so the key cannot be checked`, {
      hint: 'set it for this command, or give --no-check',
    });
  }
  if (value !== '') requireKey(value, `the variable ${name}`);
  return {
    reference: { by: 'variable', name },
    secret: value === '' ? null : new Secret(value),
    newFile: null,
  };
}

function variableMistake(name: string): string | undefined {
  return /^[A-Za-z_]\w*$/.test(name) ? undefined : 'expected the name of a variable: letters, digits and _';
}

function keyMistake(text: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(text)
    ? undefined
    : 'expected one key of visible ASCII characters without spaces';
}

function requireKey(value: string, where: string): void {
  const mistake = keyMistake(value);
  if (mistake !== undefined) throw new TidemarkError('usage', `${where}: ${mistake}`);
}

function inFile(context: CommandContext, given: string, output: string): GivenKey {
  const path = resolve(context.cwd, given);
  const file = readSecretFile(path);
  if ('mistake' in file) throw new TidemarkError('usage', `--key-file: ${file.mistake}`);
  return {
    reference: { by: 'file', path: asWritten(path, output) },
    secret: new Secret(file.value),
    newFile: null,
  };
}

/** Beside or below the configuration as a relative path, so that both can move together; elsewhere unchanged. */
function asWritten(path: string, output: string): string {
  const short = relative(dirname(output), path);
  return short.startsWith('..') || short === path ? path : `./${short}`;
}

async function askedFor(context: CommandContext, options: InitOptions, output: string): Promise<GivenKey> {
  const isSet = (context.env[DEFAULT_VARIABLE] ?? '') !== '';
  const variable = {
    value: 'variable' as const,
    label: 'It is in an environment variable',
    ...(isSet ? { hint: `${DEFAULT_VARIABLE} is set` } : {}),
  };
  const typed = {
    value: 'typed' as const,
    label: 'Type or paste it',
    hint: 'not shown; kept in a file that only you can read',
  };
  const file = { value: 'file' as const, label: 'It is in a file' };
  const where = answered(
    await askChoice(
      context,
      'Where is the API key?',
      isSet ? [variable, typed, file] : [typed, variable, file],
    ),
  );
  if (where === 'variable') {
    const check = (name: string): string | undefined =>
      variableMistake(name) ?? ((context.env[name] ?? '') === '' ? 'it is not set here' : undefined);
    return inVariable(
      context,
      answered(await askText(context, 'Name of the variable', { proposal: DEFAULT_VARIABLE, check })),
      options,
    );
  }
  if (where === 'file') {
    const check = (path: string): string | undefined => {
      const read = readSecretFile(resolve(context.cwd, path));
      return 'mistake' in read ? read.mistake : undefined;
    };
    return inFile(context, answered(await askText(context, 'File that holds the key', { check })), output);
  }
  const secret = answered(await askSecret(context, 'API key (not shown)', keyMistake));
  const proposal = asWritten(resolve(dirname(output), 'tidemark.key'), output);
  const check = (path: string): string | undefined =>
    existsSync(resolve(dirname(output), path))
      ? 'there is a file of that name already: name another'
      : undefined;
  const path = answered(await askText(context, 'Keep it in the file', { proposal, check }));
  const newFile = resolve(dirname(output), path);
  return { reference: { by: 'file', path: asWritten(newFile, output) }, secret: new Secret(secret), newFile };
}

// The configuration that `init` writes: commented, with the key by reference. Pure.

export interface ConfigChoices {
  readonly name: string;
  readonly url: string;
  readonly key: KeyReference;
  readonly profile: string;
  /** Null for a sync that somebody else starts. */
  readonly syncCron: string | null;
  /** Kinds to leave out. */
  readonly excluded: readonly Kind[];
}

type KeyReference =
  { readonly by: 'variable'; readonly name: string } | { readonly by: 'file'; readonly path: string };

/** YAML text. JSON's quoting is YAML's, so that no answer can be anything but a text. */
export function configText({ name, url, key, profile, syncCron, excluded }: ConfigChoices): string {
  const quoted = (text: string): string => JSON.stringify(text);
  const keyLine = key.by === 'variable' ? `apiKey: \${${key.name}}` : `apiKeyFile: ${quoted(key.path)}`;
  const kinds =
    excluded.length === 0
      ? '# kinds: { exclude: [session_recordings, recording_sharing] }'
      : `kinds: { exclude: [${excluded.join(', ')}] }`;
  return `# What Tidemark mirrors, from where, and when. \`tidemark config check\` shows how it is understood;
# docs/configuration.md and config/example.yaml have every option.

# The copy: one SQLite file. Relative paths start at the directory of this file.
mirror: ./data/mirror.db

sources:
  - name: ${quoted(name)}
    baseUrl: ${quoted(url)}
    # The key itself is kept elsewhere, never in this file.
    ${keyLine}
    # What is known about the deployment: svc (the interface as documented), posthog, or the path of a file.
    profile: ${quoted(profile)}
    # All that the key sees, or lists of ids.
    organizations: all
    projects: all
    # Kinds that are not mirrored; \`tidemark catalog\` lists all of them.
    ${kinds}
    # Requests: the profile's limits. A service without limits is read faster with 0.
    # rate: { perMinute: 480, perHour: 4800, concurrency: 4 }

# What \`tidemark daemon\` does when; cron instead of the daemon reads none of it.
schedules:
  sync: { cron: ${quoted(syncCron ?? 'off')}, zone: UTC, jitter: 60s }
  # Compares with the baseline, once one is set: \`tidemark snapshots baseline NAME\`.
  drift: { cron: "0 7 * * *", zone: UTC }
  verify: { cron: "0 3 * * 0", zone: UTC }

# History that is kept; without these lines all of it is.
# retention: { keepLast: 48, keepDaily: 30, keepWeekly: 12, keepMonthly: 24 }

# A backup of the mirror in another place, once a day: a directory that exists, or S3-compatible storage.
# backup: { targets: [/var/backups/tidemark] }
`;
}
