/** Sends a plan that was approved, shows its progress, and prints the report. */
import { GIVES_UP_AFTER } from '../api/connection.ts';
import type { RequestStats } from '../api/request-stats.ts';
import { systemClock, type Clock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError, type ExitCode } from '../core/errors.ts';
import { duration, formatInteger, plural } from '../core/wording.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { maskedRestore } from '../report/plan-mask.ts';
import { verbOf } from '../report/plan-report.ts';
import { nameText } from '../report/value-text.ts';
import { applyConcurrency, applyPlan, NO_EVENTS, type ApplyOptions } from '../restore/apply/apply.ts';
import type { ApplyEvents, DesiredLookup } from '../restore/apply/ready-step.ts';
import { restoreExitCode } from '../restore/apply/report.ts';
import type { Plan, PlanStep } from '../restore/plan/plan.ts';
import { configuredSecrets } from '../restore/secrets.ts';
import { openWriteClient } from '../wire-client.ts';
import { isOneOutput, print, printNote, printReason, type CommandContext, printJson } from './context.ts';
import { restoreReason } from './plan-reason.ts';
import { commandLog, loggingAbove } from './command-log.ts';
import { drawUntilStopped, hasBars, isSilent, Painter, repeatLine, untilInterrupted } from './painter.ts';
import { silenceOf, silenceText } from './progress.ts';
import { type RestoreSession, journalOf, restoreText } from './restore-session.ts';

interface Sending extends Pick<ApplyOptions, 'restore' | 'undoes' | 'approved'> {
  readonly plan: Plan;
  readonly desired: DesiredLookup;
}

/** Exit 0 if all steps were applied and verified, 3 if not all, 130 if interrupted. */
export async function sendPlan(session: RestoreSession, sending: Sending): Promise<ExitCode> {
  const { context, config, source, definitions, parentName } = session;
  const mirror = journalOf(session);
  let progress: RestoreProgress | null = null;
  let restore = sending.restore ?? 0;
  const before = sending.restore === undefined ? [] : mirror.restores.steps(sending.restore);
  const sent = new Set(before.flatMap(({ n, outcome }) => (outcome === 'applied' ? [n] : [])));
  // Without a terminal, warnings are left out: the reason at the end names what failed, causes first.
  const ownLog = commandLog(context, context.stderr.isTTY === true ? 'warn' : 'error');
  const log = loggingAbove(ownLog, () => progress?.clear());
  const client = openWriteClient(source, log, config.rateLogBeside);
  const onAbort = (): void => {
    // The progress says it itself.
    if (progress === null) printNote(context, [leavingText(restore)]);
  };
  context.signal.addEventListener('abort', onAbort);
  const isDrawn = hasBars(context);
  if (isDrawn || !isSilent(context.options)) {
    progress = showRestoreProgress(context, { clock: systemClock, stats: () => client.stats(), isDrawn });
  }
  try {
    const report = await applyPlan({
      ...sending,
      mirror,
      source,
      client,
      clock: context.clock ?? systemClock,
      log,
      signal: context.signal,
      events: {
        ...(progress?.events ?? NO_EVENTS),
        started: (number, steps) => {
          restore = number;
          progress?.events.started(number, steps);
        },
        sent: ({ n }) => void sent.add(n),
      },
      secrets: configuredSecrets(source.secrets, mirror.restores.idMap(source.name)),
      ...applyConcurrency(source.rate),
    });
    progress?.stop();
    const { json, verbose } = context.options;
    const shown = { parentName, plan: sending.plan, isVerbose: verbose === true };
    if (json === true) await printJson(context, maskedRestore(report, definitions));
    else await print(context, `\n${restoreText(context, config, report, shown)}`);
    const code = restoreExitCode(report, context.signal.aborted);
    const reason = restoreReason(report, code, definitions);
    // If stdout and stderr are one terminal or file, the result above already lists what was not applied.
    printReason(
      context,
      isOneOutput(context)
        ? reason.filter((line) => !line.startsWith(' ') || line.startsWith('  →'))
        : reason,
    );
    return code;
  } catch (error) {
    progress?.stop();
    throw restore === 0 ? error : withResuming(error, restore, sent.size);
  } finally {
    context.signal.removeEventListener('abort', onAbort);
    progress?.stop();
    await client.close();
  }
}

