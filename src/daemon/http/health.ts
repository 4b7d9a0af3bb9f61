/**
 * Whether the daemon does what it is there for (docs/http.md, Health). Pure: facts in, verdict and reasons out. The
 * readiness answer, the metrics and the head of the dashboard are three readings of it.
 */
import type { ErrorCode } from '../../core/errors.ts';
import { duration, plural } from './wording.ts';

/** `failing` answers 503, the others 200. */
export type HealthState = 'ok' | 'degraded' | 'failing';

export type HealthCode =
  | 'mirror_unreadable'
  | 'stale'
  | 'never_complete'
  | 'first_sync'
  | 'run_failed'
  | 'key_refused'
  | 'run_partial'
  | 'removals_held'
  | 'config_trouble'
  | 'daemon_trouble'
  | 'verify_failed'
  | 'drill_fell'
  | 'job_failed'
  | 'notices_undelivered';

export interface HealthReason {
  readonly code: HealthCode;
  readonly state: Exclude<HealthState, 'ok'>;
  /** One line, without secrets. */
  readonly message: string;
  /** ISO 8601; null where that is not known. */
  readonly since: string | null;
  /** What a person can do about it. */
  readonly hint: string | null;
}

export interface SourceHealth {
  readonly source: string;
  readonly state: HealthState;
  readonly reasons: readonly HealthReason[];
  readonly lastCompleteAt: string | null;
  /** How old the last complete run may be; null where no schedule syncs the source. */
  readonly allowedMs: number | null;
}

export interface Health {
  readonly state: HealthState;
  /** What concerns the daemon as a whole. */
  readonly reasons: readonly HealthReason[];
  readonly sources: readonly SourceHealth[];
}

export interface EndedRun {
  readonly run: number;
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface SourceFacts {
  readonly source: string;
  /** Null where no schedule syncs it. */
  readonly schedule: { readonly intervalMs: number; readonly jitterMs: number } | null;
  readonly isSyncing: boolean;
  readonly lastComplete: EndedRun | null;
  readonly lastEnded: EndedRun | null;
  /** The latest sync job that ended: it may have failed before a run came about. */
  readonly lastSync: EndedJob | null;
  /** Removals that wait, and how many an acceptance has to allow. */
  readonly held: { readonly records: number; readonly ceiling: number };
  /** Collections that the latest look did not find whole. */
  readonly troubled: number;
}

export interface EndedJob {
  readonly startedAt: string;
  readonly finishedAt: string | null;
  readonly outcome: string;
  /** An `ErrorCode`, perhaps one of another version. */
  readonly errorCode: string | null;
  readonly error: string | null;
}

export interface HealthFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly startedAt: string;
  readonly configTrouble: string | null;
  readonly mirrorTrouble: {
    readonly message: string;
    readonly hint: string | null;
    /** True where there is none yet and the first sync is about to make it. */
    readonly isComing: boolean;
  } | null;
  /** What else is wrong with the daemon itself, and for how long. */
  readonly troubles: readonly {
    readonly message: string;
    readonly hint: string | null;
    readonly since: string;
  }[];
  readonly sources: readonly SourceFacts[];
  /** The latest check of the mirror that ended, and how many problems it found. */
  readonly verify: (EndedJob & { readonly problems: number }) | null;
  /** Of each source: its latest drill that ended, and the score of the one before. */
  readonly drills: readonly (EndedJob & {
    readonly source: string | null;
    readonly score: number | null;
    readonly scoreBefore: number | null;
  })[];
  /** Other jobs of which the latest did not do what it should. */
  readonly failedJobs: readonly (EndedJob & { readonly name: string; readonly source: string | null })[];
  /** Channels whose notices do not arrive. */
  readonly silentChannels: readonly {
    readonly channel: string;
    readonly owed: number;
    readonly since: string;
    readonly error: string | null;
  }[];
}

/** Two intervals: one sync may be late or fail, the next makes up for it. */
const INTERVALS_ALLOWED = 2;

/** How old a source's last complete run may be: two intervals, the jitter, and as long as that run itself took. */
export function allowedAgeMs({
  schedule,
  lastComplete,
}: Pick<SourceFacts, 'schedule' | 'lastComplete'>): number | null {
  if (schedule === null) return null;
  const { startedAt, finishedAt } = lastComplete ?? { startedAt: '', finishedAt: null };
  const tookMs = finishedAt === null ? 0 : Math.max(Date.parse(finishedAt) - Date.parse(startedAt), 0);
  return INTERVALS_ALLOWED * schedule.intervalMs + schedule.jitterMs + tookMs;
}

export function assessHealth(facts: HealthFacts): Health {
  const reasons = wholeReasons(facts);
  const sources =
    facts.mirrorTrouble === null ? facts.sources.map((source) => sourceHealth(source, facts)) : [];
  return { state: worst([...reasons, ...sources]), reasons, sources };
}

/** The gravest of these states. */
export function worst(parts: readonly { readonly state: HealthState }[]): HealthState {
  if (parts.some(({ state }) => state === 'failing')) return 'failing';
  return parts.some(({ state }) => state === 'degraded') ? 'degraded' : 'ok';
}

function sourceHealth(facts: SourceFacts, { now, startedAt }: HealthFacts): SourceHealth {
  const allowedMs = allowedAgeMs(facts);
  const reasons = [...freshness(facts, allowedMs, now, startedAt), ...lastRun(facts), ...held(facts)];
  return {
    source: facts.source,
    state: worst(reasons),
    reasons,
    lastCompleteAt: facts.lastComplete?.finishedAt ?? null,
    allowedMs,
  };
}

