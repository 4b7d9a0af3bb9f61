/**
 * Sends what is pending in the outboxes of all mirrors: one queue per channel, oldest first, so that a failing receiver does not delay
 * other channels. With several sources, events are sent in groups (`groups.ts`). No lock is held while a message is sent. A message with
 * several events is written to a file before it is sent, and its result is written there before the mirrors: if the process is killed,
 * the message is sent again under the same id, or not at all.
 */
import { compareTexts } from '../../catalog/order.ts';
import type { ChannelConfig } from '../../config/channels.ts';
import { IMPROVEMENTS } from '../../config/notice-events.ts';
import { type Clock, isoTime, realPause } from '../../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Delivery, DeliveryResult } from '../../mirror/daemon-store.ts';
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
import { type KeptState, readKept, type Sending, writeKept } from './kept-messages.ts';
import { incidentKey, leftOpen, messageOf, noticeId, sourceOf, subjectName } from './message.ts';
import { Outbox, type OutboxOptions } from './outbox.ts';
import type { Send } from './sending.ts';

/** How long after the event a notice is tried: after a day, it is not news any more. */
const RETRY_FOR_MS = 24 * 3_600_000;
const FIRST_WAIT_MS = 15_000;
const LONGEST_WAIT_MS = 30 * 60_000;
const SHORTEST_WAIT_MS = 1_000;
/** A longer wait comes from a clock that was set back: the longest interval of a group is an hour. */
const LONGEST_DUE_MS = 2 * 3_600_000;
const MINUTE_MS = 60_000;
/** The number of mirrors that are written without a pause. */
const WRITTEN_AT_ONCE = 5;

interface DeliveriesOptions {
  /** Those of the configuration in force. */
  readonly channels: () => readonly ChannelConfig[];
  /** The configured sources, with the origin of the service of each. */
  readonly sources: () => readonly { readonly name: string; readonly origin: string }[];
  /** Null if every event is sent separately. */
  readonly times: () => GroupTimes | null;
  /** Absolute path of the file of groups and of what is being sent. */
  readonly file: () => string;
  /** Of the dashboard; null if none is configured. */
  readonly publicUrl: () => string | null;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: Logger;
  readonly send: Send;
}

/** The wait after this many failed attempts, milliseconds: random up to a doubling bound (full jitter), at least a second. @internal */
export function waitAfter(attempts: number, random: number): number {
  const bound = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1));
  return Math.max(SHORTEST_WAIT_MS, Math.round(random * bound));
}

interface ChannelState extends KeptState {
  isBusy: boolean;
  /** Ids of messages that this process could not deliver. */
  tried: Set<string>;
  /** Until when nothing is sent because the receiver did not answer, epoch milliseconds. */
  silentUntil: number;
  /** When messages were sent within the last minute, epoch milliseconds. */
  sentAt: number[];
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

export class Deliveries {
  readonly #options: DeliveriesOptions;
  /** By the only source of their mirror; empty for a mirror of all. */
  readonly #outboxes = new Map<string, Outbox>();
  readonly #channels = new Map<string, ChannelState>();
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
      const state = this.#stateOf(name);
      if (state.isBusy) continue;
      state.isBusy = true;
      this.#due = null;
      const work = this.#deliver(name, state, ends, isLast).finally(() => this.#works.delete(work));
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
    const kept = [...this.#channels].flatMap(([name, { sending }]) => (sending.length > 0 ? [name] : []));
    return new Set([...this.#allPending().map(({ delivery }) => delivery.channel), ...kept]);
  }

  #allPending(): PendingDelivery[] {
    return [...this.#outboxes].flatMap(([mirror, outbox]) =>
      outbox.pending().map((delivery) => ({ mirror, delivery })),
    );
  }

  #stateOf(name: string): ChannelState {
    this.#load();
    const state = this.#channels.get(name) ?? newState();
    this.#channels.set(name, state);
    return state;
  }

  #channel(name: string): ChannelConfig | undefined {
    return this.#options.channels().find((channel) => channel.name === name);
  }

