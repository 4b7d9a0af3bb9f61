/**
 * The clients of commands that read: lists and records for a sync, single responses for `doctor`. Both are given a
 * function that can only send GET, so nothing built on them can change the service (design.md, invariant 3).
 */
import { fillPath, encodePathSegment } from '../catalog/catalog.ts';
import { type Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError, type ErrorCode } from '../core/errors.ts';
import { Connection, type ConnectionOptions, type Request, requestOver } from './connection.ts';
import { type FoundRecord, type ListPage, readPage, readRecord, type Retrieved } from './envelope.ts';
import type { NeutralText } from './neutral-text.ts';
import type { RequestStats } from './request-stats.ts';
import { type CollectionTarget, HEAD, type PageAddress, pathOf, readLink } from './target.ts';
import { type Get, getOnly } from './transport.ts';
import type { WalkSink, WalkVerdict } from './walk-verdict.ts';
import { walkList } from './walk.ts';

export type { FoundRecord, Retrieved } from './envelope.ts';
export type { RequestStats } from './request-stats.ts';

/** Can only send GET. One client serves one source in one run, and the retry budget is that of the run. */
export interface ReadClient {
  /**
   * Lists the entire collection into the sink. Errors of the service are part of the verdict.
   * @throws the abort reason if aborted; what the sink throws, except `SyntaxError` and `malformed`
   */
  walk(target: CollectionTarget, sink: WalkSink, signal?: AbortSignal): Promise<WalkVerdict>;
  /**
   * Lists a feed from its head until all records of a page are known and unchanged (`mode: 'head'`, which says nothing
   * about removals). Continues to the end (`mode: 'full'`) if the feed is not sorted newest first or has no such page.
   */
  walkHead(target: CollectionTarget, sink: WalkSink, signal?: AbortSignal): Promise<WalkVerdict>;
  /**
   * One record, as text and parsed. 404 and 410 are results.
   * @throws TidemarkError for all other errors
   */
  retrieve(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    signal?: AbortSignal,
  ): Promise<Retrieved>;
  /** Current counts, for progress bars. */
  stats(): RequestStats;
  close(): Promise<void>;
}

/**
 * A client for one source, with a connection of its own. Sends nothing yet.
 * @throws TidemarkError `config_invalid` if the key cannot be sent in a header
 */
export function createReadClient(options: ConnectionOptions): ReadClient {
  return readClientOver(new Connection(options));
}

/** A client that can only send GET over the connection. `close` closes the connection. */
export function readClientOver(connection: Connection): ReadClient {
  const request = requestOver(connection, getOnly(connection.transport));
  return {
    walk: (target, sink, signal) => walkList(connection, request, { target, sink, headOnly: false, signal }),
    walkHead: (target, sink, signal) =>
      walkList(connection, request, { target, sink, headOnly: true, signal }),
    retrieve: async (definition, scope, id, signal) =>
      (await retrieve(request, connection.neutral, definition, scope, id, signal)) ?? { found: false },
    stats: () => connection.stats(),
    close: () => connection.close(),
  };
}

/** One record; null for 404 and 410. */
async function retrieve(
  request: Request,
  neutral: NeutralText,
  definition: ResourceDefinition,
  scope: Scope,
  id: string,
  signal: AbortSignal | undefined,
): Promise<FoundRecord | null> {
  const path = retrievePath(definition, scope, id);
  try {
    return await request({
      path: () => path,
      logged: () => loggedPath(path, definition, id),
      kind: definition.kind,
      read: (answer) => readRecord(answer, definition, id, neutral),
      signal,
    });
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'not_found') return null;
    throw error;
  }
}

/** Path of one record. The id is percent-encoded, so that it cannot address anything but a record. */
function retrievePath(definition: ResourceDefinition, scope: Scope, id: string): string {
  const operation = definition.operation('retrieve');
  if (operation === undefined) {
    throw new TidemarkError('internal', `${definition.title.many} cannot be retrieved one by one`, {
      hint: 'this is a defect of Tidemark: report it with the command that you ran',
    });
  }
  return fillPath(operation.path, { ...scope, [definition.idParameter]: id });
}

