/** `tidemark restore [FROM]`: plans how to bring the service to a state; with `--apply`, carries the plan out. */
import { whoText } from '../core/actor.ts';
import type { Kind } from '../catalog/kinds.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { localTime } from '../core/wording.ts';
import { contradictionText } from '../report/drift-document.ts';
import { unfinishedNote, readResumable, sourceToResume } from '../restore/apply/resume.ts';
import type { Gathered, RestoreRequest } from '../restore/plan/gather.ts';
import { makePlan } from '../restore/plan/make.ts';
import { type Plan, isExecutable } from '../restore/plan/plan.ts';
import { otherProfile } from '../restore/plan/settings.ts';
import { REFERRING, referringText, UNSELECTED, unselectedText } from '../report/plan-report.ts';
import { nameText } from '../report/value-text.ts';
import { acceptedBetween } from '../state/accepted-drift.ts';
import { ignoredIn } from '../state/drift.ts';
import { isPublished, lastReadings } from '../state/runs.ts';
import { type Reference, parseReference } from '../state/reference.ts';
import { redactionWith } from '../sync/redaction.ts';
import { type CommandContext, printNote } from './context.ts';
import { withRealIds } from './real-ids.ts';
import {
  lookupIn,
  planFormat,
  type PlanFormat,
  requireConsent,
  savePlan,
  showAndSend,
  withKeyCheck,
} from './plan.ts';
import { sendPlan } from './restore-send.ts';
import { snapshotNames } from './state-opener.ts';
import { requireNoneAcceptedSince } from './apply.ts';
import { abandonRestore } from './restore-abandon.ts';
import { journalOf, openSession, restoreNumber, type RestoreSession } from './restore-session.ts';
import { latestLoss } from './recorded-loss.ts';
import { desiredFor } from './undo.ts';
import { age } from './export-notes.ts';
import { filterOf } from './filter-options.ts';

