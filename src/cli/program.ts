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

/** Runs one command line and returns its exit code. Never throws: every failure is printed and coded. */
export async function runCommandLine(argv: readonly string[], process: ProcessContext): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.done;
  const program = createProgram(process, (code) => (exitCode = code));
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    const { reportFailure } = await import('./failure.ts');
    const stopped =
      process.signal.aborted && !(error instanceof TidemarkError && error.code !== 'interrupted')
        ? new TidemarkError('interrupted', 'interrupted; what was published before is untouched')
        : error;
    const options = program.opts<GlobalOptions>();
    return reportFailure(process, stopped, {
      isVerbose: options.logLevel === 'debug',
      isJson: options.json === true,
    });
  }
}

function createProgram(process: ProcessContext, end: (code: ExitCode) => void): Command {
  const program = new Command('tidemark')
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
    .showHelpAfterError('(run with --help for usage)')
    .configureOutput({
      writeOut: (text) => process.stdout.write(text),
      writeErr: (text) => process.stderr.write(text),
      getOutHelpWidth: () => process.stdout.columns ?? 100,
      getErrHelpWidth: () => process.stderr.columns ?? 100,
    })
    .exitOverride();
  for (const row of COMMANDS) addCommand(program, row, process, end);
  return program;
}

function addCommand(
  parent: Command,
  row: CommandRow,
  process: ProcessContext,
  end: (code: ExitCode) => void,
): void {
  const command = parent.command(row.name).description(row.description).exitOverride();
  command.copyInheritedSettings(parent);
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
  if (row.examples !== undefined) {
    command.addHelpText('after', `\nExamples:\n${row.examples.map((example) => `  ${example}`).join('\n')}`);
  }
  for (const child of row.commands ?? []) addCommand(command, child, process, end);
  const { load } = row;
  if (load === undefined) return;
  command.action(async () => {
    const options = program(command).opts<GlobalOptions>();
    const context: CommandContext = { ...process, options };
    const run = await load();
    const named = Object.fromEntries(
      (row.arguments ?? []).map(({ key }, index) => [key, command.args[index]]),
    );
    end(await run(context, { ...command.opts(), ...named }));
  });
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
