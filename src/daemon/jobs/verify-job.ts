/** A verification of the mirror, as `tidemark verify` does it. */
import { EXIT, TidemarkError } from '../../core/errors.ts';
import { verifyMirror } from '../../mirror/mirror.ts';
import type { VerifySummary } from './summaries.ts';
import { NAMED_PROBLEMS, storedSummary } from './summaries.ts';
import { problemLine, withMaskedId } from './verify-problems.ts';
import type { JobWork } from './work.ts';

export const VERIFY_JOB: Pick<JobWork, 'run'> = {
  run: async ({ config, mirror, effects, signal }) => {
    const startedMs = effects.clock.monotonicMs();
    const { checked, problems } = await verifyMirror(mirror, { onProgress: () => signal.throwIfAborted() });
    signal.throwIfAborted();
    const summary: VerifySummary = {
      job: 'verify',
      ...checked,
      problems: problems.length,
      found: problems.slice(0, NAMED_PROBLEMS).map((problem) => problemLine(withMaskedId(problem, config))),
      root: mirror.runs().find(({ root }) => root !== null)?.root ?? null,
      durationMs: Math.round(effects.clock.monotonicMs() - startedMs),
    };
    const isSound = problems.length === 0;
    return {
      outcome: isSound ? 'done' : 'failed',
      exitCode: isSound ? EXIT.done : EXIT.failed,
      run: null,
      summary: storedSummary(summary),
      error: isSound
        ? null
        : new TidemarkError(
            'mirror_corrupt',
            `the mirror does not hold what it sealed: ${summary.found[0] ?? ''}`,
            {
              hint: 'run `tidemark verify`, then restore the mirror from a copy',
            },
          ),
      report: null,
    };
  },
};
