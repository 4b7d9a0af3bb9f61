/** What `init` sets up beside the source: recordings, notices, backups, the schedule and what starts it; from options or asked for. */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { openPoster } from '../api/post.ts';
import { proxySettings } from '../config/proxy.ts';
import { isRecipient } from '../config/age-recipient.ts';
import { isS3Address, isTargetAddress, meantS3Address, TARGET_ADDRESS } from '../config/backup-target.ts';
import type { ChannelConfig } from '../config/channels.ts';
import { cronFields } from '../config/cron.ts';
import { cronOrOff } from '../config/schema.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { isLoopback } from '../core/local-url.ts';
import { createSend } from '../daemon/notices/sending.ts';
import { UNENCRYPTED } from './config-check.ts';
import { printNote, type CommandContext } from './context.ts';
import {
  answered,
  askedSecret,
  asWritten,
  canAsk,
  inFile,
  inVariable,
  mistakeIn,
  newFileMistake,
  variableMistake,
  type GivenKey,
  type InitOptions,
} from './init-answers.ts';
import {
  CHANNELS,
  CRON_MINUTES,
  serviceText,
  WRITTEN_BY_INIT,
  BUILD_IMAGE,
  USUAL_SYNC,
  type InitChannelType,
  type ServiceForm,
} from './init-config.ts';
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

export interface BackupAnswers {
  readonly targets: readonly string[];
  readonly recipients: readonly string[];
  /** Absolute paths of directories to create. */
  readonly newDirectories: readonly string[];
}

/** What starts Tidemark: a file that is to be written, and the command that makes it take effect. */
export interface ServiceAnswer {
  readonly form: ServiceForm;
  readonly path: string;
  /** Its text. `secretFiles`: absolute paths of those that are not below the configuration's directory. */
  readonly text: (secretFiles: readonly string[]) => string;
  /** Whether a file that `init` wrote is replaced. */
  readonly isReplacing: boolean;
  readonly next: string;
}

/** Yes is selected at the start. */
export async function askYes(context: CommandContext, question: string, no = 'No'): Promise<boolean> {
  const answer = await askChoice(context, question, [
    { value: 'yes', label: 'Yes' },
    { value: 'no', label: no },
  ]);
  return answered(answer) === 'yes';
}

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

// Notices.

const ADDRESS = /^[^\s@<>(),;:"]+@[^\s@<>(),;:"]+$/;

function addressMistake(text: string): string | undefined {
  return ADDRESS.test(text) ? undefined : 'expected an e-mail address without a name';
}

function isChannelType(text: string): text is InitChannelType {
  return Object.hasOwn(CHANNELS, text);
}

