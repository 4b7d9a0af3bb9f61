/**
 * Reports of the mirror's file: once that it is gone, that another mirror is in its place, or that a mirror without the earlier
 * history was begun, and once that this is over.
 */
import { basename } from 'node:path';
import { backupToName } from '../../backup/known-backups.ts';
import { begunByMistake } from '../../backup/earlier.ts';
import { mirrorId } from '../../backup/plain-backup.ts';
import type { Config } from '../../config/config.ts';
import { namesOf, placeOf } from '../../config/mirrors.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { goneHint, LATEST_BACKUP } from '../../core/hints.ts';
import type { Logger } from '../../core/logger.ts';
import type { Notice, NoticeState } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { movedAway, MOVED_SUFFIX } from '../../mirror/open.ts';
import { isMirrorGone } from '../health/health-facts.ts';
import type { DaemonView } from '../view.ts';
import { noticeOf, subjectName } from './message.ts';
import { removedNotice } from './checked-transitions.ts';
import { isJustRestored } from './perhaps-open.ts';

interface MirrorPlaceOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Sends a notice that the mirror cannot store. */
  readonly send: (notice: Notice) => void;
}

const CONTINUED = 'it continues without its earlier history';
const RETURNED = 'it is back in its place, with its history';

/** Whether the mirror is in its place: `other` for another one after it was gone. */
type Presence = 'there' | 'gone' | 'other';

export class MirrorPlace {
  readonly #options: MirrorPlaceOptions;
  /** True while the last notice about the mirror's file says that it is gone. */
  #isReportedGone = false;
  /** True while the last notice about the mirror's file says that another mirror is in its place. */
  #isReportedOther = false;
  /** True while the last notice about the mirror says that it was begun without its history. */
  #isReportedAnew = false;
  #hasReported = false;
  /** The mirror that was in its place at the last job: another one there is not its return. */
  #known: { readonly path: string; readonly id: string } | null = null;
  /** `mirrorId` of the mirror with that history, since this was last said; null before. */
  #missed: string | null = null;

  constructor(options: MirrorPlaceOptions) {
    this.#options = options;
  }

  /** True where this process has reported something of the mirror's file. */
  get hasReported(): boolean {
    return this.#hasReported;
  }

  /** True while the last notice is not one of an end. */
  get isOpen(): boolean {
    return this.#isReportedGone || this.#isReportedAnew;
  }

  /** True while the last notice says that a mirror was begun without its history. */
  get isBegunAnew(): boolean {
    return this.#isReportedAnew;
  }

