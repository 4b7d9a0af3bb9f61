/** `tidemark status`: how fresh and how whole the mirror is. Reads no record. */
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode, type ErrorCode } from '../core/errors.ts';
import { plural, count } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import {
  recentSchemaChanges,
  sourceDocument,
  type ShownStatus,
  type SourceState,
} from '../state/documents.ts';
import { lastCompleteRun, lastEndedRunOfAllKinds } from '../state/runs.ts';
import { openConfiguredMirror, readConfig } from '../wire.ts';
import { groupAlike, groupText, oldestOf } from './plan-reason.ts';
import { print, printReason, type CommandContext } from './context.ts';
import { schemaChangeLines } from './run.ts';
import { renderTable } from './table.ts';
import { age, runFailure } from './export-notes.ts';

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
    const mirrored = mirror.runs.sources();
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
    if (code !== EXIT.done) printReason(context, own.length === 0 ? [EMPTY] : own.flatMap(statusReason));
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
    `${sync}; \`tidemark doctor --source ${source}\` shows what the key reaches`,
  ];
}

function exitCode(sources: readonly SourceStatus[]): ExitCode {
  if (sources.every(({ lastPublished }) => lastPublished === null)) return EXIT.failed;
  return sources.every(({ state }) => state === 'whole') ? EXIT.done : EXIT.partial;
}

// `tidemark.status/1`: the status of every source as one JSON document.

/** Keys may be added within the version, never renamed. Times are ISO 8601 UTC. */
function statusDocument(mirror: string, sources: readonly SourceStatus[]): object {
  return {
    schema: 'tidemark.status/1',
    mirror,
    sources: sources.map((status) => sourceDocument(status, nextSteps(status, sources.length > 1))),
  };
}

// The status of a source for people: a tired reader finds what is wrong, since when, and what to do.

/** Ends with a line break. `hasOthers`: other sources are shown beside it. */
function renderStatus(
  status: SourceStatus,
  facts: { readonly mirror: string; readonly now: number; readonly hasOthers: boolean },
): string {
  const { now } = facts;
  const steps = nextSteps(status, facts.hasOthers);
  const lines = [
    `source ${status.source}, mirror ${facts.mirror}`,
    ...runLines(status, now),
    ...(status.lastPublished === null ? [] : contentLines(status, now)),
    ...(steps.length === 0 ? [] : ['', ...steps.map((step) => `→ ${step}`)]),
  ];
  return `${lines.map((line) => line.split('\n').map(escapeControlCharacters).join('\n')).join('\n')}\n`;
}

function runLines({ state, lastRun, lastPublished, lastComplete }: SourceStatus, now: number): string[] {
  if (lastRun === null || state === 'never_synced') return ['never synced'];
  const lines: string[] = [];
  if (lastRun.outcome === 'running') {
    lines.push(
      isStuck(lastRun, now)
        ? `run ${lastRun.run} began ${age(lastRun.startedAt, now)} and never ended: its process probably died`
        : `run ${lastRun.run} began ${age(lastRun.startedAt, now)} and has not ended: it runs, or its process died`,
    );
  } else {
    lines.push(
      `last run: ${lastRun.run}, ${runOutcome(lastRun)}${narrowing(lastRun)}, ${age(lastRun.finishedAt ?? lastRun.startedAt, now)}`,
    );
  }
  if (lastPublished === null) {
    lines.push('no run was published yet: the mirror holds nothing of this source');
  } else if (lastPublished.run !== lastRun.run) {
    lines.push(
      `what the mirror holds is of run ${lastPublished.run}: ${lastPublished.outcome}${narrowing(lastPublished)}, ${age(lastPublished.finishedAt, now)}`,
    );
  }
  if (lastPublished !== null && lastComplete?.run !== lastRun.run) {
    lines.push(
      lastComplete === null
        ? `no run${lastRun.kinds === null ? '' : ' of all kinds'} has been complete yet`
        : `last complete run: ${lastComplete.run}, ${age(lastComplete.finishedAt, now)}`,
    );
  }
  return lines;
}

function runOutcome(run: NonNullable<SourceStatus['lastRun']>): string {
  return run.outcome === 'failed' ? runFailure(run) : run.outcome;
}

/** ` (roles only)` where it was narrowed to some kinds. */
function narrowing({ kinds }: Pick<RunRow, 'kinds'>): string {
  return kinds === null ? '' : ` (${kinds.join(', ')} only)`;
}

