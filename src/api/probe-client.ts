/**
 * A client that looks at single answers instead of whole lists: what shape a list has, where its `next` leads, what the
 * service's clock says. It is given GET and nothing else, as the client of reading commands is.
 */
import { fillPath } from '../catalog/catalog.ts';
import { type Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError, type ErrorCode } from '../core/errors.ts';
import { HEAD, pathOf, readLink, type PageAddress } from './target.ts';
import { type ConnectionOptions, openConnection } from './connection.ts';
import { readPage, type ListPage } from './envelope.ts';
import type { RequestStats } from './request-stats.ts';
import { loggedPath } from './read-client.ts';
import { createRequester } from './requester.ts';
import { readRecord } from './retrieved.ts';
import type { CollectionTarget } from './target.ts';
import { type Answer, type Get, getOnly } from './transport.ts';

/** One page of a list, and what its text shows beside the records. */
export interface ProbedPage extends ListPage {
  /** The answer as received. */
  readonly text: string;
  readonly bytes: number;
  /** Where `next` leads: path below the base URL, and the origin that it names, null for the configured one. */
  readonly next: { readonly path: string; readonly origin: string | null } | null;
}

/** The service's `Date` with our own times around it, epoch milliseconds. */
export interface ClockSample {
  readonly date: string;
  readonly sentAt: number;
  readonly receivedAt: number;
}

export interface ProbeClient {
  /**
   * One page of at most `limit` records from the head or from an address that a page gave.
   * @throws TidemarkError whatever the service or the network says instead
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
   * The answer at a path below the base URL, as text; null if it is refused or missing.
   * @throws TidemarkError for everything else
   */
  text(path: string, signal?: AbortSignal): Promise<string | null>;
  /** Of every answer that had a `Date`, refusals included. */
  clockSamples(): readonly ClockSample[];
  stats(): RequestStats;
  close(): Promise<void>;
}

const ABSENT: ReadonlySet<ErrorCode> = new Set(['not_found', 'forbidden', 'unauthorized']);

/**
 * A client for one source, with a connection of its own. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot be in a header
 */
export function createProbeClient(options: ConnectionOptions): ProbeClient {
  const connection = openConnection(options);
  const { clock, neutral, prefix } = connection;
  const samples: ClockSample[] = [];
  const send = getOnly(connection.transport);
  const get: Get = async (path, signal) => {
    const sentAt = clock.now();
    const answer = await send(path, signal);
    if (answer.date !== undefined) samples.push({ date: answer.date, sentAt, receivedAt: clock.now() });
    return answer;
  };
  const requester = createRequester({ ...connection, get });
  return {
    page: async (target, limit, from = HEAD, signal) => {
      const path = pathOf(from, target, limit);
      const read = (answer: Answer): ProbedPage => {
        const page = readPage(answer, target.definition, target.shape, neutral);
        const link = page.link === null ? null : readLink(page.link, target, path, prefix);
        const origin = link?.origin === answer.origin ? null : (link?.origin ?? null);
        const next =
          link === null ? null : { path: link.path, origin: origin === null ? null : neutral(origin) };
        return { ...page, text: answer.text, bytes: answer.bytes, next };
      };
      return await requester.request({ path: () => path, kind: target.definition.kind, read, signal });
    },
    retrieve: async (definition, scope, id, signal) => {
      const operation = definition.operation('retrieve');
      if (operation === undefined) return null;
      const path = fillPath(operation.path, { ...scope, [definition.idParameter]: id });
      try {
        return await requester.request({
          path: () => path,
          logged: () => loggedPath(path, definition, id),
          kind: definition.kind,
          read: (answer) => readRecord(answer, definition, id, neutral).text,
          signal,
        });
      } catch (error) {
        if (error instanceof TidemarkError && error.code === 'not_found') return null;
        throw error;
      }
    },
    text: async (path, signal) => {
      try {
        return await requester.request({ path: () => path, read: ({ text }) => text, signal });
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
