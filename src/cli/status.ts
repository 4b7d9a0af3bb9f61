/** `tidemark status`: how fresh and how whole the mirror is. Reads no record. */
import { systemClock } from '../core/clock.ts';
import { EXIT } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { print } from './context.ts';
import type { CommandContext } from './context.ts';
import { renderTable } from './table.ts';
import { age, count, plural, scopeText } from './wording.ts';

interface SourceStatus {
  readonly source: string;
  readonly lastRun: RunRow | null;
  readonly lastPublished: RunRow | null;
  readonly collections: readonly CollectionRow[];
}

/** Exit 0 when the latest run of every source was complete, 3 when something is not, 1 when nothing was ever mirrored. */
export async function status(context: CommandContext): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const mirror = openConfiguredMirror(config, 'read', 'status', context.pid);
  try {
    // Without a configured source, the mirror itself knows whose records it holds.
    const configured = config.sources.map(({ name }) => name);
    const names =
      configured.length > 0 ? configured : [...new Set(mirror.runs().map(({ source }) => source))];
    const sources = names.map((source) => sourceStatus(mirror, source));
    if (context.options.json === true) {
      await print(context, `${JSON.stringify(statusDocument(mirror.path, sources))}\n`);
    } else await print(context, sources.map((source) => renderSource(source, mirror.path)).join('\n'));
    return exitCode(sources);
  } finally {
    mirror.close();
  }
}

function sourceStatus(mirror: Mirror, source: string): SourceStatus {
  return {
    source,
    lastRun: mirror.runs({ source, limit: 1 })[0] ?? null,
    lastPublished: mirror.latestRun(source) ?? null,
    collections: mirror.collectionsOf(source).filter(({ retiredRun }) => retiredRun === null),
  };
}

function exitCode(sources: readonly SourceStatus[]): ExitCode {
  if (sources.every(({ lastPublished }) => lastPublished === null)) return EXIT.failed;
  return sources.every(
    ({ lastRun, collections }) => lastRun?.outcome === 'complete' && collections.every(isWhole),
  )
    ? EXIT.done
    : EXIT.partial;
}

function isWhole(collection: CollectionRow): boolean {
  return collection.lastOutcome === 'complete';
}

function statusDocument(mirror: string, sources: readonly SourceStatus[]): object {
  return {
    schema: 'tidemark.status/1',
    mirror,
    sources: sources.map(({ source, lastRun, lastPublished, collections }) => ({
      source,
      records: collections.reduce((sum, { records }) => sum + records, 0),
      last_run: lastRun === null ? null : runDocument(lastRun),
      last_published_run: lastPublished === null ? null : runDocument(lastPublished),
      collections: collections.map((collection) => ({
        kind: collection.kind,
        scope: collection.scope,
        records: collection.records,
        outcome: collection.lastOutcome,
        last_complete:
          collection.lastCompleteRun === null
            ? null
            : { run: collection.lastCompleteRun, at: collection.lastCompleteAt },
        last_full:
          collection.lastFullRun === null ? null : { run: collection.lastFullRun, at: collection.lastFullAt },
        error:
          collection.lastErrorCode === null
            ? null
            : { code: collection.lastErrorCode, message: collection.lastError },
      })),
    })),
  };
}

/** A run as JSON documents show it. */
export function runDocument(run: RunRow): object {
  return {
    run: run.run,
    source: run.source,
    trigger: run.trigger,
    outcome: run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    root: run.root,
    error: run.errorCode === null ? null : { code: run.errorCode, message: run.error },
  };
}

function renderSource({ source, lastRun, lastPublished, collections }: SourceStatus, path: string): string {
  const now = systemClock.now();
  const lines = [`source ${source}, mirror ${path}`];
  if (lastRun === null) return `${lines.join('\n')}\nnever synced: run \`tidemark sync\`\n`;
  lines.push(
    `last run: ${lastRun.run}, ${lastRun.outcome}, ${age(lastRun.finishedAt ?? lastRun.startedAt, now)}` +
      (lastRun.error === null ? '' : `: ${lastRun.error}`),
  );
  if (lastPublished !== null && lastPublished.run !== lastRun.run) {
    lines.push(
      `shown is run ${lastPublished.run}, ${lastPublished.outcome}, ${age(lastPublished.finishedAt, now)}`,
    );
  }
  const total = collections.reduce((sum, { records }) => sum + records, 0);
  lines.push(
    `${plural(total, 'record')} in ${plural(collections.length, 'collection')}`,
    '',
    kindRows(collections, now),
  );
  const troubled = collections.filter((collection) => !isWhole(collection));
  if (troubled.length > 0) {
    lines.push('', 'not whole:');
    for (const { kind, scope, lastOutcome, lastError, lastCompleteAt } of troubled) {
      const where = scopeText(scope);
      lines.push(
        `  ${kind}${where === '' ? '' : ` (${where})`}: ${lastOutcome ?? 'never read'}${lastError === null ? '' : `: ${lastError}`}; last whole ${age(lastCompleteAt, now)}`,
      );
    }
  }
  return `${lines.join('\n')}\n`;
}

function kindRows(collections: readonly CollectionRow[], now: number): string {
  const kinds = new Map<string, CollectionRow[]>();
  for (const collection of collections)
    kinds.set(collection.kind, [...(kinds.get(collection.kind) ?? []), collection]);
  return renderTable(
    ['kind', 'collections', 'records', 'oldest whole copy', 'state'],
    [...kinds].map(([kind, of]) => {
      const ages = of.map(({ lastCompleteAt }) => lastCompleteAt);
      const oldest = ages.includes(null) ? null : (ages.toSorted()[0] ?? null);
      const bad = of.filter((collection) => !isWhole(collection)).length;
      return [
        kind,
        count(of.length),
        count(of.reduce((sum, { records }) => sum + records, 0)),
        age(oldest, now),
        bad === 0 ? 'whole' : `${bad} not whole`,
      ];
    }),
    ['left', 'right', 'right', 'right', 'left'],
  );
}
