/** Gathers the facts for the health check from the running daemon and the mirror. */
import type { Config } from '../../config/config.ts';
import { configuredBackups, ownerOf } from '../../config/mirrors.ts';
import { definitionsFor } from '../../config/source.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { ChannelRow, JobRow } from '../../mirror/daemon-store.ts';
import type { Delivery } from '../../mirror/notice-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { backupToName } from '../../backup/known-backups.ts';
import { begunByMistake, type BegunByMistake } from '../../backup/earlier.ts';
import { LATEST_BACKUP, namingBackup, withSource } from '../../core/hints.ts';
import { hasBackupFailed } from '../backup-failure.ts';
import { repairHintToName } from '../jobs/verify-result.ts';
import { PENDING_LONG_MS, recordedSilentChannels, silentChannels } from '../notices/known-channels.ts';
import { driftWaitsSince } from '../notices/perhaps-open.ts';
import type { DaemonView } from '../view.ts';
import { backupActivity, type BackupFacts, backupFacts, unresolvedOf } from './backup-facts.ts';
import { type Health, assessHealth } from './health.ts';
import type { HealthFacts } from './facts.ts';
import type { HealthReason } from './reason.ts';
import { rememberComplete } from './freshness.ts';
import { jobFacts, unreportedJobProblems } from './job-facts.ts';
import {
  type HealthView,
  type SourceInputs,
  failingSince,
  firstSyncOf,
  lastSyncOfAllKinds,
  sourceFacts,
  unreadSource,
} from './source-facts.ts';
import {
  type DrillScores,
  type LastJobs,
  readDrillScores,
  readLastJobs,
  withUnwritten,
} from '../last-jobs.ts';
import { latestUnfinished, type RunningRestore, runningRestore } from '../../mirror/unfinished-restore.ts';
import { alteredLogLines } from '../../state/intact.ts';
import { contradictionText } from '../../report/drift-document.ts';
import { type SourceStatus, readSourceStatuses } from '../../state/source-status.ts';

/** What was read of the mirror at one time. It stays true until somebody writes to the mirror. */
interface MirrorFacts {
  /** The configured sources first. */
  readonly sourceStatuses: readonly SourceStatus[];
  /** The configured sources whose mirror has a baseline. */
  readonly withBaseline: ReadonlySet<string>;
  readonly lastJobs: LastJobs;
  readonly drillScores: ReadonlyMap<string, DrillScores>;
  /** Notices that wait for their delivery. */
  readonly pending: readonly Delivery[];
  /** Restores that are being applied, of the configured sources. */
  readonly restoring: readonly RunningRestore[];
}

/** Everything that health needs of the mirror. */
interface HealthInputs
  extends MirrorFacts, SourceInputs, Pick<HealthFacts, 'contradictions' | 'damage' | 'foreignTrigger'> {
  readonly recent: readonly Delivery[];
  readonly channels: readonly ChannelRow[];
  readonly backups: BackupFacts | null;
  /** Why the mirror may have been begun by mistake, without its history. */
  readonly begunByMistake: BegunByMistake | null;
}

/** Another reader of the mirror that may have found it damaged (`DriftNow`). */
export interface DamageFinder {
  /** Why the mirror is damaged; null if it was not found damaged. */
  damage(mirror: Mirror): string | null;
}

/** What is shown of a mirror. */
interface SnapshotOptions {
  /** The sources to show; if left out, the configured ones, and the others that the mirror holds. */
  readonly sources?: readonly string[];
  readonly others?: readonly string[];
  readonly finder?: DamageFinder;
}

/** The state of daemon and mirror at one time. */
export interface HealthSnapshot extends MirrorFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly health: Health;
  /** Null if the mirror cannot be read: then the other facts about it are empty. */
  readonly mirror: Mirror | null;
  /** The `source` of each latest backup job that failed, if nothing is left of the failure; empty for the mirror as a whole. */
  readonly resolvedFailures: ReadonlySet<string>;
  /** Left out of one of many mirrors. */
  readonly config?: Config;
}

/** The facts if no mirror was read. */
export const NOTHING_READ: Omit<
  HealthFacts,
  'now' | 'startedAt' | 'configProblem' | 'problems' | 'mirrorProblem'
