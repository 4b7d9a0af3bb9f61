/** The exit code of `tidemark status`, and the lines for stderr that say why it is not 0. */
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { outcomeText } from '../core/wording.ts';
import type { HealthSnapshot } from '../daemon/health/health-facts.ts';
import type { SyncedBy } from '../daemon/health/status-answers.ts';
import { alteredReasons, verified } from '../daemon/health/verified.ts';
import { keptText } from '../daemon/health/waits.ts';
import { waitProblem } from '../daemon/problems.ts';
import { longWait } from '../mirror/shared-throttle.ts';
import { nextStepLines, type SourceStatus } from '../state/source-status.ts';
import { collectionsText, groupAlike } from './plan-reason.ts';

/** Failed if the mirror was altered, since then it proves nothing; partial on a full disk, since a failed sync may not be recorded. */
export function exitCode(
  sources: readonly SourceStatus[],
  snapshot: HealthSnapshot,
  isDiskFull: boolean,
): ExitCode {
  if (verified(snapshot).tone === 'bad') return EXIT.failed;
  if (sources.every(({ lastPublished }) => lastPublished === null)) return EXIT.failed;
  return sources.every(({ state }) => state === 'whole') && !isDiskFull ? EXIT.done : EXIT.partial;
}

/** Lines that say what was altered in the mirror; empty if nothing is known of that. */
export function alteredReason(snapshot: HealthSnapshot): string[] {
  const { tone, line } = verified(snapshot);
  if (tone !== 'bad') return [];
  const reasons = alteredReasons(snapshot);
  // If a job noticed it, the health has a different reason.
  if (reasons.length === 0) return [`the mirror was ${line}`];
  return reasons.flatMap(({ message, hint }) => [message, ...(hint === null ? [] : [`  → ${hint}`])]);
}

/** Until when a sync of the source would wait before it sends requests, and what to do; null if it would not. */
function waitStep(name: string, config: Config, upkeep: SyncedBy): string | null {
  const source = config.sources.find((each) => each.name === name);
  const wait = source === undefined ? null : waitProblem(source, config, systemClock, syncsThen(upkeep));
  return wait === null ? null : `${wait.error.message}: ${wait.error.hint ?? ''}`;
}

/** Who syncs after the wait, as `waitProblem` takes it. */
export function syncsThen(upkeep: SyncedBy): 'daemon' | 'once' | null {
  return upkeep === 'daemon' || upkeep === 'once' ? upkeep : null;
}

/** A step of `nextStepLines`; if it is a sync that would have to wait, until when instead, and who syncs then. */
export function stepNow(step: string, source: string, config: Config, upkeep: SyncedBy): string {
  const isSync = step.startsWith('wait as the error says') || step.startsWith('run `tidemark sync');
  return isSync ? (waitStep(source, config, upkeep) ?? step) : step;
}

/** Until when a running sync waits, because the service asked for it or `rate.perHour` is used up; empty if it does not. */
export function pauseText(name: string, { sources, rateLogBeside: beside }: Config): string {
  const source = sources.find((each) => each.name === name);
  const wait = source === undefined ? null : longWait(source, { beside, clock: systemClock, mostWaitMs: 0 });
  if (wait === null) return '';
  return wait.isAsked
    ? keptText({ silentMs: null, pausedUntil: wait.freeAt }).slice(2)
    : `it waits: ${wait.what}`;
}

/** Lines that say why the mirror of a source is not complete, with the steps of `nextStepLines`; empty if it is complete. */
export function statusReason(status: SourceStatus, config: Config, upkeep: SyncedBy): string[] {
  const { source, state, lastRun, lastEnded, lastWholeEnded, lastPublished, unread, held } = status;
  if (state === 'whole') return [];
  const isAtWork = lastRun?.outcome === 'running';
  const steps = nextStepLines(status, true, isAtWork).map((step) => stepNow(step, source, config, upkeep));
  // A further sync would hold the same removals again, and find the lists below them missing.
  const isOnlyHeld =
    held.length > 0 && unread.every(({ outcome }) => outcome === 'held' || outcome === 'missing');
  const wait = isOnlyHeld ? null : waitStep(source, config, upkeep);
  const next = [...steps, ...(wait === null || steps.includes(wait) ? [] : [wait])].map(
    (step) => `  → ${step}`,
  );
  if (state === 'never_synced') return [`${source} was never synced`, ...next];
  if (state === 'unpublished') return [`no run of ${source} was published yet`, ...next];
  const run = [lastEnded, lastWholeEnded].find((each) => each !== null && each.outcome !== 'complete');
  const groups = groupAlike(unread, ({ outcome }) => outcome ?? '');
  // A failed run publishes nothing: the mirror stays as the run before left it.
  const isComplete = lastEnded?.outcome === 'failed' && lastPublished?.outcome === 'complete';
  return [
    isComplete
      ? `the last sync of ${source} failed; the mirror is complete as of run ${lastPublished.run}`
      : `the mirror of ${source} is not complete`,
    ...(run === undefined || run === null
      ? []
      : [`  run ${run.run} ${outcomeText(run.outcome)}${run.error === null ? '' : `: ${run.error}`}`]),
    ...groups.map((group) => `  ${collectionsText(group)}: ${group[0].outcome ?? 'not read yet'}`),
    ...next,
    ...(isOnlyHeld || wait !== null
      ? []
      : [`  → \`tidemark doctor --source ${source}\` shows what the key reaches`]),
  ];
}
