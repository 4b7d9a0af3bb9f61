/** Applies a plan: the only writer of the remote (design.md, Restore: Apply). */
import type { WriteClient } from '../api/write-client.ts';
import type { Scope, Kind } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { SecretLookup } from './configured-secrets.ts';
import type { Plan, PlanStep } from './plan.ts';
import type { RestoreReport, StepReport } from './restore-report.ts';

export type { RestoreReport, StepReport } from './restore-report.ts';
export { restoreExitCode } from './restore-report.ts';

/** What happens while a plan is applied: for progress bars. Called synchronously; must not throw. */
export interface ApplyEvents {
  /** Once, before the first step: how many steps will be sent, those that a resumed restore has done left out. */
  started(restore: number, steps: number): void;
  stepStarted(step: PlanStep): void;
  stepEnded(step: PlanStep, report: StepReport): void;
  /** A write whose answer was lost is being looked up before it is sent again. */
  lookingUp(step: PlanStep): void;
}

export const NO_EVENTS: ApplyEvents = {
  started: () => undefined,
  stepStarted: () => undefined,
  stepEnded: () => undefined,
  lookingUp: () => undefined,
};

export interface ApplyOptions {
  readonly plan: Plan;
  /** Open for writing: its lock keeps other restores and syncs away. */
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  /** Stays open. */
  readonly client: WriteClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborted: the steps in flight are finished, no other one is begun. */
  readonly signal: AbortSignal;
  readonly events: ApplyEvents;
  readonly secrets: SecretLookup;
  /** The body of the desired record that a step names (`step.desired`), for the secrets that stand in clear in it. */
  readonly desired: (key: {
    readonly kind: Kind;
    readonly scope: Scope;
    readonly id: string;
  }) => JsonValue | undefined;
  /** Steps of a level sent at a time; the client's own limits apply besides. */
  readonly concurrency: number;
  /** What the user approved beside the plan; kept with the restore. */
  readonly approved?: Readonly<Record<string, JsonValue>>;
  /** The restore that the plan undoes. */
  readonly undoes?: number;
  /** Goes on with this restore instead of beginning one; its plan is `plan` (`readResumable`). */
  readonly restore?: number;
}

/**
 * Journals the plan and applies it, level by level. A refused plan is refused here too. What the far side does ends up
 * in the report; thrown is this machine's trouble (a journal that cannot be written), after the steps in flight ended.
 * @throws TidemarkError `unsafe_plan` when guards refuse the plan
 */
export async function applyPlan(options: ApplyOptions): Promise<RestoreReport> {
  throw new TidemarkError('internal', `not built yet: ${options.plan.hash}`);
}

/** The report of a restore that is in the journal: what `restores show` prints. */
export function restoreReport(mirror: Mirror, restore: number): RestoreReport {
  throw new TidemarkError('internal', `not built yet: ${mirror.path} ${restore}`);
}
