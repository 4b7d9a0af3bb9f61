/** A drill: restores a snapshot into an empty or damaged sandbox, reads it back and compares (design.md, Commands: drill). */
import { CATALOG } from '../../catalog/catalog.ts';
import { MemberNames } from '../../catalog/masks.ts';
import { type Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { recordName } from '../../diff/change.ts';
import {
  type DrillDocument,
  type DrillTask,
  drillScore,
  drillTotals,
  type DrillCounts,
  type DrillKind,
  type DrillReason,
  type DrillVerdict,
  DRILL_VERDICTS,
} from '../../diff/drill-document.ts';
import { changesOnce } from '../../diff/families.ts';
import { memberPointer } from '../places.ts';
import { isExecutable } from '../plan/plan.ts';
import { type Restored, type DrillOptions, restoreInRounds } from './rounds.ts';
import { drillSnapshot, type DrillSnapshot } from './snapshot.ts';
import { startDamaged, startEmpty, keyUserOf } from './start.ts';
import { remainingChanges, type RecordVerdict, type Verdicts, drillVerdicts } from './verdicts.ts';

/**
 * Restores the state into the sandbox of the drill. Writes nothing else, not even the mirror.
 * @throws TidemarkError `not_found` when the filter selects nothing, `interrupted`, an error of this machine
 */
export async function runDrill(options: DrillOptions): Promise<DrillDocument> {
  const { state, definitions, clock, events, damage } = options;
  const startedMs = clock.monotonicMs();
  const snapshot = drillSnapshot(state.checked(), options.filter, definitions);
  const keyUser = keyUserOf(snapshot.people, options.ownUser);
  const service = await options.openService(keyUser.uuid);
  const start =
    damage === null
      ? startEmpty(service, snapshot, keyUser, definitions)
      : startDamaged(service, snapshot, keyUser, definitions, {
          ...damage,
          random: options.random(damage.seed),
        });
  const restored = await restoreInRounds(options, service, snapshot, {
    keyUser: keyUser.uuid,
    organizations: start.organizations,
  });
  events.phase('comparing', null);
  const assessment = assess(snapshot, restored, options.filter.kinds);
  const kinds = drillKinds(assessment.records, snapshot.never, definitions);
  const totals = drillTotals(kinds);
  const isEqual = totals.needs_secret === 0 && totals.unknown === 0 && snapshot.skipped.length === 0;
  return {
    schema: 'tidemark.drill/1',
    ...(state.source === null ? {} : { source: state.source }),
    from: state.reference,
    outcome: isEqual ? 'equal' : 'short',
    score: drillScore(totals.comes_back, totals.records),
    kinds,
    remaining: assessment.remaining,
    seconds: Math.round(clock.monotonicMs() - startedMs) / 1000,
    start: damage === null ? 'empty' : 'damaged',
    damage: start.damage,
    assumptions: [...start.assumptions, ...ALWAYS_ASSUMED],
    skipped: snapshot.skipped,
    tasks: assessment.tasks,
    passes: restored.reports.length,
    applied: restored.reports.reduce((sum, { summary }) => sum + summary.applied, 0),
  };
}

const ALWAYS_ASSUMED = [
  'the sandbox follows the documented API; if a deployment refuses, renames or ignores more, only a restore there shows it',
  'a record comes back when all of its managed fields are equal; ids, times and other values that the service assigns are new',
];

/** The verdict of each record, with what differs and what remains to be done. */
function assess(
  snapshot: DrillSnapshot,
  restored: Restored,
  requestedKinds: readonly Kind[] | undefined,
): Pick<DrillDocument, 'remaining' | 'tasks'> & { readonly records: readonly RecordVerdict[] } {
  const { definitions } = restored.input;
  const remaining = remainingChanges(snapshot, restored);
  const verdicts = drillVerdicts(restored, remaining.byRecord);
  const own = snapshot.desired.records.filter(snapshot.isAsked).map((record) => verdicts.of(record));
  const all = [...own, ...foreignVerdicts(snapshot, verdicts)];
  const listed = all.map((each) => ({ ...each.record, change: 'changed' as const, verdict: each }));
  // A component is listed in its family and in the union of the families, but counts once.
  const records = changesOnce(listed, requestedKinds).map(({ verdict }) => verdict);
  const lacking = records.flatMap(({ record: { kind, scope, id, body }, reason, isLacking }): DrillTask[] => {
    if (!isLacking) return [];
    const name = recordName(definitions(kind), body, id);
    const nothingElse = { fields: [], needs: [], waits: false };
    return [{ verdict: 'needs_person', kind, scope, id, name, reason: reason ?? '', ...nothingElse }];
  });
  return {
    records,
    remaining: changesOnce(remaining.changes, requestedKinds),
    tasks: [...tasksOf(snapshot, verdicts), ...lacking],
  };
}

/** The verdicts of records that lists of other organizations show: those of the owner's record. */
function foreignVerdicts(snapshot: DrillSnapshot, verdicts: Verdicts): RecordVerdict[] {
  return snapshot.foreign.map((record) => {
    const owned = snapshot.desired.records.find(({ kind, id }) => kind === record.kind && id === record.id);
    if (owned !== undefined) return { ...verdicts.of(owned), record };
    const reason = 'it belongs to another organization, which the drill does not restore';
    return { record, verdict: 'cannot', reason, isLacking: false, fields: new Map() };
  });
}

function tasksOf({ isAsked }: DrillSnapshot, verdicts: Verdicts): DrillTask[] {
  return verdicts.steps.flatMap((step): DrillTask[] => {
    const { desired, name, fields, needs } = step;
    if (desired === null || !isAsked(desired)) return [];
    const { kind, scope, id } = desired;
    const unset = needs.flatMap(({ any_of: anyOf, unset: reason }) =>
      reason === undefined ? [] : [{ any_of: anyOf, reason }],
    );
    const verdict = verdicts.ofStep(step);
    const reason = isExecutable(step) ? verdicts.reasonOf(step) : (step.reason ?? '');
    return [
      {
        ...{ verdict, kind, scope, id, name, reason, fields },
        needs: needs.map(({ any_of: anyOf }) => anyOf),
        ...(unset.length === 0 ? {} : { unset }),
        waits: step.obstacle === 'depends_on_blocked',
      },
    ];
  });
}

/**
 * The verdicts added up by kind, reason and field; kinds without records are left out.
 * @param never the number of records of kinds that are never restored
 */
function drillKinds(
  verdicts: readonly RecordVerdict[],
  never: ReadonlyMap<Kind, number>,
  definitions: (kind: Kind) => ResourceDefinition,
): DrillKind[] {
  const byKind = Map.groupBy(verdicts, ({ record }) => record.kind);
  return CATALOG.flatMap(({ kind }): DrillKind[] => {
    const count = never.get(kind);
    if (count !== undefined) return [neverKind(kind, count, definitions(kind).restore.never ?? '')];
    const own = byKind.get(kind);
    return own === undefined ? [] : [writtenKind(definitions(kind), own)];
  });
}

function neverKind(kind: Kind, count: number, reason: string): DrillKind {
  return {
    ...{ kind, ...countsOf([]), records: count, cannot: count, score: 0, restored: false },
    reasons: [{ verdict: 'cannot', reason, records: count }],
    fields: [],
  };
}

function writtenKind(definition: ResourceDefinition, own: readonly RecordVerdict[]): DrillKind {
  const { kind } = definition;
  // Masks secrets in names: the document is stored, and shown to everybody who may read reports.
  const names = new MemberNames(definition);
  const counts = countsOf(own.map(({ verdict }) => verdict));
  const fields = Map.groupBy(
    own.flatMap((each) => [...each.fields]),
    ([name]) => name,
  );
  return {
    kind,
    ...counts,
    score: drillScore(counts.comes_back, counts.records),
    restored: true,
    reasons: reasonsOf(own),
    fields: [...fields].map(([name, each]) => ({
      path: memberPointer(names.shown(name)),
      ...countsOf(each.map(([, verdict]) => verdict)),
    })),
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
