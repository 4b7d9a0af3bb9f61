/** How a failure ends a command: one clear line, what to do about it, the exit code. One of the places that end errors. */
import { asTidemarkError, exitCodeFor } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { neutralise } from '../report/neutralise.ts';
import type { ProcessContext } from './context.ts';

/**
 * Prints the error to stderr and returns the exit code of its code. Stack traces only where `isVerbose`.
 */
export function reportFailure(
  context: Pick<ProcessContext, 'stderr'>,
  thrown: unknown,
  mode: { readonly isVerbose: boolean; readonly isJson: boolean },
): ExitCode {
  const error = asTidemarkError(thrown);
  if (mode.isJson) {
    const document = {
      schema: 'tidemark.error/1',
      code: error.code,
      message: error.message,
      hint: error.hint ?? null,
    };
    context.stderr.write(`${JSON.stringify(document)}\n`);
  } else {
    const lines = error.message.split('\n').map((line) => neutralise(line));
    context.stderr.write(`tidemark: ${lines.join('\n  ')}\n`);
    if (error.hint !== undefined) context.stderr.write(`  → ${neutralise(error.hint)}\n`);
  }
  if (mode.isVerbose) context.stderr.write(`${stackOf(error)}\n`);
  return exitCodeFor(error.code);
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own;
}
