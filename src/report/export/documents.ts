/** Records as the texts of an export, piece by piece: memory holds one record at a time. */
import type { RecordKey } from '../../catalog/order.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { encodableJson, parseLossless, getOwn, isJsonObject, type JsonValue } from '../../core/json.ts';
import { stringifyYaml } from '../../core/yaml.ts';

export interface ExportRecord extends RecordKey {
  /** The body exactly as received. */
  readonly body: string;
  /** Named where an export holds several sources; null otherwise. */
  readonly source: string | null;
}

/** A record for a table, with the times that its view shows. */
export interface DatedExportRecord extends ExportRecord {
  readonly firstSeenAt: string;
  readonly lastChangedAt: string;
}

/** One revision of a record, with what it changed. */
export interface ExportRevision extends Omit<ExportRecord, 'body' | 'source'> {
  readonly source: string;
  /** That it belongs to, as the views have it: of what is listed by project that of the project. Null if unknown. */
  readonly organization: string | null;
  /** Null where the record has none; of a removal the last. */
  readonly name: string | null;
  readonly run: number;
  readonly at: string;
  /** As the view `changes` has it. */
  readonly change: 'added' | 'changed' | 'removed' | 'initial' | 'first_read' | 'recreated';
  /** Of a changed or recreated record; a side that is missing was absent. Null for the others. */
  readonly changes: readonly FieldChange[] | null;
  /** Exactly as received; null for a removal. */
  readonly body: string | null;
  /** Fields that were volatile then and are not any more: `body` has what was seen last of them, `changes` leaves them out. */
  readonly volatile_unknown?: readonly string[];
}

/** One revision a line. */
export function* revisionLines(revisions: Iterable<ExportRevision>): Generator<string> {
  for (const { source, kind, scope, id, name, run, at, change, changes, body, ...more } of revisions) {
    const { volatile_unknown: unknown, organization } = more;
    const head = JSON.stringify({
      ...{ source, kind, organization_id: organization, scope, id, name, run, at, change, changes },
      ...(unknown === undefined ? {} : { volatile_unknown: unknown }),
    });
    yield `${head.slice(0, -1)},"body":${body === null ? 'null' : oneLine(body)}}\n`;
  }
}

/** `tidemark.export/1`: one record as one line of JSON, its body with every digit as received. */
function exportLine({ kind, scope, id, body, source }: ExportRecord, unknown?: readonly string[]): string {
  const volatile = unknown === undefined ? {} : { volatile_unknown: unknown };
  const head = JSON.stringify({ ...(source === null ? {} : { source }), kind, scope, id, ...volatile });
  return `${head.slice(0, -1)},"body":${oneLine(body)}}`;
}

/** A body without line breaks: the received text, on one line where the server sent several. */
function oneLine(body: string): string {
  return /[\n\r]/.test(body) ? JSON.stringify(parseLossless(body)) : body;
}

/** By kind, the volatile fields of which the records have no values; kinds that have all are left out. */
type UnknownFields = ReadonlyMap<Kind, readonly string[]>;

/** One record a line, as `tidemark.export/1` says it. */
export function* ndjsonLines(
  records: Iterable<ExportRecord>,
  unknown: UnknownFields = new Map(),
): Generator<string> {
  for (const record of records) yield `${exportLine(record, unknown.get(record.kind))}\n`;
}

/** One JSON document of all records; `about` are members that say what the export is of. */
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

/** One record for review: what it is first, then its body with the keys in the order received. */
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

/** One kind as CSV. The records are read twice: `forColumns` to know the columns, then `records` for the lines. */
export function* csvLines(
  kind: Kind,
  hasSource: boolean,
  forColumns: Iterable<ExportRecord>,
  records: Iterable<ExportRecord>,
): Generator<string> {
  const columns = new CsvColumns(definitionOf(kind), hasSource);
  for (const { body } of forColumns) columns.see(body);
  yield columns.header();
  for (const record of records) yield columns.line(record);
}

// CSV (RFC 4180) of one kind: a column per top-level field, safe to open in a spreadsheet.

/** Gathers a kind's columns: key columns, documented fields in their order, then all others that occur, sorted. */
class CsvColumns {
  readonly #definition: ResourceDefinition;
  readonly #hasSource: boolean;
  readonly #others = new Set<string>();

  constructor(definition: ResourceDefinition, hasSource: boolean) {
    this.#definition = definition;
    this.#hasSource = hasSource;
  }

  /** Notes the fields of a record. */
  see(body: string): void {
    const value = parseLossless(body);
    if (!isJsonObject(value)) return;
    for (const name of Object.keys(value)) if (!this.#isDocumented(name)) this.#others.add(name);
  }

  get fields(): string[] {
    return [...this.#definition.fields.map(({ name }) => name), ...[...this.#others].sort()];
  }

  /** The heading line. A field with the name of a key column is `field_NAME`, as in the views. */
  header(): string {
    const keys = [
      ...(this.#hasSource ? ['_source'] : []),
      ...this.#definition.scope.map((key) => `_${key}`),
      '_id',
    ];
    const { fields } = this;
    const columnOf = (name: string): string => {
      let column = name;
      while (keys.includes(column) || (column !== name && fields.includes(column)))
        column = `field_${column}`;
      return column;
    };
    return csvLine([...keys, ...fields.map(columnOf)]);
  }

  /** One record. Absent is empty, null is `null`, objects and arrays are JSON. */
  line(record: ExportRecord): string {
    const value = parseLossless(record.body);
    const keys = [
      ...(this.#hasSource ? [record.source ?? ''] : []),
      ...this.#definition.scope.map((key) => record.scope[key] ?? ''),
      record.id,
    ];
    return csvLine([
      ...keys,
      ...this.fields.map((name) => csvCell(isJsonObject(value) ? getOwn(value, name) : undefined)),
    ]);
  }

  #isDocumented(name: string): boolean {
    return this.#definition.fields.some((field) => field.name === name);
  }
}

/** A value as the text of a cell: absent is empty, null is `null`, objects and arrays are JSON. */
function csvCell(value: JsonValue | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : encodableJson(value);
}

/** One line of a table; what a spreadsheet would run as a formula is made harmless. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(quote).join(',')}\r\n`;
}

/** Quotes where needed, and neutralises what a spreadsheet would run as a formula by an apostrophe before it; U+0000, which ends a text, is U+FFFD. */
function quote(text: string): string {
  const isNumber = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  const safe = (!isNumber && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('\0', '\ufffd');
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
