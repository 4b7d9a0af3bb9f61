/** The facts for the health check, from the running daemon and the mirror. */
import type { Config } from '../../config/config.ts';
import { configuredBackups, ownerOf } from '../../config/mirrors.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { ChannelRow, Delivery, JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { backupsShown, backupToName, type BackupsShown } from '../../backup/known-backups.ts';
import { begunByMistake, type BegunByMistake } from '../../backup/earlier.ts';
import { LATEST_BACKUP, namingBackup, withSource } from '../../core/hints.ts';
import { hasBackupFailed, unresolvedFailure } from '../backup-failure.ts';
import { hasEmptiedTarget } from '../jobs/summaries.ts';
import { PENDING_LONG_MS, recordedSilentChannels, silentChannels } from '../notices/known-channels.ts';
import { driftWaitsSince } from '../notices/perhaps-open.ts';
import type { DaemonView } from '../view.ts';
import { contradictionsOf } from './contradictions.ts';
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
import { type SourceStatus, readSourceStatuses } from '../../state/source-status.ts';

/** What is known of the mirror at one time. It stays true without the file, until somebody writes to the mirror. */
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

/** What health needs beside it. */
interface HealthInputs extends MirrorFacts, SourceInputs {
  readonly recent: readonly Delivery[];
  readonly channels: readonly ChannelRow[];
  readonly backups: Omit<NonNullable<HealthFacts['backups']>, keyof BackupWork | 'everyMs'> | null;
  /** Why the mirror may have been begun by mistake, without its history. */
  readonly begunByMistake: BegunByMistake | null;
  readonly contradictions: HealthFacts['contradictions'];
  /** As of `HealthFacts`. */
  readonly damage: string | null;
  readonly planted: HealthFacts['planted'];
}

/** Whoever read the mirror and may have found it damaged (`DriftNow`). */
export interface DamageFinder {
  /** Why it is damaged; null where nothing showed it. */
  damage(mirror: Mirror): string | null;
}

/** What is shown of a mirror, and who else has looked at it. */
interface SnapshotOptions {
  /** The sources to show; without: the configured ones, and the others that the mirror holds. */
  readonly sources?: readonly string[];
  readonly others?: readonly string[];
  readonly finder?: DamageFinder;
}

/** The state of daemon and mirror at one time, for a page. */
export interface HealthSnapshot extends MirrorFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly health: Health;
  /** Null if the mirror cannot be read: then the other facts about it are empty. */
  readonly mirror: Mirror | null;
  /** The `source` of each latest backup job that failed, if nothing is left of that failure; empty for the mirror as a whole. */
  readonly madeGood: ReadonlySet<string>;
  /** Left out of one of many mirrors. */
  readonly config?: Config;
}

/** What is said where no mirror was read. */
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
/** Latest jobs searched for the newest backup. */
const BACKUP_JOBS_READ = 50;
/** Latest deliveries searched for channels that failed. */
const DELIVERIES_READ = 200;
/** Longer than most syncs of other processes take. */
const LOCKED_LONG_MS = 15 * 60_000;

/** Does not throw for a mirror that cannot be read: that is part of the snapshot. */
export function readHealthSnapshot(
  view: HealthView,
  now: number,
  shown: SnapshotOptions = {},
): HealthSnapshot {
  try {
    const mirror = view.mirror();
    const inputs = readHealthInputs(view, mirror, now, shown);
    return snapshotOf(view, inputs, now, mirror);
  } catch (error) {
    return snapshotWithout(view, error, now);
  }
}

/** Everything that health needs of the mirror, of one moment. */
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
    // A source that is not configured any more is nobody's concern: its last drill or backup may have failed long ago.
    const lastJobs = readLastJobs(mirror, configured);
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
      planted: foreignTriggerIn(mirror),
    };
  });
}

function foreignTriggerIn(mirror: Mirror): HealthFacts['planted'] {
  const planted = mirror.foreignTrigger();
  return planted === null ? null : { message: planted.message, hint: planted.hint ?? null };
}

/** Without a baseline, or a drift job, there is nothing to report. */
function driftWaitsOf({ schedules }: Config, mirror: Mirror): HealthInputs['driftWaits'] {
  const sources = mirror.snapshots.baseline() === undefined ? [] : (schedules.drift?.sources ?? []);
  return new Map(sources.map((source) => [source, driftWaitsSince(mirror, source)]));
}

