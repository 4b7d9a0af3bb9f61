/** The health of the mirror: existence, damage, disk space, and the schedules and notices of its daemon. Read-only. */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { type Config, type ScheduleName, SCHEDULE_NAMES } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import { acquireWriterLock } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { realMirrorPath } from '../mirror/real-path.ts';
import { interruptedRestore, type UnendedRestore } from '../mirror/unfinished-restore.ts';
import { contradictedSnapshots } from '../state/resolved-state.ts';
import { type SourceStatus, readSourceStatuses } from '../state/source-status.ts';
import { nearestDirectory, type Space, spaceBeside } from './disk.ts';

interface ScheduleHealth {
  readonly schedule: ScheduleName;
  readonly cron: string;
  /** ISO 8601; null if no daemon has scheduled it yet. */
  readonly dueAt: string | null;
  /** True if it is past due and was not started. */
  readonly isOverdue: boolean;
  readonly missed: number;
}

/** What a verification found. */
export interface Verification {
  readonly problems: number;
  /** When it ended, ISO 8601. */
  readonly at: string;
}

export interface MirrorHealth {
  readonly path: string;
  readonly isThere: boolean;
  /** Why it could not be opened. */
  readonly error: TidemarkError | null;
  /** Damage of the file that SQLite reports; empty without damage. */
  readonly damage: readonly string[];
  /** True if every user of the machine can read or write it. */
  readonly isOpen: boolean;
  /** Size of the file and its log. */
  readonly bytes: number;
  /** Null if the system does not report it. */
  readonly space: Space | null;
  /** The process that has the writer lock, as text; null without one. */
  readonly heldBy: string | null;
  /** Why it cannot be written, if not because of another process. */
  readonly writeError: TidemarkError | null;
  /** The configured sources. */
  readonly sources: readonly SourceStatus[];
  readonly schedules: readonly ScheduleHealth[];
  readonly notices: {
    readonly pending: number;
    readonly oldestPendingAt: string | null;
    readonly givenUp: number;
    /** The error of the latest notice that was given up. */
    readonly lastError: string | null;
  };
  readonly lastDrill: JobRow | null;
  /** The last verification; null without one. */
  readonly verification: Verification | null;
  /** The latest interrupted restore of each source. */
  readonly interrupted: readonly UnendedRestore[];
  /**
   * What another program altered, inserted or deleted: each snapshot, which cannot be used, and the first of the runs, of the
   * restores and of the acceptances.
   */
  readonly contradictions: readonly TidemarkError[];
}

interface HealthOptions {
  readonly config: Config;
  /** Open for reading; null if it could not be opened (`error` says why), or does not exist. */
  readonly mirror: Mirror | null;
  readonly error: TidemarkError | null;
  /** The last verification, as the mirror recorded it. */
  readonly verificationOf: (mirror: Mirror) => Verification | null;
  readonly now: number;
  readonly looker: { readonly pid: number; readonly host: string };
}

/** A schedule is overdue after this time: the daemon checks once a minute, and may be busy. */
const LATE_MS = 5 * 60_000;
/** The number of latest deliveries that are searched for given-up ones. */
const DELIVERIES = 200;

/** Reads the health; a missing mirror is not a failure. */
export function mirrorHealth(options: HealthOptions): MirrorHealth {
  const { config, mirror, error, now, looker } = options;
  const isThere = existsSync(config.mirror);
  const found = mirror === null ? [] : quickCheck(mirror);
  const { state, damage } =
    mirror === null || found.length > 0 ? { state: NO_STATE, damage: found } : readState(mirror, options);
  return {
    path: config.mirror,
    isThere,
    error,
    damage,
    isOpen: process.platform !== 'win32' && (modeOf(config.mirror) & 0o006) !== 0,
    bytes: sizeOf(config.mirror) + sizeOf(`${config.mirror}-wal`),
    space: spaceBeside(config.mirror),
    ...lockCheck(config.mirror, now, looker),
    ...state,
  };
}

/** The part that is read from the mirror. */
type MirrorState = Pick<
  MirrorHealth,
  'sources' | 'schedules' | 'notices' | 'interrupted' | 'contradictions' | 'verification' | 'lastDrill'
>;

const NO_STATE: MirrorState = {
  sources: [],
  schedules: [],
  notices: { pending: 0, oldestPendingAt: null, givenUp: 0, lastError: null },
  interrupted: [],
  contradictions: [],
  verification: null,
  lastDrill: null,
};

