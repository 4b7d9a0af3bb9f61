/**
 * The command line, from arguments to an exit code. The file of a command is loaded only when it runs, so that `--help` is
 * quick.
 */
import { Argument, Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander';
import { SeveralMirrors } from '../config/mirrors.ts';
import { EXIT, firstError, TidemarkError, type ErrorCode, type ExitCode } from '../core/errors.ts';
import { programVersion } from '../core/package-root.ts';
import { COMMANDS } from './command-table.ts';
import { COMMAND_GROUPS, type CommandRow, type OptionRow } from './command-row.ts';
import { type CommandContext, type GlobalOptions, parentsGiven, type ProcessContext } from './context.ts';
import { FIRST_EXAMPLES, GLOBAL_OPTIONS, HELP_OPTION, SUMMARY, VERSION_OPTION } from './global-options.ts';
import { isReaderGone, outputLostText, watchOutput } from './output-watch.ts';
import { isDetailed } from '../core/logger.ts';
import { wrapLines } from '../core/wrap.ts';

/**
 * Runs one command line and returns its exit code. Never throws: a failure is printed and has an exit code.
 * @param commands other than the entire table only in tests and to parse a command line without running it
 */
export async function runCommandLine(
  argv: readonly string[],
  process: ProcessContext,
  commands: readonly CommandRow[] = COMMANDS,
): Promise<ExitCode> {
  const output = watchOutput(process.stdout, process.onOutputLost);
  const state: CommandRun = {
    exitCode: EXIT.done,
    command: null,
    isReasonPrinted: false,
    source: null,
    parents: {},
    refusing: null,
    help: '',
  };
  const program = createProgram(commands, {
    process: { ...process, stdout: output.stream },
    run: state,
    outliveOutput: output.outlive,
  });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    if (!state.isReasonPrinted && UNEXPLAINED.has(state.exitCode)) {
      const { EXIT_CODES } = await import('./exit-codes.ts');
      const meaning = EXIT_CODES.find(({ code }) => code === state.exitCode)?.meaning.split(';')[0];
      process.stderr.write(
        `tidemark: ${state.command ?? ''} ended with ${state.exitCode} (${meaning ?? ''}): see its output for the reason\n`,
      );
    }
    const lost = await output.loss();
    // A reader that closed the pipe knows that output is missing. Otherwise, output that could not be written is a failure.
    if (lost === null || isReaderGone(lost)) return state.exitCode;
    process.stderr.write(`${outputLostText(lost)}\n`);
    return state.exitCode === EXIT.done ? EXIT.failed : state.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    // Commander may have stopped before it parsed the options.
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
    const options = program.opts<GlobalOptions>();
    return reportFailure(process, failure, {
      isVerbose: isDetailed(options.logLevel),
      isJson,
      hasBegun: output.hasBegun(),
      options: {
        ...options,
        parents: state.parents,
        ...(state.source === null ? {} : { source: [state.source] }),
      },
    });
  }
}

/** Errors that `explainMissing` completes: those about the mirror as a whole, and those that may repeat what was typed. */
const EXPLAINED_CODES: ReadonlySet<ErrorCode> = new Set([
  ...(['mirror_missing', 'mirror_corrupt', 'mirror_foreign', 'mirror_version'] as const),
  ...(['usage', 'reference_unknown'] as const),
]);
/** Exit codes whose reason belongs on stderr: a line there names at least the command, if it printed none. */
const UNEXPLAINED: ReadonlySet<ExitCode> = new Set([EXIT.failed, EXIT.partial, EXIT.refused, EXIT.unsafe]);

/** What commander and the command find out while they run. */
interface CommandRun {
  exitCode: ExitCode;
  /** The command that ran. */
  command: string | null;
  isReasonPrinted: boolean;
  /** The source that the command turned out to concern, without `--source`. */
  source: string | null;
  /** The organizations and projects that it was limited to. */
  parents: NonNullable<GlobalOptions['parents']>;
  /** The command that rejected the command line. */
  refusing: Command | null;
  /** The help that commander writes to stderr if a command is missing. */
  help: string;
}

function createProgram(commands: readonly CommandRow[], surroundings: Surroundings): Command {
  const { process, run } = surroundings;
  const program: Command = new Command('tidemark')
    .description(SUMMARY)
    .version(programVersion(), VERSION_OPTION.flags, VERSION_OPTION.description)
    .helpOption(HELP_OPTION.flags, HELP_OPTION.description)
    // For `help`, the only command that is not in the table.
    .commandsGroup(`${COMMAND_GROUPS[0]}:`)
    .helpCommand('help [command]', 'show the help of a command')
    .configureHelp({
      // Without `[options]`, which nearly every command has, the description fits beside it at 80 columns.
      subcommandTerm: (command) => new Help().subcommandTerm(command).replace(' [options]', ''),
    })
    .configureOutput({
      writeOut: (text) => process.stdout.write(text),
      writeErr: (text) => (run.help += text),
      // The error itself is thrown, and printed once at the end.
      outputError: () => undefined,
      getOutHelpWidth: () => helpWidth(process.stdout),
      getErrHelpWidth: () => helpWidth(process.stderr),
    })
    .exitOverride(refusedBy(() => program, run));
  for (const option of GLOBAL_OPTIONS) program.addOption(optionOf(option));
  // With --help, commander would show the help of the family even after a word that is not a command.
  program.addHelpText('beforeAll', ({ command, error }) => {
    const [word] = command.args;
    const isFamily = command.commands.length > 0 && command.registeredArguments.length === 0;
    if (!error && isFamily && word !== undefined && !word.startsWith('-'))
      command.error(`error: unknown command '${word}'`, { code: 'commander.unknownCommand' });
    return '';
  });
  program.addHelpText(
    'after',
    `${examplesText(FIRST_EXAMPLES)}\n\nEvery command shows its own: tidemark COMMAND --help`,
  );
  for (const row of commands) addCommand(program, row, surroundings);
  return program;
}

