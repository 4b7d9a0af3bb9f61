/** Problems on this side: clock, disk, mirror, schedules, notices. Pure. */
import { RESTORE_OR_NEW_HINT, resumeHint, shellWord, withSource } from '../core/hints.ts';
import { byteSize, formatInteger, localTime, plural } from '../core/wording.ts';
import { type UnendedRestore, unendedText } from '../mirror/unfinished-restore.ts';
import { freeText, fullDisk, LEAST_FREE } from './disk.ts';
import { isOff, type SourceReach } from './source-reach.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { futureRunText } from '../state/runs.ts';
import type { SourceStatus } from '../state/source-status.ts';
import type { MirrorHealth } from './mirror-health.ts';
import { MIRROR_UNWRITABLE, type Problem, VERIFY_FAILED } from './problems.ts';

/** A larger difference of the clocks makes ages and schedules wrong. */
const SKEW_LIMIT_MS = 60_000;
/** What a run needs at most, in addition to a copy of the mirror: 256 MiB. */
const MOST_FOR_RUNS = 256 * 1024 * 1024;
const STALE_MS = 48 * 3_600_000;

export function clockProblems({ skew, source }: SourceReach): Problem[] {
  if (skew === null || !isOff(skew, SKEW_LIMIT_MS)) return [];
  const seconds = formatInteger(Math.round(Math.abs(skew.aheadMs) / 1000));
  const doubt = (skew.doubtMs / 1000).toFixed(1);
  return [
    {
      gravity: 'warning',
      code: 'clock_skew',
      source: source.name,
      message: `the service's clock is ${seconds} s ${skew.aheadMs > 0 ? 'ahead of' : 'behind'} this machine's (±${doubt} s)`,
      next: 'check which of the two is wrong, and set it by NTP; ages, schedules and waits follow this machine',
    },
  ];
}

export function mirrorProblems(
  health: MirrorHealth,
  {
    isDaemonAlive,
    now,
    owner,
    missing,
  }: {
    readonly isDaemonAlive: boolean;
    readonly now: number;
    /** The source, if each has its own mirror. */
    readonly owner: string | null;
    /** The sign that there was a mirror, if it is gone. */
    readonly missing: { readonly message: string; readonly hint: string } | null;
  },
): Problem[] {
  const { path, isThere, error, damage, writeError, verification } = health;
  const problems: Problem[] = [];
  const add: Add = (gravity, code, message, next, source = null) =>
    void problems.push({
      ...{ gravity, code, source, message },
      next: owner === null ? next : withSource(next, owner),
    });

  if (damage.length > 0)
    add(
      'error',
      'mirror_corrupt',
      `${path} is damaged: ${damage[0] ?? ''}`,
      `\`tidemark verify\` says what is damaged; keep the file, and ${RESTORE_OR_NEW_HINT}`,
    );
  else if (error !== null && isThere && missing === null)
    add('error', error.code, error.message, error.hint ?? 'check the file and its directory');
  for (const { code, message, hint } of health.contradictions)
    add('error', code, message, hint ?? '`tidemark verify` names everything that is affected');
  if (verification !== null && verification.problems > 0)
    add(
      'error',
      VERIFY_FAILED,
      `the last verification (${localTime(verification.at)}) found ${plural(verification.problems, 'problem')} in ${path}`,
      `\`tidemark verify\` lists them and says what to do; a sync does not repair them`,
    );
  if (missing !== null) add('error', 'mirror_missing', missing.message, missing.hint);
  else if (!isThere)
    add('note', 'mirror_missing', `there is no mirror at ${path} yet`, 'run `tidemark sync` once');
  if (writeError !== null)
    add(
      'error',
      MIRROR_UNWRITABLE,
      writeError.message,
      writeError.hint ?? 'check the owner and mode of the directory',
    );
  if (health.isOpen)
    add(
      'warning',
      'mirror_open',
      `every user of this machine can open ${path}`,
      `\`chmod 600 ${shellWord(path)}\``,
    );
  disk(health, add);
  for (const source of health.sources) {
    freshness(source, now, add);
    failures(source, add);
  }
  for (const restore of health.interrupted) interrupted(restore, owner, add);
  schedules(health, isDaemonAlive, add);
  notices(health, add);
  return problems;
}

type Add = (
  gravity: Problem['gravity'],
  code: string,
  message: string,
  next: string,
  source?: string | null,
) => void;

