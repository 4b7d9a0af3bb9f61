/** What the parts that answer questions see of the living daemon. */
import { type Clock, isoTime } from '../core/clock.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';
import { BackupCatalog } from './copies/copy-shelf.ts';
import { requestJobs } from './job-request.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork } from './jobs/work.ts';
import type { MirrorAccessControl } from './mirror-access.ts';
import type { Timetable } from './schedule/timetable.ts';
import type { Settings } from './settings.ts';
import type { ActiveProblems } from './problems.ts';
import type { DaemonView } from './view.ts';

interface DaemonParts {
  readonly clock: Clock;
  readonly settings: Settings;
  readonly keeper: MirrorAccessControl;
  readonly timetable: Timetable;
  readonly runner: JobRunner;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly troubles: ActiveProblems;
}

export function createView(parts: DaemonParts): DaemonView {
  const { clock, settings, keeper, timetable, runner, works, troubles } = parts;
  return {
    startedAt: isoTime(clock.now()),
    config: () => settings.current(),
    configTrouble: () => settings.trouble(),
    mirror: () => keeper.reader(),
    copies: new BackupCatalog(clock),
    schedules: () => timetable.views(),
    running: () => runner.running(),
    queued: () => runner.queued().map(({ name, source, trigger }) => ({ name, source, trigger })),
    figures: () => runner.figures.all(),
    troubles: () => troubles.all(),
    request: (name, sources, how = {}) => {
      const configured = settings.current().sources.map((source) => source.name);
      return requestJobs(runner, works.get(name), configured, { name, sources, how });
    },
    requested: (request) => runner.standing(request),
  };
}
