/** How a verification of the mirror is written down, whoever made it: the daemon or the command line. */
import type { Config } from '../../config/config.ts';
import { EXIT, TidemarkError } from '../../core/errors.ts';
import type { Mirror, verifyMirror } from '../../mirror/mirror.ts';
import { type VerifySummary, NAMED_PROBLEMS, storedSummary } from './summaries.ts';
import { problemLine, withMaskedId } from './verify-problems.ts';
import type { JobResult } from './work.ts';

type Verified = Awaited<ReturnType<typeof verifyMirror>>;

/** @param durationMs how long it took */
export function verifyResult(
  { checked, problems }: Verified,
  config: Config,
  mirror: Pick<Mirror, 'runs'>,
  durationMs: number,
): JobResult {
  const summary: VerifySummary = {
    job: 'verify',
    ...checked,
    problems: problems.length,
    found: problems.slice(0, NAMED_PROBLEMS).map((problem) => problemLine(withMaskedId(problem, config))),
    root: mirror.runs().find(({ root }) => root !== null)?.root ?? null,
    durationMs: Math.round(durationMs),
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
          { hint: 'run `tidemark verify`, then restore the mirror from a copy' },
        ),
    report: null,
  };
}
