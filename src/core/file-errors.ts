/** Errors of the file system as `TidemarkError`: the path, what was tried, why it failed, and what to do. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { TidemarkError, systemCodeOf, systemErrorText } from './errors.ts';

/** What was done to the path, as the end of `… could not be …`. */
type FileOperation = 'read' | 'written' | 'made' | 'removed' | 'listed' | 'opened';

/**
 * Turns an error of the file system into a `TidemarkError` that names `path`: `disk_full`, `read_only` (for writing and
 * creating) or `file_system`. Anything else is returned unchanged, so that callers can write
 * `throw asFileError(error, path, 'written')`.
 */
export function asFileError(thrown: unknown, path: string, operation: FileOperation): unknown {
  const systemCode = systemCodeOf(thrown);
  if (thrown instanceof TidemarkError || systemCode === undefined) return thrown;
  const problem = systemErrorText(systemCode);
  const isForReading = operation === 'read' || operation === 'listed';
  const code = problem?.code ?? 'file_system';
  return new TidemarkError(
    code === 'read_only' && isForReading ? 'file_system' : code,
    `${path} could not be ${operation}: ${problem?.why ?? systemCode}`,
    { hint: problem?.hint ?? 'check that path, or choose another one', cause: thrown },
  );
}

/** Does `work` on a path and turns errors of the file system into those of `asFileError`. */
export async function onFile<T>(path: string, operation: FileOperation, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asFileError(error, path, operation);
  }
}

/**
 * Creates a directory and the missing ones above it, each with `mode`, by default private.
 * @returns the topmost directory created; undefined if all existed
 * @throws TidemarkError that names `path`
 */
export function makeDirectory(path: string, mode = 0o700): string | undefined {
  try {
    return makeWithParents(path, mode);
  } catch (error) {
    throw asFileError(error, path, 'made');
  }
}

/** Does not use `recursive`, which in Node.js never ends below a directory that cannot have directories, such as /proc. */
function makeWithParents(path: string, mode: number, parentsAreThere = false): string | undefined {
  try {
    mkdirSync(path, { mode });
    return path;
  } catch (error) {
    const code = systemCodeOf(error);
    const parent = dirname(path);
    if (code === 'ENOENT' && !parentsAreThere && parent !== path) {
      const first = makeWithParents(parent, mode);
      const own = makeWithParents(path, mode, true);
      return first ?? own;
    }
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return undefined;
    throw error;
  }
}
