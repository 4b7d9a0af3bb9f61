/** How a failure ends a command: its message, what to do about it, the exit code. One of the three places that end errors. */
import { asTidemarkError, EXIT, exitCodeFor, type ExitCode, type TidemarkError } from '../core/errors.ts';
import { type GlobalOptions, printLines, type ProcessContext, toRun } from './context.ts';

/** An error in JSON documents. */
export function errorDocument(error: Pick<TidemarkError, 'code' | 'message' | 'hint'> | null): object | null {
  return error === null ? null : { code: error.code, message: error.message, hint: error.hint ?? null };
}

/** An error as lines for stderr: its message, then its hint. */
export function errorLines({ message, hint }: Pick<TidemarkError, 'message' | 'hint'>): string[] {
  return [message, ...(hint === undefined ? [] : [`  → ${hint}`])];
}

/**
 * Prints the error on stderr and returns its exit code. With `isJson` also prints a document on stdout in place of the result,
 * unless the result has begun (`hasBegun`); wrong usage is then only in the document. Stack traces only with `isVerbose`.
 */
export function reportFailure(
  context: Pick<ProcessContext, 'stdout' | 'stderr'>,
  thrown: unknown,
  mode: {
    readonly isVerbose: boolean;
    readonly isJson: boolean;
    readonly hasBegun: boolean;
    /** As given, with the source that the command found itself: added to the commands in the hint. */
    readonly options: Pick<GlobalOptions, 'source' | 'config' | 'parents'>;
  },
): ExitCode {
  const error = asTidemarkError(thrown);
  const exitCode = exitCodeFor(error.code);
  const hint = error.hint === undefined ? undefined : toRun(error.hint, mode.options);
  if (mode.isJson && !mode.hasBegun) {
    const { code, message } = error;
    const document = { schema: 'tidemark.error/1', code, message, hint: hint ?? null, exit_code: exitCode };
    context.stdout.write(`${JSON.stringify(document)}\n`);
    // Nothing was begun: the document says everything.
    if (exitCode === EXIT.usage) return EXIT.usage;
  }
  const [first = '', ...rest] = error.message.split('\n');
  const next = hint === undefined ? [] : [`  → ${hint}`];
  printLines(context, [first, ...rest.map((line) => `  ${line}`), ...next]);
  if (mode.isVerbose) context.stderr.write(`${stackOf(error)}\n`);
  return exitCode;
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own;
}
