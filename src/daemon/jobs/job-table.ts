/** The work of each job. Modules are loaded when a job first needs them: a drill, for example, loads a server and runs once a week. */
import type { BackupWork } from '../../backup/work.ts';
import { NoTargetError } from '../../backup/stored-backup.ts';
import type { BackupOutcome, DueOutcome } from '../../backup/writer.ts';
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError, exitCodeFor, TidemarkError } from '../../core/errors.ts';
import type { JobName } from '../../mirror/daemon-store.ts';
import { isBackupDue, lastCompleteRun, unreadRestores, unreadRestoreText } from '../../state/runs.ts';
import { failedResult } from './job-log.ts';
import { type ForgetSummary, refusalSummary, type SummaryByJob } from './summaries.ts';
import { type JobContext, jobResult, type JobResult, type JobWork } from './work.ts';

type Traits = Pick<JobWork, 'holds' | 'isPerSource' | 'sendsRequests'>;

function lazy(traits: Traits, load: () => Promise<Pick<JobWork, 'run'>>): JobWork {
  return { ...traits, run: (context) => refusable(async () => (await load()).run(context)) };
}

/** The result of the work, also if it refuses because another program changed what people recorded. */
async function refusable(work: () => Promise<JobResult>): Promise<JobResult> {
  try {
    return await work();
  } catch (error) {
    // Not `instanceof AuditLogContradicted`: the error may come from another process.
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

/** The work of each job, by name. @param backup null if no backups are made */
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

/** Why drift is left out: a restore changed the source since it was read, and drift that it reverted would be reported as new. */
const sinceRestore: NonNullable<JobWork['leftOut']> = (mirror, { source }) => {
  const [restored] = source === null ? [] : unreadRestores(mirror, source);
  return restored === undefined ? null : unreadRestoreText(restored);
};

/** Retention, as `tidemark forget` does it, by the rules of the configuration. */
const FORGET_JOB: JobWork = refusing({ holds: 'writer', isPerSource: false, run: forget });

async function forget({ job, config, mirror }: JobContext): Promise<JobResult> {
  const { contentComparison } = await import('../../sync/content.ts');
  // A request without configured retention forgets nothing.
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
  const cleanupError = result?.cleanupError ?? null;
  const summary: ForgetSummary = {
    job: 'forget',
    kept: result?.kept.length ?? 0,
    forgotten: result?.forgotten.length ?? 0,
    revisions: result?.done?.revisions ?? 0,
    bytesBefore: result?.bytesBefore ?? 0,
    bytesAfter: result?.bytesAfter ?? 0,
    cleanupError: cleanupError?.message ?? null,
  };
  return jobResult(cleanupError === null ? 'done' : 'partial', summary, { error: cleanupError });
}

// A backup after a complete sync, where one is due.

/** Makes backups in the daemon's process. */
export async function backUpInOneProcess(clock: Clock): Promise<BackupWork> {
  return (await import('../../backup/work.ts')).backUpHere(clock);
}

/**
 * The backup job. If backups are off or none is due, it ends at once. It ends `partial` if the backup exists but the command after it
 * failed, old backups could not be deleted, a target could not take it, or a target has lost its backups; `failed` if no target took it
 * or has one that is young enough.
 * @param env of the command after a backup
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
      if (!isBackupDue(mirror) && !latest.some((run) => isBackedUpAfter(mirror, run))) return false;
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
      // Waits for a backup that a command makes: after it, perhaps none is due.
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

/** The longest wait for another backup of the mirror; meanwhile no other job of the mirror begins. */
const OTHER_BACKUP_MS = 5 * 60_000;
const LOOK_AGAIN_MS = 2000;

/** The result of the job. @param due `made` is set if a backup was made */
export function backupResult(due: Partial<DueOutcome> | null): JobResult {
  const { made = null, emptied = [], failed = [], isOfSome = false } = due ?? {};
  const error = emptied[0]?.error ?? made?.errors[0] ?? failed[0]?.error ?? null;
  const summary = summaryOf(made, { emptied, failed });
  if (error === null) return jobResult('done', summary);
  return made === null && !isOfSome
    ? jobResult('failed', summary, { error, exitCode: exitCodeFor(error.code) })
    : jobResult('partial', summary, { error });
}

/** The result of a backup that was not made, if it shows that the mirror itself is damaged; null for any other failure. */
export function damageResult(thrown: unknown): JobResult | null {
  const error = asTidemarkError(thrown);
  // Damage of a copy in a target is none of the mirror.
  if (error.code !== 'mirror_corrupt' || error instanceof NoTargetError) return null;
  return error.isOfAuditLog ? refusedResult(error) : failedResult(error, false);
}

function summaryOf(
  made: BackupOutcome | null,
  { emptied, failed }: Pick<DueOutcome, 'emptied' | 'failed'>,
): SummaryByJob['backup'] {
  const refused = [
    ...emptied.map(({ address, error }) => ({ address, error: error.message, isEmptied: true })),
    ...failed.map(({ address, error }) => ({ address, error: error.message })),
  ];
  if (made === null)
    return { job: 'backup', file: null, ...(refused.length === 0 ? {} : { targets: refused }) };
  const { manifest, targets, hook, seconds } = made;
  return {
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
  };
}
