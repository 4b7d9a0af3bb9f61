/**
 * `--format junit`: a test suite per kind, a failure per record that differs, an error per collection that could not be
 * compared. Follows the schema that Jenkins' xUnit plugin checks (junit-10.xsd); Surefire and GitLab use the same.
 */
import type { DiffDocument } from '../diff/change.ts';
import { type ReportChange, type Section, comparedText, sectionsOf, summaryText } from './diff-report.ts';
import { referenceText, skippedText } from './notes.ts';
import { fieldLine } from './value-text.ts';
import { escapeMarkup } from './markup.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';

const VALUE_LIMIT = 2_000; // characters of a value: CI servers keep all failure texts in memory

interface Suite {
  readonly name: string;
  readonly tests: number;
  readonly failures: number;
  readonly errors: number;
  readonly cases: readonly string[];
}

/** The diff as JUnit XML. A suite `comparison` with the notes is always the first: a report without tests looks like "not run". */
export function renderJunit(document: DiffDocument, options: ReportOptions): string {
  const suites = [comparisonSuite(document, options), ...sectionsOf(document, options).map(kindSuite)];
  const total = (of: (suite: Suite) => number): number => suites.reduce((sum, suite) => sum + of(suite), 0);
  const timestamp = options.generatedAt === undefined ? '' : attribute('timestamp', options.generatedAt);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${attribute('name', options.title ?? 'tidemark diff')} tests="${total((suite) => suite.tests)}" failures="${total((suite) => suite.failures)}" errors="${total((suite) => suite.errors)}">`,
    ...suites.flatMap((suite) => [
      `  <testsuite${attribute('name', suite.name)} tests="${suite.tests}" failures="${suite.failures}" errors="${suite.errors}" skipped="0"${timestamp}>`,
      ...suite.cases,
      '  </testsuite>',
    ]),
    '</testsuites>',
    '',
  ].join('\n');
}

function comparisonSuite(document: DiffDocument, options: ReportOptions): Suite {
  const isNothing = document.compared.collections === 0 && document.compared.records === 0;
  const label = `${referenceText(document.from)} → ${referenceText(document.to)}: ${comparedText(document)}`;
  const problems = document.skipped.map((skipped) => ({
    name: skippedText(skipped, options),
    message: escapeControlCharacters(skipped.reason),
  }));
  if (isNothing) problems.unshift({ name: label, message: summaryText(document) });
  const passed = isNothing
    ? []
    : [`    <testcase${attribute('name', label)} classname="tidemark.comparison"/>`];
  const failed = problems.map(
    ({ name, message }) =>
      `    <testcase${attribute('name', name)} classname="tidemark.comparison"><error type="not_compared"${attribute('message', message)}/></testcase>`,
  );
  return {
    name: 'comparison',
    tests: passed.length + failed.length,
    failures: 0,
    errors: failed.length,
    cases: [...passed, ...failed, ...notesPart(options)],
  };
}

function notesPart({ notes = [] }: ReportOptions): string[] {
  const lines = notes.map((note) => escapeMarkup(escapeControlCharacters(note)));
  return lines.length === 0 ? [] : [`    <system-out>${lines.join('\n')}</system-out>`];
}

function kindSuite({ definition, changes }: Section): Suite {
  return {
    name: definition.kind,
    tests: changes.length,
    failures: changes.length,
    errors: 0,
    cases: changes.map(failedCase),
  };
}

function failedCase({ change, severity, name, id, place }: ReportChange): string {
  const lines = change.fields.map((field) => fieldLine(field, VALUE_LIMIT));
  const where = [`id ${id}`, ...place].join(', ');
  const body = [where, ...lines].map(escapeMarkup).join('\n');
  return `    <testcase${attribute('name', `${name} (${id})`)}${attribute('classname', `tidemark.${change.kind}`)}><failure type="${change.change}"${attribute('message', `${name} ${change.change} [${severity}]`)}>${body}</failure></testcase>`;
}

function attribute(name: string, value: string): string {
  return ` ${name}="${escapeMarkup(value)}"`;
}
