/** What is wrong with the daemon as a whole. Pure. */
import { plural } from '../../core/wording.ts';
import type { EndedJob, HealthFacts } from './health-input.ts';
import type { HealthCode, HealthReason } from './health-reason.ts';
import { percent } from './wording.ts';

export function daemonReasons(facts: HealthFacts): HealthReason[] {
  const { mirrorTrouble, configTrouble, troubles, verify, drills, failedJobs, silentChannels } = facts;
  const degraded = (
    code: HealthCode,
    message: string,
    since: string | null,
    hint: string | null,
  ): HealthReason => ({ code, state: 'degraded', message, since, hint });
  const endOf = (job: EndedJob): string => job.finishedAt ?? job.startedAt;
  return [
    ...(mirrorTrouble === null ? [] : [mirrorReason(mirrorTrouble)]),
    ...troubles.map(({ message, hint, since }) => degraded('daemon_trouble', message, since, hint)),
    ...(configTrouble === null
      ? []
      : [
          degraded(
            'config_trouble',
            `the new configuration was refused, the old one stays in force: ${configTrouble}`,
            null,
            '`tidemark config check` lists all mistakes',
          ),
        ]),
    ...(verify === null || verify.problems === 0
      ? []
      : [
          degraded(
            'verify_failed',
            `the last check of the mirror found ${plural(verify.problems, 'problem')}`,
            endOf(verify),
            '`tidemark verify` names them; `tidemark copies` has earlier copies',
          ),
        ]),
    ...drills.flatMap((drill) =>
      drill.score !== null && drill.scoreBefore !== null && drill.score < drill.scoreBefore
        ? [
            degraded(
              'drill_fell',
              `the last drill${of(drill.source)} would restore ${percent(drill.score)}, the one before ${percent(drill.scoreBefore)}`,
              endOf(drill),
              '`tidemark drill` lists what would not come back',
            ),
          ]
        : [],
    ),
    ...failedJobs.map((job) =>
      degraded(
        'job_failed',
        `the last ${job.name}${of(job.source)} ${job.outcome === 'interrupted' ? 'was interrupted' : 'failed'}${job.error === null ? '' : `: ${job.error}`}`,
        endOf(job),
        `\`tidemark ${job.name === 'copy' ? 'copies list' : job.name}\``,
      ),
    ),
    ...silentChannels.map(({ channel, owed, since, error }) =>
      degraded(
        'notices_undelivered',
        `${plural(owed, 'notice')} could not be delivered through ${channel}${error === null ? '' : `: ${error}`}`,
        since,
        `\`tidemark notify test\` tries the channels`,
      ),
    ),
  ];
}

function mirrorReason({ message, hint, isComing }: NonNullable<HealthFacts['mirrorTrouble']>): HealthReason {
  if (isComing) {
    return {
      code: 'first_sync',
      state: 'degraded',
      message: 'the first sync is about to make the mirror',
      since: null,
      hint: null,
    };
  }
  return {
    code: 'mirror_unreadable',
    state: 'failing',
    message: `the mirror cannot be read: ${message}`,
    since: null,
    hint,
  };
}

function of(source: string | null): string {
  return source === null ? '' : ` of ${source}`;
}
