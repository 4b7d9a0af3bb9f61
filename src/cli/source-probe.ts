/** Looks at one source for a command: `doctor`, `init`, `estimate`. */
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

/** @throws the abort reason when interrupted */
export async function probeSource(
  context: Pick<CommandContext, 'env' | 'options' | 'signal' | 'stderr'>,
  source: SourceConfig,
  mirror: Mirror | null,
  /** As in a `Config`; null where no mirror is configured yet. */
  rateLogBeside: string | null,
  kinds: readonly Kind[] | null = null,
  isFirstTry = false,
): Promise<SourceReach> {
  // What goes wrong is in the result: a log beside it would only repeat it.
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
 * What the source's key may do, `*` for everything; null where the service does not report it, for which nothing is sent if
 * the profile says so.
 * @throws the abort reason when interrupted
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
/** A limit that other processes use up too is waited for again and again. */
const SAID_AGAIN_MS = 30_000;

/** Says while it lasts that the requests wait, as for a rate limit that a daemon uses as well. */
async function noteWaits(
  context: Pick<CommandContext, 'options' | 'stderr'>,
  source: string,
  over: Promise<unknown>,
  waitingUntil: () => number | undefined,
): Promise<void> {
  let saidAt = Number.NEGATIVE_INFINITY;
  while (!(await settlesWithin(over, WAIT_CHECK_MS, systemClock))) {
    const now = systemClock.now();
    const ms = (waitingUntil() ?? 0) - now;
    if (ms <= 0 || now < saidAt + SAID_AGAIN_MS || context.options.json === true) continue;
    saidAt = now;
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

// Log lines for a person at a terminal: the time, the level where it matters, the sentence, and the facts behind it.

type LogContext = Pick<CommandContext, 'stderr' | 'env' | 'options' | 'onReasonPrinted' | 'ofSeveral'>;

/**
 * The log of a command other than a server: warnings are for a person, wherever they go; who gives `--log-level` gets what
 * `serverLog` writes. `level`: where the command line says none.
 */
export function commandLog(context: LogContext, level: LogLevel = 'warn'): Logger {
  const { options, stderr } = context;
  return options.logLevel === undefined && level !== 'silent' && stderr.isTTY !== true
    ? // Without --quiet the report says why, not a warning.
      plainLog(options.quiet === true ? context : { stderr, env: context.env, options }, level)
    : serverLog(context, level);
}

/** The log of what runs until it is stopped: lines for a person at a terminal, JSON lines elsewhere. */
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

/** Writes lines of at least `least` to the terminal. */
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
  const isEnabled = (level: WrittenLevel): boolean => LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
  const write = (level: WrittenLevel, facts: Readonly<Record<string, unknown>>, message: string): void => {
    if (!isEnabled(level)) return;
    const time = new Date(clock.now()).toTimeString().slice(0, 8);
    const mark = level === 'info' ? '' : `${level}: `;
    const text = Object.entries({ ...carried, ...facts })
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
    const line = `${colors.dim(time)} ${paint[level](escapeControlCharacters(mark + message))} ${colors.dim(escapeControlCharacters(text))}`;
    context.stderr.write(`${line.trimEnd()}\n`);
  };
  return {
    error: (facts, message) => write('error', facts, message),
    warn: (facts, message) => write('warn', facts, message),
    info: (facts, message) => write('info', facts, message),
    debug: (facts, message) => write('debug', facts, message),
    trace: (facts, message) => write('trace', facts, message),
    isLevelEnabled: isEnabled,
    child: (facts) => terminalLog(context, least, clock, { ...carried, ...facts }),
  };
}

/** As commands print their errors: what it is about, the sentence, and what to do. */
export function plainLog(
  context: LogContext,
  least: LogLevel,
  carried: Record<string, unknown> = {},
): Logger {
  const isLevelEnabled = (level: WrittenLevel): boolean =>
    LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
  const write = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (!isLevelEnabled(level)) {
      // A job that is partial as before: an earlier mail has the reason.
      if (facts['outcome'] === 'partial') context.onReasonPrinted?.();
      return;
    }
    const { source, channel, kind, hint, causes } = { ...carried, ...facts };
    const about = [source, channel, kind].filter((each) => typeof each === 'string');
    const [first = '', ...rest] = message.split('\n');
    // Where a failure was mailed, a line that says so again is not needed.
    const printed = level === 'error' || level === 'warn' ? printReason : printLines;
    printed(context, [
      [...(level === 'warn' ? ['warning'] : []), ...about, first].join(': '),
      ...[...rest, ...(Array.isArray(causes) ? causes.map(String) : [])].map((line) => `  ${line}`),
      ...(typeof hint === 'string' ? [`  → ${hint}`] : []),
    ]);
  };
  return {
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    trace: write('trace'),
    isLevelEnabled,
    child: (facts) => plainLog(context, least, { ...carried, ...facts }),
  };
}
