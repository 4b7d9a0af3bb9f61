/** Probes one source for `doctor`, `init` and `estimate`. */
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { settlesWithin, systemClock } from '../core/clock.ts';
import { duration } from '../core/wording.ts';
import { keyPermissions, reachSource } from '../doctor/reach.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { movedAddress } from '../sync/removals.ts';
import { openProbeClient } from '../wire-client.ts';
import { commandLog } from './command-log.ts';
import { type CommandContext, printNote } from './context.ts';

/** What the source's key reaches. @throws the abort reason if interrupted */
export async function probeSource(
  context: Pick<CommandContext, 'env' | 'options' | 'signal' | 'stderr'>,
  source: SourceConfig,
  mirror: Mirror | null,
  /** As in `Config`; null if no mirror is configured yet. */
  rateLogBeside: string | null,
  kinds: readonly Kind[] | null = null,
  isFirstTry = false,
): Promise<SourceReach> {
  // No log: the result has all errors.
  const client = openProbeClient(source, commandLog(context, 'silent'), rateLogBeside, isFirstTry);
  try {
    const reaching = reachSource({
      source,
      client,
      signal: context.signal,
      monotonicMs: () => systemClock.monotonicMs(),
      knownOrganizations: knownOrganizations(mirror, source.name),
      heldOrganizations: heldOrganizations(mirror, source.name),
      moved: movedAddress(mirror?.runs.addressOf(source.name), source),
      kinds,
    });
    await noteWaits(context, source.name, reaching, () => client.stats().waitingUntil);
    return await reaching;
  } finally {
    await client.close();
  }
}

/**
 * The permissions of the source's key, `*` for all; null if the service does not report them. Sends nothing if the profile
 * says so.
 * @throws the abort reason if interrupted
 */
export async function probeKey(
  context: Pick<CommandContext, 'options' | 'signal' | 'stderr' | 'env'>,
  source: SourceConfig,
  rateLogBeside: string,
): Promise<readonly string[] | null> {
  if (source.keyPath === undefined) return null;
  const client = openProbeClient(source, commandLog(context, 'silent'), rateLogBeside);
  try {
    return await keyPermissions(client, source.keyPath, context.signal);
  } finally {
    await client.close();
  }
}

const WAIT_CHECK_MS = 3_000;
/** Between two notes: if other processes use up the limit, the requests wait again and again. */
const NOTE_AGAIN_MS = 30_000;

/** Prints notes while the requests wait, for example for a rate limit that a daemon also uses. */
async function noteWaits(
  context: Pick<CommandContext, 'options' | 'stderr'>,
  source: string,
  over: Promise<unknown>,
  waitingUntil: () => number | undefined,
): Promise<void> {
  let notedAt = Number.NEGATIVE_INFINITY;
  while (!(await settlesWithin(over, WAIT_CHECK_MS, systemClock))) {
    const now = systemClock.now();
    const ms = (waitingUntil() ?? 0) - now;
    if (ms <= 0 || now < notedAt + NOTE_AGAIN_MS || context.options.json === true) continue;
    notedAt = now;
    printNote(context, [`${source}: waiting ${duration(ms)} for the rate limit, which counts all processes`]);
  }
}

function knownOrganizations(mirror: Mirror | null, source: string): string[] {
  const scopes = mirror?.runs.collections(source).map(({ scope }) => scope.organization_id) ?? [];
  return [...new Set(scopes.filter((id) => id !== undefined))];
}

function heldOrganizations(mirror: Mirror | null, source: string): number {
  const lists = mirror?.runs.collections(source).filter(({ kind }) => kind === 'organizations') ?? [];
  return lists.reduce((sum, { records }) => sum + records, 0);
}
