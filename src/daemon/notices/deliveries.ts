/**
 * Sends what is pending in the outboxes of all mirrors: one queue per channel, oldest first, so that a failing receiver does not delay
 * other channels. With several sources, events are sent in groups (`groups.ts`). No lock is held while a message is sent. A message with
 * several events is written to a file before it is sent, and its result is written there before the mirrors: if the process is killed,
 * the message is sent again under the same id, or not at all.
 */
import type { ChannelConfig } from '../../config/channels.ts';
import { realPause } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import { ChannelQueue, type DeliveryOptions, LONGEST_DUE_MS, RETRY_FOR_MS } from './channel-queue.ts';
import { readKept, type Sending, writeKept } from './kept-messages.ts';
import { Outbox, type OutboxOptions } from './outbox.ts';

/** The number of mirrors that are written without a pause. */
const WRITTEN_AT_ONCE = 5;

interface DeliveriesOptions extends DeliveryOptions {
  /** Absolute path of the file of groups and of what is being sent. */
  readonly file: () => string;
}

export class Deliveries {
  readonly #options: DeliveriesOptions;
  /** By the only source of their mirror; empty for a mirror of all. */
  readonly #outboxes = new Map<string, Outbox>();
  readonly #queues = new Map<string, ChannelQueue>();
  readonly #works = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #isLoaded = false;
  /** Due times by mirror; null where they have to be computed again. */
  #due: { readonly of: ReadonlyMap<string, number>; readonly channels: readonly ChannelConfig[] } | null =
    null;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
  }

  /** Makes the outbox of a mirror, whose notices are sent until `remove`. */
  add(options: Pick<OutboxOptions, 'owner' | 'mirror' | 'openWriter' | 'log'>): Outbox {
    const { clock } = this.#options;
    const outbox = new Outbox({ ...options, clock, onChange: () => (this.#due = null) });
    this.#outboxes.set(options.owner ?? '', outbox);
    this.#due = null;
    return outbox;
  }

  /** Sends nothing of this outbox any more; what is pending stays in its mirror. */
  remove(outbox: Outbox): void {
    const key = outbox.owner ?? '';
    if (this.#outboxes.get(key) === outbox) this.#outboxes.delete(key);
    this.#due = null;
  }

  /**
   * Sends what is due. Resolves when everything was tried and recorded; a channel that is still busy with an earlier call is not
   * started twice. Never throws errors of receivers.
   * @param isLast true to send also what waits for further events
   */
  async deliverDue(signal: AbortSignal, { isLast = false } = {}): Promise<void> {
    const ends = AbortSignal.any([signal, this.#closing.signal]);
    for (const name of this.#namesPending()) {
      const queue = this.#queueOf(name);
      if (queue.isBusy()) continue;
      const work = queue.deliver(ends, isLast).finally(() => this.#works.delete(work));
      this.#works.add(work);
    }
    await Promise.all(this.#works);
    await this.#write();
  }

  /** When that mirror's observer is to be woken, epoch milliseconds; null if nothing is to be sent. Channels at work do not count. */
  nextDueAt(outbox: Outbox): number | null {
    const now = this.#options.clock.now();
    const channels = this.#options.channels();
    if (this.#due?.channels !== channels) this.#due = { of: this.#dueTimes(now), channels };
    const times = [this.#due.of.get(outbox.owner ?? '') ?? null, outbox.writeAt(now)].filter(
      (at) => at !== null,
    );
    if (times.length === 0) return null;
    const at = Math.min(...times);
    return at - now > LONGEST_DUE_MS ? now : at;
  }

  /** Stops deliveries under way, which do not count as attempts, and stores which notices were delivered. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('closed'));
    await Promise.allSettled(this.#works);
    await this.#write();
  }

  #namesPending(): Set<string> {
    this.#load();
    const pending = [...this.#outboxes.values()].flatMap((outbox) => outbox.pending());
    const begun = [...this.#queues].flatMap(([name, { kept }]) => (kept.sending.length > 0 ? [name] : []));
    return new Set([...pending.map(({ channel }) => channel), ...begun]);
  }

  #queueOf(name: string): ChannelQueue {
    this.#load();
    const queue =
      this.#queues.get(name) ??
      new ChannelQueue(name, {
        ...this.#options,
        outboxes: this.#outboxes,
        save: () => this.#save(),
        writeResults: () => void this.#write(),
        onChange: () => (this.#due = null),
      });
    this.#queues.set(name, queue);
    return queue;
  }

  #dueTimes(now: number): Map<string, number> {
    const due = new Map<string, number>();
    const [anyMirror] = this.#outboxes.keys();
    for (const name of this.#namesPending()) {
      const queue = this.#queueOf(name);
      if (queue.isBusy()) continue;
      for (const { mirror, at } of queue.dueTimes(now)) {
        const woken = this.#outboxes.has(mirror) ? mirror : anyMirror;
        if (woken !== undefined) due.set(woken, Math.min(at, due.get(woken) ?? at));
      }
    }
    return due;
  }

  /** Writes each mirror as soon as it can be written: one that is held delays no other. */
  async #write(): Promise<void> {
    const writing: Promise<void>[] = [];
    for (const outbox of this.#outboxes.values()) {
      if (!outbox.hasUnwritten()) continue;
      writing.push(outbox.write());
      if (writing.length % WRITTEN_AT_ONCE === 0) await realPause(0);
    }
    await Promise.all(writing);
    this.#forgetSent();
  }

  /** Removes sent messages that all mirrors know of, and those so old that a mirror will never know. */
  #forgetSent(): void {
    const oldest = this.#options.clock.now() - 2 * RETRY_FOR_MS;
    const isKnown = ({ events }: Sending): boolean =>
      events.every(({ mirror, about }) => {
        const outbox = this.#outboxes.get(mirror);
        return Date.parse(about.at) < oldest || (outbox?.isReadable() === true && !outbox.hasUnwritten());
      });
    let hasForgotten = false;
    for (const queue of this.#queues.values()) hasForgotten = queue.forgetSent(isKnown) || hasForgotten;
    if (hasForgotten) this.#save();
  }

  #load(): void {
    if (this.#isLoaded || this.#options.times() === null) return;
    this.#isLoaded = true;
    const path = this.#options.file();
    try {
      for (const [name, kept] of Object.entries(readKept(path))) this.#queueOf(name).kept = kept;
    } catch (error) {
      this.#options.log.warn(
        { code: asTidemarkError(error).code },
        `${path} could not be read: what was being sent to channels is sent again, and the end of what was reported before is reported by source`,
      );
    }
  }

  #save(): void {
    const kept = [...this.#queues].flatMap(([name, queue]) => {
      const { groups, sending } = queue.kept;
      return groups.length + sending.length === 0 ? [] : [[name, { groups, sending }] as const];
    });
    const path = this.#options.file();
    try {
      writeKept(path, Object.fromEntries(kept));
    } catch (error) {
      // Notices are sent although the disk is full; only after a kill they may come twice.
      this.#options.log.warn({ code: asTidemarkError(error).code }, asTidemarkError(error).message);
    }
  }
}
