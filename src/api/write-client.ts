/**
 * The client for restores, the only way to change the service. It never resends a write that may have reached the
 * service, whatever its method: the caller, which has the journal, reads the record first (design.md, invariant 6).
 */
import { fillPath } from '../catalog/catalog.ts';
import type { Operation, Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { abortReason } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { idAt, parseLossless } from '../core/json.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { malformed, refuseOtherText } from './envelope.ts';
import type { Reservation } from './limiter.ts';
import { type ReadClient, loggedPath, readClientOver } from './read-client.ts';
import { wasNeverSent } from './network-error.ts';
import type { NeutralText } from './neutral-text.ts';
import type { RequestStats } from './request-stats.ts';
import type { Answer } from './transport.ts';

export type { Reservation } from './limiter.ts';

/** The target of a write. */
interface WriteTarget {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Another path below the base URL that accepts the same body, filled in; default: the documented one. */
  readonly path?: string;
}

interface RecordTarget extends WriteTarget {
  readonly id: string;
}

/** How a write is cancelled, and the start reserved for it. */
interface WriteSignals {
  /** Cancels at any time, also while waiting for the response. */
  readonly signal?: AbortSignal;
  /** Cancels only while the write waits in the limiter's queue. */
  readonly begin?: AbortSignal;
  /** The start reserved for the write (`reserve`). It is released when the write ends, sent or not. */
  readonly reservation?: Reservation | undefined;
  /** Called right before sending. If true, the write is not sent, and the outcome is `late`. */
  readonly isLate?: () => boolean;
}

/** Bodies are JSON text, sent byte for byte. Every method throws the abort reason if cancelled before sending. */
export interface WriteClient {
  create(target: WriteTarget, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  update(target: RecordTarget, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  /** Performs an action of the catalog, such as `pause`. */
  act(target: RecordTarget, action: string, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  /** 404 and 410 count as refusals: only a retrieve shows whether the record is gone. */
  remove(target: RecordTarget, signals?: WriteSignals): Promise<WriteOutcome>;
  /** Reserves a start for a write of that kind that must closely follow a check; null if no limit applies. */
  reserve(signal?: AbortSignal, kind?: Kind): Promise<Reservation | null>;
  /**
   * Holds a concurrency slot for the check of a record of that kind and the write that follows, whose requests use it
   * (`Limiter.withSlot`).
   */
  withSlot<T>(kind: Kind, work: () => Promise<T>): Promise<T>;
  /** Reads over the same connection, with the same limiter and retry budget. */
  readonly reader: ReadClient;
  stats(): RequestStats;
  close(): Promise<void>;
}

/**
 * A writing client for one source. Sends nothing yet.
 * @throws TidemarkError `config_invalid` if the key cannot be sent in a header
 */
export function createWriteClient(options: ConnectionOptions): WriteClient {
  const connection = new Connection(options);
  const send = (ask: Sending): Promise<WriteOutcome> => sendOnce(connection, ask);
  return {
    reader: readClientOver(connection),
    create: (target, body, signals) =>
      send({ target, operation: offered(target.definition, 'create'), body, ...signals }),
    update: (target, body, signals) =>
      send({ target, id: target.id, operation: offered(target.definition, 'update'), body, ...signals }),
    act: (target, action, body, signals) =>
      send({ target, id: target.id, operation: offeredAction(target.definition, action), body, ...signals }),
    remove: (target, signals) =>
      send({ target, id: target.id, operation: offered(target.definition, 'remove'), ...signals }),
    reserve: (signal, kind) => connection.limiter.reserve(signal, kind),
    withSlot: (kind, work) => connection.limiter.withSlot(kind, work),
    stats: () => connection.stats(),
    close: () => connection.close(),
  };
}

interface Sending extends WriteSignals {
  readonly target: WriteTarget;
  readonly id?: string;
  readonly operation: Operation;
  readonly body?: string;
}

/** The write's turn came too late. */
class StaleCheckError extends Error {}

/** Wraps an error after which the service may have performed the write. */
class OutcomeUnknownError extends Error {
  override readonly cause: TidemarkError;

  constructor(cause: TidemarkError) {
    super(cause.message);
    this.cause = cause;
  }
}

async function sendOnce(connection: Connection, ask: Sending): Promise<WriteOutcome> {
  // Everything is inside the `try`, because the reserved start must be released however this ends.
  try {
    ask.signal?.throwIfAborted();
    return await sendTo(connection, ask, pathOf(ask));
  } finally {
    ask.reservation?.release();
  }
}

function pathOf({ target, id, operation }: Sending): string {
  const { definition, scope, path } = target;
  const own = id === undefined ? {} : { [definition.idParameter]: id };
  return path ?? fillPath(operation.path, { ...scope, ...own });
}

async function sendTo(connection: Connection, ask: Sending, path: string): Promise<WriteOutcome> {
  const { definition } = ask.target;
  const logged = (): string => loggedPath(path, definition, ask.id);
  try {
    const attempt = (number: number): Promise<Answer> => attemptWrite(connection, ask, path, logged, number);
    const answer = await connection.retried(attempt, logged, 'nothing was written, trying again', ask.signal);
    return readWritten(answer, definition, ask.id ?? null, connection.neutral);
  } catch (error) {
    if (error instanceof OutcomeUnknownError) return { outcome: 'unknown', error: error.cause };
    if (error instanceof StaleCheckError) return { outcome: 'late' };
    // If it was aborted while it waited in the queue, nothing was sent. A write answered meanwhile counts as answered.
    if (!(error instanceof TidemarkError) || isReasonOf(ask, error)) throw error;
    return { outcome: 'refused', error };
  }
}

function isReasonOf({ signal, begin }: Sending, error: unknown): boolean {
  return [signal, begin].some((each) => each?.aborted === true && each.reason === error);
}

/**
 * One attempt. Throws `OutcomeUnknownError`, which is never retried, if the request may have been processed, and a
 * `TidemarkError` if it certainly was not.
 */
async function attemptWrite(
  connection: Connection,
  ask: Sending,
  path: string,
  logged: () => string,
  attempt: number,
): Promise<Answer> {
  const { body, signal, reservation } = ask;
  const { method } = ask.operation;
  const { kind } = ask.target.definition;
  /** Whether the request has been sent and its response has not arrived. */
  const flight = { isUnanswered: false };
  const send = (): Promise<Answer> => {
    if (ask.begin?.aborted === true) throw abortReason(ask.begin);
    if (ask.isLate?.() === true) throw new StaleCheckError();
    flight.isUnanswered = true;
    const sending = connection.transport.send({
      method,
      path,
      signal,
      ...(body === undefined ? {} : { body }),
    });
    return sending.then((answer) => {
      flight.isUnanswered = false;
      return answer;
    });
  };
  const sentBytes = body === undefined ? 0 : Buffer.byteLength(body);
  const request = { method, path: logged, kind, attempt, sentBytes };
  try {
    return await connection.attempt(request, send, signal, { isUrgent: true, kind, reservation });
  } catch (error) {
    // The queue rejects an aborted task at once, even a running one.
    if (flight.isUnanswered && !(error instanceof TidemarkError && wasNeverSent(error)))
      throw new OutcomeUnknownError(signal?.aborted === true ? interrupted(error) : asTidemarkError(error));
    // After 408 and 5xx the service may have made the change; all other refusals come before any change.
    const status = error instanceof TidemarkError ? (error.status ?? 0) : 0;
    if (error instanceof TidemarkError && (status === 408 || status >= 500))
      throw new OutcomeUnknownError(error);
    throw error;
  }
}

function interrupted(cause: unknown): TidemarkError {
  return new TidemarkError('interrupted', 'interrupted before the answer came', {
    hint: 'continue with `tidemark restore --resume`: it looks first what was done',
    cause,
  });
}

function offered(definition: ResourceDefinition, role: 'create' | 'update' | 'remove'): Operation {
  const operation = definition.operation(role);
  if (operation === undefined) throw notOffered(definition, role);
  return operation;
}

function offeredAction(definition: ResourceDefinition, action: string): Operation {
  const operation = definition.operations.find((each) => each.action === action && each.method === 'POST');
  if (operation === undefined) throw notOffered(definition, action);
  return operation;
}

function notOffered(definition: ResourceDefinition, what: string): TidemarkError {
  return new TidemarkError('internal', `the API has no ${what} for ${definition.title.many}`, {
    hint: 'this is a defect of Tidemark: report it with the command that you ran',
  });
}

// Parses the 2xx response to a write.

/**
 * A 2xx counts as success if its body is empty or JSON about the written record. Anything else may come from an
 * intermediary (a login page with status 200), so the outcome is unknown.
 * @param id the id of the written record; null for a new one
 */
function readWritten(
  answer: Answer,
  definition: ResourceDefinition,
  id: string | null,
  neutral: NeutralText,
): WriteOutcome {
  const { status } = answer;
  if (answer.text.trim() === '') return { outcome: 'done', status, id: null };
  try {
    refuseOtherText(answer);
    const body = parseLossless(answer.text);
    const given = idAt(body, definition.idPath) ?? null;
    if (id !== null && given !== null && given.toLowerCase() !== id.toLowerCase()) {
      throw malformed(answer, `another ${definition.title.one} than the one written`);
    }
    return { outcome: 'done', status, id: given };
  } catch (error) {
    if (error instanceof TidemarkError) return { outcome: 'unknown', error };
    if (!(error instanceof SyntaxError)) throw error;
    return {
      outcome: 'unknown',
      error: malformed(answer, `no JSON: ${neutral(error.message)}`, { cause: error }),
    };
  }
}

export type WriteOutcome =
  | {
      readonly outcome: 'done';
      readonly status: number;
      /** The id in the response; null if it has none. */
      readonly id: string | null;
    }
  /** Nothing was changed: the service refused the write, or the request never reached it. */
  | { readonly outcome: 'refused'; readonly error: TidemarkError }
  /** The write may have been performed: read the record before sending it again. */
  | { readonly outcome: 'unknown'; readonly error: TidemarkError }
  /** Nothing was sent, because the turn came after the deadline for sending. */
  | { readonly outcome: 'late' };
