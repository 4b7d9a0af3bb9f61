import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { HealthFacts, SourceFacts } from '../../../src/daemon/health/facts.ts';
import { assessHealth, type Health } from '../../../src/daemon/health/health.ts';
import { allowedAgeMs, isQueuedBackupOnTime } from '../../../src/daemon/health/allowed-age.ts';
import { needsOf, sinceOf, sinceWords } from '../../../src/daemon/health/status-answers.ts';
import type { DaemonCells } from '../../../src/daemon/cells.ts';
import { healthText } from '../../../src/daemon/http/documents.ts';
import { DRILL_FALL } from '../../../src/daemon/last-jobs.ts';

type EndedRun = NonNullable<SourceFacts['lastEnded']>;

const NOW = Date.UTC(2026, 2, 1, 12, 0);
const MINUTE_MS = 60_000;

function run(minutesAgo: number, more: Partial<EndedRun> = {}): EndedRun {
  const end = NOW - minutesAgo * MINUTE_MS;
  return {
    run: 7,
    startedAt: new Date(end - 2 * MINUTE_MS).toISOString(),
    finishedAt: new Date(end).toISOString(),
    outcome: 'complete',
    errorCode: null,
    error: null,
    ...more,
  };
}

const SOURCE: SourceFacts = {
  source: 'a',
  schedule: { intervalMs: 30 * MINUTE_MS, jitterMs: MINUTE_MS, change: null, sourceSince: null },
  isSyncing: false,
  isSilent: false,
  behind: null,
  isQueued: false,
  rateWait: null,
  lastComplete: run(10),
  lastEnded: run(10),
  lastSync: null,
  firstSync: { hasEnded: false, wasInterrupted: false },
  lastNarrowed: null,
  addedAt: new Date(NOW - 24 * 60 * MINUTE_MS).toISOString(),
  firstTriedAt: null,
  limitHeldBy: null,
  held: { records: 0, ceiling: 0, lists: [] },
  interrupted: null,
  driftWaitsSince: null,
  unread: 0,
};

const FACTS: HealthFacts = {
  now: NOW,
  startedAt: new Date(NOW - 24 * 60 * MINUTE_MS).toISOString(),
  configProblem: null,
  mirrorProblem: null,
  problems: [],
  sources: [SOURCE],
  backups: null,
  verify: null,
  damage: null,
  contradictions: { lines: [], hint: '' },
  drills: [],
  failedJobs: [],
  failingChannels: [],
  silentChannels: [],
};

const job = {
  startedAt: run(5).startedAt,
  finishedAt: run(5).finishedAt,
  outcome: 'done',
  errorCode: null,
  error: null,
};

const FAILED = { ...job, outcome: 'failed', hint: null, isOfAuditLog: false };

const NOT_WAITING = { change: null, isBeingMade: false, waits: null };
const NEVER_MADE = {
  everyMs: 60 * MINUTE_MS,
  lastAt: null,
  newest: null,
  ...NOT_WAITING,
  volumes: [],
  emptied: [],
};

/** For longer than the schedule allows. */
const NEVER = { lastComplete: null, lastEnded: null };
const NEW = { ...NEVER, addedAt: run(3).startedAt };
const ENDED = { hasEnded: true, wasInterrupted: false };
const INTERRUPTED = { hasEnded: false, wasInterrupted: true };

function source(more: Partial<SourceFacts>): HealthFacts {
  return { ...FACTS, sources: [{ ...SOURCE, ...more }] };
}

