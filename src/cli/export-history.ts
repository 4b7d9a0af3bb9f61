/** `tidemark export --history`: every revision with what it changed, as NDJSON or Parquet. */
import type { Kind } from '../catalog/kinds.ts';
import { parentId } from '../catalog/lineage.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { isJsonObject, type JsonValue, parseLossless } from '../core/json.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { nameIn } from '../diff/change.ts';
import { compareBodies } from '../diff/compare.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { type ExportRevision, revisionLines } from '../report/export/documents.ts';
import { parquetOfHistory } from '../report/export/parquet.ts';
import { choosePeriod, isWithin, type Period } from '../state/period.ts';
import { latestIds, RecreatedReferences } from '../state/recreated-ids.ts';
import { notKept } from '../state/record-history.ts';
import { forgottenInto, forgottenTexts } from '../state/runs.ts';
import type { ExportFormat } from './export-directory.ts';

/**
 * @param file the file that `--output` names; null for a directory
 * @throws TidemarkError `usage` for options that do not go together with --history
 */
export function requireHistoryOptions(
  format: ExportFormat,
  options: { output?: string; at?: string },
  file: string | null,
): void {
  const refuse = (problem: string): never => {
    throw new TidemarkError('usage', problem, {
      hint: 'write it with `tidemark export --history --format parquet --output history.parquet`',
    });
  };
  if (format !== 'ndjson' && format !== 'parquet')
    refuse(`--history is written as ndjson or parquet, not as ${format}`);
  if (options.output !== undefined && file === null)
    refuse(`--history is one file, and ${options.output} is not named as ${format}`);
  if (options.at !== undefined) refuse('--history covers all runs, --at one');
}

/** The published runs after a reference (as in `changes --since`), oldest first, with notes; `of` is their period. */
export function runsSince(
  mirror: Mirror,
  sources: readonly string[],
  since: string,
): {
  readonly runs: ReadonlySet<number>;
  readonly notes: readonly string[];
  readonly of: { readonly period: Period; readonly isWithin: (run: RunRow) => boolean };
} {
  const period = choosePeriod(mirror, { since, sources }, systemClock.now());
  const isInPeriod = (run: RunRow): boolean => isWithin(period, run.finishedAt ?? run.startedAt, run.run);
  const runs = publishedRuns(mirror, sources).filter(isInPeriod);
  return {
    runs: new Set(runs.map(({ run }) => run)),
    notes: [...period.notes, ...mergedNotes(mirror, runs)],
    of: { period, isWithin: isInPeriod },
  };
}

/** A line for each run that has changes of runs which retention dropped. */
export function mergedInHistory(mirror: Mirror, sources: readonly string[]): string[] {
  return mergedNotes(mirror, publishedRuns(mirror, sources));
}

/** Oldest first. */
function publishedRuns(mirror: Mirror, sources: readonly string[]): RunRow[] {
  return mirror.runs
    .list({ isPublished: true })
    .filter(({ source }) => sources.includes(source))
    .reverse();
}

function mergedNotes(mirror: Mirror, runs: readonly RunRow[]): string[] {
  return forgottenTexts(runs.flatMap(({ run }) => forgottenInto(mirror, run) ?? []));
}

/**
 * The revisions in the format: record by record, or, with ids in the filter, run by run.
 * @param how.runs leaves out the revisions of other runs; the oldest one first
 * @param how.count called for each revision
 */
export function historyPieces(
  mirror: Mirror,
  filter: RecordFilter,
  format: ExportFormat,
  how: {
    readonly definitions: (source: string) => (kind: Kind) => ResourceDefinition;
    readonly runs?: ReadonlySet<number> | undefined;
    readonly count: () => void;
  },
): Iterable<string | Uint8Array> {
  const perRecord = withChanges(mirror, filter, how);
  // A record that was created again has several ids, but one history.
  const hasIds = (filter.ids ?? []).length > 0;
  const revisions = hasIds ? [...perRecord].sort((a, b) => a.run - b.run) : perRecord;
  return format === 'parquet' ? parquetOfHistory(revisions) : revisionLines(revisions);
}

