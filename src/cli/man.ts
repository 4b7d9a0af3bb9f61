/** `tidemark man`: the manual page. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import { programVersion } from '../core/version.ts';
import { print, type CommandContext } from './context.ts';
import { manPage } from './man-page.ts';

export async function man(context: CommandContext): Promise<ExitCode> {
  await print(context, manPage(programVersion()));
  return EXIT.done;
}