describe('health', () => {
  it('calls a drill worse at the fall of which Prometheus warns', () => {
    const alerts = readFileSync(new URL('../../../deploy/prometheus/alerts.yaml', import.meta.url), 'utf8');
    expect(alerts).toContain(`max_over_time(tidemark_drill_score[30d]) - ${DRILL_FALL}\n`);
  });

  it.each<[string, HealthFacts, string, string[]]>([
    ['all is well', FACTS, 'ok', []],
    ['just within what is allowed', source({ lastComplete: run(40) }), 'ok', []],
    ['a minute beyond it', source({ lastComplete: run(41) }), 'failing', ['stale']],
    ['however old without a schedule', source({ schedule: null, lastComplete: run(9000) }), 'ok', []],
    [
      'the first sync still to come',
      source({ lastComplete: null, lastEnded: null, addedAt: run(5).finishedAt ?? '' }),
      'starting',
      ['first_sync'],
    ],
    [
      'no complete run since long',
      source({ lastComplete: null, lastEnded: null }),
      'failing',
      ['never_complete'],
    ],
    [
      'a first sync that takes longer than what is allowed',
      source({ ...NEVER, isSyncing: true }),
      'starting',
      ['first_sync'],
    ],
    [
      'a first sync that waits for a free slot for longer than what is allowed',
      source({ ...NEVER, isQueued: true }),
      'starting',
      ['first_sync'],
    ],
    [
      'a first sync that waits for the sync of another source of the mirror',
      source({ ...NEVER, isQueued: true, behind: { name: 'sync', startedAt: run(90).startedAt } }),
      'starting',
      ['first_sync'],
    ],
    [
      'a first sync that waits for a backup, which may hang',
      source({ ...NEVER, isQueued: true, behind: { name: 'backup', startedAt: run(90).startedAt } }),
      'failing',
      ['never_complete'],
    ],
    [
      'a first sync that begins again after the daemon was stopped',
      source({
        ...NEVER,
        isSyncing: true,
        addedAt: run(5).startedAt,
        firstTriedAt: run(350).startedAt,
        firstSync: INTERRUPTED,
        lastEnded: run(300, { outcome: 'failed', errorCode: 'interrupted' }),
        lastSync: { ...job, outcome: 'interrupted' },
      }),
      'starting',
      ['first_sync', 'run_failed'],
    ],
    [
      'a first sync that was interrupted, more than six hours after it was tried first',
      source({
        ...NEVER,
        isSyncing: true,
        addedAt: run(5).startedAt,
        firstTriedAt: run(360).startedAt,
        firstSync: INTERRUPTED,
        lastEnded: run(30, { outcome: 'failed', errorCode: 'interrupted' }),
      }),
      'failing',
      ['never_complete', 'run_failed'],
    ],
    [
      'a first sync that was interrupted, and has by its schedule more than six hours',
      source({
        ...NEVER,
        schedule: { intervalMs: 24 * 60 * MINUTE_MS, jitterMs: 0, change: null, sourceSince: null },
        isSyncing: true,
        firstTriedAt: run(28 * 60).startedAt,
        firstSync: INTERRUPTED,
      }),
      'starting',
      ['first_sync'],
    ],
    [
      'a first sync that was refused, and interrupted when it was tried again, late',
      source({
        ...NEVER,
        isSyncing: true,
        firstSync: { hasEnded: true, wasInterrupted: true },
        lastEnded: run(30, { outcome: 'failed', errorCode: 'interrupted' }),
      }),
      'failing',
      ['never_complete', 'run_failed'],
    ],
    [
      'a first sync whose service does not answer, late',
      source({ ...NEVER, isSyncing: true, isSilent: true }),
      'failing',
      ['never_complete'],
    ],
    [
      'a first sync that was partial, and the next one under way, late',
      source({ ...NEVER, isSyncing: true, firstSync: ENDED, lastEnded: run(2, { outcome: 'partial' }) }),
      'failing',
      ['never_complete', 'run_partial'],
    ],
    [
      'a first sync that failed, and the next one waiting, late',
      source({ ...NEVER, isQueued: true, firstSync: ENDED, lastEnded: run(2, { outcome: 'failed' }) }),
      'failing',
      ['never_complete', 'run_failed'],
    ],
    [
      'a first sync that failed before its run began, and the next one under way, late',
      source({ ...NEVER, isSyncing: true, firstSync: ENDED, lastSync: { ...job, outcome: 'failed' } }),
      'failing',
      ['never_complete', 'run_failed'],
    ],
    [
      'a first sync that failed, long before it is late',
      source({ ...NEW, firstSync: ENDED, lastEnded: run(2, { outcome: 'failed' }) }),
      'failing',
      ['never_complete', 'run_failed'],
    ],
    [
      'a first sync that was partial, long before it is late',
      source({ ...NEW, isSyncing: true, firstSync: ENDED, lastEnded: run(2, { outcome: 'partial' }) }),
      'failing',
      ['never_complete', 'run_partial'],
    ],
    [
      'a first sync whose service does not answer, long before it is late',
      source({ ...NEW, isSyncing: true, isSilent: true }),
      'failing',
      ['never_complete'],
    ],
    [
      'a first sync that waits for a backup, before it is late',
      source({ ...NEW, isQueued: true, behind: { name: 'backup', startedAt: run(1).startedAt } }),
      'starting',
      ['first_sync'],
    ],
    [
      'a first sync that failed, of a source without a schedule',
      source({ ...NEW, schedule: null, firstSync: ENDED, lastEnded: run(2, { outcome: 'failed' }) }),
      'degraded',
      ['first_sync', 'run_failed'],
    ],
    [
      'a partial run after a complete one',
      source({ lastEnded: run(2, { outcome: 'partial' }), unread: 3 }),
      'degraded',
      ['run_partial'],
    ],
    [
      'a failed run',
      source({ lastEnded: run(2, { outcome: 'failed', errorCode: 'unreachable', error: 'no route' }) }),
      'degraded',
      ['run_failed'],
    ],
    [
      'a refused key',
      source({ lastEnded: run(2, { outcome: 'failed', errorCode: 'unauthorized' }) }),
      'degraded',
      ['key_refused'],
    ],
    [
      'a job that came to no run',
      source({ lastSync: { ...job, outcome: 'refused' } }),
      'degraded',
      ['key_refused'],
    ],
    [
      'a job that failed before the last run',
      source({ lastSync: { ...job, startedAt: run(60).startedAt, outcome: 'failed' } }),
      'ok',
      [],
    ],
    [
      'failed for so long that the copy is old',
      source({ lastComplete: run(600), lastEnded: run(2, { outcome: 'failed' }) }),
      'failing',
      ['stale', 'run_failed'],
    ],
    [
      'a narrowed run that was partial, over one of all kinds',
      source({ lastNarrowed: { ...run(1, { outcome: 'partial' }), kinds: ['roles'] } }),
      'degraded',
      ['run_partial'],
    ],
    [
      'a narrowed run that was complete changes nothing of a partial one',
      source({
        lastEnded: run(2, { outcome: 'partial' }),
        lastNarrowed: { ...run(1), kinds: ['roles'] },
      }),
      'degraded',
      ['run_partial'],
    ],
    [
      'never complete since long, however often the daemon begins again',
      source({
        lastComplete: null,
        lastEnded: null,
        firstTriedAt: run(600).startedAt,
        addedAt: run(1).startedAt,
      }),
      'failing',
      ['never_complete'],
    ],
    [
      'no backup while no run is complete',
      {
        ...source({ lastComplete: run(9 * 60), schedule: null }),
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(9 * 60 + 30).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [],
          emptied: [],
        },
      },
      'degraded',
      ['backup_overdue'],
    ],
    [
      'the same within two intervals',
      {
        ...source({ lastComplete: run(119), schedule: null }),
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(119).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [],
          emptied: [],
        },
      },
      'ok',
      [],
    ],
    [
      'no backup ever, and the last one failed: told first, and why none was made',
      {
        ...source({ lastComplete: run(121), schedule: null }),
        failedJobs: [{ ...FAILED, name: 'backup', source: null }],
        backups: NEVER_MADE,
      },
      'degraded',
      ['job_failed', 'backup_overdue'],
    ],
    [
      'no backup ever, and no complete run for long',
      {
        ...source({ lastComplete: run(121), schedule: null }),
        backups: NEVER_MADE,
      },
      'degraded',
      ['backup_overdue'],
    ],
    [
      'an old backup that a complete run should have renewed',
      {
        ...source({ lastComplete: run(10), schedule: null }),
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(500).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [],
          emptied: [],
        },
      },
      'degraded',
      ['backup_overdue'],
    ],
    [
      'a target on a volume with room for one more backup',
      {
        ...source({ lastComplete: run(10) }),
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(10).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [
            { address: '/full', freeBytes: 1999, backupBytes: 1000 },
            { address: '/roomy', freeBytes: 2000, backupBytes: 1000 },
          ],
          emptied: [],
        },
      },
      'degraded',
      ['backup_space_low'],
    ],
    [
      'a directory that lost its backups',
      {
        ...FACTS,
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(5).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [],
          emptied: [{ address: '/mnt/b', holdsOthers: false }],
        },
      },
      'degraded',
      ['backup_emptied'],
    ],
    [
      'a backup that is not in the chain of the mirror',
      {
        ...FACTS,
        backups: {
          everyMs: 60 * MINUTE_MS,
          lastAt: run(5).finishedAt,
          newest: null,
          ...NOT_WAITING,
          volumes: [],
          emptied: [],
          contradicting: ['a.tidemark'],
        },
      },
      'degraded',
      ['backup_contradicts'],
    ],
    [
      'removals held',
      source({ held: { records: 12, ceiling: 14, lists: [] } }),
      'degraded',
      ['removals_held'],
    ],
    [
      'a run that is partial only since removals are held',
      source({ lastEnded: run(2, { outcome: 'partial' }), held: { records: 12, ceiling: 14, lists: [] } }),
      'degraded',
      ['removals_held'],
    ],
    [
      'a run that did not read a list either',
      source({
        lastEnded: run(2, { outcome: 'partial' }),
        held: { records: 12, ceiling: 14, lists: [] },
        unread: 1,
      }),
      'degraded',
      ['run_partial', 'removals_held'],
    ],
    [
      'a restore that was interrupted',
      source({ interrupted: { restore: 3, startedAt: run(5).startedAt } }),
      'degraded',
      ['restore_interrupted'],
    ],
    [
      'drift that is not reported yet',
      source({ driftWaitsSince: run(5).startedAt }),
      'degraded',
      ['drift_waiting'],
    ],
    [
      'a run that is in the future, as the clock was set back',
      source({ lastEnded: run(-90), lastComplete: run(-90) }),
      'degraded',
      ['run_in_future'],
    ],
    ['a bad configuration', { ...FACTS, configProblem: 'line 3' }, 'degraded', ['config_problem']],
    [
      'a mirror that found damage',
      { ...FACTS, verify: { ...job, problems: 2, hint: null, isOfAuditLog: false } },
      'degraded',
      ['verify_failed'],
    ],
    [
      'a mirror that is found damaged after a verification that found nothing',
      {
        ...FACTS,
        verify: { ...job, problems: 0, hint: null, isOfAuditLog: false },
        damage: 'm.db is damaged: a record',
      },
      'degraded',
      ['verify_failed'],
    ],
    [
      'acceptances that another program wrote',
      { ...FACTS, contradictions: { lines: ['the acceptance of /a', 'snapshot "b"'], hint: 'look' } },
      'degraded',
      ['audit_log_contradicted'],
    ],
    [
      'acceptances that another program wrote, beside damage that the last check found',
      {
        ...FACTS,
        contradictions: { lines: ['the acceptance of /a'], hint: 'look' },
        verify: { ...job, problems: 2, hint: null, isOfAuditLog: false },
      },
      'degraded',
      ['audit_log_contradicted', 'verify_failed'],
    ],
    [
      'a mirror that was verified',
      { ...FACTS, verify: { ...job, problems: 0, hint: null, isOfAuditLog: false } },
      'ok',
      [],
    ],
    [
      'a drill that fell',
      { ...FACTS, drills: [{ ...job, source: 'a', score: 0.89, scoreBefore: 0.95 }] },
      'degraded',
      ['drill_fell'],
    ],
    [
      'a drill that fell by the record of a secret that came to the service',
      { ...FACTS, drills: [{ ...job, source: 'a', score: 0.948, scoreBefore: 0.95 }] },
      'ok',
      [],
    ],
    [
      'a drill that rose',
      { ...FACTS, drills: [{ ...job, source: 'a', score: 0.96, scoreBefore: 0.95 }] },
      'ok',
      [],
    ],
    [
      'the first drill',
      { ...FACTS, drills: [{ ...job, source: 'a', score: 0.1, scoreBefore: null }] },
      'ok',
      [],
    ],
    [
      'a job that failed',
      { ...FACTS, failedJobs: [{ ...FAILED, name: 'backup', source: null }] },
      'degraded',
      ['job_failed'],
    ],
    [
      'notices that do not arrive',
      { ...FACTS, failingChannels: [{ channel: 'chat', pending: 2, since: job.startedAt, error: '500' }] },
      'degraded',
      ['notices_undelivered'],
    ],
    [
      'a channel that sends nothing',
      { ...FACTS, silentChannels: [{ name: 'channel chat', why: 'the variable CHAT_URL is not set' }] },
      'degraded',
      ['notices_undelivered'],
    ],
    [
      'other problems of the daemon',
      { ...FACTS, problems: [{ message: 'the lock is held', hint: null, since: job.startedAt }] },
      'degraded',
      ['daemon_problem'],
    ],
    [
      'no mirror',
      { ...FACTS, mirrorProblem: { message: 'gone', hint: null, isComing: false } },
      'failing',
      ['mirror_unreadable'],
    ],
    [
      'no mirror yet',
      { ...FACTS, mirrorProblem: { message: 'gone', hint: null, isComing: true } },
      'starting',
      ['first_sync'],
    ],
  ])('%s', (_name, facts, state, codes) => {
    const health = assessHealth(facts);
    expect(health.state).toBe(state);
    expect(
      [...health.reasons, ...health.sources.flatMap(({ reasons }) => reasons)].map(({ code }) => code),
    ).toEqual(codes);
  });

  it('allows 1.25 intervals, the jitter, and as long as the run took', () => {
    expect(allowedAgeMs(SOURCE)).toBe(40.5 * MINUTE_MS);
    expect(allowedAgeMs({ ...SOURCE, lastComplete: null })).toBe(38.5 * MINUTE_MS);
    const nightly = { intervalMs: 24 * 60 * MINUTE_MS, jitterMs: 0, change: null, sourceSince: null };
    expect(allowedAgeMs({ ...SOURCE, schedule: nightly, lastComplete: null })).toBe(30 * 60 * MINUTE_MS);
    expect(allowedAgeMs({ ...SOURCE, schedule: null })).toBeNull();
  });

  it('counts from a change of the schedule, unless the last run was too old already', () => {
    const allowed = (
      minutesAgo: number,
      beforeMinutes: number | null,
      lastComplete = SOURCE.lastComplete,
    ) => {
      const beforeMs = beforeMinutes === null ? null : beforeMinutes * MINUTE_MS;
      const change = { at: run(minutesAgo).finishedAt ?? '', beforeMs };
      const ms = allowedAgeMs({
        ...SOURCE,
        lastComplete,
        schedule: { intervalMs: 4 * MINUTE_MS, jitterMs: 0, change, sourceSince: null },
      });
      return (ms ?? 0) / MINUTE_MS;
    };
    // The last run ended 10 minutes ago and took 2; the schedule by itself allows 7.
    expect(allowed(2, 60)).toBe(15);
    expect(allowed(2, null)).toBe(15);
    expect(allowed(12, 60)).toBe(7);
    expect(allowed(2, 4)).toBe(7);
    expect(allowed(2, null, null)).toBe(24 * 60 - 2 + 5);
  });

  it.each([
    [0, 'the last drift of acme and backup failed: m.db is damaged', 'job_failed'],
    [
      2,
      'the last check of the mirror found 2 problems; drift of acme and backup failed for it',
      'verify_failed',
    ],
  ])('a damaged mirror is one reason, whatever fails for it (%i found)', (problems, message, code) => {
    const failed = {
      ...job,
      outcome: 'failed',
      errorCode: 'mirror_corrupt',
      error: 'm.db is damaged',
      hint: null,
      isOfAuditLog: false,
    };
    const { reasons } = assessHealth({
      ...FACTS,
      verify: { ...job, problems, hint: null, isOfAuditLog: false },
      failedJobs: [
        { ...failed, name: 'drift', source: 'acme' },
        { ...failed, name: 'backup', source: null },
        { ...failed, name: 'drill', source: 'acme', errorCode: 'disk_full', error: 'no space' },
        // Refused for what people recorded, which is no damage.
        {
          ...{ ...failed, name: 'forget', source: null, error: 'the pin is not as recorded' },
          ...{ hint: 'look', isOfAuditLog: true },
        },
      ],
    });
    expect(reasons).toMatchObject([
      { code, message, hint: expect.stringContaining('`tidemark backup restore latest --to') as string },
      {
        code: 'job_failed',
        message: 'the last drill of acme failed: no space',
        hint: 'free space there, or enlarge the volume; then `tidemark drill`',
      },
      { code: 'job_failed', message: 'the last forget failed: the pin is not as recorded', hint: 'look' },
    ]);
  });

  it('a job that failed before its run began names no run', () => {
    const row = { ...job, run: null, outcome: 'failed', errorCode: 'disk_full', error: 'no space' };
    const [{ reasons } = { reasons: [] }] = assessHealth(source({ lastSync: row })).sources;
    // Not the last run that `status` lists: that ended earlier.
    expect(reasons.map(({ code, message, hint }) => [code, message, hint])).toEqual([
      [
        'run_failed',
        'the last sync failed before its run began: no space',
        'no run was begun: free space on the volume of the mirror; the next sync retries',
      ],
    ]);
  });
});

