/** Shows a plan; with `--apply` and without refusals, asks for consent and sends it. */
import { resolve } from 'node:path';
import type { Kind } from '../catalog/kinds.ts';
import { presentIn } from '../config/source.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { type ExitCode, TidemarkError, asTidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { formatInteger } from '../core/wording.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import { valueDigest } from '../diff/canonical.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { continuedIds } from '../diff/found-again.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { maskedPlan, maskedRestore } from '../report/plan-mask.ts';
import { planReport, planSummary, sentItems } from '../report/plan-report.ts';
import { renderHtml } from '../report/render-html.ts';
import { renderMarkdown } from '../report/render-markdown.ts';
import { renderText } from '../report/render-text.ts';
import type { DesiredLookup } from '../restore/apply/ready-step.ts';
import { unsentReport } from '../restore/apply/report.ts';
import {
  type PlanState,
  type Plan,
  isExecutable,
  planExitCode,
  planDocument,
  type PlanStep,
} from '../restore/plan/plan.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { recordKey } from '../restore/records.ts';
import { configuredSecrets } from '../restore/secrets.ts';
import { parseReference } from '../state/reference.ts';
import {
  isOneOutput,
  print,
  printNote,
  printReason,
  type CommandContext,
  lineOptions,
  printDocument,
} from './context.ts';
import { planReason } from './plan-reason.ts';
import { sendPlan } from './restore-send.ts';
import type { RestoreSession } from './restore-session.ts';
import { probeKey } from './source-probe.ts';
import { writeAtomically } from './atomic-file.ts';
import { printPage } from './pager.ts';

interface ShowOptions {
  readonly apply?: boolean;
  /** The file of a saved plan: the user has read it, so unless a question is asked, its counts are enough. */
  readonly savedAs?: string;
  readonly yes?: boolean;
  readonly format?: PlanFormat;
  readonly out?: string;
}

interface Shown {
  readonly plan: Plan;
  readonly desired: DesiredLookup;
  readonly notes: readonly string[];
  /** A note that another restore is unfinished: the first one below the plan. */
  readonly unfinished?: string | null;
  readonly approved?: Readonly<Record<string, JsonValue>>;
  readonly undoes?: number;
}

/** Returns the exit code of the plan if nothing was sent, else that of the restore. */
export async function showAndSend(
  session: RestoreSession,
  { plan, notes, unfinished = null, ...sending }: Shown,
  options: ShowOptions,
): Promise<ExitCode> {
  const { context } = session;
  const format = planFormat(context, options);
  const sends = plan.refused.length === 0 && plan.steps.some(isExecutable);
  const continued = unrecordedIds(session, plan);
  const isApplied = options.apply === true && (sends || continued > 0);
  printNote(context, notes);
  // Before any other advice: the user may want to continue that restore.
  const pending = unfinished === null ? [] : [unfinished];
  // With JSON, only one document is printed: of the plan, or of the restore. With `--yes --quiet` the plan is not shown.
  const isSeen = options.yes === true && context.options.quiet === true;
  if (options.apply === true && format === 'json' && plan.refused.length === 0 && !isApplied) {
    const { definitions, source } = session;
    const report = unsentReport(plan, source.name, sending.undoes ?? null, isoTime(systemClock.now()));
    await print(context, `${JSON.stringify(maskedRestore(report, definitions))}\n`);
    printNote(context, pending);
    printReason(context, planReason(plan, definitions));
    printNote(context, ['nothing was sent']);
    return planExitCode(plan);
  }
  const isAsked = isApplied && options.yes !== true;
  // If nothing is asked, the result is what counts: it also names what is blocked. A saved plan was read before.
  const isBrief = options.savedAs !== undefined || isApplied;
  const isShown = !(isBrief && format === 'text' && !isAsked && context.options.verbose !== true);
  if (!isShown) {
    if (!isSeen)
      await print(
        context,
        `${planName(plan, sending, options)}: ${planSummary(plan)} (-v lists the steps)\n`,
      );
  } else if (!isApplied || (format !== 'json' && !isSeen)) {
    await printPlan(session, plan, format, { notes, isApplied, isAskedAbout: isAsked });
  }
  const isReasonShown = isShown && format === 'text' && isOneOutput(context);
  const reason = planReason(plan, session.definitions, { isReasonShown });
  printNote(context, [
    // Close to the question, and also if the plan is not shown.
    ...(isApplied ? (plan.warnings ?? []) : []),
    ...pending,
  ]);
  if (!isApplied) {
    printReason(context, reason);
    if (options.apply === true) printNote(context, ['nothing was sent']);
    else if (sends && format === 'text' && options.out === undefined) {
      printNote(context, [
        sending.undoes === undefined
          ? 'dry run: apply with --apply, or save with --out FILE for `tidemark apply FILE`'
          : 'dry run: apply with --apply',
      ]);
    }
    if (options.apply !== true && continued > 0 && format === 'text')
      printNote(context, [recordingText(continued, sends)]);
    return planExitCode(plan);
  }
  if (!(await consents(context, options, plan, session))) {
    printReason(context, reason);
    printNote(context, ['nothing was sent']);
    return planExitCode(plan);
  }
  return sendPlan(session, { plan, ...sending });
}

