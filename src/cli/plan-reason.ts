/** Why a plan or a restore ends with 3, 5 or 6, a line each for stderr; nothing where it ends well. */
import type { Kind } from '../catalog/definition.ts';
import { plural } from '../core/wording.ts';
import { groupedNotes } from '../report/note-groups.ts';
import { maskedPlan } from '../report/plan-mask.ts';
import { maskedRestore } from '../report/plan-restore.ts';
import { restoreExitCode } from '../restore/apply.ts';
import type { RestoreReport } from '../restore/restore-report.ts';
import { EXIT } from '../core/errors.ts';
import { isExecutable, type Plan } from '../restore/plan.ts';
import { withoutSecretIds } from '../restore/scrubbed.ts';
import { groupAlike } from './collection-groups.ts';
import type { RestoreSession } from './restore-session.ts';

type Definitions = RestoreSession['definitions'];

/** Reasons that are named; the output has all. */
const SHOWN = 10;

/** What a guard refuses, what could not be read, and what is blocked or left to a person. */
export function planReason(whole: Plan, definitions: Definitions): string[] {
  const plan = maskedPlan(whole, definitions);
  const stopped = plan.steps.filter((step) => !isExecutable(step));
  return shortened([
    ...plan.refused.flatMap(({ reason, hint }) => [`the plan is refused: ${reason}`, `  → ${hint}`]),
    ...groupedNotes('not planned', plan.skipped ?? [], definitions),
    ...told(
      stopped.map(({ kind, action, reason }) => ({
        kind,
        what: action === 'manual' ? 'left to a person' : 'blocked',
        reason,
      })),
    ),
  ]);
}

/** What was not applied, or not as planned. */
export function restoreReason(whole: RestoreReport, definitions: Definitions): string[] {
  const code = restoreExitCode(whole);
  if (code === EXIT.done || code === EXIT.interrupted) return [];
  const report = maskedRestore(whole, definitions);
  // stderr is kept as logs are.
  const saidOf = (kind: Kind, reason: string | null): string | null =>
    reason === null ? null : withoutSecretIds(reason, [definitions(kind)]);
  const notDone = report.steps.filter(({ outcome }) => outcome !== 'applied');
  const doubtful = report.steps.filter(
    ({ outcome, verified, warning }) => outcome === 'applied' && (verified !== true || warning !== undefined),
  );
  return [
    `restore ${report.restore} of ${report.source} is ${report.outcome}`,
    ...shortened([
      ...told(
        notDone.map(({ kind, outcome, error, reason }) => ({
          kind,
          what: outcome === 'manual' ? 'left to a person' : outcome,
          reason: saidOf(kind, error?.message ?? reason),
        })),
      ),
      ...told(
        doubtful.map(({ kind, warning, verified, error }) => ({
          kind,
          what: 'applied, but',
          reason: saidOf(
            kind,
            warning ??
              error?.message ??
              (verified === false ? 'the service does not hold what was sent' : 'it was not read back'),
          ),
        })),
      ),
    ]).map((line) => `  ${line}`),
    `  → \`tidemark restores show ${report.restore}\` tells each step`,
  ];
}

/** One line for steps of a kind that ended alike. */
function told(
  steps: readonly { readonly kind: Kind; readonly what: string; readonly reason: string | null }[],
): string[] {
  return groupAlike(steps, ({ kind, what, reason }) => JSON.stringify([kind, what, reason])).map((group) => {
    const [{ kind, what, reason }] = group;
    return `${kind}: ${plural(group.length, 'step')} ${what}${reason === null ? '' : `: ${reason}`}`;
  });
}

function shortened(lines: readonly string[]): string[] {
  const more = lines.length - SHOWN;
  return more <= 0 ? [...lines] : [...lines.slice(0, SHOWN), `and ${plural(more, 'more reason')}`];
}