it.each(['unreachable', 'timeout', 'unresponsive'] as const)(
  'names the command that shows whether the service responds where it did not (%s)',
  (errorCode) => {
    const failed = run(2, { outcome: 'failed', errorCode, error: 'no answer' });
    const hintsOf = (more: Partial<SourceFacts>) =>
      assessHealth(source({ lastEnded: failed, ...more })).sources[0]?.reasons.map(({ code, hint }) => [
        code,
        hint,
      ]);
    const doctor = '`tidemark doctor --source a` shows whether the service responds';
    const again = [
      'run_failed',
      `${doctor}; \`tidemark runs show 7\` shows the reason; the next sync retries`,
    ];
    expect(hintsOf({})).toEqual([again]);
    expect(hintsOf({ lastComplete: run(900) })).toEqual([['stale', doctor], again]);
    const other = run(2, { outcome: 'failed', errorCode: 'malformed', error: 'no list' });
    expect(hintsOf({ lastComplete: run(900), lastEnded: other })?.[0]?.[1]).toContain('starts one now');
  },
);

it.each(['stale', 'never_complete'])(
  'advises about the held removals where they keep the runs from being complete (%s)',
  (code) => {
    const partial = {
      lastComplete: code === 'stale' ? run(900) : null,
      lastEnded: run(2, { outcome: 'partial' }),
      firstSync: { hasEnded: true, wasInterrupted: false },
      held: { records: 12, ceiling: 14, lists: [] },
    };
    const reasonsOf = (more: Partial<SourceFacts>) =>
      assessHealth(source({ ...partial, ...more })).sources[0]?.reasons ?? [];
    const [late, held] = reasonsOf({});
    expect([late?.code, held?.code]).toEqual([code, 'removals_held']);
    expect(late?.message).toMatch(/; 12 removals and 2 below them held$/);
    expect(late?.hint).toContain('`tidemark sync --source a --accept-removals 14`');
    expect(late?.hint).toBe(held?.hint);
    // One need, also while a sync runs.
    for (const more of [{}, { isSyncing: true, sync: { startedAt: run(1).startedAt, silentMs: 0 } }]) {
      const health = assessHealth(source({ ...partial, ...more }));
      const message = expect.stringMatching(/; 12 removals and 2 below them held$/) as string;
      expect(needsOf({ health })).toMatchObject([{ code, message, hint: held?.hint }]);
    }
    // Another sync may read what this one could not.
    expect(reasonsOf({ unread: 1 })[0]?.hint).toContain('starts one now');
  },
);

