/**
 * Retrieves records by id, several at a time. 404, 410 and failures of the service are results for the record in
 * question. Only interruptions and errors of this machine are thrown.
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
  /** Called with the record's text, or null if the service has no such record. It may throw `SyntaxError` for the text. */
  readonly answered: (id: string, text: string | null) => void | Promise<void>;
  readonly failed: (id: string, error: TidemarkError) => void;
  /** Called before each request; if true, no more ids are requested. */
  readonly isOver?: () => boolean;
}

/** Passes each result on as it arrives, so that collections may have any size. */
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

/** Returns an error of the service. @throws the abort reason, and all other errors */
export function serviceError(thrown: unknown, signal: AbortSignal): TidemarkError {
  signal.throwIfAborted();
  if (thrown instanceof SyntaxError) return new TidemarkError('malformed', thrown.message);
  const error = asTidemarkError(thrown);
  if (isLocalError(error.code)) throw thrown;
  return error;
}
