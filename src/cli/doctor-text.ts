/** The text output of `doctor`: a table per organization of what the key reaches, then this machine, then what to do. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import { count, duration, plural, localTime } from '../core/wording.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import type { ListShape, ProbeState } from '../doctor/collection-probe.ts';
import { type MirrorHealth, mirrorHealth } from '../doctor/mirror-health.ts';
import { type Gravity, type Problem, permissionOf } from '../doctor/problems.ts';
import { type KindReach, type SourceReach, MOST_SCOPES } from '../doctor/source-reach.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { openConfiguredMirror } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { renderTable } from './table.ts';
import { age } from './export-notes.ts';

const STATES: Readonly<Record<ProbeState, string>> = {
  readable: 'readable',
  empty: 'empty',
  denied: 'DENIED',
  not_offered: 'not offered',
  failing: 'FAILING',
  not_reached: 'not reached',
};

const SHAPES: Readonly<Record<ListShape, string>> = {
  envelope: 'envelope',
  uncounted: 'without a count',
  results: 'results only',
  array: 'bare array',
};

/**
 * One source: how many kinds are readable and a table of those that are not; with `isVerbose` all of them, and facts about
 * the service from its answers.
 */
export function renderReach(
  reach: SourceReach,
  { isVerbose, width }: { readonly isVerbose: boolean; readonly width: number | undefined },
): string {
  if (isVerbose) return renderAll(reach, width);
  const unread = reach.kinds.filter(({ state }) => state !== 'readable' && state !== 'empty');
  return [reachSummary(reach), ...(unread.length === 0 ? [] : ['', table(unread, width)])].join('\n');
}

/** What the key reaches, in two lines. */
function reachSummary({ source, kinds, organizations, organizationCount, requests }: SourceReach): string {
  const states = Map.groupBy(new Map(kinds.map((row) => [row.kind, row])).values(), ({ state }) => state);
  const counted = (what: ProbeState): number => states.get(what)?.length ?? 0;
  const total = new Set(kinds.map(({ kind }) => kind)).size;
  const parts = [
    `${counted('readable') + counted('empty')} of ${plural(total, 'kind')} readable`,
    plural(organizationCount ?? organizations.length, 'organization'),
    plural(requests, 'request'),
  ];
  return `source ${source.name}: ${source.baseUrl.href}, profile ${source.profile}\n${total === 0 ? 'nothing could be read' : parts.join(', ')}`;
}

function renderAll(reach: SourceReach, width: number | undefined): string {
  const { source, kinds, organizations, organizationCount, fatal } = reach;
  const lines = [`source ${source.name}: ${source.baseUrl.href}, profile ${source.profile}`];
  if (fatal !== null) lines.push('  nothing more was asked: see below');
  const root = kinds.filter(({ organization }) => organization === null);
  if (root.length > 0) lines.push('', table(root, width));
  for (const { id, name } of organizations) {
    const rows = kinds.filter(({ organization }) => organization === id);
    if (rows.length === 0) continue;
    lines.push(
      '',
      escapeControlCharacters(name === null ? `organization ${id}` : `${name} (${id})`),
      table(rows, width),
    );
  }
  const more = (organizationCount ?? organizations.length) - organizations.length;
  if (more > 0) lines.push('', `${plural(more, 'more organization')}: looked at are ${MOST_SCOPES} at most`);
  const notes = facts(reach);
  if (notes.length > 0) lines.push('', ...notes.map(escapeControlCharacters));
  return lines.join('\n');
}

function table(rows: readonly KindReach[], width: number | undefined): string {
  return renderTable(
    ['kind', 'state', 'records', 'list', 'note'],
    rows.map((row) => [row.kind, STATES[row.state], records(row), shape(row), note(row)]),
    ['left', 'left', 'right'],
    { width },
  );
}

function records({ probes, state, collections, definition }: KindReach): string {
  if (definition.reading === 'each') return '·';
  if (state !== 'readable' && state !== 'empty') return '·';
  const known = probes.reduce((sum, probe) => sum + (probe.records ?? probe.seen.length), 0);
  const isAtLeast = probes.some(({ records }) => records === null) || collections > probes.length;
  return isAtLeast ? `${count(known)}+` : count(known);
}

