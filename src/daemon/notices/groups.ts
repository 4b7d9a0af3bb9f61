/**
 * Which pending notices are sent as one message, and when: events of several sources with one cause are a group. Pure:
 * `channel-queue.ts` keeps the groups. As in Alertmanager, the first message waits a moment for further sources, later ones keep an
 * interval, and the end is reported once.
 */
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import type { ChannelConfig } from '../../config/channels.ts';
import { ENDED_BY, IMPROVEMENTS } from '../../config/notice-events.ts';
import { type ErrorCode, isLocalError } from '../../core/errors.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { Notice } from '../../mirror/notice-rows.ts';
import { mergeDriftNotices } from './merged-drift.ts';
import { assumedText, groupTitle, reasonOf } from './group-title.ts';
import {
  contentOf,
  findingLine,
  firstNames,
  incidentKey,
  leftOpen,
  type Message,
  NAMED_IN_NOTICE,
  shortHash,
  subjectName,
} from './message.ts';

/** Milliseconds. */
export interface GroupTimes {
  /** How long the first message of a group waits. */
  readonly waitMs: number;
  /** Between its first two messages; doubled with each. */
  readonly intervalMs: number;
}

/** A notice that is pending in one channel. */
export interface PendingEvent {
  /** The mirror in which it is stored: the name of its only source, or empty for a mirror of all. */
  readonly mirror: string;
  /** Its number in that mirror. */
  readonly notice: number;
  /** Of its message. */
  readonly id: string;
  /** Its source; empty for a mirror of several sources as a whole. */
  readonly source: string;
  /** Events with one cause are reported together: the address of the service, or `this machine`. */
  readonly cause: string;
  readonly about: Notice;
}

/** Sources that are reported together, as of the last message about them. */
export interface NoticeGroup {
  /** The first event: further sources join with the same event and cause. */
  readonly event: string;
  readonly cause: string;
  /** The subject of all its events. */
  readonly subject: string;
  /** The key of its incident. */
  readonly key: string;
  /** False if no event ends it, or if the channel does not get that event. */
  readonly isLasting: boolean;
  /** When the last source joined, epoch milliseconds. */
  readonly joinedAt: number;
  /** When the last message was made, epoch milliseconds; null before the first. */
  readonly sentAt: number | null;
  readonly messages: number;
  /** All sources that ever joined, in that order. */
  readonly sources: readonly string[];
  /** The sources whose problem is open, with the last reported event of each. */
  readonly failing: Readonly<Record<string, FailingSource>>;
  /** The worst reported severity, if it is not known which problems are still open. */
  readonly worst: Severity | null;
}

interface FailingSource {
  readonly event: string;
  readonly severity: Severity;
}

/** The content of the next message about a group. */
export interface Draft {
  /** Null for a new group. */
  readonly before: NoticeGroup | null;
  readonly events: readonly PendingEvent[];
  readonly after: NoticeGroup;
}

/** So long can sources join: if their schedule is spread, they fail one after the other over an hour at most. */
const JOIN_MS = 60 * 60_000;
const LONGEST_INTERVAL_MS = 60 * 60_000;
/** After this, a group is dropped although no end came: its sources may be gone from the configuration. */
const FORGOTTEN_MS = 30 * 24 * 60 * 60_000;

/** The cause of an event, as in `PendingEvent`. @param origin of the source's service */
export function causeOf(about: Notice, origin: string): string {
  const { error, job } = contentOf(about);
  if (error?.code !== undefined && error.code !== null && isLocalError(error.code as ErrorCode))
    return 'this machine';
  return job === 'sync' || job === 'drift' || job === 'drill' ? origin : 'this machine';
}

/** What a channel is to get. */
type Filter = Pick<ChannelConfig, 'on' | 'severity'>;

/**
 * The events of problems that ended before they were reported, with their ends: none of them is news.
 * @param events of one channel that were not sent, oldest first
 */
export function overBeforeSent(
  groups: readonly NoticeGroup[],
  events: readonly PendingEvent[],
  channel: Filter,
): PendingEvent[] {
  const bySubject = Map.groupBy(events, ({ source, about }) => incidentKey(source, about.subject));
  return [...bySubject.values()].flatMap((own) => {
    const [{ source, about } = {}] = own;
    if (source === undefined || about === undefined || IMPROVEMENTS.has(about.event)) return [];
    const isReported = groups.some(
      ({ subject, failing }) => subject === about.subject && subjectName(source) in failing,
    );
    const end = own.findLastIndex(
      (each) => IMPROVEMENTS.has(each.about.event) && leftOpen(each.about, channel.severity) === null,
    );
    return isReported ? [] : own.slice(0, end + 1);
  });
}

