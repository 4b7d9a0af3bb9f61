/** Probes one source for `doctor`, `init` and `estimate`; the logs of commands. */
import { createColors } from 'picocolors';
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import { settlesWithin, systemClock, type Clock } from '../core/clock.ts';
import { duration } from '../core/wording.ts';
import {
  type Logger,
  createLogger,
  silentLogger,
  type LogLevel,
  type WrittenLevel,
  LOG_LEVELS,
} from '../core/logger.ts';
import { keyPermissions, reachSource } from '../doctor/reach.ts';
import type { SourceReach } from '../doctor/source-reach.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { movedAddress } from '../sync/removals.ts';
import { openProbeClient } from '../wire-client.ts';
import { type CommandContext, printLines, printNote, printReason } from './context.ts';

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

// The logs of commands.

type LogContext = Pick<CommandContext, 'stderr' | 'env' | 'options' | 'onReasonPrinted' | 'ofSeveral'>;

/**
 * The log of a command other than a server: warnings for a person, also if stderr is not a terminal. With `--log-level`, the
 * same as `serverLog`.
 * @param level the level without `--log-level`
 */
export function commandLog(context: LogContext, level: LogLevel = 'warn'): Logger {
  const { options, stderr } = context;
  return options.logLevel === undefined && level !== 'silent' && stderr.isTTY !== true
    ? // Only with --quiet, a warning counts as the reason of the exit code: otherwise the report has the reason.
      plainLog(options.quiet === true ? context : { stderr, env: context.env, options }, level)
    : serverLog(context, level);
}

/** The log of a server: lines for a person on a terminal, JSON lines elsewhere. */
export function serverLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  level: LogLevel = 'warn',
): Logger {
  const least = context.options.logLevel ?? level;
  if (least === 'silent') return silentLogger;
  return context.stderr.isTTY === true
    ? terminalLog(context, least, systemClock)
    : createLogger(least, context.stderr);
}

/** The same function for each level, as the methods of a logger. */
export function atEachLevel(
  write: (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => void,
): Pick<Logger, WrittenLevel> {
  return {
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    trace: write('trace'),
  };
}

/** True if lines of `level` are written when `least` is set. */
export function isAtLeast(level: WrittenLevel, least: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
}

/** Writes lines of at least `least` to the terminal: the time, the level unless it is info, the message, and the facts. */
function terminalLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  least: LogLevel,
  clock: Pick<Clock, 'now'>,
  carried: Readonly<Record<string, unknown>> = {},
): Logger {
  const isColoured = context.options.color !== false && (context.env['NO_COLOR'] ?? '') === '';
  const colors = createColors(isColoured);
  const paint = {
    error: colors.red,
    warn: colors.yellow,
    info: String,
    debug: colors.dim,
    trace: colors.dim,
  } as const;
  const write = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (!isAtLeast(level, least)) return;
    const time = new Date(clock.now()).toTimeString().slice(0, 8);
    const mark = level === 'info' ? '' : `${level}: `;
    const text = Object.entries({ ...carried, ...facts })
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
    const line = `${colors.dim(time)} ${paint[level](escapeControlCharacters(mark + message))} ${colors.dim(escapeControlCharacters(text))}`;
    context.stderr.write(`${line.trimEnd()}\n`);
  };
  return {
    ...atEachLevel(write),
    isLevelEnabled: (level) => isAtLeast(level, least),
    child: (facts) => terminalLog(context, least, clock, { ...carried, ...facts }),
  };
}

/** Writes lines in the form of a command's errors: the source, the message, and what to do. */
export function plainLog(
  context: LogContext,
  least: LogLevel,
  carried: Record<string, unknown> = {},
): Logger {
  const write = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (!isAtLeast(level, least)) {
      // A job that is partial for the same reason as before: an earlier mail has the reason.
      if (facts['outcome'] === 'partial') context.onReasonPrinted?.();
      return;
    }
    const { source, channel, kind, hint, causes } = { ...carried, ...facts };
    const about = [source, channel, kind].filter((each) => typeof each === 'string');
    const [first = '', ...rest] = message.split('\n');
    // An error or a warning counts as the reason of the exit code, which is then not printed again.
    const printTo = level === 'error' || level === 'warn' ? printReason : printLines;
    printTo(context, [
      [...(level === 'warn' ? ['warning'] : []), ...about, first].join(': '),
      ...[...rest, ...(Array.isArray(causes) ? causes.map(String) : [])].map((line) => `  ${line}`),
      ...(typeof hint === 'string' ? [`  → ${hint}`] : []),
    ]);
  };
  return {
    ...atEachLevel(write),
    isLevelEnabled: (level) => isAtLeast(level, least),
    child: (facts) => plainLog(context, least, { ...carried, ...facts }),
  };
}