interface Surroundings {
  readonly process: ProcessContext;
  readonly run: CommandRun;
  readonly outliveOutput: () => void;
}

function addCommand(parent: Command, row: CommandRow, surroundings: Surroundings): void {
  const { process, run, outliveOutput } = surroundings;
  const command = parent
    .command(row.name, { hidden: row.isHidden === true })
    .description(row.description)
    .copyInheritedSettings(parent);
  if (row.group !== undefined) command.helpGroup(`${row.group}:`);
  command.exitOverride(refusedBy(() => command, run));
  for (const { name, description, choices, parse } of row.arguments ?? []) {
    const made = new Argument(name, description);
    if (choices !== undefined) made.choices([...choices]);
    else if (parse !== undefined) made.argParser((text: string) => parseOption(parse, text));
    command.addArgument(made);
  }
  for (const option of row.options ?? []) command.addOption(optionOf(option));
  if (row.commands !== undefined && row.load === undefined)
    command.helpCommand('help [command]', 'show the help of a command');
  command.addHelpText('after', ({ error }) =>
    wrapLines(
      ['', EVERY_COMMAND_TAKES, ...(row.notes === undefined ? [] : ['', row.notes.join(' ')])].join('\n'),
      helpWidth(error ? process.stderr : process.stdout),
    ),
  );
  if (row.examples !== undefined) command.addHelpText('after', examplesText(row.examples));
  for (const child of row.commands ?? []) addCommand(command, child, surroundings);
  const { load } = row;
  if (load === undefined) return;
  command.action(async () => {
    const options = program(command).opts<GlobalOptions>();
    run.command = pathOf(command);
    if (options.utc === true) process.useUtc?.();
    const named = Object.fromEntries(
      (row.arguments ?? []).map(({ name, key }, index) => [
        key,
        name.includes('...') ? command.args.slice(index) : command.args[index],
      ]),
    );
    const own: Record<string, unknown> = { ...takenByParents(command), ...command.opts(), ...named };
    run.parents = parentsGiven(own);
    const context: CommandContext = {
      ...process,
      options: { ...options, parents: run.parents },
      onReasonPrinted: () => (run.isReasonPrinted = true),
      onSourceKnown: (source) => (run.source = source),
    };
    const loaded = await load();
    const action: typeof loaded = async (called, given) => {
      try {
        return await loaded(called, given);
      } catch (thrown) {
        const error = firstError(thrown);
        const isExplained = error instanceof TidemarkError && EXPLAINED_CODES.has(error.code);
        if (!isExplained || error instanceof SeveralMirrors) throw error;
        const { explainMissing } = await import('./missing-mirror.ts');
        throw await explainMissing(called, error);
      }
    };
    // `-` means stdout, as does leaving the option out; commands that only write files refuse it (`writtenFile`).
    if (own['output'] === '-') delete own['output'];
    if (row.outlivesOutput?.(own) === true) outliveOutput();
    try {
      run.exitCode = await action(context, own);
    } catch (error) {
      if (!(error instanceof SeveralMirrors) || (row.mirrors ?? row.locate) === undefined) throw error;
      const { forEachMirror, inOnlyMatchingMirror } = await import('./each-mirror.ts');
      if (row.mirrors === undefined) {
        const located = (await row.locate?.())?.(own);
        if (located === undefined) throw error;
        run.exitCode = await inOnlyMatchingMirror(context, error.sources, located, (one) => action(one, own));
        return;
      }
      const loop = { action, options: own, sources: error.sources, row: row.mirrors };
      run.exitCode = await forEachMirror(context, loop);
    }
  });
}

function optionOf({
  flags,
  description,
  choices,
  parse = String,
  isRepeatable,
  isHidden = false,
}: OptionRow): Option {
  const made = new Option(flags, description).hideHelp(isHidden);
  if (choices !== undefined) made.choices([...choices]);
  if (isRepeatable === true)
    made.argParser((text, previous: unknown) => {
      // `usage.ts` names the choices.
      if (choices?.includes(text) === false) throw new InvalidArgumentError('not one of the choices');
      return [...(Array.isArray(previous) ? (previous as unknown[]) : []), parseOption(parse, text)];
    });
  // Not for flags without a value: a parser would turn true into a text.
  else if (flags.includes('<') && choices === undefined)
    made.argParser((text: string) => parseOption(parse, text));
  return made;
}

const EVERY_COMMAND_TAKES = `And those of \`tidemark --help\`: ${GLOBAL_OPTIONS.map(({ flags }) => flags.replace(/ <.*/, '')).join(', ')}`;

function helpWidth({ columns }: ProcessContext['stdout']): number {
  return columns ?? 100;
}

function examplesText(examples: readonly string[]): string {
  return `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`;
}

/** For commander to call instead of ending the process: records which command it was, and throws. */
function refusedBy(command: () => Command, run: CommandRun): (error: CommanderError) => never {
  return (error) => {
    run.refusing = command();
    throw error;
  };
}

/**
 * Options that commander gave to a parent command instead: in `drift accept --field`, it parses `--field` for `drift`. The
 * called command gets them; an option that it does not have is an error.
 */
function takenByParents(command: Command): Record<string, unknown> {
  const taken: Record<string, unknown> = {};
  for (let parent = command.parent; parent !== null; parent = parent.parent) {
    // Every command has the options of the program itself.
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

/** E.g. `backup verify`. */
function pathOf(command: Command): string {
  const above = command.parent === null || command.parent.parent === null ? '' : `${pathOf(command.parent)} `;
  return `${above}${command.name()}`;
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
