/** `tidemark completion SHELL`: the script that makes a shell ask `tidemark __complete`. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import type { Shell } from './completion/shells.ts';
import { BASH_SCRIPT } from './completion/bash-script.ts';
import { FISH_SCRIPT } from './completion/fish-script.ts';
import { ZSH_SCRIPT } from './completion/zsh-script.ts';
import { print, type CommandContext } from './context.ts';

const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH_SCRIPT, zsh: ZSH_SCRIPT, fish: FISH_SCRIPT };

export async function completion(
  context: CommandContext,
  { shell }: { readonly shell: Shell },
): Promise<ExitCode> {
  await print(context, SCRIPTS[shell]);
  return EXIT.done;
}
