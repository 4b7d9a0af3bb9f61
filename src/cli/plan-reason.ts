/** Lines for stderr that say why a plan or a restore exits with 3, 5 or 6; none if it ends well. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeText, collectionText } from '../catalog/catalog.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { formatInteger, outcomeText, plural } from '../core/wording.ts';
import { type FirstRead, isUncompared } from '../diff/change.ts';
import { groupedNotes } from '../report/notes.ts';
import { maskedPlan, maskedRestore } from '../report/plan-mask.ts';
import type { RestoreReport } from '../restore/apply/report.ts';
import { withoutAllowing } from '../report/plan-report.ts';
import { isExecutable, type Plan } from '../restore/plan/plan.ts';
import { withoutSecretIds } from '../restore/secrets.ts';
import type { RestoreSession } from './restore-session.ts';

type Definitions = RestoreSession['definitions'];

/** At most this many reasons are named; the output has all. */
const SHOWN = 10;

/**
 * What a safety limit refuses, what could not be read, and what is blocked or to be done by hand.
 * @param options.isReasonShown true if the same terminal or file shows the plan: then lists and steps are only counted
 */
export function planReason(
  whole: Plan,
  definitions: Definitions,
  { isReasonShown = false }: { readonly isReasonShown?: boolean } = {},
): string[] {
  const isWhole = (whole.skipped ?? []).length === 0 && whole.steps.every(isExecutable);
  if (isWhole && whole.refused.length === 0) return [];
  const plan = maskedPlan(whole, definitions);
  const { skipped = [] } = plan;
  const stopped = plan.steps.filter((step) => !isExecutable(step));
  const refused = plan.refused.flatMap(({ reason, hint }) => [
    `the plan is refused: ${reason}`,
    `  → ${hint}`,
  ]);
  if (isReasonShown) {
    const { blocked, manual } = plan.summary;
    const counts = [
      ...(skipped.length === 0 ? [] : ['not everything could be compared']),
      ...(blocked === 0 ? [] : [`${plural(blocked, 'step')} blocked`]),
      ...(manual === 0 ? [] : [plural(manual, 'manual step')]),
    ];
    return [...refused, ...(counts.length === 0 ? [] : [`${counts.join(', ')}: see the plan above`])];
  }
  return shortened([
    ...refused,
    ...groupedNotes('not compared', skipped.filter(isUncompared), definitions),
    ...groupedNotes(
      'not looked up yet',
      skipped.filter((each) => !isUncompared(each)),
      definitions,
    ),
    ...reasonLines(
      stopped.map(({ kind, action, reason }) => ({
        kind,
        what: action,
        reason: withoutAllowing(reason),
      })),
    ),
  ]);
}

/** What was not applied, or not as planned; empty if everything was. */
export function restoreReason(whole: RestoreReport, code: ExitCode, definitions: Definitions): string[] {
  if (code === EXIT.done || code === EXIT.interrupted) return [];
  const report = maskedRestore(whole, definitions);
  if (report.stopped_by === 'unauthorized' && code === EXIT.refused) {
    const refused = report.steps.find(({ error }) => error?.code === report.stopped_by)?.error;
    const { failed, skipped: waiting, open } = report.summary;
    return [
      `restore ${report.restore} of ${report.source} stopped: ${refused?.message ?? 'the key was refused'}; ${plural(failed + waiting + open, 'step')} left`,
      `  → correct apiKey or apiKeyFile of the source, then \`tidemark restore --resume ${report.restore}\` continues`,
    ];
  }
  // Like logs, stderr is often kept: no secret ids.
  const noteOf = (kind: Kind, reason: string | null): string | null =>
    reason === null ? null : withoutSecretIds(reason, [definitions(kind)]);
  const notDone = report.steps.filter(({ outcome }) => outcome !== 'applied');
  const doubtful = report.steps.filter(
    ({ outcome, verified, warning }) => outcome === 'applied' && (verified !== true || warning !== undefined),
  );
  const { skipped = [], by_hand: byHand = [] } = report;
  const toCheck = doubtful.filter(({ warning }) => warning !== undefined).length;
  // One failed step may keep many others from being sent: causes come first, and the others are one line per kind.
  const waiting = notDone.filter(({ error }) => error?.code === 'needs_failed');
  const causes = notDone.filter((step) => !waiting.includes(step));
  const buts = [
    ...(skipped.length === 0 ? [] : ['not everything could be compared']),
    ...(toCheck === 0 ? [] : [`${plural(toCheck, 'record')} must be checked`]),
    ...(byHand.length === 0 ? [] : [`${plural(byHand.length, 'record')} must be completed by hand`]),
  ];
  const but = buts.length === 0 || report.outcome !== 'complete' ? '' : `, but ${buts.join(', and ')}`;
  return [
    `restore ${report.restore} of ${report.source} ${outcomeText(report.outcome)}${but}`,
    ...shortened([
      ...groupedNotes('not compared', skipped, definitions),
      ...reasonLines(
        [...causes, ...waiting].map(({ kind, outcome, error, reason }) => ({
          kind,
          what: outcome,
          reason:
            error?.code === 'needs_failed' && waiting.length > 1
              ? 'waiting for a step that was not applied'
              : noteOf(kind, error?.message ?? withoutAllowing(reason)),
        })),
      ),
      ...reasonLines(byHand.map(({ kind, reason }) => ({ kind, what: 'to complete by hand', reason }))),
      ...reasonLines(
        doubtful.map(({ kind, warning, verified, error }) => ({
          kind,
          what: 'applied, but',
          reason: noteOf(
            kind,
            warning ??
              error?.message ??
              (verified === false ? 'the service has values other than those sent' : 'it was not read back'),
          ),
        })),
      ),
    ]).map((line) => `  ${line}`),
    `  → \`tidemark restores show ${report.restore}\` shows each step`,
  ];
}

