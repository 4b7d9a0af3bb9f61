/** Reports once that the mirror's file is gone, that another mirror is in its place, or that one was begun without the history; and the end. */
import { basename } from 'node:path';
import { backupToName } from '../../backup/known-backups.ts';
import { begunByMistake } from '../../backup/earlier.ts';
import { mirrorId } from '../../backup/plain-backup.ts';
import type { Config } from '../../config/config.ts';
import { namesOf, placeOf } from '../../config/mirrors.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { goneHint, LATEST_BACKUP } from '../../core/hints.ts';
import type { Logger } from '../../core/logger.ts';
import type { Notice, NoticeState } from '../../mirror/notice-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { movedAway, MOVED_SUFFIX } from '../../mirror/open.ts';
import { isMirrorGone } from '../health/health-facts.ts';
import type { DaemonView } from '../view.ts';
import { namedNotice } from './message.ts';
import { removedNotice } from './checked-transitions.ts';
import { isJustRestored } from './perhaps-open.ts';

interface MirrorFileWatchOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Sends a notice that the mirror cannot store. */
  readonly send: (notice: Notice) => void;
}

const CONTINUED = 'it continues without its earlier history';
const RETURNED = 'it is back in its place, with its history';

/** Whether the mirror is in its place: `other` for another one after it was gone. */
type Presence = 'there' | 'gone' | 'other';

export class MirrorFileWatch {
  readonly #options: MirrorFileWatchOptions;
  /** As the last notice about the file has it. */
  #reported: Presence = 'there';
  /** True while the last notice says that a mirror was begun without its history. */
  #isReportedAsNew = false;
  #hasReported = false;
  /** The mirror that was in its place at the last job: another one there is not its return. */
  #known: { readonly path: string; readonly id: string } | null = null;
  /** `mirrorId` of the mirror with the history that a new one lacks, as last reported; null before. */
  #missed: string | null = null;

  constructor(options: MirrorFileWatchOptions) {
    this.#options = options;
  }

  /** True if this process has reported anything about the mirror's file. */
  get hasReported(): boolean {
    return this.#hasReported;
  }

  /** True while a problem is reported that is not over. */
  get isOpen(): boolean {
    return this.#reported !== 'there' || this.#isReportedAsNew;
  }

  /** True while the last notice says that a mirror was begun without its history. */
  get isBegunWithoutHistory(): boolean {
    return this.#isReportedAsNew;
  }

