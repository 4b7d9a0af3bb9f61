/** What several errors tell the reader to do. */

/** The command that brings back the newest backup; it says itself how to continue from there. */
export const RESTORE_HINT = 'restore a backup (`tidemark backup restore latest --to ./restored/mirror.db`)';
