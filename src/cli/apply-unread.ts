/** Why `tidemark apply` could not hold a saved plan against live: an error of its own, since nothing moved for all anybody knows. */
import type { Kind } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import type { PlanStep } from '../restore/plan.ts';
import type { Moved } from '../restore/plan-moved.ts';
import type { Coverage, LoadedState } from '../state/state.ts';

const ROOT: Kind = SCOPE_KIND.organization_id;

/** With these at the root nothing else is read, and nothing could be sent. */
const SILENT: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'unreachable',
  'timeout',
  'unresponsive',
  'server_error',
]);
const REFUSED: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** A step whose record could not be looked at. */
export interface UnreadStep {
  readonly step: PlanStep;
  readonly reason: string | null;
  /** Null where the far side did not say why. */
  readonly code: ErrorCode | null;
  readonly permission?: string;
}

/**
 * Also for a plan of creations only, which holds no record against live: else each of its steps would fail in a journaled
 * restore.
 * @throws TidemarkError with the far side's own code where it gave nothing at all
 */
export function requireAnswered(live: LoadedState): void {
  const root = live.coverage(ROOT, {});
  if (root.how !== 'unread' || root.code === null || !SILENT.has(root.code)) return;
  // Of organizations that are named one may have failed, and others been read.
  for (const _ of live.records({ kinds: [ROOT] })) return;
  throw new TidemarkError(root.code, `live could not be looked at: ${ROOT}: ${root.reason}`, {
    hint: `nothing was sent; ${remedyFor(root.code)}`,
  });
}

/** What moved, and what could not be looked at. What went with its parent, or is said not to be there, is gone. */
export function toldApart(
  found: readonly Moved[],
  live: LoadedState,
): { moved: Moved[]; unread: UnreadStep[] } {
  const moved: Moved[] = [];
  const unread: UnreadStep[] = [];
  for (const each of found) {
    const { step } = each;
    const coverage = each.how === 'unread' ? live.coverage(step.kind, step.scope) : null;
    if (coverage === null) moved.push(each);
    else if (isAbsent(coverage)) moved.push({ ...each, how: 'gone' });
    else unread.push({ step, ...whyUnread(coverage) });
  }
  return { moved, unread };
}

function isAbsent(coverage: Coverage): boolean {
  return coverage.how === 'absent' || (coverage.how === 'unread' && coverage.code === 'not_found');
}

function whyUnread(coverage: Coverage): Omit<UnreadStep, 'step'> {
  if (coverage.how === 'left_out') return { reason: coverage.reason, code: null };
  if (coverage.how !== 'unread') return { reason: null, code: null };
  const { reason, code, permission } = coverage;
  return { reason, code, ...(permission === undefined ? {} : { permission }) };
}

/** The error that a plan ends with of which no step is known to have moved: refused only where every step was. */
export function unreadError(unread: readonly UnreadStep[], lines: readonly string[]): TidemarkError {
  const told = unread.filter(({ code }) => code !== null);
  const { code = null, permission } =
    told.find((each) => each.code !== null && !REFUSED.has(each.code)) ?? told[0] ?? {};
  const message = ['live could not be held against the plan:', ...lines].join('\n');
  return new TidemarkError(code ?? 'unsafe_plan', message, {
    ...(permission === undefined ? {} : { permission }),
    hint: `nothing was sent; ${remedyFor(code, permission)}`,
  });
}

function remedyFor(code: ErrorCode | null, permission = 'to read'): string {
  if (code === 'unauthorized') return 'check apiKey or apiKeyFile of the source: `tidemark doctor` tries it';
  if (code === 'forbidden') return `give the key the permission ${permission}, and apply the plan again`;
  if (code === 'unreachable') return 'check baseUrl of the source, DNS and the network';
  if (code === null) return 'check what the configuration includes, or make the plan anew';
  return 'apply the plan again later; `tidemark doctor` tells what can be read';
}