> = {
  sources: [],
  backups: null,
  verify: null,
  damage: null,
  contradictions: { lines: [], hint: '' },
  drills: [],
  failedJobs: [],
  failingChannels: [],
  silentChannels: [],
};
const NO_JOBS: LastJobs = {
  of: () => [],
  one: () => null,
  finished: () => [],
  verifications: [],
  damaged: [],
};
/** The number of latest deliveries that are searched for channels that failed. */
const DELIVERIES_READ = 200;
/** Longer than most syncs of other processes take. */
const LOCKED_LONG_MS = 15 * 60_000;

/** The state now. Does not throw if the mirror cannot be read: the snapshot says so. */
export function readHealthSnapshot(
  view: HealthView,
  now: number,
  shown: SnapshotOptions = {},
): HealthSnapshot {
  try {
    const mirror = view.mirror();
    return snapshotOf(view, readHealthInputs(view, mirror, now, shown), now, mirror);
  } catch (error) {
    return snapshotWithout(view, error, now);
  }
}

/** Reads everything that health needs of the mirror, in one transaction. */
export function readHealthInputs(
  view: HealthView,
  mirror: Mirror,
  now: number,
  shown: SnapshotOptions = {},
): HealthInputs {
  const config = view.config();
  const configured = shown.sources ?? config.sources.map(({ name }) => name);
  const restores = new Map(configured.map((source) => [source, latestUnfinished(mirror, source)]));
  const restoring = [...restores.values()].flatMap((each) => runningRestore(mirror, each) ?? []);
  return mirror.atOnce((): HealthInputs => {
    const sourceStatuses = readSourceStatuses(mirror, configured, {
      now,
      config,
      others: shown.others,
    });
    for (const { source, lastComplete } of sourceStatuses) rememberComplete(view, source, lastComplete);
    // Not those of sources that are no longer configured: their last drill or backup may have failed long ago.
    const lastJobs = readLastJobs(mirror, configured);
    const foreignTrigger = mirror.foreignTrigger();
    return {
      sourceStatuses,
      withBaseline: new Set(mirror.snapshots.baseline() === undefined ? [] : configured),
      lastJobs,
      drillScores: readDrillScores(mirror, lastJobs),
      pending: mirror.daemon.pendingDeliveries(),
      recent: mirror.daemon.deliveries(DELIVERIES_READ),
      channels: mirror.daemon.channels(),
      backups: backupFacts(view, mirror, now),
      begunByMistake: begunByMistake(config, view.backups.remembered(config.backup?.targets ?? []), mirror),
      wholeSyncs: new Map(
        sourceStatuses.map((status) => [status.source, lastSyncOfAllKinds(mirror, status.source, lastJobs)]),
      ),
      failingSince: new Map(configured.map((source) => [source, failingSince(mirror, source)])),
      firstSyncs: new Map(
        sourceStatuses.map(({ source, lastComplete }) => [source, firstSyncOf(mirror, source, lastComplete)]),
      ),
      restores,
      restoring,
      driftWaits: driftWaitsOf(config, mirror),
      contradictions: contradictionsOf(config, mirror),
      damage: shown.finder?.damage(mirror) ?? null,
      foreignTrigger: foreignTrigger && {
        message: foreignTrigger.message,
        hint: foreignTrigger.hint ?? null,
      },
    };
  });
}

/** Without a baseline, or a drift job, no drift is reported anyway. */
function driftWaitsOf({ schedules }: Config, mirror: Mirror): HealthInputs['driftWaits'] {
  const sources = mirror.snapshots.baseline() === undefined ? [] : (schedules.drift?.sources ?? []);
  return new Map(sources.map((source) => [source, driftWaitsSince(mirror, source)]));
}

/** Acceptances and snapshots that differ from the audit log, and an audit log that was altered. */
function contradictionsOf(config: Config, mirror: Mirror): HealthFacts['contradictions'] {
  const accepted = [
    ...mirror.acceptances
      .checked()
      .flatMap(
        (acceptance) =>
          contradictionText(acceptance, acceptance.source, definitionsFor(config, acceptance.source)) ?? [],
      ),
    ...mirror.acceptances.unreadable(),
  ];
  const pinned = mirror.snapshots.contradictions();
  const rows = [...accepted, ...pinned.map(({ line }) => line)];
  // Empty if one of the rows above says it already.
  const log = alteredLogLines(mirror, rows);
  const tables = [
    ...log.map(() => ({})),
    ...accepted.map(() => ({ about: 'acceptances' }) as const),
    ...pinned.map(({ again }) => ({ about: 'snapshots', ...(again === null ? {} : { again }) }) as const),
  ];
  return {
    lines: [...log, ...rows],
    hint: `\`tidemark verify\` names everything that does not match the audit log; ${repairHintToName(tables)}`,
  };
}

