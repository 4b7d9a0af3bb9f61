/** The number of a restore, as an argument. */
import { TidemarkError } from '../core/errors.ts';

/** @throws TidemarkError `usage` for what is no number */
export function restoreNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new TidemarkError('usage', `a restore is a number, not ${text}`, {
    hint: '`tidemark restores` lists them',
  });
}
