/**
 * The command line: which commands there are, their options, and the way from arguments to an exit code. A command's
 * own file is loaded only when it runs, so that `--help` is quick.
 */
import { readFileSync } from 'node:fs';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { EXIT, TidemarkError } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { LOG_LEVELS } from '../core/logger-levels.ts';
import { packageFile } from '../core/package-root.ts';
import { COMMANDS } from './command-table.ts';
import type { CommandRow } from './command-row.ts';
import type { CommandContext, GlobalOptions, ProcessContext } from './context.ts';
import { isReaderGone, lossText, watchOutput } from './output-watch.ts';

/** Runs one command line and returns its exit code. Never throws: every failure is printed and coded. */
export async function runCommandLine(argv: readonly string[], process: ProcessContext): Promise<ExitCode> {
  const output = watchOutput(process.stdout, process.onOutputLost);
  const state: Course = { exitCode: EXIT.done, refusing: null, help: '' };
  const program = createProgram({ ...process, stdout: output.stream }, state, output.outlive);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    const lost = await output.loss();
    // A reader that left knows; a result that could not be kept is no success.
    if (lost === null || isReaderGone(lost)) return state.exitCode;
    process.stderr.write(`${lossText(lost)}\n`);
    return state.exitCode === EXIT.done ? EXIT.failed : state.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    // Commander may have stopped before it came to the options.
    const isJson = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : argv.length).includes('--json');
    const [{ reportFailure }, { isCommandMissing, usageError }] = await Promise.all([
      import('./failure.ts'),
      import('./usage.ts'),
    ]);
    let failure: unknown = error;
    if (error instanceof CommanderError) {
      failure = usageError(error, state.refusing ?? program, argv);
      if (!isJson && isCommandMissing(error, state.refusing ?? program, argv)) {
        process.stderr.write(state.help);
        return EXIT.usage;
      }
    } else if (process.signal.aborted && !(error instanceof TidemarkError && error.code !== 'interrupted')) {
      failure = new TidemarkError('interrupted', 'interrupted; what was published before is untouched');
    }
    return reportFailure(process, failure, {
      isVerbose: program.opts<GlobalOptions>().logLevel === 'debug',
      isJson,
      hasBegun: output.hasBegun(),
    });
  }
}

/** What commander tells on the way. */
interface Course {
  exitCode: ExitCode;
  /** The command that found the command line wrong. */
  refusing: Command | null;
  /** What it would have printed to stderr: help, where a command is missing. */
  help: string;
}

function createProgram(process: ProcessContext, course: Course, outliveOutput: () => void): Command {
  const program: Command = new Command('tidemark')
    .description(
      'Keeps a trustworthy local SQLite copy of all that an organization has configured in a remote service.',
    )
    .version(version(), '-V, --version', 'print the version')
    .option('--config <file>', 'configuration file (default: ./tidemark.yaml)')
    .option('--source <name>', 'only this source; repeatable', collect)
    .option('--json', 'print one JSON document')
    .option('--quiet', 'no progress, no remarks')
    .addOption(new Option('--log-level <level>', 'how much to log to stderr').choices([...LOG_LEVELS]))
    .option('--no-color', 'no colours')
    .configureOutput({
      writeOut: (text) => process.stdout.write(text),
      writeErr: (text) => (course.help += text),
      // The error itself is thrown, and printed once at the end.
      outputError: () => undefined,
      getOutHelpWidth: () => process.stdout.columns ?? 100,
      getErrHelpWidth: () => process.stderr.columns ?? 100,
    })
    .exitOverride(refusedBy(() => program, course));
  for (const row of COMMANDS) addCommand(program, row, { process, course, outliveOutput });
  return program;
}

interface Surroundings {
  readonly process: ProcessContext;
  readonly course: Course;
  readonly outliveOutput: () => void;
}

function addCommand(parent: Command, row: CommandRow, surroundings: Surroundings): void {
  const { process, course, outliveOutput } = surroundings;
  const command = parent.command(row.name).description(row.description).copyInheritedSettings(parent);
  command.exitOverride(refusedBy(() => command, course));
  for (const argument of row.arguments ?? []) command.argument(argument.name, argument.description);
  for (const option of row.options ?? []) {
    const made = new Option(option.flags, option.description);
    if (option.choices !== undefined) made.choices([...option.choices]);
    const { parse = String, isRepeatable = false } = option;
    // A flag without a value is true as it is: a parser would make a text of it.
    const takesValue = option.flags.includes('<');
    if (isRepeatable)
      made.argParser((text, previous: unknown) => collect(parseOption(parse, text), previous));
    else if (takesValue && option.choices === undefined)
      made.argParser((text: string) => parseOption(parse, text));
    command.addOption(made);
  }
  if (row.notes !== undefined) command.addHelpText('after', `\n${row.notes.join('\n')}`);
  if (row.examples !== undefined) {
    command.addHelpText('after', `\nExamples:\n${row.examples.map((example) => `  ${example}`).join('\n')}`);
  }
  for (const child of row.commands ?? []) addCommand(command, child, surroundings);
  const { load } = row;
  if (load === undefined) return;
  command.action(async () => {
    const options = program(command).opts<GlobalOptions>();
    const context: CommandContext = { ...process, options };
    const run = await load();
    const named = Object.fromEntries(
      (row.arguments ?? []).map(({ name, key }, index) => [
        key,
        name.includes('...') ? command.args.slice(index) : command.args[index],
      ]),
    );
    const own = { ...takenByParents(command), ...command.opts(), ...named };
    if (row.outlivesOutput?.(own) === true) outliveOutput();
    course.exitCode = await run(context, own);
  });
}

/** Instead of ending the process: notes which command it was, and throws. */
function refusedBy(command: () => Command, course: Course): (error: CommanderError) => never {
  return (error) => {
    course.refusing = command();
    throw error;
  };
}

/**
 * A command with commands of its own takes its options wherever they stand: `drift accept --field` gives the value to
 * `drift`. It goes to the one that was called, which has to know it.
 */
function takenByParents(command: Command): Record<string, unknown> {
  const taken: Record<string, unknown> = {};
  for (let parent = command.parent; parent !== null; parent = parent.parent) {
    // The options of the program itself are every command's.
    if (parent.parent === null) break;
    for (const option of parent.options) {
      const name = option.attributeName();
      const value: unknown = parent.getOptionValue(name);
      if (value === undefined) continue;
      if (!command.options.some((own) => own.attributeName() === name))
        command.error(`error: unknown option '${option.long ?? name}'`, { code: 'commander.unknownOption' });
      taken[name] = value;
    }
  }
  return taken;
}

function program(command: Command): Command {
  return command.parent === null ? command : program(command.parent);
}

function parseOption(parse: (text: string) => unknown, text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

/** Gathers the values of a repeatable option. */
function collect(value: unknown, previous: unknown): unknown[] {
  return [...(Array.isArray(previous) ? (previous as unknown[]) : []), value];
}

function version(): string {
  const manifest = JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string };
  return manifest.version;
}
