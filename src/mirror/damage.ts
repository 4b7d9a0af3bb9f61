/** What to do about a damaged mirror. */
import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { TidemarkError } from '../core/errors.ts';

/** How to replace it; names a copy that an upgrade kept, where there is one. */
export function replaceHint(path: string): string {
  const kept = keptCopy(path);
  return (
    'put a copy of the file back, or move it away and run `tidemark sync` for a new one (without history)' +
    (kept === undefined ? '' : `; an upgrade kept a copy from before it: ${kept}`)
  );
}

/** `verify` itself must not send anybody to `verify`. */
export function withoutVerifyHint(thrown: unknown, path: string): unknown {
  if (!(thrown instanceof TidemarkError) || thrown.code !== 'mirror_corrupt') return thrown;
  return new TidemarkError(thrown.code, thrown.message, { hint: replaceHint(path), cause: thrown.cause });
}

/** The newest `<path>.before-N`. */
function keptCopy(path: string): string | undefined {
  const start = `${basename(path)}.before-`;
  const versions = namesBeside(path).flatMap((name) => {
    const version = name.startsWith(start) ? name.slice(start.length) : '';
    return /^\d{1,6}$/.test(version) ? [Number(version)] : [];
  });
  return versions.length === 0 ? undefined : join(dirname(path), `${start}${Math.max(...versions)}`);
}

/** Nothing where the directory cannot be listed: this only makes a hint longer. */
function namesBeside(path: string): string[] {
  try {
    return readdirSync(dirname(path));
  } catch {
    return [];
  }
}
