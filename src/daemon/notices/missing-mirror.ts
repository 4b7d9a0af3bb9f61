/**
 * Notices that the mirror is gone, and that it is back. It cannot keep them itself: what was reported is known as long as the
 * daemon lives, and each channel is tried until it takes it.
 */
import type { ChannelConfig } from '../../config/channels.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { Notice } from '../../mirror/daemon.ts';
import { noticeOf } from './notice-content.ts';
import { subjectName } from './notice-content.ts';
import { channelsFor } from './job-notices.ts';

/** Between two attempts through a channel that failed. */
const RETRY_MS = 60_000;

interface Telling {
  readonly notice: Notice;
  /** Channels that took it. */
  readonly delivered: Set<string>;
  dueAt: number;
}

export class MissingMirrorAlert {
  readonly #clock: Clock;
  /** Of the state that was found last; null before the mirror was ever missed. */
  #telling: Telling | null = null;
  #isGone = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** When there is something to report, epoch milliseconds; null for nothing. */
  dueAt(isGone: boolean, channels: readonly ChannelConfig[]): number | null {
    if (isGone !== this.#isGone) return this.#clock.now();
    return this.#telling === null || this.#names(this.#telling, channels).length === 0
      ? null
      : this.#telling.dueAt;
  }

  /** What is to be tried now, and through which channels. */
  takeDue(
    isGone: boolean,
    channels: readonly ChannelConfig[],
    now: number,
  ): readonly { readonly notice: Notice; readonly names: readonly string[] }[] {
    if (isGone !== this.#isGone) {
      this.#isGone = isGone;
      this.#telling = { notice: isGone ? gone(now) : back(now), delivered: new Set(), dueAt: now };
    }
    const telling = this.#telling;
    if (telling === null || telling.dueAt > now) return [];
    telling.dueAt = now + RETRY_MS;
    const names = this.#names(telling, channels);
    return names.length === 0 ? [] : [{ notice: telling.notice, names }];
  }

  markNotified(names: readonly string[]): void {
    for (const name of names) this.#telling?.delivered.add(name);
  }

  #names({ notice, delivered }: Telling, channels: readonly ChannelConfig[]): string[] {
    return channelsFor(notice, channels).filter((name) => !delivered.has(name));
  }
}

function gone(now: number): Notice {
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' },
    {
      severity: 'critical',
      title: `${subjectName('')}: it is gone from its place`,
      lines: ['its file is gone: nothing is synced, and no new mirror is created automatically'],
      hint: 'put a copy in its place (`tidemark backup restore`), or restart the daemon to begin a new one, without history',
    },
  );
}

function back(now: number): Notice {
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_back' },
    { severity: 'low', title: `${subjectName('')}: it is in its place again` },
  );
}
