/**
 * A report as plain data: built once from a diff, a plan, a restore, a drill or a period, then rendered as text, Markdown or
 * HTML. Texts may contain anything that a record contains: each renderer escapes what it writes. Secrets are already masked.
 */
import type { Severity } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { JsonObject } from '../core/json.ts';
import type { RecordChange, StateReference } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';

/** A sentence; a part in `code` is a command, a path or a value, to be copied exactly. */
export type Text = string | readonly (string | { readonly code: string })[];

/** The text with its parts as these functions write them. */
export function joinText(
  text: Text,
  plain: (words: string) => string,
  code: (code: string) => string,
): string {
  const parts = typeof text === 'string' ? [text] : text;
  return parts.map((part) => (typeof part === 'string' ? plain(part) : code(part.code))).join('');
}

/** A command, an option or a value in backquotes, without a space at either end: that is text between two of them. */
const CODE = /`([^\s`](?:[^`\n]*[^\s`])?)`/;

/** Text of the program, with everything in backquotes as code. */
export function withCommands(text: string): Text {
  return text
    .split(CODE)
    .map((part, index) => (index % 2 === 1 ? { code: part } : part))
    .filter((part) => part !== '');
}

/** `unchanged`: a record that is only named, without colour. */
export type Change = RecordChange['change'] | 'unchanged';

type Tone = 'good' | 'warning' | 'bad';

/** One number with what it counts. */
export interface Stat {
  readonly value: string;
  readonly sign: string;
  readonly label: string;
  /** A class of the style sheet, for colour. */
  readonly tone: RecordChange['change'] | Severity | '';
}

/** One record: a change, a step of a plan, its result, or a task. */
export interface Item {
  readonly kind: Kind;
  readonly change: Change;
  readonly name: string;
  /** The number of a step. */
  readonly number?: number;
  readonly sign?: string;
  /** Before the name, e.g. `create role`. */
  readonly operation?: string;
  /** After the name, e.g. `changed`. */
  readonly outcome?: string;
  /** A short tag in colour, e.g. the verdict of a drill. */
  readonly tag?: Stat;
  readonly severity?: Severity;
  readonly id?: string;
  /** What `id` is, if it is not the current id of the record. */
  readonly idLabel?: string;
  /** The parents of the record. */
  readonly place?: readonly string[];
  /** E.g. `PATCH /api/…`. */
  readonly request?: string;
  /** What the request sends, if it is not listed as fields. */
  readonly body?: JsonObject;
  readonly lines?: readonly Text[];
  readonly fields?: readonly FieldChange[];
  /** Other fields of the record, folded: HTML only. */
  readonly foldedFields?: readonly FieldChange[];
  /** True if the fields are those of an added or removed record: then only few of them, or none, are shown unfolded. */
  readonly isWholeRecord?: boolean;
  /** The field that makes the record as severe as it is. */
  readonly worstField?: FieldChange;
  /** What to do about it. */
  readonly hint?: string;
}

/** Something about the report that the reader must not miss. */
export interface Notice {
  readonly type: 'notice';
  readonly tone: Exclude<Tone, 'good'> | 'note';
  /** True for one of several notices: it begins with the sign of its tone. */
  readonly isListed?: boolean;
  readonly text: string;
  readonly items: readonly string[];
  readonly hint?: string;
}

/** Records under a heading; those of one group share a reason. */
export interface RecordsPart {
  readonly type: 'records';
  /** Without one, the records belong to the part before. */
  readonly heading?: string;
  /** True for a heading one level down. */
  readonly isBelow?: boolean;
  /** The kind of all records, if they are of one kind, and its name for one record. */
  readonly kind?: Kind;
  readonly singular?: string;
  readonly groups: readonly { readonly reason?: string; readonly items: readonly Item[] }[];
  /** Further records that text only counts, and a line for those that are alike. */
  readonly counted?: { readonly records: number; readonly lines: readonly string[] };
  /** `blocks`: a paragraph for each record; `lines`: a line; `tasks`: a line to tick off. */
  readonly layout: 'blocks' | 'lines' | 'tasks';
  /** The formats in which it is folded; text leaves it out. */
  readonly foldedIn?: readonly ('text' | 'html' | 'markdown')[];
}

export interface ListPart {
  readonly type: 'list';
  /** Without one, the list belongs to the part before. */
  readonly heading?: string;
  readonly isBelow?: boolean;
  readonly intro?: string;
  readonly items: readonly Text[];
  readonly isChecklist?: boolean;
  readonly isFolded?: boolean;
}

export interface TablePart {
  readonly type: 'table';
  /** Without one, the table belongs to the part before. */
  readonly heading?: string;
  readonly columns: readonly string[];
  /** By default, all columns but the first are numbers. */
  readonly align?: readonly Align[];
  /** True if the last column has values of any length, as JSON: text and Markdown fold each. */
  readonly hasValues?: boolean;
  /** Iterated as often as a format needs: there may be more rows than fit in memory. */
  readonly rows: Iterable<readonly string[]>;
  readonly total?: readonly string[];
  /** What to do about what it shows. */
  readonly hint?: string;
}

export type Align = 'left' | 'right';

/** The alignment of each column. */
export function alignmentOf({ columns, align }: Pick<TablePart, 'columns' | 'align'>): Align[] {
  return columns.map(
    (_name, index) => align?.[index] ?? (align === undefined && index > 0 ? 'right' : 'left'),
  );
}

/** Kinds with details of each, folded in HTML. */
export interface KindsPart {
  readonly type: 'kinds';
  readonly heading: string;
  readonly kinds: readonly KindFacts[];
}

export interface KindFacts {
  readonly kind: Kind;
  readonly heading: string;
  readonly fact: string;
  readonly lines: readonly (Stat & { readonly text: string })[];
  readonly table: Omit<TablePart, 'type'> | null;
}

interface CodePart {
  readonly type: 'code';
  readonly intro: string;
  readonly language: string;
  readonly lines: readonly string[];
}

/** Charts, for HTML only; the tables have the numbers. */
interface ChartPart {
  readonly type: 'chart';
  readonly heading: string;
  readonly html: string;
}

export type Part = Notice | RecordsPart | ListPart | TablePart | KindsPart | CodePart | ChartPart;

/** A fact in one line; facts with labels are in two columns. */
export type Fact = string | readonly [label: string, value: string];

export interface ReportDocument {
  readonly title: string;
  /** How text output shows the title: on its own line, or before the summary; not at all without this. */
  readonly textTitle?: 'line' | 'label';
  /** The two states compared. */
  readonly states?: { readonly from: StateReference; readonly to: StateReference };
  /** A summary in one line. */
  readonly summary: string;
  readonly tone?: Tone;
  /** Shown beside the summary. */
  readonly detail?: string;
  /** Further facts, a line each. */
  readonly facts?: readonly Fact[];
  readonly notes?: readonly string[];
  /** When the report was made, ISO 8601. */
  readonly generatedAt?: string;
  /** Numbers to see first, by what they count. */
  readonly stats?: readonly { readonly label: string; readonly stats: readonly Stat[] }[];
  readonly parts: readonly Part[];
  /** What to do next. */
  readonly next?: readonly Text[];
}

/** The kinds of change, in the order of reports. */
export const CHANGES = ['added', 'removed', 'changed'] as const;

/** One sign per kind of change, to be distinguished without colour. */
export const SIGN: Readonly<Record<RecordChange['change'], string>> = {
  added: '+',
  removed: '-',
  changed: '~',
};

/** One sign per tone of a notice. */
export const TONE_SIGN: Readonly<Record<Notice['tone'], string>> = { bad: '✗', warning: '!', note: '·' };

/** The labels of the stats by severity: drift counts findings, a diff records. */
export const BY_SEVERITY = { finding: 'Findings by severity', record: 'Records by severity' } as const;

export const SEVERITY_SIGN: Readonly<Record<Severity, string>> = {
  critical: '▲▲',
  high: '▲',
  medium: '◆',
  low: '·',
};

/** For a heading. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** All records of the report. */
export function itemsOf(document: ReportDocument): Item[] {
  return document.parts.flatMap((part) => (part.type === 'records' ? recordsIn(part) : []));
}

/** The records of a part, whatever their group. */
export function recordsIn({ groups }: RecordsPart): Item[] {
  return groups.flatMap(({ items }) => items);
}

/** A list under a heading; no part without items. */
export function listPart(heading: string, items: readonly Text[], more: Partial<ListPart> = {}): ListPart[] {
  return items.length === 0 ? [] : [{ type: 'list', heading, items, ...more }];
}

/** Records under a heading, a paragraph each; no part without records. */
export function recordsPart(
  heading: string,
  items: readonly Item[],
  more: Partial<RecordsPart> = {},
): RecordsPart[] {
  return items.length === 0
    ? []
    : [{ type: 'records', heading, layout: 'blocks', groups: [{ items }], ...more }];
}

/** Lines to copy; no part without lines. */
export function codePart(intro: string, language: string, lines: readonly string[]): CodePart[] {
  return lines.length === 0 ? [] : [{ type: 'code', intro, language, lines }];
}

export function noticePart(
  tone: Notice['tone'],
  text: string,
  items: readonly string[],
  hint?: string,
): Notice {
  return { type: 'notice', tone, text, items, ...(hint === undefined ? {} : { hint }) };
}

/** The mapped items; each iteration maps them again. */
export function eachOf<Item, Made>(items: Iterable<Item>, change: (item: Item) => Made): Iterable<Made> {
  return {
    *[Symbol.iterator]() {
      for (const item of items) yield change(item);
    },
  };
}
