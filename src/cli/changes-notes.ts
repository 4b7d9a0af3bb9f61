/** The notes of `tidemark changes`: what its list of changes leaves out, and why. */
import { collectionKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, LeftOut } from '../diff/change.ts';
import type { PlanlessRestore } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { groupedNotes } from '../report/notes.ts';
import { byText } from '../report/value-text.ts';
import { type ForgottenRuns, forgottenTexts } from '../state/runs.ts';
import { newlyReadNotes } from './plan-reason.ts';

/** A run of the period. */
export interface RunChanges {
  readonly run: RunRow;
  /** What it changed; null for the first run of a source, in which everything is new. */
  readonly diff: DiffDocument | null;
  /** Records of the source after a first run; null for other runs. */
  readonly records: number | null;
  /** Runs that retention dropped, whose changes are among these. */
  readonly forgotten: ForgottenRuns | null;
}

/** How many runs there are, and which records their changes do not include. */
export function runNotes(
  found: readonly RunChanges[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  const firsts = found
    .filter(({ diff }) => diff === null)
    .map(
      ({ run, records, forgotten }) =>
        `run ${run.run} ${forgotten === null ? 'was the first sync of' : 'is the first kept run of'} ${run.source}: ` +
        `${plural(records ?? 0, 'record')}, not listed as changes`,
    );
  return [
    `${plural(found.length, 'run')} in this period`,
    ...firsts,
    ...newlyReadNotes(
      found.flatMap(({ diff }) => diff?.first_read ?? []),
      definitions,
    ),
    ...firstReadingNotes(found),
    ...forgottenTexts(found.flatMap(({ forgotten }) => forgotten ?? [])),
  ];
}

/** What the configuration excluded from the last run of each source. */
export function leftOutNotes(
  found: readonly RunChanges[],
  sources: readonly string[],
  {
    leftOut,
    definitions,
  }: {
    readonly leftOut: (run: RunRow) => readonly LeftOut[];
    readonly definitions: (kind: Kind) => ResourceDefinition;
  },
): string[] {
  return sources.flatMap((source) => {
    const last = found.findLast(({ run }) => run.source === source);
    const of = sources.length > 1 ? ` of ${source}` : '';
    return last === undefined ? [] : groupedNotes(`left out${of}`, leftOut(last.run), definitions);
  });
}

/** Restores that no listed change comes from, such as one that was undone before a run read what it had changed. */
export function unseenRestoreNotes(
  restores: readonly PlanlessRestore[],
  found: readonly RunChanges[],
  timeText: (at: string) => string,
): string[] {
  const named = new Set(
    found.flatMap(({ diff }) =>
      (diff?.changes ?? []).flatMap((change) => [change.created_again?.restore, change.changed_by?.restore]),
    ),
  );
  return restores
    .filter(({ restore }) => !named.has(restore))
    .map(({ restore, undoes, outcome, startedAt, ...who }) => {
      const what = undoes === null ? '' : `, which undoes restore ${undoes},`;
      return `no change listed is of restore ${restore}${what} by ${byText(who)}, begun ${timeText(startedAt)}: ${outcome}`;
    });
}

/** Records of kinds that are read one by one, which these runs read for the first time. */
function firstReadingNotes(found: readonly RunChanges[]): string[] {
  const firstReadings = ({ diff }: RunChanges): readonly LeftOut[] => {
    const whole = new Set(diff?.first_read?.map(collectionKey));
    return (diff?.left_out ?? []).filter((left) => !whole.has(collectionKey(left)));
  };
  const runs = found.filter((each) => firstReadings(each).length > 0);
  if (runs.length === 0) return [];
  const kinds = [...Map.groupBy(runs.flatMap(firstReadings), ({ kind }) => kind)].map(([kind, own]) => {
    const records = own.reduce((sum, each) => sum + (each.records ?? 0), 0);
    return `${kind} (${plural(records, 'record')})`;
  });
  const which = runs.length === 1 ? `run ${runs[0]?.run.run ?? ''}` : plural(runs.length, 'run');
  return [
    `not listed: records that ${which} read for the first time and may have existed before: ${kinds.join(', ')}`,
  ];
}
