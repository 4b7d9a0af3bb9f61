/** The health of the mirror: present, undamaged, with disk space, and its daemon's schedules and notices. Read-only. */
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
  /** True where it is past due and was not started. */
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
  /** Damage of the file that SQLite reports; empty for an intact one. */
  readonly damage: readonly string[];
  /** True where every user of the machine can read or write it. */
  readonly isOpen: boolean;
  /** Of the file and its log. */
  readonly bytes: number;
  /** Null if the system does not report it. */
  readonly space: Space | null;
  /** The process that holds it for writing, as text; null without one. */
  readonly heldBy: string | null;
  /** Why it cannot be written, other than that another process holds it. */
  readonly writeError: TidemarkError | null;
  /** The configured ones. */
  readonly sources: readonly SourceStatus[];
  readonly schedules: readonly ScheduleHealth[];
  readonly notices: {
    readonly pending: number;
    readonly oldestPendingAt: string | null;
    readonly givenUp: number;
    /** The error of the latest one that was given up. */
    readonly lastError: string | null;
  };
  readonly lastDrill: JobRow | null;
  /** The last one; null without one. */
  readonly verification: Verification | null;
  /** Restores that were stopped or killed before their end, of each source the latest. */
  readonly interrupted: readonly UnendedRestore[];
  /** What another program altered, inserted or deleted: each snapshot, which cannot be used, and the first of the runs, restores and acceptances. */
  readonly contradictions: readonly TidemarkError[];
}

interface HealthOptions {
  readonly config: Config;
  /** Open for reading; null where it could not be opened (`error` says why), or is not there. */
  readonly mirror: Mirror | null;
  readonly error: TidemarkError | null;
  /** What the last verification found, as the mirror recorded it. */
  readonly verificationOf: (mirror: Mirror) => Verification | null;
  readonly now: number;
  readonly looker: { readonly pid: number; readonly host: string };
}

/** How late a due time may be before it counts as missed: the daemon checks once a minute, and may be busy. */
const LATE_MS = 5 * 60_000;
/** Latest deliveries searched for those that were given up. */
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

/** What the mirror says itself. */
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

/** With the damage that only reading shows. */
function readState(
  mirror: Mirror,
  { config, verificationOf, now }: HealthOptions,
): { readonly state: MirrorState; readonly damage: string[] } {
  const names = config.sources.map(({ name }) => name);
  try {
    const state = {
      sources: readSourceStatuses(mirror, names, {
        now,
        config,
        others: [],
      }),
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
    // A finding may have several lines, of which the first only names the file.
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

/** Whether a sync could write: takes the writer's lock for a moment, if there ever was a writer. Nothing is made. */
function lockCheck(
  name: string,
  now: number,
  looker: HealthOptions['looker'],
): Pick<MirrorHealth, 'heldBy' | 'writeError'> {
  try {
    const path = realMirrorPath(name);
    // The log and the unpublished run are files beside the mirror.
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
    // Without retention rules nothing is forgotten.
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
  const state = mirror.daemon;
  const pending = state.pendingDeliveries();
  const givenUp = state.deliveries(DELIVERIES).filter(
    // One without an error was over before it was sent.
    ({ givenUpAt, error }) => givenUpAt !== null && error !== null,
  );
  return {
    pending: pending.length,
    oldestPendingAt: pending[0]?.about.at ?? null,
    givenUp: givenUp.length,
    lastError: givenUp[0]?.error ?? null,
  };
}
