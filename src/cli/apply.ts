/** `tidemark apply PLAN`: sends a plan that `restore --out` saved, unless the live state has changed since. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import process from 'node:process';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import { EXIT, systemCodeOf, TidemarkError, type ExitCode, type ErrorCode } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { planCommand } from '../core/hints.ts';
import { systemClock } from '../core/clock.ts';
import { localTime, plural } from '../core/wording.ts';
import type { ApplyOrder } from '../daemon/http/restores.ts';
import { acceptedText } from '../diff/drift.ts';
import { newlyFound } from '../diff/found-again.ts';
import { fieldLine, nameText } from '../report/value-text.ts';
import { isSecretId, maskedFields, maskedPlace, withMaskedId } from '../report/mask.ts';
import { changedSincePlan, type Moved } from '../restore/apply/moved.ts';
import type { DesiredLookup } from '../restore/apply/ready-step.ts';
import { restoreOfPlan, unfinishedNote } from '../restore/apply/resume.ts';
import { kindsToRead } from '../restore/plan/dependents.ts';
import { planSide } from '../restore/plan/gather.ts';
import { idLookup } from '../state/recreated-ids.ts';
import { acceptedSincePlan } from '../restore/plan/accepted.ts';
import { readPlan, isExecutable, type Plan, type PlanStep } from '../restore/plan/plan.ts';
import { recordKey } from '../restore/records.ts';
import type { Coverage, LoadedState } from '../state/state.ts';
import { type CommandContext, printNote } from './context.ts';
import { desiredOf, recordedBodies, requireConsent, showAndSend } from './plan.ts';
import { type RestoreSession, openSession } from './restore-session.ts';

/** Steps that an error lists; the others are counted. */
const STEPS_SHOWN = 20;
const VALUE_LIMIT = 80; // characters shown of a value

interface ApplyCommandOptions {
  readonly plan: string;
  readonly yes?: boolean;
}

/**
 * Exit codes of `restore --apply`; 6 if the live state has changed since the plan was made, or the plan was altered or refused;
 * 1 or 5 if the live state could not be read. In these cases nothing was sent.
 */
export async function apply(
  context: CommandContext,
  { as, ...options }: ApplyCommandOptions & { readonly as?: string },
): Promise<ExitCode> {
  return await applySaved(context, options, commandActor(as));
}

async function applySaved(
  context: CommandContext,
  options: ApplyCommandOptions,
  actor: Actor,
): Promise<ExitCode> {
  const plan = await planIn(context, options.plan);
  requireConsent(context, options, null);
  using session = await openSession(context, {
    command: 'apply',
    writes: true,
    needsNoMirror: plan.from.run === undefined,
    actor,
    ...(plan.to.source === undefined ? {} : { source: plan.to.source }),
  });
  const { mirror, source } = session;
  const unfinished = mirror === null ? null : unfinishedNote(mirror, source.name, true);
  const desired = await checkedDesired(session, plan).catch((error: unknown) => {
    printNote(context, unfinished === null ? [] : [unfinished]);
    throw error;
  });
  return await showAndSend(
    session,
    { plan, desired, notes: [], unfinished },
    { ...options, apply: true, savedAs: options.plan },
  );
}

/**
 * `tidemark daemon-apply`: the child process in which the daemon applies a plan of the dashboard. Like `apply --yes`, but the
 * actor comes from the daemon over the channel: it includes how the dashboard identified them, which no option can set.
 * @throws TidemarkError `usage` unless a daemon started it
 */
export async function daemonApply(
  context: CommandContext,
  { plan }: { readonly plan: string },
): Promise<ExitCode> {
  if (!process.connected) {
    throw new TidemarkError('usage', 'daemon-apply is what the daemon starts for the dashboard', {
      hint: 'apply a plan with `tidemark apply FILE`',
    });
  }
  const actor = await receiveActor();
  return actor === null ? EXIT.interrupted : await applySaved(context, { plan, yes: true }, actor);
}