/** One line for all steps of a kind that ended the same way. */
function reasonLines(
  steps: readonly { readonly kind: Kind; readonly what: string; readonly reason: string | null }[],
): string[] {
  return groupAlike(steps, ({ kind, what, reason }) => JSON.stringify([kind, what, reason])).map((group) => {
    const [{ kind, what, reason }] = group;
    const steps =
      what === 'manual' ? plural(group.length, 'manual step') : `${plural(group.length, 'step')} ${what}`;
    return `${kind}: ${steps}${reason === null ? '' : `: ${reason}`}`;
  });
}

function shortened(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN;
  return more <= 0 ? [...lines] : [...lines.slice(0, SHOWN), `and ${plural(more, 'more reason')}`];
}

// Collections that a run read for the first time: their records are new to the mirror, not to the service.

/**
 * For the counts of a run, a line per kind: `134 new here, read for the first time: domains (…) and 2 others`; one line if
 * there are many kinds.
 */
export function newlyReadLines(firstReads: readonly FirstRead[]): string[] {
  const kinds = groupAlike(firstReads, ({ kind }) => kind);
  if (kinds.length > KINDS_NAMED)
    return [
      `${formatInteger(sumOf(firstReads))} new here, read for the first time: ${collectionsText(firstReads)}`,
    ];
  return kinds.map(
    (group) => `${formatInteger(sumOf(group))} new here, read for the first time: ${groupText(group)}`,
  );
}

/**
 * For a comparison, a line per kind and reason: `2 domains (organization 0190…): read for the first time: …`; one line if there
 * are many kinds with the same reason.
 */
export function newlyReadNotes(
  firstReads: readonly FirstRead[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  return groupAlike(firstReads, ({ reason }) => reason).flatMap((alike) => {
    const kinds = groupAlike(alike, ({ kind }) => kind);
    if (kinds.length > KINDS_NAMED)
      return [`${plural(sumOf(alike), 'record')} in ${collectionsText(alike)}: ${alike[0].reason}`];
    return kinds.map((group) => {
      const [{ kind, scope, reason }, ...others] = group;
      const { one, many } = definitions(kind).title;
      const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other')}`;
      const place = scopeText(scope);
      const where = place === '' ? '' : ` (${place}${more})`;
      return `${plural(sumOf(group), one, many)}${where}: ${reason}`;
    });
  });
}

function sumOf(firstReads: readonly FirstRead[]): number {
  return firstReads.reduce((sum, { records }) => sum + records, 0);
}

// One line for collections with the same problem: fifty organizations without a permission are one finding.

/** Groups items by key, in the order of first appearance; no group is empty. */
export function groupAlike<T>(items: readonly T[], key: (item: T) => string): [T, ...T[]][] {
  return [...Map.groupBy(items, key).values()] as [T, ...T[]][];
}

/** `roles (organization 0190…) and 3 others`: collections of one kind. */
export function groupText([first, ...others]: readonly [
  { readonly kind: Kind; readonly scope: Scope },
  ...unknown[],
]): string {
  const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other')}`;
  return collectionText(first.kind, first.scope) + more;
}

const KINDS_NAMED = 3; // more are only counted

/** Collections as a subject of a sentence: by kind, or only their number if there are many kinds. */
export function collectionsText(
  collections: readonly { readonly kind: Kind; readonly scope: Scope }[],
): string {
  const kinds = groupAlike(collections, ({ kind }) => kind);
  return kinds.length <= KINDS_NAMED
    ? kinds.map(groupText).join(', ')
    : `${plural(collections.length, 'collection')} of ${kinds.length} kinds`;
}

/** The oldest of these times (ISO 8601); null if one of them is null, which counts as older than any. */
export function oldestOf(times: readonly (string | null)[]): string | null {
  return times.includes(null) ? null : (times.toSorted()[0] ?? null);
}
