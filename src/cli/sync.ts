/** `tidemark sync`: one run of each source in turn, made by the daemon if one runs on the mirror. */
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
  isOneOutput,
  print,
  printNote,
  printReason,
  type CommandContext,
  terminalWidth,
  toRun,
  printJson,
} from './context.ts';
import { noteWritten } from './daemon-requests.ts';
import { commandLog, loggingAbove } from './command-log.ts';
import { errorLines } from './failure.ts';
import { hasBars } from './painter.ts';
import { otherSourcesNote } from './other-sources.ts';
import { logProgress, showProgress, type Progress } from './progress.ts';
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

/** Syncs the sources. Exit code 0 if all runs are complete, 3 if not all, 1 if all failed, 5 if everything was denied. */
export async function sync(context: CommandContext, options: SyncCommandOptions): Promise<ExitCode> {
  const loaded = readLoadedConfig(context, context.options);
  if (options.acceptRemovals !== undefined && context.options.source === undefined)
    requireSourceNamed(context, loaded, options.acceptRemovals);
  const whole = onlyMirrorConfig(loaded);
  const refused = whole.sources.flatMap((source) => refusalOf(source, whole, options) ?? []);
  const isFree = (name: string): boolean => refused.every(({ source }) => source !== name);
  const config = { ...whole, sources: whole.sources.filter(({ name }) => isFree(name)) };
  requireSome(context, config.sources, refused);
  // The daemon does not accept removals.
  const runs = options.acceptRemovals === undefined ? await syncByDaemon(context, config, options) : null;
  const synced = runs ?? (await syncHere(context, config, options));
  refused.push(...synced.refused);
  requireSome(context, synced.runs, refused);
  if (context.options.json === true) await printJson(context, runDocument(synced.runs, refused));
  else if (!synced.arePrinted) for (const run of synced.runs) await printRun(context, config.mirror, run);
  // With --quiet, no report was printed.
  const isShown = isOneOutput(context) && context.options.quiet !== true;
  // Warnings also with --quiet: nothing else reports damage if the sync succeeded.
  printReason(context, [
    ...synced.warnings,
    ...synced.runs.flatMap((run) => runReason(run, { isShown })),
    ...refused.flatMap(({ error }) => errorLines(error)),
  ]);
  return combinedExitCode([
    syncExitCode(
      synced.runs.map(({ report }) => report),
      options.kind ?? null,
    ),
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

/** If nothing is left, throws the first refusal, and prints the others. */
function requireSome(
  context: CommandContext,
  left: readonly unknown[],
  [first, ...others]: readonly Refusal[],
): void {
  if (left.length > 0 || first === undefined) return;
  printReason(
    context,
    others.flatMap(({ error }) => errorLines(error)),
  );
  throw first.error;
}

/**
 * Requires `--source` for `--accept-removals` if there are several sources: another one may hold removals that the user has not seen.
 * @throws TidemarkError `usage`
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

/** The sources of a mirror that hold removals; empty if there is no mirror yet. */
function holdersIn(
  context: CommandContext,
  config: Config,
): { readonly source: string; readonly records: number }[] {
  if (!existsSync(config.mirror)) return [];
  using mirror = openConfiguredMirror(config, 'read', 'sync', context.pid);
  return config.sources
    .map(({ name }) => ({
      source: name,
      records: heldOnce(mirror, name).reduce((sum, { records }) => sum + records, 0),
    }))
    .filter(({ records }) => records > 0);
}

async function printRun(context: CommandContext, mirrorPath: string, run: ReportedRun): Promise<void> {
  // Cron then sends no mail about a sync that succeeded; the reason of any other exit code is on stderr.
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
      // Checked again: a source before this one may have used up the limit of the same key.
      const refusal = refusalOf(source, config, options);
      if (refusal !== null) {
        refused.push(refusal);
        continue;
      }
      printNote(context, crashedRunNote(mirror, source.name));
      // Only now that requests will be sent: a command that fails before leaves the pause.
      if (options.ignorePause === true)
        endPause(source, { beside: config.rateLogBeside, clock: systemClock });
      let progress: Progress | null = null;
      const log = loggingAbove(ownLog, () => progress?.clear());
      const client = openReadClient(source, log, config.rateLogBeside);
      const show = hasBars(context) ? showProgress : logProgress;
      progress = show(context, { clock: systemClock, source, stats: () => client.stats() });
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
        // If stdout and stderr are one terminal or file, the log has that line already.
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
 * How many held removals the run may make: none if the number does not cover all of them, since it would not be clear which of
 * them the user has seen. A line says so now, and another one at the end (`notAcceptedText`).
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
 * Lines about the removals that are still held after a run with `--accept-removals`, with the commands that accept them; empty
 * if that run held none. Removals from a list that could not be read stay held whatever the number is.
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

/** The held removals; their number, with the records below them; and texts by kind, e.g. `8 roles with 56 records below`. */
function heldNow(
  mirror: Mirror,
  source: string,
  kind: readonly Kind[] | undefined,
): { waiting: readonly HeldRemovals[]; all: number; byKind: readonly string[] } {
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

/** Warns that a new mirror begins although backups show that there was one: its volume may not be mounted. Also with --quiet. */
async function warnOfNewMirror(context: CommandContext, config: Config): Promise<void> {
  // A failed copy leaves an empty file, in which a new mirror would begin too.
  if ((statSync(config.mirror, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  // After a move, opening the mirror fails with its own error.
  if (movedAway(config.mirror) !== null) return;
  const anew = await wouldBeginByMistake(config, systemClock);
  if (anew !== null) printReason(context, errorLines(anew));
}

/**
 * One exit code for several runs: refused only if everything that was requested was denied (`asked`: the kinds, null for all);
 * failed only if all runs failed.
 */
function syncExitCode(reports: readonly RunReport[], asked: readonly Kind[] | null): ExitCode {
  if (reports.length > 0 && reports.every(({ sweeps }) => isAllDenied(sweeps, asked))) return EXIT.refused;
  if (reports.every(({ outcome }) => outcome === 'complete')) return EXIT.done;
  return reports.every(({ outcome }) => outcome === 'failed') ? EXIT.failed : EXIT.partial;
}