/** Null if the daemon ended before it sent the actor. */
async function receiveActor(): Promise<Actor | null> {
  return await new Promise((resolve) => {
    process.once('message', ({ actor }: ApplyOrder) => {
      resolve(actor);
      // An open channel would keep this process from exiting.
      process.disconnect();
    });
    process.once('disconnect', () => resolve(null));
  });
}

/** The desired records of the plan. @throws TidemarkError if the plan must not be sent any more */
async function checkedDesired(session: RestoreSession, plan: Plan): Promise<DesiredLookup> {
  const desired = await desiredOf(session, plan);
  requireNoneAcceptedSince(session, plan, {
    hint: `nothing was sent; make a new plan with \`${planCommand(plan).replace(' --keep-accepted', '')} --keep-accepted --out FILE\`, which leaves it, and look at it`,
  });
  await requireUnmoved(session, plan, desired);
  return desired;
}

async function planIn(context: CommandContext, file: string): Promise<Plan> {
  const path = resolve(context.cwd, file);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = systemCodeOf(error);
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw asFileError(error, path, 'read');
    throw new TidemarkError('reference_unknown', `there is no plan ${path}`, {
      hint: 'check the spelling of the path; `tidemark restore --out FILE` saves one',
      cause: error,
    });
  });
  return readPlan(text);
}

/**
 * @param options.isDone steps that are not sent again
 * @throws TidemarkError `unsafe_plan` that lists what the plan would revert although it was accepted as drift after the plan was made
 */
export function requireNoneAcceptedSince(
  session: RestoreSession,
  plan: Plan,
  { hint, isDone = () => false }: { readonly hint: string; readonly isDone?: (step: PlanStep) => boolean },
): void {
  const { mirror, source, definitions } = session;
  if (mirror === null) return;
  const now = systemClock.now();
  const counting = mirror.acceptances
    .checked(source.name)
    .filter(
      ({ until, contradiction }) =>
        contradiction === undefined && (until === undefined || Date.parse(until) > now),
    );
  const found = acceptedSincePlan(plan, counting, {
    definitions,
    idMap: idLookup(mirror.restores.idMap(source.name)),
  }).filter(({ step }) => !isDone(step));
  if (found.length === 0) return;
  const steps = new Set(found.map(({ step }) => step.n)).size;
  const lines = shownLines(found, ({ step, accepted }) => {
    const place = accepted.path === '' ? '' : ` ${maskedPlace(accepted.path, definitions(step.kind))}`;
    const text = acceptedText({ ...accepted, acceptedAt: accepted.accepted_at }, localTime);
    return [`${stepHead(session, step)}${place} was ${text}`];
  });
  throw new TidemarkError(
    'unsafe_plan',
    [
      `${plural(steps, 'step')} would set back what was accepted as drift after the plan was made:`,
      ...lines,
    ].join('\n'),
    { hint },
  );
}

/** The lines of the first items, and how many more there are. */
function shownLines<Item>(items: readonly Item[], linesOf: (item: Item) => readonly string[]): string[] {
  const more = items.length - STEPS_SHOWN;
  return [...items.slice(0, STEPS_SHOWN).flatMap(linesOf), ...(more > 0 ? [`and ${more} more`] : [])];
}

/**
 * @throws TidemarkError `unsafe_plan` that lists the steps whose records have changed; without any, the error that kept the live
 *   state from being read
 */
