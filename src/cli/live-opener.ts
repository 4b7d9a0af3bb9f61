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
import type { CommandContext } from './context.ts';
import { commandLog, loggingAbove } from './command-log.ts';
import { hasBars } from './painter.ts';
import { logProgress, showProgress, type Progress } from './progress.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { StateFilter } from '../state/filter.ts';

interface LiveChoice {
  readonly source: SourceConfig;
  readonly command: string;
  /** Null if there is none yet. */
  readonly mirror: Mirror | null;
  /** The path of the mirror, even before it exists: the log of requests is beside it. */
  readonly rateLogBeside: string;
  readonly wanted: Wanted;
}

/** Reads the parts of the live state that are wanted; the caller closes it. */
export async function openLive(
  context: CommandContext,
  { source, command, mirror, rateLogBeside, wanted }: LiveChoice,
): Promise<LoadedState> {
  let progress: Progress | null = null;
  const log = loggingAbove(commandLog(context), () => progress?.clear());
  const client = openReadClient(source, log, rateLogBeside);
  const shown = { clock: systemClock, source, stats: () => client.stats(), isLive: true };
  if (hasBars(context)) progress = showProgress(context, shown);
  // Not for `restore`: the dashboard and MCP show what it prints.
  else if (command !== 'restore') progress = logProgress(context, shown);
  try {
    return await readLive({
      source,
      client,
      ...wanted,
      ...(mirror !== null && {
        fingerprintKey: mirror.acceptances.fingerprintKey(),
        newIdOf: idLookup(mirror.restores.idMap(source.name)),
      }),
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

/** The parts of a live state that are needed; other states have everything already. */
export interface Wanted {
  readonly filter: StateFilter;
  /** Kinds that are not read unless the filter names them. */
  readonly except?: ReadonlySet<Kind>;
  /** The state that live is compared with; by default the latest state that the mirror has of the source. */
  readonly against?: LoadedState;
  /** The latest state that the mirror has of the source, if `against` is another one. */
  readonly latest?: LoadedState;
  /** Records that are requested by id if no list shows them, however many they are. */
  readonly isNamed?: NonNullable<LiveOptions['isNamed']>;
}
