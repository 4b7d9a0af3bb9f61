/** Every command, in the order in which `--help` lists them. */
import type { CommandRow } from './command-row.ts';
import { DAEMON_COMMANDS } from './daemon-commands.ts';
import { COMPLETION_COMMANDS } from './completion-commands.ts';
import { COPIES_COMMANDS } from './copies-commands.ts';
import { HISTORY_COMMANDS } from './history-commands.ts';
import { MIRROR_COMMANDS } from './mirror-commands.ts';
import { NOTIFY_COMMANDS } from './notify-commands.ts';
import { RESTORE_COMMANDS } from './restore-commands.ts';
import { SETUP_COMMANDS } from './setup-commands.ts';
import { TOOL_COMMANDS } from './tool-commands.ts';

export const COMMANDS: readonly CommandRow[] = [
  ...SETUP_COMMANDS,
  ...MIRROR_COMMANDS,
  ...HISTORY_COMMANDS,
  ...RESTORE_COMMANDS,
  ...DAEMON_COMMANDS,
  ...COPIES_COMMANDS,
  ...NOTIFY_COMMANDS,
  ...TOOL_COMMANDS,
  ...COMPLETION_COMMANDS,
];
