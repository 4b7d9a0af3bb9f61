/** The changes of runs as CSV: what `tidemark changes --format csv` writes. */
import { parentId } from '../catalog/lineage.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import { type FieldChange, placeOf } from '../diff/compare.ts';
import { encodableJson, type JsonValue } from '../core/json.ts';
import { csvLine } from './export/documents.ts';

/** A run with what it changed; null for the first run. */
interface ChangedRun {
  readonly run: Pick<RunRow, 'run' | 'source' | 'startedAt' | 'finishedAt'>;
  readonly diff: Pick<DiffDocument, 'changes'> | null;
}

/** The organization of a project of a source, as the views have it; undefined if unknown. */
type OrganizationOf = (source: string, project: string) => string | undefined;

const COLUMNS = [
  ...['run', 'at', 'source', 'kind', 'organization_id', 'project_id', 'role_id', 'id', 'name', 'change'],
  ...['path', 'from', 'to', 'restore', 'by', 'via', 'id_before'],
] as const;

/**
 * A line for each changed field, and for each added or removed record; times in UTC, values as JSON as in the CSV of the
 * audit log, empty without a value; safe to open in a spreadsheet. Only the fields that a restore wrote name it.
 */
export function* changesCsv(runs: Iterable<ChangedRun>, organizationOf: OrganizationOf): Generator<string> {
  yield csvLine(COLUMNS);
  for (const { run, diff } of runs) {
    for (const change of diff?.changes ?? []) {
      if (change.change !== 'changed' || change.fields.length === 0)
        yield line(run, change, undefined, organizationOf);
      else for (const field of change.fields) yield line(run, change, field, organizationOf);
    }
  }
}

function line(
  run: ChangedRun['run'],
  change: RecordChange,
  field: FieldChange | undefined,
  organizationOf: OrganizationOf,
): string {
  const { kind, scope, id, name, created_again: again, changed_by: writer } = change;
  const isWritten = field === undefined || writer?.paths?.includes(field.path) !== false;
  const restore = again ?? (isWritten ? writer : undefined);
  const cells: Record<(typeof COLUMNS)[number], string> = {
    run: String(run.run),
    at: run.finishedAt ?? run.startedAt,
    source: run.source,
    ...{ kind, id, name: name === id ? '' : name, change: change.change },
    organization_id:
      (scope.project_id === undefined
        ? parentId('organization_id', change)
        : organizationOf(run.source, scope.project_id)) ?? '',
    project_id: parentId('project_id', change) ?? '',
    role_id: scope.role_id ?? '',
    path: field === undefined ? '' : placeOf(field),
    from: valueCell(field?.from),
    to: valueCell(field?.to),
    restore: restore === undefined ? '' : String(restore.restore),
    by: restore?.by ?? '',
    via: restore?.via ?? '',
    id_before: again?.was ?? '',
  };
  return csvLine(COLUMNS.map((column) => cells[column]));
}

function valueCell(value: JsonValue | undefined): string {
  return value === undefined ? '' : encodableJson(value);
}