async function requireUnmoved(session: RestoreSession, plan: Plan, desired: DesiredLookup): Promise<void> {
  const sent = plan.steps.filter(isExecutable);
  if (sent.length === 0) return requireFound(session, plan);
  const { definitions } = session;
  const removes = sent.some(({ action }) => action === 'remove');
  const kinds = kindsToRead(new Set(sent.map(({ kind }) => kind)), definitions, removes);
  const organizations = organizationsOf(plan);
  const filter = { kinds, ...(organizations === null ? {} : { organizations }) };
  const live = await session.readLive(filter);
  requireAnswered(live);
  requireSameAccount(sent, live);
  const changedFrom = (lookup: DesiredLookup): Moved[] =>
    changedSincePlan(plan, planSide(live, filter), definitions, lookup);
  const found = changedFrom(desired);
  const isUnnamed = found.some(({ how, fields }) => how === 'changed' && fields.length === 0);
  // If these can no longer be read, the plan is refused without naming fields.
  const bodies = isUnnamed ? await recordedBodies(session, plan, kinds).catch(() => null) : null;
  const { moved, unread } = separated(
    bodies === null ? found : changedFrom((record) => bodies.get(recordKey(record))),
    live,
  );
  if (moved.length === 0 && unread.length === 0) return;
  const lines = shownLines([...moved, ...unread], (each) =>
    'how' in each ? movedLines(session, each) : [unreadLine(session, each)],
  );
  if (moved.length === 0) throw unreadError(unread, lines);
  throw new TidemarkError(
    'unsafe_plan',
    [
      `the service has changed since the plan was made, which affects ${plural(moved.length, 'step')}:`,
      ...lines,
    ].join('\n'),
    {
      hint: `nothing was sent; ${appliedBefore(session, plan)}make a new plan with \`${planCommand(plan)} --out FILE\` and look at it`,
    },
  );
}

/** The change may come from an earlier restore by this very plan. */
function appliedBefore({ mirror, source }: RestoreSession, { hash }: Plan): string {
  const own = mirror === null ? null : restoreOfPlan(mirror, source.name, hash);
  if (own === null) return '';
  const { restore, isResumable } = own;
  return isResumable
    ? `restore ${restore} has sent a part of this plan, and \`tidemark restore --resume ${restore}\` continues it; or `
    : `restore ${restore} has sent this plan (\`tidemark restores show ${restore}\`); for what is missing now, `;
}

/**
 * For a plan that only creates records, and so compares none with the live state. `restore` likewise refuses a service that has
 * none of the recorded organizations.
 * @throws TidemarkError `unsafe_plan`
 */
function requireSameAccount(sent: readonly PlanStep[], live: LoadedState): void {
  const within = sent.filter(({ request }) =>
    request?.parameters.some((each) => each.name === 'organization_id' && 'value' in each),
  );
  if (within.length === 0) return;
  if (sent.some(({ precondition }) => precondition?.state === 'present')) return;
  if (!within.every(({ kind, scope }) => isAbsent(live.coverage(kind, scope)))) return;
  throw new TidemarkError(
    'unsafe_plan',
    'none of the organizations of the plan exists in this service: it seems to be a different account',
    { hint: 'nothing was sent; check baseUrl and apiKey of the source' },
  );
}

/** For a plan that only records ids. @throws TidemarkError `unsafe_plan` if the live state lacks a record that the plan found */
async function requireFound(session: RestoreSession, plan: Plan): Promise<void> {
  const found = newlyFound(plan);
  if (found.length === 0 || plan.refused.length > 0) return;
  const { definitions } = session;
  const filter = { kinds: kindsToRead(new Set(found.map(({ kind }) => kind)), definitions, false) };
  const live = await session.readLive(filter);
  requireAnswered(live);
  const shown = new Set(planSide(live, filter).records.map(recordKey));
  const lost = found.filter(({ kind, scope, live_id: id }) => !shown.has(recordKey({ kind, scope, id })));
  if (lost.length === 0) return;
  const lines = shownLines(lost, ({ kind, live_id: id, name }) => {
    const definition = definitions(kind);
    return [`${definition.title.one} ${nameText(withMaskedId({ id, name }, definition).name)}`];
  });
  throw new TidemarkError(
    'unsafe_plan',
    ['the service does not show what the plan found under other ids:', ...lines].join('\n'),
    {
      hint: `nothing was recorded; make a new plan with \`${planCommand(plan)} --out FILE\` and look at it`,
    },
  );
}

/** Null if a step is about an organization that may have another id in the service. */
function organizationsOf({ steps }: Plan): string[] | null {
  const ids = steps.map(({ kind, scope, id }) => (kind === 'organizations' ? id : scope.organization_id));
  return ids.some((id) => id === undefined) ? null : [...new Set(ids.filter((id) => id !== undefined))];
}

