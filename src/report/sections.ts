/** A diff prepared for people: masked, grouped by kind, worst first. Every rendering starts from it. */
import { type Severity, SCOPE_KEYS, SEVERITIES } from '../catalog/definition.ts';
import { KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { DiffDocument, RecordChange, StateReference } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { DriftSummary } from '../diff/drift.ts';
import { type SeverityOf, changeSeverity, compareSeverities, severities } from '../diff/severity.ts';
import { maskedChange, withMaskedId } from './mask.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { hidingLines, readingsThatMayHideChanges } from './not-fresh.ts';
import type { ReportOptions } from './options.ts';
import { folded } from './value-text.ts';

export interface ReportChange {
  /** With secrets masked, unless they are shown. Texts are as the record holds them: still to be neutralised. */
  readonly change: RecordChange;
  /** As compared: for fingerprints, never for output. */
  readonly original: RecordChange;
  readonly severity: Severity;
  /** Display name, one line, neutralised and folded. */
  readonly name: string;
  /** The id, likewise; masked where the id is the secret. */
  readonly id: string;
  /** The parents, names before ids, neutralised; empty for root records. */
  readonly place: string;
}

export interface Section {
  readonly definition: ResourceDefinition;
  readonly changes: readonly ReportChange[];
}

const NAME_LIMIT = 200; // characters of a name, an id or a pointer: a record may be called anything

/** A name or id on one line. */
export function nameText(name: string): string {
  return folded(escapeControlCharacters(name), NAME_LIMIT);
}

/** The pointer of a change on one line. */
export function pathText(field: FieldChange): string {
  return field.path === '' ? '(whole record)' : nameText(field.path);
}

/** The severities that the options put in force. */
export function severityIn(options: ReportOptions): SeverityOf {
  return options.severityOf ?? severities(options.definitions);
}

/** A diff as every rendering for people begins: texts are ready, nothing in them is secret. */
export interface Report {
  /** E.g. `1 added, 2 removed, 3 changed`. */
  readonly summary: string;
  /** E.g. `1,204 records in 14 collections compared, 1,198 unchanged`. */
  readonly compared: string;
  readonly from: string;
  readonly to: string;
  /** One line each for what could not be compared, or was compared as last read and may hide a change. */
  readonly skipped: readonly string[];
  /** What these are, for a line above them. */
  readonly skippedSummary: string;
  readonly sections: readonly Section[];
  /** How many records changed per severity, worst first; without zeros. */
  readonly bySeverity: readonly { readonly severity: Severity; readonly count: number }[];
}

/** Prepares a diff for people. */
export function prepareReport(document: DiffDocument, options: ReportOptions): Report {
  const sections = sectionsOf(document, options);
  const all = sections.flatMap(({ changes }) => changes);
  return {
    summary: summaryText(document),
    compared: comparedText(document),
    from: referenceText(document.from),
    to: referenceText(document.to),
    skipped: [
      ...document.skipped.map((skipped) => skippedText(skipped, options)),
      ...hidingLines(document, options.definitions).map(escapeControlCharacters),
    ],
    skippedSummary: skippedSummary(document),
    sections,
    bySeverity: SEVERITIES.map((severity) => ({
      severity,
      count: all.filter((change) => change.severity === severity).length,
    })).filter(({ count }) => count > 0),
  };
}

/** One section per kind that has changes, in the order of the catalog, or of their worst change. */
export function sectionsOf(document: DiffDocument, options: ReportOptions): Section[] {
  const severityOf = severityIn(options);
  const byKind = Map.groupBy(document.changes, (change) => change.kind);
  const sections = KINDS.flatMap((kind) => {
    const changes = byKind.get(kind);
    if (changes === undefined) return [];
    const definition = options.definitions(kind);
    const prepared = changes.map((change) => prepare(change, definition, severityOf, options));
    return [{ definition, changes: prepared.sort((a, b) => compareSeverities(a.severity, b.severity)) }];
  });
  if (options.isGravestFirst !== true) return sections;
  const worst = ({ changes }: Section): Severity => changes[0]?.severity ?? 'low';
  return sections.sort((a, b) => compareSeverities(worst(a), worst(b)));
}

function prepare(
  original: RecordChange,
  definition: ResourceDefinition,
  severityOf: SeverityOf,
  options: ReportOptions,
): ReportChange {
  const isShown = options.showsSecrets === true;
  // A record without a name goes by its id, and then the name is just as secret.
  const { id, name } = isShown ? original : withMaskedId(original, definition);
  return {
    change: isShown ? original : maskedChange(original, definition),
    original,
    severity: changeSeverity(original, severityOf),
    name: nameText(name),
    id: nameText(id),
    place: placeText(original.scope, options),
  };
}

/** E.g. `organization Harbor (0189…), project 12`. */
export function placeText(scope: RecordChange['scope'], options: ReportOptions): string {
  return SCOPE_KEYS.flatMap((key) => {
    const id = scope[key];
    if (id === undefined) return [];
    const kind = SCOPE_KIND[key];
    const name = options.parentName?.(kind, id);
    const title = options.definitions(kind).title.one;
    return [`${title} ${name === undefined ? nameText(id) : `${nameText(name)} (${nameText(id)})`}`];
  }).join(', ');
}

/** One sign per kind of change, to be distinguished without colour. */
export const SIGN: Readonly<Record<RecordChange['change'], string>> = {
  added: '+',
  removed: '-',
  changed: '~',
};

/** E.g. `production: run 41, 2026-03-01T07:00:00.000Z`, whatever of it is known. */
export function referenceText(reference: StateReference): string {
  const parts = [
    reference.run === undefined || reference.ref === `run:${reference.run}` ? null : `run ${reference.run}`,
    reference.at === undefined || reference.ref === reference.at ? null : reference.at,
  ].filter((part) => part !== null);
  const source = reference.source === undefined ? '' : `${reference.source}: `;
  return escapeControlCharacters(
    `${source}${reference.ref}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`,
  );
}

/**
 * E.g. `1 added, 2 removed, 3 changed`, or that there is no difference. Never claims equality for what was skipped or is
 * not fresh.
 */
export function summaryText(document: MaybeNarrowed): string {
  const { summary, compared } = document;
  const counts = [
    summary.added > 0 ? `${summary.added} added` : null,
    summary.removed > 0 ? `${summary.removed} removed` : null,
    summary.changed > 0 ? `${summary.changed} changed` : null,
  ].filter((count) => count !== null);
  if (compared.collections === 0 && compared.records === 0) return 'Nothing was compared';
  if (counts.length > 0) return counts.join(', ');
  const nothing = settledCounts(summary).length > 0 ? 'Nothing open' : 'No differences';
  return isInDoubt(document) ? `${nothing} in what could be compared` : nothing;
}

/** A diff; one that drift narrowed also says how many records differ with nothing of that open. */
type MaybeNarrowed = Omit<DiffDocument, 'summary'> & {
  readonly summary: DiffDocument['summary'] & Partial<Pick<DriftSummary, (typeof SETTLED)[number][0]>>;
};

const SETTLED = [
  ['accepted', 'accepted'],
  ['ignored', 'ignored by rule'],
  ['below_threshold', 'below the threshold'],
  ['reshaped', 'different in form only'],
] as const;

function settledCounts(summary: MaybeNarrowed['summary']): string[] {
  return SETTLED.flatMap(([key, word]) => {
    const amount = summary[key] ?? 0;
    return amount === 0 ? [] : [`${formatInteger(amount)} ${word}`];
  });
}

/**
 * E.g. `1,204 records in 14 collections compared, 1,198 unchanged`; where some differ with nothing open:
 * `8 records in 2 collections compared: 7 unchanged, 1 accepted`.
 */
export function comparedText({ compared, summary }: MaybeNarrowed): string {
  const settled = settledCounts(summary);
  const equal = `${formatInteger(summary.unchanged)} unchanged`;
  const all = `${plural(compared.records, 'record')} in ${plural(compared.collections, 'collection')} compared`;
  return settled.length === 0 ? `${all}, ${equal}` : `${all}: ${[equal, ...settled].join(', ')}`;
}

/** E.g. `batch exports, organization 0189…: the key may not read them`. */
export function skippedText(skipped: DiffDocument['skipped'][number], options: ReportOptions): string {
  const place = placeText(skipped.scope, options);
  const title = options.definitions(skipped.kind).title.many;
  return `${title}${place === '' ? '' : `, ${place}`}: ${escapeControlCharacters(skipped.reason)}`;
}

/** True if something could not be compared, or not in its present state: exit code 3. */
export function isInDoubt(document: Pick<DiffDocument, 'skipped' | 'stale'>): boolean {
  return document.skipped.length > 0 || readingsThatMayHideChanges(document).length > 0;
}

/** E.g. `2 collections not compared, part of 1 more, 3 not fresh`; a colon and the reasons follow. */
function skippedSummary(document: Pick<DiffDocument, 'skipped' | 'stale'>): string {
  const hiding = readingsThatMayHideChanges(document);
  const parts = document.skipped.filter(({ name }) => name !== undefined).length;
  const whole = document.skipped.length - parts;
  const partial = hiding.filter((stale) => stale.is_partial === true).length;
  const counts = [
    [whole, '', 'not compared'],
    [parts, 'part of ', whole === 0 ? 'not compared' : 'more'],
    [hiding.length - partial, '', 'not fresh'],
    [partial, '', 'not whole'],
  ] as const;
  return counts
    .filter(([amount]) => amount > 0)
    .map(
      ([amount, before, after], index) =>
        `${before}${index === 0 ? plural(amount, 'collection') : formatInteger(amount)} ${after}`,
    )
    .join(', ');
}

/** The fields of a record that came or went with what a person knows it by first: writable ones, then the rest. */
export function fieldsForPeople(
  change: Pick<RecordChange, 'change' | 'fields'>,
  definition: ResourceDefinition,
): readonly FieldChange[] {
  if (change.change === 'changed') return change.fields;
  const writable = new Set(
    definition.fields.filter((field) => field.isWritable).map((field) => `/${field.name}`),
  );
  const rank = (field: FieldChange): number => (writable.has(field.path) ? 0 : 1);
  return change.fields.toSorted((a, b) => rank(a) - rank(b));
}
