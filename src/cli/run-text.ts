/** A run for people and as `tidemark.sync/1`. */
import type { SweepReport } from '../sync/outcome.ts';
import type { RunReport } from '../sync/run.ts';
import { renderTable } from './table.ts';
import { count, duration, plural, scopeText } from './wording.ts';

/** The JSON document of one or more runs (design.md, JSON documents). */
export function runDocument(reports: readonly RunReport[]): object {
  return {
    schema: 'tidemark.sync/1',
    runs: reports.map((report) => ({
      ...report,
      sweeps: report.sweeps.map((sweep) => {
        const { pageCap, ...rest } = sweep;
        return { ...rest, page_cap: pageCap };
      }),
    })),
  };
}

/** A run as a table per kind, then every sweep that was not whole with its reason and what to do. */
export function renderRun(report: RunReport, mirrorPath: string, isQuiet: boolean): string {
  const lines: string[] = [];
  const seconds = duration(Date.parse(report.finished_at) - Date.parse(report.started_at));
  const head = `run ${report.run} of ${report.source}: ${report.outcome} in ${seconds}, ${plural(report.requests, 'request')}`;
  lines.push(report.retries > 0 ? `${head}, ${plural(report.retries, 'retry', 'retries')}` : head);
  if (!isQuiet) {
    lines.push('', kindTable(report.sweeps), '');
  }
  const troubled = report.sweeps.filter((sweep) => sweep.outcome !== 'complete');
  for (const sweep of troubled) {
    const where = scopeText(sweep.scope);
    lines.push(
      `${sweep.kind}${where === '' ? '' : ` (${where})`}: ${sweep.outcome}${sweep.error === null ? '' : `: ${sweep.error.message}`}`,
    );
    if (sweep.error !== null && sweep.error.hint !== null) lines.push(`  → ${sweep.error.hint}`);
  }
  const pending = report.sweeps.reduce((sum, sweep) => sum + sweep.pending, 0);
  if (pending > 0 && !isQuiet) {
    lines.push(
      `sharing not yet looked at: ${plural(pending, 'recording')}; the next runs go on (recordings.sharingPerRun)`,
    );
  }
  if (!isQuiet) lines.push(`mirror: ${mirrorPath}`);
  return `${lines.join('\n')}\n`;
}

/** One row per kind: its collections summed up. */
export function kindTable(sweeps: readonly SweepReport[]): string {
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
