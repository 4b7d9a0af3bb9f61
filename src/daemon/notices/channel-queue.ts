/** What one channel has to send: chooses the next message, sends it, and notes the result. */
import { compareTexts } from '../../catalog/order.ts';
import type { ChannelConfig } from '../../config/channels.ts';
import { IMPROVEMENTS } from '../../config/notice-events.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Delivery, DeliveryResult } from '../../mirror/notice-rows.ts';
import {
  batchMessage,
  batchOf,
  causeOf,
  type Draft,
  draftDueAt,
  draftsOf,
  type GroupTimes,
  isKept,
  overBeforeSent,
  type PendingEvent,
} from './groups.ts';
import type { KeptState, Sending } from './kept-messages.ts';
import { incidentKey, leftOpen, messageOf, noticeId, sourceOf, subjectName } from './message.ts';
import type { Outbox } from './outbox.ts';
import type { Send } from './sending.ts';

/** How long after the event a notice is tried: after a day, it is not news any more. */
export const RETRY_FOR_MS = 24 * 3_600_000;
const FIRST_WAIT_MS = 15_000;
const LONGEST_WAIT_MS = 30 * 60_000;
const SHORTEST_WAIT_MS = 1_000;
/** A longer wait comes from a clock that was set back: the longest interval of a group is an hour. */
export const LONGEST_DUE_MS = 2 * 3_600_000;
const MINUTE_MS = 60_000;

export interface DeliveryOptions {
  /** Those of the configuration in force. */
  readonly channels: () => readonly ChannelConfig[];
  /** The configured sources, with the origin of the service of each. */
  readonly sources: () => readonly { readonly name: string; readonly origin: string }[];
  /** Null if every event is sent separately. */
  readonly times: () => GroupTimes | null;
  /** Of the dashboard; null if none is configured. */
  readonly publicUrl: () => string | null;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly send: Send;
}

interface QueueOptions extends DeliveryOptions {
  /** By the only source of their mirror; empty for a mirror of all. */
  readonly outboxes: ReadonlyMap<string, Outbox>;
  /** Writes `kept` to the file. */
  readonly save: () => void;
  /** Begins to write the results of deliveries to the mirrors. */
  readonly writeResults: () => void;
  /** Called when due times have to be computed again. */
  readonly onChange: () => void;
}

/** The wait after this many failed attempts, milliseconds: random up to a doubling bound (full jitter), at least a second. @internal */
export function waitAfter(attempts: number, random: number): number {
  const bound = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1));
  return Math.max(SHORTEST_WAIT_MS, Math.round(random * bound));
}

interface PendingDelivery {
  /** As of `PendingEvent`. */
  readonly mirror: string;
  readonly delivery: Delivery;
}

/** What a channel could send next. */
interface Candidate {
  /** Of its message; null for a draft. */
  readonly id: string | null;
  readonly dueAt: number;
  /** ISO 8601: the oldest goes first. */
  readonly at: string;
  readonly mirror: string;
  readonly begin: () => Sending;
}

export class ChannelQueue {
  /** The groups and begun messages, which are kept over restarts. */
  kept: KeptState = { groups: [], sending: [] };
  readonly #name: string;
  readonly #options: QueueOptions;
  #isBusy = false;
  /** Ids of messages that this process could not deliver. */
  readonly #tried = new Set<string>();
  /** Until when nothing is sent because the receiver did not answer, epoch milliseconds. */
  #silentUntil = 0;
  /** When messages were sent within the last minute, epoch milliseconds. */
  #sentAt: number[] = [];

  constructor(name: string, options: QueueOptions) {
    this.#name = name;
    this.#options = options;
  }

  /** True while messages are being sent. */
  isBusy(): boolean {
    return this.#isBusy;
  }

