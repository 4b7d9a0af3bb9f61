/** `tidemark sync`: one run now, of each source in turn; by the daemon where one has the mirror. */
import { existsSync, statSync } from 'node:fs';
import { wouldBeginByMistake } from '../backup/earlier.ts';
import { movedAway } from '../mirror/open.ts';
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { type LoadedConfig, mirrorConfigs, namesOf, onlyMirrorConfig } from '../config/mirrors.ts';
import { commandActor, commandTrigger } from '../core/actor.ts';
import { systemClock } from '../core/clock.ts';
import { combinedExitCode, EXIT, type ExitCode, exitCodeFor, TidemarkError } from '../core/errors.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { waitRefusal } from '../daemon/problems.ts';
import { heldOnce } from '../state/held-names.ts';
import { isAllDenied } from '../sync/outcome.ts';
import { acceptCommands } from '../sync/removals.ts';
import { syncSource, type RunReport } from '../sync/run.ts';
import { endPause } from '../mirror/shared-throttle.ts';
import type { HeldRemovals } from '../mirror/held-removals.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openReadClient } from '../wire-client.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import {
  isInteractive,
  isOneOutput,
  print,
  printNote,
  printReason,
  type CommandContext,
  terminalWidth,
  toRun,
} from './context.ts';
import { noteWritten } from './daemon-requests.ts';
import { commandLog } from './source-probe.ts';
import { otherSourcesNote } from './other-sources.ts';
import { logProgress, showProgress, type Progress } from './progress.ts';
import { loggingAbove } from './progress.ts';
import { crashedRunNote, renderRun, reportedRun, runDocument, runReason, type ReportedRun } from './run.ts';
import { type Refusal, syncByDaemon, type SyncedRuns } from './sync-by-daemon.ts';
import { verificationNote } from './verification-note.ts';

interface SyncCommandOptions {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly ignorePause?: boolean;
  readonly acceptRemovals?: number;
  readonly as?: string;
}

export async function sync(context: CommandContext, options: SyncCommandOptions): Promise<ExitCode> {
  const loaded = readLoadedConfig(context, context.options);
  if (options.acceptRemovals !== undefined && context.options.source === undefined)
    requireSourceNamed(context, loaded, options.acceptRemovals);
  const whole = onlyMirrorConfig(loaded);
  const refused = whole.sources.flatMap((source) => refusalOf(source, whole, options) ?? []);
  const isFree = (name: string): boolean => refused.every(({ source }) => source !== name);
  const config = { ...whole, sources: whole.sources.filter(({ name }) => isFree(name)) };
  if (config.sources.length === 0 && refused.length > 0) throw noneBegun(context, refused);
  // What is accepted is accepted here, not handed on.
  const runs = options.acceptRemovals === undefined ? await syncByDaemon(context, config, options) : null;
  const synced = runs ?? (await syncHere(context, config, options));
  refused.push(...synced.refused);
  if (synced.runs.length === 0 && refused.length > 0) throw noneBegun(context, refused);
  const reports = await printed(context, config, { ...synced, refused });
  // With --quiet, all of it is on stderr: cron would mail it twice.
  const isShown = isOneOutput(context) && context.options.quiet !== true;
  // Also with --quiet: a sync that went well says nothing else of the damage.
  printReason(context, [
    ...synced.warnings,
    ...synced.runs.flatMap((run) => runReason(run, { isShown })),
    ...refused.flatMap(refusalText),
  ]);
  return combinedExitCode([
    syncExitCode(reports, options.kind ?? null),
    ...refused.map(({ error }) => exitCodeFor(error.code)),
  ]);
}

function refusalOf(
  source: SourceConfig,
  config: Config,
  { ignorePause }: SyncCommandOptions,
): Refusal | null {
  const error = waitRefusal(source, config, systemClock, { ignoresPause: ignorePause });
  return error === null ? null : { source: source.name, error };
}

function refusalText({ error }: Refusal): string[] {
  return [error.message, `  → ${error.hint}`];
}

/** The first one as the command's error; the others are printed. */
function noneBegun(context: CommandContext, [first, ...others]: readonly Refusal[]): TidemarkError {
  if (first === undefined) throw new Error('a sync of no source that was not refused either');
  printReason(context, others.flatMap(refusalText));
  return first.error;
}

/**
 * With one source there is nothing to mistake.
 * @throws TidemarkError `usage` if several are configured: one of which the user saw nothing may hold removals too, or find some
 */
