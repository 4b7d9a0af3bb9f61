/** Verdicts of single records added up by kind, reason and field. Pure. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import {
  type DrillCounts,
  type DrillKind,
  type DrillReason,
  type DrillVerdict,
  DRILL_VERDICTS,
  drillScore,
} from '../diff/drill-document.ts';
import type { RecordVerdict } from './drill-verdicts.ts';
import { memberPointer } from './writable.ts';

/**
 * A row per kind that has a record.
 * @param never how many records there are of kinds that are never restored
 */
export function drillKinds(
  verdicts: readonly RecordVerdict[],
  never: ReadonlyMap<Kind, number>,
  definitions: (kind: Kind) => ResourceDefinition,
): DrillKind[] {
  const byKind = Map.groupBy(verdicts, ({ record }) => record.kind);
  return CATALOG.flatMap(({ kind }): DrillKind[] => {
    const count = never.get(kind);
    if (count !== undefined) return [neverKind(kind, count, definitions(kind).restore.never ?? '')];
    const own = byKind.get(kind);
    return own === undefined ? [] : [writtenKind(kind, own)];
  });
}

function neverKind(kind: Kind, count: number, reason: string): DrillKind {
  const counts = countsOf([]);
  return {
    kind,
    ...counts,
    records: count,
    cannot: count,
    score: 0,
    restored: false,
    reasons: [{ verdict: 'cannot', reason, records: count }],
    fields: [],
  };
}

function writtenKind(kind: Kind, own: readonly RecordVerdict[]): DrillKind {
  const counts = countsOf(own.map(({ verdict }) => verdict));
  const fields = new Map<string, DrillVerdict[]>();
  for (const each of own) {
    for (const [name, verdict] of each.fields) {
      const known = fields.get(name);
      if (known === undefined) fields.set(name, [verdict]);
      else known.push(verdict);
    }
  }
  return {
    kind,
    ...counts,
    score: drillScore(counts.comes_back, counts.records),
    restored: true,
    reasons: reasonsOf(own),
    fields: [...fields].map(([name, each]) => ({ path: memberPointer(name), ...countsOf(each) })),
  };
}

/** In the order of the verdicts, the most frequent first. */
function reasonsOf(own: readonly RecordVerdict[]): DrillReason[] {
  const reasons = new Map<string, DrillReason>();
  for (const { verdict, reason } of own) {
    if (verdict === 'comes_back' || reason === null) continue;
    const key = `${verdict} ${reason}`;
    reasons.set(key, { verdict, reason, records: (reasons.get(key)?.records ?? 0) + 1 });
  }
  const rank = ({ verdict }: DrillReason): number => DRILL_VERDICTS.indexOf(verdict);
  return [...reasons.values()].sort((a, b) => rank(a) - rank(b) || b.records - a.records);
}

function countsOf(verdicts: readonly DrillVerdict[]): DrillCounts {
  const counts = {
    records: verdicts.length,
    comes_back: 0,
    needs_secret: 0,
    needs_person: 0,
    cannot: 0,
    unknown: 0,
  };
  for (const verdict of verdicts) counts[verdict] += 1;
  return counts;
}
