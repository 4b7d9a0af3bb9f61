/** The facts for the health check, from the running daemon and the mirror. */
import type { Config } from '../../config/config.ts';
import { areBackupsEncrypted, ownerOf } from '../../config/mirrors.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, type ErrorCode, isLocalError } from '../../core/errors.ts';
import { type Delivery, type JobName, type JobRow, JOB_NAMES } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { backupsShown, backupToName, type BackupsShown } from '../../backup/known-backups.ts';
import { begunAnew, type BegunAnew } from '../../backup/earlier.ts';
import {
  EMPTIED_HINT,
  LATEST_BACKUP,
  NEW_BASELINE_HINT,
  namingBackup,
  withSource,
} from '../../core/hints.ts';
import { contradictionText } from '../../report/drift-document.ts';
import { hasBackupFailed, standingFailure } from '../backup-failure.ts';
import { hasEmptiedTarget, lacksBaseline, refusalOf, summaryOf } from '../jobs/summaries.ts';
import { mendingText } from '../jobs/verify-result.ts';
import { driftWaitsSince } from '../notices/perhaps-open.ts';
import { SILENT_MS } from '../jobs/queue.ts';
import { hourProblemOf } from '../problems.ts';
import type { DaemonView } from '../view.ts';
import { type Health, assessHealth } from './health.ts';
import type { HealthFacts, SourceFacts } from './facts.ts';
import type { HealthReason } from './reason.ts';
import { allowedAgeMs, expectedSince, isFirstSyncAtWork, isInterrupted } from './allowed-age.ts';
import { failureCode } from './source-reasons.ts';
import {
  type DrillScores,
  type LastJobs,
  readDrillScores,
  readLastJobs,
  withUnwritten,
} from '../last-jobs.ts';
import { latestUnfinished } from '../../mirror/unfinished-restore.ts';
import { lastCompleteRun } from '../../state/runs.ts';
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
}

