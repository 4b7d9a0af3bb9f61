/**
 * The plan that undoes a restore: the state before it is computed from live and the inverses in the journal, and planned like any other
 * desired state, limited to what the restore wrote.
 */
import type { Kind } from '../../catalog/kinds.ts';
import { MASK, withoutUrlSecrets } from '../../catalog/masks.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { getOwn } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import type { AcceptedFinding } from '../../diff/drift.ts';
import { kindsToRead } from '../plan/dependents.ts';
import {
  type PlanOptions,
  type UntouchedRecords,
  type Plan,
  type PlanStep,
  planHash,
  type SecretLookup,
} from '../plan/plan.ts';
import { planRestore } from '../plan/planner.ts';
import { bySendableKey } from '../plan/settings.ts';
import { NOTHING_PLANNED, joinedReasons } from '../plan/steps.ts';
import { memberPointer, topMember } from '../places.ts';
import { familyRecordKey, naturalKeyDigest, recordKey } from '../records.ts';
import { neededGroups } from '../secrets.ts';
import { idLookup } from '../../state/recreated-ids.ts';
import {
  type AppliedStep,
  appliedSteps,
  type AppliedSteps,
  isAnswered,
  type RestoreRows,
  undoChain,
  type UndoChain,
} from './applied.ts';
import {
  undoneState,
  type ChangedSince,
  type UntouchedRecord,
  type UndoneState,
  type UndoStateOptions,
} from './state.ts';

