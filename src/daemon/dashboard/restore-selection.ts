/** The form that plans a restore of selected records, and how it names them. */
import { hash } from 'node:crypto';
import { scopeKey } from '../../catalog/catalog.ts';
import { formatInteger } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';

/**
 * Names a changed record of a source in a form. It is short, so that an address that names every record of a page stays within the
 * 8 kB that common reverse proxies accept.
 */
export function selectionOf({ kind, scope, id }: Pick<RecordChange, 'kind' | 'scope' | 'id'>): string {
  return hash('sha256', JSON.stringify([kind, scopeKey(scope), id]), 'base64url').slice(0, 16);
}

/**
 * A form that plans a restore of the records whose `selectBox` is checked. Only the script shows the box that selects all.
 * @param of after the text of the button
 */
export function selectionForm(
  id: string,
  { hidden, selectAll, of = NOTHING }: { hidden: HtmlPart; selectAll: string; of?: HtmlPart },
): Html {
  return markup`<form class="search" id="${id}" method="get" action="/restore">
${hidden}<label class="pick" data-all hidden><input type="checkbox">${selectAll}</label>
<button>Plan a restore of the selected records${of}</button></form>`;
}

/** Selects a record for the `selectionForm` with that id. */
export function selectBox(form: string, record: Parameters<typeof selectionOf>[0]): Html {
  return markup`<label class="pick"><input type="checkbox" name="record" form="${form}" value="${selectionOf(record)}">Select</label>`;
}

/** The label of the box that selects all records on the page. */
export function selectAllText(shown: number, hasMore: boolean): string {
  return hasMore ? `Select all ${formatInteger(shown)} shown` : 'Select all';
}

/** The parameter that leaves accepted drift out of a restore. */
export const KEEP_ACCEPTED = 'keep_accepted';

/** The parameter that adds what is below the selected records to a restore. */
export const WITH_CHILDREN = 'with_children';

export function keepAcceptedHtml(isChecked: boolean): Html {
  const checked = isChecked ? markup` checked` : NOTHING;
  return markup`<label class="pick"><input type="checkbox" name="${KEEP_ACCEPTED}"${checked}>Leave what was accepted as drift</label>`;
}