function shape({ probes }: KindReach): string {
  const found = probes.find((probe) => probe.shape !== null)?.shape ?? null;
  return found === null ? '·' : SHAPES[found];
}

function note(row: KindReach): string {
  const { probes, state, collections, definition } = row;
  if (state === 'denied') return `needs ${permissionOf(row)}`;
  if (state === 'failing') return probes.find(({ error }) => error !== null)?.error?.message ?? '';
  const parts = [
    ...(probes.some(({ refusesQuery }) => refusesQuery) ? ['answers only without a query'] : []),
    ...(definition.reading === 'each' && state === 'readable'
      ? [`${plural(probes.length, 'recording')} requested`]
      : []),
    ...(collections > probes.length ? [`${probes.length} of ${count(collections)} lists looked at`] : []),
  ];
  return parts.join('; ');
}

/** Facts about the service as a whole. */
function facts({ kinds, pageCap, skew, requests, bytes, tookMs }: SourceReach): string[] {
  const lines: string[] = [];
  if (pageCap !== null) {
    const { kind, asked, received, isCap } = pageCap;
    lines.push(
      isCap
        ? `pages: the service gives at most ${count(received)} records (asked for ${count(asked)} ${kind})`
        : `pages: ${count(received)} ${kind} came in one page, as requested; no limit was seen`,
    );
  }
  const looks = kinds.flatMap(({ probes }) => probes.flatMap(({ next }) => (next === null ? [] : [next])));
  if (looks.length > 0 && looks.every(({ advances }) => advances === true)) {
    const isElsewhere = looks.some(({ otherOrigin }) => otherOrigin !== null);
    lines.push(
      `next: advances${isElsewhere ? ', names another origin' : ', same origin'} (${plural(looks.length, 'list')} looked at)`,
    );
  }
  if (skew !== null) {
    const seconds = (Math.abs(skew.aheadMs) / 1000).toFixed(1);
    lines.push(
      `clock: the service is ${seconds} s ${skew.aheadMs >= 0 ? 'ahead' : 'behind'}, ± ${(skew.doubtMs / 1000).toFixed(1)} s`,
    );
  }
  lines.push(
    `asked: ${plural(requests, 'request')}, ${count(Math.ceil(bytes / 1024))} KiB, ${duration(tookMs)}`,
  );
  return lines;
}

/** The part about this machine; its mirror only, unless `isVerbose`. */
export function renderHealth(
  health: MirrorHealth,
  {
    now,
    daemon,
    isVerbose,
  }: { readonly now: number; readonly daemon: DaemonLockfile | null; readonly isVerbose: boolean },
): string {
  const { path, isThere, damage, error, bytes, freeBytes, schedules, notices, lastDrill, heldBy } = health;
  const size = isThere ? `, ${mebibytes(bytes)}` : '';
  const state = !isThere
    ? 'not there yet'
    : damage.length > 0
      ? 'DAMAGED'
      : error !== null
        ? 'CANNOT BE OPENED'
        : 'sound (quick check)';
  const lines = [
    `mirror: ${path}, ${state}${size}, ${freeBytes === null ? 'free space not known' : `${mebibytes(freeBytes)} free`}`,
    ...(isThere ? [`writer: ${heldBy ?? 'nobody holds the lock'}`] : []),
    `daemon: ${daemon === null ? 'none running here' : `running since ${daemon.since} (pid ${daemon.pid} on ${daemon.host})`}`,
    ...health.sources.map(({ source, lastPublished }) =>
      lastPublished === null
        ? `last run of ${source}: none`
        : `last run of ${source}: ${lastPublished.run}, ${lastPublished.outcome}, ${age(lastPublished.finishedAt, now)}`,
    ),
  ];
  if (schedules.some(({ dueAt }) => dueAt !== null)) {
    lines.push(
      `schedules: ${schedules
        .map(({ schedule, dueAt, isOverdue, missed }) => {
          const when =
            dueAt === null ? 'not planned yet' : `${isOverdue ? 'OVERDUE since' : 'due'} ${localTime(dueAt)}`;
          return `${schedule} ${when}${missed > 0 ? ` (${missed} missed)` : ''}`;
        })
        .join(', ')}`,
    );
  } else if (isThere) lines.push('schedules: no daemon has planned any yet');
  if (isThere) {
    lines.push(`notices: ${notices.pending} pending, ${notices.givenUp} given up`);
    lines.push(
      `last drill: ${lastDrill === null ? 'none of the latest state' : `${lastDrill.outcome}, ${age(lastDrill.finishedAt, now)}`}`,
    );
  }
  return lines
    .slice(0, isVerbose ? undefined : 1)
    .map(escapeControlCharacters)
    .join('\n');
}

