/** A diff as a report: masked, grouped by kind, the most severe changes first. */
import { type Severity, SEVERITIES } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { defined } from '../core/defined.ts';
import { groupsBy } from '../core/group.ts';
import { isJsonObject } from '../core/json.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { DriftSummary, Finding } from '../diff/drift.ts';
import { type SeverityOf, changeSeverity, compareSeverities, severities } from '../diff/severity.ts';
import {
  type Item,
  type Notice,
  type RecordsPart,
  type ReportDocument,
  type Stat,
  BY_SEVERITY,
  CHANGES,
  SEVERITY_SIGN,
  SIGN,
  listPart,
  noticePart,
  recordsPart,
  withCommands,
} from './document.ts';
import { maskedFinding } from './drift-document.ts';
import { maskedChange, withMaskedId } from './mask.ts';
import {
  acceptedOnOneLine,
  changeText,
  formLine,
  FORMS_HEADING,
  hidingLines,
  isInDoubt,
  namedPlaces,
  parentTexts,
  readingsThatMayHideChanges,
  skippedText,
  toTheSecond,
} from './notes.ts';
import type { ReportOptions } from './options.ts';
import { nameText } from './value-text.ts';

/** The diff for people. */
export function diffReport(document: DiffDocument, options: ReportOptions): ReportDocument {
  const { title, lead, next, notes, forms = [], generatedAt } = options;
  const sections = sectionsOf(document, options);
  const skipped = skippedNotice(document, options);
  const isEqual = document.changes.length === 0 && document.compared.collections > 0;
  return {
    title: title ?? 'Configuration changes',
    ...(title === undefined ? {} : { textTitle: 'line' }),
    states: { from: document.from, to: document.to },
    summary: lead === undefined ? summaryText(document) : `${lead}; ${besideText(document)}`,
    ...(isEqual && skipped === null ? { tone: 'good' } : {}),
    detail: comparedText(document),
    ...defined({ notes, next: next?.map(withCommands), generatedAt }),
    stats: [
      severityStats(sections, options),
      {
        label: 'By kind of change',
        stats: CHANGES.filter((change) => document.summary[change] > 0).map((change) => ({
          value: formatInteger(document.summary[change]),
          sign: SIGN[change],
          label: `${document.summary[change] === 1 ? 'record' : 'records'} ${change}`,
          tone: change,
        })),
      },
    ],
    parts: [
      ...listPart(FORMS_HEADING, forms.map(formLine), { isFolded: true }),
      ...(skipped === null ? [] : [skipped]),
      ...sections.map((section) => sectionPart(section, severityIn(options))),
      ...recordsPart('Accepted', acceptedItems(options)),
      ...recordsPart('Ignored by rule', ignoredItems(options)),
    ],
  };
}

/** A diff counts each record once, with its highest severity; drift counts each finding. */
function severityStats(
  sections: readonly Section[],
  { findings }: ReportOptions,
): { readonly label: string; readonly stats: Stat[] } {
  const unit = findings === undefined ? 'record' : 'finding';
  const all = findings ?? sections.flatMap(({ changes }) => changes);
  return {
    label: BY_SEVERITY[unit],
    stats: SEVERITIES.flatMap((severity) => {
      const amount = all.filter((each) => each.severity === severity).length;
      const label = `${severity} ${unit}${amount === 1 ? '' : 's'}`;
      const stat = { value: formatInteger(amount), sign: SEVERITY_SIGN[severity], label, tone: severity };
      return amount === 0 ? [] : [stat];
    }),
  };
}

function sectionPart({ definition, changes }: Section, severityOf: SeverityOf): RecordsPart {
  return {
    type: 'records',
    heading: definition.title.many,
    kind: definition.kind,
    singular: definition.title.one,
    layout: 'blocks',
    foldedIn: ['markdown'],
    groups: [{ items: changes.map((change) => itemOf(change, definition, severityOf)) }],
  };
}

function itemOf(
  { change, original, severity, name, id, place }: ReportChange,
  definition: ResourceDefinition,
  severityOf: SeverityOf,
): Item {
  const worst = change.fields.find(
    (_field, index) => severityOf(original, original.fields[index] ?? null) === severity,
  );
  return {
    kind: definition.kind,
    change: change.change,
    outcome: changeText({ ...change, id }),
    ...{ name, severity, id, place },
    fields: fieldsForPeople(change, definition),
    isWholeRecord: change.change !== 'changed',
    ...defined({ worstField: worst }),
  };
}

/** Accepted findings: the fields of a record that were accepted together are one item. */
function acceptedItems(options: ReportOptions): Item[] {
  const settled = (options.accepted ?? []).map(({ finding, acceptance }) => ({
    finding,
    line: acceptedOnOneLine(acceptance, options.timeText ?? toTheSecond),
    together: [acceptance.by, acceptance.via, acceptance.acceptedAt],
  }));
  return settledItems(settled, options);
}

/** Findings that rules of the configuration ignore. */
function ignoredItems(options: ReportOptions): Item[] {
  const settled = (options.ignored ?? []).map(({ finding, rule }) => ({
    finding,
    line: `severity ${finding.severity}, ignored by rule: ${nameText(rule.reason)}`,
    together: [rule.kind, rule.id, rule.path],
  }));
  return settledItems(settled, options);
}

/** A finding that is not open, and why. */
interface Settled {
  readonly finding: Finding;
  readonly line: string;
  /** Findings of a record for which this and the line are equal are one item. */
  readonly together: readonly (string | undefined)[];
}

