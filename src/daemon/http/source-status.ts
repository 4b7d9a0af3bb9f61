/** How fresh and how whole the mirror's copy of a source is, in few small questions: no record is read or counted. */
import { type Kind, type Scope, KINDS } from '../../catalog/definition.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { HeldRemovals } from '../../mirror/held-removals.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { SourceState } from '../../state/status-document.ts';
import { lastCompleteRun, lastEndedRunOfAllKinds } from '../../state/whole-run.ts';
import { selectRows, kindOf, sqlNumber, sqlText } from './question.ts';

/** All collections of one kind of a source. */
interface KindStatus {
  readonly kind: Kind;
  readonly collections: number;
  readonly records: number;
  /** Collections whose latest look proved the list whole. */
  readonly whole: number;
  /** When the one that waited longest was last whole, ISO 8601; null where one never was. */
  readonly oldestWholeAt: string | null;
}

/** A collection whose latest look did not prove the list whole. */
interface UnreadCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Null before the first look. */
  readonly outcome: string | null;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  readonly lastCompleteAt: string | null;
}

export interface SourceStatus {
  readonly source: string;
  /** False for what the mirror holds of a source that the configuration no longer names. */
  readonly isConfigured: boolean;
  readonly state: SourceState;
  readonly records: number;
  /** In catalog order. */
  readonly kinds: readonly KindStatus[];
  /** In catalog order, at most `TROUBLED_READ`. */
  readonly troubled: readonly UnreadCollection[];
  /** How many there are in all. */
  readonly troubledCount: number;
  readonly oldestWholeAt: string | null;
  readonly lastRun: RunRow | null;
  readonly lastEnded: RunRow | null;
  /** Likewise, of runs that were not narrowed to some kinds. */
  readonly lastWholeEnded: RunRow | null;
  readonly lastPublished: RunRow | null;
  /** Of all kinds as well. */
  readonly lastComplete: RunRow | null;
  /** When the oldest run that is still known began, ISO 8601. */
  readonly firstTriedAt: string | null;
  readonly held: readonly HeldRemovals[];
}

const TROUBLED_READ = 200;
/** A writer that died leaves its run unended until the next one comes: a few may lie on top. */
const UNENDED_RUNS = 5;

/** Call it within `atOnce`, so that all of it is of one moment. */
function readSourceStatus(mirror: Mirror, source: string, isConfigured: boolean): SourceStatus {
  const newest = mirror.runs({ source, limit: UNENDED_RUNS });
  const kinds = readKinds(mirror, source);
  const troubledCount = kinds.reduce((sum, { collections, whole }) => sum + collections - whole, 0);
  const oldest = kinds.map(({ oldestWholeAt }) => oldestWholeAt);
  const known = {
    source,
    isConfigured,
    records: kinds.reduce((sum, { records }) => sum + records, 0),
    kinds,
    troubled: troubledCount === 0 ? [] : readTroubled(mirror, source),
    troubledCount,
    oldestWholeAt: oldest.includes(null) ? null : (oldest.toSorted()[0] ?? null),
    lastRun: newest[0] ?? null,
    lastEnded: newest.find(({ outcome }) => isEnded(outcome)) ?? null,
    lastWholeEnded: lastEndedRunOfAllKinds(mirror, source),
    lastPublished: mirror.latestRun(source) ?? null,
    lastComplete: lastCompleteRun(mirror, source),
    firstTriedAt: firstTriedAt(mirror, source),
    held: mirror.heldRemovals(source),
  };
  return { ...known, state: stateOf(known) };
}

/** The sources of the configuration first, then what else the mirror holds. */
export function readSourceStatuses(mirror: Mirror, configured: readonly string[]): SourceStatus[] {
  const others = mirror.sources().filter((name) => !configured.includes(name));
  return [
    ...configured.map((name) => readSourceStatus(mirror, name, true)),
    ...others.map((name) => readSourceStatus(mirror, name, false)),
  ];
}

function isEnded(outcome: string): boolean {
  return outcome !== 'running';
}

function stateOf({
  lastRun,
  lastEnded,
  lastWholeEnded,
  lastPublished,
  troubledCount,
  held,
}: Omit<SourceStatus, 'state'>): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  const isDone = lastEnded?.outcome === 'complete' && lastWholeEnded?.outcome === 'complete';
  return isDone && held.length === 0 && troubledCount === 0 ? 'whole' : 'partial';
}

function readKinds(mirror: Mirror, source: string): KindStatus[] {
  const rows = selectRows<{
    kind: string;
    collections: number;
    records: number;
    whole: number;
    oldest: string | null;
  }>(
    mirror,
    `SELECT c.kind AS kind, count(*) AS collections, sum(c.records) AS records, total(c.last_outcome = 'complete') AS whole,
       CASE WHEN count(c.last_complete_at) = count(*) THEN min(c.last_complete_at) END AS oldest
     FROM collections c JOIN sources s ON s.id = c.source
     WHERE s.name = ${sqlText(source)} AND c.retired_run IS NULL GROUP BY c.kind`,
  );
  return rows
    .flatMap(({ kind: name, oldest, ...rest }) => {
      const kind = kindOf(name);
      return kind === null ? [] : [{ kind, ...rest, oldestWholeAt: oldest }];
    })
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
}

function readTroubled(mirror: Mirror, source: string): UnreadCollection[] {
  const rows = selectRows<{
    kind: string;
    scope: string;
    outcome: string | null;
    code: string | null;
    error: string | null;
    at: string | null;
  }>(
    mirror,
    `SELECT c.kind AS kind, c.scope AS scope, c.last_outcome AS outcome, c.last_error_code AS code, c.last_error AS error,
       c.last_complete_at AS at
     FROM collections c JOIN sources s ON s.id = c.source
     WHERE s.name = ${sqlText(source)} AND c.retired_run IS NULL AND c.last_outcome IS NOT 'complete'
     ORDER BY c.id LIMIT ${sqlNumber(TROUBLED_READ)}`,
  );
  return rows
    .flatMap(({ kind: name, scope, outcome, code, error, at }) => {
      const kind = kindOf(name);
      if (kind === null) return [];
      return [
        {
          kind,
          scope: JSON.parse(scope) as Scope,
          outcome,
          errorCode: code as ErrorCode | null,
          error,
          lastCompleteAt: at,
        },
      ];
    })
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
}

function firstTriedAt(mirror: Mirror, source: string): string | null {
  const [row] = selectRows<{ at: string }>(
    mirror,
    `SELECT r.started_at AS at FROM runs r CROSS JOIN sources s ON s.id = r.source
     WHERE s.name = ${sqlText(source)} AND r.kinds IS NULL ORDER BY r.run LIMIT 1`,
  );
  return row?.at ?? null;
}
