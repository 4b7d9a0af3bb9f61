/** What a command says where the mirror that it needs is not in its place, although there was one, or cannot be read. */
import { hostname } from 'node:os';
import { backupOfUnreadable, backupsOfMissing } from '../backup/earlier.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import type { Config } from '../config/config.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { configuredBackups, mirrorConfigs } from '../config/mirrors.ts';
import { systemClock } from '../core/clock.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { LATEST_BACKUP, namingBackup, RESTORE_HINT } from '../core/hints.ts';
import { findDaemon } from '../daemon/lockfile.ts';
import { movedAway, NoMirror } from '../mirror/open.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';

/**
 * The error of a command, with what shows that its mirror was there before: then the volume may not be mounted, and a sync would
 * begin an empty one in its place. Of a mirror that cannot be read, the hint names the backup to restore, where `latest` would not
 * do. Any other error is returned as it is.
 */
export async function explainMissing(context: CommandContext, thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof TidemarkError)) return thrown;
  const named = (): Promise<TidemarkError> => withNamedBackup(context, thrown);
  if (ECHOING.has(thrown.code)) return withMaskedNames(context, await named());
  if (!(thrown instanceof NoMirror)) return await named();
  let configs: readonly Config[];
  try {
    configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  } catch {
    // The command had none to read: what it threw says all that is known.
    return thrown;
  }
  const config = configs.find(({ mirror }) => realMirrorPath(mirror) === thrown.path);
  const missing = config === undefined ? null : await missingMirror(context, config);
  if (missing === null) return await named();
  return new TidemarkError('mirror_missing', missing.message, { hint: missing.hint, cause: thrown });
}

/** They may repeat what was typed, or what the mirror has. */
const ECHOING: ReadonlySet<ErrorCode> = new Set([
  'usage',
  'reference_unknown',
  'mirror_corrupt',
  'mirror_foreign',
]);

/** It may name a record, as the mirror has it, or what was typed: without what no report shows of the configuration. */
function withMaskedNames(context: CommandContext, error: TidemarkError): TidemarkError {
  const { code, message, hint } = error;
  let shown: string;
  try {
    const { knownSecrets } = readLoadedConfig(context, context.options, 'unused');
    shown = maskedMessage(message, knownSecrets);
  } catch {
    // Without a configuration there is nothing of it to mask.
    return error;
  }
  return shown === message
    ? error
    : new TidemarkError(code, shown, { ...(hint === undefined ? {} : { hint }) });
}

async function withNamedBackup(context: CommandContext, error: TidemarkError): Promise<TidemarkError> {
  const { code, message, hint } = error;
  if (hint?.includes(RESTORE_HINT) !== true) return error;
  let config: Config;
  try {
    const configs = mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
    const [only, ...others] = configs;
    if (only === undefined) return error;
    // Which of several is damaged, the error does not say.
    if (others.length > 0 && only.backup !== null) return error;
    config = only;
  } catch {
    return error;
  }
  const name = await backupToName(context, config);
  return new TidemarkError(code, message, {
    hint: namingBackup(hint, name, configuredBackups(config)),
    cause: error,
  });
}

/** The backup to restore in place of a damaged mirror: name of its file, where `latest` would not do; null if the known ones are of others. */
export async function backupToName(context: CommandContext, config: Config): Promise<string | null> {
  // What can be read says itself of which mirror it is: `latest` means its backups.
  return isIdentified(context, config) ? LATEST_BACKUP : await backupOfUnreadable(config, systemClock);
}

function isIdentified({ pid }: CommandContext, config: Config): boolean {
  try {
    const mirror = openConfiguredMirror(config, 'read', 'backup', pid);
    try {
      mirrorId(mirror);
      return true;
    } finally {
      mirror.close();
    }
  } catch {
    // What it cannot say is in the error that is being explained.
    return false;
  }
}

interface MissingMirror {
  readonly message: string;
  readonly hint: string;
}

/**
 * What is to be said of a mirror that is not in its place, although it was moved, a daemon runs on it or a directory has backups
 * of one of its sources; null if none of that is so.
 * @param config of that mirror
 */
export async function missingMirror(
  context: Pick<CommandContext, 'pid'>,
  config: Config,
): Promise<MissingMirror | null> {
  const moved = movedAway(config.mirror);
  if (moved !== null) return moved;
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  const daemon = findDaemon(config.mirror, looker);
  const backups = await backupsOfMissing(config, systemClock);
  const signs = [
    ...(daemon === null ? [] : [`a daemon runs on it (pid ${daemon.pid} on ${daemon.host})`]),
    ...(backups === null ? [] : [backups.found]),
  ];
  if (signs.length === 0) return null;
  const doubt = backups === null ? ': its first sync may not have begun yet' : ': is its volume mounted?';
  return {
    message: `there is no mirror at ${config.mirror}, although ${signs.join(', and ')}${doubt}`,
    hint: backups?.hint ?? DAEMON_HINT,
  };
}

const DAEMON_HINT =
  'if there was none yet, wait for that sync: `tidemark daemon --check` says what the daemon does; if there was one, mount the volume that it belongs to, or put the file back';