it('says when a job failed whose error is in the present tense, in the text for people', () => {
  const failedJobs = [{ ...FAILED, name: 'git', source: null, error: 'the disk is full' } as const];
  const health = assessHealth({ ...FACTS, failedJobs });
  const cells = { isPerSource: () => false } as unknown as DaemonCells;
  expect(healthText(health, cells)).toContain(
    '  degraded: the last git failed: the disk is full (at 2026-03-01T11:55:00Z) → ',
  );
});

it('does not say since when something waits behind until when', () => {
  const problem = { message: 'it waits until 12:00', hint: null, since: '2026-03-01T11:55:00.000Z' };
  const sincesOf = (isWait: boolean) =>
    needsOf({ health: assessHealth({ ...FACTS, problems: [{ ...problem, isWait }] }) }).map(sinceOf);
  expect([sincesOf(true), sincesOf(false)]).toEqual([[null], [problem.since]]);
});

it('has the sources in the order of their states, the failing first, in the text for people', () => {
  const states = ['ok', 'degraded', 'failing', 'ok', 'starting', 'failing'] as const;
  const sources = states.map((state, index) => ({ source: `s${index}`, state, reasons: [] }));
  const cells = { isPerSource: () => false } as unknown as DaemonCells;
  const health = { ...assessHealth(FACTS), sources } as unknown as Health;
  const lines = healthText(health, cells)
    .split('\n')
    .filter((line) => /^s\d/.test(line));
  expect(lines.map((line) => line.slice(0, 2))).toEqual(['s2', 's5', 's4', 's1', 's0', 's3']);
});

