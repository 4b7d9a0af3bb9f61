/** Records and revisions as Parquet, with one group of rows in memory at a time. */
import { ByteWriter, ParquetWriter, type BasicType, schemaFromColumnData } from 'hyparquet-writer';
import { definitionOf } from '../../catalog/catalog.ts';
import type { FieldType } from '../../catalog/definition.ts';
import { type KindColumn, kindColumns, projectPointer, secretMembers } from '../../catalog/kind-columns.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { parentId, SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import {
  type JsonValue,
  type RawNumber,
  encodableJson,
  getOwn,
  isJsonObject,
  isRawNumber,
  parseLossless,
} from '../../core/json.ts';
import { timeOfField } from '../../core/parse-time.ts';
import { nameIn } from '../../diff/change.ts';
import type { DatedExportRecord, ExportRecord, ExportRevision } from './documents.ts';

/** In addition to the older annotation, which DuckDB reads as a time without zone. */
const TIME_IN_UTC = { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' } as const;

type Cell = string | number | bigint | boolean | Date | null;

interface Column<Row> {
  readonly name: string;
  readonly type: BasicType;
  readonly cell: (row: Row) => Cell;
}

/** A group of rows ends at either limit. */
const GROUP_ROWS = 20_000;
const GROUP_CHARACTERS = 16_000_000;

type ParsedRecord = DatedExportRecord & { readonly value: JsonValue };

/**
 * One kind: the columns of its view that the exported state has, and the exact body.
 * @param parents the organizations and projects of that state, for the columns `organization_id` and `organization`
 */
export function parquetOfKind(
  kind: Kind,
  records: Iterable<DatedExportRecord>,
  parents: Iterable<ExportRecord>,
): Generator<Uint8Array> {
  const definition = definitionOf(kind);
  const places = new Places(parents);
  const columns: Column<ParsedRecord>[] = [
    ...kindColumns(definition).map(({ name, value }) => ({ name, ...columnOf(value, definition, places) })),
    { name: 'first_seen_at', type: 'TIMESTAMP', cell: ({ firstSeenAt }) => timeCell(firstSeenAt) },
    { name: 'last_changed_at', type: 'TIMESTAMP', cell: ({ lastChangedAt }) => timeCell(lastChangedAt) },
    { name: 'body', type: 'STRING', cell: ({ body }) => body },
  ];
  return parquetFile<ParsedRecord>(columns, parsed(records));
}

function* parsed(records: Iterable<DatedExportRecord>): Generator<ParsedRecord> {
  for (const record of records) yield { ...record, value: parseLossless(record.body) };
}

class Places {
  readonly #organizationOfProject = new Map<string, string>();
  readonly #nameOfOrganization = new Map<string, string | null>();

  constructor(parents: Iterable<ExportRecord>) {
    for (const { source, kind, scope, id, body } of parents) {
      const key = `${source} ${id}`;
      if (kind === SCOPE_KIND.organization_id)
        this.#nameOfOrganization.set(key, nameIn(definitionOf(kind), parseLossless(body)));
      else if (scope.organization_id !== undefined)
        this.#organizationOfProject.set(key, scope.organization_id);
    }
  }

  organizationOf({ source, kind, scope, id }: ExportRecord): string | null {
    if (kind === SCOPE_KIND.organization_id) return id;
    const project = this.#organizationOfProject.get(`${source} ${scope.project_id}`);
    return scope.organization_id ?? project ?? null;
  }

  organizationName(record: ExportRecord): string | null {
    return this.#nameOfOrganization.get(`${record.source} ${this.organizationOf(record)}`) ?? null;
  }
}

function columnOf(
  value: KindColumn['value'],
  definition: ResourceDefinition,
  places: Places,
): Omit<Column<ParsedRecord>, 'name'> {
  switch (value) {
    case 'id':
      return { type: 'STRING', cell: ({ id }) => id };
    case 'source':
      return { type: 'STRING', cell: ({ source }) => source };
    case 'name':
      return { type: 'STRING', cell: (record) => nameIn(definition, record.value) };
    case 'organization_id':
      return { type: 'STRING', cell: (record) => places.organizationOf(record) };
    case 'organization':
      return { type: 'STRING', cell: (record) => places.organizationName(record) };
    case 'project_id': {
      const pointer = projectPointer(definition);
      const isProject = definition.kind === SCOPE_KIND.project_id;
      return {
        type: 'STRING',
        cell: (record) =>
          pointer === undefined
            ? ((isProject ? record.id : record.scope.project_id) ?? null)
            : typedCell('STRING', resolvePointer(record.value, pointer)),
      };
    }
    case 'role_id':
      return { type: 'STRING', cell: ({ scope }) => scope[value] ?? null };
    default: {
      const type = PARQUET_TYPE[value.type];
      const without = new Set(secretMembers(definition, value.name));
      return {
        type,
        cell: (record) => {
          const own = isJsonObject(record.value) ? getOwn(record.value, value.name) : undefined;
          return typedCell(type, without.size === 0 ? own : withoutMembers(own, without));
        },
      };
    }
  }
}

/** A list of objects without these members; any other value is unchanged. */
function withoutMembers(list: JsonValue | undefined, names: ReadonlySet<string>): JsonValue | undefined {
  if (!Array.isArray(list)) return list;
  return list.map((each) =>
    isJsonObject(each) ? Object.fromEntries(Object.entries(each).filter(([name]) => !names.has(name))) : each,
  );
}

const PARQUET_TYPE: Record<FieldType, BasicType> = {
  string: 'STRING',
  uuid: 'STRING',
  any: 'STRING',
  object: 'STRING',
  array: 'STRING',
  timestamp: 'TIMESTAMP',
  integer: 'INT64',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
};

/** Null for an absent value, for null, and for a value that does not fit the type of the column. */
function typedCell(type: BasicType, value: JsonValue | undefined): Cell {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'BOOLEAN':
      return typeof value === 'boolean' ? value : null;
    case 'DOUBLE':
      return typeof value === 'number' || isRawNumber(value) ? Number(numberText(value)) : null;
    case 'INT64':
      return integerCell(value);
    case 'TIMESTAMP':
      return timeCell(value);
    default:
      return typeof value === 'string' ? value : encodableJson(value);
  }
}

