/**
 * `GET /api/v1/events`: the activity of the daemon as server-sent events. One timer computes it for all subscribers; without any, it
 * does not run.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type Clock, settlesWithin } from '../../core/clock.ts';
import type { DaemonCells } from '../cells.ts';
import { activityDocument } from './documents.ts';
import { Refusal } from './request.ts';

/** Each holds a connection; enough for the pages that an office has open. */
const MOST_SUBSCRIBERS = 40;
const POLL_MS = 1_000;
/** Well below the time after which a connection without traffic is closed (`server/http-server.ts`). */
const HEARTBEAT_MS = 10_000;
/** How long a stream lasts. Then the client connects again, and its access is checked again. */
const LONGEST_MS = 15 * 60_000;
/** How long a stream may take to end before its connection is closed. */
const END_MS = 1_000;

interface Subscriber {
  readonly outgoing: ServerResponse;
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  /** Monotonic. */
  readonly since: number;
  sentAt: number;
  sent: string;
}

export class EventStreams {
  readonly #cells: DaemonCells;
  readonly #clock: Clock;
  readonly #subscribers = new Set<Subscriber>();
  readonly #end = new AbortController();
  #isTicking = false;

  constructor(cells: DaemonCells, clock: Clock) {
    this.#cells = cells;
    this.#clock = clock;
  }

  /** The stream of a new subscriber. @throws Refusal 503 if there are too many, or the server closes */
  open(outgoing: ServerResponse): ReadableStream<Uint8Array> {
    if (this.#subscribers.size >= MOST_SUBSCRIBERS || this.#end.signal.aborted) {
      const hint = 'GET /api/v1/status has the same at one moment';
      throw new Refusal(503, 'throttled', 'too many event streams are open', hint, { 'Retry-After': '30' });
    }
    let subscriber: Subscriber | null = null;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        const since = this.#clock.monotonicMs();
        subscriber = { outgoing, controller, since, sentAt: since, sent: '' };
        this.#subscribers.add(subscriber);
        this.#send(subscriber, activityText(this.#cells));
        if (!this.#isTicking) void this.#tick();
      },
      cancel: () => {
        if (subscriber !== null) this.#subscribers.delete(subscriber);
      },
    });
  }

  /** Ends all streams; resolves once the clients have received the end, or after a second. */
  async close(): Promise<void> {
    this.#end.abort();
    const ended = [...this.#subscribers].map(async (subscriber) => {
      const { outgoing } = subscriber;
      const closed = outgoing.writableFinished ? Promise.resolve() : once(outgoing, 'close');
      this.#close(subscriber);
      await settlesWithin(closed, END_MS, this.#clock);
    });
    await Promise.allSettled(ended);
  }

  async #tick(): Promise<void> {
    this.#isTicking = true;
    while (this.#subscribers.size > 0) {
      try {
        await this.#clock.sleep(POLL_MS, this.#end.signal);
      } catch {
        // Closed: only the signal rejects the sleep.
        break;
      }
      const text = activityText(this.#cells);
      for (const subscriber of this.#subscribers) this.#send(subscriber, text);
    }
    this.#isTicking = false;
  }

  /** Sends a new text, or a heartbeat after a while without one; nothing to a client that has not read the last. */
  #send(subscriber: Subscriber, text: string): void {
    const { controller, since } = subscriber;
    const now = this.#clock.monotonicMs();
    if (now - since > LONGEST_MS) {
      this.#close(subscriber);
      return;
    }
    const isNew = text !== subscriber.sent;
    if ((!isNew && now - subscriber.sentAt < HEARTBEAT_MS) || (controller.desiredSize ?? 0) <= 0) return;
    controller.enqueue(Buffer.from(isNew ? `event: activity\ndata: ${text}\n\n` : ': nothing new\n\n'));
    subscriber.sentAt = now;
    if (isNew) subscriber.sent = text;
  }

  #close(subscriber: Subscriber): void {
    if (this.#subscribers.delete(subscriber)) subscriber.controller.close();
  }
}

function activityText(cells: DaemonCells): string {
  return JSON.stringify({ schema: 'tidemark.activity/1', ...activityDocument(cells.activity()) });
}
