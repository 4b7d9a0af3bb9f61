/** The documents of a run and of the changes in a period, with the contents of `tidemark runs show` and `tidemark changes`. */
import { type Clock, isoTime } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { acceptedDocument } from '../../report/audit-report.ts';
import { unreadDocument } from '../../report/unread-notes.ts';
import { restoresDocument, runDocument } from '../../state/documents.ts';
import { alteredAuthors, alteredRun, deletedRunsNote } from '../../state/intact.ts';
import { firstReadsIn, leftOutAsNew, readNewlyReadRecords } from '../../state/newly-read.ts';
import { isWithin, restoresWithin } from '../../state/period.ts';
import { forgottenInto } from '../../state/runs.ts';
import { leftOutOfRun } from '../../state/unasked.ts';
import { unreadOfSources } from '../../state/unread-in-period.ts';
import type { DaemonView } from '../view.ts';
import { type ChangesCache, changesOf, findChanges } from './changes.ts';
import { progressOf, sweepDocument } from './documents.ts';
import { kindsIn, numberIn, periodIn, sourcesIn } from './request.ts';

const MOST_CHANGES = 5_000;
const USUAL_PERIOD_MS = 7 * 24 * 60 * 60 * 1000;

/** The configured sources, and those of which only the mirror has records. */
export function knownSources(view: DaemonView, mirror: Mirror): string[] {
  return [...new Set([...view.config().sources.map(({ name }) => name), ...mirror.runs.sources()])];
}

/** `tidemark.run/1`. */
export async function runShown(view: DaemonView, mirror: Mirror, run: RunRow): Promise<object> {
  const changes = await changesOf(mirror, view.config(), run, { kinds: null, limit: MOST_CHANGES });
  const warnings = alteredRun(mirror, run.run);
  const { collections, looks } = readNewlyReadRecords(mirror, [run.run], null);
  return {
    schema: 'tidemark.run/1',
    ...runDocument(run, progressOf(view, run.source)),
    is_altered: warnings.length > 0,
    warnings,
    sweeps: mirror.runs.sweeps(run.run).map(sweepDocument),
    schema_changes: mirror.runs.schemaChanges({ run: run.run, source: run.source }),
    previous: changes?.previous ?? null,
    forgotten: forgottenInto(mirror, run.run) ?? null,
    accepted_removals: acceptedDocument(mirror.acceptedRemovals(run.run)),
    summary: changes?.summary ?? null,
    changes: changes?.changes ?? null,
    left_out: leftOutAsNew([...collections, ...looks]),
    first_read: firstReadsIn(collections, run),
    is_cut: changes?.isMore ?? false,
  };
}

/** `tidemark.changes/1`, of the period, kinds and sources of the query. */
export async function changesShown(
  { view, changes: memory }: { readonly view: DaemonView; readonly changes: ChangesCache },
  clock: Clock,
  query: URLSearchParams,
): Promise<object> {
  const mirror = view.mirror();
  const now = clock.now();
  const kinds = kindsIn(query, 'kind');
  const sources = sourcesIn(query, knownSources(view, mirror));
  const period = periodIn(mirror, query, { usual: isoTime(now - USUAL_PERIOD_MS), sources, now });
  const {
    runs: found,
    isCut,
    countAll,
  } = await findChanges(
    mirror,
    view.config(),
    {
      period,
      sources,
      kinds,
      limit: numberIn(query, 'limit', 500, MOST_CHANGES),
      hasQuiet: true,
    },
    memory,
  );
  const numbers = found.map(({ run }) => run.run);
  const { collections, looks } = readNewlyReadRecords(mirror, numbers, kinds);
  const newlyRead = new Set([...collections, ...looks].map(({ run }) => run));
  const runs = found.filter(({ run, changes }) => changes?.length !== 0 || newlyRead.has(run.run));
  const leftOut = ({ source, run }: RunRow): object[] => {
    const configured = view.config().sources.find(({ name }) => name === source);
    const filter = kinds === null ? {} : { kinds };
    return [
      ...leftOutAsNew(firstReadsIn([...collections, ...looks], { run })),
      ...leftOutOfRun(mirror, configured, { source, run, filter }),
    ];
  };
  return {
    schema: 'tidemark.changes/1',
    since: period.since.at,
    until: period.until.at,
    is_cut: isCut,
    summary: await countAll(),
    runs: runs.map(({ run, previous, changes, summary, forgotten }) => ({
      run: run.run,
      source: run.source,
      at: run.finishedAt ?? run.startedAt,
      previous,
      forgotten,
      summary: previous === null ? null : summary,
      left_out: leftOut(run),
      first_read: firstReadsIn(collections, run),
      changes,
    })),
    restores: restoresDocument(restoresWithin(mirror, { period, sources })),
    ...unreadDocument(
      unreadOfSources(mirror, view.config(), {
        sources,
        filter: kinds === null ? {} : { kinds },
        period,
        isWithin: ({ run, finishedAt, startedAt }) => isWithin(period, finishedAt ?? startedAt, run),
      }),
    ),
    warnings: [
      ...deletedRunsNote(mirror),
      ...alteredAuthors(
        mirror,
        runs.map(({ run }) => run.run),
      ),
    ],
  };
}
