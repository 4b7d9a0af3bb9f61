/** A record as exports write it, and what all formats share. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { parseLossless } from '../../core/json.ts';

export interface ExportRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  /** The body exactly as received. */
  readonly body: string;
  /** Named where an export holds several sources; null otherwise. */
  readonly source: string | null;
}

/** `tidemark.export/1`: one record as one line of JSON, its body with every digit as received. */
export function exportLine({ kind, scope, id, body, source }: ExportRecord): string {
  const head = JSON.stringify({ ...(source === null ? {} : { source }), kind, scope, id });
  return `${head.slice(0, -1)},"body":${oneLine(body)}}`;
}

/** A body without line breaks: the received text, on one line where the server sent several. */
function oneLine(body: string): string {
  return /[\n\r]/.test(body) ? JSON.stringify(parseLossless(body)) : body;
}
