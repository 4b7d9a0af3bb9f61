/** `tidemark undo RESTORE`: plans how to undo a restore; with `--apply`, carries the plan out. */
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { AuditLogContradicted } from '../mirror/audited-rows.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow } from '../mirror/restores.ts';
import { readRestoreStatus } from '../mirror/unfinished-restore.ts';
import { leftText } from '../report/plan-report.ts';
import { nameText } from '../report/value-text.ts';
import { applyConcurrency } from '../restore/apply/apply.ts';
import type { DesiredLookup } from '../restore/apply/ready-step.ts';
import { ownUserIn, planSide } from '../restore/plan/gather.ts';
import type { PlanState } from '../restore/plan/plan.ts';
import { storedPlan } from '../restore/plan/stored-plan.ts';
import { recordKey } from '../restore/records.ts';
import { configuredSecrets, withoutSecretIds } from '../restore/secrets.ts';
import { type RestoreRows, requireWholeJournal } from '../restore/undo/applied.ts';
import {
  type Answers,
  LookedUpRestores,
  chainRows,
  lookUpAnswers,
  openSteps,
} from '../restore/undo/unanswered.ts';
import { undoneState } from '../restore/undo/state.ts';
import {
  planUndo,
  undoKinds,
  undoNamed,
  undoneInWords,
  type UndoOptions,
  existingNamesakes,
  plannedPlaces,
  untouchedByUndo,
} from '../restore/undo/undo.ts';
import {
  latestRestore,
  type ResumableRestore,
  sourceOfRestore,
  unknownRestore,
} from '../restore/apply/resume.ts';
import { acceptedBetween } from '../state/accepted-drift.ts';
import { type LoadedState, stateOfRecords } from '../state/state.ts';
import { openReadClient } from '../wire-client.ts';
import { printNote, printReason, type CommandContext } from './context.ts';
import {
  desiredOf,
  lookupIn,
  planFormat,
  type PlanFormat,
  requireConsent,
  showAndSend,
  withKeyCheck,
} from './plan.ts';
import { contradictionText } from '../report/drift-document.ts';
import { commandLog, loggingAbove } from './command-log.ts';
import { drawUntilStopped, hasBars, isSilent, Painter, repeatLine } from './painter.ts';
import { journalOf, openSession, restoreNumber, type RestoreSession } from './restore-session.ts';

interface UndoCommandOptions {
  readonly restore: string;
  readonly apply?: boolean;
  readonly yes?: boolean;
  readonly forceChanged?: boolean;
  readonly format?: PlanFormat;
  readonly as?: string;
}

/** Plans or makes the undo. Exit codes as `restore`. */
export async function undo(context: CommandContext, options: UndoCommandOptions): Promise<ExitCode> {
  planFormat(context, options);
  const asked = restoreNumber(options.restore);
  if (options.apply === true) requireConsent(context, options, `tidemark undo ${options.restore}`);
  else if (options.yes === true)
    throw new TidemarkError('usage', '--yes agrees to what --apply sends', { hint: 'give --apply as well' });
  using session = await openSession(context, {
    command: 'undo',
    writes: options.apply === true,
    needsNoMirror: false,
    as: options.as,
    // With `latest`, it is not clear which of several sources is meant.
    ...(asked === undefined ? {} : { sourceIn: (mirror: Mirror) => sourceOfRestore(mirror, asked) }),
  });
  const { source, definitions } = session;
  const number = asked ?? latestRestore(journalOf(session), [source.name]).restore;
  const row = journalOf(session).restores.get(number);
  if (row === undefined || row.source !== source.name)
    throw unknownRestore(journalOf(session), number, source.name);
  // A dry run only warns; with --apply, altered rows are refused.
  const altered = options.apply === true ? [] : journalOf(session).restores.contradictions(number);
  printNote(
    context,
    altered.map(({ line }) => line),
  );
  const mirror = await withAnswers(session, row, options.apply === true);
  // Also if nothing is left to send.
  const [contradiction] = options.apply === true ? journalOf(session).restores.contradictions(number) : [];
  if (contradiction !== undefined) throw new AuditLogContradicted(contradiction.line);
  if (undoKinds(mirror, number, definitions).length === 0) {
    throw new TidemarkError('usage', `restore ${number} applied nothing: there is nothing to undo`, {
      hint: `\`tidemark restores show ${number}\` shows its result; new ids that it only recorded stay recorded`,
    });
  }
  const { undoing, notes } = await readForUndo(session, mirror, number, {
    forceChanged: options.forceChanged === true,
  });
  const { state } = undoneState(mirror, number, undoing);
  const sides = { from: stateBefore(state, undoing.known), to: undoing.known };
  const { config, mirror: whole } = session;
  const { now } = undoing;
  const { accepted, contradicted } =
    whole === null
      ? { accepted: [], contradicted: [] }
      : await acceptedBetween(config, whole, sides, { source: source.name, now });
  const touched = new Set(undoKinds(mirror, number, definitions));
  const contradictions = contradicted
    .filter(({ kind }) => touched.has(kind))
    .flatMap((each) => contradictionText(each, source.name, definitions) ?? []);
  const planned = planUndo(mirror, number, { ...undoing, accepted, contradictions });
  const plan = await withKeyCheck(session, planned);
  const existing = existingNamesakes(plan, state.records, definitions);
  const approved = {
    ...(options.forceChanged === undefined ? {} : { forceChanged: options.forceChanged }),
    ...(existing.length === 0 ? {} : { standing: existing }),
  };
  const exit = await showAndSend(
    session,
    {
      plan,
      desired: lookupIn(state),
      notes: [...undoneInWords(mirror, number), ...notes],
      approved,
      undoes: number,
    },
    options,
  );
  if (exit !== EXIT.done) return exit;
  const staying = untouchedByUndo(plan);
  printReason(
    context,
    staying.map((each) => `not undone: ${leftText(each, { definitions })}`),
  );
  // Altered rows do not prove that nothing is left to undo.
  return altered.length + staying.length > 0 ? EXIT.partial : exit;
}

