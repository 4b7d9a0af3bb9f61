/** Looks at one source for a command: `doctor`, `init`, `estimate`. */
import type { Kind } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { reachSource } from '../doctor/reach.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openProbeClient } from '../wire-client.ts';
import type { CommandContext } from './context.ts';
import { commandLog } from './terminal-log.ts';

/** @throws the abort reason when interrupted */
export async function probeSource(
  context: Pick<CommandContext, 'env' | 'options' | 'signal' | 'stderr'>,
  source: SourceConfig,
  mirror: Mirror | null,
  /** Beside it is the log of requests; null where no mirror is configured yet. */
  mirrorPath: string | null,
  kinds: readonly Kind[] | null = null,
): Promise<SourceReach> {
  // What goes wrong is in the result: a log beside it would only repeat it.
  const client = openProbeClient(source, commandLog(context, 'silent'), mirrorPath);
  try {
    return await reachSource({
      source,
      client,
      signal: context.signal,
      monotonicMs: () => systemClock.monotonicMs(),
      knownOrganizations: knownOrganizations(mirror, source.name),
      kinds,
    });
  } finally {
    await client.close();
  }
}

function knownOrganizations(mirror: Mirror | null, source: string): string[] {
  const scopes = mirror?.collectionsOf(source).map(({ scope }) => scope.organization_id) ?? [];
  return [...new Set(scopes.filter((id) => id !== undefined))];
}