  /** To be called with the mirror in which the end of a job was recorded. */
  recorded(mirror: Mirror): void {
    if (this.#reported === 'there') this.#known = { path: mirror.path, id: mirrorId(mirror) };
  }

  /**
   * True if the mirror of the last job was replaced by another one, or by its backup.
   * @param states as the mirror has them
   */
  isReplaced(mirror: Mirror, states: readonly NoticeState[]): boolean {
    const known = this.#known;
    if (known === null) return false;
    const isOther = mirror.path === known.path && mirrorId(mirror) !== known.id;
    return isOther || isJustRestored(states);
  }

  /** True if `report` would send a notice. */
  isReportDue(view: DaemonView): boolean {
    return this.#presence(view) !== this.#reported;
  }

  /** Ends the reported problem: the mirror is no longer configured. */
  retire(): void {
    const at = isoTime(this.#options.clock.now());
    if (this.isOpen) this.#options.send(removedNotice({ at, source: '', subject: 'mirror' }, at));
    [this.#reported, this.#isReportedAsNew] = ['there', false];
  }

  /** Reports once that the mirror's file is gone, once that another mirror is in its place, and once that it is back. */
  report(view: DaemonView): void {
    const presence = this.#presence(view);
    if (presence === this.#reported) return;
    this.#reported = presence;
    this.#hasReported = true;
    const now = this.#options.clock.now();
    const config = view.config();
    if (presence === 'gone') this.#options.send(gone(now, config, this.backupToName(view)));
    else if (presence === 'other') this.#options.send(replaced(now, config, this.backupToName(view)));
    else {
      const isReturned = this.#isReportedAsNew && this.#isMissed(view.mirror());
      // One end for both problems: the volume was away before this process began a new mirror, and again just now.
      if (isReturned) this.#isReportedAsNew = false;
      const isKnown = this.#known === null || this.#isKnown(view.mirror());
      const what = isReturned ? RETURNED : isKnown ? undefined : CONTINUED;
      this.#options.send(back(now, config, what));
    }
  }

  /** The backup that a hint names: of the mirror that was in its place at the last job. */
  backupToName(view: DaemonView): string | null {
    const { backup } = view.config();
    if (backup === null) return LATEST_BACKUP;
    return backupToName(view.backups.remembered(backup.targets), this.#known?.id ?? null);
  }

  /**
   * After the mirror was gone, another one is not its return, unless it has a baseline: then a person continues with it. If it cannot be
   * read, nothing changes.
   */
  #presence(view: DaemonView): Presence {
    // Nothing new is reported if the other mirror is moved away.
    if (isMirrorGone(view)) return this.#reported === 'there' ? 'gone' : this.#reported;
    if (this.#reported === 'there' || this.#known === null) return 'there';
    try {
      const mirror = view.mirror();
      return this.#isKnown(mirror) || mirror.snapshots.baseline() !== undefined ? 'there' : 'other';
    } catch {
      // The jobs report why it cannot be read.
      return this.#reported;
    }
  }

  /** True for the mirror of the last job, or the one that was missed then; also if none is known. */
  #isKnown(mirror: Mirror): boolean {
    const known = this.#known;
    if (known === null || mirror.path !== known.path) return true;
    return mirrorId(mirror) === known.id || this.#isMissed(mirror);
  }

  /** True for the mirror whose history a new one lacks. */
  #isMissed(mirror: Mirror): boolean {
    return mirrorId(mirror) === this.#missed;
  }

  /** Reports once that the mirror may have been begun by mistake, and once that this is settled. Returns whether it reported. */
  reportBegunWithoutHistory(view: DaemonView): boolean {
    const config = view.config();
    // Of a mirror that is gone, `report` has reported what is in its place.
    if (config.backup === null || this.#reported !== 'there') return false;
    const { targets } = config.backup;
    // Targets that are known are read again after each backup.
    if (this.#isReportedAsNew || view.backups.remembered(targets).length < targets.length)
      view.backups.known(targets, view.mirror());
    const known = view.backups.remembered(targets);
    const problem = begunByMistake(config, known, view.mirror());
    if ((problem !== null) === this.#isReportedAsNew) return false;
    const isSettled = view.mirror().snapshots.baseline() !== undefined;
    // A target that has not answered yet may hold backups of an earlier mirror.
    if (problem === null && !isSettled && known.length < targets.length) return false;
    this.#isReportedAsNew = problem !== null;
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
    const title = 'a new mirror without the history of the earlier one';
    this.#options.send(goneNotice(now, title, message, hint));
    return true;
  }
}

function goneNotice(now: number, title: string, line: string, hint: string): Notice {
  return namedNotice(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_gone' },
    { severity: 'critical', title, lines: [line], hint },
  );
}

/** The path of the mirror, and its sources. */
function mirrorText({ mirror, sources }: Config): string {
  return `${mirror} (${namesOf(sources.map(({ name }) => name))})`;
}

function gone(now: number, config: Config, backup: string | null): Notice {
  const { mirror } = config;
  const moved = movedAway(mirror);
  const what = moved === null ? 'is gone' : `was moved (${basename(mirror)}${MOVED_SUFFIX} is beside it)`;
  return goneNotice(
    now,
    'it is gone from its place',
    `${mirrorText(config)} ${what}: nothing is synced, and no new mirror is created automatically`,
    moved?.hint ?? goneHint(placeOf(config), backup),
  );
}

function replaced(now: number, config: Config, backup: string | null): Notice {
  return goneNotice(
    now,
    'another mirror is in its place',
    `${mirrorText(config)} is another mirror than the one that is gone, and does not have its history`,
    `move the new mirror away, then ${goneHint(placeOf(config), backup)}. To continue with the new one, pin a baseline (\`tidemark snapshots pin NAME --baseline\`)`,
  );
}

function back(now: number, config: Config, title = 'it is in its place again'): Notice {
  const lines = [`${mirrorText(config)}: syncs, checks and backups continue`];
  return namedNotice(
    { at: isoTime(now), source: '', subject: 'mirror', event: 'mirror_back' },
    { severity: 'low', title, lines },
  );
}
