/** What `doctor` found, as reports: what the key can read, this machine, what to do. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { NO_PROXIES, proxyFor, shownProxy } from '../config/proxy.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import { byteSize, duration, formatInteger, localTime, plural } from '../core/wording.ts';
import type { TargetCheck } from './doctor-backups.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import type { ListShape, ProbeState } from '../doctor/collection-probe.ts';
import { type MirrorHealth, mirrorHealth } from '../doctor/mirror-health.ts';
import { type Gravity, type Problem, permissionOf, rights } from '../doctor/problems.ts';
import { type KindReach, type SourceReach, MOST_SCOPES } from '../doctor/source-reach.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { movedAway } from '../mirror/open.ts';
import {
  listPart,
  noticePart,
  type Fact,
  type Notice,
  type Part,
  type ReportDocument,
  type TablePart,
  type Text,
} from '../report/document.ts';
import { openConfiguredMirror } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { age } from './export-notes.ts';
import { lastVerification } from './verification-note.ts';

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

const WRITES_UNKNOWN = 'the service does not report what the key may write: only a restore shows it';

/**
 * One source: how many kinds are readable, and a table of those that are not; with `isVerbose` a table of all, and facts about the
 * service.
 */
export function reachReport(
  reach: SourceReach,
  { isVerbose }: { readonly isVerbose: boolean },
): ReportDocument {
  const { source, kinds, organizations, organizationCount, requests, fatal } = reach;
  const proxy = proxyOf(source);
  const states = Map.groupBy(new Map(kinds.map((row) => [row.kind, row])).values(), ({ state }) => state);
  const counted = (what: ProbeState): number => states.get(what)?.length ?? 0;
  const total = new Set(kinds.map(({ kind }) => kind)).size;
  const parts = [
    `${counted('readable') + counted('empty')} of ${plural(total, 'kind')} readable`,
    // If the service listed none, those that the mirror knows.
    ...(fatal === null ? [plural(organizationCount ?? organizations.length, 'organization')] : []),
    plural(requests, 'request'),
  ];
  const unread = kinds.filter(({ state }) => state !== 'readable' && state !== 'empty');
  return {
    title: `source ${source.name}: ${source.baseUrl.href}, profile ${source.profile}${proxy === null ? '' : `, through the proxy ${proxy}`}`,
    textTitle: 'line',
    summary: total === 0 ? 'nothing could be read' : parts.join(', '),
    ...(isVerbose ? { facts: facts(reach) } : {}),
    ...(isVerbose && fatal !== null ? { notes: ['nothing more was asked: see below'] } : {}),
    ...(fatal === null ? { notes: rightsNotes(reach, isVerbose) } : {}),
    parts: isVerbose
      ? organizationTables(reach)
      : unread.length === 0
        ? []
        : [kindTable(unread, organizations)],
  };
}

/** With `isVerbose`, what the service reports is listed with the problems. */
function rightsNotes(reach: SourceReach, isVerbose: boolean): string[] {
  if (reach.permissions === null) return [WRITES_UNKNOWN];
  return isVerbose ? [] : rights(reach).map(({ message, next }) => `${message}; ${next}`);
}

/** The proxy without its credentials; null for none. */
export function proxyOf({ baseUrl, proxies = NO_PROXIES }: SourceReach['source']): string | null {
  const proxy = proxyFor(baseUrl, proxies);
  return proxy === null ? null : shownProxy(proxy);
}

function organizationTables({ kinds, organizations, organizationCount }: SourceReach): Part[] {
  const root = kinds.filter(({ organization }) => organization === null);
  const below = organizations.flatMap(({ id, name }): Part[] => {
    const rows = kinds.filter(({ organization }) => organization === id);
    const heading = name === null ? `organization ${id}` : `${name} (${id})`;
    return rows.length === 0 ? [] : [{ ...kindTable(rows), heading }];
  });
  const more = (organizationCount ?? organizations.length) - organizations.length;
  return [
    ...(root.length > 0 ? [kindTable(root)] : []),
    ...below,
    ...(more > 0
      ? listPart('not looked at', [
          `${plural(more, 'more organization')}: looked at are ${MOST_SCOPES} at most`,
        ])
      : []),
  ];
}

/** With a column for the organization if there are several `organizations`. */
function kindTable(rows: readonly KindReach[], organizations: SourceReach['organizations'] = []): TablePart {
  const named = organizations.length > 1;
  const nameOf = (id: string | null): string =>
    organizations.find((each) => each.id === id)?.name ?? id ?? '·';
  return {
    type: 'table',
    columns: ['kind', ...(named ? ['organization'] : []), 'state', 'records', 'list', 'note'],
    align: ['left', ...(named ? (['left'] as const) : []), 'left', 'right', 'left', 'left'],
    rows: rows.map((row) => [
      row.kind,
      ...(named ? [nameOf(row.organization)] : []),
      STATES[row.state],
      records(row),
      shape(row),
      note(row),
    ]),
  };
}

