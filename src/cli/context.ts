/** What a command may touch: the streams, the environment, the stop signal, and the global options. */
import type { ReadStream } from 'node:tty';
import type { Writable } from 'node:stream';
import type { ExitCode } from '../core/errors.ts';
import type { LogLevel } from '../core/logger.ts';
import { escapeForTerminal, escapeControlCharacters } from '../core/escape-control.ts';

/** The process as `main.ts` hands it in. */
export interface ProcessContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Pick<ReadStream, 'isTTY'>;
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /**
   * Called when stdout takes nothing more, unless the command outlives its output: ends the process. Where it is
   * missing, nobody watches stdout.
   */
  readonly onOutputLost?: (error: NodeJS.ErrnoException) => void;
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP, which from then on no longer ends the process. */
  readonly onHangup?: (listener: () => void) => void;
  /** Ends the process at once, whatever is under way. */
  readonly leave?: (code: ExitCode) => void;
  readonly pid: number;
  /**
   * The Node executable and the program's file: for what is started in a process of its own, the demo's sandbox and each
   * job of the daemon.
   */
  readonly execPath: string;
  readonly entry: string;
}

/** Options that every command takes (design.md, Commands). */
export interface GlobalOptions {
  readonly config?: string;
  readonly source?: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
  /** Everything, not only what is new or wrong. */
  readonly verbose?: boolean;
  readonly logLevel?: LogLevel;
  readonly color?: boolean;
}

export interface CommandContext extends ProcessContext {
  readonly options: GlobalOptions;
  /** Called once stderr says why the command ends as it does. */
  readonly onReasonPrinted?: () => void;
}

/** What a command does when it is called: its own options in, the exit code out. */
export type CommandAction<Options> = (context: CommandContext, options: Options) => Promise<ExitCode>;

/**
 * Writes to stdout and waits for room, so that a slow reader slows the command instead of filling memory. With `--json`
 * the text is JSON, and what could act on a terminal is written as JSON's escapes.
 */
export async function print(
  context: Pick<ProcessContext, 'stdout'> & { readonly options?: GlobalOptions },
  text: string,
): Promise<void> {
  if (context.stdout.write(context.options?.json === true ? escapeForTerminal(text) : text)) return;
  await new Promise<void>((resolve) => context.stdout.once('drain', resolve));
}

/** Says what a person should know beside the result: a line each on stderr, unless `--quiet`. */
export function printNote(
  context: Pick<CommandContext, 'stderr' | 'options'>,
  lines: readonly string[],
): void {
  if (context.options.quiet === true) return;
  for (const line of lines)
    context.stderr.write(
      line.startsWith(' ')
        ? `${escapeControlCharacters(line)}\n`
        : `tidemark: ${escapeControlCharacters(line)}\n`,
    );
}

/**
 * Says why a command ends with 1, 3, 5 or 6: a line each on stderr, also with `--quiet` and `--json`, since a cron
 * job that redirects stdout reports nothing else. Lines that begin with a space belong to the one before.
 */
export function printReason(
  context: Pick<CommandContext, 'stderr' | 'onReasonPrinted'>,
  lines: readonly string[],
): void {
  if (lines.length === 0) return;
  for (const line of lines)
    context.stderr.write(`${line.startsWith(' ') ? '' : 'tidemark: '}${escapeControlCharacters(line)}\n`);
  context.onReasonPrinted?.();
}

/** True where progress bars and prompts make sense. */
export function isInteractive(context: CommandContext): boolean {
  return context.stderr.isTTY === true && context.options.quiet !== true && context.env['CI'] === undefined;
}

/** True where the results may be coloured: `--no-color`, NO_COLOR and pipes say no. */
export function isColoured(context: CommandContext): boolean {
  return (
    context.options.color !== false && (context.env['NO_COLOR'] ?? '') === '' && context.stdout.isTTY === true
  );
}