// The path of a request as shown in logs: without ids that are secrets. The id of an invite is its sign-up link.

/** `/api/organizations/o1/invites/[secret]/`; the path unchanged if the ids of the kind are not secrets. */
export function loggedPath(
  path: string,
  { fields, idPath }: ResourceDefinition,
  id: string | undefined,
): string {
  if (id === undefined || !fields.some((field) => field.isSecret && field.name === idPath[0])) return path;
  return path.replaceAll(encodePathSegment(id), '[secret]');
}

// For `doctor`: the shape of a list, its `next` link and the service's clock.

/** A page of a list, with its text and its `next` link. */
export interface ProbedPage extends ListPage {
  /** The response as received. */
  readonly text: string;
  readonly bytes: number;
  /** Where `next` leads: the path below the base URL, and the origin that it names, null for the configured one. */
  readonly next: { readonly path: string; readonly origin: string | null } | null;
}

/** A `Date` header of the service with our times before and after the request, epoch milliseconds. */
export interface ClockSample {
  readonly date: string;
  readonly sentAt: number;
  readonly receivedAt: number;
}

export interface ProbeClient {
  /**
   * One page of at most `limit` records, from the head or from an address found on another page.
   * @throws TidemarkError for any error of the service or the network
   */
  page(
    target: CollectionTarget,
    limit: number,
    from?: PageAddress,
    signal?: AbortSignal,
  ): Promise<ProbedPage>;
  /**
   * One record, as text; null for 404 and 410.
   * @throws TidemarkError
   */
  retrieve(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    signal?: AbortSignal,
  ): Promise<string | null>;
  /**
   * The response for a path below the base URL, as text; null if it is refused or missing.
   * @throws TidemarkError for all other errors
   */
  text(path: string, signal?: AbortSignal): Promise<string | null>;
  /** One sample per response with a `Date` header, including refusals. */
  clockSamples(): readonly ClockSample[];
  stats(): RequestStats;
  close(): Promise<void>;
}

const ABSENT: ReadonlySet<ErrorCode> = new Set(['not_found', 'forbidden', 'unauthorized']);

/**
 * A client for one source, with a connection of its own. Sends nothing yet.
 * @throws TidemarkError `config_invalid` if the key cannot be sent in a header
 */
export function createProbeClient(options: ConnectionOptions): ProbeClient {
  const connection = new Connection(options);
  const { clock, neutral, prefix } = connection;
  const samples: ClockSample[] = [];
  const send = getOnly(connection.transport);
  const get: Get = async (path, signal) => {
    const sentAt = clock.now();
    const answer = await send(path, signal);
    if (answer.date !== undefined) samples.push({ date: answer.date, sentAt, receivedAt: clock.now() });
    return answer;
  };
  const request = requestOver(connection, get);
  return {
    page: (target, limit, from = HEAD, signal) => {
      const path = pathOf(from, target, limit);
      return request<ProbedPage>({
        path: () => path,
        kind: target.definition.kind,
        read: (answer) => {
          const page = readPage(answer, target.definition, target.shape, neutral);
          const link = page.link === null ? null : readLink(page.link, target, path, prefix);
          const origin = link === null || link.origin === answer.origin ? null : link.origin;
          const next =
            link === null ? null : { path: link.path, origin: origin === null ? null : neutral(origin) };
          return { ...page, text: answer.text, bytes: answer.bytes, next };
        },
        signal,
      });
    },
    retrieve: async (definition, scope, id, signal) => {
      if (definition.operation('retrieve') === undefined) return null;
      return (await retrieve(request, neutral, definition, scope, id, signal))?.text ?? null;
    },
    text: async (path, signal) => {
      try {
        return await request({ path: () => path, read: ({ text }) => text, signal });
      } catch (error) {
        if (error instanceof TidemarkError && ABSENT.has(error.code)) return null;
        throw error;
      }
    },
    clockSamples: () => samples,
    stats: () => connection.stats(),
    close: () => connection.close(),
  };
}
