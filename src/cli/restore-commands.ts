/** The commands that plan, apply and prove a restore. A command's file is named after it. */
import type { CommandRow } from './command-row.ts';

export const RESTORE_COMMANDS: readonly CommandRow[] = [];
