/** A kind given as an argument. */
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { kindName } from './command-row.ts';

/** @throws TidemarkError `usage` with the nearest kind */
export function kindArgument(text: string): Kind {
  try {
    return kindName(text) as Kind;
  } catch (error) {
    throw new TidemarkError('usage', `there is no kind ${JSON.stringify(text)}`, {
      hint: error instanceof Error ? error.message : '`tidemark catalog` lists them',
    });
  }
}
