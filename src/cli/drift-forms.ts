/** Changes of the form of records that a drift report tells apart: a line each, and as JSON. */
import { plural } from '../core/wording.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import { schemaChangeLine } from './schema-change-text.ts';

/** A heading and a line each; nothing when there are none. */
export function formNotes(forms: readonly ExplainedForm[], source: string): string[] {
  if (forms.length === 0) return [];
  return [
    'no drift, for the service changed the form of its records:',
    ...forms.map((form) => {
      const { runs, records } = form;
      const which = `${runs.length === 1 ? 'run' : 'runs'} ${runs.join(', ')}`;
      const last = runs.at(-1) ?? 0;
      return `  ${schemaChangeLine({ ...form, run: last, source })}: ${plural(records, 'record')}, ${which}`;
    }),
  ];
}

/** `schema_changes` of `tidemark.drift/1`. */
export function formDocument({ kind, field, change, before, after, runs, records }: ExplainedForm): object {
  return { kind, field, change, before, after, runs, records };
}
