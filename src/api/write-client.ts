/**
 * The client for restores: the only way to change the service. It never sends a write again that may have reached the
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

/** What a write is about. */
interface WriteTarget {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Another path that takes the same body, filled, below the base URL; the documented one when left out. */
  readonly path?: string;
}

interface RecordTarget extends WriteTarget {
  readonly id: string;
}

/** When a write is cancelled, and what is reserved for it. */
interface WriteSignals {
  /** Cancels at any time: it does not wait for an answer under way. */
  readonly signal?: AbortSignal;
  /** Cancels while it waits in the limiter's queue, not once it was sent. */
  readonly begin?: AbortSignal;
  /** A start reserved for it (`reserve`); released when the write ends, sent or not. */
  readonly reservation?: Reservation | undefined;
  /** Called right before sending: true when it must not be sent any more, and the outcome is `late`. */
  readonly isLate?: () => boolean;
}

/** Bodies are JSON text, sent byte for byte. Every method throws the abort reason when cancelled before it is sent. */
export interface WriteClient {
  create(target: WriteTarget, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  update(target: RecordTarget, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  /** One of the catalog's actions by its name, e.g. `pause`. */
  act(target: RecordTarget, action: string, body: string, signals?: WriteSignals): Promise<WriteOutcome>;
  /** 404 and 410 are refusals like any other: only a retrieve shows whether the record is gone. */
  remove(target: RecordTarget, signals?: WriteSignals): Promise<WriteOutcome>;
  /**
   * Reserves a start for a write of that kind that must closely follow a check; null where no limit applies.
   */
  reserve(signal?: AbortSignal, kind?: Kind): Promise<Reservation | null>;
  /**
   * Keeps a concurrency slot for the check of a record of that kind and the write that follows: the requests that the work
   * makes use it (`Limiter.withSlot`).
   */
  withSlot<T>(kind: Kind, work: () => Promise<T>): Promise<T>;
  /** Reads over the same connection: one limiter and one budget of retries for both. */
  readonly reader: ReadClient;
  stats(): RequestStats;
  close(): Promise<void>;
}

/**
 * A writing client for one source. Nothing is sent yet.
 * @throws TidemarkError `config_invalid` when the key cannot be in a header
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

/** The turn came too late. */
class StaleCheckError extends Error {}

/** Marks an error after which the service may have acted. */
class OutcomeUnknownError extends Error {
  override readonly cause: TidemarkError;

  constructor(cause: TidemarkError) {
    super(cause.message);
    this.cause = cause;
  }
}

async function sendOnce(connection: Connection, ask: Sending): Promise<WriteOutcome> {
  // All of it inside: the reserved start must be released however this ends.
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
    // Aborted while it waited in the queue: nothing was sent. A write answered meanwhile counts as answered.
    if (!(error instanceof TidemarkError) || isReasonOf(ask, error)) throw error;
    return { outcome: 'refused', error };
  }
}

function isReasonOf({ signal, begin }: Sending, error: unknown): boolean {
  return [signal, begin].some((each) => each?.aborted === true && each.reason === error);
}

/**
 * One attempt. A request that may have been processed throws `OutcomeUnknownError`, which is never retried; one that
 * throws a `TidemarkError` certainly was not.
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
  /** Whether the request is out and its answer has not come. */
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
    // The queue rejects an aborted task at once, even one that is under way.
    if (flight.isUnanswered && !(error instanceof TidemarkError && wasNeverSent(error)))
      throw new OutcomeUnknownError(signal?.aborted === true ? interrupted(error) : asTidemarkError(error));
    // After 408 and 5xx the service may have made the change; every other refusal comes before any change.
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

// The 2xx answer to a write, taken apart.

/**
 * A 2xx counts as success if its body is empty or JSON about the written record. Anything else may come from an
 * intermediary (a login page with status 200), so the outcome is unknown.
 * @param id the record that was written; null for a new one
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
      /** The id that the answer gives; null where it gives none. */
      readonly id: string | null;
    }
  /** Certainly nothing was changed: the service said no, or the request never reached it. */
  | { readonly outcome: 'refused'; readonly error: TidemarkError }
  /** It may or may not have been done: look before it is sent again. */
  | { readonly outcome: 'unknown'; readonly error: TidemarkError }
  /** Its turn came after the time that it had to be sent by: nothing was sent. */
  | { readonly outcome: 'late' };