/** The state as of now, from what was read of the mirror now or before. @param mirror null if it is not open any more */
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
  const madeGood = new Set(
    inputs.lastJobs
      .of('backup')
      .filter(isOver)
      .map(({ source }) => source ?? ''),
  );
  return { now, health: healthFrom(view, inputs, now), mirror, madeGood, config: view.config(), ...inputs };
}

/** What was read, and beside it the jobs that ended since and could not be written down. */
function withUnwrittenJobs(view: HealthView, inputs: HealthInputs): HealthInputs {
  const names = view.config().sources.map(({ name }) => name);
  const own = (view.unwritten?.() ?? []).filter(
    ({ row: { source } }) => source === null || names.includes(source),
  );
  // A mirror that is back was read.
  const unwritten = own.filter(({ row }) => row.errorCode !== 'mirror_missing');
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
        : { ...backups, everyMs: config.backup.everyMs, ...backupWork(view) },
    sources: sourceStatuses.flatMap((status) =>
      status.isConfigured ? [sourceFacts(view, config, status, inputs)] : [],
    ),
    ...jobFacts(inputs, (row) => unresolvedOf(view, row)),
    contradictions: inputs.contradictions,
    damage: inputs.damage,
    planted: inputs.planted ?? null,
    failingChannels: failingChannels(pending, recent, now).filter(
      ({ channel }) =>
        !silent.some(({ name, waiting }) => name === `channel ${channel}` && waiting !== undefined),
    ),
    silentChannels: silent,
  });
  return toRun(health, view);
}

/**
 * With hints whose commands run as they are: with a mirror per source, some need its name, and beside backups of other mirrors the one
 * to restore has to be named, and of an encrypted one the key.
 */
function toRun(health: Health, view: HealthView): Health {
  const config = view.config();
  const owner = ownerOf(config);
  const backup =
    config.backup === null ? LATEST_BACKUP : backupToName(view.backups.remembered(config.backup.targets));
  const backups = configuredBackups(config);
  if (owner === null && backup === LATEST_BACKUP && backups?.isEncrypted === false) return health;
  const toRunHint = (hint: string): string => {
    const named = namingBackup(hint, backup, backups);
    return owner === null ? named : withSource(named, owner);
  };
  const named = <Reasons extends { readonly reasons: readonly HealthReason[] }>(whole: Reasons): Reasons => ({
    ...whole,
    reasons: whole.reasons.map((reason) =>
      reason.hint === null ? reason : { ...reason, hint: toRunHint(reason.hint) },
    ),
  });
  return { ...named(health), sources: health.sources.map(named) };
}

/** The state of the daemon where the mirror cannot be read, for that reason, with the last complete runs as they were read last. */
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
  const health = toRun(unread, view);
  const nothing = {
    sourceStatuses: [],
    withBaseline: new Set<string>(),
    lastJobs: NO_JOBS,
    drillScores: new Map<string, DrillScores>(),
    pending: [],
    restoring: [],
  };
  return { now, health, mirror: null, madeGood: new Set(), ...nothing };
}

/** The backups in their directory, after a short wait; null if unknown. Also of a mirror that cannot be read: then they matter most. */
export async function readBackups(view: HealthView, waitMs?: number): Promise<BackupsShown | null> {
  const { backup } = view.config();
  if (backup === null) return null;
  try {
    return backupsShown(await view.backups.look(backup.targets, view.mirror(), waitMs));
  } catch {
    // Health reports why the mirror cannot be read; a target that cannot be read is part of what `look` returns.
    return backupsShown(await view.backups.look(backup.targets, null, waitMs));
  }
}

/** True while a mirror that existed before is missing. */
export function isMirrorGone(view: Pick<DaemonView, 'problems'>): boolean {
  return view.problems().some(({ about, error }) => about === 'mirror' && error.code === 'mirror_missing');
}

/** True while a sync is to make the mirror. One that existed and is gone is not created again. */
export function isFirstSyncDue(view: Pick<DaemonView, 'problems' | 'running' | 'queued'>): boolean {
  return !isMirrorGone(view) && [...view.running(), ...view.queued()].some(({ name }) => name === 'sync');
}

