/** Changes of the form of a kind's records, as people read them: they explain differences, and are no drift. */
import { plural } from '../core/wording.ts';
import type { ExplainedForm, FormChange } from '../diff/form-change.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';

/** Heading of the lines of `formLine`. */
export const FORMS_HEADING = 'no drift, for the service changed the form of its records';

/** E.g. `roles: /name is gone (string)`. */
export function formChangeText({
  kind,
  field,
  change,
  before,
  after,
}: Omit<FormChange, 'runs' | 'kind'> & { readonly kind: string }): string {
  switch (change) {
    case 'gained':
      return escapeControlCharacters(
        `${kind}: ${field} is new${after.length === 0 ? '' : ` (${after.join(', ')})`}`,
      );
    case 'lost':
      return escapeControlCharacters(
        `${kind}: ${field} is gone${before.length === 0 ? '' : ` (${before.join(', ')})`}`,
      );
    case 'retyped':
      return escapeControlCharacters(
        `${kind}: ${field} was ${before.join(' or ')}, is ${after.join(' or ')}`,
      );
  }
}

/** The same with the records that it explains and the runs that found it. */
export function formLine(form: ExplainedForm): string {
  const { runs, records } = form;
  return `${formChangeText(form)}: ${plural(records, 'record')}, ${runs.length === 1 ? 'run' : 'runs'} ${runs.join(', ')}`;
}