/** What health needs beside it. */
interface HealthInputs extends MirrorFacts {
  readonly recent: readonly Delivery[];
  readonly backups: Omit<NonNullable<HealthFacts['backups']>, keyof BackupWork | 'everyMs'> | null;
  /** Why the mirror may have been begun by mistake, without its history. */
  readonly begunAnew: BegunAnew | null;
  /** The latest syncs of all kinds, by source. */
  readonly wholeSyncs: ReadonlyMap<string, JobRow | null>;
  /** By source, as in `SourceFacts`. */
  readonly failingSince: ReadonlyMap<string, string | null>;
  /** By source. */
  readonly firstSyncs: ReadonlyMap<string, SourceFacts['firstSync']>;
  /** By source, its latest restore that has not ended. */
  readonly restores: ReadonlyMap<string, ReturnType<typeof latestUnfinished>>;
  /** The sources whose drift is not reported yet, and since when. */
  readonly driftWaits: ReadonlyMap<string, string | null>;
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
interface Look {
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
const NO_ATTEMPTS: SourceFacts['firstSync'] = { hasEnded: false, wasInterrupted: false };
/** Attempts of a source without a complete run that are looked at: more than were made before somebody should have known of it. */
const ATTEMPTS_READ = 500;
/** Longer than most syncs of other processes take. */
const LOCKED_LONG_MS = 15 * 60_000;
/** A notice that is pending for longer failed at the first attempts. */
const PENDING_LONG_MS = 15 * 60_000;

/** What health is assessed from: the running daemon, or what the command line knows without one. */
export type HealthView = Pick<
  DaemonView,
  | 'startedAt'
  | 'addedAt'
  | 'scheduledAt'
  | 'config'
  | 'configProblem'
  | 'mirror'
  | 'completeRuns'
  | 'backups'
  | 'schedules'
  | 'intervalChange'
  | 'running'
  | 'unwritten'
  | 'queued'
  | 'problems'
>;

/** What a source is assessed by beside its mirror. */
export type SourceView = Pick<
  HealthView,
  'addedAt' | 'scheduledAt' | 'schedules' | 'intervalChange' | 'running' | 'queued' | 'problems'
>;

/** Does not throw for a mirror that cannot be read: that is part of the snapshot. */
export function readHealthSnapshot(view: HealthView, now: number, shown: Look = {}): HealthSnapshot {
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
  shown: Look = {},
): HealthInputs {
  const config = view.config();
  const configured = shown.sources ?? config.sources.map(({ name }) => name);
  const restores = new Map(configured.map((source) => [source, latestUnfinished(mirror, source)]));
  return mirror.atOnce((): HealthInputs => {
    const sourceStatuses = readSourceStatuses(mirror, configured, {
      now,
      definitionsOf: (source) => definitionsFor(config, source),
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
      backups: backupFacts(view, mirror, now),
      begunAnew: begunAnew(config, view.backups.remembered(config.backup?.targets ?? []), mirror),
      wholeSyncs: new Map(
        sourceStatuses.map((status) => [status.source, lastWholeSync(mirror, status.source, lastJobs)]),
      ),
      failingSince: new Map(configured.map((source) => [source, failingSince(mirror, source)])),
      firstSyncs: new Map(
        sourceStatuses.map(({ source, lastComplete }) => [source, firstSyncOf(mirror, source, lastComplete)]),
      ),
      restores,
      driftWaits: driftWaitsOf(config, mirror),
      contradictions: contradictionsOf(config, mirror),
      damage: shown.finder?.damage(mirror) ?? null,
      planted: plantedIn(mirror),
    };
  });
}

function rememberComplete(
  { completeRuns }: Pick<HealthView, 'completeRuns'>,
  source: string,
  run: RunRow | null,
): void {
  if (run === null) completeRuns.delete(source);
  else completeRuns.set(source, run);
}

function plantedIn(mirror: Mirror): HealthFacts['planted'] {
  const planted = mirror.plantedTrigger();
  return planted === null ? null : { message: planted.message, hint: planted.hint ?? null };
}

/** What people decided and another program wrote over, or in their name. */
function contradictionsOf(config: Config, mirror: Mirror): HealthInputs['contradictions'] {
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
  const tables = [
    ...accepted.map(() => ({ about: 'acceptances' }) as const),
    ...pinned.map(({ again }) => ({ about: 'snapshots', ...(again === null ? {} : { again }) }) as const),
  ];
  return {
    lines: [...accepted, ...pinned.map(({ line }) => line)],
    hint: `\`tidemark verify\` names everything that does not match the audit log; ${mendingText(tables)}`,
  };
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
    hasBackupFailed(row) && standingOf(view, row) === null && !damaged.some(({ job }) => job === row.job);
  const madeGood = new Set(
    inputs.lastJobs
      .of('backup')
      .filter(isOver)
      .map(({ source }) => source ?? ''),
  );
  return { now, health: healthFrom(view, inputs, now), mirror, madeGood, ...inputs };
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
  const { sourceStatuses, lastJobs, pending, recent, backups, begunAnew: anew } = inputs;
  const config = view.config();
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
    ...jobFacts(inputs, (row) => standingOf(view, row)),
    contradictions: inputs.contradictions,
    damage: inputs.damage,
    planted: inputs.planted ?? null,
    failingChannels: failingChannels(pending, recent, now),
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
  const isEncrypted = areBackupsEncrypted(config);
  if (owner === null && backup === LATEST_BACKUP && !isEncrypted) return health;
  const toRunHint = (hint: string): string => {
    const named = namingBackup(hint, backup, isEncrypted);
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
  };
  return { now, health, mirror: null, madeGood: new Set(), ...nothing };
}

/** The age of a source's last complete run, and the allowed one. */
export interface Freshness extends Pick<SourceFacts, 'behind' | 'isQueued' | 'limitHeldBy' | 'sync'> {
  readonly source: string;
  /** When its last complete run ended, ISO 8601; null without one. */
  readonly completeAt: string | null;
  /** When the daemon first had the source: from then on a complete run is expected. */
  readonly expectedSince: string;
  /** The greatest allowed age of the last complete run, milliseconds. */
  readonly allowedMs: number;
}

interface FreshnessNow extends Freshness {
  /** Then nothing is overdue, whatever its age. */
  readonly isFirstSyncAtWork: boolean;
}

/**
 * The freshness of configured sources that a schedule syncs; null if the mirror cannot be read.
 * @param now milliseconds since the epoch
 * @param names the requested sources; all without
 */
export function readFreshness(
  view: HealthView,
  now: number,
  names?: readonly string[],
): readonly FreshnessNow[] | null {
  const config = view.config();
  const configured = config.sources.map(({ name }) => name);
  try {
    const mirror = view.mirror();
    return mirror.atOnce(() =>
      configured
        .filter((name) => names?.includes(name) !== false)
        .flatMap((source): FreshnessNow[] => {
          const lastComplete = lastCompleteRun(mirror, source);
          rememberComplete(view, source, lastComplete);
          const tried = {
            firstTriedAt: mirror.runs.firstStartedAt(source),
            lastComplete,
            firstSync: firstSyncOf(mirror, source, lastComplete),
          };
          const facts = { ...unreadSource(view, config, source), ...tried };
          const allowedMs = allowedAgeMs(facts);
          if (allowedMs === null) return [];
          const { behind, isQueued, limitHeldBy, sync = null } = facts;
          const expected = expectedSince(facts);
          const completeAt = lastComplete?.finishedAt ?? null;
          return [
            {
              ...{ source, completeAt, expectedSince: expected, allowedMs },
              ...{ behind, isQueued, limitHeldBy, sync },
              isFirstSyncAtWork: isFirstSyncAtWork(facts, now),
            },
          ];
        }),
    );
  } catch {
    // Health and the jobs report why it cannot be read.
    return null;
  }
}

/** When the first of the latest syncs of all kinds ended that failed in the same way one after the other, ISO 8601; null where the latest did not. */
function failingSince(mirror: Mirror, source: string): string | null {
  const attempts = (limit: number): (RunRow | JobRow)[] => {
    const runs = mirror.runs.list({ source, isOfAllKinds: true, limit });
    // Of one with a run, the run says how it ended.
    const jobs = mirror.daemon.jobs({ name: 'sync', source, limit }).filter(({ run }) => run === null);
    return [...runs, ...jobs]
      .filter(({ outcome }) => outcome !== 'running')
      .toSorted((a, b) => (a.startedAt > b.startedAt ? -1 : 1));
  };
  // One of each may be at work.
  const [latest] = attempts(2);
  const code = latest === undefined ? null : failureCode(latest);
  if (code === null) return null;
  const all = attempts(ATTEMPTS_READ);
  const other = all.findIndex((each) => failureCode(each) !== code);
  const first = other === -1 ? all.at(-1) : all[other - 1];
  return first?.finishedAt ?? first?.startedAt ?? null;
}

function firstSyncOf(
  mirror: Mirror,
  source: string,
  lastComplete: SourceFacts['lastComplete'],
): SourceFacts['firstSync'] {
  if (lastComplete !== null) return NO_ATTEMPTS;
  const runs = mirror.runs.list({ source, isOfAllKinds: true, limit: ATTEMPTS_READ });
  // Of one with a run, the run says how it ended.
  const jobs = mirror.daemon
    .jobs({ name: 'sync', source, limit: ATTEMPTS_READ })
    .filter(({ run }) => run === null);
  const ended = [...runs, ...jobs].filter(({ outcome }) => outcome !== 'running');
  return { hasEnded: !ended.every(isInterrupted), wasInterrupted: ended.some(isInterrupted) };
}

/** The backups in their directory, after a short wait; null if unknown. Also of a mirror that cannot be read: then they matter most. */
export async function lookAtBackups(view: HealthView, waitMs?: number): Promise<BackupsShown | null> {
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
    return [{ message: error.message, hint: error.hint ?? null, since }];
  });
}

/**
 * Jobs that failed with a local error (the disk is full, the mirror is damaged or cannot be written) that could not be
 * recorded, until the next job of that name gets further.
 */
function unreportedJobProblems(view: HealthView, jobs: LastJobs): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    const [word, name, ...rest] = about.split(':');
    if (word !== 'job' || name === undefined || !isLocalError(error.code)) return [];
    // It is back: it was read.
    if (error.code === 'mirror_missing') return [];
    const source = rest.length === 0 ? null : rest.join(':');
    if (name === 'backup' && view.config().backup === null) return [];
    const row = jobs.of(name as JobName).find((each) => each.source === source);
    if (row?.errorCode === error.code) return [];
    // By a command, which the daemon's own list does not know.
    if (row?.outcome === 'done' && row.startedAt >= since) return [];
    const message = `the last ${name}${source === null ? '' : ` of ${source}`} failed: ${error.message}`;
    return [{ message, hint: error.hint ?? null, since }];
  });
}

