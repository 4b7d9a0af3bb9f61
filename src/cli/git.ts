/** `tidemark git`: commits the latest state of the mirror to the configured repositories. */
import { withheldBy } from '../backup/hook.ts';
import type { SourceConfig } from '../config/config.ts';
import type { GitConfig } from '../config/git.ts';
import { onlyMirrorConfig } from '../config/mirrors.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, EXIT, type ExitCode, TidemarkError } from '../core/errors.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { type CommitOutcome, commitState, gitOptions } from '../git/commit.ts';
import { countsText } from '../git/message.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printJson, printNote, printReason } from './context.ts';
import { errorDocument, errorLines } from './failure.ts';

type GitSource = SourceConfig & { readonly git: GitConfig };

/** The result for one source: its commit, or why there is none. */
interface Ended {
  readonly source: string;
  readonly outcome: CommitOutcome | null;
  readonly error: TidemarkError | null;
}

/** Exit 0 if every source is committed, or has nothing to commit; 1 if one could not be committed; 4 if none has a repository. */
export async function git(
  context: CommandContext,
  options: { readonly dryRun?: boolean },
): Promise<ExitCode> {
  const loaded = readLoadedConfig(context, context.options, 'unused');
  const sources = loaded.sources.filter((source): source is GitSource => source.git !== null);
  if (sources.length === 0)
    throw new TidemarkError('usage', 'no repository is configured', {
      hint: 'set git.directory of a source (docs/git.md)',
    });
  const config = onlyMirrorConfig({ ...loaded, sources });
  const isDryRun = options.dryRun === true;
  using mirror = openConfiguredMirror(config, 'read', 'git', context.pid);
  const withheld = withheldBy(config);
  const ended: Ended[] = [];
  for (const source of sources) {
    const base = { env: context.env, withheld, signal: context.signal };
    const given = { ...gitOptions(source.git, base), pid: context.pid, now: systemClock.now(), isDryRun };
    try {
      const outcome = await commitState(mirror, source, given);
      ended.push({ source: source.name, outcome, error: null });
    } catch (error) {
      context.signal.throwIfAborted();
      ended.push({ source: source.name, outcome: null, error: asTidemarkError(error) });
    }
  }
  if (context.options.json === true) {
    const sources = ended.map(documentOf);
    await printJson(context, { schema: 'tidemark.git/1', dry_run: isDryRun, sources });
  } else {
    const lines = ended.flatMap(({ outcome }) => (outcome === null ? [] : linesOf(outcome, isDryRun)));
    if (lines.length > 0) await print(context, `${lines.join('\n')}\n`);
  }
  for (const { source, outcome, error } of ended) {
    if (outcome !== null && outcome.foreign.length > 0)
      printNote(context, [
        `${source}: left alone, since Tidemark did not write it: ${outcome.foreign.join(', ')}`,
      ]);
    if (error !== null)
      printReason(context, errorLines({ message: `${source}: ${error.message}`, hint: error.hint }));
  }
  return ended.some(({ error }) => error !== null) ? EXIT.failed : EXIT.done;
}

function linesOf(
  { source, run, branch, commit, message, changes, isPushed }: CommitOutcome,
  isDryRun: boolean,
): string[] {
  if (message === null)
    return [`${source}: nothing to commit, run ${run} is on ${branch}${isPushed ? '; pushed' : ''}`];
  if (isDryRun)
    return [
      `${source}: would be committed to ${branch}:`,
      ...message.split('\n').map((line) => `  ${line}`.trimEnd()),
    ];
  const what = changes.length === 0 ? 'no records' : countsText(changes);
  return [
    escapeControlCharacters(
      `${source}: run ${run} committed to ${branch} as ${commit?.slice(0, 12) ?? ''}: ${what}${isPushed ? '; pushed' : ''}`,
    ),
  ];
}

function documentOf({ source, outcome, error }: Ended): object {
  return {
    source,
    run: outcome?.run ?? null,
    branch: outcome?.branch ?? null,
    commit: outcome?.commit ?? null,
    message: outcome?.message ?? null,
    changes: outcome?.changes.map(({ path, kind, name, change }) => ({ path, kind, name, change })) ?? [],
    pushed: outcome?.isPushed ?? false,
    foreign: outcome?.foreign ?? [],
    error: errorDocument(error),
  };
}
