/** The commands that read history: what was there, what changed, when. A command's file is named after it. */
import type { CommandRow } from './command-row.ts';

export const HISTORY_COMMANDS: readonly CommandRow[] = [];
