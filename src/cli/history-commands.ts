/** The commands that read history: what was there, what changed, when. A command's file is named after it. */
import type { CommandRow } from './command-row.ts';
import { DIFF_COMMANDS } from './diff-commands.ts';
import { RECORD_HISTORY_COMMANDS } from './record-history-commands.ts';
import { RETENTION_COMMANDS } from './retention-commands.ts';

export const HISTORY_COMMANDS: readonly CommandRow[] = [
  ...DIFF_COMMANDS,
  ...RECORD_HISTORY_COMMANDS,
  ...RETENTION_COMMANDS,
];