function requireSourceNamed(context: CommandContext, loaded: LoadedConfig, ceiling: number): void {
  const [first, ...others] = loaded.sources;
  if (first === undefined || others.length === 0) return;
  const holders = mirrorConfigs(loaded).flatMap((config) => holdersIn(context, config));
  const named = holders.map(({ source, records }) => `${source} (${plural(records, 'record')})`);
  const who =
    holders.length === 0
      ? `none of the ${loaded.sources.length} sources holds any`
      : `${namesOf(named)} ${holders.length === 1 ? 'holds' : 'hold'} some`;
  throw new TidemarkError('usage', `held removals are accepted in a source that is named, and ${who}`, {
    hint: `name it: \`tidemark sync --accept-removals ${ceiling} --source ${holders[0]?.source ?? first.name}\``,
  });
}

/** The sources of a mirror that hold removals; none where there is no mirror yet. */
function holdersIn(
  context: CommandContext,
  config: Config,
): { readonly source: string; readonly records: number }[] {
  if (!existsSync(config.mirror)) return [];
  const mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  try {
    return config.sources
      .map(({ name }) => ({
        source: name,
        records: heldOnce(mirror, name).reduce((sum, { records }) => sum + records, 0),
      }))
      .filter(({ records }) => records > 0);
  } finally {
    mirror.close();
  }
}

/** Prints the reports that were not printed when they arrived, and returns them. */
async function printed(
  context: CommandContext,
  { mirror }: Config,
  { runs, refused, arePrinted }: SyncedRuns,
): Promise<readonly RunReport[]> {
  if (context.options.json === true) await print(context, `${JSON.stringify(runDocument(runs, refused))}\n`);
  else if (!arePrinted) for (const run of runs) await printRun(context, mirror, run);
  return runs.map(({ report }) => report);
}

async function printRun(context: CommandContext, mirrorPath: string, run: ReportedRun): Promise<void> {
  // A cron job that went well sends no mail; why another one did not is on stderr.
  if (context.options.quiet === true) return;
  const isVerbose = context.options.verbose === true;
  const text = renderRun(run, { mirrorPath, isVerbose, width: terminalWidth(context) });
  await print(context, toRun(text, context.options));
}

async function syncHere(
  context: CommandContext,
  config: Config,
  options: SyncCommandOptions,
): Promise<SyncedRuns> {
  const level = context.options.logLevel ?? 'warn';
  const ownLog = commandLog(context, 'warn');
  await warnOfNewMirror(context, config);
  const actor = commandActor(options.as);
  const mirror = openConfiguredMirror(config, 'write', 'sync', context.pid, actor);
  const runs: ReportedRun[] = [];
  const refused: Refusal[] = [];
  try {
    const warnings = [...verificationNote(mirror)];
    const others = otherSourcesNote(mirror, config);
    if (others !== null) printReason(context, [others.message, `  → ${others.next}`]);
    for (const source of config.sources) {
      // The sources before may have the same key.
      const refusal = refusalOf(source, config, options);
      if (refusal !== null) {
        refused.push(refusal);
        continue;
      }
      printNote(context, crashedRunNote(mirror, source.name));
      // Only now that requests are sent: a command that comes to nothing leaves the pause.
      if (options.ignorePause === true)
        endPause(source, { beside: config.rateLogBeside, clock: systemClock });
      let progress: Progress | null = null;
      const log = loggingAbove(ownLog, level, () => progress?.clear());
      const client = openReadClient(source, log, config.rateLogBeside);
      progress = hasBars(context)
        ? showProgress(context, { clock: systemClock, source, stats: () => client.stats() })
        : logProgress(context, { clock: systemClock, source, stats: () => client.stats() });
      try {
        const report = await syncSource({
          mirror,
          source,
          client,
          clock: systemClock,
          log,
          events: progress.events,
          signal: context.signal,
          trigger: commandTrigger(actor),
          kinds: options.kind ?? null,
          isFull: options.full === true,
          acceptRemovals: acceptedIn(context, mirror, source.name, options),
        });
        progress.stop();
        const run = reportedRun(mirror, report, config);
        runs.push(run);
        // The log has it on stderr.
        const shown = isOneOutput(context) ? { ...run, moved: null } : run;
        if (context.options.json !== true) await printRun(context, mirror.path, shown);
        warnings.push(...notAcceptedText(mirror, report, options));
      } finally {
        progress.stop();
        await client.close();
      }
    }
    return { runs, refused, arePrinted: true, warnings };
  } finally {
    mirror.close();
    if (runs.length > 0) await noteWritten(context, config);
  }
}

