/** `tidemark sync`: one run now, of each source in turn. */
import type { Kind } from '../catalog/definition.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { silentEvents } from '../sync/events.ts';
import { isAllDenied } from '../sync/outcome.ts';
import { syncSource } from '../sync/run.ts';
import type { RunReport } from '../sync/run.ts';
import { commandLogger, openReadClient } from '../wire-client.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { isInteractive, print, remark } from './context.ts';
import type { CommandContext } from './context.ts';
import { showProgress } from './progress.ts';
import type { Progress } from './progress.ts';
import { loggingAbove } from './progress-log.ts';
import { afterDeath, renderRun, runDocument } from './run-text.ts';
import type { ReportedRun } from './run-text.ts';
import { terminalWidth } from './table.ts';

interface SyncCommandOptions {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly acceptRemovals?: number;
}

export async function sync(context: CommandContext, options: SyncCommandOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options);
  const level = context.options.logLevel ?? 'warn';
  const ownLog = commandLogger(level, undefined);
  const mirror = openConfiguredMirror(config, 'write', 'sync', context.pid);
  const runs: ReportedRun[] = [];
  try {
    for (const source of config.sources) {
      remark(context, afterDeath(mirror, source.name));
      let progress: Progress | null = null;
      const log = loggingAbove(ownLog, level, () => progress?.clear());
      const client = openReadClient(source, log, mirror);
      if (hasBars(context)) {
        progress = showProgress(context, { clock: systemClock, source, figures: () => client.figures() });
      }
      try {
        const report = await syncSource({
          mirror,
          source,
          client,
          clock: systemClock,
          log,
          events: progress?.events ?? silentEvents,
          signal: context.signal,
          trigger: 'command',
          kinds: options.kind ?? null,
          isFull: options.full === true,
          acceptRemovals: options.acceptRemovals ?? 0,
        });
        progress?.stop();
        const run = { report, schemaChanges: mirror.schemaChanges({ run: report.run }) };
        runs.push(run);
        if (context.options.json !== true)
          await print(
            context,
            renderRun(run, {
              mirrorPath: mirror.path,
              isQuiet: context.options.quiet === true,
              width: terminalWidth(context),
            }),
          );
      } finally {
        progress?.stop();
        await client.close();
      }
    }
  } finally {
    mirror.close();
  }
  if (context.options.json === true) await print(context, `${JSON.stringify(runDocument(runs))}\n`);
  return syncExitCode(
    runs.map(({ report }) => report),
    options.kind ?? null,
  );
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