function freshness(
  facts: SourceFacts,
  allowedMs: number | null,
  now: number,
  startedAt: string,
): HealthReason[] {
  const { lastComplete, source, isSyncing } = facts;
  const hint = `\`tidemark runs\` shows the runs, \`tidemark sync --source ${source}\` starts one now`;
  if (lastComplete === null) {
    // A daemon that has just begun is given the time that any copy is given.
    const isLate = allowedMs !== null && now - Date.parse(startedAt) > allowedMs;
    if (isLate)
      return [
        {
          code: 'never_complete',
          state: 'failing',
          message: 'no run has been complete yet',
          since: startedAt,
          hint,
        },
      ];
    return [
      {
        code: 'first_sync',
        state: 'degraded',
        message: isSyncing ? 'the first sync is under way' : 'no run has been complete yet',
        since: startedAt,
        hint:
          allowedMs === null ? `no schedule syncs this source: \`tidemark sync --source ${source}\`` : null,
      },
    ];
  }
  const at = lastComplete.finishedAt ?? lastComplete.startedAt;
  const ageMs = now - Date.parse(at);
  if (allowedMs === null || ageMs <= allowedMs) return [];
  const message = `the last complete run ended ${duration(ageMs)} ago; the schedule allows ${duration(allowedMs)}`;
  return [{ code: 'stale', state: 'failing', message, since: at, hint }];
}

const REFUSED: ReadonlySet<string> = new Set<ErrorCode>(['unauthorized', 'forbidden']);

function lastRun({ lastEnded, lastSync, troubled, source }: SourceFacts): HealthReason[] {
  // A job that came to no run ended after the last run did.
  const isJobNewer =
    lastSync !== null &&
    (lastEnded === null || lastSync.startedAt > (lastEnded.finishedAt ?? lastEnded.startedAt));
  const last: (EndedJob & { readonly run?: number }) | null = isJobNewer ? lastSync : lastEnded;
  if (last === null) return [];
  const since = last.finishedAt ?? last.startedAt;
  const show = last.run === undefined ? '`tidemark runs`' : `\`tidemark runs show ${last.run}\``;
  const why = last.error === null ? '' : `: ${last.error}`;
  if (
    last.outcome === 'refused' ||
    (last.outcome === 'failed' && last.errorCode !== null && REFUSED.has(last.errorCode))
  ) {
    return [
      {
        code: 'key_refused',
        state: 'degraded',
        message: `the service refused the key${why}`,
        since,
        hint: `check the key of ${source}: \`tidemark config check\``,
      },
    ];
  }
  if (last.outcome === 'failed' || last.outcome === 'interrupted') {
    return [
      {
        code: 'run_failed',
        state: 'degraded',
        message: `the last sync ${last.outcome === 'failed' ? 'failed' : 'was interrupted'}${why}`,
        since,
        hint: `${show} says why; the next one tries again`,
      },
    ];
  }
  if (lastEnded?.outcome !== 'partial') return [];
  const what = troubled === 0 ? '' : `: ${plural(troubled, 'collection')} not whole`;
  return [
    {
      code: 'run_partial',
      state: 'degraded',
      message: `the last sync was partial${what}`,
      since,
      hint: `\`tidemark runs show ${lastEnded.run}\` names them`,
    },
  ];
}

function held({ held: { records, ceiling }, source }: SourceFacts): HealthReason[] {
  if (records === 0) return [];
  return [
    {
      code: 'removals_held',
      state: 'degraded',
      message: `${plural(records, 'removal')} held: too many to believe at once`,
      since: null,
      hint: `if they really went: \`tidemark sync --source ${source} --accept-removals ${ceiling}\``,
    },
  ];
}

function wholeReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorTrouble, configTrouble, troubles, verify, drills, failedJobs, silentChannels } = facts;
  const degraded = (
    code: HealthCode,
    message: string,
    since: string | null,
    hint: string | null,
  ): HealthReason => ({ code, state: 'degraded', message, since, hint });
  const endOf = (job: EndedJob): string => job.finishedAt ?? job.startedAt;
  return [
    ...(mirrorTrouble === null ? [] : [mirrorReason(mirrorTrouble)]),
    ...troubles.map(({ message, hint, since }) => degraded('daemon_trouble', message, since, hint)),
    ...(configTrouble === null
      ? []
      : [
          degraded(
            'config_trouble',
            `the new configuration was refused, the old one stays in force: ${configTrouble}`,
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
            '`tidemark verify` names them; `tidemark copies` has earlier copies',
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
        `\`tidemark ${job.name === 'copy' ? 'copies list' : job.name}\``,
      ),
    ),
    ...silentChannels.map(({ channel, owed, since, error }) =>
      degraded(
        'notices_undelivered',
        `${plural(owed, 'notice')} could not be delivered through ${channel}${error === null ? '' : `: ${error}`}`,
        since,
        `\`tidemark notify test\` tries the channels`,
      ),
    ),
  ];
}

function mirrorReason({ message, hint, isComing }: NonNullable<HealthFacts['mirrorTrouble']>): HealthReason {
  if (isComing) {
    return {
      code: 'first_sync',
      state: 'degraded',
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

/** Rounded down: 99.9 % is not everything. */
export function percent(share: number): string {
  return `${(Math.floor(share * 1000) / 10).toFixed(1).replace(/\.0$/, '')} %`;
}
