/**
 * Whether the daemon does what it is there for (docs/http.md, Health). Pure: facts in, verdict and reasons out. The
 * readiness answer, the metrics and the head of the dashboard are three readings of it.
 */
import { duration, plural } from '../../core/wording.ts';
import type { HealthFacts, SourceFacts, EndedJob } from './health-input.ts';
import { type HealthReason, type HealthState, HEALTH_STATES, type HealthCode } from './health-input.ts';
import { allowedAgeMs, expectedSince, sourceReasons } from './source-status.ts';
import { percent } from './wording.ts';

interface SourceHealth {
  readonly source: string;
  readonly state: HealthState;
  readonly reasons: readonly HealthReason[];
  /** Of the latest complete run of all kinds. */
  readonly lastCompleteAt: string | null;
  /** From when on a complete run can be expected, where there never was one; ISO 8601. */
  readonly expectedSince: string;
  /** How old the last complete run may be; null where no schedule syncs the source. */
  readonly allowedMs: number | null;
}

export interface Health {
  readonly state: HealthState;
  /** What concerns the daemon as a whole. */
  readonly reasons: readonly HealthReason[];
  readonly sources: readonly SourceHealth[];
}

export function assessHealth(facts: HealthFacts): Health {
  const reasons = daemonReasons(facts);
  const sources = facts.sources.map((source) => sourceHealth(source, facts));
  return { state: worst([...reasons, ...sources]), reasons, sources };
}

/** The worst of these states. */
export function worst(parts: readonly { readonly state: HealthState }[]): HealthState {
  return HEALTH_STATES.findLast((each) => parts.some(({ state }) => state === each)) ?? 'ok';
}

function sourceHealth(facts: SourceFacts, { now, startedAt }: HealthFacts): SourceHealth {
  const allowedMs = allowedAgeMs(facts);
  const reasons = sourceReasons(facts, allowedMs, now, startedAt);
  return {
    source: facts.source,
    state: worst(reasons),
    reasons,
    lastCompleteAt: facts.lastComplete?.finishedAt ?? null,
    expectedSince: expectedSince(facts, startedAt),
    allowedMs,
  };
}

// What is wrong with the daemon as a whole. Pure.

function daemonReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorProblem, configProblem, problems, verify, drills, failedJobs, failingChannels } = facts;
  const degraded = (
    code: HealthCode,
    message: string,
    since: string | null,
    hint: string | null,
  ): HealthReason => ({ code, state: 'degraded', message, since, hint });
  const endOf = (job: EndedJob): string => job.finishedAt ?? job.startedAt;
  return [
    ...(mirrorProblem === null ? [] : [mirrorReason(mirrorProblem)]),
    ...problems.map(({ message, hint, since }) => degraded('daemon_problem', message, since, hint)),
    ...(configProblem === null
      ? []
      : [
          degraded(
            'config_problem',
            `the new configuration was refused; ${configProblem}`,
            null,
            '`tidemark config check` lists all mistakes',
          ),
        ]),
    ...(verify === null || verify.problems === 0
      ? []
      : [
          degraded(
            'verify_failed',
            `the last check of the mirror found ${plural(verify.problems, 'problem')}`,
            endOf(verify),
            '`tidemark verify` names them; `tidemark backup` lists earlier backups',
          ),
        ]),
    ...drills.flatMap((drill) =>
      drill.score !== null && drill.scoreBefore !== null && drill.score < drill.scoreBefore
        ? [
            degraded(
              'drill_fell',
              `the last drill${of(drill.source)} would restore ${percent(drill.score)}, the one before ${percent(drill.scoreBefore)}`,
              endOf(drill),
              '`tidemark drill` lists what would not come back',
            ),
          ]
        : [],
    ),
    ...failedJobs.map((job) =>
      degraded(
        'job_failed',
        `the last ${job.name}${of(job.source)} ${job.outcome === 'interrupted' ? 'was interrupted' : 'failed'}${job.error === null ? '' : `: ${job.error}`}`,
        endOf(job),
        `\`tidemark ${job.name === 'backup' ? 'backup list' : job.name}\``,
      ),
    ),
    ...backupReasons(facts),
    ...failingChannels.map(({ channel, pending, since, error }) =>
      degraded(
        'notices_undelivered',
        `${plural(pending, 'notice')} could not be delivered through ${channel}${error === null ? '' : `: ${error}`}`,
        since,
        `\`tidemark notify test\` tries the channels`,
      ),
    ),
  ];
}

/** A backup may be one interval late, as a sync may. */
const INTERVALS_ALLOWED = 2;

/**
 * A backup is made after a complete run: while none is, there is none, and no job says so. Where runs are complete and no backup
 * comes of them, the failed job is the reason.
 */
function backupReasons({ backups, sources, now, startedAt }: HealthFacts): HealthReason[] {
  if (backups === null) return [];
  const { everyMs, lastAt } = backups;
  const completeAt = sources.flatMap(({ lastComplete }) => lastComplete?.finishedAt ?? []).sort();
  const triedAt = sources.map((source) => expectedSince(source, startedAt)).sort();
  const since = lastAt ?? completeAt.at(-1) ?? triedAt[0] ?? startedAt;
  const dueAt = lastAt === null ? null : Date.parse(lastAt) + everyMs;
  const hadItsRun = dueAt !== null && completeAt.some((at) => Date.parse(at) >= dueAt);
  const ageMs = now - Date.parse(since);
  if (hadItsRun || ageMs <= INTERVALS_ALLOWED * everyMs) return [];
  return [
    {
      code: 'backup_overdue',
      state: 'degraded',
      message: `no backup of the mirror was made ${lastAt === null ? 'yet' : `for ${duration(ageMs)}`}, one is due every ${duration(everyMs)}: no run was complete`,
      since,
      hint: '`tidemark status` shows what keeps runs from being complete; `tidemark backup create` makes a backup of what there is',
    },
  ];
}

function mirrorReason({ message, hint, isComing }: NonNullable<HealthFacts['mirrorProblem']>): HealthReason {
  if (isComing) {
    return {
      code: 'first_sync',
      state: 'starting',
      message: 'the first sync is about to make the mirror',
      since: null,
      hint: null,
    };
  }
  return {
    code: 'mirror_unreadable',
    state: 'failing',
    message: `the mirror cannot be read: ${message}`,
    since: null,
    hint,
  };
}

function of(source: string | null): string {
  return source === null ? '' : ` of ${source}`;
}