/**
 * How many removals the run may carry out of those that wait: none where the number does not cover all of them, as it would not say
 * which of them the user looked at. That is said at once, and again at the end (`notAcceptedText`).
 */
function acceptedIn(
  context: CommandContext,
  mirror: Mirror,
  source: string,
  { acceptRemovals = 0, kind }: SyncCommandOptions,
): number {
  if (acceptRemovals === 0) return 0;
  const { all, byKind } = heldNow(mirror, source, kind);
  if (all <= acceptRemovals) return acceptRemovals;
  printReason(context, [
    `${plural(all, 'removal is', 'removals are')} held (${byKind.join(', ')}), and --accept-removals ${acceptRemovals} allows ${formatInteger(acceptRemovals)}: this run accepts none`,
  ]);
  return 0;
}

/**
 * What a run that was to accept removals has left held, and the commands that accept it; empty where it held back none. Those of a list
 * that it could not read wait whatever the number is.
 */
function notAcceptedText(
  mirror: Mirror,
  { source, sweeps }: RunReport,
  { acceptRemovals = 0, kind }: SyncCommandOptions,
): string[] {
  if (acceptRemovals === 0 || !sweeps.some(({ outcome }) => outcome === 'held')) return [];
  const { waiting, all, byKind } = heldNow(mirror, source, kind);
  if (all === 0) return [];
  const limit = (kind ?? []).map((each) => ` --kind ${each}`).join('');
  const others = acceptCommands(waiting, { all: waiting, source }).filter(({ kinds }) => kinds?.length === 1);
  const some = byKind.length > 1 ? others.map(({ command }) => command) : [];
  const why =
    all > acceptRemovals
      ? `--accept-removals ${acceptRemovals} allows ${formatInteger(acceptRemovals)}`
      : `--accept-removals ${acceptRemovals} did not cover them beside the others`;
  return [
    `${plural(all, 'removal is', 'removals are')} held (${byKind.join(', ')}), and ${all === 1 ? 'it was not' : 'none of them was'} accepted: ${why}`,
    `  → accept all of them: \`tidemark sync --accept-removals ${all}${limit} --source ${source}\`${some.length === 0 ? '' : `; those of one kind: ${some.join(' or ')}`}; \`tidemark diff latest live${limit} --source ${source}\` shows them`,
  ];
}

interface HeldNow {
  readonly waiting: readonly HeldRemovals[];
  readonly all: number;
  readonly byKind: readonly string[];
}

/** The removals that wait, with the records below them, together and by kind, e.g. `8 roles with 56 records below`. */
function heldNow(mirror: Mirror, source: string, kind: readonly Kind[] | undefined): HeldNow {
  const waiting = heldOnce(mirror, source, kind === undefined ? {} : { kinds: kind });
  const byKind = [...Map.groupBy(waiting, (each) => each.kind)].map(([each, own]) => {
    const { one, many } = definitionOf(each).title;
    const records = own.reduce((sum, of) => sum + of.records, 0);
    const below = own.reduce((sum, of) => sum + of.below, 0);
    return `${plural(records, one, many)}${below === 0 ? '' : ` with ${plural(below, 'record')} below`}`;
  });
  const all = waiting.reduce((sum, { records, below }) => sum + records + below, 0);
  return { waiting, all, byKind };
}

/** Also with --quiet: nothing else shows that the volume of the mirror may not be mounted. */
async function warnOfNewMirror(context: CommandContext, config: Config): Promise<void> {
  // A copy that failed leaves a file of no bytes, in which a new mirror is begun too.
  if ((statSync(config.mirror, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  // Opening it for writing is refused then.
  if (movedAway(config.mirror) !== null) return;
  const anew = await wouldBeginByMistake(config, systemClock);
  if (anew !== null) printReason(context, [anew.message, `  → ${anew.hint}`]);
}

/** Bars need a terminal that moves its cursor. */
function hasBars(context: CommandContext): boolean {
  return isInteractive(context) && context.env['TERM'] !== 'dumb';
}

/**
 * One exit code for several runs: refused only when everything was that was asked (`asked`: kinds, null for all); partial
 * before failed when something was read.
 */
export function syncExitCode(reports: readonly RunReport[], asked: readonly Kind[] | null): ExitCode {
  if (reports.length > 0 && reports.every(({ sweeps }) => isAllDenied(sweeps, asked))) return EXIT.refused;
  if (reports.every(({ outcome }) => outcome === 'complete')) return EXIT.done;
  return reports.every(({ outcome }) => outcome === 'failed') ? EXIT.failed : EXIT.partial;
}
