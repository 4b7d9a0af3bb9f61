/** What a run read for the first time, in words: new to the mirror, which says nothing of the service. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { scopeText } from '../catalog/scope-text.ts';
import { count, plural } from '../core/wording.ts';
import type { NewlyRead } from '../diff/change.ts';
import { groupAlike, groupText } from './collection-groups.ts';

/** Beside counts of a run's own reading, a line a kind: `134 new here, read for the first time: domains (…) and 2 others`. */
export function newlyReadLines(firstReads: readonly NewlyRead[]): string[] {
  return groupAlike(firstReads, ({ kind }) => kind).map(
    (group) => `${count(sumOf(group))} new here, read for the first time: ${groupText(group)}`,
  );
}

/** Beside what changed, a line for each kind and reason: `2 domains (organization 0190…): read for the first time: …`. */
export function newlyReadNotes(
  firstReads: readonly NewlyRead[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  return groupAlike(firstReads, ({ kind, reason }) => JSON.stringify([kind, reason])).map((group) => {
    const [{ kind, scope, reason }, ...others] = group;
    const { one, many } = definitions(kind).title;
    const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other')}`;
    const place = scopeText(scope);
    const where = place === '' ? '' : ` (${place}${more})`;
    return `${plural(sumOf(group), one, many)}${where}: ${reason}`;
  });
}

function sumOf(firstReads: readonly NewlyRead[]): number {
  return firstReads.reduce((sum, { records }) => sum + records, 0);
}
