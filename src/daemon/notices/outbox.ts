/**
 * Pending deliveries: one queue per channel, oldest first, so that a failing receiver does not delay other channels. No
 * lock is held while a notice is sent; the result is recorded afterwards. If it cannot be recorded, it is remembered
 * and recorded later; if the process dies before, the notice is delivered again under the same id.
 */
import type { ChannelConfig } from '../../config/channels.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Delivery, DeliveryResult } from '../../mirror/daemon.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { messageOf } from './message.ts';
import type { Send } from './sending.ts';

/** From the notice on: what could not be delivered in a day is not news. */
const RETRY_FOR_MS = 24 * 3_600_000;
const FIRST_WAIT_MS = 15_000;
const LONGEST_WAIT_MS = 30 * 60_000;
const SHORTEST_WAIT_MS = 1_000;
/** Until marks that could not be written are tried again. */
const UNWRITTEN_WAIT_MS = 60_000;

export interface OutboxOptions {
  /** Those of the configuration in force. */
  readonly channels: () => readonly ChannelConfig[];
  /** Of the dashboard; null where none is configured. */
  readonly publicUrl?: () => string | null;
  /** The mirror open for reading. */
  readonly mirror: () => Mirror;
  /** Runs work that awaits nothing on the mirror open for writing, as soon as that is possible. */
  readonly openWriter: <T>(work: (mirror: Mirror) => T) => Promise<T>;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly send: Send;
}

/** Wait after that many failed attempts, milliseconds: random up to a doubling bound (full jitter), at least a second. @internal */
export function waitAfter(attempts: number, random: number): number {
  const bound = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1));
  return Math.max(SHORTEST_WAIT_MS, Math.round(random * bound));
}