function contentLines(status: SourceStatus, now: number): string[] {
  const { collections, schemaChanges } = status;
  const lines = [
    `${plural(status.records, 'record')} in ${plural(collections.length, 'collection')}`,
    '',
    kindTable(collections, now),
  ];
  const unread = collections.filter((collection) => !isWhole(collection));
  if (unread.length > 0) lines.push('', 'not whole:', ...problemLines(unread, now));
  lines.push(...schemaLines(schemaChanges, now));
  return lines;
}

const SCHEMA_CHANGES_SHOWN = 20; // lines over all runs: `--json` has the rest

/** By the run that found them, newest first. */
function schemaLines(changes: SourceStatus['schemaChanges'], now: number): string[] {
  const shown = changes.slice(0, SCHEMA_CHANGES_SHOWN);
  const more = changes.length - shown.length;
  const byRun = [...Map.groupBy(shown, ({ run }) => run)];
  return [
    ...byRun.flatMap(([run, own]) => {
      const [heading = '', ...rest] = schemaChangeLines(own);
      const at = own[0]?.at;
      return ['', `run ${run}${at === undefined ? '' : `, ${age(at, now)}`}: ${heading}`, ...rest];
    }),
    ...(more > 0 ? [`… ${plural(more, 'more change')} of form in the last 30 days (--json)`] : []),
  ];
}

function problemLines(unread: readonly CollectionRow[], now: number): string[] {
  // What was skipped was skipped for one cause elsewhere: one line for all of it.
  const groups = groupAlike(unread, ({ kind, lastOutcome, lastError }) =>
    JSON.stringify([lastOutcome === 'skipped' ? null : kind, lastOutcome, lastError]),
  );
  return groups.flatMap((rows) => {
    const [{ lastOutcome, lastError }] = rows;
    const error = lastError === null ? '' : `: ${lastError}`;
    return [`  ${namesText(rows)}: ${lastOutcome ?? 'never read'}${error}`, `    ${wholeText(rows, now)}`];
  });
}

function namesText(rows: readonly [CollectionRow, ...CollectionRow[]]): string {
  const kinds = new Set(rows.map(({ kind }) => kind)).size;
  return kinds === 1 ? groupText(rows) : `${plural(rows.length, 'collection')} of ${kinds} kinds`;
}

function wholeText(rows: readonly CollectionRow[], now: number): string {
  const oldest = oldestWhole(rows);
  if (oldest !== null) return `last read whole ${age(oldest, now)}`;
  return rows.every(({ lastCompleteAt }) => lastCompleteAt === null)
    ? 'never read whole'
    : 'some of them never read whole';
}

function kindTable(collections: readonly CollectionRow[], now: number): string {
  return renderTable(
    ['kind', 'collections', 'records', 'oldest whole copy', 'state'],
    groupAlike(collections, ({ kind }) => kind).map((rows) => {
      const bad = rows.filter((row) => !isWhole(row)).length;
      return [
        rows[0].kind,
        count(rows.length),
        count(rows.reduce((sum, { records }) => sum + records, 0)),
        age(oldestWhole(rows), now),
        bad === 0 ? 'whole' : bad === rows.length ? 'not whole' : `${count(bad)} not whole`,
      ];
    }),
    ['left', 'right', 'right', 'right', 'left'],
  );
}

function oldestWhole(rows: readonly CollectionRow[]): string | null {
  return oldestOf(rows.map(({ lastCompleteAt }) => lastCompleteAt));
}

// What a person can do about the state of a source: one sentence each, the most pressing first.

