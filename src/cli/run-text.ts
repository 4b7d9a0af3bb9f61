/** A run for people and as `tidemark.sync/1`. */
import { count, duration, plural } from '../core/wording.ts';
import type { NewlyRead } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';
import type { RecreatedCount } from '../state/recreated.ts';
import type { SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';
import { groupAlike, groupText } from './collection-groups.ts';
import { recreatedLines } from './recreated-lines.ts';
import { newlyReadLines } from './newly-read-text.ts';
import { recreatedInRun, newlyReadInRun } from './run-newly-read.ts';
import { schemaChangeDocument, schemaChangeLines } from './schema-change-text.ts';
import { renderTable } from './table.ts';

/** A run, and what of its findings says nothing of the service's content. */
export interface ReportedRun {
  readonly report: RunReport;
  readonly schemaChanges: readonly SchemaChange[];
  /** Collections whose records are new to the mirror only. */
  readonly firstReads: readonly NewlyRead[];
  /** What of its counts are records that restores created again. */
  readonly createdAgain: readonly RecreatedCount[];
}

/** A run that ended, with what the mirror knows of it. */
export function reportedRun(mirror: Mirror, report: RunReport): ReportedRun {
  return {
    report: withReason(report, mirror.run(report.run)),
    schemaChanges: mirror.schemaChanges({ run: report.run }),
    firstReads: newlyReadInRun(mirror, report.run),
    createdAgain: recreatedInRun(mirror, report.run),
  };
}

/** A failed run that another process did has its reason in the mirror. */
function withReason(report: RunReport, row: RunRow | undefined): RunReport {
  if (report.outcome !== 'failed' || report.error !== undefined || !row?.errorCode) return report;
  const error = { code: row.errorCode, message: row.error ?? '', hint: null, permission: null };
  return { ...report, error };
}

/** In `tidemark.sync/1` the reason stands with the sweeps; `tidemark.run/1` has that of the whole run. */
function withoutReason(report: RunReport): RunReport {
  const { error, ...rest } = report;
  return error === undefined ? report : rest;
}

/** The JSON document of one or more runs (design.md, JSON documents). */
export function runDocument(runs: readonly ReportedRun[]): object {
  return {
    schema: 'tidemark.sync/1',
    runs: runs.map(({ report, schemaChanges, firstReads, createdAgain }) => ({
      ...withoutReason(report),
      first_read: firstReads,
      created_again: createdAgain,
      schema_changes: schemaChanges.map(schemaChangeDocument),
      sweeps: report.sweeps.map((sweep) => {
        const { pageCap, ...rest } = sweep;
        return { ...rest, page_cap: pageCap };
      }),
    })),
  };
}

/**
 * What a person should know before a run where the one before it died: that it did, and what the mirror shows meanwhile.
 * Nothing where that run ended, however it did.
 */
export function afterDeath(mirror: Pick<Mirror, 'runs' | 'latestRun'>, source: string): string[] {
  const [last] = mirror.runs({ source, limit: 1 });
  // Its process wrote no end; opening the mirror for writing marked it.
  if (last?.errorCode !== 'interrupted' || last.finishedAt !== null) return [];
  const published = mirror.latestRun(source);
  return [
    `run ${last.run} of ${source}, begun ${last.startedAt}, did not end: its process died; ` +
      (published === undefined ? 'nothing was published before' : `going on from run ${published.run}`),
  ];
}

/** A run as a table per kind, then every sweep that was not whole with its reason and what to do. */
export function renderRun(
  { report, schemaChanges, firstReads, createdAgain }: ReportedRun,
  {
    mirrorPath,
    isQuiet,
    width,
  }: {
    readonly mirrorPath: string;
    readonly isQuiet: boolean;
    /** Columns of the terminal; undefined for lines of any length. */
    readonly width?: number | undefined;
  },
): string {
  const lines: string[] = [];
  const seconds = duration(Date.parse(report.finished_at) - Date.parse(report.started_at));
  const head = `run ${report.run} of ${report.source}: ${report.outcome} in ${seconds}, ${plural(report.requests, 'request')}`;
  lines.push(report.retries > 0 ? `${head}, ${plural(report.retries, 'retry', 'retries')}` : head);
  if (!isQuiet) {
    lines.push(
      '',
      ...(report.sweeps.length === 0 ? [] : [kindTable(report.sweeps, width), '']),
      ...newlyReadLines(firstReads),
      ...recreatedLines(createdAgain),
    );
  }
  lines.push(...shortcomings(report));
  const pending = report.sweeps.reduce((sum, sweep) => sum + sweep.pending, 0);
  if (pending > 0 && !isQuiet) {
    lines.push(
      `sharing not yet looked at: ${plural(pending, 'recording')}; the next runs go on (recordings.sharingPerRun)`,
    );
  }
  lines.push(...schemaChangeLines(schemaChanges));
  if (!isQuiet) lines.push(`mirror: ${mirrorPath}`);
  return `${lines.join('\n')}\n`;
}

/** Why the run did not end as complete, for stderr; nothing of one that did. */
export function runReason({ report }: ReportedRun): string[] {
  const { run, source, outcome } = report;
  if (outcome === 'complete') return [];
  return [
    `run ${run} of ${source} is ${outcome}`,
    ...shortcomings(report).map((line) => `  ${line}`),
    `  → what was not read stands as it was; \`tidemark doctor --source ${source}\` tells what the key reaches`,
  ];
}

/** What the run as a whole and its collections lack, with what to do. */
function shortcomings({ error, sweeps }: RunReport): string[] {
  const lines: string[] = [];
  // What a sweep ended with is said with its collection.
  if (error !== undefined && sweeps.every((sweep) => sweep.error === null)) {
    lines.push(error.message);
    if (error.hint !== null) lines.push(`  → ${error.hint}`);
  }
  return [...lines, ...troubleLines(sweeps.filter((sweep) => sweep.outcome !== 'complete'))];
}

/** What befell several collections alike is said once: a key that is refused is refused everywhere. */
function troubleLines(troubled: readonly SweepReport[]): string[] {
  const groups = groupAlike(troubled, ({ outcome, error }) =>
    JSON.stringify([outcome, error?.message ?? null, error?.hint ?? null]),
  );
  return groups.flatMap((sweeps) => {
    const [{ outcome, error }] = sweeps;
    const kinds = groupAlike(sweeps, ({ kind }) => kind).map(groupText);
    const names =
      kinds.length <= KINDS_NAMED
        ? kinds.join(', ')
        : plural(sweeps.length, 'collection') + ` of ${kinds.length} kinds`;
    return [
      `${names}: ${outcome}${error === null ? '' : `: ${error.message}`}`,
      ...(error === null || error.hint === null ? [] : [`  → ${error.hint}`]),
    ];
  });
}

const KINDS_NAMED = 3; // with the same trouble; more are only counted, the table above names them

/** One row per kind: its collections summed up. */
function kindTable(sweeps: readonly SweepReport[], width: number | undefined): string {
  const kinds = new Map<string, SweepReport[]>();
  for (const sweep of sweeps) kinds.set(sweep.kind, [...(kinds.get(sweep.kind) ?? []), sweep]);
  const sum = (of: readonly SweepReport[], key: 'records' | 'added' | 'changed' | 'removed'): number =>
    of.reduce((total, sweep) => total + sweep[key], 0);
  const shown = (value: number): string => (value === 0 ? '·' : count(value));
  return renderTable(
    ['kind', 'collections', 'records read', 'added', 'changed', 'removed', 'outcome'],
    [...kinds].map(([kind, of]) => [
      kind,
      count(of.length),
      count(sum(of, 'records')),
      shown(sum(of, 'added')),
      shown(sum(of, 'changed')),
      shown(sum(of, 'removed')),
      outcomes(of),
    ]),
    ['left', 'right', 'right', 'right', 'right', 'right', 'left'],
    { width },
  );
}

function outcomes(sweeps: readonly SweepReport[]): string {
  const counts = new Map<string, number>();
  for (const { outcome, mode } of sweeps) {
    const name = mode === 'head' ? `${outcome} (newest)` : outcome;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, times]) => (counts.size === 1 ? name : `${times} ${name}`)).join(', ');
}
