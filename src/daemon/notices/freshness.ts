/** Transitions of time alone. Subject `fresh`: `overdue` while no sync was complete for longer than the schedule allows. */
import type { NoticeState } from '../../mirror/daemon-notices.ts';
import { noticeOf } from './notice-content.ts';
import { span, subjectName } from './notice-words.ts';
import { type Transition, NO_TRANSITION, stateOf } from './job-observation.ts';

export interface Freshness {
  readonly source: string;
  /** When its last complete run ended, ISO 8601; null where there never was one. */
  readonly completeAt: string | null;
  /** From when on one can be expected: when the daemon first had the source. */
  readonly expectedSince: string;
  /** The longest that a complete run may lie back, milliseconds. */
  readonly allowedMs: number;
}

export function freshnessTransition(
  states: readonly NoticeState[],
  { source, completeAt, expectedSince, allowedMs }: Freshness,
  nowMs: number,
): Transition {
  const before = stateOf(states, source, 'fresh');
  const oldMs = nowMs - Date.parse(completeAt ?? expectedSince);
  const isOverdue = oldMs > allowedMs;
  if (isOverdue === (before !== undefined)) return NO_TRANSITION;
  const at = new Date(nowMs).toISOString();
  const of = { at, source, subject: 'fresh' };
  const name = subjectName(source);
  if (!isOverdue) {
    const onTime = noticeOf(
      { ...of, event: 'sync_on_time' },
      { severity: 'low', title: `${name}: a sync was complete again`, job: 'sync' },
    );
    return { states: [], cleared: [{ source, subject: 'fresh' }], notices: [onTime] };
  }
  const overdue = noticeOf(
    { ...of, event: 'sync_overdue' },
    {
      severity: 'high',
      title: `${name}: no complete sync ${completeAt === null ? 'yet' : `for ${span(oldMs)}`}`,
      lines: [
        completeAt === null ? `expected since ${expectedSince}` : `the last one ended at ${completeAt}`,
        `the schedule allows ${span(allowedMs)}`,
      ],
      job: 'sync',
      hint: `\`tidemark status --source ${source}\` tells what is stale and why`,
    },
  );
  return {
    states: [{ source, subject: 'fresh', state: 'overdue', since: at, detail: {} }],
    cleared: [],
    notices: [overdue],
  };
}