export interface RestoreOptions {
  readonly from?: string;
  readonly kind?: readonly Kind[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly id?: readonly string[];
  readonly withChildren?: boolean;
  readonly field?: readonly string[];
  readonly prune?: boolean;
  readonly maxRemovals?: number;
  readonly maxShare?: number;
  readonly createOrganizations?: boolean;
  readonly inviteMissing?: boolean;
  readonly sendEmail?: boolean;
  readonly keepAccepted?: boolean;
  readonly out?: string;
  readonly apply?: boolean;
  readonly yes?: boolean;
  /** A number as text, or true for the latest unfinished one. */
  readonly resume?: string | true;
  /** A number as text, or true for the latest one. */
  readonly abandon?: string | true;
  readonly format?: PlanFormat;
  readonly as?: string;
}

/**
 * Exit codes without `--apply`: 0 nothing to do, 2 steps, 3 blocked or manual steps or something unread, 6 refused by a safety
 * limit. With `--apply`: 0 everything compared, applied and read back, 3 not everything, 130 interrupted; if the plan was
 * refused or declined, nothing was sent, and the code is that of the plan.
 */
export async function restore(context: CommandContext, asked: RestoreOptions): Promise<ExitCode> {
  if (asked.resume !== undefined) return resumeRestore(context, asked);
  if (asked.abandon !== undefined) return abandonRestore(context, asked);
  const reference = checkOptions(context, asked);
  using session = await openSession(context, {
    command: 'restore',
    writes: asked.apply === true,
    needsNoMirror: reference.form === 'file' && asked.keepAccepted !== true,
    as: asked.as,
  });
  const { config, source, mirror } = session;
  requirePast(reference, mirror?.runs.latest(source.name)?.finishedAt ?? '');
  const { options } = await withRealIds(asked, config, {
    mirror: () => mirror,
    sources: [source.name],
    states: async () => [{ source: source.name, state: await session.open(reference, {}) }],
    readsLive: true,
    note: (line) => printNote(context, [line]),
    // If nothing is asked, nobody sees which record is taken before the plan is sent.
    isPartEnough: asked.yes !== true,
  });
  const unfinished = mirror === null ? null : unfinishedNote(mirror, source.name, asked.apply === true);
  const { plan: made, ...gathered } = await planFor(session, reference, requestOf(options, reference)).catch(
    (error: unknown) => {
      printNote(context, unfinished === null ? [] : [unfinished]);
      throw withEarlierState(error, session, { reference, options, asked });
    },
  );
  const { run } = made.from;
  const state = run === undefined ? asked.from : `run:${run}`;
  const checked = await withKeyCheck(session, made);
  const plan = { ...checked, command: planCommand(context, asked, state, source.name) };
  const notes = [
    ...gathered.notes,
    ...unsetSecrets(session, plan),
    ...otherProfile(session.source, plan),
    ...earlierStateNotes(session, plan, gathered.input, { reference, options, asked }),
    ...unselectedNotes(session, plan, asked),
    ...referringNotes(session, plan, asked),
  ];
  if (options.out !== undefined) await savePlan(context, plan, options.out);
  const desired = lookupIn(gathered.input.desired);
  return await showAndSend(
    session,
    { plan, desired, notes, unfinished, approved: approvedOf(options) },
    options,
  );
}

function checkOptions(context: CommandContext, options: RestoreOptions): Reference {
  planFormat(context, options);
  const reference = parseReference(options.from ?? 'latest', systemClock.now(), {
    refuses: ['live'],
    snapshots: snapshotNames(context),
  });
  const wrong = (message: string, hint: string): never => {
    throw new TidemarkError('usage', message, { hint });
  };
  if (reference.form === 'live')
    wrong('live is the state to restore, not one to restore from', 'name a state, like baseline or run:N');
  if (options.maxRemovals !== undefined && options.prune !== true)
    wrong('--max-removals limits what --prune removes', 'give --prune as well, or neither');
  if (options.withChildren === true && options.kind === undefined && options.id === undefined)
    wrong('--with-children adds what is below what --kind and --id select', 'give one of these as well');
  if (options.apply !== true && options.yes === true)
    wrong('--yes agrees to what --apply sends', 'give --apply as well');
  if (options.apply === true && (options.format ?? 'text') !== 'text' && options.format !== 'json')
    wrong(`--format ${options.format} shows a plan, but --apply prints a result`, 'leave one of them out');
  if (options.apply === true) requireConsent(context, options, planCommand(context, options));
  return reference;
}

/** Refuses a time in the future; what a run of the mirror read is past even if the clock of this machine is slow. */
function requirePast(reference: Reference, newestEnd: string): void {
  if (reference.form !== 'time' || !reference.isAhead || reference.firstAt <= newestEnd) return;
  const { text, note } = reference;
  const how = note === undefined ? '' : ` (${note})`;
  throw new TidemarkError('usage', `${text} is in the future${how}: there is no state of it to restore`, {
    hint: 'correct it, or name latest',
  });
}

function requestOf(options: RestoreOptions, reference: Reference): RestoreRequest {
  return {
    filter: filterOf(options),
    withChildren: options.withChildren === true,
    fields: options.field ?? [],
    // Removing needs a limit: without one the plan shows what would be removed, and is refused.
    prune: options.prune === true ? { maxRemovals: options.maxRemovals ?? 0 } : null,
    createOrganizations: options.createOrganizations === true,
    inviteMissing: options.inviteMissing === true,
    sendEmail: options.sendEmail === true,
    keepAccepted: options.keepAccepted === true,
    maxShare: options.maxShare ?? null,
    isAgeMeant: reference.form !== 'latest',
  };
}

function approvedOf(options: RestoreOptions): Record<string, number | boolean> {
  const names = [
    ...(['prune', 'maxRemovals', 'maxShare', 'createOrganizations'] as const),
    ...(['inviteMissing', 'sendEmail', 'keepAccepted'] as const),
  ];
  return Object.fromEntries(
    names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])),
  );
}

/** The command with these options that only plans, `from` another state if that is given. */
function planCommand(
  context: CommandContext,
  options: RestoreOptions,
  from = options.from,
  ofSource?: string,
): string {
  const { kind, organization, project, id, withChildren, field } = options;
  const { config, source = ofSource } = context.options;
  const given: Readonly<Record<string, string | readonly string[] | number | boolean | undefined>> = {
    config,
    source,
    kind,
    organization,
    project,
    id,
    withChildren,
    field,
    ...approvedOf(options),
  };
  const words = Object.entries(given).flatMap(([name, value]) => {
    const option = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === undefined || value === false) return [];
    if (value === true) return [option];
    return [value].flat().map((each) => `${option} ${shellWord(String(each))}`);
  });
  return ['tidemark restore', ...(from === undefined ? [] : [shellWord(from)]), ...words].join(' ');
}

