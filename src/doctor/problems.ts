/** Problems, the most severe first, with what to do about each. Pure. */
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { mirroredKinds, takenAlong } from '../config/mirrored-kinds.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { groupsBy } from '../core/group.ts';
import { OR_EXCLUDE, permissionAdvice, REFUSED_HERE } from '../core/hints.ts';
import { movedText } from '../sync/removals.ts';
import type { CollectionProbe } from './collection-probe.ts';
import type { KindReach, SourceReach } from './source-reach.ts';

/** `error`: something does not work. `warning`: something will not work. `note`: good to know. */
export type Gravity = 'error' | 'warning' | 'note';

export interface Problem {
  readonly gravity: Gravity;
  /** For scripts, e.g. `permission_missing`. */
  readonly code: string;
  /** Null if it is not about one source. */
  readonly source: string | null;
  readonly message: string;
  /** What to do next. */
  readonly next: string;
}

/** Code of the problem that the mirror cannot be written. */
export const MIRROR_UNWRITABLE = 'mirror_unwritable';
/** Code of the problem that the last verification of the mirror found damage. */
export const VERIFY_FAILED = 'verify_failed';

const ORDER: readonly Gravity[] = ['error', 'warning', 'note'];

/** The most severe first; equal ones stay in the order in which they were found. */
export function bySeverity(problems: readonly Problem[]): Problem[] {
  return problems.toSorted((a, b) => ORDER.indexOf(a.gravity) - ORDER.indexOf(b.gravity));
}

/** The problems that probing the service found. */
export function reachProblems(reach: SourceReach): Problem[] {
  const source = reach.source.name;
  if (reach.fatal !== null) {
    const { code, message, hint } = reach.fatal;
    return [{ gravity: 'error', code, source, message, next: hint ?? 'run `tidemark doctor` again later' }];
  }
  return [
    ...elsewhereNow(reach),
    ...denied(reach),
    ...failing(reach),
    ...circling(reach),
    ...queryless(reach),
    ...notOffered(reach),
    ...nothingThere(reach),
    ...elsewhere(reach),
    ...rights(reach),
  ].map((problem) => ({ ...problem, source }));
}

type Found = Omit<Problem, 'source'>;

function elsewhereNow({ moved }: SourceReach): Found[] {
  if (moved === null) return [];
  return [
    {
      gravity: 'error',
      code: 'moved_address',
      message: movedText(moved),
      next: 'if that is a mistake, correct baseUrl; a sync removes nothing until you accept it',
    },
  ];
}

/** One problem for each permission that is missing. */
function denied({ kinds, source }: SourceReach): Found[] {
  const rows = kinds.filter(({ state }) => state === 'denied');
  // By code too: which permission a 401 lacks is unknown.
  const groups = groupsBy(rows, (row) => `${errorOf(row)?.code} ${permissionOf(row)}`);
  return groups.map((lacking) => {
    const [first] = lacking;
    const names = kindsOf(lacking);
    const { code, message = 'the key may not do this' } = errorOf(first) ?? {};
    const advice = code === 'unauthorized' ? REFUSED_HERE : permissionAdvice(permissionOf(first));
    return {
      gravity: 'error',
      code: 'permission_missing',
      message: `${names.join(', ')}: ${message}`,
      next: `${advice}${orWithout(source, names)}`,
    };
  });
}

/** The permission to add: as the service names it, or else as documented. */
export function permissionOf(row: KindReach): string {
  return errorOf(row)?.permission ?? row.definition.permission.read;
}

function failing({ kinds, moved }: SourceReach): Found[] {
  // If the address has none of the organizations, there is a problem with the address already.
  const isKnown = ({ kind }: KindReach): boolean => moved !== null && kind === 'organizations';
  const rows = kinds.filter((row) => row.state === 'failing' && !isKnown(row));
  return groupsBy(rows, (row) => errorOf(row)?.message ?? '').map((broken) => {
    const { code = 'failing', message = '', hint } = errorOf(broken[0]) ?? {};
    return {
      gravity: 'error',
      code,
      message: `${kindsOf(broken).join(', ')}: ${message}`,
      next: hint ?? 'run `tidemark doctor` again later',
    };
  });
}

function circling({ kinds }: SourceReach): Found[] {
  const rows = kinds.filter(({ probes }) => probes.some(({ next }) => next?.advances === false));
  if (rows.length === 0) return [];
  return [
    {
      gravity: 'error',
      code: 'next_does_not_advance',
      message: `${kindsOf(rows).join(', ')}: the page behind \`next\` is the same page again`,
      next: 'check what is in front of the service: a proxy or cache that drops the query string does this',
    },
  ];
}

function queryless({ kinds, source }: SourceReach): Found[] {
  return kindsOf(kinds.filter(({ probes }) => probes.some(({ refusesQuery }) => refusesQuery))).map(
    (kind) => ({
      gravity: 'error',
      code: 'query_refused',
      message: `${kind}: the list answers only without a query string, so a sync fails on it`,
      next: `${source.profile === 'posthog' ? '' : 'set `profile: posthog`, or '}add definitions: { ${kind}: { listing: { acceptsQuery: false } } } to the source`,
    }),
  );
}