it('says of a backup that failed in one target which other target has the newest', () => {
  const failed = { ...FAILED, name: 'backup', source: null } as const;
  const reasonOf = (newest: NonNullable<HealthFacts['backups']>['newest']) =>
    assessHealth({
      ...FACTS,
      backups: { everyMs: 0, lastAt: null, newest, ...NOT_WAITING, volumes: [], emptied: [] },
      failedJobs: [{ ...failed, errorCode: 'file_system', error: '/mnt/b is away' }],
    }).reasons[0]?.message;
  expect(reasonOf(null)).toBe('the last backup failed: /mnt/b is away');
  expect(reasonOf({ address: 's3://b', madeAt: '2026-03-01T08:00:00.000Z' })).toBe(
    'the last backup failed: /mnt/b is away; the newest backup, of 2026-03-01T08:00:00Z, is in s3://b',
  );
});

it.each([
  ['rejected', 'check the credentials of the bucket, and what their policy allows'],
  ['file_system', 'check that the directory or bucket is there, and that its disk is mounted'],
  [null, null],
] as const)('says first what to do about a backup that failed (%s)', (errorCode, hint) => {
  const failed = { ...FAILED, name: 'backup', source: null, errorCode } as const;
  const [reason] = assessHealth({ ...FACTS, failedJobs: [failed] }).reasons;
  const command = '`tidemark backup create`';
  expect(reason?.hint).toBe(hint === null ? command : `${hint}; then ${command}`);
});