/** What is sent, for output that does not list the steps: a file, an undo, or the state that is restored. */
function planName({ from }: Plan, { undoes }: Pick<Shown, 'undoes'>, { savedAs }: ShowOptions): string {
  if (savedAs !== undefined) return savedAs;
  if (undoes !== undefined) return `undo of restore ${undoes}`;
  const run = from.run === undefined || from.ref === `run:${from.run}` ? '' : ` (run ${from.run})`;
  return `restore from ${from.ref}${run}`;
}

/** Adds a warning to the plan if the service reports that the key lacks permissions which its steps need. */
export async function withKeyCheck(
  { context, config, source, definitions }: RestoreSession,
  plan: Plan,
): Promise<Plan> {
  const sent = plan.steps.filter(isExecutable);
  const permissions = sent.length === 0 ? null : await probeKey(context, source, config.rateLogBeside);
  if (permissions === null || permissions.includes('*')) return plan;
  const needed = ({ kind, request }: PlanStep): string => definitions(request?.kind ?? kind).permission.write;
  const refused = sent.filter((step) => !permissions.includes(needed(step)));
  if (refused.length === 0) return plan;
  const lacking = [...new Set(refused.map(needed))].join(', ');
  const which = refused.length === sent.length ? 'every step' : `${refused.length} of ${sent.length} steps`;
  const warning = `the key lacks ${lacking}: the service would refuse ${which}`;
  return { ...plan, warnings: [...(plan.warnings ?? []), warning] };
}

/** How many ids applying the plan would record; some of a saved plan may be recorded already. */
function unrecordedIds({ mirror, source }: RestoreSession, { adopted, refused }: Plan): number {
  if (refused.length > 0) return 0;
  const known = new RecreatedIds(mirror?.restores.idMap(source.name) ?? []);
  return continuedIds({
    adopted: adopted.filter((each) => !known.all(each.kind, each.desired_id).includes(each.live_id)),
  });
}

/** Says that applying the plan records ids, besides its requests or without any. */
function recordingText(continued: number, sends: boolean): string {
  const [ids, they, are] =
    continued === 1
      ? ['1 new id', 'it', 'it is']
      : [`${formatInteger(continued)} new ids`, 'them', 'they are'];
  if (sends)
    return `applying the plan also records ${ids}: drift lists ${they} as added and removed until then`;
  return `dry run: nothing would be sent, and --apply records ${ids}: drift lists ${they} as added and removed until \`restore --apply\` records that ${are} the same`;
}

/** The lookup for plans whose desired state is in memory. */
export function lookupIn({ records }: Pick<PlanState, 'records'>): DesiredLookup {
  let byPlace: ReadonlyMap<string, ParsedRecord> | null = null;
  return ({ kind, scope, id }) => {
    byPlace ??= new Map(records.map((record) => [recordKey(record), record]));
    return byPlace.get(recordKey({ kind, scope, id }))?.body;
  };
}

// Consent to send a plan: `--yes`, or a person on a terminal who has seen the plan (design.md, Commands).

interface ConsentOptions {
  readonly yes?: boolean;
}

/** The question names at most this many steps, the riskiest ones. */
const RISKIEST_SHOWN = 5;

/**
 * Checks, before anything is read or sent, for `--yes` or a terminal.
 * @param command the command that shows the plan; null for a saved plan
 * @throws TidemarkError `usage` if there is neither
 */
export function requireConsent(
  context: CommandContext,
  { yes }: ConsentOptions,
  command: string | null,
): void {
  if (yes === true) return;
  const look = command === null ? 'read the saved plan' : `check the plan with \`${command}\``;
  if (context.options.json === true) {
    throw new TidemarkError('usage', 'with --json, the plan is not shown before it is sent', {
      hint: `${look}${command === null ? '' : ' without --json'}, then give --yes; nothing was sent`,
    });
  }
  if (context.stdin.isTTY && context.stderr.isTTY === true) return;
  throw new TidemarkError('usage', 'no terminal to ask on, and --yes was not given', {
    hint: `${look}, then give --yes; nothing was sent`,
  });
}

