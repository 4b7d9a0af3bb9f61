/** `tidemark export --history`: every revision with what it changed, for programs that read NDJSON or Parquet. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import { recordName } from '../diff/change.ts';
import { compareBodies } from '../diff/compare.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { type ExportRevision, revisionLines } from '../report/export/documents.ts';
import { parquetOfHistory } from '../report/export/parquet.ts';
import type { ExportFormat } from './export-directory.ts';

/**
 * `file` is what `--output` names; null for a directory.
 * @throws TidemarkError `usage` for options that history cannot follow
 */
export function requireHistoryOptions(
  format: ExportFormat,
  options: { output?: string; at?: string },
  file: string | null,
): void {
  const problem =
    format !== 'ndjson' && format !== 'parquet'
      ? `--history is written as ndjson or parquet, not as ${format}`
      : options.output !== undefined && file === null
        ? `--history is one file, and ${options.output} is not named as ${format}`
        : options.at !== undefined
          ? '--history covers all runs, --at one'
          : undefined;
  if (problem === undefined) return;
  throw new TidemarkError('usage', problem, {
    hint: 'write it with `tidemark export --history --format parquet --output history.parquet`',
  });
}

/** The revisions as that format; `count` is called for each. */
export function historyPieces(
  mirror: Mirror,
  filter: RecordFilter,
  format: ExportFormat,
  how: {
    readonly definitions: (source: string) => (kind: Kind) => ResourceDefinition;
    readonly count: () => void;
  },
): Iterable<string | Uint8Array> {
  const revisions = withChanges(mirror, filter, how);
  return format === 'parquet' ? parquetOfHistory(revisions) : revisionLines(revisions);
}

function* withChanges(
  mirror: Mirror,
  filter: RecordFilter,
  { definitions, count }: Parameters<typeof historyPieces>[3],
): Generator<ExportRevision> {
  let before: { readonly value: JsonValue | undefined; readonly name: string } | null = null;
  let record = '';
  for (const revision of mirror.records.history(filter)) {
    count();
    const { source, kind, scope, id } = revision;
    const key = JSON.stringify([source, kind, scope, id]);
    // The first revision that retention kept of a record need not be the one that added it.
    if (key !== record) before = null;
    record = key;
    const definition = definitions(revision.source)(revision.kind);
    const value = revision.body === null ? undefined : parseLossless(revision.body);
    const name: string =
      value === undefined ? (before?.name ?? '') : recordName(definition, value, revision.id);
    const isCompared = revision.change === 'changed' && value !== undefined && before?.value !== undefined;
    const changes = isCompared
      ? compareBodies(definition, before?.value ?? null, value, 'default').map(({ path, from, to }) => ({
          path,
          ...(from === undefined ? {} : { from }),
          ...(to === undefined ? {} : { to }),
        }))
      : null;
    // A change of notation only is none by the one comparison.
    if (changes?.length !== 0) yield { ...revision, name, changes };
    before = { value, name };
  }
}
