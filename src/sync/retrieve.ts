/**
 * Retrieves records by id, several at a time. 404 and 410 are answers, a failure of the service is a result of that one
 * record; only interruptions and errors of this machine are thrown.
 */
import type { ReadClient } from '../api/read-client.ts';
import type { Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, isLocalError, TidemarkError } from '../core/errors.ts';

export interface Reader {
  readonly client: Pick<ReadClient, 'retrieve'>;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}

interface Retrieval {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  readonly ids: Iterable<string>;
  /** The record's text; null where the service has no such record. A `SyntaxError` of it is a malformed answer. */
  readonly answered: (id: string, text: string | null) => void | Promise<void>;
  readonly failed: (id: string, error: TidemarkError) => void;
  /** Asked before each request; true leaves the other ids out. */
  readonly isOver?: () => boolean;
}

/** Hands each answer on as it arrives: for collections of any size. */
export async function retrieveEach(reader: Reader, retrieval: Retrieval): Promise<void> {
  const { definition, scope, ids, answered, failed, isOver } = retrieval;
  await eachConcurrently(ids, reader.concurrency, async (id) => {
    if (isOver?.() === true) return;
    try {
      const retrieved = await reader.client.retrieve(definition, scope, id, reader.signal);
      await answered(id, retrieved.found ? retrieved.text : null);
    } catch (error) {
      failed(id, serviceError(error, reader.signal));
    }
  });
}

/** An error as the service's. @throws the abort reason, and any error that is not a failure of the service */
export function serviceError(thrown: unknown, signal: AbortSignal): TidemarkError {
  signal.throwIfAborted();
  if (thrown instanceof SyntaxError) return new TidemarkError('malformed', thrown.message);
  const error = asTidemarkError(thrown);
  if (isLocalError(error.code)) throw thrown;
  return error;
}