it('names the sync that runs, and since when it received nothing, in place of advice to start another', () => {
  const reasonOf = (more: Partial<SourceFacts>, silentMs: number, pausedUntil?: number) => {
    const sync = { startedAt: new Date(NOW - 9 * MINUTE_MS).toISOString(), silentMs, pausedUntil };
    const late = source({ lastComplete: run(90), lastEnded: run(90), ...more, isSyncing: true, sync });
    return assessHealth(late).sources[0]?.reasons[0];
  };
  expect(reasonOf({}, 0)).toMatchObject({
    code: 'stale',
    message: expect.stringMatching(/^the last complete run ended .*; a sync has run for 9 min$/) as string,
    hint: null,
  });
  expect(reasonOf({}, 5 * MINUTE_MS)).toMatchObject({
    message: expect.stringMatching(/; a sync has run for 9 min; nothing received for 5 min$/) as string,
    hint: '`tidemark doctor --source a` shows whether the service responds',
  });
  expect(reasonOf({}, 0, Date.UTC(2026, 0, 1, 12, 34, 56))?.message).toMatch(
    /; a sync has run for 9 min; it waits until 12:34:56Z: the service asked for it \(429 or 503\)$/,
  );
  const isEnded = { firstSync: { hasEnded: true, wasInterrupted: false } };
  expect(reasonOf({ ...NEVER, ...isEnded }, 5 * MINUTE_MS)).toMatchObject({
    code: 'never_complete',
    message: expect.stringMatching(/; a sync has run for 9 min; nothing received for 5 min$/) as string,
  });
});

it('points at the sync that hangs, where the next one waits for that of another source', () => {
  const hintBehind = (behind: NonNullable<SourceFacts['behind']>) => {
    const late = source({ lastComplete: run(90), lastEnded: run(90), isQueued: true, behind });
    return assessHealth(late).sources[0]?.reasons[0]?.hint;
  };
  const startedAt = run(9).finishedAt ?? '';
  expect(hintBehind({ name: 'sync', source: 'b', startedAt, silentMs: 5 * MINUTE_MS })).toBe(
    '`tidemark doctor --source b` shows whether the service responds',
  );
  // What is asked for waits for it too.
  expect(hintBehind({ name: 'sync', source: 'b', startedAt, silentMs: 0 })).toBe(
    '`tidemark runs` shows the runs',
  );
  expect(hintBehind({ name: 'drill', source: 'b', startedAt })).toBe('`tidemark runs` shows the runs');
});