function numberText(value: number | RawNumber): string {
  return isRawNumber(value) ? value.rawJSON : String(value);
}

function integerCell(value: JsonValue): bigint | null {
  if (typeof value !== 'number' && !isRawNumber(value)) return null;
  const text = numberText(value);
  const integer = /^-?\d+$/.test(text)
    ? BigInt(text)
    : Number.isSafeInteger(Number(text))
      ? BigInt(Number(text))
      : null;
  return integer !== null && BigInt.asIntN(64, integer) === integer ? integer : null;
}

/** To the millisecond, without a zone in UTC; the exact text is in the body. */
function timeCell(value: JsonValue): Date | null {
  const epochMs = typeof value === 'string' ? timeOfField(value) : undefined;
  return epochMs === undefined ? null : new Date(epochMs);
}

/** Revisions of all kinds in one table; `changes` is a JSON array, NULL if nothing was compared. */
export function parquetOfHistory(revisions: Iterable<ExportRevision>): Generator<Uint8Array> {
  const text = (name: string, cell: Column<ExportRevision>['cell']): Column<ExportRevision> => ({
    name,
    type: 'STRING',
    cell,
  });
  return parquetFile<ExportRevision>(
    [
      text('source', ({ source }) => source),
      text('kind', ({ kind }) => kind),
      text('organization_id', ({ organization }) => organization),
      text('project_id', (revision) => parentId('project_id', revision) ?? null),
      text('role_id', ({ scope }) => scope.role_id ?? null),
      text('id', ({ id }) => id),
      text('name', ({ name }) => name),
      { name: 'run', type: 'INT64', cell: ({ run }) => BigInt(run) },
      { name: 'at', type: 'TIMESTAMP', cell: ({ at }) => timeCell(at) },
      text('change', ({ change }) => change),
      text('changes', ({ changes }) => (changes === null ? null : encodableJson(changes))),
      text('body', ({ body }) => body),
    ],
    revisions,
  );
}

function* parquetFile<Row extends { readonly body: string | null }>(
  columns: readonly Column<Row>[],
  rows: Iterable<Row>,
): Generator<Uint8Array> {
  const bytes = new ByteWriter();
  const group = columns.map(({ name, type }): { name: string; type: BasicType; data: Cell[] } => ({
    name,
    type,
    data: [],
  }));
  const schema = schemaFromColumnData({ columnData: group }).map((column) =>
    column.converted_type === 'TIMESTAMP_MILLIS' ? { ...column, logical_type: TIME_IN_UTC } : column,
  );
  const file = new ParquetWriter({ writer: bytes, schema });
  let count = 0;
  let characters = 0;
  const taken = (): Uint8Array => {
    const piece = bytes.getBytes().slice();
    bytes.index = 0;
    return piece;
  };
  const write = (): Uint8Array => {
    void file.write({ columnData: group, rowGroupSize: count });
    for (const { data } of group) data.length = 0;
    count = characters = 0;
    return taken();
  };
  for (const row of rows) {
    for (const [index, { name, cell }] of columns.entries()) {
      const value = cell(row);
      // Many readers take U+0000 for the end of a text.
      const isCut = typeof value === 'string' && name !== 'body' && value.includes('\0');
      group[index]?.data.push(isCut ? value.replaceAll('\0', '\ufffd') : value);
    }
    count += 1;
    characters += row.body?.length ?? 0;
    if (count >= GROUP_ROWS || characters >= GROUP_CHARACTERS) yield write();
  }
  if (count > 0) yield write();
  void file.finish();
  yield taken();
}