/** The state now, from what was read of the mirror now or before. @param mirror null if it is not open any more */
export function snapshotOf(
  view: HealthView,
  read: HealthInputs,
  now: number,
  mirror: Mirror | null,
): HealthSnapshot {
  const inputs = withUnwrittenJobs(view, read);
  const { damaged } = inputs.lastJobs;
  const isOver = (row: JobRow): boolean =>
    hasBackupFailed(row) && unresolvedOf(view, row) === null && !damaged.some(({ job }) => job === row.job);
  const resolvedFailures = new Set(
    inputs.lastJobs
      .of('backup')
      .filter(isOver)
      .map(({ source }) => source ?? ''),
  );
  return {
    now,
    health: healthFrom(view, inputs, now),
    mirror,
    resolvedFailures,
    config: view.config(),
    ...inputs,
  };
}

/** What was read, with the jobs that ended since and could not be stored. */
function withUnwrittenJobs(view: HealthView, inputs: HealthInputs): HealthInputs {
  const names = view.config().sources.map(({ name }) => name);
  // A mirror that was missing could be read now: it is back.
  const unwritten = (view.unwritten?.() ?? []).filter(
    ({ row: { source, errorCode } }) =>
      (source === null || names.includes(source)) && errorCode !== 'mirror_missing',
  );
  if (unwritten.length === 0) return inputs;
  const lastJobs = withUnwritten(
    inputs.lastJobs,
    unwritten.map(({ row }) => row),
  );
  const syncs = unwritten.flatMap(({ row, isOfAllKinds }) =>
    isOfAllKinds && row.source !== null && lastJobs.one('sync', row.source) === row
      ? [[row.source, row] as const]
      : [],
  );
  const failing = unwritten.flatMap(({ row: { source }, since }) =>
    source === null || !syncs.some(([name]) => name === source)
      ? []
      : [[source, inputs.failingSince.get(source) ?? since] as const],
  );
  return {
    ...inputs,
    lastJobs,
    wholeSyncs: new Map([...inputs.wholeSyncs, ...syncs]),
    failingSince: new Map([...inputs.failingSince, ...failing]),
  };
}

function healthFrom(view: HealthView, inputs: HealthInputs, now: number): Health {
  const { sourceStatuses, lastJobs, pending, recent, backups, begunByMistake: anew } = inputs;
  const config = view.config();
  const silent = silentNow(view, inputs);
  const health = assessHealth({
    now,
    startedAt: view.startedAt,
    configProblem: view.configProblem()?.message ?? null,
    problems: [
      ...lastingProblems(view, now),
      ...unreportedJobProblems(view, lastJobs),
      ...(anew === null ? [] : [{ ...anew, since: anew.since ?? view.startedAt }]),
    ],
    mirrorProblem: null,
    backups:
      backups === null || config.backup === null
        ? null
        : { ...backups, everyMs: config.backup.everyMs, ...backupActivity(view) },
    sources: sourceStatuses.flatMap((status) =>
      status.isConfigured ? [sourceFacts(view, config, status, inputs)] : [],
    ),
    ...jobFacts(inputs, (row) => unresolvedOf(view, row)),
    contradictions: inputs.contradictions,
    damage: inputs.damage,
    foreignTrigger: inputs.foreignTrigger ?? null,
    failingChannels: failingChannels(pending, recent, now).filter(
      ({ channel }) =>
        !silent.some(({ name, waiting }) => name === `channel ${channel}` && waiting !== undefined),
    ),
    silentChannels: silent,
  });
  return withRunnableHints(health, view);
}

/**
 * Completes the commands in hints: with a mirror per source, some need its name; if a target holds backups of other mirrors, the backup
 * to restore has to be named, and for an encrypted one the key.
 */
function withRunnableHints(health: Health, view: HealthView): Health {
  const config = view.config();
  const owner = ownerOf(config);
  const backup =
    config.backup === null ? LATEST_BACKUP : backupToName(view.backups.remembered(config.backup.targets));
  const backups = configuredBackups(config);
  if (owner === null && backup === LATEST_BACKUP && backups?.isEncrypted === false) return health;
  const completed = (reason: HealthReason): HealthReason => {
    if (reason.hint === null) return reason;
    const hint = namingBackup(reason.hint, backup, backups);
    return { ...reason, hint: owner === null ? hint : withSource(hint, owner) };
  };
  return {
    ...health,
    reasons: health.reasons.map(completed),
    sources: health.sources.map((source) => ({ ...source, reasons: source.reasons.map(completed) })),
  };
}