function settledItems(settled: readonly Settled[], options: ReportOptions): Item[] {
  const isShown = options.showsSecrets === true;
  const shown = settled.map((each) => ({
    ...each,
    shown: isShown ? each.finding : maskedFinding(options, each.finding),
  }));
  const groups = groupsBy(shown, ({ finding: { kind, scope, id, change }, line, together }) =>
    JSON.stringify([kind, scopeKey(scope), id, change, line, together]),
  );
  return groups.map((group) => {
    const [{ shown: first, line }] = group;
    const { kind, scope, id, name, change } = first;
    const definition = options.definitions(kind);
    const fields = group.flatMap((each) => fieldsOf(each.shown));
    return {
      ...{ kind, change, outcome: change },
      operation: definition.title.one,
      ...{ name: nameText(name), id: nameText(id), place: parentTexts(scope, options), lines: [line] },
      fields: fieldsForPeople({ change, fields }, definition),
      isWholeRecord: change !== 'changed',
    };
  });
}

/** The field of a finding; of an added or removed record, all its fields. */
function fieldsOf({ change, path, place, moved, from, to }: Finding): FieldChange[] {
  if (change === 'changed') return [{ path, ...defined({ place, moved, from, to }) }];
  const side = from === undefined ? 'to' : 'from';
  const whole = from ?? to;
  if (!isJsonObject(whole)) return [];
  return Object.entries(whole).map(([pointer, value]) => ({ path: pointer, [side]: value }));
}

// A diff prepared for all formats, including those for machines.

export interface ReportChange {
  /** Secrets are masked, unless they are to be shown. Texts are not escaped yet. */
  readonly change: RecordChange;
  /** Unmasked: for fingerprints, never for output. */
  readonly original: RecordChange;
  readonly severity: Severity;
  /** Display name, one line, escaped and folded. */
  readonly name: string;
  /** The same for the id, which is masked if it is secret. */
  readonly id: string;
  /** The parents, names before ids, escaped; empty for root records. */
  readonly place: readonly string[];
}

export interface Section {
  readonly definition: ResourceDefinition;
  readonly changes: readonly ReportChange[];
}

/** The severities that the options put in force. */
export function severityIn(options: ReportOptions): SeverityOf {
  return options.severityOf ?? severities(options.definitions);
}

/** A section for each kind with changes, in the order of the catalog, or of their most severe change. */
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
  if (options.isWorstFirst !== true) return sections;
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
  // The id may also serve as the name.
  const { id, name } = isShown ? original : withMaskedId(original, definition);
  return {
    change: isShown ? original : maskedChange(original, definition),
    original,
    severity: changeSeverity(original, severityOf),
    name: nameText(name),
    id: nameText(id),
    place: parentTexts(original.scope, optionsOfSide(original, options)),
  };
}

/** The options with the names of parents in the state that has the record: FROM for a removed one. */
function optionsOfSide({ change }: RecordChange, options: ReportOptions): ReportOptions {
  const { removedParentName: parentName } = options;
  return change === 'removed' && parentName !== undefined ? { ...options, parentName } : options;
}

/**
 * E.g. `1 record added, 2 removed, 3 changed`, or `No differences`. Says so if something was skipped or is not fresh: then
 * the states may not be equal.
 */
export function summaryText(document: MaybeNarrowed): string {
  const { summary, compared } = document;
  const counts = CHANGES.filter((change) => summary[change] > 0).map((change, index) =>
    index === 0
      ? `${plural(summary[change], 'record')} ${change}`
      : `${formatInteger(summary[change])} ${change}`,
  );
  if (compared.collections === 0 && compared.records === 0) return 'Nothing was compared';
  if (counts.length > 0) return counts.join(', ');
  const nothing = settledCounts({ ...summary, held: 0 }).length > 0 ? 'Nothing open' : 'No differences';
  return isInDoubt(document) ? `${nothing} in what could be compared` : nothing;
}

/** The summary after `lead`. */
function besideText(document: MaybeNarrowed): string {
  const text = summaryText(document).replace(/^No differences/, 'No other differences');
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** A diff, or drift, whose summary also counts records with differences that are not open. */
type MaybeNarrowed = Omit<DiffDocument, 'summary'> & {
  readonly summary: DiffDocument['summary'] & Partial<Pick<DriftSummary, (typeof SETTLED)[number][0]>>;
};

const SETTLED = [
  ['held', 'missing with their removal held'],
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
 * E.g. `1,204 records in 14 collections compared, 1,198 unchanged`; if some differ but are not open, or are missing: `8
 * records in 2 collections compared: 7 unchanged, 1 accepted`.
 */
export function comparedText({ compared, summary }: MaybeNarrowed): string {
  const settled = settledCounts(summary);
  const equal = `${formatInteger(summary.unchanged)} unchanged`;
  const all = `${plural(compared.records, 'record')} in ${plural(compared.collections, 'collection')} compared`;
  return settled.length === 0 ? `${all}, ${equal}` : `${all}: ${[equal, ...settled].join(', ')}`;
}

/** Null if everything was compared, in its current state. */
export function skippedNotice(
  document: Pick<DiffDocument, 'skipped' | 'stale'>,
  options: ReportOptions,
): Notice | null {
  if (!isInDoubt(document)) return null;
  return noticePart('warning', `${skippedSummary(document)}, so this may not be everything`, [
    ...document.skipped.map((skipped) => skippedText(skipped, options)),
    ...hidingLines(document, options.definitions, { placeOf: namedPlaces(options) }),
  ]);
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
    [partial, '', 'incomplete'],
  ] as const;
  return counts
    .filter(([amount]) => amount > 0)
    .map(
      ([amount, before, after], index) =>
        `${before}${index === 0 ? plural(amount, 'collection') : formatInteger(amount)} ${after}`,
    )
    .join(', ');
}

/** The fields of an added or removed record, writable ones first: people know it by these. */
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
