/** Every command, in the order in which `--help` lists them. */
import type { CommandRow } from './command-row.ts';
import { HISTORY_COMMANDS } from './history-commands.ts';
import { MIRROR_COMMANDS } from './mirror-commands.ts';
import { RESTORE_COMMANDS } from './restore-commands.ts';
import { TOOL_COMMANDS } from './tool-commands.ts';

export const COMMANDS: readonly CommandRow[] = [
  ...MIRROR_COMMANDS,
  ...HISTORY_COMMANDS,
  ...RESTORE_COMMANDS,
  ...TOOL_COMMANDS,
];
