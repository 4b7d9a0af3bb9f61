/** What a restore applied, and what its undos (and theirs) changed of that, with the current ids of the records. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { RecordKey } from '../../catalog/order.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import type { IdMapping } from '../../mirror/id-map.ts';
import type { RestoreBegin } from '../../mirror/restore-log.ts';
import type { RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
import { canonicalText } from '../../diff/canonical.ts';
import type { JsonValue } from '../../core/json.ts';
import { type Inverse, type PlannedRequest, type PlanStep, shownPlan } from '../plan/plan.ts';
import { damagedRestore, storedPlan } from '../plan/stored-plan.ts';
import { recordKey } from '../records.ts';

/** The restores from which an undo is planned: those of the mirror, or these with look-ups added (`unanswered.ts`). */
export interface RestoreRows {
  readonly restores: Pick<Mirror['restores'], 'get' | 'list' | 'steps' | 'idMap' | 'begins'>;
}

/** An applied step with its record. */
export interface AppliedStep extends RecordKey {
  readonly row: RestoreStepRow;
  readonly name: string;
  readonly inverse: Inverse | null;
  readonly request: PlannedRequest;
  /** The audit log entry of the start or resume of the restore that sent it: steps sent later have a higher one. */
  readonly begun: number;
}

export interface AppliedSteps {
  readonly row: RestoreRow;
  readonly steps: readonly AppliedStep[];
  /** Creations whose id is unknown: the service returned none, and the record was not found. */
  readonly unknown: readonly { readonly kind: Kind; readonly name: string }[];
}

/**
 * The applied steps of a restore.
 * @throws TidemarkError `reference_unknown`; `usage` while the result of one of its writes is unknown; `mirror_corrupt` when its plan
 * or its journal is damaged
 */
export function appliedSteps(mirror: RestoreRows, restore: number): AppliedSteps {
  const row = mirror.restores.get(restore);
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', `there is no restore ${restore}`, {
      hint: '`tidemark restores` lists them',
    });
  }
  const rows = new Map(mirror.restores.steps(restore).map((step) => [step.n, step]));
  if ([...rows.values()].some(({ outcome }) => outcome === 'sent')) {
    throw new TidemarkError('usage', `what restore ${restore} did is not fully known: a response was lost`, {
      hint: `\`tidemark restore --resume ${restore}\` looks it up; then undo it`,
    });
  }
  const steps: AppliedStep[] = [];
  const unknown: { kind: Kind; name: string }[] = [];
  const sent = new SentOrder(mirror, row);
  const planned = storedPlan(row).steps;
  const kinds = new Map(planned.map(({ n, kind, request }) => [n, request?.kind ?? kind]));
  for (const step of planned) {
    const own = rows.get(step.n);
    if (own === undefined || step.request === null) continue;
    // A creation that replaces its namesake also did the removal that follows it (`replacesNamesake`).
    const { kind } = step.request;
    const by =
      step.request.role === 'remove'
        ? step.after.find((n) => kinds.get(n) === kind && rows.get(n)?.newId)
        : undefined;
    if (own.outcome !== 'applied' && by === undefined) continue;
    const journaled = own.outcome === 'applied' ? own : { ...own, sentAt: rows.get(by ?? 0)?.sentAt ?? null };
    // The plan's hash covers the inverse, but nothing covers its copy in the journal.
    if (canonicalText(journaled.inverse) !== canonicalText(step.inverse as object as JsonValue | null))
      throw damagedRestore(restore, `what step ${step.n} overwrote is not as planned`);
    const begun = sent.begunAt(journaled.sentAt);
    const idOf = (n: number): string | undefined => {
      const [id, kind] = [rows.get(n)?.newId ?? undefined, kinds.get(n)];
      return id === undefined || kind === undefined ? id : sent.idAt(begun, kind, id);
    };
    const applied = appliedStep(step, step.request, journaled, { begun, idOf });
    if (applied === null) unknown.push({ kind: step.request.kind, name: step.name });
    else steps.push(applied);
  }
  return { row, steps, unknown };
}

/**
 * Checks that the journal has all steps of the plan: a step without its row would look as if it had not been applied.
 * @throws TidemarkError `mirror_corrupt` if another program deleted rows of the journal
 */
export function requireWholeJournal(mirror: RestoreRows, row: RestoreRow): void {
  const journaled = new Set(mirror.restores.steps(row.restore).map(({ n }) => n));
  const missing = storedPlan(row).steps.find(({ n }) => !journaled.has(n));
  if (missing !== undefined)
    throw damagedRestore(
      row.restore,
      `the row of step ${missing.n} is gone, so it is not known what that did`,
    );
}

