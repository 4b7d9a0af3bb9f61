/** Errors of the file system in Tidemark's words: which path, what was tried, why not, and what to do. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { TidemarkError } from './errors.ts';
import { systemCodeOf } from './errors.ts';
import { systemErrorText } from './errors.ts';

/** What was being done to the path, as the end of `… could not be …`. */
type FileOperation = 'read' | 'written' | 'made' | 'removed' | 'listed' | 'opened';

/**
 * An error of the file system as a `TidemarkError` that names `path`: `disk_full`, `read_only` (what was to be
 * written or made may not be) or `file_system`. Anything else is returned unchanged, so that a caller can write
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

/** Does `work` on a path, with errors of the file system in Tidemark's words. */
export async function onFile<T>(path: string, operation: FileOperation, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asFileError(error, path, operation);
  }
}

/**
 * Makes a directory with those above it that are missing; `mode` is that of each, by default for nobody else to look into.
 * @returns the first that was made; undefined where all were there
 * @throws TidemarkError that names `path`
 */
export function makeDirectory(path: string, mode = 0o700): string | undefined {
  try {
    return makeWithParents(path, mode);
  } catch (error) {
    throw asFileError(error, path, 'made');
  }
}

/** Not `recursive`: where a parent can hold no directories, as /proc, Node's own way never ends. */
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