/** The error that ended a restore, such as a full disk, with the command that continues it: the same command would make a new plan. */
function withResuming(thrown: unknown, restore: number, sent: number): TidemarkError {
  const error = asTidemarkError(thrown);
  const resume = `\`tidemark restore --resume ${restore}\``;
  const steps = `restore ${restore} is interrupted: ${plural(sent, 'step')} ${sent === 1 ? 'was' : 'were'} sent`;
  const defect = error.code === 'internal' && error.hint !== undefined ? `${error.hint}; ` : '';
  const then =
    error.code === 'disk_full'
      ? `free space, then ${resume}`
      : `once the cause is fixed, ${resume} continues it`;
  return new TidemarkError(error.code, error.message, { hint: `${defect}${steps}; ${then}`, cause: error });
}

// Progress of a restore on a terminal: one bar, the records being written, and the wait.

const BAR_WIDTH = 30;

interface RestoreProgress {
  readonly events: ApplyEvents;
  /** Removes the bar temporarily. */
  clear(): void;
  /** Removes the bar. May be called again. */
  stop(): void;
}

/** What the bar shows. */
interface RestoreView {
  readonly steps: number;
  readonly done: number;
  readonly failed: number;
  /** Names of the records being written. */
  readonly underWay: readonly string[];
  /** Milliseconds since the first step. */
  readonly elapsedMs: number;
  /** Milliseconds until requests continue; null while none waits. */
  readonly waitingMs: number | null;
  readonly requests: number;
  /** For how long the service has not answered; null if it answers. */
  readonly silentMs?: number | null;
}

/** Two lines, none wider than `columns`. @internal */
export function restoreProgressLines(view: RestoreView, columns: number): string[] {
  const width = Math.max(1, columns - 1);
  const { steps, done, failed, underWay, elapsedMs, waitingMs, requests, silentMs = null } = view;
  const share = steps === 0 ? 1 : done / steps;
  const filled = Math.round(share * BAR_WIDTH);
  const left = done === 0 ? null : (elapsedMs / done) * (steps - done);
  const facts = [
    `${formatInteger(done)}/${formatInteger(steps)} steps`,
    ...(failed === 0 ? [] : [`${formatInteger(failed)} failed`]),
    ...(waitingMs === null ? [] : [`waiting ${duration(waitingMs)}`]),
    ...(silentMs === null ? [] : [silenceText(silentMs)]),
    ...(left === null || done === steps || silentMs !== null ? [] : [`about ${duration(left)} left`]),
  ].join(', ');
  const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} `;
  const first = bar.length + facts.length > width ? facts : `${bar}${facts}`;
  const now = underWay.length === 0 ? '' : ` · ${underWay.join(', ')}`;
  const giveUp = silentMs === null ? '' : ` · gives up after ${GIVES_UP_AFTER}`;
  return [first, `${formatInteger(requests)} requests${now}${giveUp}`].map((line) =>
    line.length > width ? `${line.slice(0, Math.max(width - 1, 0))}…` : line,
  );
}

/** The note after the first Ctrl-C; a second one prints nothing. `restore` is 0 before it has a number. */
function leavingText(restore: number): string {
  const then = restore === 0 ? '' : `, and continue later with \`tidemark restore --resume ${restore}\``;
  return `finishing the steps under way (Ctrl-C again to quit at once${then})`;
}

const STEPS_NAMED = 3;
/** Between two lines of progress. */
const LINE_MS = 10_000;

