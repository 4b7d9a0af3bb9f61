/** What the parts that answer questions see of the living daemon. */
import type { JobName } from '../mirror/daemon-state.ts';
import { requestJobs } from './job-request.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork } from './jobs/work.ts';
import type { MirrorKeeper } from './mirror-keeper.ts';
import type { Timetable } from './schedule/timetable.ts';
import type { Settings } from './settings.ts';
import type { Troubles } from './troubles.ts';
import type { DaemonView } from './view.ts';

export interface DaemonParts {
  /** ISO 8601. */
  readonly startedAt: string;
  readonly settings: Settings;
  readonly keeper: MirrorKeeper;
  readonly timetable: Timetable;
  readonly runner: JobRunner;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly troubles: Troubles;
}

export function createView(parts: DaemonParts): DaemonView {
  const { startedAt, settings, keeper, timetable, runner, works, troubles } = parts;
  return {
    startedAt,
    config: () => settings.current(),
    configTrouble: () => settings.trouble(),
    mirror: () => keeper.reader(),
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