describe('an overdue backup', () => {
  const reasonOf = (
    more: Partial<NonNullable<HealthFacts['backups']>>,
    facts: HealthFacts = source({ lastComplete: run(10) }),
  ) => {
    const none = { newest: null, volumes: [], emptied: [], ...NOT_WAITING };
    const backups = { everyMs: 60 * MINUTE_MS, lastAt: run(500).finishedAt, ...none, ...more };
    return assessHealth({ ...facts, backups }).reasons.find(({ code }) => code === 'backup_overdue');
  };
  const behind = { name: 'sync', source: 'a' };
  const since = run(150).finishedAt;

  it.each([
    ['it waits for a slot', { waits: { since, behind: null } }, 'now for a free slot', '`daemon.slots`'],
    ['it waits for a sync', { waits: { since, behind } }, 'now for the sync job of a', 'sync less often'],
    ['it is being made', { isBeingMade: true }, 'it is being made now', null],
    ['nobody made one', {}, 'complete runs were made, and no backup after them', '`tidemark backup create`'],
  ])('is told with its reason where %s', (_name, more, text, hint) => {
    const reason = reasonOf(more);
    expect(reason?.message).toContain('no backup of the mirror was made for 8 h, one is due every 60 min: ');
    expect(reason?.message).toContain(text);
    if (hint === null) expect(reason?.hint).toBeNull();
    else expect(reason?.hint).toContain(hint);
    expect(reason?.follows).toBeUndefined();
  });

  it('is told with the source whose last sync failed, and how to see why', () => {
    const timeout = { errorCode: 'timeout', error: 'the service has not answered for 80 s' };
    const failed = source({
      lastComplete: run(900),
      lastEnded: { ...run(5), outcome: 'failed', ...timeout },
    });
    const reason = reasonOf({}, failed);
    expect(reason?.message).toMatch(
      /no run was complete since it was due: the last sync of a failed: the service has not answered for 80 s$/,
    );
    expect(reason?.hint).toBe(
      '`tidemark doctor --source a` shows whether the service responds; `tidemark backup create` makes a backup of the current state',
    );
    const [facts] = failed.sources;
    const syncing = { ...failed, sources: [{ ...(facts ?? SOURCE), isSyncing: true }] };
    expect(reasonOf({}, syncing)?.message).toMatch(/has not answered for 80 s; a sync is running now$/);
    const refused = source({ lastComplete: run(900), lastEnded: { ...run(5), outcome: 'failed' } });
    expect(reasonOf({}, refused)?.hint).toBe(
      '`tidemark runs` shows the runs; `tidemark backup create` makes a backup of the current state',
    );
  });

  it('advises to make room where the disk was full at the last sync, or at the last backup', () => {
    const full = { errorCode: 'disk_full', error: 'the disk is full: m.db could not be written' };
    const failed = { ...source({ lastComplete: run(900), lastSync: { ...FAILED, ...full } }) };
    const waits = reasonOf({}, failed);
    expect(waits?.message).toMatch(
      /no run was complete since it was due: the disk was full at the last sync$/,
    );
    expect(waits?.hint).toMatch(/^free space on the volume of the mirror/);
    expect(waits?.hint).not.toContain('backup create');
    expect(waits?.follows).toBe('sync_overdue');
    const stale = assessHealth(failed).sources[0]?.reasons.find(({ code }) => code === 'stale');
    expect(stale?.message).toMatch(/; the disk was full at the last sync$/);
    expect(stale?.hint).toMatch(/^free space on the volume of the mirror/);
    const ofBackup = reasonOf(
      {},
      {
        ...source({ lastComplete: run(10) }),
        failedJobs: [{ ...FAILED, ...full, name: 'backup', source: null }],
      },
    );
    expect(ofBackup?.message).toMatch(/: the last one failed: the disk was full$/);
    expect(ofBackup?.hint).toBe('free space there, or enlarge the volume; then `tidemark backup create`');
    // A later run failed for another reason.
    const since = source({ lastComplete: run(900), lastSync: { ...FAILED, errorCode: 'unreachable' } });
    expect(reasonOf({}, since)?.hint).toMatch(/^`tidemark doctor --source a` shows/);
  });

  it('advises against the syncs once it has waited for as long as two are apart', () => {
    const hintAt = (minutes: number) =>
      reasonOf({ waits: { since: run(minutes).finishedAt, behind } })?.hint ?? '';
    expect(hintAt(61)).toContain('sync less often: ');
    expect(hintAt(59)).toBe('it is made after the jobs that are due; `tidemark backup create` makes one now');
    expect(isQueuedBackupOnTime({ since: null, behind: null }, MINUTE_MS, 0)).toBe(false);
  });

  it('does not advise against syncs of which the last one had no answer', () => {
    const hintOf = (errorCode: string) => {
      const lastEnded = run(2, { outcome: 'failed', errorCode, error: 'no answer' });
      const waits = { since, behind: { ...behind, silentMs: 2_000 } };
      return reasonOf({ waits }, source({ lastComplete: run(10), lastEnded }))?.hint;
    };
    expect(hintOf('timeout')).toBe(
      '`tidemark doctor --source a` shows whether the service responds; `tidemark backup create` makes one now',
    );
    expect(hintOf('malformed')).toContain('sync less often');
  });

  it('names the sync that hangs before it, which is given up in a quarter of an hour at most', () => {
    const hangs = { name: 'sync', source: 'b', silentMs: 2 * MINUTE_MS };
    const everyMs = MINUTE_MS;
    const reasonAt = (minutes: number) =>
      reasonOf({
        everyMs,
        lastAt: run(70).finishedAt,
        waits: { since: run(minutes).finishedAt, behind: hangs },
      });
    expect(reasonAt(3)).toMatchObject({
      message: expect.stringMatching(
        /the backup has waited for 3 min, now for the sync job of b, which has received nothing for 2 min$/,
      ) as string,
      hint: '`tidemark doctor --source b` shows whether the service responds; `tidemark backup create` makes one now',
    });
    const isOnItsWay = (minutes: number, behind: typeof hangs | null) =>
      isQueuedBackupOnTime({ since: run(minutes).finishedAt, behind }, everyMs, NOW);
    expect(isOnItsWay(14, hangs)).toBe(true);
    expect(isOnItsWay(15, hangs)).toBe(false);
    expect(isOnItsWay(3, { ...hangs, silentMs: 0 })).toBe(false);
    expect(isOnItsWay(3, null)).toBe(false);
  });

  it('counts from when it was due', () => {
    expect(reasonOf({})?.since).toBe(run(440).finishedAt);
  });

  it('is said to be due as often as is configured, also where syncs are further apart', () => {
    const rare = { intervalMs: 3 * 60 * MINUTE_MS, jitterMs: 0, change: null, sourceSince: null };
    const reason = reasonOf({}, source({ schedule: rare, lastComplete: run(10) }));
    expect(reason?.message).toContain('one is due every 60 min: ');
  });

  it('has the new interval from its change on', () => {
    const changed = (minutesAgo: number, beforeMinutes: number) =>
      reasonOf({ change: { at: run(minutesAgo).finishedAt ?? '', beforeMs: beforeMinutes * MINUTE_MS } });
    expect(changed(119, 24 * 60)).toBeUndefined();
    expect(changed(121, 24 * 60)).toBeDefined();
    expect(changed(119, 120)).toBeDefined();
  });

  it('is none before the first sync has ended, which may take longer than two intervals', () => {
    const first = (more: Partial<SourceFacts>) => reasonOf({ lastAt: null }, source({ ...NEVER, ...more }));
    expect(first({ isSyncing: true })).toBeUndefined();
    expect(first({ isQueued: true })).toBeUndefined();
    expect(first({})?.message).toContain('no backup of the mirror was made yet');
    expect(first({ isSyncing: true, firstSync: ENDED })?.message).toMatch(
      /: no run was complete since it was due; a sync is running now$/,
    );
    const two = { ...FACTS, sources: [SOURCE, { ...SOURCE, ...NEVER, source: 'b', isSyncing: true }] };
    expect(reasonOf({}, two)?.message).toContain('complete runs were made, and no backup after them');
  });

  it('follows what tells of its cause', () => {
    const running = reasonOf({}, source({ lastComplete: run(600), isSyncing: true }));
    expect(running?.message).toContain('no run was complete since it was due; a sync is running now');
    const late = reasonOf({}, source({ lastComplete: run(600) }));
    expect(late?.message).toContain('no run was complete since it was due');
    expect(late?.follows).toBe('sync_overdue');
    const failed = { ...FACTS, failedJobs: [{ ...FAILED, name: 'backup' as const, source: null }] };
    expect(reasonOf({}, failed)?.follows).toBe('backup_failed');
  });

  it('is one that waits though none was ever made, and not one for which no sync is due yet', () => {
    const first = (minutes: number) =>
      reasonOf({ lastAt: null, waits: { since: run(minutes).finishedAt, behind } });
    expect(first(121)?.message).toContain('no backup of the mirror was made yet');
    expect(first(119)).toBeUndefined();
    const nightly = { intervalMs: 24 * 60 * MINUTE_MS, jitterMs: 0, change: null, sourceSince: null };
    expect(reasonOf({}, source({ schedule: nightly, lastComplete: run(499) }))).toBeUndefined();
  });
});

