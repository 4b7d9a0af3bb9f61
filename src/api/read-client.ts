/**
 * The client of reading commands. It is given a function that sends GET and nothing else, so nothing built on it can
 * change the service (design.md, Never broken 3).
 */
import { fillPath, encodePathSegment } from '../catalog/catalog.ts';
import { type Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type Connection, type ConnectionOptions, openConnection } from './connection.ts';
import type { RequestStats } from './request-stats.ts';
import { createRequester } from './requester.ts';
import { readRecord, type Retrieved } from './retrieved.ts';
import type { CollectionTarget } from './target.ts';
import { getOnly } from './transport.ts';
import type { WalkSink, WalkVerdict } from './walk-verdict.ts';
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
   * @throws TidemarkError for everything else
   */
  retrieve(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    signal?: AbortSignal,
  ): Promise<Retrieved>;
  /** Live: for progress bars. */
  stats(): RequestStats;
  close(): Promise<void>;
}

export type ReadClientOptions = ConnectionOptions;

/**
 * A client for one source, with a connection of its own. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot be in a header
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
    retrieve: (definition, scope, id, signal) => {
      const path = (): string => retrievePath(definition, scope, id);
      const retrieved = requester.request<Retrieved>({
        path,
        logged: () => loggedPath(path(), definition, id),
        kind: definition.kind,
        read: (answer) => readRecord(answer, definition, id, neutral),
        signal,
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
  const operation = definition.operation('retrieve');
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
