/** Records as the texts of an export, piece by piece, with one record in memory at a time. */
import type { RecordKey } from '../../catalog/order.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { encodableJson, parseLossless, getOwn, isJsonObject, type JsonValue } from '../../core/json.ts';
import { stringifyYaml } from '../../core/yaml.ts';

export interface ExportRecord extends RecordKey {
  /** The body exactly as received. */
  readonly body: string;
  /** Null in an export of one source. */
  readonly source: string | null;
}

/** A record with the times that its view shows. */
export interface DatedExportRecord extends ExportRecord {
  readonly firstSeenAt: string;
  readonly lastChangedAt: string;
}

/** One revision of a record, with what it changed. */
export interface ExportRevision extends Omit<ExportRecord, 'body' | 'source'> {
  readonly source: string;
  /** As in the views: for records that are listed by project, that of the project. Null if unknown. */
  readonly organization: string | null;
  /** For a removal, the last name. Null without one. */
  readonly name: string | null;
  readonly run: number;
  readonly at: string;
  /** As in the view `changes`. */
  readonly change: 'added' | 'changed' | 'removed' | 'initial' | 'first_read' | 'recreated';
  /** Given for a changed or recreated record; a missing side was absent. Null for other changes. */
  readonly changes: readonly FieldChange[] | null;
  /** Exactly as received; null for a removal. */
  readonly body: string | null;
  /** Fields that were volatile then and no longer are: `body` has their last values, `changes` leaves them out. */
  readonly volatile_unknown?: readonly string[];
}

/** A line for each revision. */
export function* revisionLines(revisions: Iterable<ExportRevision>): Generator<string> {
  for (const { source, kind, scope, id, name, run, at, change, changes, body, ...more } of revisions) {
    const { volatile_unknown: unknown, organization } = more;
    const head = JSON.stringify({
      ...{ source, kind, organization_id: organization, scope, id, name, run, at, change, changes },
      volatile_unknown: unknown,
    });
    yield `${head.slice(0, -1)},"body":${body === null ? 'null' : oneLine(body)}}\n`;
  }
}

/** `tidemark.export/1`: one record as one line of JSON, its body with every digit as received. */
function exportLine({ kind, scope, id, body, source }: ExportRecord, unknown?: readonly string[]): string {
  const head = JSON.stringify({ source: source ?? undefined, kind, scope, id, volatile_unknown: unknown });
  return `${head.slice(0, -1)},"body":${oneLine(body)}}`;
}

/** The received body, on one line if the server sent several. */
function oneLine(body: string): string {
  return /[\n\r]/.test(body) ? JSON.stringify(parseLossless(body)) : body;
}

/** By kind, the volatile fields of which the records have no values. */
type UnknownFields = ReadonlyMap<Kind, readonly string[]>;

/** A line for each record (`tidemark.export/1`). */
export function* ndjsonLines(
  records: Iterable<ExportRecord>,
  unknown: UnknownFields = new Map(),
): Generator<string> {
  for (const record of records) yield `${exportLine(record, unknown.get(record.kind))}\n`;
}

/** One JSON document of all records. @param about members that say what the export covers */
export function* jsonDocument(records: Iterable<ExportRecord>, about: object = {}): Generator<string> {
  yield `${JSON.stringify({ schema: 'tidemark.export/1', ...about }).slice(0, -1)},"records":[`;
  let separator = '\n';
  for (const record of records) {
    yield separator + exportLine(record);
    separator = ',\n';
  }
  yield '\n]}\n';
}

/** A stream of YAML documents. */
export function* yamlDocuments(
  records: Iterable<ExportRecord>,
  unknown: UnknownFields = new Map(),
): Generator<string> {
  for (const record of records) yield `---\n${yamlDocument(record, unknown.get(record.kind))}`;
}

/** One record for review: its key first, then its body with the keys in the order received. */
export function yamlDocument(
  { kind, scope, id, body, source }: ExportRecord,
  unknown?: readonly string[],
): string {
  return stringifyYaml({
    ...(source === null ? {} : { source }),
    kind,
    scope: { ...scope },
    id,
    ...(unknown === undefined ? {} : { volatile_unknown: [...unknown] }),
    body: parseLossless(body),
  });
}

/**
 * One kind as CSV (RFC 4180): key columns, documented fields in their order, then all others that occur, sorted. The records
 * are read twice: first `forColumns` for the columns, then `records` for the lines.
 */
export function* csvLines(
  kind: Kind,
  hasSource: boolean,
  forColumns: Iterable<ExportRecord>,
  records: Iterable<ExportRecord>,
): Generator<string> {
  const { scope: scopeKeys, fields: documented } = definitionOf(kind);
  const known = documented.map(({ name }) => name);
  const occurring = new Set<string>();
  for (const { body } of forColumns) {
    const value = parseLossless(body);
    if (isJsonObject(value)) for (const name of Object.keys(value)) occurring.add(name);
  }
  const fields = [...known, ...[...occurring.difference(new Set(known))].sort()];
  const keys = [...(hasSource ? ['_source'] : []), ...scopeKeys.map((key) => `_${key}`), '_id'];
  yield csvLine([...keys, ...fields.map((name) => columnOf(name, keys, fields))]);
  for (const { source, scope, id, body } of records) {
    const value = parseLossless(body);
    yield csvLine([
      ...(hasSource ? [source ?? ''] : []),
      ...scopeKeys.map((key) => scope[key] ?? ''),
      id,
      ...fields.map((name) => csvCell(isJsonObject(value) ? getOwn(value, name) : undefined)),
    ]);
  }
}

/** A field with the name of a key column is `field_NAME`, as in the views. */
function columnOf(name: string, keys: readonly string[], fields: readonly string[]): string {
  let column = name;
  while (keys.includes(column) || (column !== name && fields.includes(column))) column = `field_${column}`;
  return column;
}

/** A value as the text of a cell: absent is empty, null is `null`, objects and arrays are JSON. */
function csvCell(value: JsonValue | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : encodableJson(value);
}

/** One line of CSV; a spreadsheet runs nothing in it as a formula. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(quote).join(',')}\r\n`;
}

/** Quotes if needed; an apostrophe precedes a formula. U+0000 is replaced, because it ends a text in many readers. */
function quote(text: string): string {
  const isNumber = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  const safe = (!isNumber && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('\0', '\ufffd');
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
