/** Why a walk proves nothing. The messages continue "the list of …: ". */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';

const HINT = 'what the mirror held before stands and nothing was removed; the next run reads the list again';

/** The list leads in circles. */
export function loopError(what: string): TidemarkError {
  return new TidemarkError('walk_loop', what, { hint: HINT });
}

/** The list ended, or had to be left, without proof that it was whole. */
export function unprovenError(what: string): TidemarkError {
  return new TidemarkError('walk_unproven', what, { hint: HINT });
}

/** Records that no mirror can hold. */
export function withoutIdError(count: number, idPath: readonly string[]): TidemarkError {
  return new TidemarkError(
    'malformed',
    `${count} ${count === 1 ? 'record has' : 'records have'} no id (${idPath.join('.')})`,
    { hint: 'they were not mirrored and nothing was removed; check the service' },
  );
}

/** The same error with the list named at its beginning. */
export function ofList(error: TidemarkError, definition: ResourceDefinition): TidemarkError {
  return new TidemarkError(error.code, `the list of ${definition.title.many}: ${error.message}`, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    isRetryable: error.isRetryable,
    cause: error.cause,
  });
}