/**
 * Asks, unless `--yes` is given. The plan was printed above the question.
 * @returns false if the user says no
 * @throws TidemarkError `interrupted` if the user leaves the question; nothing was sent then
 * @internal
 */
export async function consents(
  context: CommandContext,
  { yes }: ConsentOptions,
  plan: Plan,
  {
    source,
    definitions,
  }: Pick<RestoreSession, 'definitions'> & { readonly source: Pick<RestoreSession['source'], 'name'> },
): Promise<boolean> {
  if (yes === true) return true;
  const { askYesNo } = await import('./prompt.ts');
  const sends = plan.steps.some(isExecutable);
  const answer = await askYesNo(
    context,
    [
      `${planSummary(plan)}: ${sends ? `send this to` : `record this for`} ${source.name}?`,
      ...riskiestStepLines(plan, definitions),
    ].join('\n'),
    {
      yes: sends ? 'Yes, send it' : 'Yes, record it',
      no: 'No',
    },
  );
  if (answer === null) {
    throw new TidemarkError('interrupted', 'nothing was sent', {
      hint: 'a plan that `tidemark restore --out FILE` saves can be applied later, with `tidemark apply FILE`',
    });
  }
  return answer;
}

/** Actions in the order in which the question names their steps if it cannot name all. */
const RISK_RANK: Readonly<Record<string, number>> = { remove: 0, update: 1, act: 2, create: 3 };

/**
 * Names the riskiest steps, with the numbers, names and order of the plan above, and counts the others.
 * @internal
 */
export function riskiestStepLines(plan: Plan, definitions: RestoreSession['definitions']): string[] {
  const actions = new Map(plan.steps.map(({ n, action }) => [n, action]));
  const rank = (number = 0): number => RISK_RANK[actions.get(number) ?? ''] ?? 0;
  const items = sentItems(maskedPlan(plan, definitions), { definitions });
  // The line that counts the others needs as much space as one more step.
  const most = items.length <= RISKIEST_SHOWN + 1 ? items.length : RISKIEST_SHOWN;
  const byRisk = items.toSorted((a, b) => rank(a.number) - rank(b.number));
  const shown = byRisk.slice(0, most).toSorted((a, b) => (a.number ?? 0) - (b.number ?? 0));
  const others = Map.groupBy(byRisk.slice(most), ({ operation = '' }) => operation);
  const counts = [...others].map(([operation, own]) => `${formatInteger(own.length)} × ${operation}`);
  return [
    ...shown.map(
      ({ number, operation = '', name }) =>
        `${String(number).padStart(4)} ${operation} ${escapeControlCharacters(name)}`,
    ),
    ...(counts.length > 0
      ? [`     and ${formatInteger(items.length - most)} more: ${counts.join(', ')}`]
      : []),
  ];
}

// Printing a plan as text, JSON, Markdown or HTML, and saving it for `tidemark apply`.

export type PlanFormat = 'text' | 'json' | 'markdown' | 'html';

/** The format given with `--json` or `--format`. @throws TidemarkError `usage` for `--json` with another format */
export function planFormat({ options }: CommandContext, { format }: Pick<ShowOptions, 'format'>): PlanFormat {
  if (options.json !== true) return format ?? 'text';
  if (format === undefined || format === 'json') return 'json';
  throw new TidemarkError('usage', `--json and --format ${format} exclude each other`, {
    hint: 'leave one of them out',
  });
}

async function printPlan(
  { context, config, source, definitions, parentName }: RestoreSession,
  plan: Plan,
  format: PlanFormat,
  {
    notes = [],
    isApplied,
    isAskedAbout,
  }: {
    readonly notes?: readonly string[];
    readonly isApplied: boolean;
    readonly isAskedAbout: boolean;
  },
): Promise<void> {
  if (format === 'json') {
    const document = planDocument(maskedPlan(plan, definitions));
    await print(context, `${JSON.stringify(document)}\n`);
    return;
  }
  // A mirror that this restore creates does not have the names yet.
  const planned = new Map([
    ...plan.adopted.map(({ kind, live_id: id, name }) => [`${kind} ${id}`, name] as const),
    ...plan.steps.map(({ kind, id, name }) => [`${kind} ${id}`, name] as const),
  ]);
  const report = planReport(plan, {
    definitions,
    present: presentIn(config, source.name),
    parentName: (kind: Kind, id: string) => parentName?.(kind, id) ?? planned.get(`${kind} ${id}`),
    generatedAt: isoTime(systemClock.now()),
    isWhole: context.options.verbose === true,
    // No pager is used before a question: hundreds of similar steps would push all else off the screen.
    countsAlike: isAskedAbout && context.options.verbose !== true,
    ...(format === 'text' ? {} : { notes }),
  });
  if (format === 'text') {
    const text = renderText(report, lineOptions(context));
    // A plan that is asked about stays on the screen.
    await (isApplied ? print : printPage)(context, text);
  } else await printDocument(context, format === 'markdown' ? renderMarkdown(report) : renderHtml(report));
}

