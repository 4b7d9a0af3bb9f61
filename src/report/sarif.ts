/** `--format sarif`: the diff as static analysis results (SARIF 2.1.0), for code scanning and its viewers. */
import { type Severity, SCOPE_KEYS, SEVERITIES } from '../catalog/definition.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { placeFingerprint } from '../diff/fingerprint.ts';
import { type ReportChange, type Section, sectionsOf, severityIn, summaryText } from './diff-report.ts';
import { referenceText, skippedText } from './notes.ts';
import { fieldLine, nameText, pathText } from './value-text.ts';
import { defined } from '../core/defined.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';

const SCHEMA = 'https://json.schemastore.org/sarif-2.1.0.json';
const VALUE_LIMIT = 500; // characters of a value; viewers show a message on one line

const LEVEL: Readonly<Record<Severity, 'error' | 'warning' | 'note'>> = {
  critical: 'error',
  high: 'error',
  medium: 'warning',
  low: 'note',
};

/** Scores as GitHub ranks them: 9 and more critical, 7 high, 4 medium, below low. */
const SECURITY_SEVERITY: Readonly<Record<Severity, string>> = {
  critical: '9.5',
  high: '8.0',
  medium: '5.5',
  low: '2.0',
};

const CHANGES = ['changed', 'added', 'removed'] as const;

/**
 * One run: a rule per kind of change and severity, and a result per changed field and per added or removed record. Its place
 * and, for drift, its fingerprint are its `partialFingerprints`: they identify a result from report to report, the place even
 * if each report is made with another mirror. What could not be compared is a warning in the notifications, and then
 * `executionSuccessful` is false; notes are notifications too.
 */
export function renderSarif(document: DiffDocument, options: ReportOptions): string {
  const isComplete = document.skipped.length === 0 && document.compared.collections > 0;
  const run = {
    tool: { driver: { name: 'tidemark', rules: RULES } },
    invocations: [
      {
        executionSuccessful: isComplete,
        ...defined({ endTimeUtc: options.generatedAt }),
        toolExecutionNotifications: [
          ...document.skipped.map((skipped) => ({
            level: 'warning',
            message: { text: `not compared: ${skippedText(skipped, options)}` },
          })),
          ...(options.notes ?? []).map((text) => ({ level: 'note', message: { text } })),
        ],
      },
    ],
    properties: {
      from: referenceText(document.from),
      to: referenceText(document.to),
      summary: summaryText(document),
      compared: document.compared,
    },
    results: sectionsOf(document, options).flatMap((section) => results(section, document, options)),
  };
  return escapeForTerminal(
    `${JSON.stringify({ $schema: SCHEMA, version: '2.1.0', runs: [run] }, null, 2)}\n`,
  );
}

const RULES = CHANGES.flatMap((change) =>
  SEVERITIES.map((severity) => ({
    id: ruleId(change, severity),
    shortDescription: {
      text: `${change === 'changed' ? 'A field' : 'A record'} was ${change} (${severity})`,
    },
    defaultConfiguration: { level: LEVEL[severity] },
    properties: { 'security-severity': SECURITY_SEVERITY[severity], tags: ['configuration-drift'] },
  })),
);

function ruleId(change: (typeof CHANGES)[number], severity: Severity): string {
  return `${change}/${severity}`;
}

function results(section: Section, document: DiffDocument, options: ReportOptions): object[] {
  const severityOf = severityIn(options);
  const source = options.source ?? document.to.source ?? 'default';
  return section.changes.flatMap((report) => {
    const { change, original } = report;
    // A result for each field of a changed record, which identifies it; otherwise one for the record.
    const parts = change.change === 'changed' ? change.fields : [null];
    return parts.map((field, index) => {
      const originalField = field === null ? null : (original.fields[index] ?? null);
      const severity = severityOf(original, originalField);
      const id = ruleId(change.change, severity);
      // The name of the file would reveal a masked id.
      const file = report.id === original.id ? options.fileOf?.(original) : undefined;
      return {
        ruleId: id,
        ruleIndex: RULES.findIndex((rule) => rule.id === id),
        level: LEVEL[severity],
        message: { text: message(report, section, field) },
        locations: [location(report, section, field, file)],
        partialFingerprints: {
          'tidemarkPlace/v1': placeFingerprint(source, original, originalField),
          ...defined({ 'tidemark/v2': options.fingerprintOf?.(original, originalField) }),
        },
      };
    });
  });
}

function message({ change, name }: ReportChange, { definition }: Section, field: FieldChange | null): string {
  const subject = `${definition.title.one} ${name}`;
  return field === null ? `${subject} was ${change.change}` : `${subject}: ${fieldLine(field, VALUE_LIMIT)}`;
}

/** The record's file, or an invented one (GitHub drops results without a file), and the logical location. */
function location(
  { change, name, id }: ReportChange,
  { definition }: Section,
  field: FieldChange | null,
  file: { readonly path: string; readonly line: number } | undefined,
): object {
  const scope = SCOPE_KEYS.map((key) => change.scope[key]).filter((value) => value !== undefined);
  const parts = file === undefined ? [definition.kind, ...scope, id] : file.path.split('/');
  const uri = parts.map((part) => encodeURIComponent(part.toWellFormed())).join('/');
  return {
    physicalLocation: { artifactLocation: { uri }, region: { startLine: file?.line ?? 1 } },
    logicalLocations: [
      {
        name,
        fullyQualifiedName:
          nameText([definition.kind, ...scope, id].join('/')) + (field === null ? '' : pathText(field)),
        kind: field === null ? 'object' : 'property',
      },
    ],
  };
}
