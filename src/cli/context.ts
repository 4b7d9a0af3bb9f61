/** What a command gets: the streams, the environment, the stop signal and the global options; and how it prints. */
import type { ReadStream } from 'node:tty';
import { createColors } from 'picocolors';
import type { Writable } from 'node:stream';
import type { Kind } from '../catalog/kinds.ts';
import type { Clock } from '../core/clock.ts';
import type { ExitCode, TidemarkError } from '../core/errors.ts';
import { shellWord, withConfigOption, withOption, withSource } from '../core/hints.ts';
import type { LogLevel } from '../core/logger.ts';
import { escapeForTerminal, escapeControlCharacters, escapeInLines } from '../core/escape-control.ts';
import { wrapLines } from '../core/wrap.ts';

/** The process, from `main.ts`. */
export interface ProcessContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Pick<ReadStream, 'isTTY'>;
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  readonly stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number };
  /** Ends the process; called when stdout is closed, unless the command outlives its output. Undefined: stdout is not watched. */
  readonly onOutputLost?: (error: NodeJS.ErrnoException) => void;
  /** True if stdout and stderr are the same file or pipe, as with `2>&1`. For terminals, see `isTTY`. */
  readonly isOneFile?: boolean;
  /** Aborted by the first SIGINT or SIGTERM, with an error whose cause is the signal's name. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP, which then no longer ends the process. */
  readonly onHangup?: (listener: () => void) => void;
  /** Ends the process at once, whatever is under way. */
  readonly leave?: (code: ExitCode) => void;
  /** Called when a pager begins and ends, as Ctrl-C is then for the pager. Undefined: no pager is used. */
  readonly setPaging?: (isPaging: boolean) => void;
  /** Makes UTC the time zone of this process. */
  readonly useUtc?: () => void;
  readonly pid: number;
  /** The Node executable and the program's file, with which child processes are started: the demo's sandbox, jobs of the daemon. */
  readonly execPath: string;
  readonly entry: string;
  /**
   * True if jobs of the daemon, cells of a fleet and the making of backups run in this process, as in most tests: starting one takes
   * a third of a second of CPU time.
   */
  readonly isOneProcess?: boolean;
  /** For a restore that waits until the service shows the effect of a request without answer; default: the system's clock. */
  readonly clock?: Clock;
}

/** Options that every command takes (design.md, Commands). */
export interface GlobalOptions {
  readonly config?: string;
  readonly source?: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly verbose?: boolean;
  readonly utc?: boolean;
  readonly pager?: boolean;
  readonly logLevel?: LogLevel;
  readonly color?: boolean;
  /** `--organization` and `--project` of the command: added to the commands that it prints. */
  readonly parents?: GivenParents;
}

type GivenParents = Partial<Readonly<Record<'organization' | 'project', readonly string[]>>>;

/** The organizations and projects among a command's own options, as given. */
export function parentsGiven(options: Readonly<Record<string, unknown>>): GivenParents {
  return Object.fromEntries(
    (['organization', 'project'] as const).flatMap((name) => {
      const value = options[name];
      return Array.isArray(value) && value.length > 0 ? [[name, value.map(String)]] : [];
    }),
  );
}

export interface CommandContext extends ProcessContext {
  readonly options: GlobalOptions;
  /** Set if the command is called for each of several mirrors: its output must name the source. */
  readonly ofSeveral?: {
    readonly isFirst: boolean;
    readonly sources: readonly string[];
    /** Computes something once for all calls. */
    readonly once: <Result>(compute: (context: CommandContext) => Result) => Result;
    /** Called with the kinds of records that were requested by id and found. */
    readonly onFound: (kinds: readonly Kind[]) => void;
    /** Called with the error of a place that the mirrors may share: reported after the last call, with the sources. */
    readonly onShared: (error: TidemarkError) => void;
  };
  /** Called when stderr has the reason for the exit code. */
  readonly onReasonPrinted?: () => void;
  /** Called with the source that the command found, if the command line did not name it. */
  readonly onSourceKnown?: (source: string) => void;
}