function stepHead({ definitions }: RestoreSession, step: PlanStep): string {
  const definition = definitions(step.kind);
  return `step ${step.n}: ${definition.title.one} ${nameText(withMaskedId(step, definition).name)}`;
}

function unreadLine(session: RestoreSession, { step, reason }: UnreadStep): string {
  return `${stepHead(session, step)} could not be read${reason === null ? '' : `: ${reason}`}`;
}

function movedLines(session: RestoreSession, { step, how, fields, others = [], by }: Moved): string[] {
  const head = stepHead(session, step);
  if (how === 'taken') {
    const who = by === null || isSecretId(session.definitions(step.kind)) ? '' : ` (${by})`;
    return [`${head} exists now${who}`];
  }
  if (how === 'holds') return [`${head} now contains more, which would be removed with it`];
  if (how === 'gone') return [`${head} is gone`];
  return fields.length === 0
    ? [
        `${head} changed in a field that the plan does not set` +
          (others.length === 0
            ? ''
            : `; live differs from the desired state in ${others.join(', ')}, which may have differed before the plan`),
      ]
    : maskedFields(fields, session.definitions(step.kind)).map(
        (field) => `${head} changed: ${fieldLine(field, VALUE_LIMIT)}`,
      );
}

// Why a saved plan could not be compared with the live state. A separate error: nothing is known to have changed.

const ROOT: Kind = SCOPE_KIND.organization_id;

/** If the organizations fail with one of these, nothing else can be read or sent either. */
const SILENT: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'unreachable',
  'timeout',
  'unresponsive',
  'server_error',
]);
const REFUSED: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** A step whose record could not be read. */
interface UnreadStep {
  readonly step: PlanStep;
  readonly reason: string | null;
  /** Null if the service did not say why. */
  readonly code: ErrorCode | null;
  readonly permission?: string | undefined;
}

/**
 * Also for a plan that only creates records, and so compares none: otherwise each of its steps would fail in a journaled restore.
 * @throws TidemarkError with the code of the failed request if nothing at all could be read
 */
function requireAnswered(live: LoadedState): void {
  const root = live.coverage(ROOT, {});
  if (root.how !== 'unread' || root.code === null || !SILENT.has(root.code)) return;
  // One of the named organizations may have failed while others were read.
  for (const _ of live.records({ kinds: [ROOT] })) return;
  throw new TidemarkError(root.code, `live could not be read: ${ROOT}: ${root.reason}`, {
    hint: `nothing was sent; ${remedyFor(root.code)}`,
  });
}

/** What changed, and what could not be read. A record that the service says is not there, or whose parent is not, is gone. */
function separated(found: readonly Moved[], live: LoadedState): { moved: Moved[]; unread: UnreadStep[] } {
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
  return { reason, code, permission };
}

/** The error if no step is known to have changed. It says that the key was refused only if it was for every step. */
function unreadError(unread: readonly UnreadStep[], lines: readonly string[]): TidemarkError {
  const withCode = unread.filter(({ code }) => code !== null);
  const { code = null, permission } =
    withCode.find((each) => each.code !== null && !REFUSED.has(each.code)) ?? withCode[0] ?? {};
  const message = ['the live state could not be compared with the plan:', ...lines].join('\n');
  return new TidemarkError(code ?? 'unsafe_plan', message, {
    permission,
    hint: `nothing was sent; ${remedyFor(code, permission)}`,
  });
}

function remedyFor(code: ErrorCode | null, permission = 'to read'): string {
  if (code === 'unauthorized') return 'check apiKey or apiKeyFile of the source: `tidemark doctor` tries it';
  if (code === 'forbidden') return `give the key the permission ${permission}, and apply the plan again`;
  if (code === 'unreachable') return 'check baseUrl of the source, DNS and the network';
  if (code === null) return 'check what the configuration includes, or make a new plan';
  return 'apply the plan again later; `tidemark doctor` shows what can be read';
}
