/**
 * Pending deliveries of one mirror. The result of a delivery is stored after it was sent; if that fails, it is remembered and stored
 * later. A notice that could not be stored in the mirror is only kept here.
 */
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Delivery, DeliveryResult, Notice } from '../../mirror/notice-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';

/** After this, results that could not be stored are tried again. */
const UNWRITTEN_WAIT_MS = 60_000;

export interface OutboxOptions {
  /** With a mirror per source, the source of this mirror. */
  readonly owner: string | null;
  /** The mirror open for reading. @throws TidemarkError */
  readonly mirror: () => Mirror;
  /** Does work that awaits nothing on the mirror open for writing, as soon as that is possible. */
  readonly openWriter: <T>(work: (mirror: Mirror) => T) => Promise<T>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the pending deliveries have changed. */
  readonly onChange: () => void;
}

export class Outbox {
  readonly owner: string | null;
  readonly #options: OutboxOptions;
  /** Pending deliveries as last read from the mirror; null if it must be read again. */
  #stored: readonly Delivery[] | null = null;
  #isUnreadable = false;
  /** Notices that could not be stored. Their numbers are negative. */
  #unstored: Delivery[] = [];
  #unstoredCount = 0;
  /** Results that are not stored yet, by delivery. */
  readonly #unwritten = new Map<string, DeliveryResult>();
  #writing: Promise<void> | null = null;
  #writeAgainAt = 0;

  constructor(options: OutboxOptions) {
    this.owner = options.owner;
    this.#options = options;
  }

  /** The pending deliveries in the mirror may have changed: they are read again. */
  changed(): void {
    this.#stored = null;
    this.#options.onChange();
  }

  /** Adds a notice that cannot be stored in the mirror: it is lost if the process ends before its delivery. */
  addUnstored(about: Notice, channels: readonly string[]): void {
    this.#unstoredCount += 1;
    const notice = -this.#unstoredCount;
    const rest = { attempts: 0, nextAttemptAt: about.at, deliveredAt: null, givenUpAt: null, error: null };
    this.#unstored.push(...channels.map((channel) => ({ notice, channel, about, ...rest })));
    this.#options.onChange();
  }

  /** True while a notice is to be sent that the mirror does not have. */
  hasUnstored(): boolean {
    return this.#unstored.length > 0;
  }

  /** Deliveries that are neither done nor given up, oldest first; without those in the mirror if it cannot be read. */
  pending(): Delivery[] {
    this.#stored ??= this.#read();
    return [...this.#stored, ...this.#unstored]
      .map((delivery) => ({ ...delivery, ...this.#unwritten.get(keyOf(delivery)) }))
      .filter(isPending);
  }

  #read(): readonly Delivery[] {
    try {
      const stored = this.#options.mirror().daemon.pendingDeliveries();
      this.#isUnreadable = false;
      return stored;
    } catch {
      // Health and the jobs report that: here it only means that nothing of the mirror can be sent yet.
      this.#isUnreadable = true;
      return [];
    }
  }

  /** False while the mirror cannot be read: then its pending deliveries are not known. */
  isReadable(): boolean {
    return !this.#isUnreadable;
  }

  /** True if a notice of the source is pending or will follow, since a problem of it is still open. */
  awaits(source: string): boolean {
    if (this.owner !== null) return this.owner === source;
    if (this.pending().some(({ about }) => about.source === source)) return true;
    try {
      return this.#options.mirror().daemon.noticeStates(source).length > 0;
    } catch {
      // As in `#read`.
      return true;
    }
  }

  /** Notes the result of a delivery, which `write` stores. */
  mark(delivery: Delivery, news: Partial<DeliveryResult>): void {
    const { notice, channel, attempts, nextAttemptAt, deliveredAt, givenUpAt, error } = delivery;
    const result = { notice, channel, attempts, nextAttemptAt, deliveredAt, givenUpAt, error, ...news };
    this.#options.onChange();
    if (notice >= 0) this.#unwritten.set(keyOf(delivery), result);
    else this.#unstored = withResult(this.#unstored, result);
  }

  /** True while a result is not stored. */
  hasUnwritten(): boolean {
    return this.#unwritten.size > 0;
  }

  /** When results are to be stored, epoch milliseconds; null if there are none. */
  writeAt(now: number): number | null {
    return this.#unwritten.size > 0 && this.#writing === null ? Math.max(now, this.#writeAgainAt) : null;
  }

  /** Stores the results. A failure is logged, and they are kept for the next time. */
  async write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    const { openWriter, clock, log } = this.#options;
    while (this.#unwritten.size > 0) {
      const batch = [...this.#unwritten];
      try {
        await openWriter((mirror) => {
          for (const [, result] of batch) mirror.daemon.recordDelivery(result);
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
        this.#stored = this.#stored === null ? null : withResult(this.#stored, result);
      }
      this.#options.onChange();
    }
  }
}

function keyOf({ notice, channel }: Pick<Delivery, 'notice' | 'channel'>): string {
  return `${notice} ${channel}`;
}

function isPending({ deliveredAt, givenUpAt }: DeliveryResult): boolean {
  return deliveredAt === null && givenUpAt === null;
}

/** The deliveries with the result of one of them; without that one if it is done or given up. */
function withResult(deliveries: readonly Delivery[], result: DeliveryResult): Delivery[] {
  const key = keyOf(result);
  return deliveries.map((each) => (keyOf(each) === key ? { ...each, ...result } : each)).filter(isPending);
}