function records({ probes, state, collections, definition }: KindReach): string {
  if (definition.reading === 'each') return '·';
  if (state !== 'readable' && state !== 'empty') return '·';
  const known = probes.reduce((sum, probe) => sum + (probe.records ?? probe.seen.length), 0);
  const isAtLeast = probes.some(({ records }) => records === null) || collections > probes.length;
  return isAtLeast ? `${formatInteger(known)}+` : formatInteger(known);
}

function shape({ probes }: KindReach): string {
  const found = probes.find((probe) => probe.shape !== null)?.shape ?? null;
  return found === null ? '·' : SHAPES[found];
}

function note(row: KindReach): string {
  const { probes, state, collections, definition } = row;
  // Not a missing permission.
  if (probes.some(({ error }) => error?.code === 'unauthorized')) return 'the key was refused';
  if (state === 'denied') return `needs ${permissionOf(row)}`;
  if (state === 'failing') return probes.find(({ error }) => error !== null)?.error?.message ?? '';
  const parts = [
    ...(probes.some(({ refusesQuery }) => refusesQuery) ? ['answers only without a query'] : []),
    ...(definition.reading === 'each' && state === 'readable'
      ? [`${plural(probes.length, 'recording')} requested`]
      : []),
    ...(collections > probes.length
      ? [`${probes.length} of ${formatInteger(collections)} lists looked at`]
      : []),
  ];
  return parts.join('; ');
}

/** Facts about the service as a whole. */
function facts({ kinds, pageCap, skew, requests, bytes, tookMs }: SourceReach): Fact[] {
  const found: Fact[] = [];
  if (pageCap !== null) {
    const { kind, asked, received, isCap } = pageCap;
    found.push([
      'pages',
      isCap
        ? `the service gives at most ${formatInteger(received)} records (asked for ${formatInteger(asked)} ${kind})`
        : `${formatInteger(received)} ${kind} came in one page, as requested; no limit was seen`,
    ]);
  }
  const looks = kinds.flatMap(({ probes }) => probes.flatMap(({ next }) => (next === null ? [] : [next])));
  if (looks.length > 0 && looks.every(({ advances }) => advances === true)) {
    const isElsewhere = looks.some(({ otherOrigin }) => otherOrigin !== null);
    found.push([
      'next',
      `advances${isElsewhere ? ', names another origin' : ', same origin'} (${plural(looks.length, 'list')} looked at)`,
    ]);
  }
  if (skew !== null) {
    const seconds = (Math.abs(skew.aheadMs) / 1000).toFixed(1);
    found.push([
      'clock',
      `the service is ${seconds} s ${skew.aheadMs >= 0 ? 'ahead' : 'behind'}, ± ${(skew.doubtMs / 1000).toFixed(1)} s`,
    ]);
  }
  const traffic = `${plural(requests, 'request')}, ${byteSize(bytes)} received, ${duration(tookMs)}`;
  return [...found, ['traffic', traffic]];
}

/** The part about this machine; its mirror only, unless `isVerbose`. */
export function healthReport(
  health: MirrorHealth,
  {
    now,
    daemon,
    targets,
    isVerbose,
    isMissing,
  }: {
    readonly now: number;
    readonly daemon: DaemonLockfile | null;
    readonly targets: readonly TargetCheck[];
    readonly isVerbose: boolean;
    /** True if there was a mirror, and now there is none. */
    readonly isMissing: boolean;
  },
): ReportDocument {
  const { path, isThere, bytes, space, schedules, notices, lastDrill, heldBy } = health;
  const size = isThere ? `, ${byteSize(bytes)}` : '';
  const planned = schedules.map(({ schedule, dueAt, isOverdue, missed }) => {
    const when =
      dueAt === null ? 'not planned yet' : `${isOverdue ? 'OVERDUE since' : 'due'} ${localTime(dueAt)}`;
    return `${schedule} ${when}${missed > 0 ? ` (${missed} missed)` : ''}`;
  });
  const isPlanned = schedules.some(({ dueAt }) => dueAt !== null);
  const all: Fact[] = [
    ...(isThere ? [['writer', heldBy ?? 'nobody holds the lock'] as const] : []),
    [
      'daemon',
      daemon === null
        ? 'none running here'
        : `running since ${daemon.since} (pid ${daemon.pid} on ${daemon.host})`,
    ],
    ...health.sources.map(
      ({ source, lastPublished: last }) =>
        [
          `last run of ${source}`,
          last === null ? 'none' : `${last.run}, ${last.outcome}, ${age(last.finishedAt, now)}`,
        ] as const,
    ),
    ...(isPlanned || isThere
      ? [['schedules', isPlanned ? planned.join(', ') : 'no daemon has planned any yet'] as const]
      : []),
    ...(isThere
      ? [
          ['notices', `${notices.pending} pending, ${notices.givenUp} given up`] as const,
          [
            'last drill',
            lastDrill === null
              ? 'none of the latest state'
              : `${lastDrill.outcome}, ${age(lastDrill.finishedAt, now)}`,
          ] as const,
        ]
      : []),
    ...targetFacts(targets),
  ];
  return {
    title: 'mirror',
    textTitle: 'label',
    summary: `${path}, ${mirrorState(health, isMissing)}${size}, ${space === null ? 'free space not known' : `${byteSize(space.freeBytes)} free`}`,
    ...(isThere || isMissing ? { tone: isMirrorSound(health) && !isMissing ? 'good' : 'bad' } : {}),
    facts: isVerbose ? all : targetFacts(targets),
    parts: [],
  };
}

