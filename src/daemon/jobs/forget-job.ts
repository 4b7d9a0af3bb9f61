/** Retention, as `tidemark forget` does it, by the rules of the configuration. */
import { EXIT } from '../../core/errors.ts';
import { contentComparison } from '../../sync/content.ts';
import { type ForgetSummary, storedSummary } from './summaries.ts';
import type { JobWork } from './work.ts';

export const FORGET_JOB: Pick<JobWork, 'run'> = {
  run: async ({ job, config, mirror }) => {
    // Asked for by hand where nothing is configured: nothing is forgotten.
    const policy = config.retention;
    const sources = config.schedules.forget?.sources;
    const isEverySource = sources === undefined || sources.length === config.configured.length;
    const result =
      policy === null || Object.keys(policy).length === 0
        ? null
        : await mirror.retention.forget({
            policy,
            isEqual: contentComparison(config),
            ...(isEverySource || job.schedule === null ? {} : { sources }),
          });
    const summary: ForgetSummary = {
      job: 'forget',
      kept: result?.kept.length ?? 0,
      forgotten: result?.forgotten.length ?? 0,
      revisions: result?.done?.revisions ?? 0,
      bytesBefore: result?.bytesBefore ?? 0,
      bytesAfter: result?.bytesAfter ?? 0,
      cleanupError: result?.cleanupError?.message ?? null,
    };
    const cleanupError = result?.cleanupError ?? null;
    return {
      outcome: cleanupError === null ? 'done' : 'partial',
      exitCode: cleanupError === null ? EXIT.done : EXIT.partial,
      run: null,
      summary: storedSummary(summary),
      error: cleanupError,
      report: null,
    };
  },
};