/** If an organization that neither side has was removed, the error with the run that removed it and a state that has it. */
function withRemoval(error: unknown, { mirror, source }: RestoreSession, asked: readonly string[]): unknown {
  if (!(error instanceof TidemarkError) || error.code !== 'reference_unknown' || mirror === null)
    return error;
  const runs = mirror.runs.list({ source: source.name }).filter(isPublished);
  const own = { sources: [source.name] };
  for (const id of asked) {
    for (const row of mirror.records.find('organizations', id, own)) {
      const removed = mirror.records.asOf(row, runs[0]?.run ?? 0)?.removed?.run;
      const before = runs.find(({ run }) => removed !== undefined && run < removed);
      if (removed !== undefined && before !== undefined)
        return new TidemarkError(error.code, error.message, {
          hint: `organization ${nameText(id)} was removed in run ${removed}; name a state that has it: \`tidemark restore run:${before.run}\``,
          cause: error,
        });
    }
  }
  return error;
}

async function planFor(
  session: RestoreSession,
  reference: Reference,
  request: RestoreRequest,
): Promise<Gathered & { readonly plan: Plan }> {
  const { source, definitions, mirror, config } = session;
  const desired = await session.open(reference, request.filter);
  const now = systemClock.now();
  return await makePlan({
    request,
    desired,
    readLive: (filter) => session.readLive(filter, { against: desired }),
    source,
    definitions,
    idMap: mirror?.restores.idMap(source.name) ?? [],
    acceptedIn: async (live) =>
      mirror === null
        ? { accepted: [], contradicted: [] }
        : await acceptedBetween(config, mirror, { from: desired, to: live }, { source: source.name, now }),
    ignores: ignoredIn(config, source.name),
    contradictionText: (each) => contradictionText(each, source.name, definitions),
    held: mirror?.runs.heldRecords(source.name) ?? [],
    lastSeen: mirror === null ? () => undefined : lastReadings(mirror, source.name),
    redaction: source.redact && mirror !== null ? redactionWith(mirror.acceptances.fingerprintKey()) : null,
    now,
  }).catch((error: unknown) => {
    throw withRemoval(error, session, request.filter.organizations ?? []);
  });
}

/**
 * The configuration's warnings about secrets of kinds whose steps lack some: otherwise the plan would ask for a rule that is
 * there already, although only its variable or file is missing.
 */
function unsetSecrets({ config, source }: RestoreSession, { steps }: Plan): string[] {
  const kinds = new Set(steps.filter(({ needs }) => needs.length > 0).map(({ kind }) => kind));
  const index = config.configured.findIndex(({ name }) => name === source.name);
  const places = [...kinds].map((kind) => `sources[${index}].secrets.${kind}[`);
  return config.warnings.filter((warning) => places.some((place) => warning.includes(place)));
}

// `tidemark restore --resume [N]`: continues an approved restore, without the steps that are done.

/** Options that do not change what was approved. */
const HARMLESS: ReadonlySet<string> = new Set(['resume', 'apply', 'yes', 'format', 'as']);

/**
 * Sends without asking: the plan was approved when the restore began. Exit codes as `restore --apply`.
 * @throws TidemarkError `usage` with any other option, or if there is nothing to continue
 */
async function resumeRestore(context: CommandContext, options: RestoreOptions): Promise<ExitCode> {
  const others = Object.entries(options).filter(
    ([name, value]) => value !== undefined && !HARMLESS.has(name),
  );
  if (others.length > 0) {
    throw new TidemarkError('usage', '--resume continues what was approved, and takes no other option', {
      hint: 'give --resume alone, or with the number of the restore',
    });
  }
  const { resume } = options;
  const number = typeof resume === 'string' ? restoreNumber(resume) : undefined;
  using session = await openSession(context, {
    command: 'restore',
    writes: true,
    needsNoMirror: false,
    as: options.as,
    sourceIn: (mirror, names) => sourceToResume(mirror, names, number),
  });
  const resumable = readResumable(journalOf(session), session.source.name, number);
  const { row, plan } = resumable;
  const isDone = new Set(
    journalOf(session)
      .restores.steps(row.restore)
      .flatMap(({ n, outcome }) => (outcome === 'applied' ? [n] : [])),
  );
  requireNoneAcceptedSince(session, plan, {
    hint: `nothing was sent; end it with \`tidemark restore --abandon ${row.restore}\` and make a new plan with --keep-accepted, or withdraw what was accepted with \`tidemark drift unaccept\``,
    isDone: ({ n }) => isDone.has(n),
  });
  printNote(context, [`continuing restore ${row.restore} of ${localTime(row.startedAt)} by ${whoText(row)}`]);
  return await sendPlan(session, {
    plan,
    desired: await desiredFor(session, journalOf(session), resumable),
    restore: row.restore,
    ...(row.undoes === null ? {} : { undoes: row.undoes }),
  });
}

