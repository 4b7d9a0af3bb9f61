/** `--format patch`: per record the operations that turn FROM into TO (RFC 6902, JSON Patch). */
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { type JsonObject, type JsonValue, setOwn } from '../core/json.ts';
import { equalValues } from '../diff/canonical.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { maskedChange, maskedId } from './mask.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';

/** One operation of RFC 6902, section 4. */
type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: string };

/**
 * The operations of one change, in an order in which they can be applied to the body in FROM. An added record is one `add` of
 * the entire document, a removed one a `remove` of it (path: the empty pointer). Fields that the comparison left out stay as
 * in FROM.
 * @internal
 */
export function patchOperations(change: RecordChange): PatchOperation[] {
  if (change.change === 'removed') return [{ op: 'remove', path: '' }];
  if (change.change === 'changed') return change.fields.map(operationOf);
  const whole: JsonObject = {};
  for (const { path, to } of change.fields) {
    if (to === undefined) continue;
    const name = splitPointer(path)[0];
    if (name === undefined) return [{ op: 'add', path: '', value: to }];
    setOwn(whole, name, to);
  }
  return [{ op: 'add', path: '', value: whole }];
}

function operationOf(field: FieldChange): PatchOperation {
  const path = field.from_path ?? field.path;
  if (field.to === undefined) return { op: 'remove', path };
  return { op: field.from === undefined ? 'add' : 'replace', path, value: field.to };
}

/**
 * The document `tidemark.patch/1`: `{schema, from, to, skipped, stale, records: [{kind, scope, id, change, patch, withheld}]}`.
 * A patch can be applied, and a mask must never be written: unless secrets are shown, operations with a secret in their value
 * or pointer are left out, and `withheld` has their masked pointers.
 */
export function renderPatch(document: DiffDocument, options: ReportOptions): string {
  const records = document.changes.map((change) => {
    const masked =
      options.showsSecrets === true ? change : maskedChange(change, options.definitions(change.kind));
    // `maskedChange` keeps the number and order of the fields.
    const open: FieldChange[] = [];
    const withheld: string[] = [];
    for (const [index, field] of change.fields.entries()) {
      const shown = masked.fields[index] ?? field;
      const isOpen =
        shown.path === field.path &&
        shown.from_path === field.from_path &&
        (field.to === undefined || (shown.to !== undefined && equalValues(field.to, shown.to)));
      if (isOpen) open.push(field);
      else withheld.push(shown.path);
    }
    const definition = options.definitions(change.kind);
    return {
      kind: change.kind,
      scope: change.scope,
      id: options.showsSecrets === true ? change.id : maskedId(change.id, definition),
      change: change.change,
      patch: patchOperations({ ...change, fields: open }),
      withheld,
    };
  });
  const { from, to, skipped, stale = [] } = document;
  const whole = { schema: 'tidemark.patch/1', from, to, skipped, stale, records };
  return escapeForTerminal(`${JSON.stringify(whole, null, 2)}\n`);
}
