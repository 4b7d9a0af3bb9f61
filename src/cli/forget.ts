/** `tidemark forget`: drops local history by retention. Never changes the service. */
import { type KeepOptions, type RetentionPolicy, retentionOf } from '../config/config.ts';
import { commandActor } from '../core/actor.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { duration, formatInteger, megabytes, plural } from '../core/wording.ts';
import type { ForgetResult } from '../mirror/forget.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type RetentionPlan, checkPolicy, rangesOf } from '../mirror/retention.ts';
import { contentComparison } from '../sync/content.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { print, printJson, printReason, type CommandContext, terminalWidth } from './context.ts';
import { errorDocument, errorLines } from './failure.ts';
import { openExistingMirror } from './when-free.ts';
import { renderTable } from '../report/table.ts';

export interface ForgetOptions extends KeepOptions {
  readonly dryRun?: boolean;
  readonly as?: string;
}

/** What is kept, and where that is set. */
interface Rules {
  readonly policy: RetentionPolicy;
  readonly from: 'options' | 'configuration';
}

/**
 * By the given rules, or those of the configuration. Exit 0 when done; 3 if the runs were forgotten, but the file or its log may still
 * contain parts of them.
 */
export async function forget(context: CommandContext, options: ForgetOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const given = retentionOf(options);
  const rules: Rules =
    Object.keys(given).length === 0 && config.retention !== null
      ? { policy: config.retention, from: 'configuration' }
      : { policy: given, from: 'options' };
  const { policy } = rules;
  // Before anything waits for a lock.
  checkPolicy(policy);
  const { source: sources } = context.options;
  const choice = { policy, ...(sources === undefined ? {} : { sources }) };
  if (options.dryRun === true) {
    using mirror = openConfiguredMirror(config, 'read', 'forget', context.pid);
    await show(context, mirror, rules, mirror.retention.plan(choice), null);
    return EXIT.done;
  }
  using mirror = openExistingMirror(context, config, 'forget', commandActor(options.as));
  const isEqual = contentComparison(config);
  const result = await mirror.retention.forget({ ...choice, isEqual });
  await show(context, mirror, rules, result, result);
  if (result.cleanupError === null) return EXIT.done;
  printReason(context, errorLines(result.cleanupError));
  return EXIT.partial;
}

/** @param result null for a dry run */
async function show(
  context: CommandContext,
  mirror: Mirror,
  rules: Rules,
  plan: RetentionPlan,
  result: ForgetResult | null,
): Promise<void> {
  if (context.options.json === true) {
    await printJson(context, document(mirror, rules, plan, result));
    return;
  }
  const lines = [
    ...(plan.kept.length === 0 ? ['nothing was published yet'] : [keptTable(plan, terminalWidth(context))]),
    '',
    rulesLine(rules),
    forgottenLine(plan, result === null),
    ...(result === null ? [] : resultLines(result)),
  ];
  await print(context, `${lines.join('\n')}\n`);
}

function keptTable({ kept }: RetentionPlan, width: number | undefined): string {
  return renderTable(
    ['kept', 'source', 'ended', 'because'],
    kept.map(({ run, source, at, reasons }) => [String(run), source, at, reasons.join(', ')]),
    ['right'],
    { width },
  );
}

/** E.g. `rules: last 7, daily 30, within 12 h (retention of the configuration)`. */
function rulesLine({ policy, from }: Rules): string {
  const { withinMs, ...counts } = policy;
  const named = [
    ...Object.entries(counts).map(([rule, count]) => `${rule} ${formatInteger(count)}`),
    ...(withinMs === undefined ? [] : [`within ${duration(withinMs)}`]),
  ];
  return `rules: ${named.join(', ')} (${from === 'options' ? 'of this command' : '`retention` of the configuration'})`;
}

function forgottenLine({ kept, forgotten }: RetentionPlan, isDry: boolean): string {
  if (forgotten.length === 0) return `nothing to forget: ${plural(kept.length, 'run')} kept`;
  const ranges = rangesOf(forgotten.map(({ run }) => run)).map(([first, last]) =>
    first === last ? `${first}` : `${first}–${last}`,
  );
  const were = forgotten.length === 1 ? 'was forgotten' : 'were forgotten';
  const operation = isDry ? 'would be forgotten' : were;
  return `${plural(forgotten.length, 'run')} ${operation}: ${ranges.join(', ')}`;
}

function resultLines({ done, bytesBefore, bytesAfter }: ForgetResult): string[] {
  const size = `the mirror takes ${megabytes(bytesAfter)}, before ${megabytes(bytesBefore)}`;
  if (done === null) return bytesAfter === bytesBefore ? [] : [size];
  return [
    `${plural(done.revisions, 'revision')} went; ${size}`,
    `new root hash: ${done.rootAfter}, before ${done.rootBefore}`,
  ];
}

function document(
  mirror: Mirror,
  { policy, from }: Rules,
  plan: RetentionPlan,
  result: ForgetResult | null,
): object {
  const { withinMs, ...counts } = policy;
  return {
    schema: 'tidemark.forget/1',
    mirror: mirror.path,
    dry_run: result === null,
    policy: { ...counts, ...(withinMs === undefined ? {} : { within_seconds: withinMs / 1000 }) },
    policy_from: from,
    kept: plan.kept,
    forgotten: plan.forgotten,
    forget: result?.done?.forget ?? null,
    revisions: result?.done?.revisions ?? null,
    root_before: result?.done?.rootBefore ?? null,
    root_after: result?.done?.rootAfter ?? null,
    bytes_before: result?.bytesBefore ?? null,
    bytes_after: result?.bytesAfter ?? null,
    error: errorDocument(result?.cleanupError ?? null),
  };
}