/** Null where nobody is to be notified. */
export async function channelFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<GivenChannel | null> {
  if (options.notify !== undefined) return channelFromOption(context, options, options.notify, output);
  if (!canAsk(context)) return null;
  const types = Object.keys(CHANNELS).filter(isChannelType);
  const type = answered(
    await askChoice<InitChannelType | 'none'>(context, 'Where should alerts go?', [
      { value: 'none', label: 'Nowhere for now', hint: 'nobody is notified of drift or failed runs' },
      ...types.map((value) => ({ value, label: CHANNELS[value].label })),
    ]),
  );
  if (type === 'none') return null;
  const { what } = CHANNELS[type];
  const given = await askedSecret(context, options, output, {
    where: `Where is the ${what}?`,
    variable: `${type.toUpperCase()}_${type === 'email' ? 'SMTP_URL' : what.includes('URL') ? 'URL' : 'KEY'}`,
    secret: `The ${what.replace(/ \(.*/, '')} (not shown)`,
    check: (text) => secretMistake(type, text),
    newFile: `tidemark-${type}.secret`,
    option: '--notify',
  });
  const to =
    type === 'email' ? answered(await askText(context, 'Send the mail to', { check: addressMistake })) : null;
  return { type, given, to };
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
    const isInClear = to?.startsWith('//') === true;
    throw new TidemarkError(
      'usage',
      isInClear
        ? '--notify: an address is a secret and does not belong on the command line'
        : `--notify: expected TYPE:VARIABLE, TYPE:FILE or email:VARIABLE:ADDRESS, got ${JSON.stringify(text)}`,
      {
        hint: isInClear
          ? 'put it into a variable or a file, and name that: --notify slack:SLACK_URL'
          : `types are: ${Object.keys(CHANNELS).join(', ')}`,
      },
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
  if (text === '') return 'expected something';
  const { key } = CHANNELS[type];
  const schemes = key === 'url' ? ['http:', 'https:'] : key === 'smtpUrl' ? ['smtp:', 'smtps:'] : null;
  if (schemes === null || (URL.canParse(text) && schemes.includes(new URL(text).protocol))) return undefined;
  return `expected a URL that begins with ${schemes.map((scheme) => `${scheme}//`).join(' or ')}`;
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

// Backups.

/** @param earlier the answers so far: proposed again */
export async function backupFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
  earlier: BackupAnswers,
): Promise<BackupAnswers> {
  const { backup = [], recipient = [] } = options;
  if (backup.length === 0 && recipient.length > 0)
    throw new TidemarkError('usage', '--recipient is for backups: name where they go with --backup');
  if (backup.length > 0 || !canAsk(context)) {
    const mistake = backup.map(targetMistake).find((each) => each !== undefined);
    if (mistake !== undefined) throw new TidemarkError('usage', `--backup: ${mistake}`);
    if (!recipient.every(isRecipient))
      throw new TidemarkError(
        'usage',
        '--recipient: expected an age recipient, as `age-keygen -y` prints it: age1…',
      );
    const missing = backup.filter(
      (target) => !isS3Address(target) && !existsSync(resolve(context.cwd, target)),
    );
    printNote(context, [
      ...missing.map(
        (target) => `--backup: ${target} does not exist: backups there fail until it is a directory`,
      ),
      ...(backup.length > 0 && recipient.length === 0 ? [UNENCRYPTED] : []),
    ]);
    return {
      targets: backup.map((target) => targetText(context, target, output)),
      recipients: recipient,
      newDirectories: [],
    };
  }
  return await askedBackup(context, output, earlier);
}

async function askedBackup(
  context: CommandContext,
  output: string,
  earlier: BackupAnswers,
): Promise<BackupAnswers> {
  const [before, ...others] = earlier.targets;
  const form = before === undefined ? 'none' : isS3Address(before) ? 's3' : 'directory';
  const choices = [
    { value: 'none', label: 'Nowhere for now', hint: 'this disk then has the only copy' },
    { value: 'directory', label: 'A directory', hint: 'best on another disk' },
    { value: 's3', label: 'S3-compatible storage' },
  ] as const;
  const where = answered(
    // The first one is what Enter chooses.
    await askChoice(
      context,
      'Where should backups of the mirror go?',
      choices.toSorted((a, b) => Number(b.value === form) - Number(a.value === form)),
    ),
  );
  const proposal = where === form ? before : undefined;
  if (where === 'none') return { targets: [], recipients: [], newDirectories: [] };
  const newDirectories: string[] = [];
  let target: string;
  if (where === 's3') {
    const check = (text: string): string | undefined =>
      isS3Address(text) ? targetMistake(text) : `expected ${TARGET_ADDRESS.replace(/^a path, or /, '')}`;
    target = answered(
      await askText(context, 'Address (s3://BUCKET/PREFIX)', {
        check,
        ...(proposal === undefined ? {} : { proposal }),
      }),
    );
  } else {
    const check = (text: string): string | undefined => {
      const facts = statSync(resolve(context.cwd, text), { throwIfNoEntry: false });
      return facts === undefined || facts.isDirectory() ? targetMistake(text) : 'it is not a directory';
    };
    const known =
      proposal === undefined
        ? './backups'
        : asWritten(resolve(dirname(output), proposal), join(context.cwd, 'any'));
    target = answered(await askText(context, 'Directory', { proposal: known, check }));
    const path = resolve(context.cwd, target);
    const isCreated =
      !existsSync(path) && (await askYes(context, `${target} does not exist. Create it?`, 'No, I will'));
    if (isCreated) newDirectories.push(path);
  }
  printNote(context, [
    `${UNENCRYPTED}.`,
    'Encryption is built in; only the key is made with age (package `age`): `age-keygen -o tidemark-backup.key` prints its recipient, age1…',
    'Keep tidemark-backup.key in another place than the backups: nobody can read them without it',
  ]);
  const check = (text: string): string | undefined =>
    text === NOT_ENCRYPTED || recipientsIn(text).every(isRecipient)
      ? undefined
      : `expected age recipients (age1…), or ${NOT_ENCRYPTED}`;
  const had = earlier.recipients.join(' ');
  const enter = had === '' ? 'Enter: do not encrypt' : `Enter: as before; ${NOT_ENCRYPTED}: do not encrypt`;
  const typed = answered(
    await askText(context, `Encrypt for these age recipients (${enter})`, { proposal: had, check }),
  );
  return {
    targets: [targetText(context, target, output), ...others],
    recipients: typed === NOT_ENCRYPTED ? [] : recipientsIn(typed),
    newDirectories,
  };
}

const NOT_ENCRYPTED = 'none';

function recipientsIn(text: string): string[] {
  return text.split(/[\s,]+/).filter((each) => each !== '');
}

function targetMistake(text: string): string | undefined {
  const meant = meantS3Address(text);
  if (meant !== undefined) return `did you mean ${meant}?`;
  return isTargetAddress(text) ? undefined : `expected ${TARGET_ADDRESS}`;
}

function targetText(context: CommandContext, target: string, output: string): string {
  return isS3Address(target) ? target : asWritten(resolve(context.cwd, target), output);
}

// The schedule, and what starts it.

export async function scheduleFor(context: CommandContext, { schedule }: InitOptions): Promise<string> {
  if (schedule !== undefined) {
    const mistake = mistakeIn(cronOrOff)(schedule);
    if (mistake !== undefined) throw new TidemarkError('usage', `--schedule: ${mistake}`);
    return schedule;
  }
  if (!canAsk(context)) return USUAL_SYNC;
  return answered(
    await askChoice(context, 'When should the daemon sync?', [
      { value: USUAL_SYNC, label: 'Every half hour' },
      { value: '0 * * * *', label: 'Every hour' },
      { value: '0 2 * * *', label: 'Every night at 02:00 UTC' },
      { value: 'off', label: 'Never', hint: 'something else runs `tidemark sync`' },
    ]),
  );
}

/** Null where nothing is to start it. */
export async function serviceFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<ServiceAnswer | null> {
  const { service, force } = options;
  // Again: it may have been made since.
  requireFreeService(context, options, output);
  const form =
    service ??
    (canAsk(context)
      ? answered(
          await askChoice<ServiceForm | 'none'>(context, 'What should start it?', [
            { value: 'none', label: 'Nothing for now', hint: 'you run `tidemark daemon` yourself' },
            { value: 'systemd', label: 'systemd', hint: 'writes a unit' },
            { value: 'cron', label: 'cron', hint: 'writes a line: `tidemark daemon --once`' },
            { value: 'compose', label: 'Docker Compose', hint: 'writes a compose file' },
          ]),
        )
      : 'none');
  if (form === 'none') return null;
  const proposal = servicePath(context, form, output);
  const check = (path: string): string | undefined =>
    existsSync(resolve(context.cwd, path)) && !(force === true && isWrittenByInit(resolve(context.cwd, path)))
      ? 'there is a file of that name already: name another'
      : newFileMistake(resolve(context.cwd, path));
  const given =
    service === undefined ? answered(await askText(context, 'Write it to', { proposal, check })) : proposal;
  const path = resolve(context.cwd, given);
  const isReplacing = existsSync(path);
  if (service !== undefined) printNote(context, [`--service ${form} will write ${path}`]);
  const { uid, gid, username } = userInfo();
  const isSystem = form === 'systemd' ? !isUserUnit(path) : path.startsWith('/etc/');
  const text = (secretFiles: readonly string[]): string =>
    serviceText(form, {
      config: output,
      program: context.entry === '' ? ['tidemark'] : [context.execPath, lastingEntry(context.entry)],
      isSystem,
      user: { name: username, uid, gid },
      secretFiles,
    });
  return { form, path, text, isReplacing, next: nextFor(form, path) };
}

/**
 * The name that `--service` gives its file cannot be chosen: what is there is replaced with `--force`, if `init` wrote it. Known
 * before anything is asked.
 * @throws TidemarkError `usage` where it may not be replaced
 */
export function requireFreeService(
  context: CommandContext,
  { service, force }: InitOptions,
  output: string,
): void {
  if (service === undefined) return;
  const path = servicePath(context, service, output);
  if (path === output) {
    throw new TidemarkError('usage', `--service ${service}: ${path} is where the configuration is written`, {
      hint: 'give --output another name',
    });
  }
  if (!existsSync(path)) return;
  const isOurs = isWrittenByInit(path);
  if (isOurs && force === true) return;
  throw new TidemarkError('usage', `--service: ${path} exists already and was not changed`, {
    hint: isOurs ? 'replace it with --force' : '`tidemark init` did not write it: move it away',
  });
}

function isWrittenByInit(path: string): boolean {
  try {
    return readFileSync(path, 'utf8').startsWith(WRITTEN_BY_INIT);
  } catch {
    // What cannot be read is not replaced.
    return false;
  }
}

/** `npx` starts a clone through a link in its cache, which is emptied now and then. */
function lastingEntry(entry: string): string {
  return entry.split(sep).includes('_npx') ? realpathSync(entry) : entry;
}

function isUserUnit(path: string): boolean {
  return path.includes('/systemd/user/');
}

/** What of the other answers does not hold where this starts Tidemark, a line each. */
export function serviceNotes(
  service: ServiceAnswer | null,
  {
    url,
    syncCron,
    targets,
    directory,
  }: {
    readonly url: string;
    readonly syncCron: string;
    readonly targets: readonly string[];
    /** Of the configuration. */
    readonly directory: string;
  },
): string[] {
  if (service === null) return [];
  const { form, path } = service;
  const { hostname } = new URL(url);
  if (form === 'compose')
    return [
      ...(isLoopback(hostname)
        ? [
            `${hostname} is the container itself there: give baseUrl an address that the container reaches, or add \`network_mode: host\` to ${path}`,
          ]
        : []),
      ...targets
        .filter((target) => isElsewhere(target, directory))
        .map((target) => `the container does not see ${target}: add it to the volumes in ${path}`),
    ];
  if (form === 'cron' && isFinerThanCron(syncCron))
    return [
      `cron starts it every ${CRON_MINUTES} minutes, the schedule ${JSON.stringify(syncCron)} is finer: it syncs every ${CRON_MINUTES} minutes, unless you change \`*/${CRON_MINUTES}\` in ${path}`,
    ];
  return [];
}

/** True for a backup directory that is not below that of the configuration. */
function isElsewhere(target: string, directory: string): boolean {
  return !isS3Address(target) && relative(directory, resolve(directory, target)).split(sep)[0] === '..';
}

/** True where the schedule is due more than once from one start by cron to the next. */
function isFinerThanCron(schedule: string): boolean {
  if (schedule === 'off') return false;
  const { seconds, minutes } = cronFields(schedule);
  return (
    seconds.length > 1 ||
    new Set(minutes.map((each) => Math.floor(each / CRON_MINUTES))).size < minutes.length
  );
}

function servicePath(context: CommandContext, form: ServiceForm, output: string): string {
  if (form === 'compose') return join(dirname(output), 'compose.yaml');
  const isRoot = userInfo().uid === 0;
  if (form === 'cron') return isRoot ? '/etc/cron.d/tidemark' : join(dirname(output), 'tidemark.cron');
  if (isRoot) return '/etc/systemd/system/tidemark.service';
  const home = context.env['HOME'] ?? '';
  return home === ''
    ? join(dirname(output), 'tidemark.service')
    : join(home, '.config/systemd/user/tidemark.service');
}

function nextFor(form: ServiceForm, path: string): string {
  if (form === 'compose')
    return `build the image with \`${BUILD_IMAGE}\` in a checkout of the repository, then \`docker compose --file ${shellWord(path)} up --detach\`; the file says how to publish the dashboard`;
  const isInstalled = path.startsWith('/etc/');
  if (form === 'cron')
    return isInstalled
      ? '`tidemark status` after the first quarter of an hour'
      : `add the line of ${path} with \`crontab -e\``;
  if (isInstalled) return '`systemctl enable --now tidemark`';
  return isUserUnit(path)
    ? '`systemctl --user enable --now tidemark`, and `loginctl enable-linger`, so that it runs while you are logged out'
    : `copy ${path} to /etc/systemd/system, then \`systemctl enable --now tidemark\``;
}