/** The records before a restore, as a state with the same collections as live. */
function stateBefore({ reference, records }: PlanState, live: LoadedState): LoadedState {
  const texts = records.map(({ kind, scope, id, body }) => ({ kind, scope, id, body: JSON.stringify(body) }));
  return stateOfRecords(texts, live, { reference });
}

/** Reads the records as they are now, and gathers what an undo is planned from. */
async function readForUndo(
  session: RestoreSession,
  mirror: RestoreRows,
  restore: number,
  { forceChanged, resumed }: { readonly forceChanged: boolean; readonly resumed?: number },
): Promise<{
  readonly undoing: UndoOptions & { readonly known: LoadedState };
  readonly notes: readonly string[];
}> {
  const { source, definitions } = session;
  const filter = { kinds: undoKinds(mirror, restore, definitions) };
  const known = await session.readLive(filter, { isNamed: undoNamed(mirror, restore, resumed) });
  const live = planSide(known, filter);
  const notes: string[] = [];
  return {
    undoing: {
      live: { ...live, reference: { ...live.reference, source: source.name } },
      known,
      definitions,
      secrets: configuredSecrets(source.secrets, mirror.restores.idMap(source.name)),
      forceChanged,
      wasThere: ({ kind, id }, at) => {
        const { runs, records } = journalOf(session);
        const run = runs
          .list({ source: source.name, isPublished: true })
          .find(({ finishedAt: end }) => end !== null && end <= at);
        const own = { sources: [source.name], kinds: [kind], ids: [id] };
        return run !== undefined && [...records.keysAt(run.run, own)].length > 0;
      },
      rate: source.rate,
      ownUserId: ownUserIn(source, definitions, live.records, notes),
      now: systemClock.now(),
    },
    notes,
  };
}

/** The desired records of a restore that has begun; it may be an undo. */
export async function desiredFor(
  session: RestoreSession,
  mirror: RestoreRows,
  { row, plan }: ResumableRestore,
): Promise<DesiredLookup> {
  if (row.undoes === null) return desiredOf(session, plan);
  const forceChanged = row.approved['forceChanged'] === true;
  const { undoing } = await readForUndo(session, mirror, row.undoes, {
    forceChanged,
    resumed: row.restore,
  });
  const lookup = lookupIn(undoneState(mirror, row.undoes, { ...undoing, resumed: row.restore }).state);
  // By now live has what the undo itself has created: only what was planned is desired.
  const { standing } = row.approved;
  const planned = plannedPlaces(plan, Array.isArray(standing) ? standing.map(String) : []);
  return (key) => (planned.has(recordKey(key)) ? lookup(key) : undefined);
}

// Requests without an answer: before an undo is planned, it is looked up what they did.

/**
 * The restores to plan the undo from, with what the lookups found. That is also journaled, but not by a dry run, which does not
 * hold the lock.
 * @throws TidemarkError `usage` while the restore is running, and if it cannot be found out what it did
 */