  /** To be called with the mirror in which the end of a job was recorded. */
  recorded(mirror: Mirror): void {
    if (!this.#isReportedGone) this.#known = { path: mirror.path, id: mirrorId(mirror) };
  }

  /**
   * True where another mirror than at the last job, or a backup of it, is in its place.
   * @param states what is reported, as the mirror has it
   */
  isReplaced(mirror: Mirror, states: readonly NoticeState[]): boolean {
    const known = this.#known;
    if (known === null) return false;
    const isOther = mirror.path === known.path && mirrorId(mirror) !== known.id;
    return isOther || isJustRestored(states);
  }

  /** True where `report` would send a notice. */
  isReportDue(view: DaemonView): boolean {
    return this.#presence(view) !== this.#reportedPresence();
  }

  /** Ends what was reported: the mirror is configured no longer. */
  retire(): void {
    const at = isoTime(this.#options.clock.now());
    if (this.isOpen) this.#options.send(removedNotice({ at, source: '', subject: 'mirror' }, at));
    [this.#isReportedGone, this.#isReportedOther, this.#isReportedAnew] = [false, false, false];
  }

  /** Reports once that the mirror's file is gone, once that another mirror is in its place, and once that it is back. */
  report(view: DaemonView): void {
    const presence = this.#presence(view);
    if (presence === this.#reportedPresence()) return;
    this.#isReportedGone = presence !== 'there';
    this.#isReportedOther = presence === 'other';
    this.#hasReported = true;
    const now = this.#options.clock.now();
    const config = view.config();
    if (presence === 'gone') this.#options.send(gone(now, config, this.backupToName(view)));
    else if (presence === 'other') this.#options.send(replaced(now, config, this.backupToName(view)));
    else {
      const isReturned = this.#isReportedAnew && this.#isMissed(view.mirror());
      // One end for both: the volume was away before this process began a new mirror, and again just now.
      if (isReturned) this.#isReportedAnew = false;
      const isKnown = this.#known === null || this.#isKnown(view.mirror());
      const what = isReturned ? RETURNED : isKnown ? undefined : CONTINUED;
      this.#options.send(back(now, config, what));
    }
  }

  /** Of the mirror that was in its place at the last job. */
  backupToName(view: DaemonView): string | null {
    const { backup } = view.config();
    if (backup === null) return LATEST_BACKUP;
    return backupToName(view.backups.remembered(backup.targets), this.#known?.id ?? null);
  }

  #reportedPresence(): Presence {
    if (!this.#isReportedGone) return 'there';
    return this.#isReportedOther ? 'other' : 'gone';
  }

  /**
   * After the mirror was gone, another one is not its return, unless a baseline in it says that a person continues with it.
   * One that cannot be read is taken for what was there before.
   */
  #presence(view: DaemonView): Presence {
    // Nothing new is reported when the other one is moved away.
    if (isMirrorGone(view)) return this.#isReportedGone ? this.#reportedPresence() : 'gone';
    if (!this.#isReportedGone || this.#known === null) return 'there';
    try {
      const mirror = view.mirror();
      return this.#isKnown(mirror) || mirror.snapshots.baseline() !== undefined ? 'there' : 'other';
    } catch {
      // The jobs report why it cannot be read.
      return this.#reportedPresence();
    }
  }

  /** True for the mirror that was in its place at the last job or was missed then, and if none is known. */
  #isKnown(mirror: Mirror): boolean {
    const known = this.#known;
    if (known === null || mirror.path !== known.path) return true;
    return mirrorId(mirror) === known.id || this.#isMissed(mirror);
  }

  /** True for the mirror without whose history a new one was begun. */
  #isMissed(mirror: Mirror): boolean {
    return mirrorId(mirror) === this.#missed;
  }

  /** Reports once that the mirror may have been begun by mistake, and once that this is settled. Returns whether it reported. */
  reportBegunAnew(view: DaemonView): boolean {
    const config = view.config();
    // What is in the place of a mirror that is gone was reported with that.
    if (config.backup === null || this.#isReportedGone) return false;
    const { targets } = config.backup;
    // Those that are known are read again where something else needs them, which is after each backup.
    if (this.#isReportedAnew || view.backups.remembered(targets).length < targets.length)
      view.backups.known(targets, view.mirror());
    const known = view.backups.remembered(targets);
    const problem = begunByMistake(config, known, view.mirror());
    if ((problem !== null) === this.#isReportedAnew) return false;
    const isSettled = view.mirror().snapshots.baseline() !== undefined;
    // A target that has not answered yet does not say that nothing is there.
    if (problem === null && !isSettled && known.length < targets.length) return false;
    this.#isReportedAnew = problem !== null;
    this.#hasReported = true;
    const now = this.#options.clock.now();
    if (problem === null) {
      const settled = isSettled ? CONTINUED : undefined;
      this.#options.send(back(now, config, this.#isMissed(view.mirror()) ? RETURNED : settled));
      return true;
    }
    const { message, hint } = problem;
    this.#missed = problem.missed;
    this.#options.log.warn({ hint }, message);
    const of = { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' } as const;
    const title = `${subjectName('')}: a new mirror without the history of the earlier one`;
    this.#options.send(noticeOf(of, { severity: 'critical', title, lines: [message], hint }));
    return true;
  }
}

function gone(now: number, config: Config, backup: string | null): Notice {
  const { mirror, sources } = config;
  const moved = movedAway(mirror);
  const what = moved === null ? 'is gone' : `was moved (${basename(mirror)}${MOVED_SUFFIX} is beside it)`;
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' },
    {
      severity: 'critical',
      title: `${subjectName('')}: it is gone from its place`,
      lines: [
        `${mirror} (${namesOf(sources.map(({ name }) => name))}) ${what}: nothing is synced, and no new mirror is created automatically`,
      ],
      hint: moved?.hint ?? goneHint(placeOf(config), backup),
    },
  );
}

function replaced(now: number, config: Config, backup: string | null): Notice {
  const { mirror, sources } = config;
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' },
    {
      severity: 'critical',
      title: `${subjectName('')}: another mirror is in its place`,
      lines: [
        `${mirror} (${namesOf(sources.map(({ name }) => name))}) is another mirror than the one that is gone, and does not have its history`,
      ],
      hint: `move the new mirror away, then ${goneHint(placeOf(config), backup)}. To continue with the new one, pin a baseline (\`tidemark snapshots pin NAME --baseline\`)`,
    },
  );
}

function back(now: number, { mirror, sources }: Config, what = 'it is in its place again'): Notice {
  return noticeOf(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_back' },
    {
      severity: 'low',
      title: `${subjectName('')}: ${what}`,
      lines: [`${mirror} (${namesOf(sources.map(({ name }) => name))}): syncs, checks and backups continue`],
    },
  );
}
