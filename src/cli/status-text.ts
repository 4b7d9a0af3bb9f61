/** The status of a source for people: a tired reader finds what is wrong, since when, and what to do. */
import { count, plural } from '../core/wording.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import { groupAlike, groupText, oldestOf } from './collection-groups.ts';
import { nextSteps } from './next-steps.ts';
import { schemaChangeLines } from './schema-change-text.ts';
import { isStuck, isWhole, type SourceStatus } from './source-status.ts';
import { renderTable } from './table.ts';
import { age, runFailure } from './wording.ts';

/** Ends with a line break. `hasOthers`: other sources are shown beside it. */
export function renderStatus(
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
  const troubled = collections.filter((collection) => !isWhole(collection));
  if (troubled.length > 0) lines.push('', 'not whole:', ...troubleLines(troubled, now));
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

function troubleLines(troubled: readonly CollectionRow[], now: number): string[] {
  // What was skipped was skipped for one cause elsewhere: one line for all of it.
  const groups = groupAlike(troubled, ({ kind, lastOutcome, lastError }) =>
    JSON.stringify([lastOutcome === 'skipped' ? null : kind, lastOutcome, lastError]),
  );
  return groups.flatMap((rows) => {
    const [{ lastOutcome, lastError }] = rows;
    const error = lastError === null ? '' : `: ${lastError}`;
    return [
      `  ${namesText(rows)}: ${lastOutcome ?? 'never asked for'}${error}`,
      `    ${wholeText(rows, now)}`,
    ];
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