// The trap of `restore` without FROM: after a sync that ran after the damage, the latest state is the damaged one.

interface Question {
  readonly reference: Reference;
  readonly options: RestoreOptions;
  /** The options as the user gave them: a secret id may be masked. */
  readonly asked: RestoreOptions;
}

/** The last loss that a run recorded, as text, and the command that plans to restore the state before it. */
function recordedLoss(
  { context, mirror, config, source, definitions }: RestoreSession,
  { options, asked }: Question,
  isLive?: (kind: Kind, id: string) => boolean,
): { readonly text: string; readonly command: string; readonly runs: readonly [number, number] } | null {
  const loss =
    mirror &&
    latestLoss(mirror, {
      ...{ config, source: source.name, definitions, filter: filterOf(options) },
      ...(isLive && { isLive }),
    });
  if (loss === null) return null;
  const { run, before, text } = loss;
  return {
    text: `run ${run.run} (${age(run.finishedAt, systemClock.now())}) recorded ${text}`,
    command: planCommand(context, asked, `run:${before.run}`),
    runs: [before.run, run.run],
  };
}

/** If neither side has what `--id`, `--organization` or `--project` name, the error with the state that had it. */
function withEarlierState(error: unknown, session: RestoreSession, question: Question): unknown {
  const { reference, options } = question;
  if (!(error instanceof TidemarkError) || reference.form !== 'latest') return error;
  const { id, organization, project } = options;
  const isAbsent =
    error.code === 'reference_unknown'
      ? id !== undefined
      : error.code === 'not_found' && (organization ?? project) !== undefined;
  if (!isAbsent) return error;
  const loss = recordedLoss(session, question);
  if (loss === null) return error;
  return new TidemarkError(error.code, error.message, {
    hint: `${loss.text}: \`${loss.command}\` plans to restore what was before it`,
    cause: error,
  });
}

/** If nothing can be sent to restore the latest state: lines that name the state before the last loss. */
function earlierStateNotes(
  session: RestoreSession,
  plan: Plan,
  input: Gathered['input'],
  question: Question,
): string[] {
  if (question.reference.form !== 'latest' || plan.steps.some(isExecutable)) return [];
  const live = new Set(input.live.records.map(({ kind, id }) => `${kind} ${id}`));
  const loss = recordedLoss(session, question, (kind, id) => live.has(`${kind} ${id}`));
  if (loss === null) return [];
  const why =
    plan.steps.length === 0
      ? 'the live state has not changed since the latest run'
      : 'nothing that differs from the latest run can be sent';
  const [before, run] = loss.runs;
  return [
    `${why}; ${loss.text}`,
    `  → \`${loss.command}\` plans to restore the state before it; \`tidemark diff run:${before} run:${run}\` shows the difference`,
  ];
}

/** Lines about what was lost along with what the plan creates, but is left out by the filters. */
function unselectedNotes(
  { context, definitions }: RestoreSession,
  { unselected = [] }: Plan,
  asked: RestoreOptions,
): string[] {
  if (unselected.length === 0) return [];
  return [
    `${UNSELECTED}: ${unselectedText(unselected, definitions)} below it`,
    `  → \`${planCommand(context, { ...asked, withChildren: true })}\` plans to restore that too`,
  ];
}

/** Lines about records that will still refer to a created record by its old id, with the command that plans to correct them. */
function referringNotes(
  { context, definitions, source }: RestoreSession,
  { referring = [] }: Plan,
  asked: RestoreOptions,
): string[] {
  if (referring.length === 0) return [];
  const kind = referring.map((own) => own.kind);
  const command = planCommand(context, { kind }, asked.from, source.name);
  return [
    `${REFERRING}: ${referringText(referring, { definitions })}`,
    `  → after this restore, \`${command}\` plans what can be sent for that, and names what is manual work`,
  ];
}
