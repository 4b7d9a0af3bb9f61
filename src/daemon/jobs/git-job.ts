/** Commits a source's records to its repository, as `tidemark git` does. */
import { withheldBy } from '../../backup/hook.ts';
import { commitState, type CommitOutcome, gitOptions } from '../../git/commit.ts';
import type { GitSummary } from './summaries.ts';
import { jobResult, type JobWork, sourceOf } from './work.ts';

/** The job. Without a repository it does nothing. */
export const GIT_JOB: Pick<JobWork, 'run'> = {
  run: async (context) => {
    const { config, mirror, effects, log, signal } = context;
    const source = sourceOf(context);
    const { git } = source;
    let outcome: CommitOutcome | null = null;
    if (git !== null) {
      outcome = await commitState(
        mirror,
        { ...source, git },
        {
          ...gitOptions(git, { env: effects.env, withheld: withheldBy(config), signal }),
          pid: effects.pid,
          now: effects.clock.now(),
          isDryRun: false,
        },
      );
      const { commit, branch, isPushed, foreign } = outcome;
      if (commit !== null)
        log.info({ source: source.name, commit, branch, isPushed }, 'the state was committed');
      if (foreign.length > 0)
        log.warn(
          { source: source.name, files: foreign.slice(0, 10) },
          'files that are not Tidemark’s are left alone',
        );
    }
    return jobResult('done', summaryOf(outcome), { run: outcome?.run ?? null });
  },
};

function summaryOf(outcome: CommitOutcome | null): GitSummary {
  const number = (change: string): number =>
    outcome?.changes.filter((each) => each.change === change).length ?? 0;
  return {
    job: 'git',
    run: outcome?.run ?? null,
    commit: outcome?.commit ?? null,
    branch: outcome?.branch ?? null,
    isPushed: outcome?.isPushed ?? false,
    added: number('added'),
    changed: number('changed'),
    removed: number('removed') + number('left_out'),
  };
}
