/**
 * Finds created records of which a second one exists: the check before a creation cannot see what another mirror, or a proxy that repeats
 * requests, creates right after it.
 */
import { collectionKey } from '../../catalog/catalog.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import type { PlanStep } from '../plan/plan.ts';
import { bySendableKey } from '../plan/settings.ts';
import { naturalKeyDigest } from '../records.ts';
import { holdsContent } from './differences.ts';
import { CLOCKS_DIFFER_MS, CREATED_AT } from './lost-response.ts';
import { idSuffix } from './precondition.ts';
import { rethrowLocalError } from './read-back.ts';
import { type LookUpContext, type ReadyStep, bodiesLeft, isTaken, readyStep } from './ready-step.ts';
import { CREATED_TWICE, PERHAPS_SENT } from './report.ts';

/** An applied creation with the id of its record. */
interface Created {
  readonly ready: ReadyStep;
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly sentAt: number;
}

/**
 * Journals a warning for each created record that exists twice, for kinds whose names need not be unique; withdraws the warning of an
 * earlier attempt if it no longer does. Reads each list in which something was created once.
 * @throws TidemarkError this machine's error
 */
export async function reportCreatedTwice(context: LookUpContext, steps: readonly PlanStep[]): Promise<void> {
  const created = steps.flatMap((step) => createdBy(context, step) ?? []);
  const lists = Map.groupBy(created, ({ ready: { definition, scope } }) =>
    collectionKey({ kind: definition.kind, scope }),
  );
  for (const ofList of lists.values()) {
    try {
      await reportOfList(context, ofList);
    } catch (error) {
      if (context.grace.aborted) return;
      // The records exist as sent. Only whether there are two is unknown; the next plan shows it.
      context.log.warn(
        { kind: ofList[0]?.ready.definition.kind, error: rethrowLocalError(error) },
        'whether records were created twice could not be looked up',
      );
    }
  }
}

/** The creation of a step; null if it created nothing, or a record that cannot exist twice. */
function createdBy(context: LookUpContext, step: PlanStep): Created | null {
  const { request } = step;
  if (request?.role !== 'create' || request.kind !== step.kind) return null;
  const { restore, scope } = context.definitions(step.kind);
  // Records in a role cannot exist twice, and there would be one list to read for each role.
  if (restore.uniqueName !== null || restore.replacesNamesake || scope.length > 1) return null;
  const { outcome, errorCode, sentAt } = context.journal.row(step.n);
  const id = context.newIdOf(step.n);
  // The row has place for one message only.
  if (outcome !== 'applied' || id === null || sentAt === null) return null;
  if (errorCode !== null && errorCode !== PERHAPS_SENT && errorCode !== CREATED_TWICE) return null;
  try {
    return { ready: readyStep(context, step, request), id, sentAt: Date.parse(sentAt) };
  } catch (error) {
    // If the restore is resumed, a secret may no longer be configured.
    rethrowLocalError(error);
    return null;
  }
}

async function reportOfList(context: LookUpContext, created: readonly Created[]): Promise<void> {
  const [first] = created;
  if (first === undefined) return;
  const { definition, scope } = first.ready;
  const byName = bySendableKey(definition);
  const nameOf = (body: JsonValue): string => naturalKeyDigest(byName, body) ?? '';
  const named = Map.groupBy(created, ({ ready }) => nameOf(ready.sent ?? {}));
  const matching = new Map<string, readonly Created[]>();
  const isSecond = (body: JsonValue, id: string): boolean => {
    if (context.claims.has(`${definition.kind} ${id}`)) return false;
    const equal = (named.get(nameOf(body)) ?? []).filter((each) => isEqual(context, each, body, id));
    matching.set(id, equal);
    return equal.length > 0;
  };
  const ids = await context.live.idsWhere(definition, scope, isSecond, context.grace);
  if (ids === null) return;
  for (const each of created) {
    const { n } = each.ready.step;
    const others = ids.filter((id) => matching.get(id)?.includes(each) === true);
    if (others.length === 0) {
      // It was removed since an earlier attempt found it.
      if (context.journal.row(n).errorCode === CREATED_TWICE)
        context.journal.readBack(n, { errorCode: null, error: null });
      continue;
    }
    context.journal.readBack(n, {
      errorCode: CREATED_TWICE,
      error: createdTwiceText(definition, [each.id, ...others], nameOf(each.ready.sent ?? {}) !== ''),
    });
  }
}

/** True for a record that is equal to what the step sent and was not created before. */
function isEqual(context: LookUpContext, { ready, sentAt }: Created, body: JsonValue, id: string): boolean {
  const { step, definition } = ready;
  const at = resolvePointer(body, definition.createdAt ?? CREATED_AT);
  if (typeof at === 'string' && Date.parse(at) < sentAt - CLOCKS_DIFFER_MS) return false;
  if (isTaken(context, ready, id)) return false;
  return bodiesLeft(context, ready).some((wanted) => holdsContent(definition, step, wanted, body));
}

function createdTwiceText(definition: ResourceDefinition, ids: readonly string[], isNamed: boolean): string {
  const { many } = definition.title;
  const what = `${ids.length} ${many} of this ${isNamed ? 'name and content' : 'content'} exist`;
  const isSecret = ids.some((id) => idSuffix(definition, id) === '');
  const which = isSecret ? '' : `: ${ids.slice(0, -1).join(', ')} and ${ids.at(-1)}`;
  const others = ids.length === 2 ? 'one was' : `${ids.length - 1} were`;
  return `${what}${which}; ${others} created by somebody else: check these`;
}
