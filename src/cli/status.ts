/** `tidemark status`: how fresh and how whole the mirror is. Reads no record. */
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { recentSchemaChanges } from '../state/recent-schema-changes.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { groupAlike, groupText } from './collection-groups.ts';
import { print, tellReason, type CommandContext } from './context.ts';
import { isWhole, sourceStatus, type SourceStatus } from './source-status.ts';
import { statusDocument } from './status-document.ts';
import { renderStatus } from './status-text.ts';

/**
 * Exit 0 when the copy of every configured source is whole, 3 when something is not, 1 when nothing was ever published.
 * A source that is no longer configured is shown and does not count.
 */
export async function status(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
  try {
    const now = systemClock.now();
    const configured = config.sources.map(({ name }) => name);
    const mirrored = mirror.sources();
    // Without a configured source, the mirror itself knows whose records it holds.
    const asked = configured.length > 0 ? configured : mirrored;
    const others =
      context.options.source === undefined ? mirrored.filter((name) => !asked.includes(name)) : [];
    const statusOf = (source: string, isConfigured: boolean): SourceStatus => ({
      ...sourceStatus(mirror, source, { isConfigured, now }),
      schemaChanges: recentSchemaChanges(mirror, source, now),
    });
    const sources = [
      ...asked.map((source) => statusOf(source, true)),
      ...others.map((source) => statusOf(source, false)),
    ];
    if (context.options.json === true) {
      await print(context, `${JSON.stringify(statusDocument(mirror.path, sources))}\n`);
    } else {
      const hasOthers = sources.length > 1;
      const text = sources.map((source) => renderStatus(source, { mirror: mirror.path, now, hasOthers }));
      await print(context, sources.length === 0 ? `${EMPTY}\n` : text.join('\n'));
    }
    const own = sources.filter(({ isConfigured }) => isConfigured);
    const code = exitCode(own);
    if (code !== EXIT.done) tellReason(context, own.length === 0 ? [EMPTY] : own.flatMap(statusReason));
    return code;
  } finally {
    mirror.close();
  }
}

const EMPTY = 'no run yet, and no source is configured: set one up and run `tidemark sync`';

/** Why the copy of a source is not whole, for stderr; nothing where it is. */
function statusReason({
  source,
  state,
  lastEnded,
  lastWholeEnded,
  collections,
  held,
}: SourceStatus): string[] {
  if (state === 'whole') return [];
  const sync = `  → run \`tidemark sync --source ${source}\``;
  if (state === 'never_synced') return [`${source} was never synced`, sync];
  if (state === 'unpublished') return [`no run of ${source} was published yet`, sync];
  const run = [lastEnded, lastWholeEnded].find((each) => each !== null && each.outcome !== 'complete');
  const unread = groupAlike(
    collections.filter((collection) => !isWhole(collection)),
    ({ kind, lastOutcome }) => `${kind} ${lastOutcome ?? ''}`,
  );
  return [
    `the copy of ${source} is not whole`,
    ...(run === undefined || run === null
      ? []
      : [`  run ${run.run} ended as ${run.outcome}${run.error === null ? '' : `: ${run.error}`}`]),
    ...unread.map((group) => `  ${groupText(group)}: ${group[0].lastOutcome ?? 'not read yet'}`),
    ...(held.length === 0 ? [] : [`  removals are held in ${plural(held.length, 'collection')}`]),
    `${sync}; \`tidemark doctor --source ${source}\` tells what the key reaches`,
  ];
}

function exitCode(sources: readonly SourceStatus[]): ExitCode {
  if (sources.every(({ lastPublished }) => lastPublished === null)) return EXIT.failed;
  return sources.every(({ state }) => state === 'whole') ? EXIT.done : EXIT.partial;
}