/** The state if the mirror cannot be read because of that error, with the last complete runs that are remembered. */
export function snapshotWithout(view: HealthView, error: unknown, now: number): HealthSnapshot {
  const config = view.config();
  const { code, message, hint } = asTidemarkError(error);
  const isComing = code === 'mirror_missing' && isFirstSyncDue(view);
  const unread = assessHealth({
    ...NOTHING_READ,
    now,
    startedAt: view.startedAt,
    configProblem: view.configProblem()?.message ?? null,
    problems: lastingProblems(view, now),
    mirrorProblem: { message, hint: hint ?? null, isComing },
    // A mirror that does not exist yet has no runs of these sources.
    sources: config.sources.map(({ name }) => {
      const lastComplete = isComing ? null : (view.completeRuns.get(name) ?? null);
      return { ...unreadSource(view, config, name), lastComplete };
    }),
  });
  return {
    now,
    health: withRunnableHints(unread, view),
    mirror: null,
    resolvedFailures: new Set(),
    sourceStatuses: [],
    withBaseline: new Set(),
    lastJobs: NO_JOBS,
    drillScores: new Map(),
    pending: [],
    restoring: [],
  };
}

/** True while a mirror that existed before is missing. */
export function isMirrorGone(view: Pick<DaemonView, 'problems'>): boolean {
  return view.problems().some(({ about, error }) => about === 'mirror' && error.code === 'mirror_missing');
}

/** True while a queued or running sync is to create the mirror. A mirror that is gone is not created again. */
export function isFirstSyncDue(view: Pick<DaemonView, 'problems' | 'running' | 'queued'>): boolean {
  return !isMirrorGone(view) && [...view.running(), ...view.queued()].some(({ name }) => name === 'sync');
}

/** Problems that no other reason reports, except a lock that another process has held only for a short time. */
function lastingProblems(view: HealthView, now: number): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    if (about === 'config' || about === 'mirror' || about.startsWith('job:')) return [];
    if (about === 'lock' && now - Date.parse(since) < LOCKED_LONG_MS) return [];
    const isWait = error.code === 'throttled';
    return [{ message: error.message, hint: error.hint ?? null, since, ...(isWait ? { isWait } : {}) }];
  });
}

/** Channels and pings through which the sending process can send nothing, with the notices that wait for them. */
function silentNow(view: HealthView, { channels, pending }: HealthInputs): HealthFacts['silentChannels'] {
  const config = view.config();
  // With a mirror per source, they are a reason of the process, not of each mirror.
  if (config.configured.length > config.sources.length) return [];
  const silent =
    view.readsChannels === true ? recordedSilentChannels(config, channels) : silentChannels(config);
  return silent.map((channel) => {
    const own = pending.filter((delivery) => `channel ${delivery.channel}` === channel.name);
    const since = oldestOf(own);
    return since === undefined ? channel : { ...channel, waiting: { count: own.length, since } };
  });
}

/** When the oldest of these notices was recorded, ISO 8601; undefined for none. */
function oldestOf(deliveries: readonly Delivery[]): string | undefined {
  return deliveries.map(({ about }) => about.at).sort()[0];
}

/** Channels whose newest finished delivery was given up, or that have had a pending one for too long. */
function failingChannels(
  pending: readonly Delivery[],
  recent: readonly Delivery[],
  now: number,
): HealthFacts['failingChannels'] {
  const channels = [...new Set([...pending, ...recent].map(({ channel }) => channel))].sort();
  return channels.flatMap((channel) => {
    const late = pending.filter(
      (each) =>
        each.channel === channel && each.attempts > 0 && now - Date.parse(each.about.at) > PENDING_LONG_MS,
    );
    const finished = recent.filter(
      // A delivery that was given up without an error was over before it was sent.
      ({ givenUpAt, error, ...each }) =>
        each.channel === channel && (each.deliveredAt !== null || (givenUpAt !== null && error !== null)),
    );
    const delivered = finished.findIndex(({ deliveredAt }) => deliveredAt !== null);
    const all = [...late, ...(delivered === -1 ? finished : finished.slice(0, delivered))];
    const since = oldestOf(all);
    if (since === undefined) return [];
    const error = all.find((each) => each.error !== null)?.error ?? null;
    return [{ channel, pending: all.length, since, error }];
  });
}