async function withAnswers(
  session: RestoreSession,
  undone: RestoreRow,
  isRecorded: boolean,
): Promise<RestoreRows> {
  const { context, config, source } = session;
  const mirror = journalOf(session);
  // While this process holds the lock, no restore can be running.
  const running = isRecorded
    ? undefined
    : chainRows(mirror, undone).find(
        (row) => row.outcome === 'running' && readRestoreStatus(mirror, row).isAtWork === true,
      );
  if (running !== undefined) {
    throw new TidemarkError('usage', `restore ${running.restore} is running`, {
      hint: 'wait until it has ended; then undo it',
    });
  }
  for (const row of chainRows(mirror, undone)) requireWholeJournal(mirror, row);
  const open = chainRows(mirror, undone).filter(({ restore }) => {
    const { unanswered, unread } = openSteps(mirror, restore);
    return unanswered.size + unread.size > 0;
  });
  if (open.length === 0) return mirror;
  const restores = new LookedUpRestores(mirror.restores);
  let progress: ReturnType<typeof showLookUps> | null = null;
  const log = loggingAbove(commandLog(context), () => progress?.clear());
  const client = openReadClient(source, log, config.rateLogBeside);
  try {
    for (const row of open) {
      const stored = storedPlan(row);
      const { unanswered, unread } = openSteps({ restores }, row.restore);
      const what = [
        ...(unanswered.size === 0 ? [] : [`${plural(unanswered.size, 'request')} without an answer`]),
        ...(unread.size === 0 ? [] : [`${plural(unread.size, 'record')} not read back`]),
      ].join(', ');
      printNote(context, [`looking up what restore ${row.restore} did (${what}); this sends nothing`]);
      // Only these steps: others may need secrets that are no longer configured.
      const steps = stored.steps.filter(({ n }) => unanswered.has(n) || unread.has(n));
      const desired = await desiredFor(session, { restores }, { row, plan: { ...stored, steps } });
      progress = showLookUps(context, row.restore, steps.length);
      const answers = await lookUpAnswers({
        ...{ row, plan: stored, restores, acceptances: mirror.acceptances, source, reader: client },
        ...{ log, desired, signal: context.signal, stepEnded: progress.stepEnded },
        clock: context.clock ?? systemClock,
        secrets: configuredSecrets(source.secrets, restores.idMap(source.name)),
        concurrency: applyConcurrency(source.rate).concurrency,
      }).finally(progress.stop);
      if (isRecorded) restores.record(row.restore, answers.outcome);
      printNote(context, answerLines(session, answers));
      requireAnswers(session, row, answers);
    }
  } finally {
    await client.close();
  }
  return { restores };
}

/** While a restore's steps are looked up: shows a line on a terminal, and writes one each half minute elsewhere. */
function showLookUps(
  context: CommandContext,
  restore: number,
  steps: number,
): { readonly stepEnded: () => void; readonly clear: () => void; readonly stop: () => void } {
  const over = new AbortController();
  const painter = new Painter(context.stderr);
  const since = systemClock.monotonicMs();
  let done = 0;
  const text = (): string => {
    const seconds = Math.floor((systemClock.monotonicMs() - since) / 1000);
    const waits =
      done < steps ? `, ${seconds} s: a record that is not found is looked for several times` : '';
    return `restore ${restore}: ${done} of ${plural(steps, 'step')} looked up${waits}`;
  };
  const fitting = (line: string): string => line.slice(0, Math.max(1, painter.size.columns - 1));
  if (hasBars(context))
    void drawUntilStopped(systemClock, over.signal, () => painter.paint([fitting(text())]));
  else if (!isSilent(context.options))
    void repeatLine(systemClock, over.signal, () => printNote(context, [text()]));
  return {
    stepEnded: () => {
      done += 1;
    },
    clear: () => painter.clear(),
    stop: () => {
      over.abort();
      painter.clear();
    },
  };
}

function answerLines(session: RestoreSession, { done, notDone, gone, readBack, notes }: Answers): string[] {
  const counts = [
    ...(done === 0 ? [] : [`${done} had an effect`]),
    ...(notDone === 0 ? [] : [`${notDone} had ${done === 0 ? 'no effect' : 'none'}`]),
    ...(gone === 0 ? [] : [`${gone} gone, as the record that they were created in was removed meanwhile`]),
    ...(readBack === 0 ? [] : [`${readBack} read back`]),
  ];
  return [
    ...(counts.length === 0 ? [] : [counts.join(', ')]),
    ...notes.map((each) => stepNoteText(session, each)),
  ];
}

function stepNoteText(
  { definitions }: RestoreSession,
  { step, message }: Answers['unknown'][number],
): string {
  const { n, action, kind, name } = step;
  const note = withoutSecretIds(message, [definitions(kind)]);
  return `step ${n} (${action} ${definitions(kind).title.one} ${nameText(name)}): ${note}`;
}

const REASONS_SHOWN = 3;

/** @throws TidemarkError `usage` if it is still not known what a step did */
function requireAnswers(session: RestoreSession, { restore }: RestoreRow, { unknown }: Answers): void {
  if (unknown.length === 0) return;
  const more = unknown.length - REASONS_SHOWN;
  const reasons = [
    ...unknown.slice(0, REASONS_SHOWN).map((each) => stepNoteText(session, each)),
    ...(more > 0 ? [`${more} more`] : []),
  ].join('; ');
  throw new TidemarkError('usage', `what restore ${restore} did is not fully known: ${reasons}`, {
    hint: `nothing was undone: try again once this can be looked up. If the restore did not create the record that was found, rename or remove that; if it did, remove it by hand. For one of another name that it did not create, change another field until the undo is done. \`tidemark restore --resume ${restore}\` counts it as created by the restore, unless it is a batch export that is not as sent or has another name, and also sends the rest of the restore`,
  });
}
