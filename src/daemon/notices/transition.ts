/** What an ended job may change in the reported states: what is given to find that out, and the result. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { NoticeState, Notice } from '../../mirror/notice-rows.ts';
import type { SchemaChange } from '../../mirror/schema-changes.ts';
import type { GoneLists, NamedRemovals, SettledRemovals } from '../../state/held-names.ts';
import type { UnreadSweep } from '../jobs/summaries.ts';
import { namedNotice, type NoticeKey } from './message.ts';

/** What a job knows beyond its summary, which names only the first of everything. */
export interface JobDetails {
  /** Of a sync: the kinds that it was limited to; null, or left out, for all. */
  readonly kinds?: readonly Kind[] | null;
  /** Of a sync: all sweeps that were not complete. */
  readonly unread?: readonly UnreadSweep[];
  /** Of a sync: true if a later one had ended before this one was reported. */
  readonly isFollowed?: boolean;
}

/** A job that ended, with what the mirror says of it. */
export interface JobObservation {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** Of a sync: the removals that are held after it. */
  readonly held: readonly NamedRemovals[];
  /** Of a sync: whether a list belongs to a record whose removal is held, or is below one. */
  readonly isBelowHeld?: (scope: Scope) => boolean;
  /** Of a sync after which no removal is held: how those that were held ended. */
  readonly settled?: SettledRemovals | undefined;
  /** Of a sync: changes of the form of records that its run found. */
  readonly schemaChanges?: readonly SchemaChange[];
  /** Of a sync: names a scope, with the names that the mirror knows; if left out, by ids. */
  readonly placeText?: ((scope: Scope) => string) | undefined;
  /** Of drift: true for the state of a restored backup, which may be older than what was reported. */
  readonly isOfBackup?: boolean;
  /** Of drift: number of a restore that has not ended. */
  readonly unfinishedRestore?: number | undefined;
  /** Of drift: fingerprints of the findings that are accepted at that time. */
  readonly accepted?: ReadonlySet<string>;
  /** Of a sync: lists that an earlier one could not read, and that are gone with the record that they belonged to. */
  readonly gone?: GoneLists | null | undefined;
  /** Of a sync: when the last complete run before it ended, whoever made it, ISO 8601; null without one. */
  readonly completeAt?: string | null | undefined;
  /** ISO 8601. */
  readonly at: string;
}

/** New states, subjects without problems again, and what is to be reported. */
export interface Transition {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly Notice[];
}

export const NO_TRANSITION: Transition = { states: [], cleared: [], notices: [] };

/** The end of a problem: its state is cleared, and a notice of low severity reports it. */
export function ended(
  key: NoticeKey,
  content: Omit<Parameters<typeof namedNotice>[1], 'severity'>,
): Transition {
  const { source, subject } = key;
  return {
    states: [],
    cleared: [{ source, subject }],
    notices: [namedNotice(key, { ...content, severity: 'low' })],
  };
}

/** All these changes as one. */
export function joined(parts: readonly Transition[]): Transition {
  return {
    states: parts.flatMap(({ states }) => states),
    cleared: parts.flatMap(({ cleared }) => cleared),
    notices: parts.flatMap(({ notices }) => notices),
  };
}

/** The last reported state of a subject; undefined if it has no problem. */
export function stateOf(
  states: readonly NoticeState[],
  source: string,
  subject: string,
): NoticeState | undefined {
  // Stored states come before those that are only assumed.
  return states.find((state) => state.source === source && state.subject === subject);
}
