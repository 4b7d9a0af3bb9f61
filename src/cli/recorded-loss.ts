/** Losses that a sync has recorded already, so that the latest state does not show them: finds the run, and the one before. */
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import { changesOnce } from '../diff/families.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { readingsThatMayHideChanges } from '../report/notes.ts';
import { shownPlan } from '../restore/plan/plan.ts';
import { recordKey } from '../restore/records.ts';
import type { StateFilter } from '../state/filter.ts';
import { isPublished } from '../state/runs.ts';
import { age } from './export-notes.ts';
import { changesBetween } from './run-comparison.ts';

/** The newest runs, as many as are searched for losses. */
const RUNS_SEARCHED = 20;

/** A run that recorded a loss which was not restored yet. */
interface RecordedLoss {
  readonly run: RunRow;
  /** The run before it: its state still has what was lost. */
  readonly before: RunRow;
  /** `2 records removed, 1 record changed, 3 records added`; empty without a loss. */
  readonly text: string;
  /** Number of records that the run found removed. */
  readonly removed: number;
}

interface LossQuestion {
  readonly config: Config;
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly filter: StateFilter;
  /** Runs that ended before this time (ISO 8601 in UTC) are not searched. */
  readonly since?: string;
  /** Whether the service has a record. If it was not read, what a restore created since the newest run counts as present. */
  readonly isLive?: (kind: Kind, id: string) => boolean | undefined;
}

/** The newest run, of the last few, that recorded a loss in kinds that a restore writes; null if none did. */
export function latestLoss(
  mirror: Mirror,
  { config, source, definitions, filter: asked, since, isLive }: LossQuestion,
): RecordedLoss | null {
  const runs = mirror.runs.list({ source }).filter(isPublished);
  const kinds = (asked.kinds ?? KINDS).filter((kind) => definitions(kind).restore.never === null);
  const filter = { ...asked, kinds };
  const ids = new RecreatedIds(mirror.restores.idMap(source));
  // Records that the newest run shows as restored are found by the comparison with that run below.
  const isBack = (kind: Kind, id: string): boolean => {
    const now = ids.latest(kind, id);
    if (now === undefined) return false;
    return isLive?.(kind, now) ?? (ids.givenBy(kind, now)?.at ?? '') > (runs[0]?.startedAt ?? '');
  };
  for (const [index, run] of runs.slice(0, RUNS_SEARCHED).entries()) {
    const before = runs[index + 1];
    if (before === undefined || (since !== undefined && (run.finishedAt ?? '') < since)) break;
    const found = changesBetween(mirror, config, { from: before, to: run }, filter);
    if (lossesIn(found, isBack).text === '') continue;
    // What was restored since this run is not lost.
    const later = changesBetween(mirror, config, { from: before, to: runs[0] ?? run }, filter);
    const open = new Set(later.changes.map(recordKey));
    const written = writtenByRestores(mirror, { from: before, to: run });
    const changes = found.changes.filter(
      (change) => open.has(recordKey(change)) && !(change.change === 'changed' && written.has(change.id)),
    );
    const lost = lossesIn({ changes }, isBack);
    if (lost.text !== '') return { run, before, ...lost };
  }
  return null;
}

/** Ids of the records that restores wrote between two runs: a change of these is not a loss. */
function writtenByRestores(
  { restores }: Pick<Mirror, 'restores'>,
  { from, to }: { readonly from: RunRow; readonly to: RunRow },
): ReadonlySet<string> {
  const between = restores
    .list({ source: to.source })
    .filter(({ startedAt }) => startedAt > from.startedAt && startedAt < (to.finishedAt ?? to.startedAt));
  return new Set(
    between.flatMap(({ restore, plan }) => {
      const applied = new Set(
        restores.steps(restore).flatMap(({ n, outcome }) => (outcome === 'applied' ? [n] : [])),
      );
      return (shownPlan({ plan })?.steps ?? []).flatMap(({ n, id }) => (applied.has(n) ? [id] : []));
    }),
  );
}

/** Age of a loss up to which a diff without changes names it. */
const LOSS_NAMED_MS = 86_400_000; // a day

/** For a diff that found latest and live equal: names the run that recorded a recent loss. */
export function lossNotes(
  mirror: Mirror,
  config: Config,
  {
    document,
    source,
    filter,
  }: { readonly document: DiffDocument; readonly source: string; readonly filter: StateFilter },
): string[] {
  const now = systemClock.now();
  const unread = new Set(document.skipped.map(({ kind }) => kind));
  const loss = latestLoss(mirror, {
    ...{ config, source, filter, definitions: definitionsFor(config, source) },
    since: isoTime(now - LOSS_NAMED_MS),
    // What was compared is the same in the live state and in the mirror.
    isLive: (kind, id) =>
      unread.has(kind)
        ? undefined
        : mirror.records.find(kind, id, { sources: [source] }).some(({ isRemoved }) => !isRemoved),
  });
  if (loss === null || loss.removed === 0) return [];
  const { run, before, text } = loss;
  const isWhole = document.skipped.length === 0 && readingsThatMayHideChanges(document).length === 0;
  return [
    `the live state has not changed since the latest run${isWhole ? '' : ', in what could be compared'}; run ${run.run} (${age(run.finishedAt, now)}) recorded ${text}: ` +
      `\`tidemark diff run:${before.run} live\` shows them`,
  ];
}

/** What a run found removed or changed, except for records that a restore created again under another id. */
function lossesIn(
  { changes }: Pick<DiffDocument, 'changes'>,
  isBack: (kind: Kind, id: string) => boolean,
): Pick<RecordedLoss, 'text' | 'removed'> {
  // A component counts once, whatever kinds were compared.
  const counted = changesOnce(changes, undefined).filter(({ change, kind, id, created_again: again }) =>
    change === 'removed' ? !isBack(kind, id) : again === undefined,
  );
  const countOf = (what: 'removed' | 'changed' | 'added'): number =>
    counted.filter(({ change }) => change === what).length;
  const removed = countOf('removed');
  if (removed + countOf('changed') === 0) return { removed, text: '' };
  const parts = (['removed', 'changed', 'added'] as const)
    .filter((what) => countOf(what) > 0)
    .map((what) => `${plural(countOf(what), 'record')} ${what}`);
  return { removed, text: parts.join(', ') };
}
