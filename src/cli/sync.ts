/** `tidemark sync`: one run now, of each source in turn. */
import type { Kind } from '../catalog/definition.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { silentEvents } from '../sync/events.ts';
import { isAllDenied } from '../sync/outcome.ts';
import { syncSource } from '../sync/run.ts';
import type { RunReport } from '../sync/run.ts';
import { commandLogger, openConfiguredMirror, openReadClient, readConfig } from '../wire.ts';
import { isInteractive, print } from './context.ts';
import type { CommandContext } from './context.ts';
import { showProgress } from './progress.ts';
import { renderRun, runDocument } from './run-text.ts';

interface SyncCommandOptions {
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly acceptRemovals?: number;
}

export async function sync(context: CommandContext, options: SyncCommandOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options);
  const log = commandLogger(context.options.logLevel, undefined);
  const mirror = openConfiguredMirror(config, 'write', 'sync', context.pid);
  const reports: RunReport[] = [];
  try {
    for (const source of config.sources) {
      const client = openReadClient(source, log, mirror);
      const progress = isInteractive(context)
        ? showProgress(context, systemClock, () => client.figures())
        : null;
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
        reports.push(report);
        if (context.options.json !== true)
          await print(context, renderRun(report, mirror.path, context.options.quiet === true));
      } finally {
        progress?.stop();
        await client.close();
      }
    }
  } finally {
    mirror.close();
  }
  if (context.options.json === true) await print(context, `${JSON.stringify(runDocument(reports))}\n`);
  return syncExitCode(reports);
}

/** One exit code for several runs: refused only when everything was; partial before failed when something was read. */
export function syncExitCode(reports: readonly RunReport[]): ExitCode {
  if (isAllDenied(reports.flatMap(({ sweeps }) => sweeps))) return EXIT.refused;
  if (reports.every(({ outcome }) => outcome === 'complete')) return EXIT.done;
  return reports.every(({ outcome }) => outcome === 'failed') ? EXIT.failed : EXIT.partial;
}
