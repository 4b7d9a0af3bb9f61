/** Why a walk proves nothing. The messages continue "the list of …: ". */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { shownId } from '../catalog/masks.ts';
import { TidemarkError } from '../core/errors.ts';
import { RecordSyntaxError } from '../core/json-scan.ts';
import type { NeutralText } from './neutral-text.ts';
import type { WalkVerdict } from './walk-verdict.ts';
import type { CollectionTarget } from './target.ts';

const HINT = 'the mirror keeps what it held, and nothing was removed; the next run reads the list again';

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
    `${count} ${count === 1 ? 'record has' : 'records have'} no usable id (${idPath.join('.')})`,
    { hint: 'they were not mirrored and nothing was removed; check the service' },
  );
}

/**
 * The error of a page whose address came with a `next` of another origin: only its path was asked for, at the configured
 * one, so that the key stays there.
 */
export function foreignNextError(error: TidemarkError, origin: string): TidemarkError {
  return new TidemarkError(
    error.code,
    `its \`next\` points to ${origin}, which gets no request; at the configured address, that path answered: ${error.message}`,
    {
      hint: 'the service returns addresses of another origin: set baseUrl of the source to the right origin, or correct the address in the service',
      isRetryable: error.isRetryable,
      cause: error,
      ...(error.status === undefined ? {} : { status: error.status }),
      ...(error.permission === undefined ? {} : { permission: error.permission }),
      ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    },
  );
}

/** The same error with the list named at its beginning. */
export function listError(error: TidemarkError, definition: ResourceDefinition): TidemarkError {
  return new TidemarkError(error.code, `the list of ${definition.title.many}: ${error.message}`, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    isRetryable: error.isRetryable,
    cause: error.cause,
  });
}

/** The error of a page whose records the sink cannot read; null when the sink failed for another reason. */
export function refusalOf(
  error: unknown,
  definition: ResourceDefinition,
  neutral: NeutralText,
): TidemarkError | null {
  if (error instanceof SyntaxError) {
    const { one } = definition.title;
    const name =
      error instanceof RecordSyntaxError ? `the ${one} ${shownId(definition, error.id)}` : 'a record';
    return new TidemarkError('malformed', neutral(`${name} is not valid JSON: ${error.message}`), {
      hint: 'run again later; if it stays, the service sends broken records',
      isRetryable: true,
      cause: error,
    });
  }
  return error instanceof TidemarkError && error.code === 'malformed' ? error : null;
}

/** What a failure of the service makes of the walk. */
export function outcomeOf(error: TidemarkError, isFirst: boolean): WalkVerdict['outcome'] {
  if (error.code === 'unauthorized' || error.code === 'forbidden') return 'denied';
  // In the middle of a walk the collection was there a moment ago: that is problem, not absence.
  return error.code === 'not_found' && isFirst ? 'missing' : 'failed';
}

/** The failure as one of the list, where it came in the middle of it. */
export function outcomeOfError(
  error: TidemarkError,
  target: CollectionTarget,
  isFirst: boolean,
): TidemarkError {
  if (isFirst) return error;
  const { many } = target.definition.title;
  return new TidemarkError(error.code, `the list of ${many} broke off: ${error.message}`, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.status === undefined ? {} : { status: error.status }),
    ...(error.permission === undefined ? {} : { permission: error.permission }),
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    isRetryable: error.isRetryable,
    cause: error,
  });
}