/** A line of progress, for output without a bar: `1 of 5 steps done; in progress: create Nightly (no answer came: looking whether it was done)`. @internal */
export function restoreProgressText({
  steps,
  done,
  failed,
  underWay,
  lookedUp,
  silentMs = null,
}: Pick<RestoreView, 'steps' | 'done' | 'failed' | 'silentMs'> & {
  readonly underWay: readonly (Pick<PlanStep, 'n' | 'name'> & Parameters<typeof verbOf>[0])[];
  /** Numbers of the steps whose answer was lost. */
  readonly lookedUp: ReadonlySet<number>;
}): string {
  const failures = failed === 0 ? '' : `, ${formatInteger(failed)} failed`;
  // Steps whose answer was lost come first: they take long.
  const sorted = underWay.toSorted((a, b) => Number(lookedUp.has(b.n)) - Number(lookedUp.has(a.n)));
  const named = sorted.slice(0, STEPS_NAMED).map((step) => {
    const why = lookedUp.has(step.n) ? ' (no answer came: looking whether it was done)' : '';
    return `${verbOf(step)} ${nameText(step.name)}${why}`;
  });
  const more = underWay.length - named.length;
  const rest = more > 0 ? ` and ${formatInteger(more)} more` : '';
  const atWork = named.length === 0 ? '' : `; in progress: ${named.join(', ')}${rest}`;
  const silent = silentMs === null ? '' : `; ${silenceText(silentMs)} (gives up after ${GIVES_UP_AFTER})`;
  return `${formatInteger(done)} of ${formatInteger(steps)} steps done${failures}${silent}${atWork}`;
}

/** Shows the bar until `stop`, or a line each ten seconds if not on a terminal. If the command is interrupted, a line says what happens next. */
function showRestoreProgress(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  options: { readonly clock: Clock; readonly stats: () => RequestStats; readonly isDrawn: boolean },
): RestoreProgress {
  const { clock } = options;
  const painter = new Painter(context.stderr);
  const underWay = new Map<number, PlanStep>();
  const lookedUp = new Set<number>();
  const state = { restore: 0, steps: 0, done: 0, failed: 0, since: clock.monotonicMs() };
  const silence = silenceOf(clock, { received: 0, isPublishing: false }, options.stats);
  silence();

  const frame = (): void => {
    const { requests, waitingUntil } = options.stats();
    const now = clock.now();
    const view: RestoreView = {
      ...state,
      underWay: [...underWay.values()].map(({ name }) => escapeControlCharacters(name)),
      elapsedMs: clock.monotonicMs() - state.since,
      waitingMs: waitingUntil !== undefined && waitingUntil > now ? waitingUntil - now : null,
      requests,
      silentMs: silence(),
    };
    painter.paint(restoreProgressLines(view, painter.size.columns));
  };
  const { stopped, stop } = untilInterrupted(context, painter, () => leavingText(state.restore));
  if (options.isDrawn) void drawUntilStopped(clock, stopped, frame);
  else
    void repeatLine(
      clock,
      stopped,
      () => {
        const view = { ...state, underWay: [...underWay.values()], lookedUp, silentMs: silence() };
        context.stderr.write(`tidemark: ${restoreProgressText(view)}\n`);
      },
      LINE_MS,
    );
  return {
    events: {
      started: (restore, steps) => {
        state.restore = restore;
        state.steps = steps;
        state.since = clock.monotonicMs();
      },
      // A step that started may wait for its turn: `sending` says when it is under way.
      stepStarted: () => undefined,
      sending: (step) => void underWay.set(step.n, step),
      stepEnded: (step, { outcome }) => {
        underWay.delete(step.n);
        lookedUp.delete(step.n);
        state.done += 1;
        if (outcome === 'failed') state.failed += 1;
      },
      sent: ({ n }) => void lookedUp.delete(n),
      lookingUp: (step) => {
        underWay.set(step.n, step);
        lookedUp.add(step.n);
      },
    },
    clear: () => painter.clear(),
    stop,
  };
}
