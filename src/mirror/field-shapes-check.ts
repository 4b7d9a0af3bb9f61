/** The counts of fields against the bodies that a verification reads anyway. */
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import { type JsonType, type KindShapes, JSON_TYPES, UNWATCHED } from './field-shapes.ts';
import { openKindShapes, parsed, readShapes } from './field-shapes-store.ts';
import type { ShapeCounts } from './field-shapes-news.ts';
import type { Findings } from './verify.ts';

interface CountedKind {
  readonly source: string;
  readonly kind: Kind;
  readonly stored: ShapeCounts;
  readonly found: KindShapes;
}

/** Counts what is stored once more; kinds that were never counted are left out. */
export class ShapeCheck {
  readonly #kinds = new Map<string, CountedKind>();

  /** Reads what is stored. */
  *open(connection: Connection): Generator<undefined> {
    const rows = connection
      .prepare<[], { id: number; source: string; kind: string }>(
        `SELECT DISTINCT s.id AS id, s.name AS source, f.kind AS kind FROM field_shapes f JOIN sources s ON s.id = f.source`,
      )
      .all();
    for (const { id, source, kind } of rows) {
      if (!isKind(kind)) continue;
      const stored = readShapes(connection, id, kind);
      this.#kinds.set(`${source} ${kind}`, { source, kind, stored, found: openKindShapes(kind, stored) });
      yield undefined;
    }
  }

  /** A current body. */
  see(source: string, kind: Kind, text: string): void {
    const counted = this.#kinds.get(`${source} ${kind}`);
    const body = counted === undefined ? undefined : parsed(text);
    if (body !== undefined) counted?.found.add(body);
  }

  /** Once every body was seen. */
  *report(findings: Findings): Generator<undefined> {
    for (const counted of this.#kinds.values()) {
      for (const message of differences(counted))
        findings.add({ kind: 'index', message, recordKind: counted.kind });
      yield undefined;
    }
  }
}

function* differences({ source, kind, stored, found }: CountedKind): Generator<string> {
  const seen = new Set<string>();
  for (const { field, counts } of found.fields()) {
    seen.add(field);
    for (const [index, records] of counts.entries()) {
      const type = JSON_TYPES[index] as JsonType;
      const expected = stored.get(field)?.get(type) ?? 0;
      if (records === expected) continue;
      const name = field === '' ? 'records' : `records with ${field}`;
      yield `${kind} of ${source} has ${records} ${name} of type ${type} where ${expected} are counted`;
    }
  }
  for (const field of stored.keys()) {
    if (field !== UNWATCHED && !seen.has(field))
      yield `${kind} of ${source} counts the field ${JSON.stringify(field)}, which is no pointer to a watched one`;
  }
}
