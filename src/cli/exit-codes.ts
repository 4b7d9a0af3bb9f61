/** The meaning of each exit code (design.md, Commands), for the manual page and the reference. */
import { type ExitCode, EXIT } from '../core/errors.ts';

export const EXIT_CODES: readonly { readonly code: ExitCode; readonly meaning: string }[] = [
  { code: EXIT.done, meaning: 'done; nothing differs' },
  { code: EXIT.failed, meaning: 'failed' },
  { code: EXIT.differences, meaning: 'drift or differences found; a plan has steps' },
  {
    code: EXIT.partial,
    meaning:
      'partial: something could not be read, or a step failed or was blocked; takes precedence over 2, since what could not be read may hide differences',
  },
  { code: EXIT.usage, meaning: 'wrong usage or configuration; nothing was sent' },
  { code: EXIT.refused, meaning: 'the key was refused, or lacks the permission for everything requested' },
  {
    code: EXIT.unsafe,
    meaning: 'an unsafe plan was refused: a limit, or the service has changed since it was made',
  },
  { code: EXIT.interrupted, meaning: 'interrupted' },
];
