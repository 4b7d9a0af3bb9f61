/** The daemon's job of copies: after each complete sync, one where it is due. */
import type { JsonValue } from '../../core/json.ts';
import { EXIT } from '../../core/errors.ts';
import type { JobResult, JobWork } from '../jobs/work.ts';
import type { CopyOutcome } from './copier.ts';

/**
 * The job, with the environment that the command after a copy gets. Where copies are off, or none is due, it is done at
 * once. A command that fails and an old copy that stays make it `partial`: the copy is there.
 */
export function copyWork(env: Readonly<Record<string, string | undefined>>): JobWork {
  return {
    holds: 'reader',
    isPerSource: false,
    isWanted: async ({ config: { copies }, mirror, effects: { clock } }) => {
      if (copies === null) return false;
      const { isCopyDue } = await import('./copy-due.ts');
      return isCopyDue(mirror, { copies, clock });
    },
    run: async ({ config, mirror, effects, log, signal }) => {
      if (config.copies === null) return resultOf(null);
      // What packs and encrypts is loaded where the work is done.
      const { createCopier } = await import('./copier.ts');
      const { withheldBy } = await import('./hook-environment.ts');
      const copier = createCopier({
        copies: config.copies,
        mirror: mirror.path,
        command: 'daemon',
        env,
        withheld: withheldBy(config),
        clock: effects.clock,
        log,
        host: effects.host,
        pid: effects.pid,
      });
      const latest = mirror.sources().flatMap((source) => mirror.latestRun(source)?.run ?? []);
      return resultOf(await copier.afterCompleteRun(mirror, latest, signal));
    },
  };
}

function resultOf(made: CopyOutcome | null): JobResult {
  const error = made?.untidy ?? made?.hook?.error ?? null;
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
function summaryOf(made: CopyOutcome | null): Readonly<Record<string, JsonValue>> {
  if (made === null) return { job: 'copy', file: null };
  const { manifest, removed, hook, seconds } = made;
  return {
    job: 'copy',
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
