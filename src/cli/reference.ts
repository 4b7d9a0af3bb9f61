/** References to states of the mirror, as users write them. */
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import type { Mirror } from '../mirror/mirror.ts';

/**
 * The run that a reference means; null for `latest`, the current state.
 * @throws TidemarkError `reference_unknown` with what exists
 */
export function resolveRun(mirror: Mirror, reference: string): number | null {
  if (reference === 'latest') return null;
  const number = /^run:(\d{1,15})$/.exec(reference)?.[1];
  if (number === undefined) {
    const near = suggest(reference, ['latest', 'run:1']);
    throw new TidemarkError(
      'reference_unknown',
      `${reference} is no reference${near === undefined ? '' : `; did you mean ${near}?`}`,
      { hint: 'write latest, or run:N with a number of `tidemark runs`' },
    );
  }
  const run = mirror.run(Number(number));
  if (run === undefined || run.root === null) {
    throw new TidemarkError('reference_unknown', `there is no published run ${number}`, {
      hint: '`tidemark runs` lists them',
    });
  }
  return run.run;
}
