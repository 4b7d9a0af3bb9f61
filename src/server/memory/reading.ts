/** Reads records from the tables: views of kinds, shared rows, and records as they are answered. */
import { definitionOf } from '../../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { JsonObject } from '../../core/json.ts';
import type { Reading } from '../rules/kind-rules.ts';
import { RULES } from '../rules/rules.ts';
import type { Viewer } from '../store.ts';
import type { Row } from './table.ts';
import { type Tables, keptBody, objectOf, tableOf } from './tables.ts';

/** A row and the scope that owns it, which differs from the requested one if a component is shared. */
interface FoundRow {
  readonly row: Row;
  readonly scope: Scope;
}

export class TablesReading implements Reading {
  readonly tables: Tables;
  readonly now: number;
  readonly viewer: Viewer;

  constructor(tables: Tables, now: number, viewer: Viewer) {
    this.tables = tables;
    this.now = now;
    this.viewer = viewer;
  }

  bodies(kind: Kind, scope: Scope): readonly JsonObject[] {
    return this.rows(kind, scope).map(({ row }) => keptBody(row));
  }

  everywhere(kind: Kind): readonly { readonly scope: Scope; readonly body: JsonObject }[] {
    return this.tables
      .all(tableOf(kind))
      .flatMap((table) => table.rows().map((row) => ({ scope: table.scope, body: keptBody(row) })));
  }

  body(kind: Kind, scope: Scope, id: string): JsonObject | undefined {
    const found = this.find(kind, scope, id);
    return found === undefined ? undefined : keptBody(found.row);
  }

  /** Rows of a collection in list order. */
  rows(kind: Kind, scope: Scope): readonly FoundRow[] {
    const view = RULES[kind].view;
    const own = (this.tables.find(tableOf(kind), scope)?.rows() ?? []).map((row) => ({ row, scope }));
    const isRoot = definitionOf(kind).discovery.from === 'root';
    const { organizations } = this.viewer;
    if (isRoot && organizations !== null) return own.filter(({ row }) => organizations.includes(row.id));
    if (view === undefined) return own;
    return [...own, ...this.#sharedRows(kind, scope)].filter(({ row }) => view.shows(row.note));
  }

  find(kind: Kind, scope: Scope, id: string): FoundRow | undefined {
    const view = RULES[kind].view;
    const row = this.tables.find(tableOf(kind), scope)?.get(id);
    if (view === undefined) return row === undefined ? undefined : { row, scope };
    const found =
      row === undefined ? this.#sharedRows(kind, scope).find((each) => each.row.id === id) : { row, scope };
    return found !== undefined && view.shows(found.row.note) ? found : undefined;
  }

  /** The JSON text of a record as it is answered. */
  present(kind: Kind, scope: Scope, row: Row): string {
    const present = RULES[kind].present;
    if (present === undefined) return row.text;
    return JSON.stringify(present(this, scope, { body: objectOf(row.text), note: row.note }));
  }

  /** True if every parent in the scope exists. */
  hasParents(scope: Scope): boolean {
    return SCOPE_KEYS.every((key) => {
      const id = scope[key];
      if (id === undefined) return true;
      const parents = this.tables.all(SCOPE_KIND[key]).filter((table) => isIn(table.scope, scope));
      return parents.some((table) => table.get(id) !== undefined);
    });
  }

  organizationOf(projectId: string): string | undefined {
    return this.tables.all('projects').find((table) => table.get(projectId) !== undefined)?.scope
      .organization_id;
  }

  #sharedRows(kind: Kind, scope: Scope): readonly FoundRow[] {
    return this.tables
      .all(tableOf(kind))
      .filter((table) => table.scope.organization_id !== scope.organization_id)
      .flatMap((table) =>
        table
          .rows()
          .filter((row) => row.note.isShared === true)
          .map((row) => ({ row, scope: table.scope })),
      );
  }
}

/** True if no key has different values in the two scopes. */
function isIn(one: Scope, other: Scope): boolean {
  return SCOPE_KEYS.every((key) => (one[key] ?? other[key]) === (other[key] ?? one[key]));
}