/**
 * Puts each event into one group: the group of the source's event before it, else the one in which the source has an open problem, else
 * one with the same event and cause that a source joined within the last hour, else one whose incident has the key of the source and is
 * open for others, else a new one.
 * @param events of one channel, oldest first
 */
export function draftsOf(
  groups: readonly NoticeGroup[],
  events: readonly PendingEvent[],
  channel: Filter,
): Draft[] {
  const open = groups.map((group) => new OpenGroup(group, group, channel));
  const latest = new Map<string, OpenGroup>();
  for (const event of events) {
    const { subject } = event.about;
    const name = subjectName(event.source);
    const key = incidentKey(event.source, subject);
    const isOver = leftOpen(event.about, channel.severity) === null;
    const ofSubject = open.filter(({ group }) => group.subject === subject && (isOver || !isOfEnds(group)));
    const before = latest.get(key);
    let chosen =
      // The events of a source are reported in their order.
      ofSubject.find((each) => each === before) ??
      ofSubject.find((each) => each.failing.has(name)) ??
      // On its own, this end would also end the problems of other sources under the same key.
      ofSubject.find((each) => isOver && each.failing.size > 0 && each.group.key === key) ??
      ofSubject.find((each) => each.isJoinable(event)) ??
      // A new group would have the same key, and the end of one would close the incident of both.
      ofSubject.find((each) => each.failing.size > 0 && each.group.key === key);
    if (chosen === undefined) {
      chosen = new OpenGroup(null, newGroup(event, channel), channel);
      open.push(chosen);
    }
    chosen.add(event);
    latest.set(key, chosen);
  }
  return open.flatMap((each) => each.draft() ?? []);
}

/** A group while events are put into it. */
class OpenGroup {
  readonly before: NoticeGroup | null;
  readonly group: NoticeGroup;
  readonly failing: Map<string, FailingSource>;
  readonly #channel: Filter;
  readonly #sources: Set<string>;
  readonly #events: PendingEvent[] = [];
  #joinedAt: number;
  #worst: Severity | null;

  constructor(before: NoticeGroup | null, group: NoticeGroup, channel: Filter) {
    this.before = before;
    this.group = group;
    this.#channel = channel;
    this.failing = new Map(Object.entries(group.failing));
    this.#sources = new Set(group.sources);
    this.#joinedAt = group.joinedAt;
    this.#worst = group.worst;
  }

