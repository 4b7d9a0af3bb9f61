/** What is wrong, worst first, and what to do about each. Pure: from what was found, nothing is read here. */
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { mirroredKinds, takenAlong } from '../config/mirrored-kinds.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { OR_EXCLUDE, permissionAdvice, REFUSED_HERE } from '../core/hints.ts';
import { movedText } from '../sync/removals.ts';
import type { CollectionProbe } from './collection-probe.ts';
import type { KindReach, SourceReach } from './source-reach.ts';

/** `error`: something that is asked for cannot be had. `warning`: it will matter. `note`: good to know. */
export type Gravity = 'error' | 'warning' | 'note';

export interface Problem {
  readonly gravity: Gravity;
  /** To decide on, e.g. `permission_missing`. */
  readonly code: string;
  /** Null for what is not about one source. */
  readonly source: string | null;
  readonly message: string;
  /** What to do next. */
  readonly next: string;
}

/** Code of the problem that no sync can write the mirror. */
export const MIRROR_UNWRITABLE = 'mirror_unwritable';
/** Code of the problem that the last verification of the mirror found damage. */
export const VERIFY_FAILED = 'verify_failed';

const ORDER: readonly Gravity[] = ['error', 'warning', 'note'];

/** Worst first; those alike stay in the order in which they were found. */
export function bySeverity(problems: readonly Problem[]): Problem[] {
  return problems.toSorted((a, b) => ORDER.indexOf(a.gravity) - ORDER.indexOf(b.gravity));
}

/** What a look at the service found. */
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
  // What a 401 lacks is not known, so those are apart.
  const groups = Map.groupBy(rows, (row) => `${errorOf(row)?.code} ${permissionOf(row)}`);
  return [...groups.values()].map((lacking) => {
    const permission = permissionOf(lacking[0] as KindReach);
    const names = kindsOf(lacking);
    const error = errorOf(lacking[0]);
    const said = error?.message ?? 'the key may not do this';
    const isRefused = error?.code === 'unauthorized';
    const advice = isRefused ? REFUSED_HERE : permissionAdvice(permission);
    return {
      gravity: 'error',
      code: 'permission_missing',
      message: `${names.join(', ')}: ${said}`,
      next: `${advice}${orWithout(source, names)}`,
    };
  });
}

/** The permission to add: the service's name, else the documented one. */
export function permissionOf(row: KindReach): string {
  return errorOf(row)?.permission ?? row.definition.permission.read;
}

function failing({ kinds, moved }: SourceReach): Found[] {
  // That an address has no organization is said of the address.
  const isSaid = ({ kind }: KindReach): boolean => moved !== null && kind === 'organizations';
  const rows = kinds.filter((row) => row.state === 'failing' && !isSaid(row));
  return [...Map.groupBy(rows, (row) => errorOf(row)?.message ?? '')].map(([message, broken]) => ({
    gravity: 'error',
    code: errorOf(broken[0])?.code ?? 'failing',
    message: `${kindsOf(broken).join(', ')}: ${message}`,
    next: errorOf(broken[0])?.hint ?? 'run `tidemark doctor` again later',
  }));
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
  // Without the root everything is at the wrong place.
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
  // Looked for in organizations that are not there.
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

function errorOf(row: KindReach | undefined): CollectionProbe['error'] {
  return row?.probes.find(({ error }) => error !== null)?.error ?? null;
}

/** Without the root nothing is found, so leaving it out does not help. */
function orWithout(source: SourceConfig, kinds: readonly Kind[]): string {
  const isLeft = mirroredKinds(without(source, kinds)).size > 0;
  return isLeft ? `${OR_EXCLUDE}: ${excluding(source, kinds)}` : '';
}

/** The line of configuration that leaves kinds out, and by name what goes with them. */
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
 * 0 for fine, warnings included; 3 where something cannot be read; where nothing can, 5 if the key was refused for all of
 * it and 1 otherwise; 1 as well where the mirror is damaged, as `verify` has it, or cannot be written.
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
