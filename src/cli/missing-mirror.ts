/** Explains to the user why a mirror is missing although there was one, or cannot be read. */
import { backupOfUnreadable, backupsOfMissing } from '../backup/earlier.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import type { Config } from '../config/config.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { configuredBackups, mirrorConfigs } from '../config/mirrors.ts';
import { systemClock } from '../core/clock.ts';
import { type ErrorCode, firstError, TidemarkError } from '../core/errors.ts';
import { LATEST_BACKUP, namingBackup, RESTORE_HINT } from '../core/hints.ts';
import { movedAway, NoMirror } from '../mirror/open.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonOf } from './daemon-effects.ts';

/**
 * Completes the error of a command. For a missing mirror it adds the signs that there was one: its volume may not be mounted,
 * and a sync would begin an empty mirror in its place. For a mirror that cannot be read, the hint names the backup to restore
 * if `latest` would be wrong. Other errors are returned unchanged.
 */
export async function explainMissing(context: CommandContext, caught: unknown): Promise<unknown> {
  const thrown = firstError(caught);
  if (!(thrown instanceof TidemarkError)) return caught;
  if (thrown instanceof NoMirror) {
    const config = configsOf(context).find(({ mirror }) => realMirrorPath(mirror) === thrown.path);
    const missing = config === undefined ? null : await missingMirror(context, config);
    if (missing !== null)
      return new TidemarkError('mirror_missing', missing.message, { hint: missing.hint, cause: thrown });
  }
  const error = await withNamedBackup(context, thrown);
  return ECHOING.has(thrown.code) ? withMaskedNames(context, error) : error;
}

/** The configurations of all mirrors; empty if the configuration cannot be read, which the command then reports itself. */
function configsOf(context: CommandContext): readonly Config[] {
  try {
    return mirrorConfigs(readLoadedConfig(context, context.options, 'unused'));
  } catch {
    return [];
  }
}

/** Errors that may repeat what was typed or a name from the mirror. */
const ECHOING: ReadonlySet<ErrorCode> = new Set([
  'usage',
  'reference_unknown',
  'mirror_corrupt',
  'mirror_foreign',
]);

/** Masks the secrets of the configuration in the message. */
function withMaskedNames(context: CommandContext, error: TidemarkError): TidemarkError {
  const { code, message, hint } = error;
  let shown: string;
  try {
    const { knownSecrets } = readLoadedConfig(context, context.options, 'unused');
    shown = maskedMessage(message, knownSecrets);
  } catch {
    // Without a configuration no secrets are known.
    return error;
  }
  return shown === message ? error : new TidemarkError(code, shown, { hint });
}

async function withNamedBackup(context: CommandContext, error: TidemarkError): Promise<TidemarkError> {
  const { code, message, hint } = error;
  if (hint?.includes(RESTORE_HINT) !== true) return error;
  const [config, ...others] = configsOf(context);
  // The error does not say which of several mirrors is damaged.
  if (config === undefined || (others.length > 0 && config.backup !== null)) return error;
  const name = await backupToName(context, config);
  return new TidemarkError(code, message, {
    hint: namingBackup(hint, name, configuredBackups(config)),
    cause: error,
  });
}

/**
 * The backup to restore in place of a damaged mirror: `latest`, or the name of a file if `latest` would be wrong; null if all
 * known backups are of other mirrors.
 */
export async function backupToName(context: CommandContext, config: Config): Promise<string | null> {
  // A mirror whose id can be read: `latest` means the backups of that mirror.
  return isIdentified(context, config) ? LATEST_BACKUP : await backupOfUnreadable(config, systemClock);
}

function isIdentified({ pid }: CommandContext, config: Config): boolean {
  try {
    using mirror = openConfiguredMirror(config, 'read', 'backup', pid);
    mirrorId(mirror);
    return true;
  } catch {
    // The error that is being explained says why it cannot be read.
    return false;
  }
}

/**
 * What to say if a missing mirror was moved, a daemon runs on it, or a directory has backups of one of its sources; null if
 * nothing of that is so.
 * @param config the configuration of that mirror
 */
export async function missingMirror(
  context: Pick<CommandContext, 'pid'>,
  config: Config,
): Promise<{ readonly message: string; readonly hint: string } | null> {
  const moved = movedAway(config.mirror);
  if (moved !== null) return moved;
  const daemon = daemonOf(context, config.mirror);
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