function notOffered({ kinds, moved, source }: SourceReach): Found[] {
  const names = kindsOf(kinds.filter(({ state }) => state === 'not_offered'));
  if (names.length === 0) return [];
  // If even organizations are not found, the address is wrong.
  if (names.includes('organizations')) {
    return [
      {
        gravity: 'error',
        code: 'not_found',
        message: 'organizations: there is nothing at this path',
        next: 'check baseUrl of the source, and the ids under `organizations` where it names some',
      },
    ];
  }
  // Other kinds were looked for in organizations that do not exist at this address.
  if (moved !== null) return [];
  return [
    {
      gravity: 'warning',
      code: 'not_offered',
      message: `not offered here (404): ${names.join(', ')}`,
      next: `leave them out, or every sync ends as partial: ${excluding(source, names)}`,
    },
  ];
}

function nothingThere({ organizations, kinds }: SourceReach): Found[] {
  const root = kinds.find(({ kind }) => kind === 'organizations');
  if (organizations.length > 0 || root?.state !== 'empty') return [];
  return [
    {
      gravity: 'warning',
      code: 'no_organization',
      message: 'the key sees no organization: there is nothing to mirror',
      next: 'check which organizations the key was limited to when it was made',
    },
  ];
}

function elsewhere({ kinds, source }: SourceReach): Found[] {
  const others = new Set(
    kinds.flatMap(({ probes }) => probes.flatMap(({ next }) => next?.otherOrigin ?? [])),
  );
  if (others.size === 0) return [];
  return [
    {
      gravity: 'note',
      code: 'next_elsewhere',
      message: `\`next\` leads to ${[...others].join(', ')}; requests still go to ${source.baseUrl.origin}`,
      next: 'nothing, where that is the same service behind a proxy: the key only ever goes to baseUrl',
    },
  ];
}

/** Whether the key could restore, or could do more than a sync needs. */
export function rights({ permissions, kinds }: SourceReach): Found[] {
  if (permissions === null) return [];
  const writing = new Set(
    kinds
      .filter(({ definition }) => definition.restore.never === null)
      .map(({ definition }) => definition.permission.write),
  );
  const lacking = permissions.includes('*') ? [] : [...writing].filter((each) => !permissions.includes(each));
  if (lacking.length < writing.size) {
    return [
      {
        gravity: 'note',
        code: 'key_can_write',
        message: `the key may write${lacking.length === 0 ? '' : `, but not with ${lacking.join(', ')}`}`,
        next: 'a sync only reads: give it a key of read permissions, and keep one that writes for restores',
      },
    ];
  }
  return [
    {
      gravity: 'note',
      code: 'key_only_reads',
      message: 'the key may only read, which is enough for a sync',
      next: `a restore needs another key, with ${lacking.join(', ')}`,
    },
  ];
}

function kindsOf(rows: readonly KindReach[]): Kind[] {
  return [...new Set(rows.map(({ kind }) => kind))];
}

function errorOf({ probes }: KindReach): CollectionProbe['error'] {
  return probes.find(({ error }) => error !== null)?.error ?? null;
}

/** The advice to exclude the kinds; empty if nothing would be left, as without organizations. */
function orWithout(source: SourceConfig, kinds: readonly Kind[]): string {
  const isLeft = mirroredKinds(without(source, kinds)).size > 0;
  return isLeft ? `${OR_EXCLUDE}: ${excluding(source, kinds)}` : '';
}

/** The line of configuration that excludes kinds, and with them those that are found through them. */
function excluding(source: SourceConfig, kinds: readonly Kind[]): string {
  const along = [...takenAlong(without(source, kinds)).values()].flat();
  return `kinds: { exclude: [${[...kinds, ...along].join(', ')}] }`;
}

function without(source: SourceConfig, kinds: readonly Kind[]): SourceConfig {
  return { ...source, kinds: { include: null, exclude: [...source.kinds.exclude, ...kinds] } };
}

const MIRROR_UNUSABLE: ReadonlySet<string> = new Set([
  ...[MIRROR_UNWRITABLE, VERIFY_FAILED],
  ...['mirror_corrupt', 'mirror_foreign'],
]);

/**
 * 0 without errors, even with warnings; 3 if something cannot be read; if nothing can be read, 5 if the key was refused for
 * everything, otherwise 1; also 1 if the mirror is damaged, as for `verify`, or cannot be written.
 */
export function doctorExitCode(reaches: readonly SourceReach[], problems: readonly Problem[]): ExitCode {
  const states = reaches.flatMap(({ kinds, fatal }) => [
    ...kinds.map(({ state }) => state),
    ...(fatal?.code === 'unauthorized' ? (['denied'] as const) : []),
  ]);
  const reached = states.filter((state) => state !== 'not_reached');
  const isAnythingRead = reached.some((state) => state === 'readable' || state === 'empty');
  if (reaches.length > 0 && !isAnythingRead) {
    const isRefused = reached.length > 0 && reached.every((state) => state === 'denied');
    return isRefused ? EXIT.refused : EXIT.failed;
  }
  if (problems.some(({ code }) => MIRROR_UNUSABLE.has(code))) return EXIT.failed;
  return problems.some(({ gravity }) => gravity === 'error') ? EXIT.partial : EXIT.done;
}
