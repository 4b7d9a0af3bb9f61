/**
 * The work of each job. Modules are loaded when a job first needs them: a drill, for example, loads a server and runs
 * once a week.
 */
import type { BackupWork } from '../../backup/work.ts';
import { NoTargetError } from '../../backup/stored-backup.ts';
import type { BackupOutcome, DueOutcome } from '../../backup/writer.ts';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import { isBackupOwed, lastCompleteRun, unreadRestores, unreadRestoreText } from '../../state/runs.ts';
import { failedResult } from './job-log.ts';
import { type ForgetSummary, refusalSummary, storedSummary } from './summaries.ts';
import type { JobContext, JobResult, JobWork } from './work.ts';

type Traits = Pick<JobWork, 'holds' | 'isPerSource' | 'sendsRequests'>;

function lazy(traits: Traits, load: () => Promise<Pick<JobWork, 'run'>>): JobWork {
  return { ...traits, run: (context) => refusable(async () => (await load()).run(context)) };
}

/** The work's result; of one that refuses since what people recorded was changed by another program, that. */
async function refusable(work: () => Promise<JobResult>): Promise<JobResult> {
  try {
    return await work();
  } catch (error) {
    // Asked of the field: the error may come from a process of its own.
    if (!(error instanceof TidemarkError) || !error.isOfAuditLog) throw error;
    return refusedResult(error);
  }
}

function refusedResult(error: TidemarkError): JobResult {
  return {
    ...{ outcome: 'failed', exitCode: exitCodeFor(error.code), run: null, error, report: null },
    summary: refusalSummary(error.hint ?? ''),
  };
}

function refusing(work: JobWork): JobWork {
  return { ...work, run: (context) => refusable(() => work.run(context)) };
}

const OF_SOURCE: Traits = { holds: 'reader', isPerSource: true };

/** @param backup null where no backups are made */
export function jobWorks(backup: JobWork | null): ReadonlyMap<JobName, JobWork> {
  return new Map<JobName, JobWork>([
    [
      'sync',
      lazy(
        { holds: 'writer', isPerSource: true, sendsRequests: true },
        async () => (await import('./sync-job.ts')).SYNC_JOB,
      ),
    ],
    [
      'drift',
      {
        ...lazy(OF_SOURCE, async () => (await import('./drift-job.ts')).DRIFT_JOB),
        leftOut: sinceRestore,
      },
    ],
    [
      'verify',
      lazy(
        { holds: 'reader', isPerSource: false },
        async () => (await import('./verify-result.ts')).VERIFY_JOB,
      ),
    ],
    ['forget', FORGET_JOB],
    ['drill', lazy(OF_SOURCE, async () => (await import('./drill-job.ts')).DRILL_JOB)],
    ['git', lazy(OF_SOURCE, async () => (await import('./git-job.ts')).GIT_JOB)],
    ...(backup === null ? [] : [['backup', refusing(backup)] as const]),
  ]);
}

/** Where a restore changed the source since its latest state was read: drift that it reverted would be reported as new. */
const sinceRestore: NonNullable<JobWork['leftOut']> = (mirror, { source }) => {
  const [restored] = source === null ? [] : unreadRestores(mirror, source);
  return restored === undefined ? null : unreadRestoreText(restored);
};

/** Retention, as `tidemark forget` does it, by the rules of the configuration. */
const FORGET_JOB: JobWork = refusing({ holds: 'writer', isPerSource: false, run: forget });

async function forget({ job, config, mirror }: JobContext): Promise<JobResult> {
  const { contentComparison } = await import('../../sync/content.ts');
  // Asked for by hand where nothing is configured: nothing is forgotten.
  const policy = config.retention;
  const sources = config.schedules.forget?.sources;
  const isEverySource = sources === undefined || sources.length === config.configured.length;
  const result =
    policy === null || Object.keys(policy).length === 0
      ? null
      : await mirror.retention.forget({
          policy,
          isEqual: contentComparison(config),
          ...(isEverySource || job.schedule === null ? {} : { sources }),
        });
  const summary: ForgetSummary = {
    job: 'forget',
    kept: result?.kept.length ?? 0,
    forgotten: result?.forgotten.length ?? 0,
    revisions: result?.done?.revisions ?? 0,
    bytesBefore: result?.bytesBefore ?? 0,
    bytesAfter: result?.bytesAfter ?? 0,
    cleanupError: result?.cleanupError?.message ?? null,
  };
  const cleanupError = result?.cleanupError ?? null;
  return {
    outcome: cleanupError === null ? 'done' : 'partial',
    exitCode: cleanupError === null ? EXIT.done : EXIT.partial,
    run: null,
    summary: storedSummary(summary),
    error: cleanupError,
    report: null,
  };
}

// A backup after a complete sync, where one is due.

/** Makes backups in the daemon's process. */
export async function backUpInOneProcess(clock: Clock): Promise<BackupWork> {
  return (await import('../../backup/work.ts')).backUpHere(clock);
}

