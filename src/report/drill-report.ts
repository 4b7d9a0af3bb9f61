/** A drill prepared for people: what text, page and runbook have in common. */
import type { Colors } from 'picocolors/types.js';
import type { Kind } from '../catalog/definition.ts';
import { count } from '../core/wording.ts';
import {
  type DrillCounts,
  type DrillDocument,
  type DrillKind,
  type DrillTask,
  type DrillVerdict,
  DRILL_VERDICTS,
  drillTotals,
} from '../diff/drill-document.ts';
import { maskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { nameText } from './sections.ts';

export interface DrillReportOptions extends ReportOptions {
  readonly colors: Colors;
  /** Columns of the terminal. */
  readonly width: number;
}

export const VERDICT_TEXT: Readonly<Record<DrillVerdict, string>> = {
  comes_back: 'comes back',
  needs_secret: 'needs a secret',
  needs_person: 'needs a person',
  cannot: 'cannot come back',
  unknown: 'unknown',
};

/** `97.3 %`; never 100 where anything is missing, since scores are rounded down. */
export function percent(score: number): string {
  return score === 1 ? '100 %' : `${(Math.floor(score * 1000) / 10).toFixed(1)} %`;
}

/** One line: how much comes back, and what the rest needs. */
export function drillVerdictText(document: DrillDocument): string {
  const totals = drillTotals(document.kinds);
  const head = `${percent(document.score)} of ${count(totals.records)} records come back`;
  const rest = restText(totals);
  const lacking = document.skipped.length;
  const unread =
    lacking === 0 ? '' : `; the snapshot lacks ${lacking} ${lacking === 1 ? 'collection' : 'collections'}`;
  return `${head}${rest === '' ? '' : `; ${rest}`}${unread}`;
}

/** `14 need a secret, 3 unknown`, without what comes back. */
function restText(counts: DrillCounts): string {
  return DRILL_VERDICTS.filter((verdict) => verdict !== 'comes_back' && counts[verdict] > 0)
    .map((verdict) => `${count(counts[verdict])} ${pluralVerdict(verdict, counts[verdict])}`)
    .join(', ');
}

export function pluralVerdict(verdict: DrillVerdict, records: number): string {
  if (records === 1) return VERDICT_TEXT[verdict];
  return VERDICT_TEXT[verdict].replace(/^needs/, 'need').replace(/^comes/, 'come');
}

export function outcomeText({ outcome }: Pick<DrillDocument, 'outcome'>): string {
  return outcome === 'equal'
    ? 'equal: all that requests can bring back came back equal'
    : 'short: a restore would not bring back all that it could';
}

/** Members of bodies that the service gives anew, though their record comes back. */
export function givenAnew(kind: DrillKind): string[] {
  return kind.fields
    .filter((field) => field.comes_back < field.records && field.cannot > kind.cannot)
    .map(({ path }) => path);
}

/** A name or an id on one line; an id that is a secret is masked. */
export function taskName(
  task: DrillTask,
  options: Pick<ReportOptions, 'definitions' | 'showsSecrets'>,
): string {
  const id = taskId(task, options);
  return task.name === task.id ? id : nameText(task.name);
}

export function taskId(
  task: DrillTask,
  options: Pick<ReportOptions, 'definitions' | 'showsSecrets'>,
): string {
  return nameText(
    options.showsSecrets === true ? task.id : maskedId(task.id, options.definitions(task.kind)),
  );
}

/** Those of one verdict, by kind in the order in which they come. */
export function tasksByKind(tasks: readonly DrillTask[]): Map<Kind, DrillTask[]> {
  return Map.groupBy(tasks, ({ kind }) => kind);
}

/** Where in a reason the line of configuration begins that is to be copied as it stands; -1 where there is none. */
export function configurationAt(reason: string): number {
  return reason.indexOf('definitions: {');
}