/** Empty where nothing is to be done. `hasOthers`: commands then name the source. */
function nextSteps(status: SourceStatus, hasOthers: boolean): string[] {
  const sync = `tidemark sync${hasOthers ? ` --source ${status.source}` : ''}`;
  if (!status.isConfigured)
    return [
      `${status.source} is no longer configured: its records stay as they were; configure a source of that name to go on`,
    ];
  if (status.state === 'never_synced') return [`run \`${sync}\``];
  const code = status.lastEnded?.errorCode ?? null;
  if (status.state === 'unpublished')
    return [`${code === null ? '' : (REMEDY[code] ?? '')}run \`${sync}\` again`];
  if (status.state === 'whole') return [];

  const steps: string[] = [];
  const held = status.held.reduce((sum, { records }) => sum + records, 0);
  const ceiling = status.held.reduce((sum, { records, below }) => sum + records + below, 0);
  if (held > 0) {
    const them = held === 1 ? 'it' : 'them';
    steps.push(
      `the service no longer shows ${plural(held, 'record')}, too many to believe at once: if ${them === 'it' ? 'it' : 'they'} really went, ` +
        `remove ${them} here with \`${sync} --accept-removals ${ceiling}\`, or let a later run find the same (removals.confirmAfter)`,
    );
  }
  const codes = new Set(
    status.collections
      .filter((row) => !isWhole(row) && row.lastOutcome !== 'held')
      .map(({ lastErrorCode }) => lastErrorCode),
  );
  if (status.lastEnded?.outcome === 'failed') codes.add(code);
  for (const each of codes) {
    const remedy = each === null ? undefined : REMEDY[each];
    if (remedy !== undefined) steps.push(`${remedy}run \`${sync}\` again`);
  }
  if (steps.length === 0) steps.push(`run \`${sync}\` again`);
  if (status.lastEnded !== null && status.lastEnded.outcome !== 'complete')
    steps.push(`\`tidemark runs show ${status.lastEnded.run}\` has every collection of that run`);
  return steps;
}

/** What comes before the next run, by what went wrong. What time may heal has none. */
const REMEDY: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'check the key of this source (`tidemark config check`), then ',
  forbidden: 'give the key the permissions named above, or leave those kinds out (kinds.exclude), then ',
  not_found: 'leave out what the service does not offer (kinds.exclude), then ',
  unreachable: 'check the base URL and that the service is up, then ',
  disk_full: 'free some space, then ',
  read_only: "check the owner and mode of the mirror's directory, then ",
};

// What the mirror knows of how fresh and how whole its copy of a source is, and what that asks of a person.

interface SourceStatus extends ShownStatus {
  /** Null while the only runs have not ended. */
  readonly lastEnded: RunRow | null;
  /** The same of runs that were not narrowed to some kinds. */
  readonly lastWholeEnded: RunRow | null;
}

/** A killed writer leaves its run without an end until the next one starts: a few of the newest may be such runs. */
const UNENDED_RUNS = 5;
/** A run that began longer ago and has not ended is taken for dead: the next writer of the mirror will say so. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1000;

function sourceStatus(
  mirror: Mirror,
  source: string,
  facts: { readonly isConfigured: boolean; readonly now: number },
): SourceStatus {
  const runs = mirror.runs.list({ source, limit: UNENDED_RUNS });
  const lastPublished = mirror.runs.latest(source) ?? null;
  const collections = mirror.runs.collections(source).filter(({ retiredRun }) => retiredRun === null);
  const known = {
    source,
    isConfigured: facts.isConfigured,
    lastRun: runs[0] ?? null,
    lastEnded: runs.find(({ outcome }) => outcome !== 'running') ?? null,
    lastPublished,
    lastWholeEnded: lastEndedRunOfAllKinds(mirror, source),
    lastComplete: lastCompleteRun(mirror, source),
    oldestWholeAt: oldestOf(collections.map(({ lastCompleteAt }) => lastCompleteAt)),
    records: collections.reduce((sum, { records }) => sum + records, 0),
    collections,
    held: mirror.runs.heldRemovals(source),
    schemaChanges:
      lastPublished === null ? [] : mirror.runs.schemaChanges({ source, run: lastPublished.run }),
  };
  return { ...known, state: stateOf(known, facts.now) };
}

/** True when the latest look at the collection proved its list whole. */
function isWhole(collection: CollectionRow): boolean {
  return collection.lastOutcome === 'complete';
}

/** True for a run that has not ended in longer than any run takes. */
function isStuck(run: RunRow, now: number): boolean {
  return run.outcome === 'running' && now - Date.parse(run.startedAt) > LONGEST_RUN_MS;
}

function stateOf(
  { lastRun, lastEnded, lastWholeEnded, lastPublished, collections, held }: Omit<SourceStatus, 'state'>,
  now: number,
): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  // A run under way takes nothing from what is there.
  const isDone =
    lastEnded?.outcome === 'complete' && lastWholeEnded?.outcome === 'complete' && !isStuck(lastRun, now);
  return isDone && held.length === 0 && collections.every(isWhole) ? 'whole' : 'partial';
}
