/** Shows a plan; where it is to be applied and nothing stands against it, asks and sends it. */
import { isoTime, systemClock } from '../core/clock.ts';
import type { ExitCode } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { maskedRestore } from '../report/plan-restore.ts';
import { type Plan, isExecutable, planExitCode } from '../restore/plan.ts';
import type { PlanState } from '../restore/plan-input.ts';
import { placeOf } from '../restore/record-place.ts';
import { unsentReport } from '../restore/restore-report.ts';
import { print, printNote, tellReason } from './context.ts';
import { consents } from './plan-consent.ts';
import { planFormat, printPlan, type PlanFormat } from './plan-output.ts';
import { planReason } from './plan-reason.ts';
import { type DesiredLookup, sendPlan } from './restore-send.ts';
import type { RestoreSession } from './restore-session.ts';

interface ShowOptions {
  readonly apply?: boolean;
  readonly yes?: boolean;
  readonly format?: PlanFormat;
  readonly out?: string;
}

interface Shown {
  readonly plan: Plan;
  readonly desired: DesiredLookup;
  readonly notes: readonly string[];
  readonly approved?: Readonly<Record<string, JsonValue>>;
  readonly undoes?: number;
}

/** Exit code of the plan where nothing was sent, else that of what became of it. */
export async function showAndSend(
  session: RestoreSession,
  { plan, notes, ...sending }: Shown,
  options: ShowOptions,
): Promise<ExitCode> {
  const { context } = session;
  const format = planFormat(context, options);
  const sends = plan.refused.length === 0 && plan.steps.some(isExecutable);
  const isApplied = options.apply === true && sends;
  printNote(context, notes);
  // One JSON document: of the plan, or of what became of it. Whoever agreed beforehand and wants quiet has seen it.
  const isSeen = options.yes === true && context.options.quiet === true;
  if (options.apply === true && format === 'json' && plan.refused.length === 0 && !sends) {
    const { definitions, source } = session;
    const report = unsentReport(plan, source.name, sending.undoes ?? null, isoTime(systemClock.now()));
    await print(context, `${JSON.stringify(maskedRestore(report, definitions))}\n`);
    tellReason(context, planReason(plan, definitions));
    printNote(context, ['nothing was sent']);
    return planExitCode(plan);
  }
  if (!isApplied || (format !== 'json' && !isSeen)) await printPlan(session, plan, format, notes);
  const reason = planReason(plan, session.definitions);
  if (!isApplied) {
    tellReason(context, reason);
    if (options.apply === true) printNote(context, ['nothing was sent']);
    else if (sends && format === 'text' && options.out === undefined) {
      printNote(context, [
        sending.undoes === undefined
          ? 'nothing was sent: add --apply to send this, or --out FILE to keep it for `tidemark apply`'
          : 'nothing was sent: add --apply to send this',
      ]);
    }
    return planExitCode(plan);
  }
  if (!(await consents(context, options, plan, session.source.name))) {
    tellReason(context, reason);
    printNote(context, ['nothing was sent']);
    return planExitCode(plan);
  }
  return sendPlan(session, { plan, ...sending });
}

/** For plans whose desired state is at hand. Of a hundred thousand records only those that are looked up are parsed. */
export function lookupIn({ records }: Pick<PlanState, 'records'>): DesiredLookup {
  let byPlace: ReadonlyMap<string, ParsedRecord> | null = null;
  return ({ kind, scope, id }) => {
    byPlace ??= new Map(records.map((record) => [placeOf(record.kind, record.scope, record.id), record]));
    return byPlace.get(placeOf(kind, scope, id))?.body;
  };
}
