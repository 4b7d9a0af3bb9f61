/** The options that every command takes (design.md, Commands). */
import { LOG_LEVELS } from '../core/logger.ts';
import type { OptionRow } from './command-row.ts';

export const GLOBAL_OPTIONS: readonly OptionRow[] = [
  { flags: '--config <file>', description: 'configuration file (default: ./tidemark.yaml)' },
  {
    flags: '--source <name>',
    description: 'only this source; repeatable',
    isRepeatable: true,
    values: 'source',
  },
  { flags: '--json', description: 'print one JSON document' },
  { flags: '-v, --verbose', description: 'print everything, not only what is new or wrong' },
  {
    flags: '--quiet',
    description: 'print no progress and no notes, and nothing after a sync or verify without problems',
  },
  { flags: '--utc', description: 'print times in UTC instead of the local time zone (TZ)' },
  { flags: '--no-pager', description: 'print long results without a pager' },
  { flags: '--log-level <level>', description: 'how much to log to stderr', choices: LOG_LEVELS },
  { flags: '--no-color', description: 'print without colours' },
];

/** Every command has it too. */
export const HELP_OPTION: OptionRow = { flags: '-h, --help', description: 'show this help' };

/** Only of the program itself. */
export const VERSION_OPTION: OptionRow = { flags: '-V, --version', description: 'print the version' };

/** The introduction of `--help`, the man page and the reference. */
export const SUMMARY =
  "Keeps a trustworthy local SQLite copy of an organization's configuration in a remote service.";

/** The first commands for most users. */
export const FIRST_EXAMPLES: readonly string[] = [
  'tidemark demo                          # sync, drift and restore in a sandbox, no key needed',
  'tidemark init                          # asks, checks, writes tidemark.yaml',
  'tidemark sync && tidemark status',
  'tidemark diff                          # what changed since the last sync',
  'tidemark restore                       # print the plan that restores it; nothing is sent',
];
