/** The sink of a walk, its verdict, and the errors for which a walk proves nothing. */
import { hash } from 'node:crypto';
import { shownId, type ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { RecordSyntaxError, type ScannedRecord } from '../core/json-scan.ts';
import type { NeutralText } from './neutral-text.ts';

export interface WalkSink {
  /**
   * Synchronous; called once per page, in the order received, also with records without an id. Returns how many keys
   * were not seen before in this pass (`fresh`), how many of these an earlier pass saw (`again`), how many records the
   * mirror holds unchanged (`known`), and how many keys were seen so far in this pass (`distinct`). It throws a
   * `SyntaxError` for a record that cannot be read. The page is then fetched again, so nothing of it may have been
   * stored.
   */
  accept(page: { readonly records: readonly ScannedRecord[]; readonly receivedAt: number }): {
    fresh: number;
    again: number;
    known: number;
    distinct: number;
  };
  /** Called after each page. `received` counts rows, including repeated ones. */
  progress?(state: { pages: number; received: number; count: number | null }): void;
  /**
   * Called when the list is read again from its head because keys and count disagreed: `fresh` and `distinct` start
   * from zero. Without this method they count over all passes, and a list that lost rows meanwhile stays unproven.
   */
  startPass?(): void;
}

export interface WalkVerdict {
  /**
   * `incomplete`: read but not proved complete. `denied`: 401 or 403. `missing`: 404 or 410 for the first request.
   * `failed`: requests failed, or the pages form a loop.
   */
  readonly outcome: 'complete' | 'incomplete' | 'denied' | 'missing' | 'failed';
  readonly mode: 'full' | 'head';
  /** Pages received, including repeated ones. */
  readonly pages: number;
  /** The latest `count` of the list. */
  readonly count: number | null;
  readonly distinct: number;
  /** True if one response held the entire list. */
  readonly isOnePage: boolean;
  /** The number of rows on the largest page received. */
  readonly pageCap: number | null;
  /** Null if and only if the outcome is `complete`. */
  readonly error: TidemarkError | null;
}

// The messages continue "the list of …: ".

const HINT = 'the mirror keeps what it held, and nothing was removed; the next run reads the list again';

/** The error for a list whose pages form a loop. */
export function loopError(what: string): TidemarkError {
  return new TidemarkError('walk_loop', what, { hint: HINT });
}

/** The error for a list that ended, or whose walk was given up, without proof that it was complete. */
export function unprovenError(what: string): TidemarkError {
  return new TidemarkError('walk_unproven', what, { hint: HINT });
}

/** The error for records without an id, which a mirror cannot hold. */
export function withoutIdError(count: number, idPath: readonly string[]): TidemarkError {
  return new TidemarkError(
    'malformed',
    `${count} ${count === 1 ? 'record has' : 'records have'} no usable id (${idPath.join('.')})`,
    { hint: 'they were not mirrored and nothing was removed; check the service' },
  );
}

/**
 * The error of a page whose `next` link named another origin. Its path was requested from the configured one, because
 * the key must not be sent elsewhere.
 */
export function foreignNextError(error: TidemarkError, origin: string): TidemarkError {
  return new TidemarkError(
    error.code,
    `its \`next\` points to ${origin}, which gets no request; at the configured address, that path answered: ${error.message}`,
    {
      ...detailsOf(error),
      hint: 'the service returns addresses of another origin: set baseUrl of the source to the right origin, or correct the address in the service',
      cause: error,
    },
  );
}

/** The same error with the name of the list at its beginning. `how`: how the walk of the list ended. */
export function listError(error: TidemarkError, { title }: ResourceDefinition, how = ''): TidemarkError {
  const message = `the list of ${title.many}${how}: ${error.message}`;
  return new TidemarkError(error.code, message, { ...detailsOf(error), cause: error.cause });
}

function detailsOf({ hint, isRetryable, status, permission, retryAfterMs }: TidemarkError) {
  return { hint, isRetryable, status, permission, retryAfterMs };
}

/** The error of a page whose records the sink cannot read; null if the sink failed for another reason. */
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
      hint: 'run again later; if this persists, the service sends broken records',
      isRetryable: true,
      cause: error,
    });
  }
  return error instanceof TidemarkError && error.code === 'malformed' ? error : null;
}

/** The outcome of a walk that an error of the service ended. */
export function outcomeOf(error: TidemarkError, isFirst: boolean): WalkVerdict['outcome'] {
  if (error.code === 'unauthorized' || error.code === 'forbidden') return 'denied';
  // In the middle of a walk the collection existed a moment ago, so this is a failure, not absence.
  return error.code === 'not_found' && isFirst ? 'missing' : 'failed';
}

// Rows without an id, distinguished by their text: a row that is on two overlapping pages counts once.

const MOST_COMPARED = 10_000; // a list of such rows only must not fill the memory

export class RecordsWithoutId {
  readonly #hashes = new Set<string>();
  #mostOnOnePage = 0;

  /** `count`: how many of the page's rows have no id. Equal rows of one page are counted separately. */
  note(records: readonly ScannedRecord[], count: number): void {
    if (count === 0) return;
    this.#mostOnOnePage = Math.max(this.#mostOnOnePage, count);
    for (const { id, stableText } of records)
      if (id === undefined && this.#hashes.size < MOST_COMPARED) this.#hashes.add(hash('sha256', stableText));
  }

  /** A lower bound, exact up to 10,000. */
  get count(): number {
    return Math.max(this.#hashes.size, this.#mostOnOnePage);
  }
}
