/** Prints a plan: text, JSON, Markdown or HTML; saves it for `tidemark apply`. */
import { resolve } from 'node:path';
import { createColors } from 'picocolors';
import type { Kind } from '../catalog/definition.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { maskedPlan } from '../report/plan-mask.ts';
import { renderPlanHtml } from '../report/plan-html.ts';
import { renderPlanMarkdown } from '../report/plan-markdown.ts';
import { renderPlanText } from '../report/plan-text.ts';
import { type Plan, isExecutable, planDocument } from '../restore/plan.ts';
import { isColoured, print, printNote, type CommandContext } from './context.ts';
import type { RestoreSession } from './restore-session.ts';
import { writeWhole } from './whole-file.ts';

export type PlanFormat = 'text' | 'json' | 'markdown' | 'html';

interface PlanOutputOptions {
  readonly format?: PlanFormat;
  readonly out?: string;
}

/** @throws TidemarkError `usage` for `--json` with another format */
export function planFormat({ options }: CommandContext, { format }: PlanOutputOptions): PlanFormat {
  if (options.json !== true) return format ?? 'text';
  if (format === undefined || format === 'json') return 'json';
  throw new TidemarkError('usage', `--json and --format ${format} exclude each other`, {
    hint: 'leave one of them out',
  });
}

export async function printPlan(
  { context, definitions, parentName }: Pick<RestoreSession, 'context' | 'definitions' | 'parentName'>,
  plan: Plan,
  format: PlanFormat,
  notes: readonly string[] = [],
): Promise<void> {
  if (format === 'json') {
    const document = planDocument(maskedPlan(plan, definitions));
    await print(context, `${JSON.stringify(document)}\n`);
    return;
  }
  const planned = namesIn(plan);
  const shared = {
    definitions,
    parentName: (kind: Kind, id: string) => parentName?.(kind, id) ?? planned.get(`${kind} ${id}`),
    generatedAt: isoTime(systemClock.now()),
  };
  if (format === 'markdown') await print(context, renderPlanMarkdown(plan, { ...shared, notes }));
  else if (format === 'html') await print(context, renderPlanHtml(plan, { ...shared, notes }));
  else {
    const colors = createColors(isColoured(context));
    await print(context, renderPlanText(plan, { ...shared, colors, width: context.stdout.columns ?? 100 }));
  }
}

/** Names of records that the plan is about, by `kind id`: a mirror that is made by this restore knows none of them. */
function namesIn({ steps, adopted }: Plan): ReadonlyMap<string, string> {
  return new Map([
    ...adopted.map(({ kind, live_id: id, name }) => [`${kind} ${id}`, name] as const),
    ...steps.map(({ kind, id, name }) => [`${kind} ${id}`, name] as const),
  ]);
}

/** Saves the plan, whole: it is what `apply` takes, and holds no secret value. */
export async function savePlan(context: CommandContext, plan: Plan, file: string): Promise<void> {
  await writeWhole(resolve(context.cwd, file), [`${JSON.stringify(planDocument(plan), null, 1)}\n`], context);
  const sends = plan.steps.some(isExecutable) && plan.refused.length === 0;
  printNote(context, [`plan saved to ${file}${sends ? `: \`tidemark apply ${file}\` sends it` : ''}`]);
}