/** Saves the complete plan for `apply`; it contains no secret value. */
export async function savePlan(context: CommandContext, plan: Plan, file: string): Promise<void> {
  await writeAtomically(
    resolve(context.cwd, file),
    [`${JSON.stringify(planDocument(plan), null, 1)}\n`],
    context,
  );
  const sends = plan.steps.some(isExecutable);
  const does = sends ? 'sends it' : 'records the ids';
  printNote(context, [
    plan.refused.length > 0
      ? `the plan is refused: saved to ${file} to be read, \`tidemark apply\` will not send it`
      : `plan saved to ${file}${sends || continuedIds(plan) > 0 ? `: \`tidemark apply ${shellWord(file)}\` ${does}` : ''}`,
  ]);
}

// The desired records of a saved plan: they contain secrets, or show where configured secrets belong.

/**
 * Reads the state that the plan was made from again, if a step takes values from it, or creates a record that must be
 * distinguished from another desired record of the same name. The state is read by its run: `latest` may be another one by now.
 * @throws TidemarkError `unsafe_plan` if a desired record has changed since the plan was made; `config_invalid` if the
 * configuration no longer has a secret that the plan needs; what opening the state throws
 */
export async function desiredOf(session: RestoreSession, plan: Plan): Promise<DesiredLookup> {
  const filling = plan.steps.filter(
    ({ desired, request }) => desired !== null && request?.fills.some(({ from }) => from !== 'step') === true,
  );
  const creating = plan.steps.filter(({ request }) => request?.role === 'create');
  const kinds = new Set([...filling, ...creating].flatMap(({ desired }) => desired?.kind ?? []));
  if (kinds.size === 0) return () => undefined;
  const bodies = await bodiesOf(session, plan, [...kinds], filling.length > 0);
  checkDesired(session, filling, bodies);
  return (record) => bodies.get(recordKey(record));
}

/** The bodies of the records of these kinds in the state of a saved plan. @throws TidemarkError if it cannot be read */
export async function recordedBodies(
  session: RestoreSession,
  plan: Plan,
  kinds: readonly Kind[],
): Promise<ReadonlyMap<string, JsonValue>> {
  const { run, ref } = plan.from;
  const reference = parseReference(run === undefined ? ref : `run:${run}`, systemClock.now());
  const state = await session.open(reference, { kinds });
  state.requireCounted?.(state.collections().filter(({ kind }) => kinds.includes(kind)));
  return new Map(
    [...state.records({ kinds })].map((record) => [recordKey(record), parseLossless(record.body)]),
  );
}

async function bodiesOf(
  session: RestoreSession,
  plan: Plan,
  kinds: readonly Kind[],
  isNeeded: boolean,
): Promise<ReadonlyMap<string, JsonValue>> {
  try {
    return await recordedBodies(session, plan, kinds);
  } catch (error) {
    if (isNeeded) throw error;
    // Without the state, a record with the name of a desired one counts as created by hand: its step is refused, so nothing is duplicated.
    const why = `${plan.from.ref} cannot be read any more (${asTidemarkError(error).message})`;
    printNote(session.context, [`${why}: a record whose name is taken is not changed`]);
    return new Map();
  }
}

function checkDesired(
  { source, mirror }: RestoreSession,
  steps: readonly PlanStep[],
  bodies: ReadonlyMap<string, JsonValue>,
): void {
  const secrets = configuredSecrets(source.secrets, mirror?.restores.idMap(source.name));
  const missing: string[] = [];
  for (const { kind, name, desired, request } of steps) {
    if (desired === null) continue;
    const { scope, id } = desired;
    const body = bodies.get(recordKey(desired));
    if (body === undefined || valueDigest(body) !== desired.digest) {
      throw new TidemarkError(
        'unsafe_plan',
        `the desired ${kind} ${name} has changed since the plan was made`,
        {
          hint: 'make a new plan with `tidemark restore --out FILE`',
        },
      );
    }
    for (const { pointer, from } of request?.fills ?? []) {
      if (from === 'configuration' && secrets.find({ kind, scope, id, body }, pointer) === undefined)
        missing.push(`${kind} ${name}: ${pointer}`);
    }
  }
  if (missing.length === 0) return;
  throw new TidemarkError(
    'config_invalid',
    [`the plan needs secrets that the configuration does not have:`, ...missing].join('\n'),
    { hint: 'give them under secrets (docs/configuration.md); nothing was sent' },
  );
}
