/** An examination for people: what the key reaches in a table for each organization, then this machine, then what to do. */
import { count, duration, plural } from '../core/wording.ts';
import type { ListShape } from '../doctor/list-shape.ts';
import type { ProbeState } from '../doctor/collection-probe.ts';
import type { MirrorHealth } from '../doctor/mirror-health.ts';
import { type Gravity, type Problem, permissionOf } from '../doctor/problems.ts';
import { type KindReach, type SourceReach, MOST_SCOPES } from '../doctor/source-reach.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import { foldedLine } from './folded-line.ts';
import { renderTable } from './table.ts';
import { age } from './wording.ts';

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

/** One source: its tables, and what its answers told beside them. */
export function renderReach(reach: SourceReach, width: number | undefined): string {
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
  if (notes.length > 0) lines.push('', ...notes.flatMap((note) => foldedLine(note, width)));
  return lines.join('\n');
}

function table(rows: readonly KindReach[], width: number | undefined): string {
  return renderTable(
    ['kind', 'state', 'records', 'list', 'remark'],
    rows.map((row) => [row.kind, STATES[row.state], records(row), shape(row), remark(row)]),
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

function remark(row: KindReach): string {
  const { probes, state, collections, definition } = row;
  if (state === 'denied') return `needs ${permissionOf(row)}`;
  if (state === 'failing') return probes.find(({ error }) => error !== null)?.error?.message ?? '';
  const parts = [
    ...(probes.some(({ refusesQuery }) => refusesQuery) ? ['answers only without a query'] : []),
    ...(definition.reading === 'each' && state === 'readable'
      ? [`${plural(probes.length, 'recording')} asked for`]
      : []),
    ...(collections > probes.length ? [`${probes.length} of ${count(collections)} lists looked at`] : []),
  ];
  return parts.join('; ');
}

/** What the answers showed of the service as a whole. */
function facts({ kinds, pageCap, skew, requests, bytes, tookMs }: SourceReach): string[] {
  const lines: string[] = [];
  if (pageCap !== null) {
    const { kind, asked, received, isCap } = pageCap;
    lines.push(
      isCap
        ? `pages: the service gives at most ${count(received)} records (asked for ${count(asked)} ${kind})`
        : `pages: ${count(received)} ${kind} came in one, as asked for; no limit was seen`,
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
      `clock: the service is ${seconds} s ${skew.aheadMs >= 0 ? 'ahead' : 'behind'}, give or take ${(skew.doubtMs / 1000).toFixed(1)} s`,
    );
  }
  lines.push(
    `asked: ${plural(requests, 'request')}, ${count(Math.ceil(bytes / 1024))} KiB, ${duration(tookMs)}`,
  );
  return lines;
}

/** This machine's half. */
export function renderHealth(
  health: MirrorHealth,
  {
    now,
    daemon,
    width,
  }: { readonly now: number; readonly daemon: DaemonLockfile | null; readonly width: number | undefined },
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
    `daemon: ${daemon === null ? 'none at work here' : `at work since ${daemon.since} (pid ${daemon.pid} on ${daemon.host})`}`,
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
            dueAt === null
              ? 'not planned yet'
              : `${isOverdue ? 'OVERDUE since' : 'due'} ${dueAt.slice(0, 16)}Z`;
          return `${schedule} ${when}${missed > 0 ? ` (${missed} missed)` : ''}`;
        })
        .join(', ')}`,
    );
  } else if (isThere) lines.push('schedules: no daemon has planned any yet');
  if (isThere) {
    lines.push(`notices: ${notices.owed} owed, ${notices.givenUp} given up`);
    lines.push(
      `last drill: ${lastDrill === null ? 'none by a daemon' : `${lastDrill.outcome}, ${age(lastDrill.finishedAt, now)}`}`,
    );
  }
  return lines.flatMap((line) => foldedLine(line, width)).join('\n');
}

const MARKS: Readonly<Record<Gravity, string>> = { error: '✗', warning: '!', note: '·' };

/** Gravest first, each with what to do. */
export function renderProblems(problems: readonly Problem[], width: number | undefined): string {
  if (problems.length === 0) return 'all fine';
  return problems
    .flatMap(({ gravity, message, next }) => [
      ...foldedLine(`${MARKS[gravity]} ${message}`, width),
      ...foldedLine(`  → ${next}`, width, 4),
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