function mirrorState(health: MirrorHealth, isMissing: boolean): string {
  const { path, isThere, damage, error, verification, contradictions } = health;
  const problems = verification?.problems ?? 0;
  if (isMissing) return movedAway(path) === null ? 'MISSING' : 'MOVED AWAY';
  if (!isThere) return 'not there yet';
  if (damage.length > 0) return 'DAMAGED';
  if (error !== null) return 'CANNOT BE OPENED';
  if (problems > 0) return `DAMAGED (${plural(problems, 'problem')} in the last verification)`;
  return contradictions.length > 0 ? 'ALTERED BY ANOTHER PROGRAM' : 'sound (quick check)';
}

/** True if neither a quick check, the last verification nor opening the mirror found a problem. */
export function isMirrorSound({ damage, error, verification, contradictions }: MirrorHealth): boolean {
  return (
    [damage, contradictions].flat().length === 0 && error === null && (verification?.problems ?? 0) === 0
  );
}

function targetFacts(targets: readonly TargetCheck[]): Fact[] {
  return targets.map(({ address, error, damage }) => [
    'backups',
    `${address} ${error === null ? 'can be used' : 'CANNOT BE USED'}${damage === null ? '' : ', but its newest backup is damaged'}`,
  ]);
}

const TONES: Readonly<Record<Gravity, Notice['tone']>> = { error: 'bad', warning: 'warning', note: 'note' };

const STATUS_LINE: Text = [
  { code: 'tidemark status' },
  ' shows whether the mirror is fresh, what drifted, and whether backups are made',
];

/** The problems, worst first, each with what to do. @param isThere whether there is a mirror */
export function problemReport(
  problems: readonly Problem[],
  { isThere }: Pick<MirrorHealth, 'isThere'> = { isThere: false },
): ReportDocument {
  const counted = (['error', 'warning', 'note'] as const).flatMap((gravity) => {
    const own = problems.filter((problem) => problem.gravity === gravity);
    return own.length === 0 ? [] : [plural(own.length, gravity)];
  });
  const [worst] = problems;
  const tone = worst === undefined ? 'good' : TONES[worst.gravity];
  return {
    title: 'problems',
    summary:
      worst === undefined
        ? `the service, the key${isThere ? ', the file of the mirror' : ''} and this machine: all fine`
        : counted.join(', '),
    ...(tone === 'note' ? {} : { tone }),
    ...(isThere && worst?.gravity !== 'error' ? { next: [STATUS_LINE] } : {}),
    // The same advice of several in a row is printed once.
    parts: problems.map(({ gravity, message, next }, index) => ({
      ...noticePart(TONES[gravity], message, [], next === problems[index + 1]?.next ? undefined : next),
      isListed: true,
    })),
  };
}

/** The errors among the problems, each with what to do, for stderr. */
export function problemReason(problems: readonly Problem[]): string[] {
  return problems
    .filter(({ gravity }) => gravity === 'error')
    .flatMap(({ source, message, next }) => [
      source === null || message.includes(source) ? message : `${source}: ${message}`,
      `  → ${next}`,
    ]);
}

/** The mirror for reading, which the caller closes; null if there is none, and with the error if it was moved or cannot be opened. */
export function openToInspect(
  context: CommandContext,
  config: Config,
  command: string,
): { readonly mirror: Mirror | null; readonly error: TidemarkError | null } {
  if (!existsSync(config.mirror)) return { mirror: null, error: movedAway(config.mirror) };
  try {
    return { mirror: openConfiguredMirror(config, 'read', command, context.pid), error: null };
  } catch (error) {
    return { mirror: null, error: asTidemarkError(error) };
  }
}

/** What a quick check of the mirror finds. */
export function inspectMirror(
  context: CommandContext,
  config: Config,
  opened: ReturnType<typeof openToInspect>,
): MirrorHealth {
  return mirrorHealth({
    config,
    ...opened,
    verificationOf: lastVerification,
    now: systemClock.now(),
    looker: { pid: context.pid, host: hostname() },
  });
}