/** What a command does when it is called: its own options in, the exit code out. */
export type CommandAction<Options> = (context: CommandContext, options: Options) => Promise<ExitCode>;

/** The columns of the terminal that shows the results; undefined for a pipe or a file, which take lines of any length. */
export function terminalWidth({ stdout }: Pick<ProcessContext, 'stdout'>): number | undefined {
  return columnsOf(stdout);
}

function columnsOf({ isTTY, columns }: ProcessContext['stdout']): number | undefined {
  return isTTY === true && columns !== undefined && columns > 0 ? columns : undefined;
}

function wrapped(stream: ProcessContext['stdout'], text: string): string {
  const width = columnsOf(stream);
  return width === undefined ? text : wrapLines(text, width);
}

/** Writes text to stdout, wrapped between words on a terminal; with `--json`, a document. */
export async function print(
  context: Pick<ProcessContext, 'stdout'> & { readonly options?: GlobalOptions },
  text: string,
): Promise<void> {
  if (context.options?.json === true) await printDocument(context, escapeForTerminal(text));
  else await printDocument(context, wrapped(context.stdout, text));
}

/** Prints the JSON document of a command with `--json`. */
export async function printJson(
  context: Pick<ProcessContext, 'stdout'> & { readonly options?: GlobalOptions },
  document: object,
): Promise<void> {
  await print(context, `${JSON.stringify(document)}\n`);
}

/** Writes to stdout unchanged. Waits if its buffer is full: a slow reader slows the command instead of filling memory. */
export async function printDocument({ stdout }: Pick<ProcessContext, 'stdout'>, text: string): Promise<void> {
  if (stdout.write(text)) return;
  await new Promise<void>((resolve) => stdout.once('drain', resolve));
}

/** Writes CSV; on a terminal, control characters are escaped. */
export async function printCsv({ stdout }: Pick<ProcessContext, 'stdout'>, text: string): Promise<void> {
  await printDocument({ stdout }, stdout.isTTY === true ? escapeInLines(text) : text);
}

/** Prints notes beside the result, a line each on stderr, unless `--quiet`. Commands in them are completed by `toRun`. */
export function printNote(
  context: Pick<CommandContext, 'stderr' | 'options' | 'ofSeveral'>,
  lines: readonly string[],
): void {
  if (context.options.quiet !== true) printLines(context, asSaid(context, lines));
}

/**
 * Prints why a command exits with 1, 3, 5 or 6: lines on stderr, also with `--quiet` and `--json`, as a cron job that redirects
 * stdout reports nothing else. Lines that begin with a space belong to the one before. Commands are completed by `toRun`.
 */
export function printReason(
  context: Pick<CommandContext, 'stderr' | 'options' | 'onReasonPrinted' | 'ofSeveral'>,
  lines: readonly string[],
): void {
  if (lines.length === 0) return;
  printLines(context, asSaid(context, lines));
  context.onReasonPrinted?.();
}

function toRunHere({ options }: Pick<CommandContext, 'options'>): (line: string) => string {
  return (line) => toRun(line, options);
}

function asSaid(
  context: Pick<CommandContext, 'options' | 'ofSeveral'>,
  lines: readonly string[],
): readonly string[] {
  const source = context.ofSeveral === undefined ? undefined : context.options.source?.[0];
  return lines.map(toRunHere(context)).map((line) => ofSource(line, source));
}

/** A line about one of several sources, with the source in front, unless the line names it or belongs to the one before. */
export function ofSource(line: string, source: string | undefined): string {
  if (source === undefined || line.startsWith(' ')) return line;
  const words = line.split(/[\s:,;()]+/);
  const isNamed = words.some(
    (word, index) => word === source && (index === 0 || /^(?:of|source)$/.test(words[index - 1] ?? '')),
  );
  return isNamed ? line : `${source}: ${line}`;
}

