/** The daemon's job of backups: after each complete sync, one where it is due. */
import type { JsonValue } from '../../core/json.ts';
import { EXIT } from '../../core/errors.ts';
import type { JobResult, JobWork } from './work.ts';
import type { BackupOutcome } from '../../backup/writer.ts';

/**
 * The job, with the environment that the command after a backup gets. Where backups are off, or none is due, it is done at
 * once. A command that fails and an old backup that stays make it `partial`: the backup is there.
 */
export function backupWork(env: Readonly<Record<string, string | undefined>>): JobWork {
  return {
    holds: 'reader',
    isPerSource: false,
    isWanted: async ({ config: { backup }, mirror, effects: { clock } }) => {
      if (backup === null) return false;
      const { isBackupDue } = await import('../../backup/due.ts');
      return isBackupDue(mirror, { backup, clock });
    },
    run: async ({ config, mirror, effects, log, signal }) => {
      if (config.backup === null) return resultOf(null);
      // What packs and encrypts is loaded where the work is done.
      const { createBackupWriter } = await import('../../backup/writer.ts');
      const { withheldBy } = await import('../../backup/hook-environment.ts');
      const writer = createBackupWriter({
        backup: config.backup,
        mirror: mirror.path,
        command: 'daemon',
        env,
        withheld: withheldBy(config),
        clock: effects.clock,
        log,
        host: effects.host,
        pid: effects.pid,
      });
      const latest = mirror.runs.sources().flatMap((source) => mirror.runs.latest(source)?.run ?? []);
      return resultOf(await writer.afterCompleteRun(mirror, latest, signal));
    },
  };
}

function resultOf(made: BackupOutcome | null): JobResult {
  const error = made?.cleanupError ?? made?.hook?.error ?? null;
  return {
    outcome: error === null ? 'done' : 'partial',
    exitCode: error === null ? EXIT.done : EXIT.partial,
    run: null,
    summary: summaryOf(made),
    error,
    report: null,
  };
}

/** Keys may be added, never renamed: rows of older versions stay in the mirror. */
function summaryOf(made: BackupOutcome | null): Readonly<Record<string, JsonValue>> {
  if (made === null) return { job: 'backup', file: null };
  const { manifest, removed, hook, seconds } = made;
  return {
    job: 'backup',
    file: manifest.file,
    run: manifest.run,
    bytes: manifest.bytes,
    plainBytes: manifest.plain_bytes,
    isEncrypted: manifest.encryption !== null,
    removed: removed.length,
    command: hook?.outcome ?? null,
    durationMs: Math.round(seconds * 1000),
  };
}
