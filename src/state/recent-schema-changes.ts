/** Changes of the form of records that are still news: a quiet run after them must not hide them. */
import type { Mirror } from '../mirror/mirror.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';

const RECENT_MS = 30 * 24 * 60 * 60 * 1000;

/** A change of form and when the run that found it ended. */
export interface DatedSchemaChange extends SchemaChange {
  /** ISO 8601. */
  readonly at?: string;
}

/** What the published runs of a source found in the last 30 days, newest run first. `now` in milliseconds. */
export function recentSchemaChanges(
  mirror: Pick<Mirror, 'runs'>,
  source: string,
  now: number,
): DatedSchemaChange[] {
  const times = new Map<number, string | undefined>();
  const recent: DatedSchemaChange[] = [];
  for (const change of mirror.runs.schemaChanges({ source })) {
    if (!times.has(change.run)) {
      const run = mirror.runs.get(change.run);
      times.set(change.run, run?.finishedAt ?? run?.startedAt);
    }
    const at = times.get(change.run);
    // Newest first: what comes now is older still.
    if (at !== undefined && now - Date.parse(at) > RECENT_MS) break;
    recent.push({ ...change, ...(at === undefined ? {} : { at }) });
  }
  return recent;
}