/** Only a complete run of all kinds shows that the mirror is fresh: a limited run says nothing about other kinds. */
function freshness(
  { source, lastRun, lastPublished, lastComplete }: SourceStatus,
  now: number,
  add: Add,
): void {
  const future = futureRunText([lastRun, lastComplete], now);
  if (future !== null)
    add(
      'warning',
      'run_in_future',
      `${source}: ${future}`,
      'set the clock by NTP; until then, nothing shows how old the mirror is',
      source,
    );
  if (lastPublished === null) {
    add(
      'note',
      'never_synced',
      `${source}: nothing was mirrored yet`,
      `run \`tidemark sync --source ${source}\``,
      source,
    );
  } else if (lastComplete === null) {
    add(
      'warning',
      'never_complete',
      `${source}: no run of all kinds has been complete yet; run ${lastPublished.run} was ${lastPublished.outcome}${narrowing(lastPublished)}`,
      `run \`tidemark sync --source ${source}\`; \`tidemark status\` shows what is incomplete`,
      source,
    );
  } else if (now - Date.parse(lastComplete.finishedAt ?? lastComplete.startedAt) > STALE_MS) {
    const isNewest = lastComplete.run === lastPublished.run;
    add(
      'warning',
      'stale',
      `${source}: the last complete run${isNewest ? '' : ' of all kinds'}, run ${lastComplete.run}, is more than two days old` +
        (isNewest
          ? ''
          : `; run ${lastPublished.run} since was ${lastPublished.outcome}${narrowing(lastPublished)}`),
      'run `tidemark sync`, and schedule it with a daemon or a cron job',
      source,
    );
  }
}

/** The latest run that ended, and the latest of all kinds, whose failure a later limited run does not repair. */
function failures({ source, lastEnded, lastWholeEnded }: SourceStatus, add: Add): void {
  const ended = lastEnded?.run === lastWholeEnded?.run ? [lastEnded] : [lastEnded, lastWholeEnded];
  for (const run of ended) {
    if (run?.outcome !== 'failed') continue;
    add(
      'warning',
      'last_run_failed',
      `${source}: run ${run.run}${narrowing(run)} failed: ${run.error ?? 'no reason was recorded'}`,
      `see \`tidemark runs show ${run.run}\``,
      source,
    );
  }
}

/** ` (roles only)` for a run that was limited to some kinds. */
function narrowing({ kinds }: RunRow): string {
  return kinds === null ? '' : ` (${kinds.join(', ')} only)`;
}

function disk({ space, bytes, path }: MirrorHealth, add: Add): void {
  if (space === null) return;
  const full = fullDisk(path, space);
  if (full !== null) add('error', 'disk_full', full.message, full.hint);
  // The stage of a run and the write-ahead log are at most about as large as the mirror.
  const forRuns = Math.min(LEAST_FREE + bytes, MOST_FOR_RUNS);
  if (full === null && space.freeBytes < bytes + forRuns)
    add(
      'warning',
      'disk_low',
      freeText(path, space),
      `free some space: \`forget\`, backups and upgrades need as much as the mirror has (${byteSize(bytes)}), and a run up to ${byteSize(forRuns)}`,
    );
}

function interrupted(row: UnendedRestore, owner: string | null, add: Add): void {
  const { restore, source, startedAt } = row;
  add(
    'warning',
    'restore_interrupted',
    `${source}: ${unendedText(`restore ${restore} of ${localTime(startedAt)}`, row)}`,
    resumeHint(restore, owner),
    source,
  );
}

function schedules({ schedules }: MirrorHealth, isDaemonAlive: boolean, add: Add): void {
  const overdue = schedules.filter(({ isOverdue }) => isOverdue);
  if (overdue.length > 0) {
    const names = overdue.map(({ schedule }) => schedule).join(', ');
    add(
      'warning',
      'schedule_overdue',
      `overdue: ${names}${isDaemonAlive ? '' : ', and no daemon is running here'}`,
      isDaemonAlive
        ? 'see what the daemon is doing in its log'
        : 'start `tidemark daemon`; it makes up for what was missed',
    );
  }
}

function notices({ notices: { pending, givenUp, lastError } }: MirrorHealth, add: Add): void {
  const why = lastError === null ? '' : `: ${lastError}`;
  if (givenUp > 0)
    add(
      'warning',
      'notices_given_up',
      `notices given up: ${givenUp}${why}`,
      'check the channel; `tidemark notify test` tries it',
    );
  if (pending > 0)
    add('note', 'notices_pending', `notices still pending: ${pending}`, 'a daemon retries them');
}
