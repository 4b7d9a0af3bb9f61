/** Beside a run's own counts: how much of what it added and removed is the same records, created again by restores. */
import { count } from '../core/wording.ts';
import type { RecreatedCount } from '../state/recreated.ts';

/** A line a restore: `2 of the added and 2 of the removed are records that restore 1 created again: projects, roles`. */
export function recreatedLines(counts: readonly RecreatedCount[]): string[] {
  return [...Map.groupBy(counts, ({ restore }) => restore)].map(([restore, own]) => {
    const records = own.reduce((sum, each) => sum + each.records, 0);
    const what = records === 1 ? 'is one record' : 'are the same records';
    const kinds = own.map((each) => `${each.kind} (${count(each.records)})`).join(', ');
    return `${count(records)} of the added and ${count(records)} of the removed ${what} that restore ${restore} created again under a new id: ${kinds}`;
  });
}
