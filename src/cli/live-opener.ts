/** Reads a source's live state for a command, with its progress. */
import { hostname } from 'node:os';
import type { SourceConfig } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { idLookup } from '../state/recreated-ids.ts';
import { readLive, type LiveOptions } from '../state/live-state.ts';
import type { LoadedState } from '../state/state.ts';
import { silentEvents } from '../sync/events.ts';
import { openReadClient } from '../wire-client.ts';
import { isInteractive, type CommandContext } from './context.ts';
import { logProgress, showProgress, type Progress } from './progress.ts';
import { loggingAbove } from './progress.ts';
import { commandLog } from './source-probe.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { StateFilter } from '../state/filter.ts';

export interface LiveChoice {
  readonly source: SourceConfig;
  readonly command: string;
  /** Null if there is none yet. */
  readonly mirror: Mirror | null;
  /** Where the mirror is, or is to be: beside it is the log of requests. */
  readonly rateLogBeside: string;
  readonly wanted: Wanted;
}

/** The live state of what is wanted; the caller closes it. */
export async function openLive(
  context: CommandContext,
  { source, command, mirror, rateLogBeside, wanted }: LiveChoice,
): Promise<LoadedState> {
  const level = context.options.logLevel ?? 'warn';
  let progress: Progress | null = null;
  const log = loggingAbove(commandLog(context), level, () => progress?.clear());
  const client = openReadClient(source, log, rateLogBeside);
  if (isInteractive(context) && context.env['TERM'] !== 'dumb') {
    progress = showProgress(context, {
      clock: systemClock,
      source,
      stats: () => client.stats(),
      isLive: true,
    });
  } else if (command !== 'restore') {
    // Not for the dashboard, which shows what `restore` prints, nor for MCP.
    progress = logProgress(context, {
      clock: systemClock,
      source,
      stats: () => client.stats(),
      isLive: true,
    });
  }
  try {
    return await readLive({
      source,
      client,
      ...wanted,
      ...(mirror === null ? {} : knownOf(mirror, source)),
      reader: { command, pid: context.pid, host: hostname(), clock: systemClock },
      log,
      events: progress?.events ?? silentEvents,
      signal: context.signal,
    });
  } finally {
    progress?.stop();
    await client.close();
  }
}

/** What the mirror knows beside the records. */
function knownOf(mirror: Mirror, { name }: SourceConfig): Pick<LiveOptions, 'fingerprintKey' | 'newIdOf'> {
  return {
    fingerprintKey: mirror.acceptances.fingerprintKey(),
    newIdOf: idLookup(mirror.restores.idMap(name)),
  };
}

/** The parts of a live state that are needed; other states have everything already. */
export interface Wanted {
  readonly filter: StateFilter;
  /** Kinds that are not read unless the filter names them. */
  readonly except?: ReadonlySet<Kind>;
  /** What live is held against; left out, the latest state that the mirror has of the source. */
  readonly against?: LoadedState;
  /** The latest state that the mirror has of the source, where that is another one. */
  readonly latest?: LoadedState;
  /** Records that are looked up if no list shows them, whatever their number. */
  readonly isNamed?: NonNullable<LiveOptions['isNamed']>;
}
