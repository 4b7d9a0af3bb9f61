/** The text of a change of a record that continues under a new id. */
import type { Recreated, RecordChange } from '../diff/change.ts';
import { nameText } from './sections.ts';

/** E.g. `created again by restore 3 (id 2 → 5)`; both ids as they are to be shown. */
export function recreatedText(again: Recreated, id: string): string {
  return `${recreatedByText(again)} (id ${nameText(again.was)} → ${nameText(id)})`;
}

/** The same without ids. */
export function recreatedByText({ restore, is_recognised: isRecognised }: Recreated): string {
  return isRecognised === true
    ? `created again elsewhere, recognised by restore ${restore}`
    : `created again by restore ${restore}`;
}

/** `changed`, or what is in its place; of a record that had been away, also that it came back. */
export function changeText({
  change,
  id,
  created_again: again,
}: Pick<RecordChange, 'id' | 'created_again'> & {
  readonly change: RecordChange['change'] | 'returned';
}): string {
  if (again === undefined) return change;
  const text = recreatedText(again, id);
  return change === 'changed' ? text : `${change}, ${text}`;
}