export class Outbox {
  readonly #options: OutboxOptions;
  /** Marks that are not written yet, by delivery. */
  readonly #unwritten = new Map<string, DeliveryResult>();
  /** Names of channels at work, and the work of them. */
  readonly #busy = new Set<string>();
  readonly #works = new Set<Promise<void>>();
  /** Until when a channel whose receiver does not answer is left alone, milliseconds since the epoch. */
  readonly #silent = new Map<string, number>();
  #writing: Promise<void> | null = null;
  #writeAgainAt = 0;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /**
   * Sends what is due. Resolves when everything was tried and recorded; a channel that is still busy with an earlier
   * call is not started twice. Errors of receivers are never thrown.
   * @throws TidemarkError when the mirror cannot be read
   */
  async deliverDue(signal: AbortSignal): Promise<void> {
    for (const name of new Set(this.#pending().map(({ channel }) => channel))) {
      if (this.#busy.has(name)) continue;
      this.#busy.add(name);
      const work = this.#deliver(name, signal).finally(() => this.#works.delete(work));
      this.#works.add(work);
    }
    await Promise.all(this.#works);
    await this.write();
  }

  /** When there is something to do next, milliseconds since the epoch; null for nothing. Channels at work do not count. */
  nextDueAt(): number | null {
    const now = this.#options.clock.now();
    const times = this.#pending()
      .filter(({ channel }) => !this.#busy.has(channel))
      .map((delivery) => Math.max(dueAt(delivery, now), this.#silentUntil(delivery.channel, now)));
    if (this.#unwritten.size > 0 && this.#writing === null) times.push(Math.max(now, this.#writeAgainAt));
    return times.reduce<number | null>(
      (least, time) => (least === null || time < least ? time : least),
      null,
    );
  }

  /** Writes down what is not written yet. What fails is logged and kept for the next time. */
  async write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
    await this.#writing;
  }

  /** Waits for what is being sent. The caller has aborted it, or wants its end. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#works);
    await this.write();
  }

  #pending(): Delivery[] {
    return this.#options
      .mirror()
      .daemon.pendingDeliveries()
      .map((delivery) => ({ ...delivery, ...this.#unwritten.get(keyOf(delivery)) }))
      .filter(({ deliveredAt, givenUpAt }) => deliveredAt === null && givenUpAt === null);
  }

  /** One after the other until nothing is due, with what came to be pending meanwhile. */
  async #deliver(name: string, signal: AbortSignal): Promise<void> {
    try {
      for (let next = this.#nextOf(name); next !== undefined && !signal.aborted; next = this.#nextOf(name)) {
        const channel = this.#options.channels().find((each) => each.name === name);
        if (channel === undefined) this.#giveUp(next, next.attempts, 'the channel is no longer configured');
        else await this.#attempt(channel, next, signal);
      }
    } finally {
      // Here and not when the promise is looked at: what comes to be pending from now on needs a new start.
      this.#busy.delete(name);
    }
  }

  #nextOf(name: string): Delivery | undefined {
    const now = this.#options.clock.now();
    if (this.#silentUntil(name, now) > now) return undefined;
    return this.#pending().find((delivery) => delivery.channel === name && dueAt(delivery, now) <= now);
  }

  async #attempt(channel: ChannelConfig, delivery: Delivery, signal: AbortSignal): Promise<void> {
    const { clock, log, send } = this.#options;
    const { about, notice } = delivery;
    const attempts = delivery.attempts + 1;
    const facts = { channel: channel.name, notice, event: about.event, attempts };
    try {
      const publicUrl = this.#options.publicUrl?.() ?? null;
      await send(channel, messageOf(notice, about, channel.severity, publicUrl), signal);
    } catch (thrown) {
      // Ended from outside: that was no attempt.
      if (signal.aborted) return;
      this.#failed(delivery, attempts, asTidemarkError(thrown));
      return;
    }
    this.#silent.delete(channel.name);
    log.info(facts, 'delivered a notice');
    this.#mark(delivery, { attempts, deliveredAt: isoTime(clock.now()), error: null });
  }

  #failed(delivery: Delivery, attempts: number, error: TidemarkError): void {
    const { clock, random, log } = this.#options;
    const { about, notice, channel } = delivery;
    const now = clock.now();
    const facts = { channel, notice, event: about.event, attempts, code: error.code };
    if (now - Date.parse(about.at) >= RETRY_FOR_MS) {
      this.#giveUp(delivery, attempts, error.message);
      return;
    }
    const waitMs = Math.max(
      waitAfter(attempts, random()),
      Math.min(error.retryAfterMs ?? 0, LONGEST_WAIT_MS),
    );
    // A receiver that refuses one message may take the next; one that does not answer will not.
    if (error.isRetryable) this.#silent.set(channel, now + waitMs);
    if (attempts === 1)
      log.warn(facts, `a notice was not delivered, and will be tried again: ${error.message}`);
    else log.debug(facts, `a notice was not delivered: ${error.message}`);
    this.#mark(delivery, { attempts, nextAttemptAt: isoTime(now + waitMs), error: error.message });
  }

  #giveUp(delivery: Delivery, attempts: number, why: string): void {
    const { clock, log } = this.#options;
    const { about, notice, channel } = delivery;
    log.error({ channel, notice, event: about.event, attempts }, `gave up a notice: ${why}`);
    this.#mark(delivery, { attempts, givenUpAt: isoTime(clock.now()), error: why });
  }

  #mark(delivery: Delivery, news: Partial<DeliveryResult>): void {
    const { notice, channel, attempts, nextAttemptAt, deliveredAt, givenUpAt, error } = delivery;
    const before = { notice, channel, attempts, nextAttemptAt, deliveredAt, givenUpAt, error };
    this.#unwritten.set(keyOf(delivery), { ...before, ...news });
    // Not awaited: the next message need not wait for the writer.
    void this.write();
  }

  async #writeAll(): Promise<void> {
    const { openWriter, clock, log } = this.#options;
    while (this.#unwritten.size > 0) {
      const batch = [...this.#unwritten];
      try {
        await openWriter((mirror) => {
          const state = mirror.daemon;
          for (const [, result] of batch) state.recordDelivery(result);
        });
      } catch (thrown) {
        const error = asTidemarkError(thrown);
        log.warn(
          { code: error.code, deliveries: batch.length },
          `what was delivered is not written down yet: ${error.message}`,
        );
        this.#writeAgainAt = clock.now() + UNWRITTEN_WAIT_MS;
        return;
      }
      for (const [key, result] of batch) {
        if (this.#unwritten.get(key) === result) this.#unwritten.delete(key);
      }
    }
  }

  #silentUntil(channel: string, now: number): number {
    const until = this.#silent.get(channel) ?? 0;
    // A clock that stepped back must not silence a channel for longer.
    return until - now > LONGEST_WAIT_MS ? now : until;
  }
}

function keyOf({ notice, channel }: Pick<Delivery, 'notice' | 'channel'>): string {
  return `${notice} ${channel}`;
}

/** As for the silence: no wait is longer than the longest one. */
function dueAt({ nextAttemptAt }: Delivery, now: number): number {
  const at = Date.parse(nextAttemptAt);
  return at - now > LONGEST_WAIT_MS ? now : at;
}