/** The text with the given source, configuration file, organizations and projects added to its commands (`tidemark …` in backticks). */
export function toRun(
  text: string,
  { source, config, parents }: Pick<GlobalOptions, 'source' | 'config' | 'parents'>,
): string {
  const [only, ...others] = source ?? [];
  const ofSource = only === undefined || others.length > 0 ? text : withSource(text, only);
  return withConfigOption(withParents(ofSource, parents), config);
}

/** Commands that are to cover the same parents as the one that prints them. Not `export`: hints use it to list names to choose from. */
const NARROWED = /^`tidemark (?:restore|diff|drift|changes)\b(?! (?:accept|accepted|unaccept)\b)/;

function withParents(text: string, parents: GivenParents = {}): string {
  const words = Object.entries(parents).flatMap(([name, ids]) =>
    ids.map((id) => ` --${name} ${shellWord(id)}`),
  );
  if (words.length === 0) return text;
  return withOption(
    text,
    words.join(''),
    (command) =>
      NARROWED.test(command) && !/ --(?:organization|project|id|resume|abandon|help)\b/.test(command),
  );
}

/** True if one terminal or file gets both stdout and stderr: the reason need not repeat what the results say. */
export function isOneOutput({
  stdout,
  stderr,
  isOneFile,
  options,
}: Pick<CommandContext, 'stdout' | 'stderr' | 'isOneFile' | 'options'>): boolean {
  const isOneTerminal = stdout.isTTY === true && stderr.isTTY === true;
  return (isOneTerminal || isOneFile === true) && options.json !== true;
}

/** `printReason`, without the lines that begin with a space if the results are in the same terminal or file, as these list the same. */
export function printShownReason(context: CommandContext, lines: readonly string[]): void {
  printReason(context, isOneOutput(context) ? lines.filter((line) => !line.startsWith(' ')) : lines);
}

/** Prints lines on stderr, wrapped on a terminal. Those that begin with a space belong to the one before. */
export function printLines({ stderr }: Pick<ProcessContext, 'stderr'>, lines: readonly string[]): void {
  for (const line of lines) {
    const text = `${line.startsWith(' ') ? '' : 'tidemark: '}${escapeControlCharacters(line)}`;
    stderr.write(`${wrapped(stderr, text)}\n`);
  }
}

/** True if progress bars and prompts make sense. */
export function isInteractive(context: CommandContext): boolean {
  return context.stderr.isTTY === true && context.options.quiet !== true && context.env['CI'] === undefined;
}

/** True if the results may be coloured: not with `--no-color` or NO_COLOR, and only on a terminal. */
export function isColoured(context: CommandContext): boolean {
  return (
    context.options.color !== false && (context.env['NO_COLOR'] ?? '') === '' && context.stdout.isTTY === true
  );
}

/** Removes the progress that a command shows in the current line of stderr. */
export function clearProgress(context: CommandContext): void {
  if (isInteractive(context)) context.stderr.write('\r\u001b[K');
}

/** How reports are rendered as text, for stdout or for a file. */
export function lineOptions(
  context: CommandContext,
  { isFile }: { readonly isFile: boolean } = { isFile: false },
): {
  readonly colors: ReturnType<typeof createColors>;
  readonly width: number;
  readonly tableWidth: number | undefined;
  readonly isVerbose: boolean;
  readonly toRun: (line: string) => string;
} {
  const columns = isFile ? undefined : terminalWidth(context);
  return {
    isVerbose: context.options.verbose === true,
    colors: createColors(!isFile && isColoured(context)),
    width: columns ?? FILE_WIDTH,
    tableWidth: columns,
    toRun: isFile ? (line) => line : toRunHere(context),
  };
}

const FILE_WIDTH = 100; // columns to which long values are shortened without a terminal
