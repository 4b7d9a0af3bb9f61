/** Shows long results in a pager, as git does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { wrapLines } from '../core/wrap.ts';
import { print, terminalWidth, type CommandContext } from './context.ts';

const LESS = 'FRX'; // ends at once if the text fits on the screen, shows colours, leaves the text on the screen
const DEFAULT = 'command -v less >/dev/null || exit 127; less';

/** Prints text for people, on a terminal in a pager if there is one. Returns when the reader has left the pager. */
export async function printPage(context: CommandContext, text: string): Promise<void> {
  const width = terminalWidth(context);
  const command = pagerOf(context);
  const isShown =
    width !== undefined && command !== null && (await showIn(command, wrapLines(text, width), context));
  if (!isShown) await print(context, text);
}

/** The shell command of the pager; null if the output is not paged. */
function pagerOf({ env, options, setPaging }: CommandContext): string | null {
  if (setPaging === undefined || options.json === true || options.pager === false) return null;
  if (env['TERM'] === 'dumb' || env['CI'] !== undefined) return null;
  const command = env['TIDEMARK_PAGER'] ?? env['PAGER'] ?? DEFAULT;
  return command.trim() === '' || command.trim() === 'cat' ? null : command;
}

const NOT_FOUND: ReadonlySet<number | null> = new Set([126, 127]); // exit codes of a shell that cannot run a command

/** False if the pager could not be started. A reader who leaves early is not a failure. */
async function showIn(command: string, text: string, context: CommandContext): Promise<boolean> {
  context.setPaging?.(true);
  try {
    const child = spawn('/bin/sh', ['-c', command], {
      stdio: ['pipe', 'inherit', 'inherit'],
      env: { LESS, ...context.env },
    });
    // A reader who leaves early closes the pipe: that is not an error.
    child.stdin.on('error', () => undefined);
    child.stdin.end(text);
    const [code] = (await once(child, 'close')) as [number | null];
    return !NOT_FOUND.has(code);
  } catch {
    // The shell could not be started: the caller prints the text without a pager.
    return false;
  } finally {
    context.setPaging?.(false);
  }
}
