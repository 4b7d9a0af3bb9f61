/** Changes of the service's contract, apart from drift: fields that its records gained, lost or retyped. */
import { MAX_FIELDS } from '../mirror/field-shapes.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';
import { formChangeText } from '../report/form-text.ts';

/** One line, e.g. `roles: /name is gone (string)`. */
function schemaChangeLine({ kind, field, change, before, after }: SchemaChange): string {
  return change === 'unwatched'
    ? `${kind}: more than ${MAX_FIELDS} fields; changes of further ones are not noticed`
    : formChangeText({ kind, field, change, before, after });
}

/** As JSON documents show it (`schema_changes`). */
export function schemaChangeDocument({ kind, field, change, before, after }: SchemaChange): object {
  return { kind, field, change, before, after };
}

/** A heading and a line each; nothing when there are none. */
export function schemaChangeLines(changes: readonly SchemaChange[]): string[] {
  if (changes.length === 0) return [];
  return [
    'the service changed the form of its records:',
    ...changes.map((change) => `  ${schemaChangeLine(change)}`),
  ];
}
