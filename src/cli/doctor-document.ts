/** The JSON document `tidemark.doctor/1` of what `doctor` found. */
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import type { MirrorHealth } from '../doctor/mirror-health.ts';
import { type Problem, permissionOf, reachProblems } from '../doctor/problems.ts';
import { type KindReach, type SourceReach, MOST_SCOPES } from '../doctor/source-reach.ts';
import type { TargetCheck } from './doctor-backups.ts';
import { isMirrorSound, proxyOf } from './doctor-report.ts';
import { errorDocument } from './failure.ts';

interface Findings {
  readonly reaches: readonly SourceReach[];
  readonly health: MirrorHealth;
  readonly daemon: DaemonLockfile | null;
  readonly targets: readonly TargetCheck[];
  readonly problems: readonly Problem[];
}

export function doctorDocument({ reaches, health, daemon, targets, problems }: Findings): object {
  return {
    schema: 'tidemark.doctor/1',
    sources: reaches.map(sourceDocument),
    mirror: mirrorDocument(health, daemon),
    backups: targets.map(({ address, error, isOnMirrorDisk }) => ({
      target: address,
      is_on_mirror_disk: isOnMirrorDisk,
      error: errorDocument(error),
    })),
    problems,
  };
}

export function sourceDocument(reach: SourceReach): object {
  const { source, organizations, organizationCount, kinds, fatal, skew, pageCap, requests, bytes } = reach;
  return {
    source: source.name,
    base_url: source.baseUrl.href,
    proxy: proxyOf(source),
    profile: source.profile,
    error: errorDocument(fatal),
    organizations: { looked_at: organizations, count: organizationCount, most: MOST_SCOPES },
    kinds: kinds.map((row) => kindDocument(row, reach)),
    clock: skew === null ? null : { ahead_ms: skew.aheadMs, doubt_ms: skew.doubtMs },
    page:
      pageCap === null
        ? null
        : { kind: pageCap.kind, asked: pageCap.asked, received: pageCap.received, is_cap: pageCap.isCap },
    permissions: reach.permissions,
    requests,
    bytes,
  };
}

function kindDocument(row: KindReach, reach: SourceReach): object {
  const { organization, kind, state, probes, collections } = row;
  const counted = probes.flatMap(({ records }) => (records === null ? [] : [records]));
  const error = probes.find((probe) => probe.error !== null)?.error ?? null;
  const looks = probes.flatMap(({ next }) => (next === null ? [] : [next]));
  // The advice of this kind's problem, as the hint of a request does not know the configuration.
  const problem = reachProblems({ ...reach, fatal: null, kinds: [row] }).find(
    ({ gravity }) => gravity !== 'note',
  );
  return {
    organization,
    kind,
    state,
    records: counted.length === 0 ? null : counted.reduce((sum, records) => sum + records, 0),
    is_all: counted.length === probes.length && collections <= probes.length,
    collections: { looked_at: probes.length, known: collections },
    list: probes.find(({ shape }) => shape !== null)?.shape ?? null,
    refuses_query: probes.some(({ refusesQuery }) => refusesQuery),
    next:
      looks.length === 0
        ? null
        : {
            other_origin: looks.find(({ otherOrigin }) => otherOrigin !== null)?.otherOrigin ?? null,
            advances: looks.some(({ advances }) => advances === false)
              ? false
              : looks.every(({ advances }) => advances === true)
                ? true
                : null,
          },
    permission: state === 'denied' ? permissionOf(row) : null,
    error:
      error === null
        ? null
        : errorDocument({ code: error.code, message: error.message, hint: problem?.next ?? error.hint }),
  };
}

function mirrorDocument(health: MirrorHealth, daemon: DaemonLockfile | null): object {
  const { path, isThere, error, damage, bytes, space, heldBy, lastDrill, verification } = health;
  return {
    path,
    is_there: isThere,
    is_sound: isThere ? isMirrorSound(health) : null,
    last_verification: verification,
    damage,
    error: errorDocument(error),
    bytes,
    free_bytes: space?.freeBytes ?? null,
    held_by: heldBy,
    daemon: daemon === null ? null : { pid: daemon.pid, host: daemon.host, since: daemon.since },
    sources: health.sources.map(({ source, lastPublished, lastEnded }) => ({
      source,
      last_published: runDocument(lastPublished),
      last_ended: runDocument(lastEnded),
    })),
    schedules: health.schedules.map(({ schedule, cron, dueAt, isOverdue, missed }) => ({
      schedule,
      cron,
      due_at: dueAt,
      is_overdue: isOverdue,
      missed,
    })),
    notices: {
      pending: health.notices.pending,
      oldest_owed_at: health.notices.oldestPendingAt,
      given_up: health.notices.givenUp,
      last_error: health.notices.lastError,
    },
    last_drill:
      lastDrill === null
        ? null
        : { at: lastDrill.finishedAt, outcome: lastDrill.outcome, summary: lastDrill.summary },
  };
}

function runDocument(run: MirrorHealth['sources'][number]['lastEnded']): object | null {
  return run === null ? null : { run: run.run, outcome: run.outcome, at: run.finishedAt };
}
