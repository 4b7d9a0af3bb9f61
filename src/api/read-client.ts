/**
 * The client of reading commands. It is given a function that sends GET and nothing else, so nothing built on it can
 * change the service (design.md, Never broken 3).
 */
import { fillPath, encodePathSegment } from '../catalog/catalog.ts';
import { type ResourceDefinition, type Scope, operationOf } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import { type Connection, type ConnectionOptions, openConnection } from './connection.ts';
import type { Slot } from './limiter.ts';
import type { RequestStats } from './request-stats.ts';
import { createRequester } from './requester.ts';
import { readRecord, type Retrieved } from './retrieved.ts';
import type { CollectionTarget } from './target.ts';
import { getOnly } from './transport.ts';
import { walkList } from './walk.ts';

export type { RequestStats } from './request-stats.ts';
export type { FoundRecord, Retrieved } from './retrieved.ts';

/** What reading commands hold: nothing but GET. One client serves one source in one run; its retries are the run's. */
export interface ReadClient {
  /**
   * Lists the whole collection into the sink. What the service does ends up in the verdict.
   * @throws the abort reason when aborted; what the sink throws, unless it is a `SyntaxError` or `malformed`
   */
  walk(target: CollectionTarget, sink: WalkSink, signal?: AbortSignal): Promise<WalkVerdict>;
  /**
   * Lists a feed from its head until a whole page is known and unchanged (`mode: 'head'`, which testifies nothing about
   * absence). Goes on to the end (`mode: 'full'`) when the feed is not newest first or no page is wholly known.
   */
  walkHead(target: CollectionTarget, sink: WalkSink, signal?: AbortSignal): Promise<WalkVerdict>;
  /**
   * One record, as text and taken apart. 404 and 410 are answers.
   * @param slot the caller's place among the requests under way, where it has one
   * @throws TidemarkError for everything else
   */
  retrieve(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    signal?: AbortSignal,
    slot?: Slot,
  ): Promise<Retrieved>;
  /** Live: for progress bars. */
  stats(): RequestStats;
  close(): Promise<void>;
}

export interface WalkSink {
  /**
   * Synchronous; called once per page, in received order, records without an id included. Returns how many keys were
   * not seen before in this pass (`fresh`), which of these an earlier pass saw (`again`, where that is known), how many
   * records the mirror holds unchanged (`known`), and the keys seen so far in this pass (`distinct`). A `SyntaxError` means that a record cannot be read: the page is fetched again, so
   * nothing of it may have been kept.
   */
  accept(page: { readonly records: readonly ScannedRecord[]; readonly receivedAt: number }): {
    fresh: number;
    again?: number;
    known: number;
    distinct: number;
  };
  /** After each page. `received` counts rows, repeated ones included. */
  progress?(state: { pages: number; received: number; count: number | null }): void;
  /**
   * The list is read again from its head because keys and count disagreed: `fresh` and `distinct` start from zero. A
   * sink without it is counted over all passes, and then a list that lost rows meanwhile stays unproven.
   */
  startPass?(): void;
}

export interface WalkVerdict {
  /**
   * `incomplete`: read, but not proven whole. `denied`: 401 or 403. `missing`: 404 or 410 to the first request.
   * `failed`: the requests did, or the list leads in circles.
   */
  readonly outcome: 'complete' | 'incomplete' | 'denied' | 'missing' | 'failed';
  readonly mode: 'full' | 'head';
  /** Pages received, repeated ones included. */
  readonly pages: number;
  /** What the list last said that it holds. */
  readonly count: number | null;
  readonly distinct: number;
  /** True when one answer held the whole list. */
  readonly isOnePage: boolean;
  /** Rows of the largest page that the server gave. */
  readonly pageCap: number | null;
  /** Null exactly when the outcome is `complete`. */
  readonly error: TidemarkError | null;
}

export type ReadClientOptions = ConnectionOptions;

/**
 * A client for one source, with a connection of its own. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot stand in a header
 */
export function createReadClient(options: ReadClientOptions): ReadClient {
  return readClientOver(openConnection(options));
}

/** The reading half of a connection: it is given GET and nothing else of it. `close` closes the connection. */
export function readClientOver(connection: Connection): ReadClient {
  const { policy, prefix, neutral, clock } = connection;
  const requester = createRequester({ ...connection, get: getOnly(connection.transport) });
  const walk = (target: CollectionTarget, sink: WalkSink, headOnly: boolean, signal?: AbortSignal) =>
    walkList({
      requester,
      target,
      sink,
      headOnly,
      prefix,
      attempts: policy.attempts,
      neutral,
      clock,
      log: connection.log,
      signal,
    });

  return {
    walk: (target, sink, signal) => walk(target, sink, false, signal),
    walkHead: (target, sink, signal) => walk(target, sink, true, signal),
    retrieve: (definition, scope, id, signal, slot) => {
      const path = (): string => retrievePath(definition, scope, id);
      const retrieved = requester.request<Retrieved>({
        path,
        logged: () => loggedPath(path(), definition, id),
        kind: definition.kind,
        read: (answer) => readRecord(answer, definition, id, neutral),
        signal,
        slot,
      });
      return retrieved.catch(orNotThere);
    },
    stats: () => connection.stats(),
    close: () => connection.close(),
  };
}

function orNotThere(error: unknown): Retrieved {
  if (error instanceof TidemarkError && error.code === 'not_found') return { found: false };
  throw error;
}

/** Path of one record. The id is percent-encoded: it can address one record and nothing else. */
function retrievePath(definition: ResourceDefinition, scope: Scope, id: string): string {
  const operation = operationOf(definition, 'retrieve');
  if (operation === undefined) {
    throw new TidemarkError('internal', `${definition.title.many} cannot be retrieved one by one`, {
      hint: 'this is a defect of Tidemark: report it with the command that you ran',
    });
  }
  return fillPath(operation.path, { ...scope, [definition.idParameter]: id });
}

// The path of a request as logs show it: an id that is itself a secret stays out (an invite's id is its sign-up link).

/** `/api/organizations/o1/invites/[secret]/`; the same path where the kind's id is none. */
export function loggedPath(
  path: string,
  { fields, idPath }: ResourceDefinition,
  id: string | undefined,
): string {
  if (id === undefined || !fields.some((field) => field.isSecret && field.name === idPath[0])) return path;
  return path.replaceAll(encodePathSegment(id), '[secret]');
}
