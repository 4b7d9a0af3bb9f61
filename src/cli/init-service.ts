/** The schedule that `init` configures and what starts Tidemark, from its options or asked for. */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { isS3Address } from '../config/backup-target.ts';
import { cronFields } from '../config/cron.ts';
import { cronOrOff } from '../config/schema.ts';
import { TidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { isLoopback } from '../core/local-url.ts';
import { printNote, type CommandContext } from './context.ts';
import { answered, canAsk, mistakeIn, newFileMistake, refuse, type InitOptions } from './init-answers.ts';
import {
  CRON_MINUTES,
  ENVIRONMENT_FILE,
  type ServiceFacts,
  serviceText,
  WRITTEN_BY_INIT,
  BUILD_IMAGE,
  USUAL_SYNC,
  type ServiceForm,
} from './init-config.ts';
import { askChoice, askText } from './prompt.ts';

/** What starts Tidemark: the file to write, and the command that puts it into effect. */
export interface ServiceAnswer {
  readonly form: ServiceForm;
  readonly path: string;
  /** Its text. @param outside absolute paths that are not below the configuration's directory */
  readonly text: (outside: Pick<ServiceFacts, 'secretFiles' | 'backupDirectories'>) => string;
  /** True if it replaces a file that `init` wrote. */
  readonly isReplacing: boolean;
  readonly next: string;
}

/** @throws TidemarkError `usage` for a wrong schedule */
export function requireSchedule({ schedule }: InitOptions): void {
  if (schedule !== undefined) refuse('--schedule', mistakeIn(cronOrOff)(schedule));
}

/** The schedule of syncs, as cron fields or `off`. */
export async function scheduleFor(context: CommandContext, { schedule }: InitOptions): Promise<string> {
  if (schedule !== undefined) return schedule;
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

/** What is to start Tidemark; null for nothing. */
export async function serviceFor(
  context: CommandContext,
  options: InitOptions,
  output: string,
): Promise<ServiceAnswer | null> {
  const { service, force } = options;
  // Checked again: the file may have been created meanwhile.
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
  const check = (text: string): string | undefined => {
    const path = resolve(context.cwd, text);
    const isTaken = existsSync(path) && !(force === true && isWrittenByInit(path));
    return isTaken ? 'there is a file of that name already: name another' : newFileMistake(path);
  };
  const given =
    service === undefined ? answered(await askText(context, 'Write it to', { proposal, check })) : proposal;
  const path = resolve(context.cwd, given);
  const isReplacing = existsSync(path);
  if (service !== undefined) printNote(context, [`--service ${form} will write ${path}`]);
  const { uid, gid, username } = userInfo();
  const isSystem = form === 'systemd' ? !isUserUnit(path) : uid === 0 || path.startsWith('/etc/');
  const text: ServiceAnswer['text'] = (outside) =>
    serviceText(form, {
      config: output,
      program: context.entry === '' ? ['tidemark'] : [context.execPath, lastingEntry(context.entry)],
      isSystem,
      user: { name: username, uid, gid },
      ...outside,
    });
  return { form, path, text, isReplacing, next: nextFor(form, path) };
}

/**
 * Checks the file of `--service`, whose name cannot be chosen: an existing one is replaced with `--force`, if `init` wrote it.
 * @throws TidemarkError `usage` if it may not be replaced
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
    // A file that cannot be read is not replaced.
    return false;
  }
}

/** `npx` starts a clone through a link in its cache, which may be emptied. */
function lastingEntry(entry: string): string {
  return entry.split(sep).includes('_npx') ? realpathSync(entry) : entry;
}

function isUserUnit(path: string): boolean {
  return path.includes('/systemd/user/');
}

/** Notes on answers that do not work with what starts Tidemark. */
export function serviceNotes(
  service: ServiceAnswer | null,
  { url, syncCron }: Record<'url' | 'syncCron', string>,
): string[] {
  if (service === null) return [];
  const { form, path } = service;
  const { hostname } = new URL(url);
  if (form === 'compose')
    return isLoopback(hostname)
      ? [
          `${hostname} is the container itself there: give baseUrl an address that the container reaches, or add \`network_mode: host\` to ${path}`,
        ]
      : [];
  if (form === 'cron' && isFinerThanCron(syncCron))
    return [
      `cron starts it every ${CRON_MINUTES} minutes, the schedule ${JSON.stringify(syncCron)} is finer: it syncs every ${CRON_MINUTES} minutes, unless you change \`*/${CRON_MINUTES}\` in ${path}`,
    ];
  return [];
}

/** The absolute paths of backup directories that are not below the configuration's directory. */
export function directoriesOutside(targets: readonly string[], directory: string): string[] {
  const paths = targets
    .filter((target) => !isS3Address(target))
    .map((target) => resolve(directory, target))
    .filter((path) => relative(directory, path).split(sep)[0] === '..');
  return [...new Set(paths)];
}

/** True if the schedule is due more than once between two starts by cron. */
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
  // Not in /etc/cron.d, even as root: cron would start it at once, before its variables are written.
  if (form === 'cron') return join(dirname(output), 'tidemark.cron');
  if (userInfo().uid === 0) return '/etc/systemd/system/tidemark.service';
  const home = context.env['HOME'] ?? '';
  return home === ''
    ? join(dirname(output), 'tidemark.service')
    : join(home, '.config/systemd/user/tidemark.service');
}

function nextFor(form: ServiceForm, path: string): string {
  if (form === 'compose')
    return `build the image with \`${BUILD_IMAGE}\` in a checkout of the repository, then \`docker compose --file ${shellWord(path)} up --detach\`; the file says how to publish the dashboard`;
  if (form === 'cron') {
    if (path.startsWith('/etc/cron.d/')) return '`tidemark status` after the first quarter of an hour';
    return userInfo().uid === 0
      ? `\`install -m 644 ${shellWord(path)} /etc/cron.d/tidemark\`, after any variables that the configuration names were added to ${ENVIRONMENT_FILE}`
      : `add the line of ${path} with \`crontab -e\``;
  }
  if (path.startsWith('/etc/')) return '`systemctl enable --now tidemark`';
  return isUserUnit(path)
    ? '`systemctl --user enable --now tidemark`, and `loginctl enable-linger`, so that it runs while you are logged out'
    : `copy ${path} to /etc/systemd/system, then \`systemctl enable --now tidemark\``;
}
