/** `tidemark man`: the manual page. */
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { programVersion } from '../core/version.ts';
import { print } from './context.ts';
import type { CommandContext } from './context.ts';
import { manPage } from './man-page.ts';

export async function man(context: CommandContext): Promise<ExitCode> {
  await print(context, manPage(programVersion()));
  return EXIT.done;
}
