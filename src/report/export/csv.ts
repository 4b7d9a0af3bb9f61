/** CSV (RFC 4180) of one kind: a column per top-level field, safe to open in a spreadsheet. */
import type { ResourceDefinition } from '../../catalog/definition.ts';
import { getOwn, isJsonObject, parseLossless, type JsonValue } from '../../core/json.ts';
import type { ExportRecord } from './record.ts';

/** Gathers a kind's columns: key columns, documented fields in their order, then all others that occur, sorted. */
export class CsvColumns {
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

  /** The heading line. Key columns begin with an underscore, so that no field can collide with them. */
  header(): string {
    const keys = [
      ...(this.#hasSource ? ['_source'] : []),
      ...this.#definition.scope.map((key) => `_${key}`),
      '_id',
    ];
    return csvLine([...keys, ...this.fields]);
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
      ...this.fields.map((name) => cell(isJsonObject(value) ? getOwn(value, name) : undefined)),
    ]);
  }

  #isDocumented(name: string): boolean {
    return this.#definition.fields.some((field) => field.name === name);
  }
}

function cell(value: JsonValue | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function csvLine(cells: readonly string[]): string {
  return `${cells.map(quote).join(',')}\r\n`;
}

/** Quotes where needed, and neutralises what a spreadsheet would run as a formula by an apostrophe before it. */
function quote(text: string): string {
  const isNumber = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  const safe = !isNumber && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