  isJoinable({ about, cause }: PendingEvent): boolean {
    const { before, group } = this;
    if (group.event !== about.event || group.cause !== cause) return false;
    if (Math.abs(Date.parse(about.at) - this.#joinedAt) > JOIN_MS) return false;
    // A group that was reported as over stays over.
    return before === null || !group.isLasting || Object.keys(before.failing).length > 0;
  }

  add(event: PendingEvent): void {
    const { about, source } = event;
    const name = subjectName(source);
    this.#events.push(event);
    if (!this.#sources.has(name)) this.#joinedAt = Math.max(this.#joinedAt, Date.parse(about.at));
    this.#sources.add(name);
    const severity = leftOpen(about, this.#channel.severity);
    if (!this.group.isLasting) {
      if (severity !== null) this.#worst = worst(this.#worst === null ? [severity] : [this.#worst, severity]);
      return;
    }
    if (severity === null) {
      this.failing.delete(name);
      return;
    }
    const known = this.failing.get(name);
    const isBetter = IMPROVEMENTS.has(about.event);
    this.failing.set(name, {
      event: isBetter ? (known?.event ?? this.group.event) : about.event,
      // New findings leave those before them open.
      severity:
        isBetter || known === undefined || about.subject !== 'drift'
          ? severity
          : worst([known.severity, severity]),
    });
  }

  /** The next message; null if no event was added. */
  draft(): Draft | null {
    const { before, group, failing } = this;
    const [first, ...others] = this.#events;
    if (first === undefined) return null;
    if (this.#sources.size === 1 && others.length > 0) {
      // One source is reported as if there were no groups: one event after the other.
      const alone = new OpenGroup(before, group, this.#channel);
      alone.add(first);
      return alone.draft();
    }
    const [sources, joinedAt] = [[...this.#sources], this.#joinedAt];
    const after = { ...group, sources, joinedAt, failing: Object.fromEntries(failing), worst: this.#worst };
    return { before, events: this.#events, after };
  }
}

function newGroup({ about, cause, source }: PendingEvent, { on, severity }: Filter): NoticeGroup {
  const { subject, at } = about;
  const event = leftOpen(about, severity) === null ? about.event : openingOf(about.event);
  const ending = ENDED_BY[event];
  return {
    event,
    cause,
    subject,
    key: incidentKey(source, subject),
    isLasting: ending !== undefined && on.includes(ending),
    joinedAt: Date.parse(at),
    sentAt: null,
    messages: 0,
    sources: [],
    failing: {},
    worst: null,
  };
}

/** The event that opens a problem of which this event, an improvement, leaves something open. */
function openingOf(event: string): string {
  if (!IMPROVEMENTS.has(event)) return event;
  return Object.keys(ENDED_BY).find((each) => ENDED_BY[each] === event) ?? event;
}

/** When the message is to be sent, epoch milliseconds. */
export function draftDueAt({ before, events, after }: Draft, { waitMs, intervalMs }: GroupTimes): number {
  const times = events.map(({ about }) => Date.parse(about.at));
  const first = Math.min(...times);
  if (before?.sentAt === undefined || before.sentAt === null) return first + waitMs;
  // The end need not wait for other sources: none is left.
  if (isOver(after)) return Math.max(...times);
  // One source is reported as if there were no groups.
  if (after.sources.length === 1 || isWorse(before, events)) return first + waitMs;
  const intervals = intervalMs * 2 ** (before.messages - 1);
  return Math.max(
    first + waitMs,
    before.sentAt + Math.min(intervals, Math.max(intervalMs, LONGEST_INTERVAL_MS)),
  );
}

/** True if a new event is worse than what was reported and is still open. */
function isWorse({ failing, worst: reported }: NoticeGroup, events: readonly PendingEvent[]): boolean {
  const fresh = events.filter(({ about }) => !IMPROVEMENTS.has(about.event));
  if (fresh.length === 0) return false;
  const open = Object.entries(failing).flatMap(([name, { severity }]) => {
    const own = events.filter(({ source }) => subjectName(source) === name);
    return openBefore(own) ?? [severity];
  });
  const known = reported === null ? open : [reported, ...open];
  const newest = worst(fresh.map(({ about }) => contentOf(about).severity));
  return known.length === 0 || compareSeverities(newest, worst(known)) < 0;
}

/** The severities of findings of a source that were open before these events and still are; null if the events do not show that. */
function openBefore(events: readonly PendingEvent[]): Severity[] | null {
  const contents = events.map(({ about }) => contentOf(about));
  const left = contents.findLast(({ stillOpen }) => stillOpen !== null)?.stillOpen ?? null;
  if (left === null) return null;
  const fresh = contents.filter(({ stillOpen }) => stillOpen === null);
  return SEVERITIES.filter((severity) => {
    const added = fresh.reduce((sum, { severities }) => sum + (severities?.[severity] ?? 0), 0);
    return left[severity] > added;
  });
}

/** True if no problem of the group is open. */
function isOver(group: NoticeGroup): boolean {
  return isOfEnds(group) || (group.isLasting && Object.keys(group.failing).length === 0);
}

/** True for a group of ends, of problems that were reported without this group, or perhaps never. */
function isOfEnds({ event }: NoticeGroup): boolean {
  return IMPROVEMENTS.has(event);
}

/** False for a group that gets no more events. */
export function isKept(group: NoticeGroup, now: number): boolean {
  if (isOver(group)) return false;
  // `abs`, because the clock may have been set back.
  return Math.abs(now - group.joinedAt) <= (group.isLasting ? FORGOTTEN_MS : JOIN_MS);
}

/** A message that was begun: it stays the same over all attempts and restarts. */
export interface Batch {
  readonly id: string;
  readonly events: readonly PendingEvent[];
  /** The group after this message; null if events are not grouped. */
  readonly group: NoticeGroup | null;
  /** Keys of incidents. */
  readonly incidents: readonly string[];
}

/** The message of a draft. @param now epoch milliseconds */
export function batchOf({ events, after }: Draft, now: number): Batch {
  const ids = events.map(({ id }) => id);
  const [first = ''] = ids;
  const own = events.map(({ source, about }) => incidentKey(source, about.subject));
  return {
    id: ids.length === 1 ? first : shortHash(ids),
    events,
    group: { ...after, sentAt: now, messages: after.messages + 1 },
    // Problems that were reported without this group have the keys of their sources.
    incidents: isOfEnds(after) ? [...new Set(own)] : [after.key],
  };
}

// The message of a group.

/** The most lines of reasons. */
const REASONS = 8;

/**
 * The message of a batch: with one source and one event, the message of that event.
 * @param events the messages of its events
 * @param configured the number of configured sources
 */
export function batchMessage(
  { id, group, incidents }: Pick<Batch, 'id' | 'group' | 'incidents'>,
  events: readonly Message[],
  { publicUrl, configured }: { readonly publicUrl: string | null; readonly configured: number },
): Message {
  const last = events.at(-1);
  if (last === undefined) throw new Error('a message without an event');
  if (group === null || (group.sources.length === 1 && events.length === 1))
    return { ...last, id, incidents };
  const bySource = Map.groupBy(events, ({ source }) => source);
  const latest = [...bySource.values()].map((all) => mergedEvent(all));
  const worse = latest.filter(({ event }) => !IMPROVEMENTS.has(event));
  const better = latest.filter(({ event }) => IMPROVEMENTS.has(event));
  const failing = Object.keys(group.failing);
  const isResolved = isOver(group);
  const severity = isResolved
    ? 'low'
    : worst([...Object.values(group.failing), ...worse].map((each) => each.severity));
  const fresh = worse.filter(({ event }) => event === 'drift_new');
  const leads = fresh.length > 0 ? fresh : worse;
  const lead = leads.find((each) => each.severity === severity) ?? leads[0] ?? last;
  const only = group.subject === 'drift' && latest.length === 1 && !isResolved ? lead : null;
  const news =
    group.subject === 'drift' && only === null && worse.length > 0 ? mergeDriftNotices(events) : null;
  const isAssumed = events.every((each) => each.isAssumed);
  const assumed = isAssumed ? assumedText(latest) : null;
  const named = new Set([...bySource.keys()].map((source) => subjectName(source)));
  const before = failing.filter((name) => !named.has(name));
  const hints = new Set(worse.map(({ hint }) => hint));
  return {
    ...lead,
    id,
    incidents,
    at: last.at,
    source: '',
    severity,
    title:
      only?.title ??
      groupTitle(group, { lead, worse, better: better.length, configured, isResolved, news, assumed }),
    lines: [
      ...(only === null
        ? [...reasonLines(worse), ...reasonLines(better), ...namedFindings(worse)]
        : only.lines),
      ...(before.length === 0 ? [] : [`reported before, and not over: ${firstNames(before)}`]),
    ],
    hint: isResolved
      ? null
      : hints.size === 1
        ? lead.hint
        : '`tidemark status` shows every source, and what is wrong with it',
    link: only !== null || publicUrl === null ? lead.link : `${publicUrl}/`,
    run: null,
    error: new Set(worse.map(({ error }) => error?.code)).size === 1 ? lead.error : null,
    count: only?.count ?? (isResolved ? group.sources.length : Math.max(failing.length, worse.length)),
    severities: only?.severities ?? null,
    findings: only?.findings ?? [],
    more: only?.more ?? 0,
    isResolved,
    isAssumed,
    group: { key: group.key, sources: group.sources, failing, events },
  };
}

/** The events of a source as one. @param events oldest first */
function mergedEvent(events: readonly Message[]): Message {
  const last = events.at(-1);
  if (last === undefined) throw new Error('a source without an event');
  if (last.subject !== 'drift' || last.isResolved || events.length === 1) return last;
  const news = mergeDriftNotices(events);
  const lead = events.findLast(({ event }) => event === news?.event);
  if (news === null || lead === undefined) return last;
  const { event, severities, count } = news;
  const findings = news.findings.slice(0, NAMED_IN_NOTICE);
  return {
    ...lead,
    event,
    severities,
    count,
    severity: worst(SEVERITIES.filter((severity) => severities[severity] > 0)),
    title: `${subjectName(lead.source)}: ${news.title}`,
    findings,
    more: count - findings.length,
  };
}

/** The new findings of several sources, the most severe first. */
function namedFindings(events: readonly Message[]): string[] {
  const named = events.flatMap(({ source, findings }) => findings.map((finding) => ({ source, finding })));
  return named
    .toSorted((a, b) => compareSeverities(a.finding.severity, b.finding.severity))
    .slice(0, NAMED_IN_NOTICE)
    .map(({ source, finding }) => `${subjectName(source)}: ${findingLine(finding)}`);
}

/** One line for each reason, with the names of its sources. */
function reasonLines(events: readonly Message[]): string[] {
  const byReason = Map.groupBy(events, reasonOf);
  const lines = [...byReason].map(
    ([reason, all]) => `${firstNames(all.map(({ source }) => subjectName(source)))}: ${reason}`,
  );
  const more = events.length - [...byReason.values()].slice(0, REASONS).flat().length;
  return more === 0
    ? lines
    : [...lines.slice(0, REASONS), `${plural(more, 'more source')} for other reasons`];
}
