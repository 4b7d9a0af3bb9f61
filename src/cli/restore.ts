/** `tidemark restore [FROM]`: the plan that would bring live to a state; with `--apply`, carries it out. */
import type { Kind } from '../catalog/definition.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { gather, type Gathered, type RestoreRequest } from '../restore/gather.ts';
import { planRestore } from '../restore/planner.ts';
import { unfinishedNote } from '../restore/resume.ts';
import { type Reference, parseReference } from '../state/reference.ts';
import { redactionWith } from '../sync/redaction.ts';
import type { CommandContext } from './context.ts';
import { filterOf } from './diff.ts';
import { withRealIds } from './masked-ids.ts';
import { requireConsent } from './plan-consent.ts';
import { planFormat, savePlan, type PlanFormat } from './plan-output.ts';
import { lookupIn, showAndSend } from './plan-show.ts';
import { resumeRestore } from './restore-resume.ts';
import { type RestoreSession, openSession } from './restore-session.ts';
import { unsetSecrets } from './restore-secret-notes.ts';
import { earlierStateNotes } from './restore-suggestion.ts';

export interface RestoreOptions {
  readonly from?: string;
  readonly kind?: readonly Kind[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly id?: readonly string[];
  readonly field?: readonly string[];
  readonly prune?: boolean;
  readonly maxRemovals?: number;
  readonly wholeFile?: boolean;
  readonly maxShare?: number;
  readonly createOrganizations?: boolean;
  readonly inviteMissing?: boolean;
  readonly sendEmail?: boolean;
  readonly out?: string;
  readonly apply?: boolean;
  readonly yes?: boolean;
  /** A number as text, or true for the latest unfinished one. */
  readonly resume?: string | true;
  readonly format?: PlanFormat;
}

/**
 * Without `--apply`, exit 0 nothing to do, 2 steps, 3 with blocked or manual ones or something unread, 6 refused by a
 * guard. With it, 0 all applied and read back, 3 not all, 130 interrupted; refused or declined, nothing was sent.
 */
export async function restore(context: CommandContext, asked: RestoreOptions): Promise<ExitCode> {
  if (asked.resume !== undefined) return resumeRestore(context, asked);
  const reference = checkOptions(context, asked);
  const session = openSession(context, {
    command: 'restore',
    writes: asked.apply === true,
    needsNoMirror: reference.form === 'file',
    isFileWhole: asked.wholeFile === true,
  });
  try {
    const { config, source, mirror } = session;
    const options = withRealIds(asked, config, { mirror: () => mirror, sources: [source.name] });
    const gathered = await gatherFor(session, reference, requestOf(options, reference));
    const plan = planRestore(gathered.input);
    const unfinished = mirror === null ? null : unfinishedNote(mirror, source.name, asked.apply === true);
    const notes = [
      ...(unfinished === null ? [] : [unfinished]),
      ...gathered.notes,
      ...unsetSecrets(session, plan),
      ...earlierStateNotes(session, plan, reference, options),
    ];
    if (options.out !== undefined) await savePlan(context, plan, options.out);
    const desired = lookupIn(gathered.input.desired);
    return await showAndSend(session, { plan, desired, notes, approved: approvedOf(options) }, options);
  } finally {
    session.close();
  }
}

function checkOptions(context: CommandContext, options: RestoreOptions): Reference {
  planFormat(context, options);
  const reference = parseReference(options.from ?? 'latest');
  const wrong = (message: string, hint: string): never => {
    throw new TidemarkError('usage', message, { hint });
  };
  if (reference.form === 'live')
    wrong('live is what is restored, not what it is restored from', 'name a state, like baseline or run:N');
  if (options.wholeFile === true && reference.form !== 'file')
    wrong(
      '--whole-file is about a file, and the state is none',
      'name file:PATH as the state, or leave it out',
    );
  if (options.maxRemovals !== undefined && options.prune !== true)
    wrong('--max-removals limits what --prune removes', 'give --prune as well, or neither');
  if (options.apply !== true && options.yes === true)
    wrong('--yes agrees to what --apply sends', 'give --apply as well');
  if (options.apply === true && (options.format ?? 'text') !== 'text' && options.format !== 'json')
    wrong(
      `--format ${options.format} shows a plan, and --apply tells what became of it`,
      'leave one of them out',
    );
  if (options.apply === true) requireConsent(context, options, 'tidemark restore');
  return reference;
}

function requestOf(options: RestoreOptions, reference: Reference): RestoreRequest {
  return {
    filter: filterOf(options),
    fields: options.field ?? [],
    // Removing needs a limit: without one the plan shows what would go, and is refused.
    prune: options.prune === true ? { maxRemovals: options.maxRemovals ?? 0 } : null,
    createOrganizations: options.createOrganizations === true,
    inviteMissing: options.inviteMissing === true,
    sendEmail: options.sendEmail === true,
    maxShare: options.maxShare ?? null,
    isAgeMeant: reference.form !== 'latest',
  };
}

function approvedOf(options: RestoreOptions): Record<string, number | boolean> {
  const { prune, maxRemovals, maxShare, createOrganizations, inviteMissing, sendEmail } = options;
  const given = { prune, maxRemovals, maxShare, createOrganizations, inviteMissing, sendEmail };
  return Object.fromEntries(
    Object.entries(given).filter((entry): entry is [string, number | boolean] => entry[1] !== undefined),
  );
}

export async function gatherFor(
  session: RestoreSession,
  reference: Reference,
  request: RestoreRequest,
): Promise<Gathered> {
  const { source, definitions, mirror } = session;
  const desired = await session.open(reference, request.filter);
  return gather({
    request,
    desired,
    readLive: (filter) => session.readLive(filter, desired),
    source,
    definitions,
    idMap: mirror?.idMap(source.name) ?? [],
    held: mirror?.heldRecords(source.name) ?? [],
    redaction: source.redact && mirror !== null ? redactionWith(mirror.fingerprintKey()) : null,
    now: systemClock.now(),
  });
}