export interface UndoOptions extends UndoStateOptions {
  readonly secrets: SecretLookup;
  readonly rate: PlanOptions['rate'];
  /** As in `PlanOptions`. Default: null. */
  readonly ownUserId?: string | null;
  /** Let the service send e-mails for recreated invites. Default: false. */
  readonly sendEmail?: boolean;
  /** Differences between live and the state before the restore that were accepted as drift. Default: none. */
  readonly accepted?: readonly AcceptedFinding[];
  /** As in `PlanInput`. */
  readonly contradictions?: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The kinds to read before a restore is undone; empty if it applied nothing.
 * @throws TidemarkError `reference_unknown`
 */
export function undoKinds(
  mirror: RestoreRows,
  restore: number,
  definitions: UndoOptions['definitions'],
): Kind[] {
  const { steps } = appliedSteps(mirror, restore);
  const kinds = new Set(steps.map(({ request }) => request.kind));
  // Created records may have children by now, which are removed along with them.
  const removes = steps.some(({ inverse }) => inverse?.action === 'remove');
  return kindsToRead(kinds, definitions, removes);
}

/**
 * True for records that the restore wrote, except those that it or an undo of it removed and read as gone: the undo has to know of each
 * whether it exists.
 * @param resumed the undo that is resumed: its own steps do not count
 * @throws TidemarkError as `planUndo`
 */
export function undoNamed(
  mirror: RestoreRows,
  restore: number,
  resumed?: number,
): (record: Pick<RecordKey, 'kind' | 'id'>) => boolean {
  const { row, steps } = appliedSteps(mirror, restore);
  const chain = undoChain(mirror, row, resumed);
  const named = new Set(
    steps
      .filter((step) => !chain.left(step).isGone)
      .flatMap((step) => chain.places(step).map(({ kind, id }) => `${kind} ${id}`)),
  );
  return ({ kind, id }) => named.has(`${kind} ${id}`);
}

/**
 * The plan that undoes what a restore applied, for `applyPlan` with `undoes: restore`. A record that changed since the restore is
 * blocked (`changed_since`) unless `forceChanged`. A record that is already as before needs no step. Records that may exist in live
 * unseen (`options.known`) are `skipped`.
 * @throws TidemarkError `reference_unknown`; `usage` while the result of one of its writes is unknown; the error of the service, if
 * nothing of what the restore wrote could be read
 */
export function planUndo(mirror: RestoreRows, restore: number, options: UndoOptions): Plan {
  const { state, extent, changed, gone, settled, skipped } = undoneState(mirror, restore, options);
  const applied = appliedSteps(mirror, restore);
  const overwritten = overwrittenSecrets(applied.steps, options.definitions);
  const reported = new Set(overwritten.flatMap(({ key, places }) => places.map((place) => key + place)));
  const blocked = new Map(changed.map(({ kind, id, name }) => [`${kind} ${id}`, name]));
  const plan = planRestore({
    desired: state,
    live: options.live,
    definitions: options.definitions,
    idMap: idLookup(mirror.restores.idMap(applied.row.source)),
    secrets: options.secrets,
    options: {
      // Only records that the restore created and, if forced, their children created since.
      prune: { maxRemovals: gone.length },
      // The restore was within the limits, and undoing it changes nothing else.
      limits: { maxShare: 1, minRecords: Number.MAX_SAFE_INTEGER },
      createOrganizations: true,
      inviteMissing: null,
      keepsAccepted: null,
      sendEmail: options.sendEmail ?? false,
      ownUserId: options.ownUserId ?? null,
      maxAgeMs: null,
      rate: options.rate,
    },
    isInScope: extent.has,
    isOwnField: extent.hasField,
    isOverwrittenSecret: (live, place) => reported.has(recordKey(live) + place),
    accepted: options.accepted ?? [],
    contradictions: options.contradictions ?? [],
    skipped,
    blockedName: (kind, id) => blocked.get(`${kind} ${id}`),
    now: options.now,
  });
  extent.require(plan);
  const chain = undoChain(mirror, applied.row, options.resumed);
  const created = new Set(gone.map(({ kind }) => kind));
  const staying = (each: UntouchedRecords): UntouchedRecords =>
    created.has(each.kind) && !options.definitions(each.kind).restore.isRemovable
      ? {
          ...each,
          reason: `the restore created ${each.count === 1 ? 'it' : 'them'}, and ${each.reason}: ${BY_HAND}`,
        }
      : each;
  const left = [
    ...plan.left.map(staying),
    ...notTakenBack(plan, applied, { gone, settled, chain, overwritten }, options),
  ];
  const found = lookedUp(applied, options.definitions);
  const sending = configuredSecretLines(plan.steps, options.definitions);
  const isAsPlanned = left.length === plan.left.length && left.every((each) => plan.left.includes(each));
  if (changed.length === 0 && isAsPlanned && found.size === 0 && sending.length === 0) return plan;
  const steps = [
    ...plan.steps.map((step) =>
      step.action === 'remove' && found.has(familyRecordKey(options.definitions(step.kind), step))
        ? { ...step, reason: joinedReasons([step.reason, FOUND_BY_LOOK_UP]) }
        : step,
    ),
    ...changed.map((each, index) => refusal(plan.steps.length + index + 1, each)),
  ];
  const summary = { ...plan.summary, blocked: plan.summary.blocked + changed.length };
  const warnings = [...(plan.warnings ?? []), ...sending];
  const whole = { ...plan, steps, left, summary, ...(warnings.length === 0 ? {} : { warnings }) };
  return { ...whole, hash: planHash(whole) };
}

const BY_HAND = 'delete by hand';

/** What the restore created and the undo leaves, because no request removes it. */
export function untouchedByUndo({ left }: Pick<Plan, 'left'>): readonly UntouchedRecords[] {
  return left.filter(({ reason }) => reason.endsWith(BY_HAND));
}

/** The note on a record that is taken for the restore's: somebody else may have created an equal one at that time. */
export const FOUND_BY_LOOK_UP = 'found by a look-up: its creation had no answer';

/** Keys of created records whose ids no response gave. */
function lookedUp({ steps }: AppliedSteps, definitions: UndoOptions['definitions']): ReadonlySet<string> {
  return new Set(
    steps
      .filter(({ request, row: { status } }) => request.role === 'create' && !isAnswered(status))
      .map((each) => familyRecordKey(definitions(each.kind), each)),
  );
}

/** The effects of the restore that the plan does not undo. */
function notTakenBack(
  { steps, adopted }: Plan,
  { steps: applied, unknown }: AppliedSteps,
  {
    gone,
    settled,
    chain,
    overwritten,
  }: Pick<UndoneState, 'gone' | 'settled'> & {
    readonly chain: UndoChain;
    readonly overwritten: readonly OverwrittenSecrets[];
  },
  { definitions }: UndoOptions,
): UntouchedRecords[] {
  const about = new Set(steps.map(({ id, kind }) => `${definitions(kind).family ?? kind} ${id}`));
  // A resumed restore may have written a record under the id that it got when an undo of its undo created it again.
  const whole = new Set(
    applied.flatMap((each) => (each.inverse === null ? [] : chain.places(each).map(recordKey))),
  );
  const silent = gone
    .map(({ kind, id, body }) => ({ kind, id, name: recordName(definitions(kind), body, id) }))
    .filter(
      ({ kind, id }) =>
        !about.has(`${definitions(kind).family ?? kind} ${id}`) && definitions(kind).restore.isRemovable,
    );
  const kept = new Set(adopted.map(({ kind, live_id: id }) => `${kind} ${id}`));
  const staying = silent.map((each) => ({
    ...each,
    reason: kept.has(`${each.kind} ${each.id}`)
      ? 'it is as before except for ids of records that were created again'
      : 'the restore created it, and the API cannot remove it',
  }));
  const noWay = applied.filter((each) => each.inverse === null && !whole.has(recordKey(each)));
  return [
    ...leftAlone(noWay, 'what the restore changed in it cannot be undone'),
    ...[...Map.groupBy<string, UntouchedRecord>([...staying, ...settled], ({ reason }) => reason)].flatMap(
      ([reason, same]) => leftAlone(same, reason),
    ),
    ...[...Map.groupBy(overwritten, ({ places }) => places.join(', '))].flatMap(([places, same]) =>
      leftAlone(
        same,
        `the secrets at ${places} stay as the restore sent them, since those before it are not known: check them at the service, and enter the right ones by hand`,
      ),
    ),
    ...leftAlone(unknown, 'the restore created it, and the service returned no id: look for it by its name'),
  ];
}

interface OverwrittenSecrets {
  readonly kind: Kind;
  readonly name: string;
  /** `recordKey` of the record. */
  readonly key: string;
  readonly places: readonly string[];
}

/** Secrets that updates of the restore replaced, whose old values were not recorded; not those of a type that the undo replaces. */
function overwrittenSecrets(
  applied: readonly AppliedStep[],
  definitions: UndoOptions['definitions'],
): OverwrittenSecrets[] {
  return applied.flatMap((step) => {
    const { kind, name, request, inverse } = step;
    if (request.role !== 'update' || inverse?.action !== 'update') return [];
    const places = request.fills.flatMap(({ pointer, from }) => {
      const field = definitions(kind).fieldsByName.get(topMember(pointer));
      if (from !== 'configuration' || field === undefined) return [];
      const before = getOwn(inverse.body, field.name);
      const groups = before === undefined ? undefined : neededGroups(field, before);
      const inside = pointer.slice(memberPointer(field.name).length);
      return groups === undefined || groups.flat().includes(inside) ? [pointer] : [];
    });
    return places.length === 0 ? [] : [{ kind, name, key: recordKey(step), places }];
  });
}

/** The maximum of records that are listed by name. */
const NAMES_SHOWN = 10;

/** Which configured secrets are sent where: they may be meant for the present address, not for the one that the undo brings back. */
function configuredSecretLines(
  steps: readonly PlanStep[],
  definitions: UndoOptions['definitions'],
): string[] {
  const lines = steps.flatMap(({ kind, name, request, fields }) => {
    const places = (request?.fills ?? []).flatMap(({ pointer, from }) =>
      from === 'configuration' ? [pointer] : [],
    );
    if (request === null || places.length === 0) return [];
    const tops = new Set(places.map(topMember));
    const withIt = fields.flatMap(({ path, to }) =>
      !tops.has(topMember(path)) || places.includes(path)
        ? []
        : [typeof to === 'string' ? `${path} ${withoutUrlSecrets(JSON.stringify(to), MASK)}` : path],
    );
    const how =
      request.role === 'create'
        ? 'which the restore had removed'
        : `with ${withIt.join(', ')}, which the restore had replaced`;
    if (request.role !== 'create' && withIt.length === 0) return [];
    const to = `${definitions(kind).title.one} ${JSON.stringify(name)}`;
    return [
      `the configured secrets at ${places.join(', ')} are sent to ${to}, ${how}: apply this only if they are meant for it`,
    ];
  });
  const more = lines.length - NAMES_SHOWN;
  return [
    ...lines.slice(0, NAMES_SHOWN),
    ...(more > 0 ? [`configured secrets are sent so to ${plural(more, 'more record')}`] : []),
  ];
}

function leftAlone(
  records: readonly { readonly kind: Kind; readonly name: string }[],
  reason: string,
): UntouchedRecords[] {
  return [...Map.groupBy(records, ({ kind }) => kind)].map(([kind, same]) => ({
    ...{ kind, count: same.length, reason },
    names: same.slice(0, NAMES_SHOWN).map(({ name }) => name),
  }));
}

function refusal(n: number, { kind, scope, id, name, why }: ChangedSince): PlanStep {
  return {
    ...{ n, level: 0, action: 'blocked', kind, scope, id, name },
    ...NOTHING_PLANNED,
    ...{ reason: why, obstacle: 'changed_since' },
  };
}

/**
 * The undos of a restore as text: `restore 1 was undone by restore 2, done again by restore 3`, and a line on what to do if the last of
 * them was interrupted; empty if none undid anything of it.
 * @throws TidemarkError as `planUndo`
 */
export function undoneInWords(mirror: RestoreRows, restore: number): string[] {
  const { links } = undoChain(mirror, appliedSteps(mirror, restore).row);
  if (links.length === 0) return [];
  const outcomes = new Map(links.map(({ restore: by }) => [by, mirror.restores.get(by)?.outcome]));
  const actions = links.map(({ restore: by, takesBack }) => {
    const part = outcomes.get(by) === 'complete' ? '' : ' in part';
    return `${takesBack ? 'undone' : 'done again'}${part} by restore ${by}`;
  });
  const last = links.at(-1)?.restore ?? 0;
  const isInterrupted = UNENDED.has(outcomes.get(last) ?? '');
  return [
    `restore ${restore} was ${actions.join(', ')}${isInterrupted ? ', which was interrupted' : ''}`,
    ...(isInterrupted
      ? [
          `  → \`tidemark restore --resume ${last}\` continues restore ${last}, \`tidemark restore --abandon ${last}\` leaves it as it is; or apply this plan, which is made of what is in the service now`,
        ]
      : []),
  ];
}

/** Outcomes of a restore that was stopped or killed. (While one really runs, no undo can be planned.) */
const UNENDED: ReadonlySet<string> = new Set(['interrupted', 'running']);

/**
 * Keys of desired records that existed when the undo was planned and have the name of one that it creates (or no name, like that one):
 * when a write without a response is looked up, they must not be taken for the created record. Kept with the approved restore.
 */
export function existingNamesakes(
  plan: Pick<Plan, 'steps'>,
  desired: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  const made = plan.steps.flatMap((step) =>
    step.request?.role === 'create' && step.desired !== null ? [step.desired] : [],
  );
  const created = new Set(made.map(recordKey));
  const kinds = new Set(made.map(({ kind }) => kind));
  const nameOf = ({ kind, body }: ParsedRecord): string =>
    `${kind} ${naturalKeyDigest(bySendableKey(definitions(kind)), body)}`;
  const isMade = (record: ParsedRecord): boolean => created.has(recordKey(record));
  const ofKinds = desired.filter(({ kind }) => kinds.has(kind));
  const names = new Set(ofKinds.filter(isMade).map(nameOf));
  return ofKinds.filter((record) => !isMade(record) && names.has(nameOf(record))).map(recordKey);
}

/** The keys of the desired records of an undo's plan: of its steps, and of those that existed (`existingNamesakes`). */
export function plannedPlaces(plan: Pick<Plan, 'steps'>, standing: readonly string[]): ReadonlySet<string> {
  const made = plan.steps.flatMap(({ desired }) => (desired === null ? [] : [recordKey(desired)]));
  return new Set([...made, ...standing]);
}
