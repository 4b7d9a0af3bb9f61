/** Records as the texts of an export, piece by piece: memory holds one record at a time. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/definition.ts';
import { parseLossless } from '../../core/json.ts';
import { stringifyYaml } from '../../core/yaml.ts';
import { CsvColumns } from './csv.ts';
import { exportLine, type ExportRecord } from './record.ts';

/** One record a line, as `tidemark.export/1` says it. */
export function* ndjsonLines(records: Iterable<ExportRecord>): Generator<string> {
  for (const record of records) yield `${exportLine(record)}\n`;
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
export function* yamlDocuments(records: Iterable<ExportRecord>): Generator<string> {
  for (const record of records) yield `---\n${yamlDocument(record)}`;
}

/** One record for review: what it is first, then its body with the keys in the order received. */
export function yamlDocument({ kind, scope, id, body, source }: ExportRecord): string {
  return stringifyYaml({
    ...(source === null ? {} : { source }),
    kind,
    scope: { ...scope },
    id,
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
