/** What a command may touch: the streams, the environment, the stop signal, and the global options. */
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
  /** True where stdout and stderr are one file or pipe, as with `2>&1`. Of terminals, `isTTY` says it. */
  readonly isOneFile?: boolean;
  /** Aborted by the first SIGINT or SIGTERM, with an error whose cause is its name. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP, which from then on no longer ends the process. */
  readonly onHangup?: (listener: () => void) => void;
  /** Ends the process at once, whatever is under way. */
  readonly leave?: (code: ExitCode) => void;
  /** Called when a pager begins and ends: Ctrl-C is then the pager's. Where it is missing, there is no pager. */
  readonly setPaging?: (isPaging: boolean) => void;
  /** Makes UTC the time zone of this process. */
  readonly useUtc?: () => void;
  readonly pid: number;
  /**
   * The Node executable and the program's file: for what is started in a process of its own, the demo's sandbox and each
   * job of the daemon.
   */
  readonly execPath: string;
  readonly entry: string;
  /**
   * True where jobs of the daemon, the cells of a fleet, and the work on a backup have no process of their own, as in most
   * tests: each start takes a third of a second of the processor.
   */
  readonly isOneProcess?: boolean;
  /** What a restore waits by until the service shows what a lost request did; default: the system's clock. */
  readonly clock?: Clock;
}

/** Options that every command takes (design.md, Commands). */
export interface GlobalOptions {
  readonly config?: string;
  readonly source?: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
  /** Everything, not only what is new or wrong. */
  readonly verbose?: boolean;
  readonly utc?: boolean;
  readonly pager?: boolean;
  readonly logLevel?: LogLevel;
  readonly color?: boolean;
  /** Of the command itself, as they were given: what it prints for the same question gets them. */
  readonly parents?: GivenParents;
}

/** To what a command was narrowed, by the option's name. */
type GivenParents = Partial<Readonly<Record<'organization' | 'project', readonly string[]>>>;

/** Those of a command's own options. */
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
  /** Where the command is called for each of several mirrors: what it writes must name the source. */
  readonly ofSeveral?: {
    readonly isFirst: boolean;
    readonly sources: readonly string[];
    /** What the calls have in common: computed for the first, and the same for the others. */
    readonly once: <Result>(compute: (context: CommandContext) => Result) => Result;
    /** Called with the kinds of the records that were asked for by id and found. */
    readonly onFound: (kinds: readonly Kind[]) => void;
    /** Called with what is wrong with a place that the mirrors may share: said after the last one, with the sources. */
    readonly onShared: (error: TidemarkError) => void;
  };
  /** Called once stderr says why the command ends as it does. */
  readonly onReasonPrinted?: () => void;
  /** Called with the source that the command is about, where the command line did not name it. */
  readonly onSourceKnown?: (source: string) => void;
}

/** What a command does when it is called: its own options in, the exit code out. */
export type CommandAction<Options> = (context: CommandContext, options: Options) => Promise<ExitCode>;

/** The columns of a terminal that reads the results; undefined for a pipe or a file, which take lines of any length. */
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

/** Writes text for people to stdout, wrapped between words where a terminal reads it. With `--json` it is a document. */
export async function print(
  context: Pick<ProcessContext, 'stdout'> & { readonly options?: GlobalOptions },
  text: string,
): Promise<void> {
  if (context.options?.json === true) await printDocument(context, escapeForTerminal(text));
  else await printDocument(context, wrapped(context.stdout, text));
}

/** Writes to stdout unchanged, and waits for room, so that a slow reader slows the command instead of filling memory. */
export async function printDocument({ stdout }: Pick<ProcessContext, 'stdout'>, text: string): Promise<void> {
  if (stdout.write(text)) return;
  await new Promise<void>((resolve) => stdout.once('drain', resolve));
}

/** Writes a table as CSV, in which a terminal gets no control character. */
export async function printCsv({ stdout }: Pick<ProcessContext, 'stdout'>, text: string): Promise<void> {
  await printDocument({ stdout }, stdout.isTTY === true ? escapeInLines(text) : text);
}

/**
 * Says what a person should know beside the result: a line each on stderr, unless `--quiet`. Commands in it get the
 * configuration file that was given, as in `printReason`.
 */
export function printNote(
  context: Pick<CommandContext, 'stderr' | 'options' | 'ofSeveral'>,
  lines: readonly string[],
): void {
  if (context.options.quiet !== true) printLines(context, asSaid(context, lines));
}

/**
 * Says why a command exits with 1, 3, 5 or 6: a line each on stderr, also with `--quiet` and `--json`, since a cron
 * job that redirects stdout reports nothing else. Lines that begin with a space belong to the one before.
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

/** A line about one of several sources, with its name, unless it names that itself or belongs to the line before. */
export function ofSource(line: string, source: string | undefined): string {
  if (source === undefined || line.startsWith(' ')) return line;
  const words = line.split(/[\s:,;()]+/);
  const isNamed = words.some(
    (word, index) => word === source && (index === 0 || /^(?:of|source)$/.test(words[index - 1] ?? '')),
  );
  return isNamed ? line : `${source}: ${line}`;
}

/**
 * A text whose commands, as `tidemark …` in backticks, can be run as they are: with the source, the configuration file, the organization and
 * the project that were given.
 */
export function toRun(
  text: string,
  { source, config, parents }: Pick<GlobalOptions, 'source' | 'config' | 'parents'>,
): string {
  const [only, ...others] = source ?? [];
  const ofSource = only === undefined || others.length > 0 ? text : withSource(text, only);
  return withConfigOption(withParents(ofSource, parents), config);
}

/**
 * Commands that answer the same question as the one that prints them, and so about the same parents. Not `export`: hints have it to list
 * the names to choose from.
 */
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

/** True where one terminal or file has stdout and stderr: what results say in full, the reason need not say again. */
export function isOneOutput({
  stdout,
  stderr,
  isOneFile,
  options,
}: Pick<CommandContext, 'stdout' | 'stderr' | 'isOneFile' | 'options'>): boolean {
  const isOneTerminal = stdout.isTTY === true && stderr.isTTY === true;
  return (isOneTerminal || isOneFile === true) && options.json !== true;
}

/** `printReason` of what the results on stdout name too, in the lines that begin with a space: one terminal or file has those once. */
export function printShownReason(context: CommandContext, lines: readonly string[]): void {
  printReason(context, isOneOutput(context) ? lines.filter((line) => !line.startsWith(' ')) : lines);
}

/** Lines on stderr, wrapped on a terminal. Those that begin with a space belong to the one before. */
export function printLines({ stderr }: Pick<ProcessContext, 'stderr'>, lines: readonly string[]): void {
  for (const line of lines) {
    const text = `${line.startsWith(' ') ? '' : 'tidemark: '}${escapeControlCharacters(line)}`;
    stderr.write(`${wrapped(stderr, text)}\n`);
  }
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

/** How reports are written as text: for the terminal that reads the results, or for a file. */
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

const FILE_WIDTH = 100; // columns into which long values are shortened where no terminal reads them