it('says what does not match the audit log once, with the check that found it', () => {
  const { reasons } = assessHealth({
    ...FACTS,
    contradictions: { lines: ['the acceptance of /a is not as it was accepted', 'another'], hint: 'look' },
    verify: { ...job, problems: 2, hint: 'restore', isOfAuditLog: true },
  });
  expect(reasons.map(({ code, message, hint }) => [code, message, hint])).toEqual([
    [
      'verify_failed',
      'the last check of the mirror found 2 problems: the acceptance of /a is not as it was accepted, and 1 more row like it',
      '`tidemark verify` names them; restore',
    ],
  ]);
});

it('has one reason for what does not match the audit log, with the jobs that refuse for it', () => {
  const refused = { ...FAILED, errorCode: 'mirror_corrupt', error: 'it is', hint: 'do', isOfAuditLog: true };
  const facts = {
    ...FACTS,
    contradictions: { lines: ['snapshot "b" is not as it was pinned'], hint: 'look' },
    failedJobs: [
      { ...refused, name: 'drift', source: 'acme' },
      { ...refused, name: 'forget', source: null },
    ],
  };
  const reasonsOf = (more: Partial<HealthFacts>) =>
    assessHealth({ ...facts, ...more }).reasons.map(({ code, message }) => [code, message]);
  const text = 'snapshot "b" is not as it was pinned; drift of acme and forget refused for it';
  expect(reasonsOf({})).toEqual([['audit_log_contradicted', text]]);
  expect(reasonsOf({ verify: { ...job, problems: 1, hint: 'restore', isOfAuditLog: true } })).toEqual([
    ['verify_failed', `the last check of the mirror found 1 problem: ${text}`],
  ]);
});

it('names the job that the next sync waits for, where the source is late', () => {
  const reasonOf = (more: Partial<SourceFacts>): string | undefined =>
    assessHealth(source(more)).sources[0]?.reasons[0]?.message;
  const behind = { name: 'backup', startedAt: new Date(NOW - 90_000).toISOString() };
  const late = { lastComplete: run(41) };
  expect(reasonOf(late)).not.toContain('waits');
  expect(reasonOf({ ...late, behind })).toMatch(
    /; the next sync waits for the backup job, which has run for 90 s$/,
  );
  const hanging = { ...behind, waitsFor: 's3://hang' };
  expect(reasonOf({ ...late, behind: hanging })).toMatch(
    /has run for 90 s, and waits for s3:\/\/hang to answer$/,
  );
  expect(reasonOf({ lastComplete: null, lastEnded: null, behind: hanging })).toMatch(
    /^no run of all kinds has been complete yet; the next sync waits for the backup job/,
  );
  expect(reasonOf({ behind: hanging })).toBeUndefined();
  expect(reasonOf({ ...late, isQueued: true })).toMatch(/; the next sync waits for a free slot$/);
  const [reason] = assessHealth(source({ ...late, isQueued: true })).sources[0]?.reasons ?? [];
  expect(reason?.hint).toContain('`daemon.slots`');
  const [shared] =
    assessHealth(source({ ...late, isQueued: true, limitHeldBy: 'b' })).sources[0]?.reasons ?? [];
  expect(shared?.message).toMatch(/; the next sync waits for the sync of b, which has the same rate limit$/);
  expect(shared?.hint).not.toContain('`daemon.slots`');
  const backups = { ...NEVER_MADE, lastAt: run(900).finishedAt };
  const overdue = assessHealth({
    ...source({ lastComplete: run(900), isQueued: true, limitHeldBy: 'b' }),
    backups,
  }).reasons.find(({ code }) => code === 'backup_overdue');
  expect(overdue?.message).toMatch(/was due: the next sync waits for the sync of b, which has/);
});

it.each([
  ['run_failed', 'for the first time '],
  ['key_refused', 'for the first time '],
  ['run_partial', ''],
] as const)('dates %s so that the time is not taken for that of the last sync', (code, words) => {
  const reason = { code, state: 'degraded', message: 'm', since: null, hint: null } as const;
  expect(sinceWords({ ...reason, source: 'a' })).toBe(words);
});
