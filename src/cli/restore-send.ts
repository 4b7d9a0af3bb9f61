/** Sends a plan that was shown and agreed to, with its progress, and tells what became of it. */
import { createColors } from 'picocolors';
import type { Scope, Kind } from '../catalog/definition.ts';
import { systemClock } from '../core/clock.ts';
import { compileSooner } from '../core/compile-sooner.ts';
import type { ExitCode } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { maskedRestore, renderRestoreText, type RestoreTextOptions } from '../report/plan-restore.ts';
import { secretLines } from '../report/plan-view.ts';
import { applyPlan, NO_EVENTS, restoreExitCode, type ApplyOptions } from '../restore/apply.ts';
import { configuredSecrets } from '../restore/configured-secrets.ts';
import { applyConcurrency } from '../restore/apply-concurrency.ts';
import type { Plan } from '../restore/plan.ts';
import { openWriteClient } from '../wire-client.ts';
import { isColoured, isInteractive, print, printNote, tellReason, type CommandContext } from './context.ts';
import { restoreReason } from './plan-reason.ts';
import { loggingAbove } from './progress-log.ts';
import { leavingText, showRestoreProgress, type RestoreProgress } from './restore-progress.ts';
import { type RestoreSession, journalOf } from './restore-session.ts';
import { commandLog } from './terminal-log.ts';

/** Looks up the body of a desired record, for the secrets that stand in clear in it. */
export type DesiredLookup = (key: {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}) => JsonValue | undefined;

interface Sending extends Pick<ApplyOptions, 'restore' | 'undoes' | 'approved'> {
  readonly plan: Plan;
  readonly desired: DesiredLookup;
}

/** Exit 0 all applied and read back as sent, 3 not all, 130 interrupted. */
export async function sendPlan(session: RestoreSession, sending: Sending): Promise<ExitCode> {
  const { context, source, definitions } = session;
  const mirror = journalOf(session);
  const level = context.options.logLevel ?? 'warn';
  let progress: RestoreProgress | null = null;
  let restore = sending.restore ?? 0;
  const log = loggingAbove(commandLog(context), level, () => progress?.clear());
  const client = openWriteClient(source, log, mirror.path);
  const onAbort = (): void => {
    // The bar says it by itself.
    if (progress === null) printNote(context, [leavingText(restore)]);
  };
  context.signal.addEventListener('abort', onAbort);
  if (isInteractive(context) && context.env['TERM'] !== 'dumb') {
    progress = showRestoreProgress(context, { clock: systemClock, figures: () => client.figures() });
  }
  compileSooner();
  try {
    const report = await applyPlan({
      ...sending,
      mirror,
      source,
      client,
      clock: systemClock,
      log,
      signal: context.signal,
      events: progress?.events ?? { ...NO_EVENTS, started: (number) => (restore = number) },
      secrets: configuredSecrets(source.secrets),
      concurrency: applyConcurrency(source.rate),
    });
    progress?.stop();
    await print(
      context,
      context.options.json === true
        ? `${JSON.stringify(maskedRestore(report, definitions))}\n`
        : `\n${renderRestoreText(report, { definitions, ...planDetails(sending.plan, definitions), ...lineOptions(context) })}`,
    );
    tellReason(context, restoreReason(report, definitions));
    return restoreExitCode(report);
  } finally {
    context.signal.removeEventListener('abort', onAbort);
    progress?.stop();
    await client.close();
  }
}

export function lineOptions(context: CommandContext) {
  return { colors: createColors(isColoured(context)), width: context.stdout.columns ?? 100 };
}

/** What a report tells out of the plan: the names of its actions, and the configuration that its secrets lack. */
export function planDetails(
  plan: Plan,
  definitions: RestoreSession['definitions'],
): Pick<RestoreTextOptions, 'actOf' | 'secretLines'> {
  const acts = new Map(plan.steps.map(({ n, request }) => [n, request?.act ?? null]));
  return { actOf: (n) => acts.get(n) ?? null, secretLines: secretLines(plan, { definitions }) };
}