/**
 * The backup job, with the environment of the command after a backup. If backups are off or none is due, it ends at
 * once. If the command fails or old backups cannot be deleted, it is `partial`: the backup itself exists. It is so too where a
 * target could not take it, or has lost its backups, and `failed` where no target took it or has one that is young enough.
 * @param loadWork what makes the backup; without it, a process of its own
 */
export function backupWork(
  env: Readonly<Record<string, string | undefined>>,
  loadWork: ((clock: Clock) => Promise<BackupWork>) | null = null,
): JobWork {
  return {
    holds: 'reader',
    isPerSource: false,
    isWanted: async ({ config: { backup }, mirror, effects: { clock } }) => {
      if (backup === null) return false;
      const { dueTargets, isBackedUpAfter } = await import('../../backup/list.ts');
      const { runs } = mirror;
      const latest = runs.sources().flatMap((source) => runs.latest(source)?.run ?? []);
      if (!isBackupOwed(mirror) && !latest.some((run) => isBackedUpAfter(mirror, run))) return false;
      return (await dueTargets(mirror, { backup, clock })).length > 0;
    },
    run: async ({ config, mirror, effects, log, signal, onWait }) => {
      if (config.backup === null) return backupResult(null);
      // What packs and encrypts is loaded where the work is done.
      const { createBackupWriter } = await import('../../backup/writer.ts');
      const work = loadWork === null ? null : await loadWork(effects.clock);
      const { withheldBy } = await import('../../backup/hook.ts');
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
        onWait,
        ...(work === null ? {} : { work }),
      });
      const complete = mirror.runs.sources().flatMap((source) => lastCompleteRun(mirror, source)?.run ?? []);
      // One that somebody makes by hand: after it, perhaps none is due.
      const waitUntil = effects.clock.monotonicMs() + OTHER_BACKUP_MS;
      for (;;) {
        try {
          return backupResult(await writer.afterCompleteRun(mirror, complete, signal));
        } catch (error) {
          const isHeld = asTidemarkError(error).code === 'mirror_locked';
          if (!isHeld || effects.clock.monotonicMs() >= waitUntil) throw error;
          await effects.clock.sleep(LOOK_AGAIN_MS, signal);
        }
      }
    },
  };
}

/** How long another backup of the mirror is waited for; meanwhile no other job of the mirror begins. */
const OTHER_BACKUP_MS = 5 * 60_000;
const LOOK_AGAIN_MS = 2000;

/** The result of the job: of one that had a backup to make, with `made`. */
export function backupResult(due: Partial<DueOutcome> | null): JobResult {
  const { made = null, emptied = [], failed = [], isOfSome = false } = due ?? {};
  const error = emptied[0]?.error ?? made?.errors[0] ?? failed[0]?.error ?? null;
  const hasNone = made === null && !isOfSome;
  const outcome = error === null ? 'done' : hasNone ? 'failed' : 'partial';
  return {
    outcome,
    exitCode: error === null ? EXIT.done : hasNone ? exitCodeFor(error.code) : EXIT.partial,
    run: null,
    summary: summaryOf(made, { emptied, failed }),
    error,
    report: null,
  };
}

/** The result of a backup that was not made, if it says something of the mirror itself; null for any other failure. */
export function damageResult(thrown: unknown): JobResult | null {
  const error = asTidemarkError(thrown);
  // What a target read back says nothing of the mirror.
  if (error.code !== 'mirror_corrupt' || error instanceof NoTargetError) return null;
  return error.isOfAuditLog ? refusedResult(error) : failedResult(error, false);
}

function summaryOf(
  made: BackupOutcome | null,
  { emptied, failed }: Pick<DueOutcome, 'emptied' | 'failed'>,
): Readonly<Record<string, JsonValue>> {
  const refused = [
    ...emptied.map(({ address, error }) => ({ address, error: error.message, isEmptied: true })),
    ...failed.map(({ address, error }) => ({ address, error: error.message })),
  ];
  if (made === null)
    return storedSummary({
      job: 'backup',
      file: null,
      ...(refused.length === 0 ? {} : { targets: refused }),
    });
  const { manifest, targets, hook, seconds } = made;
  return storedSummary({
    job: 'backup',
    file: manifest.file,
    run: manifest.run,
    bytes: manifest.bytes,
    plainBytes: manifest.plain_bytes,
    isEncrypted: manifest.encryption !== null,
    removed: targets.reduce((sum, { removed }) => sum + removed.length, 0),
    targets: [
      ...targets.map(({ address, error, isEmptied }) => ({
        address,
        error: error?.message ?? null,
        ...(isEmptied ? { isEmptied } : {}),
      })),
      ...refused,
    ],
    contradicting: [...new Set(targets.flatMap(({ contradicting }) => contradicting))],
    command: hook?.outcome ?? null,
    durationMs: Math.round(seconds * 1000),
  });
}