  /** When messages could be sent, epoch milliseconds, each with the mirror of its first event. */
  dueTimes(now: number): { readonly mirror: string; readonly at: number }[] {
    const channel = this.#channel();
    const freeAt = channel === undefined ? now : this.#freeAt(channel, now);
    return this.#candidates(channel, now).map(({ dueAt, mirror }) => ({
      mirror,
      at: Math.max(dueAt, freeAt),
    }));
  }

  /**
   * Sends one message after the other until nothing is due, with those that became pending meanwhile.
   * @param isLast true to send also what waits for further events
   */
  async deliver(signal: AbortSignal, isLast: boolean): Promise<void> {
    this.#isBusy = true;
    this.#options.onChange();
    const tried = new Set<string>();
    try {
      this.#markSent();
      while (!signal.aborted) {
        const channel = this.#channel();
        if (channel === undefined) {
          this.#giveUpAll();
          return;
        }
        this.#dropOver(channel);
        const sending = this.#next(channel, isLast ? tried : null);
        if (sending === null) return;
        tried.add(sending.id);
        await this.#attempt(channel, sending, signal);
      }
    } finally {
      // Not in a later callback of the promise: what becomes pending from now on needs a new start.
      this.#isBusy = false;
      this.#options.onChange();
    }
  }

  /** Removes the sent messages that match. Returns whether there were any. */
  forgetSent(isKnown: (sending: Sending) => boolean): boolean {
    const { sending } = this.kept;
    this.kept.sending = sending.filter((each) => !each.isSent || !isKnown(each));
    return this.kept.sending.length < sending.length;
  }

  #channel(): ChannelConfig | undefined {
    return this.#options.channels().find((channel) => channel.name === this.#name);
  }

  /** The channel's pending deliveries. */
  #pending(): PendingDelivery[] {
    return [...this.#options.outboxes].flatMap(([mirror, outbox]) =>
      outbox
        .pending()
        .filter(({ channel }) => channel === this.#name)
        .map((delivery) => ({ mirror, delivery })),
    );
  }

  /** When the channel may send again, epoch milliseconds. */
  #freeAt({ perMinute }: ChannelConfig, now: number): number {
    this.#sentAt = this.#sentAt.filter((at) => Math.abs(now - at) < MINUTE_MS);
    const first = perMinute === 0 ? undefined : this.#sentAt.at(-perMinute);
    // If the clock was set back, the channel must not be silent for longer.
    const silentUntil = this.#silentUntil - now > LONGEST_WAIT_MS ? now : this.#silentUntil;
    return Math.max(silentUntil, first === undefined ? now : first + MINUTE_MS);
  }

  #isGrouped(channel: ChannelConfig | undefined): channel is ChannelConfig {
    return channel?.group === true && this.#options.times() !== null;
  }

  /** The pending deliveries that are in no message yet, oldest first. */
  #open(): PendingDelivery[] {
    const begun = new Set(this.kept.sending.flatMap(({ events }) => events.map(eventKey)));
    return this.#pending()
      .filter(({ mirror, delivery }) => !begun.has(eventKey({ mirror, ...delivery })))
      .sort((a, b) => compareTexts(a.delivery.about.at, b.delivery.about.at));
  }

  /** What the channel could send, oldest first. */
  #candidates(channel: ChannelConfig | undefined, now: number): readonly Candidate[] {
    const open = this.#open();
    const again = this.kept.sending.filter(({ isSent }) => !isSent).map(candidateOf);
    const fresh = this.#isGrouped(channel)
      ? this.#draftCandidates(open, channel, now)
      : open.map((pending) => candidateOf(this.#single(pending)));
    return [...again, ...fresh].sort((a, b) => compareTexts(a.at, b.at));
  }

  #draftCandidates(open: readonly PendingDelivery[], channel: ChannelConfig, now: number): Candidate[] {
    const times = this.#options.times() ?? { waitMs: 0, intervalMs: 0 };
    this.#forgetSources(now);
    const events = open.map((pending) => this.#eventOf(pending));
    return draftsOf(this.kept.groups, events, channel).map((draft) => ({
      id: null,
      dueAt: draftDueAt(draft, times),
      at: draft.events[0]?.about.at ?? '',
      mirror: draft.events[0]?.mirror ?? '',
      begin: () => this.#begin(draft, now),
    }));
  }

  /** Removes from the groups the sources that are no longer configured, once their end was reported: they have no more events. */
  #forgetSources(now: number): void {
    const names = new Set(
      ['', ...this.#options.sources().map(({ name }) => name)].map((name) => subjectName(name)),
    );
    this.kept.groups = this.kept.groups
      .map((group) => {
        const failing = Object.entries(group.failing).filter(
          ([name]) =>
            names.has(name) || [...this.#options.outboxes.values()].some((outbox) => outbox.awaits(name)),
        );
        return failing.length === Object.keys(group.failing).length
          ? group
          : { ...group, failing: Object.fromEntries(failing) };
      })
      .filter((group) => isKept(group, now));
  }

  #begin(draft: Draft, now: number): Sending {
    const sending: Sending = { ...batchOf(draft, now), attempts: 0, nextAttemptAt: now, isSent: false };
    this.kept.groups = [
      ...this.kept.groups.filter((group) => group !== draft.before),
      ...(sending.group === null ? [] : [sending.group]),
    ];
    this.kept.sending = [...this.kept.sending, sending];
    this.#options.save();
    return sending;
  }

  #eventOf({ mirror, delivery }: PendingDelivery): PendingEvent {
    const { notice, about } = delivery;
    const owner = mirror === '' ? null : mirror;
    const source = sourceOf(about, owner);
    const origin = this.#options.sources().find(({ name }) => name === source)?.origin ?? '';
    return {
      mirror,
      notice,
      id: noticeId(notice, about, owner),
      source,
      cause: causeOf(about, origin),
      about,
    };
  }

  /** The message of a single event: its mirror knows how often it was tried. */
  #single(pending: PendingDelivery): Sending {
    const { delivery } = pending;
    const event = this.#eventOf(pending);
    return {
      id: event.id,
      events: [event],
      group: null,
      incidents: [incidentKey(event.source, event.about.subject)],
      attempts: delivery.attempts,
      nextAttemptAt: Date.parse(delivery.nextAttemptAt),
      isSent: false,
    };
  }

  /** Drops problems that ended while their first message waited. */
  #dropOver(channel: ChannelConfig): void {
    if (!this.#isGrouped(channel)) return;
    const open = this.#open();
    const events = open.map((pending) => this.#eventOf(pending));
    const over = new Set(overBeforeSent(this.kept.groups, events, channel).map(eventKey));
    const givenUpAt = isoTime(this.#options.clock.now());
    for (const { mirror, delivery } of open) {
      if (!over.has(eventKey({ mirror, ...delivery }))) continue;
      const { notice, about } = delivery;
      this.#options.log.debug(
        { channel: channel.name, notice, event: about.event },
        'sent no notice of what was over before',
      );
      this.#options.outboxes.get(mirror)?.mark(delivery, { givenUpAt, error: null });
    }
  }

  /** The next message to send. @param tried ids of messages that were just tried: all others are sent, due or not; null if due times count */
  #next(channel: ChannelConfig, tried: ReadonlySet<string> | null): Sending | null {
    const now = this.#options.clock.now();
    if (this.#freeAt(channel, now) > now) return null;
    // A message that an earlier process tried is due at once: why it failed is not known, and the end of its problem must not go first.
    const isDue = ({ id, dueAt }: Candidate): boolean =>
      tried === null
        ? dueAt <= now || dueAt - now > LONGEST_DUE_MS || (id !== null && !this.#tried.has(id))
        : id === null || !tried.has(id);
    return this.#candidates(channel, now).find(isDue)?.begin() ?? null;
  }

  async #attempt(channel: ChannelConfig, sending: Sending, signal: AbortSignal): Promise<void> {
    const { clock, log, send, publicUrl, sources } = this.#options;
    const attempts = sending.attempts + 1;
    const url = publicUrl();
    const configured = sources();
    const only = configured.length === 1 ? (configured[0]?.name ?? null) : null;
    const events = sending.events.map(({ mirror, notice, about }) => {
      const owner = mirror === '' ? null : mirror;
      return messageOf(notice, about, channel.severity, url, owner, owner ?? only);
    });
    const message = batchMessage(sending, events, { publicUrl: url, configured: configured.length });
    const facts = { ...factsOf(channel, sending), event: message.event, attempts };
    this.#sentAt.push(clock.now());
    try {
      await send(channel, message, signal);
    } catch (thrown) {
      // Stopped by the caller: that does not count as an attempt.
      if (signal.aborted) return;
      this.#failed({ ...sending, attempts }, asTidemarkError(thrown), facts);
      return;
    }
    this.#silentUntil = 0;
    this.#tried.delete(sending.id);
    log.info(facts, 'delivered a notice');
    this.#end({ ...sending, attempts, isSent: true });
    this.#mark(sending, { attempts, deliveredAt: isoTime(clock.now()), error: null });
    for (const event of sending.events)
      if (IMPROVEMENTS.has(event.about.event) && leftOpen(event.about, channel.severity) === null)
        this.#giveUpBefore(event);
  }

  /** Drops what the receiver refused of a problem whose end it accepted: sent after the end, it would open the problem again. */
  #giveUpBefore({ mirror, about: end }: PendingEvent): void {
    const isOver = (own: Pick<PendingEvent, 'mirror' | 'about'>): boolean => {
      const { source, subject, at } = own.about;
      return own.mirror === mirror && source === end.source && subject === end.subject && at < end.at;
    };
    const given = this.kept.sending.filter(({ isSent, events }) => !isSent && events.every(isOver));
    if (given.length > 0) {
      this.kept.sending = this.kept.sending.filter((sending) => !given.includes(sending));
      this.#options.save();
    }
    const left = new Set(this.kept.sending.flatMap(({ events }) => events.map(eventKey)));
    const givenUpAt = isoTime(this.#options.clock.now());
    for (const { mirror: own, delivery } of this.#pending()) {
      const { notice, about, attempts, error } = delivery;
      if (!isOver({ mirror: own, about }) || left.has(eventKey({ mirror, notice }))) continue;
      this.#options.log.warn(
        { channel: this.#name, notice, event: about.event, attempts },
        `dropped a notice that was rejected, as its end was delivered${error === null ? '' : `: ${error}`}`,
      );
      this.#options.outboxes.get(mirror)?.mark(delivery, { givenUpAt });
    }
  }

  #failed(sending: Sending, error: TidemarkError, facts: Record<string, unknown>): void {
    const { clock, random, log } = this.#options;
    const { attempts, events } = sending;
    const now = clock.now();
    this.#tried.add(sending.id);
    const newest = Math.max(...events.map(({ about }) => Date.parse(about.at)));
    if (now - newest >= RETRY_FOR_MS) {
      log.error(facts, `gave up a notice: ${error.message}`);
      this.#tried.delete(sending.id);
      this.#end({ ...sending, isSent: true });
      this.#mark(sending, { attempts, givenUpAt: isoTime(now), error: error.message });
      return;
    }
    const waitMs = Math.max(
      waitAfter(attempts, random()),
      Math.min(error.retryAfterMs ?? 0, LONGEST_WAIT_MS),
    );
    // A receiver that refuses one message may accept the next; one that does not answer will not.
    if (error.isRetryable) this.#silentUntil = now + waitMs;
    const failed = { ...facts, code: error.code };
    if (attempts === 1)
      log.warn(failed, `a notice was not delivered, and will be tried again: ${error.message}`);
    else log.debug(failed, `a notice was not delivered: ${error.message}`);
    const next = { ...sending, nextAttemptAt: now + waitMs };
    if (this.kept.sending.some(({ id }) => id === sending.id)) {
      this.kept.sending = this.kept.sending.map((each) => (each.id === sending.id ? next : each));
      this.#options.save();
    }
    // Of a message about many sources, only one event is marked later on: health counts those that wait.
    const marked = attempts === 1 ? next : { ...next, events: events.slice(0, 1) };
    this.#mark(marked, {
      attempts,
      nextAttemptAt: isoTime(next.nextAttemptAt),
      error: error.message,
    });
  }

  /** The message was delivered or given up: that is written to the file before the mirrors. */
  #end(sending: Sending): void {
    if (!this.kept.sending.some(({ id }) => id === sending.id)) return;
    this.kept.sending = this.kept.sending.map((each) => (each.id === sending.id ? sending : each));
    this.#options.save();
  }

  #giveUpAll(): void {
    const { clock, log } = this.#options;
    const why = 'the channel is no longer configured';
    if (this.kept.groups.length + this.kept.sending.length > 0) {
      [this.kept.groups, this.kept.sending] = [[], []];
      this.#options.save();
    }
    for (const { mirror, delivery } of this.#pending()) {
      const { notice, about, attempts } = delivery;
      log.error({ channel: this.#name, notice, event: about.event, attempts }, `gave up a notice: ${why}`);
      this.#options.outboxes.get(mirror)?.mark(delivery, { givenUpAt: isoTime(clock.now()), error: why });
    }
    this.#options.writeResults();
  }

  /** Marks what an earlier process delivered and could not store in all mirrors. */
  #markSent(): void {
    const now = this.#options.clock.now();
    for (const sending of this.kept.sending) {
      if (sending.isSent)
        this.#mark(sending, { attempts: sending.attempts, deliveredAt: isoTime(now), error: null });
    }
  }

  #mark({ events }: Sending, news: Partial<DeliveryResult>): void {
    for (const { mirror, notice, id } of events) {
      const outbox = this.#options.outboxes.get(mirror);
      const delivery = outbox
        ?.pending()
        .find(
          (pending) =>
            pending.notice === notice &&
            pending.channel === this.#name &&
            noticeId(notice, pending.about, outbox.owner) === id,
        );
      if (delivery !== undefined) outbox?.mark(delivery, news);
    }
    // Not awaited: the next message need not wait for the writers.
    this.#options.writeResults();
  }
}

function eventKey({ mirror, notice }: { readonly mirror: string; readonly notice: number }): string {
  return `${notice} ${mirror}`;
}

function candidateOf(sending: Sending): Candidate {
  const [first] = sending.events;
  return {
    id: sending.id,
    dueAt: sending.nextAttemptAt,
    at: first?.about.at ?? '',
    mirror: first?.mirror ?? '',
    begin: () => sending,
  };
}

function factsOf(channel: ChannelConfig, { events }: Sending): Record<string, unknown> {
  const [first] = events;
  return events.length === 1
    ? { channel: channel.name, notice: first?.notice }
    : { channel: channel.name, events: events.length };
}