/** The order in which steps were sent, since other restores may have come between the start of a restore and its resumes. */
export class SentOrder {
  readonly #begins: readonly RestoreBegin[];
  readonly #own: readonly RestoreBegin[];
  readonly #idMap: () => readonly IdMapping[];
  /** By begin, the ids of records at that time. */
  readonly #ids = new Map<number, RecreatedIds>();

  constructor({ restores }: RestoreRows, { restore, source }: RestoreRow) {
    this.#begins = restores.begins(source);
    this.#own = this.#begins.filter((begin) => begin.restore === restore);
    this.#idMap = () => restores.idMap(source);
  }

  /** The audit log entry of the last begin before that time; of the first one for null, a step that was not sent. */
  begunAt(time: string | null): number {
    const [first] = this.#own;
    const last = this.#own.findLast(({ at }) => time !== null && at <= time);
    return (last ?? first)?.entry ?? 0;
  }

  /** The id of a created record at the time of this begin: other restores may have created it again before. */
  idAt(begun: number, kind: Kind, id: string): string {
    if (begun === (this.#own[0]?.entry ?? 0)) return id;
    const ids = this.#ids.get(begun) ?? new RecreatedIds(this.#idMap().filter(this.#isBefore(begun)));
    this.#ids.set(begun, ids);
    return ids.latest(kind, id) ?? id;
  }

  #isBefore(begun: number): (mapping: IdMapping) => boolean {
    const before = new Set(this.#begins.filter(({ entry }) => entry <= begun).map(({ restore }) => restore));
    return ({ restore }) => before.has(restore);
  }
}

/**
 * The applied step; null if the id of its record is unknown.
 * @param idOf the id of the record that a step created, at the time of this step
 */
function appliedStep(
  { scope, name }: PlanStep,
  request: PlannedRequest,
  row: RestoreStepRow,
  { begun, idOf }: { readonly begun: number; readonly idOf: (n: number) => string | undefined },
): AppliedStep | null {
  const values: Record<string, string | undefined> = {};
  for (const each of request.parameters) {
    values[each.name] = 'value' in each ? each.value : idOf(each.step);
  }
  const within = Object.fromEntries(
    Object.keys(scope).map((key) => [key, values[key] ?? scope[key as keyof Scope]]),
  );
  const own = request.parameters.map((each) => each.name).find((key) => !Object.hasOwn(scope, key));
  const id = request.role === 'create' ? row.newId : own === undefined ? undefined : values[own];
  if (id === null || id === undefined) return null;
  const inverse = row.inverse as unknown as Inverse | null;
  return { row, name, inverse, request, kind: request.kind, scope: within, id, begun };
}

/** True for the status of a request that the service confirmed. */
export function isAnswered(status: number | null): boolean {
  return status !== null && status < 300;
}

export interface UndoChain {
  /** The undos of the restore, their undos and so on, oldest first, without those that had no effect. */
  readonly links: readonly { readonly restore: number; readonly takesBack: boolean }[];
  /** The keys that a record of the restore had in the course of the chain, the latest one last. */
  places(record: RecordKey): readonly RecordKey[];
  /**
   * The digest of a record as the chain left it, and the restore that did that; null if that restore did not read the record back, or
   * read that it is gone (`isGone`).
   */
  left(record: RecordKey): {
    readonly digest: string | null;
    readonly restore: number | undefined;
    readonly isGone: boolean;
  };
  /** The undo of the record's change that is still in effect; undefined if there is none, or the change was done again. */
  takenBackBy(record: RecordKey): number | undefined;
  /** The restore outside of the chain that was begun after this audit log entry and left the record with this digest. */
  changedBy(record: Pick<RecordKey, 'kind' | 'id'>, digest: string, since: number): number | undefined;
  /** The present id of the record according to all restores, of the chain or not. */
  idSince(record: RecordKey): string | undefined;
  /** The other keys that the record has or had according to all restores, the latest first. */
  otherPlaces(record: RecordKey): readonly RecordKey[];
}

/**
 * What a restore and its undos made of its records.
 * @param before only restores before this one: a resumed undo is not part of what it was planned from
 * @throws TidemarkError `usage` while the result of one of the chain's writes is unknown
 */
export function undoChain(
  mirror: RestoreRows,
  row: RestoreRow,
  before = Number.POSITIVE_INFINITY,
): UndoChain {
  const depths = chainOf(mirror, row, before);
  const digests = new Map<string, string | null>();
  const effective: LinkStep[] = [];
  const last = new Map<string, { restore: number; takesBack: boolean; isGone: boolean }>();
  for (const each of stepsInOrder(mirror, depths)) {
    const { restore, takesBack, step } = each;
    if (restore !== row.restore && !hadEffect(step, digests)) continue;
    effective.push(each);
    digests.set(recordKey(step), step.row.digest);
    const isGone = step.request.role === 'remove' && step.row.verified === true;
    last.set(recordKey(step), { restore, takesBack, isGone });
  }
  const mappings = mirror.restores.idMap(row.source).filter(({ restore }) => restore < before);
  const next = recreated(effective, mappings);
  const linked = new Set(effective.map(({ restore }) => restore));
  const places = ({ kind, scope, id }: RecordKey): RecordKey[] => {
    const found = new Map<string, RecordKey>();
    for (let at: RecordKey | undefined = { kind, scope, id }; at !== undefined;) {
      const key = recordKey(at);
      if (found.has(key)) break;
      found.set(key, at);
      at = next.get(key);
    }
    return [...found.values()];
  };
  const latest = (record: RecordKey): string => recordKey(places(record).at(-1) ?? record);
  const recreatedIds = new RecreatedIds(mappings);
  return {
    links: [...depths]
      .filter(([restore]) => restore !== row.restore && linked.has(restore))
      .map(([restore, depth]) => ({ restore, takesBack: depth % 2 === 1 })),
    places,
    left: (record) => {
      const place = latest(record);
      const { restore, isGone = false } = last.get(place) ?? {};
      return { digest: digests.get(place) ?? null, restore, isGone };
    },
    takenBackBy: (record) => {
      const link = last.get(latest(record));
      return link?.takesBack === true ? link.restore : undefined;
    },
    changedBy: ({ kind, id }, digest, since) => {
      const later = mirror.restores
        .begins(row.source)
        .filter(({ restore, entry }) => entry > since && restore < before && !depths.has(restore));
      return later.findLast(({ restore }) => {
        const own = mirror.restores.get(restore);
        const planned = new Map((own && shownPlan(own))?.steps.map((step) => [step.n, step]));
        return mirror.restores.steps(restore).some((step) => {
          const { request, id: target } = planned.get(step.n) ?? {};
          const isOfRecord = request?.kind === kind && (step.newId ?? target) === id;
          return isOfRecord && step.outcome === 'applied' && step.digest === digest;
        });
      })?.restore;
    },
    idSince: ({ kind, id }) => recreatedIds.latest(kind, id),
    otherPlaces: ({ kind, scope, id }) =>
      recreatedIds
        .places(kind, { scope, id })
        .filter((place) => place.id !== id)
        .map((place) => ({ kind, ...place })),
  };
}

/** A step of a restore or of one of its undos. */
interface LinkStep {
  readonly restore: number;
  readonly takesBack: boolean;
  readonly step: AppliedStep;
}

/** The applied steps of a restore and its undos in the order in which they were sent: the restore may have been resumed after an undo. */
function stepsInOrder(mirror: RestoreRows, depths: ReadonlyMap<number, number>): LinkStep[] {
  return [...depths]
    .flatMap(([restore, depth]) =>
      appliedSteps(mirror, restore).steps.map((step) => ({ restore, takesBack: depth % 2 === 1, step })),
    )
    .sort((a, b) => a.step.begun - b.step.begun);
}

/** False for a step of an undo that the service confirmed without executing it: read back, the record was as before. */
function hadEffect(step: AppliedStep, before: ReadonlyMap<string, string | null>): boolean {
  const { row, request } = step;
  if (row.verified !== false || request.role === 'create') return true;
  return request.role !== 'remove' && (row.digest === null || row.digest !== before.get(recordKey(step)));
}

/** The restore, its undos, theirs and so on, oldest first, each with the number of undos between it and the restore. */
export function chainOf(
  mirror: RestoreRows,
  { restore: first, source }: RestoreRow,
  before = Number.POSITIVE_INFINITY,
): ReadonlyMap<number, number> {
  const depths = new Map([[first, 0]]);
  for (const { restore, undoes } of mirror.restores.list({ source }).toReversed()) {
    const depth = undoes === null || restore >= before ? undefined : depths.get(undoes);
    if (depth !== undefined) depths.set(restore, depth + 1);
  }
  return depths;
}

/** By key of a recreated record, its new key; only creations of the chain, not records found under another id. */
function recreated(
  chain: readonly LinkStep[],
  mappings: readonly IdMapping[],
): ReadonlyMap<string, RecordKey> {
  const made = new Set(
    chain
      .filter(({ step }) => step.request.role === 'create')
      .map(({ restore, step }) => `${restore} ${recordKey(step)}`),
  );
  return new Map(
    mappings
      .filter(({ restore, kind, newScope, newId }) =>
        made.has(`${restore} ${recordKey({ kind, scope: newScope, id: newId })}`),
      )
      .map(({ kind, oldScope, oldId, newScope, newId }) => [
        recordKey({ kind, scope: oldScope, id: oldId }),
        { kind, scope: newScope, id: newId },
      ]),
  );
}