const MARKS: Readonly<Record<Gravity, string>> = { error: '✗', warning: '!', note: '·' };

/** Worst first, each with what to do. */
export function renderProblems(problems: readonly Problem[]): string {
  if (problems.length === 0) return 'all fine';
  return problems
    .flatMap(({ gravity, message, next }) => [
      `${MARKS[gravity]} ${escapeControlCharacters(message)}`,
      `  → ${escapeControlCharacters(next)}`,
    ])
    .join('\n');
}

/** The errors among them, each with what to do, for stderr. */
export function problemReason(problems: readonly Problem[]): string[] {
  return problems
    .filter(({ gravity }) => gravity === 'error')
    .flatMap(({ source, message, next }) => [
      source === null || message.includes(source) ? message : `${source}: ${message}`,
      `  → ${next}`,
    ]);
}

function mebibytes(bytes: number): string {
  const mib = bytes / 1024 / 1024;
  return mib < 10 ? `${mib.toFixed(1)} MiB` : `${count(Math.round(mib))} MiB`;
}

// The mirror opened for the part about this machine.

/** The mirror for reading; null if there is none or it cannot be opened, with the reason. The caller closes it. */
export function openToInspect(
  context: CommandContext,
  config: Config,
  command: string,
): { readonly mirror: Mirror | null; readonly error: TidemarkError | null } {
  if (!existsSync(config.mirror)) return { mirror: null, error: null };
  try {
    return { mirror: openConfiguredMirror(config, 'read', command, context.pid), error: null };
  } catch (error) {
    return { mirror: null, error: asTidemarkError(error) };
  }
}

export function inspectMirror(
  context: CommandContext,
  config: Config,
  opened: { readonly mirror: Mirror | null; readonly error: TidemarkError | null },
): MirrorHealth {
  return mirrorHealth({
    config,
    ...opened,
    now: systemClock.now(),
    looker: { pid: context.pid, host: hostname() },
  });
}

// The JSON document `tidemark.doctor/1`.

export function doctorDocument(
  reaches: readonly SourceReach[],
  health: MirrorHealth,
  daemon: DaemonLockfile | null,
  problems: readonly Problem[],
): object {
  return {
    schema: 'tidemark.doctor/1',
    sources: reaches.map(sourceDocument),
    mirror: mirrorDocument(health, daemon),
    problems,
  };
}

export function sourceDocument(reach: SourceReach): object {
  const { source, organizations, organizationCount, kinds, fatal, skew, pageCap, requests, bytes } = reach;
  return {
    source: source.name,
    base_url: source.baseUrl.href,
    profile: source.profile,
    error: fatal === null ? null : { code: fatal.code, message: fatal.message, hint: fatal.hint ?? null },
    organizations: { looked_at: organizations, count: organizationCount, most: MOST_SCOPES },
    kinds: kinds.map(kindDocument),
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

function kindDocument(row: KindReach): object {
  const { organization, kind, state, probes, collections } = row;
  const counted = probes.flatMap(({ records }) => (records === null ? [] : [records]));
  const error = probes.find((probe) => probe.error !== null)?.error ?? null;
  const looks = probes.flatMap(({ next }) => (next === null ? [] : [next]));
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
    error: error === null ? null : { code: error.code, message: error.message, hint: error.hint ?? null },
  };
}

function mirrorDocument(health: MirrorHealth, daemon: DaemonLockfile | null): object {
  const { path, isThere, error, damage, bytes, freeBytes, heldBy, lastDrill } = health;
  return {
    path,
    is_there: isThere,
    is_sound: isThere ? error === null && damage.length === 0 : null,
    damage,
    error: error === null ? null : { code: error.code, message: error.message, hint: error.hint ?? null },
    bytes,
    free_bytes: freeBytes,
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