/** Problems that no other reason reports, without a mirror that another process has locked for a short time. */
function lastingProblems(view: HealthView, now: number): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    if (about === 'config' || about === 'mirror' || about.startsWith('job:')) return [];
    if (about === 'lock' && now - Date.parse(since) < LOCKED_LONG_MS) return [];
    const isWait = error.code === 'throttled';
    return [{ message: error.message, hint: error.hint ?? null, since, ...(isWait ? { isWait } : {}) }];
  });
}

/** The daemon's own backups from its jobs, all others from the directory. */
function backupFacts(view: HealthView, mirror: Mirror, now: number): HealthInputs['backups'] {
  const { backup } = view.config();
  if (backup === null) return null;
  const targets = view.backups.known(backup.targets, mirror);
  const { whole: found = [], contradicting = [] } = backupsShown(targets) ?? {};
  const made = mirror.daemon
    .jobs({ name: 'backup', limit: BACKUP_JOBS_READ })
    .find(({ summary }) => typeof summary['file'] === 'string');
  const times = [made?.finishedAt ?? null, ...found.map(({ madeAt }) => madeAt)].flatMap((at) =>
    // A time in the future, from before the clock was set back, is ignored.
    at === null || Date.parse(at) > now ? [] : [isoTime(Date.parse(at))],
  );
  const volumes = targets.flatMap(({ address, volume, newest }) =>
    volume === null || newest === null
      ? []
      : [{ address, freeBytes: volume.freeBytes, backupBytes: newest.bytes }],
  );
  // Once a backup was refused for it, that job is the reason.
  const [last] = mirror.daemon.jobs({ name: 'backup', limit: 1 });
  const isTold = last !== undefined && hasEmptiedTarget(last);
  const emptied = isTold
    ? []
    : targets.flatMap(({ address, isEmptied, byMirror }) =>
        isEmptied ? [{ address, holdsOthers: byMirror.length > 0 }] : [],
      );
  const [newest = null] = targets
    // What a target had that cannot be listed now may be gone.
    .flatMap(({ address, newest: backup, problem }) =>
      backup === null || problem !== null ? [] : [{ address, madeAt: backup.madeAt }],
    )
    .toSorted((a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt));
  return { lastAt: times.sort().at(-1) ?? null, newest, volumes, emptied, contradicting };
}

type BackupWork = Pick<NonNullable<HealthFacts['backups']>, 'isBeingMade' | 'waits' | 'change'>;

/** What the daemon does about backups now: not kept with what was read of the mirror. */
export function backupWork(view: HealthView): BackupWork {
  const running = view.running();
  const queued = view.queued().find(({ name }) => name === 'backup');
  return {
    change: view.intervalChange('backup'),
    isBeingMade: running.some(({ name }) => name === 'backup'),
    waits: queued === undefined ? null : { since: queued.since || null, behind: running[0] ?? null },
  };
}

/** What is left of a failed backup, as of what is known of the targets now. */
function unresolvedOf(view: HealthView, row: JobRow): JobRow | null {
  const { backup } = view.config();
  return unresolvedFailure(row, backup, view.backups.remembered(backup?.targets ?? []));
}

/** Channels and pings through which nothing is sent, as the process that sends has it, with the notices that wait for them. */
function silentNow(view: HealthView, { channels, pending }: HealthInputs): HealthFacts['silentChannels'] {
  const config = view.config();
  // With a mirror per source, they are of the process.
  if (config.configured.length > config.sources.length) return [];
  const silent =
    view.readsChannels === true ? recordedSilentChannels(config, channels) : silentChannels(config);
  return silent.map((each) => {
    const times = pending
      .flatMap(({ channel, about }) => (`channel ${channel}` === each.name ? [about.at] : []))
      .sort();
    const [since] = times;
    return since === undefined ? each : { ...each, waiting: { count: times.length, since } };
  });
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
    const settled = recent.filter(
      // One without an error was over before it was sent.
      ({ givenUpAt, error, ...each }) =>
        each.channel === channel && (each.deliveredAt !== null || (givenUpAt !== null && error !== null)),
    );
    const arrived = settled.findIndex(({ deliveredAt }) => deliveredAt !== null);
    const givenUp = arrived === -1 ? settled : settled.slice(0, arrived);
    const all = [...late, ...givenUp];
    const first = all.map(({ about }) => about.at).sort()[0];
    if (first === undefined) return [];
    return [
      {
        channel,
        pending: all.length,
        since: first,
        error: all.find(({ error }) => error !== null)?.error ?? null,
      },
    ];
  });
}
