/** How a failure ends a command: one clear line, what to do about it, the exit code. One of the places that end errors. */
import { asTidemarkError, EXIT, exitCodeFor, type ExitCode } from '../core/errors.ts';
import { type GlobalOptions, printLines, type ProcessContext, toRun } from './context.ts';

/**
 * Prints the error on stderr (wrong usage only if no document is printed) and returns the exit code of its code. Where `isJson`, also as one document on stdout, in the
 * place of the result; behind a result that has begun (`hasBegun`) it would spoil it. Stack traces only where `isVerbose`.
 */
export function reportFailure(
  context: Pick<ProcessContext, 'stdout' | 'stderr'>,
  thrown: unknown,
  mode: {
    readonly isVerbose: boolean;
    readonly isJson: boolean;
    readonly hasBegun: boolean;
    /** Those that were given, with the source that the command found itself: the commands of the hint get them. */
    readonly options: Pick<GlobalOptions, 'source' | 'config' | 'parents'>;
  },
): ExitCode {
  const error = asTidemarkError(thrown);
  const hint = error.hint === undefined ? undefined : toRun(error.hint, mode.options);
  if (mode.isJson && !mode.hasBegun) {
    const document = {
      schema: 'tidemark.error/1',
      code: error.code,
      message: error.message,
      hint: hint ?? null,
      exit_code: exitCodeFor(error.code),
    };
    context.stdout.write(`${JSON.stringify(document)}\n`);
  }
  // Of a wrong command line nothing was begun: the document says it all.
  if (mode.isJson && !mode.hasBegun && exitCodeFor(error.code) === EXIT.usage) return EXIT.usage;
  const [first = '', ...rest] = error.message.split('\n');
  printLines(context, [
    first,
    ...rest.map((line) => `  ${line}`),
    ...(hint === undefined ? [] : [`  → ${hint}`]),
  ]);
  if (mode.isVerbose) context.stderr.write(`${stackOf(error)}\n`);
  return exitCodeFor(error.code);
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own;
}