  #dueTimes(now: number): Map<string, number> {
    const due = new Map<string, number>();
    const [anyMirror] = this.#outboxes.keys();
    for (const name of this.#namesPending()) {
      const state = this.#stateOf(name);
      if (state.isBusy) continue;
      const channel = this.#channel(name);
      const freeAt = channel === undefined ? now : this.#freeAt(channel, state, now);
      for (const { dueAt, mirror } of this.#candidates(name, state, channel, now)) {
        const woken = this.#outboxes.has(mirror) ? mirror : anyMirror;
        const at = Math.max(dueAt, freeAt);
        if (woken !== undefined) due.set(woken, Math.min(at, due.get(woken) ?? at));
      }
    }
    return due;
  }

  /** When the channel may send again, epoch milliseconds. */
  #freeAt({ perMinute }: ChannelConfig, state: ChannelState, now: number): number {
    state.sentAt = state.sentAt.filter((at) => Math.abs(now - at) < MINUTE_MS);
    const first = perMinute === 0 ? undefined : state.sentAt.at(-perMinute);
    // If the clock was set back, the channel must not be silent for longer.
    const silentUntil = state.silentUntil - now > LONGEST_WAIT_MS ? now : state.silentUntil;
    return Math.max(silentUntil, first === undefined ? now : first + MINUTE_MS);
  }

  #isGrouped(channel: ChannelConfig | undefined): channel is ChannelConfig {
    return channel?.group === true && this.#options.times() !== null;
  }

  /** The pending deliveries of a channel that are in no message yet, oldest first. */
  #openOf(name: string, state: ChannelState): PendingDelivery[] {
    const begun = new Set(state.sending.flatMap(({ events }) => events.map(eventKey)));
    return this.#allPending()
      .filter(
        ({ mirror, delivery }) => delivery.channel === name && !begun.has(eventKey({ mirror, ...delivery })),
      )
      .sort((a, b) => compareTexts(a.delivery.about.at, b.delivery.about.at));
  }

  /** What a channel could send, oldest first. */
  #candidates(
    name: string,
    state: ChannelState,
    channel: ChannelConfig | undefined,
    now: number,
  ): readonly Candidate[] {
    const open = this.#openOf(name, state);
    const again = state.sending.filter(({ isSent }) => !isSent).map(candidateOf);
    const fresh = this.#isGrouped(channel)
      ? this.#draftCandidates(state, open, channel, now)
      : open.map((pending) => candidateOf(this.#single(pending)));
    return [...again, ...fresh].sort((a, b) => compareTexts(a.at, b.at));
  }

  #draftCandidates(
    state: ChannelState,
    open: readonly PendingDelivery[],
    channel: ChannelConfig,
    now: number,
  ): Candidate[] {
    const times = this.#options.times() ?? { waitMs: 0, intervalMs: 0 };
    this.#forgetSources(state, now);
    const events = open.map((pending) => this.#eventOf(pending));
    return draftsOf(state.groups, events, channel).map((draft) => ({
      id: null,
      dueAt: draftDueAt(draft, times),
      at: draft.events[0]?.about.at ?? '',
      mirror: draft.events[0]?.mirror ?? '',
      begin: () => this.#begin(state, draft, now),
    }));
  }

  /** Removes from the groups the sources that are no longer configured, once their end was reported: they have no more events. */
  #forgetSources(state: ChannelState, now: number): void {
    const names = new Set(
      ['', ...this.#options.sources().map(({ name }) => name)].map((name) => subjectName(name)),
    );
    state.groups = state.groups
      .map((group) => {
        const failing = Object.entries(group.failing).filter(
          ([name]) => names.has(name) || [...this.#outboxes.values()].some((outbox) => outbox.awaits(name)),
        );
        return failing.length === Object.keys(group.failing).length
          ? group
          : { ...group, failing: Object.fromEntries(failing) };
      })
      .filter((group) => isKept(group, now));
  }

  #begin(state: ChannelState, draft: Draft, now: number): Sending {
    const sending: Sending = { ...batchOf(draft, now), attempts: 0, nextAttemptAt: now, isSent: false };
    state.groups = [
      ...state.groups.filter((group) => group !== draft.before),
      ...(sending.group === null ? [] : [sending.group]),
    ];
    state.sending = [...state.sending, sending];
    this.#save();
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

  /** Sends one message after the other until nothing is due, with those that became pending meanwhile. */
  async #deliver(name: string, state: ChannelState, signal: AbortSignal, isLast: boolean): Promise<void> {
    const tried = new Set<string>();
    try {
      this.#markSent(name, state);
      while (!signal.aborted) {
        const channel = this.#channel(name);
        if (channel === undefined) {
          this.#giveUpAll(name, state);
          return;
        }
        this.#dropOver(channel, state);
        const sending = this.#next(channel, state, isLast ? tried : null);
        if (sending === null) return;
        tried.add(sending.id);
        await this.#attempt(channel, state, sending, signal);
      }
    } finally {
      // Not in a later callback of the promise: what becomes pending from now on needs a new start.
      state.isBusy = false;
      this.#due = null;
    }
  }

  /** Drops problems that ended while their first message waited. */
  #dropOver(channel: ChannelConfig, state: ChannelState): void {
    if (!this.#isGrouped(channel)) return;
    const open = this.#openOf(channel.name, state);
    const events = open.map((pending) => this.#eventOf(pending));
    const over = new Set(overBeforeSent(state.groups, events, channel).map(eventKey));
    const givenUpAt = isoTime(this.#options.clock.now());
    for (const { mirror, delivery } of open) {
      if (!over.has(eventKey({ mirror, ...delivery }))) continue;
      const { notice, about } = delivery;
      this.#options.log.debug(
        { channel: channel.name, notice, event: about.event },
        'sent no notice of what was over before',
      );
      this.#outboxes.get(mirror)?.mark(delivery, { givenUpAt, error: null });
    }
  }

  /** The next message to send. @param tried ids of messages that were just tried: all others are sent, due or not; null if due times count */
  #next(channel: ChannelConfig, state: ChannelState, tried: ReadonlySet<string> | null): Sending | null {
    const now = this.#options.clock.now();
    if (this.#freeAt(channel, state, now) > now) return null;
    // A message that an earlier process tried is due at once: why it failed is not known, and the end of its problem must not go first.
    const isDue = ({ id, dueAt }: Candidate): boolean =>
      tried === null
        ? dueAt <= now || dueAt - now > LONGEST_DUE_MS || (id !== null && !state.tried.has(id))
        : id === null || !tried.has(id);
    return this.#candidates(channel.name, state, channel, now).find(isDue)?.begin() ?? null;
  }

  async #attempt(
    channel: ChannelConfig,
    state: ChannelState,
    sending: Sending,
    signal: AbortSignal,
  ): Promise<void> {
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
    state.sentAt.push(clock.now());
    try {
      await send(channel, message, signal);
    } catch (thrown) {
      // Stopped by the caller: that does not count as an attempt.
      if (signal.aborted) return;
      this.#failed(channel, state, { ...sending, attempts }, asTidemarkError(thrown), facts);
      return;
    }
    state.silentUntil = 0;
    state.tried.delete(sending.id);
    log.info(facts, 'delivered a notice');
    this.#end(state, { ...sending, attempts, isSent: true });
    this.#mark(sending, channel.name, { attempts, deliveredAt: isoTime(clock.now()), error: null });
    for (const event of sending.events)
      if (IMPROVEMENTS.has(event.about.event) && leftOpen(event.about, channel.severity) === null)
        this.#giveUpBefore(channel.name, state, event);
  }

  /** Drops what the receiver refused of a problem whose end it accepted: sent after the end, it would open the problem again. */
  #giveUpBefore(name: string, state: ChannelState, { mirror, about: end }: PendingEvent): void {
    const isOver = (own: Pick<PendingEvent, 'mirror' | 'about'>): boolean => {
      const { source, subject, at } = own.about;
      return own.mirror === mirror && source === end.source && subject === end.subject && at < end.at;
    };
    const given = state.sending.filter(({ isSent, events }) => !isSent && events.every(isOver));
    if (given.length > 0) {
      state.sending = state.sending.filter((sending) => !given.includes(sending));
      this.#save();
    }
    const left = new Set(state.sending.flatMap(({ events }) => events.map(eventKey)));
    const givenUpAt = isoTime(this.#options.clock.now());
    for (const { mirror: own, delivery } of this.#allPending()) {
      const { notice, about, attempts, error, channel } = delivery;
      if (channel !== name || !isOver({ mirror: own, about }) || left.has(eventKey({ mirror, notice })))
        continue;
      this.#options.log.warn(
        { channel: name, notice, event: about.event, attempts },
        `dropped a notice that was rejected, as its end was delivered${error === null ? '' : `: ${error}`}`,
      );
      this.#outboxes.get(mirror)?.mark(delivery, { givenUpAt });
    }
  }

  #failed(
    channel: ChannelConfig,
    state: ChannelState,
    sending: Sending,
    error: TidemarkError,
    facts: Record<string, unknown>,
  ): void {
    const { clock, random, log } = this.#options;
    const { attempts, events } = sending;
    const now = clock.now();
    state.tried.add(sending.id);
    const newest = Math.max(...events.map(({ about }) => Date.parse(about.at)));
    if (now - newest >= RETRY_FOR_MS) {
      log.error(facts, `gave up a notice: ${error.message}`);
      state.tried.delete(sending.id);
      this.#end(state, { ...sending, isSent: true });
      this.#mark(sending, channel.name, { attempts, givenUpAt: isoTime(now), error: error.message });
      return;
    }
    const waitMs = Math.max(
      waitAfter(attempts, random()),
      Math.min(error.retryAfterMs ?? 0, LONGEST_WAIT_MS),
    );
    // A receiver that refuses one message may accept the next; one that does not answer will not.
    if (error.isRetryable) state.silentUntil = now + waitMs;
    const failed = { ...facts, code: error.code };
    if (attempts === 1)
      log.warn(failed, `a notice was not delivered, and will be tried again: ${error.message}`);
    else log.debug(failed, `a notice was not delivered: ${error.message}`);
    const next = { ...sending, nextAttemptAt: now + waitMs };
    if (state.sending.some(({ id }) => id === sending.id)) {
      state.sending = state.sending.map((each) => (each.id === sending.id ? next : each));
      this.#save();
    }
    // Of a message about many sources, only one event is marked later on: health counts those that wait.
    const marked = attempts === 1 ? next : { ...next, events: events.slice(0, 1) };
    this.#mark(marked, channel.name, {
      attempts,
      nextAttemptAt: isoTime(next.nextAttemptAt),
      error: error.message,
    });
  }

  /** The message was delivered or given up: that is written to the file before the mirrors. */
  #end(state: ChannelState, sending: Sending): void {
    if (!state.sending.some(({ id }) => id === sending.id)) return;
    state.sending = state.sending.map((each) => (each.id === sending.id ? sending : each));
    this.#save();
  }

  #giveUpAll(name: string, state: ChannelState): void {
    const { clock, log } = this.#options;
    const why = 'the channel is no longer configured';
    if (state.groups.length + state.sending.length > 0) {
      [state.groups, state.sending] = [[], []];
      this.#save();
    }
    for (const { mirror, delivery } of this.#allPending()) {
      if (delivery.channel !== name) continue;
      const { notice, about, attempts } = delivery;
      log.error({ channel: name, notice, event: about.event, attempts }, `gave up a notice: ${why}`);
      this.#outboxes.get(mirror)?.mark(delivery, { givenUpAt: isoTime(clock.now()), error: why });
    }
    void this.#write();
  }

  /** Marks what an earlier process delivered and could not store in all mirrors. */
  #markSent(name: string, state: ChannelState): void {
    const now = this.#options.clock.now();
    for (const sending of state.sending) {
      if (sending.isSent)
        this.#mark(sending, name, { attempts: sending.attempts, deliveredAt: isoTime(now), error: null });
    }
  }

  #mark({ events }: Sending, channel: string, news: Partial<DeliveryResult>): void {
    for (const { mirror, notice, id } of events) {
      const outbox = this.#outboxes.get(mirror);
      const delivery = outbox
        ?.pending()
        .find(
          (pending) =>
            pending.notice === notice &&
            pending.channel === channel &&
            noticeId(notice, pending.about, outbox.owner) === id,
        );
      if (delivery !== undefined) outbox?.mark(delivery, news);
    }
    // Not awaited: the next message need not wait for the writers.
    void this.#write();
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
    for (const state of this.#channels.values()) {
      const left = state.sending.filter((sending) => !sending.isSent || !isKnown(sending));
      hasForgotten ||= left.length < state.sending.length;
      state.sending = left;
    }
    if (hasForgotten) this.#save();
  }

  // The file.

  #load(): void {
    if (this.#isLoaded || this.#options.times() === null) return;
    this.#isLoaded = true;
    const path = this.#options.file();
    try {
      for (const [name, { groups, sending }] of Object.entries(readKept(path))) {
        this.#channels.set(name, { ...newState(), ...this.#channels.get(name), groups, sending });
      }
    } catch (error) {
      this.#options.log.warn(
        { code: asTidemarkError(error).code },
        `${path} could not be read: what was being sent to channels is sent again, and the end of what was reported before is reported by source`,
      );
    }
  }

  #save(): void {
    const kept = [...this.#channels].flatMap(([name, { groups, sending }]) =>
      groups.length + sending.length === 0 ? [] : [[name, { groups, sending }] as const],
    );
    const path = this.#options.file();
    try {
      writeKept(path, Object.fromEntries(kept));
    } catch (error) {
      // Notices are sent although the disk is full; only after a kill they may come twice.
      this.#options.log.warn({ code: asTidemarkError(error).code }, asTidemarkError(error).message);
    }
  }
}

function newState(): ChannelState {
  return { groups: [], sending: [], isBusy: false, tried: new Set(), silentUntil: 0, sentAt: [] };
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