function* withChanges(
  mirror: Mirror,
  filter: RecordFilter,
  { definitions, runs, count }: Parameters<typeof historyPieces>[3],
): Generator<ExportRevision> {
  let before: {
    readonly value: JsonValue | undefined;
    readonly unknown: ReadonlyMap<string, unknown>;
  } | null = null;
  let nameBefore: string | null = null;
  let record = '';
  const references = new Map<string, RecreatedReferences>();
  // With the new ids of recreated records: changed references to them are changes by the restore, not of this record.
  const bodyBefore = ({
    source,
    kind,
    recreated,
  }: {
    readonly source: string;
    readonly kind: Kind;
    readonly recreated?: { readonly restore: number; readonly before: string | null };
  }): JsonValue | undefined => {
    if (recreated === undefined || recreated.before === null) return undefined;
    const key = JSON.stringify([source, recreated.restore]);
    const own =
      references.get(key) ??
      new RecreatedReferences(
        definitions(source),
        latestIds(mirror.restores.idMap(source), recreated.restore),
      );
    references.set(key, own);
    return parseLossless(own.renamed({ kind, body: recreated.before }));
  };
  const organizations = new Map<string, ReadonlyMap<string, string>>();
  const organizationOf = (source: string, key: RecordKey): string | null => {
    const { project_id: project } = key.scope;
    if (project === undefined) return parentId('organization_id', key) ?? null;
    const own = organizations.get(source) ?? mirror.records.listedOrganizations(source);
    organizations.set(source, own);
    return own.get(project) ?? null;
  };
  const unknownOf = new Map<string, ReturnType<typeof notKept>>();
  const unknown = (source: string, definition: ResourceDefinition): ReturnType<typeof notKept> => {
    const key = JSON.stringify([source, definition.kind]);
    const own = unknownOf.get(key) ?? notKept(mirror, source, definition, Number.MAX_SAFE_INTEGER);
    unknownOf.set(key, own);
    return own;
  };
  const [from = Number.MAX_SAFE_INTEGER] = runs ?? [0];
  const asked = (revision: ExportRevision | null): ExportRevision[] => {
    if (revision === null || runs?.has(revision.run) === false) return [];
    count();
    return [revision];
  };
  let newest: ExportRevision | null = null;
  for (const revision of mirror.records.history(filter, from)) {
    const { source, kind, scope, id } = revision;
    const key = JSON.stringify([source, kind, scope, id]);
    // Retention may have dropped the revision that added a record.
    if (key !== record) before = nameBefore = null;
    record = key;
    const definition = definitions(revision.source)(revision.kind);
    const value = revision.body === null ? undefined : parseLossless(revision.body);
    const name: string | null = value === undefined ? nameBefore : nameIn(definition, value);
    const change = revision.change === 'rewritten' ? 'changed' : revision.change;
    const from = change === 'changed' ? before?.value : bodyBefore(revision);
    const then = unknown(source, definition)(revision.run);
    // A change between two values that were kept is a change, even if values in between were not.
    const isUnknown = (name: string): boolean =>
      then.has(name) && (change !== 'changed' || before?.unknown.has(name) === true);
    const changes =
      value === undefined || from === undefined
        ? null
        : compareBodies(definition, from, value, 'default').filter(
            ({ path }) => !isUnknown(splitPointer(path)[0] ?? ''),
          );
    const listed = new Set(changes?.map(({ path }) => splitPointer(path)[0]));
    const unknownThen =
      value !== undefined && isJsonObject(value)
        ? [...then.keys()].filter((name) => Object.hasOwn(value, name) && !listed.has(name))
        : [];
    before = { value, unknown: then };
    nameBefore = name;
    // By the current definitions: a field may have become volatile, or no longer be, since a run found it changed.
    const hasNewText = change === 'changed' && changes?.length === 0;
    if (!hasNewText) yield* asked(newest);
    const more = unknownThen.length === 0 ? {} : { volatile_unknown: unknownThen.sort() };
    const head: ExportRevision =
      hasNewText && newest !== null
        ? newest
        : {
            ...{ ...revision, organization: organizationOf(source, revision) },
            ...{ change, name, changes, ...more },
          };
    newest = { ...head, name, body: revision.body };
  }
  yield* asked(newest);
}