/** The latest sync of all kinds of a source, where the latest sync was one. */
function lastWholeSync(mirror: Mirror, source: string, jobs: LastJobs): JobRow | null {
  const row = jobs.one('sync', source);
  const run = row?.run ?? null;
  const kinds = run === null ? null : (mirror.runs.get(run)?.kinds ?? null);
  return kinds === null ? row : null;
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

function sourceFacts(
  view: HealthView,
  config: Config,
  sourceStatus: SourceStatus,
  {
    wholeSyncs,
    failingSince: failing,
    firstSyncs,
    restores,
    driftWaits,
  }: Pick<HealthInputs, 'wholeSyncs' | 'failingSince' | 'firstSyncs' | 'restores' | 'driftWaits'>,
): SourceFacts {
  const { source, lastComplete, lastEnded, lastWholeEnded, firstTriedAt, held, unreadCount } = sourceStatus;
  const narrowed = lastEnded?.kinds ?? null;
  const restore = restores.get(source);
  const interrupted = restore?.isAtWork === true ? null : (restore?.row ?? null);
  return {
    ...unreadSource(view, config, source),
    lastComplete,
    lastEnded: lastWholeEnded,
    lastSync: wholeSyncs.get(source) ?? null,
    failingSince: failing.get(source) ?? null,
    firstSync: firstSyncs.get(source) ?? NO_ATTEMPTS,
    interrupted,
    driftWaitsSince: driftWaits.get(source) ?? null,
    lastNarrowed: lastEnded === null || narrowed === null ? null : { ...lastEnded, kinds: narrowed },
    firstTriedAt,
    held: {
      records: held.reduce((sum, { records }) => sum + records, 0),
      ceiling: held.reduce((sum, { records, below }) => sum + records + below, 0),
    },
    unread: unreadCount,
  };
}

/** The facts about a source without the mirror. */
export function unreadSource(view: SourceView, config: Config, source: string): SourceFacts {
  const schedule = view.schedules().find((each) => each.schedule === 'sync' && each.sources.includes(source));
  const sync = view.running().find((job) => job.name === 'sync' && job.source === source);
  return {
    source,
    schedule:
      schedule === undefined
        ? null
        : {
            intervalMs: schedule.intervalMs,
            jitterMs: config.schedules.sync?.jitterMs ?? 0,
            change: view.intervalChange('sync'),
            sourceSince: view.scheduledAt(source),
          },
    isSyncing: sync !== undefined,
    sync: sync === undefined ? null : { startedAt: sync.startedAt, silentMs: sync.silentMs ?? 0 },
    isSilent: (sync?.silentMs ?? 0) >= SILENT_MS,
    behind: behindOf(view, source),
    isQueued: queuedSync(view, source) !== undefined,
    limitHeldBy: queuedSync(view, source)?.waitsFor ?? null,
    hourUsedUp: hourUsedUp(view, source),
    pausedUntil: schedule?.paused?.find((each) => each.source === source)?.until ?? null,
    lastComplete: null,
    lastEnded: null,
    lastSync: null,
    firstSync: NO_ATTEMPTS,
    lastNarrowed: null,
    addedAt: view.addedAt(source),
    firstTriedAt: null,
    held: { records: 0, ceiling: 0 },
    interrupted: null,
    driftWaitsSince: null,
    unread: 0,
  };
}

function behindOf(view: SourceView, source: string): SourceFacts['behind'] {
  return (queuedSync(view, source) === undefined ? undefined : view.running()[0]) ?? null;
}

function queuedSync(view: SourceView, source: string): ReturnType<SourceView['queued']>[number] | undefined {
  return view.queued().find((job) => job.name === 'sync' && job.source === source);
}

function hourUsedUp(view: SourceView, source: string): SourceFacts['hourUsedUp'] {
  const error = view.problems().find(({ about }) => about === hourProblemOf(source))?.error;
  return error === undefined ? null : { message: error.message, hint: error.hint ?? null };
}

/** What is left of a failed backup, as of what is known of the targets now. */
function standingOf(view: HealthView, row: JobRow): JobRow | null {
  const { backup } = view.config();
  return standingFailure(row, backup, view.backups.remembered(backup?.targets ?? []));
}

/** @param standing what is left of a failed backup; null for nothing */
function jobFacts(
  { lastJobs: jobs, drillScores }: MirrorFacts,
  standing: (row: JobRow) => JobRow | null,
): Pick<HealthFacts, 'verify' | 'drills' | 'failedJobs'> {
  const [verify] = jobs.verifications;
  const isDamage = ({ job }: JobRow): boolean => jobs.damaged.some((each) => each.job === job);
  const isLatest = (row: JobRow): boolean => jobs.one(row.name, row.source)?.job === row.job;
  // Findings of a check are reported separately; only a check that could not run counts here.
  const latest = JOB_NAMES.filter((name) => name !== 'sync').flatMap((name) =>
    jobs
      .of(name)
      .filter(hasFailed)
      // That the targets have what was due does not mend the mirror.
      .flatMap((row) => (name === 'backup' && !isDamage(row) ? (standing(row) ?? []) : row))
      .map((row) => ({ ...row, isBefore: false })),
  );
  const before = jobs.damaged.filter((row) => !isLatest(row)).map((row) => ({ ...row, isBefore: true }));
  return {
    verify: verify === undefined ? null : { ...verify, ...verifyFacts(verify) },
    drills: jobs.of('drill').map((drill) => {
      const { last = null, before = null } = drillScores.get(drill.source ?? '') ?? {};
      return { ...drill, score: last, scoreBefore: before };
    }),
    failedJobs: [...latest, ...before].map((row) => ({
      ...row,
      hint: hasEmptiedTarget(row) ? EMPTIED_HINT : lacksBaseline(row) ? NEW_BASELINE_HINT : refusalOf(row),
      isOfAuditLog: refusalOf(row) !== null,
    })),
  };
}

function verifyFacts(
  verify: JobRow,
): Pick<NonNullable<HealthFacts['verify']>, 'problems' | 'hint' | 'isOfAuditLog'> {
  const summary = summaryOf('verify', verify);
  return {
    problems: summary?.problems ?? 0,
    hint: summary?.hint ?? null,
    isOfAuditLog: summary?.isOfAuditLog === true,
  };
}

function hasFailed(row: JobRow): boolean {
  const isFound = (summaryOf('verify', row)?.problems ?? 0) > 0;
  // It is back, with this row in it.
  if (row.errorCode === ('mirror_missing' satisfies ErrorCode)) return false;
  if (row.name === 'backup') return hasBackupFailed(row);
  return (row.outcome === 'failed' || row.outcome === 'refused') && !isFound;
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
