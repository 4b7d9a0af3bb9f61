/** `drill` on a terminal: the score first, then kind by kind, then why, then what to do. */
import { count } from '../core/wording.ts';
import { type DrillDocument, type DrillKind, drillScore, drillTotals } from '../diff/drill-document.ts';
import {
  configurationAt,
  drillVerdictText,
  givenAnew,
  outcomeText,
  percent,
  pluralVerdict,
  type DrillReportOptions,
} from './drill-report.ts';
import { escapeControlCharacters } from './escape-control.ts';
import { referenceText, skippedText } from './sections.ts';
import { folded } from './value-text.ts';

interface DrillTextOptions extends DrillReportOptions {
  /** True where the runbook is written anyway, and need not be offered. */
  readonly hasRunbook: boolean;
}

const REASONS_SHOWN = 3; // of one kind

/** The drill as lines of text, the last one ended. */
export function renderDrillText(document: DrillDocument, options: DrillTextOptions): string {
  const { colors, width } = options;
  const { kinds, outcome } = document;
  const source = document.source === undefined ? '' : `${escapeControlCharacters(document.source)}: `;
  const paint = outcome === 'equal' ? colors.green : colors.yellow;
  const lines = [
    `${source}drill of ${referenceText(document.from)}`,
    colors.bold(drillVerdictText(document)),
    paint(outcomeText(document)),
    ...document.skipped.map((skipped) => colors.yellow(`  ! ${skippedText(skipped, options)}`)),
    '',
    ...tableOf(kinds, options),
    ...whyLines(kinds, options),
    ...anewLines(kinds, options),
    '',
    ...document.assumptions.map((line) => colors.dim(`· ${escapeControlCharacters(line)}`)),
    colors.dim(
      `${document.seconds.toFixed(1)} s, ${count(document.applied)} records written in ${document.passes} ${document.passes === 1 ? 'pass' : 'passes'}`,
    ),
    ...(document.tasks.length === 0 || options.hasRunbook
      ? []
      : [`\`tidemark drill --runbook FILE\` writes down what is left to do, with the values`]),
  ];
  return `${lines.map((line) => (line.length > width * 4 && configurationAt(line) < 0 ? folded(line, width * 4) : line)).join('\n')}\n`;
}

const HEAD = ['kind', 'records', 'comes back', 'secret', 'person', 'cannot', 'unknown', 'score'] as const;

function tableOf(kinds: readonly DrillKind[], { colors }: DrillTextOptions): string[] {
  const cells = (
    name: string,
    row: Omit<DrillKind, 'kind' | 'reasons' | 'fields' | 'restored'>,
    score: string,
  ): string[] => [
    name,
    ...[row.records, row.comes_back, row.needs_secret, row.needs_person, row.cannot, row.unknown].map(
      (value, index) => (value === 0 && index > 0 ? '·' : count(value)),
    ),
    score,
  ];
  const totals = drillTotals(kinds);
  const rows = [
    [...HEAD],
    ...kinds.map((row) => cells(row.kind, row, row.restored ? percent(row.score) : '–')),
    cells(
      'all that a restore writes',
      { ...totals, score: 0 },
      percent(drillScore(totals.comes_back, totals.records)),
    ),
  ];
  const widths = HEAD.map((_name, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return rows.map((row, index) =>
    index === 0 ? colors.dim(line(row)) : index === rows.length - 1 ? colors.bold(line(row)) : line(row),
  );
}

function whyLines(kinds: readonly DrillKind[], { colors, definitions }: DrillTextOptions): string[] {
  const lines = kinds.flatMap((kind) => {
    if (kind.reasons.length === 0) return [];
    const shown = kind.reasons.slice(0, REASONS_SHOWN);
    const more = kind.reasons.length - shown.length;
    return [
      `  ${colors.bold(definitions(kind.kind).title.many)}`,
      ...shown.map(
        ({ verdict, reason, records }) =>
          `    ${count(records)} ${pluralVerdict(verdict, records)}: ${escapeControlCharacters(reason)}`,
      ),
      ...(more > 0 ? [`    … ${more} more reasons`] : []),
    ];
  });
  return lines.length === 0 ? [] : ['', 'what does not come back by itself', ...lines];
}

function anewLines(kinds: readonly DrillKind[], { definitions }: DrillTextOptions): string[] {
  const lines = kinds.flatMap((kind) => {
    const paths = givenAnew(kind);
    return paths.length === 0
      ? []
      : [`  ${definitions(kind.kind).title.many}: ${escapeControlCharacters(paths.join(', '))}`];
  });
  return lines.length === 0 ? [] : ['', 'the service gives anew, whatever is restored', ...lines];
}
