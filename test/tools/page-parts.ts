/**
 * The tables in hand-written pages that are generated from the sources. A page marks each with
 * `<!-- generated: NAME -->` and `<!-- end -->`; `npx vitest run test/docs/generated.test.ts -u` writes them again.
 */
import { CATALOG } from '../../src/catalog/catalog.ts';
import { ENTIRE_NAMES, SECRET_NAMES } from '../../src/catalog/named-secrets.ts';
import { volatileFields } from '../../src/catalog/volatile-names.ts';
import { kindColumns } from '../../src/catalog/kind-columns.ts';
import { EVENT_MEANINGS, TEMPLATE_VALUES } from '../../src/config/notice-events.ts';
import { METRICS } from '../../src/daemon/http/metrics.ts';

type Row = readonly string[];

function table(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

const code = (text: string): string => `\`${text}\``;

/** A row for each name, with its meaning. */
function meanings(head: Row, texts: Readonly<Record<string, string>>): string {
  return table(
    head,
    Object.entries(texts).map(([name, meaning]) => [code(name), meaning]),
  );
}

/** Columns that the page describes once for all kinds. */
const SHARED = new Set(['id', 'name', 'source', 'organization_id', 'organization', 'project_id']);

function columnsByKind(): string {
  const kindsByColumns = new Map<string, string[]>();
  for (const definition of CATALOG) {
    const columns = kindColumns(definition)
      .map(({ name }) => name)
      .filter((name) => !SHARED.has(name))
      .map(code)
      .join(', ');
    kindsByColumns.set(columns, [...(kindsByColumns.get(columns) ?? []), code(definition.kind)]);
  }
  return table(
    ['kind', 'further columns'],
    [...kindsByColumns].map(([columns, kinds]) => [kinds.join(', '), columns === '' ? 'none' : columns]),
  );
}

function volatileByKind(): string {
  const kindsByFields = new Map<string, string[]>();
  for (const { kind, fields } of CATALOG) {
    const names = fields.flatMap(({ name, isVolatile }) => (isVolatile ? [code(name)] : [])).join(', ');
    if (names !== '') kindsByFields.set(names, [...(kindsByFields.get(names) ?? []), code(kind)]);
  }
  const undocumented = CATALOG.filter(({ hasDocumentedFields }) => !hasDocumentedFields);
  const byName = new Set(
    undocumented.flatMap((definition) =>
      [...volatileFields(definition)].filter((name) =>
        definition.fields.every((field) => field.name !== name),
      ),
    ),
  );
  return table(
    ['kind', 'fields that change on their own'],
    [
      ...[...kindsByFields].map(([names, kinds]) => [kinds.join(', '), names]),
      [`also ${undocumented.map(({ kind }) => code(kind)).join(', ')}`, [...byName].map(code).join(', ')],
    ],
  );
}

/** Each part by the name in its marker. */
const PARTS: Readonly<Record<string, () => string>> = {
  metrics: () =>
    table(
      ['metric', 'type', 'labels', 'meaning'],
      METRICS.map(({ name, type, labels, help }) => [code(name), type, labels.map(code).join(', '), help]),
    ),
  'notice events': () => meanings(['event', 'meaning'], EVENT_MEANINGS),
  'template values': () => meanings(['name', 'value'], TEMPLATE_VALUES),
  columns: columnsByKind,
  'volatile fields': volatileByKind,
  'secret names': () =>
    `Also as the last words of a longer name (\`api_key\`: \`stripe_api_key\`): ${SECRET_NAMES.map(code).join(', ')}. Only as the entire name: ${ENTIRE_NAMES.map(code).join(', ')}.`,
};

export const PART_NAMES = Object.keys(PARTS);

const PART = /^<!-- generated: ([a-z ]+) -->\n[^]*?^<!-- end -->$/gm;

/** The names of the parts that a page marks. */
export function partsOf(page: string): string[] {
  return [...page.matchAll(PART)].map(([, name = '']) => name);
}

/** The page with each of its parts as the sources have it now. Throws for a name that is not known. */
export function withParts(page: string): string {
  return page.replaceAll(PART, (_part, name: string) => {
    const write = PARTS[name];
    if (write === undefined) throw new Error(`no part is called ${name}: ${PART_NAMES.join(', ')}`);
    return `<!-- generated: ${name} -->\n${write()}\n<!-- end -->`;
  });
}