/** Also returns the damage that only reading shows. */
function readState(
  mirror: Mirror,
  { config, verificationOf, now }: HealthOptions,
): { readonly state: MirrorState; readonly damage: string[] } {
  const names = config.sources.map(({ name }) => name);
  try {
    const state = {
      sources: readSourceStatuses(mirror, names, { now, config, others: [] }),
      schedules: schedules(config, mirror, now),
      notices: notices(mirror),
      interrupted: names.flatMap((name) => interruptedRestore(mirror, name) ?? []),
      contradictions: [
        mirror.foreignTrigger() ?? [],
        contradictedSnapshots(mirror),
        alteredRows(mirror),
      ].flat(),
      verification: verificationOf(mirror),
      lastDrill: mirror.daemon.jobs({ name: 'drill', limit: 1 })[0] ?? null,
    };
    return { state, damage: [] };
  } catch (error) {
    const { code, message } = asTidemarkError(error);
    if (code !== 'mirror_corrupt') throw error;
    return { state: NO_STATE, damage: [message.replace(`${mirror.path} is damaged: `, '')] };
  }
}

function alteredRows(mirror: Mirror): TidemarkError[] {
  const accepted = mirror.acceptances.checked().filter(({ contradiction }) => contradiction !== undefined);
  const acceptances = accepted.map(
    ({ kind }) => `an acceptance of drift in ${kind} is not as the audit log has it`,
  );
  return [
    mirror.runs.unlikeSealed({}),
    mirror.restores.contradictions(),
    [...acceptances, ...mirror.acceptances.unreadable()].map((line) => ({ line })),
  ].flatMap(([first, ...more]) =>
    first === undefined
      ? []
      : new TidemarkError(
          'mirror_corrupt',
          more.length === 0 ? first.line : `${first.line}; so it is with ${more.length} more`,
        ),
  );
}

function quickCheck(mirror: Mirror): string[] {
  try {
    // The first line of a finding with several lines only names the file.
    return mirror
      .quickCheck()
      .flatMap((found) => found.split('\n'))
      .filter((line) => line.trim() !== '' && !line.startsWith('***'));
  } catch (error) {
    return [asTidemarkError(error).message];
  }
}

function modeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Whether a sync could write: takes the writer lock for a moment, if the lock file exists. Creates no file. */
function lockCheck(
  name: string,
  now: number,
  looker: HealthOptions['looker'],
): Pick<MirrorHealth, 'heldBy' | 'writeError'> {
  try {
    const path = realMirrorPath(name);
    // The directory too: the log and the stage are files beside the mirror.
    const needed = [nearestDirectory(path), ...(existsSync(path) ? [path] : [])];
    for (const each of needed) checkWritable(each);
    if (existsSync(path) && existsSync(`${path}-lock`))
      acquireWriterLock(path, { command: 'doctor', ...looker, since: isoTime(now) }).release();
    return { heldBy: null, writeError: null };
  } catch (thrown) {
    const error = asTidemarkError(asFileError(thrown, name, 'opened'));
    if (error.code !== 'mirror_locked') return { heldBy: null, writeError: error };
    return { heldBy: error.message, writeError: null };
  }
}

function checkWritable(path: string): void {
  try {
    accessSync(path, statSync(path).isDirectory() ? constants.W_OK | constants.X_OK : constants.W_OK);
  } catch (error) {
    throw asFileError(error, path, 'written');
  }
}

function schedules(config: Config, mirror: Mirror, now: number): ScheduleHealth[] {
  const rows = new Map(mirror.daemon.schedules().map((row) => [row.schedule, row]));
  return SCHEDULE_NAMES.flatMap((schedule) => {
    const settings = config.schedules[schedule];
    // The schedule `forget` does nothing without retention rules.
    if (settings === null || (schedule === 'forget' && config.retention === null)) return [];
    const row = rows.get(schedule);
    return [
      {
        schedule,
        cron: settings.cron,
        dueAt: row?.dueAt ?? null,
        isOverdue: row !== undefined && now - Date.parse(row.dueAt) > LATE_MS,
        missed: row?.missedTicks ?? 0,
      },
    ];
  });
}

function notices(mirror: Mirror): MirrorHealth['notices'] {
  const pending = mirror.daemon.pendingDeliveries();
  // A notice without an error was given up because its problem was over before it was sent.
  const givenUp = mirror.daemon
    .deliveries(DELIVERIES)
    .filter(({ givenUpAt, error }) => givenUpAt !== null && error !== null);
  return {
    pending: pending.length,
    oldestPendingAt: pending[0]?.about.at ?? null,
    givenUp: givenUp.length,
    lastError: givenUp[0]?.error ?? null,
  };
}
