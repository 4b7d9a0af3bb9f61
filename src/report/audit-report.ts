/** The audit log as a report, as CSV, and as the JSON document `tidemark.audit_log/1`. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { AuditAction } from '../mirror/audit-actions.ts';
import type {
  AcceptedRemovalsEntry,
  AuditLogEntry,
  AuditSubject,
  RemovalsSubject,
} from '../mirror/audit-entries.ts';
import { eachOf, noticePart, type ReportDocument } from './document.ts';
import { measuredCells, measuredFromText, measuredText } from './drift-document.ts';
import { csvLine } from './export/documents.ts';
import { byText, nameText } from './value-text.ts';

/** An entry with secret ids masked. */
export interface ShownEntry extends AuditLogEntry {
  /** Null if it is about several sources. */
  readonly source: string | null;
  /** For an acceptance: the name of its record then, if the history has it. */
  readonly recordName: string | null;
  /** For a restore: the run of its state when the plan was made; null without one, and if it is unknown. */
  readonly fromRun: number | null;
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

interface AuditReportOptions {
  /** E.g. `from 2026-03-01 to …`. */
  readonly period: string;
  readonly generatedAt: string;
  /** How times are written. */
  readonly timeText: (at: string) => string;
  /** True if entries are about different sources. */
  readonly namesSource: boolean;
  /** The number of entries. */
  readonly count: number;
  /** A sentence for each contradiction, and last what to do; empty without contradictions. */
  readonly contradicted?: readonly string[];
  readonly head?: AuditHead | null;
  /** True shows number and hash of each entry: for a file that somebody may compare later. */
  readonly hasHashes?: boolean;
}

/** The newest seals, to compare the log with later. */
export interface AuditHead {
  readonly entry: number;
  readonly hash: string;
  /** The latest sealed run, and its root hash. */
  readonly run: number | null;
  readonly root: string | null;
}

/** The audit log for people. @param entries iterated as often as the format needs */
export function auditReport(
  entries: Iterable<ShownEntry>,
  {
    period,
    generatedAt,
    timeText,
    namesSource,
    count: entryCount,
    contradicted = [],
    head = null,
    hasHashes = false,
  }: AuditReportOptions,
): ReportDocument {
  const rows = eachOf(entries, (entry) => [
    ...(hasHashes ? [String(entry.entry)] : []),
    timeText(entry.at),
    byText(entry),
    entry.isAltered ? `${entry.action} (entry ${entry.entry} ALTERED)` : entry.action,
    subjectText(entry),
    ...(hasHashes ? [entry.hash] : []),
    detailText(entry, timeText),
    ...(namesSource ? [entry.source ?? '·'] : []),
  ]);
  const columns = [
    ...(hasHashes ? ['entry'] : []),
    ...['at', 'by', 'action', 'what'],
    ...(hasHashes ? ['hash'] : []),
    'details',
    ...(namesSource ? ['source'] : []),
  ];
  return {
    title: 'Audit log',
    textTitle: 'label',
    summary: plural(entryCount, 'entry', 'entries'),
    detail: period,
    facts: sealFacts(head),
    notes: head === null ? [] : [SEALS_NOTE],
    generatedAt,
    parts: [
      ...(contradicted.length === 0
        ? []
        : [noticePart('bad', ALTERED_TEXT, contradicted.slice(0, -1), contradicted.at(-1))]),
      ...(entryCount === 0
        ? []
        : [{ type: 'table' as const, columns, align: columns.map(() => 'left' as const), rows }]),
    ],
  };
}

const ALTERED_TEXT = 'The mirror of this audit log is not as it was written';

function sealFacts(head: AuditHead | null): [label: string, hash: string][] {
  if (head === null) return [];
  const { entry, hash, run, root } = head;
  return [
    [`audit log up to entry ${entry}`, hash],
    ...(root === null ? [] : [[`root hash of run ${run}`, root] as [string, string]]),
  ];
}

const SEALS_NOTE =
  'Each hash is of the entire log, also of newer entries that this report does not show. To check later that the log up to there is as it was, run `tidemark verify --root HASH` with one of these hashes: exit code 0 if it is.';

/** What the entry is about: `role Contractors /name`, `snapshot as-approved`, `restore 1`, `forget 1`; `mirror` for a move. */
export function subjectText({ subject, recordName, definitions }: ShownEntry): string {
  switch (subject.about) {
    case 'acceptance': {
      const record = `${definitions(subject.kind).title.one} ${nameText(recordName ?? subject.id)}`;
      return subject.path === '' ? record : `${record} ${nameText(subject.path)}`;
    }
    case 'snapshot':
      return `snapshot ${nameText(subject.name)}`;
    case 'restore':
      return `restore ${subject.restore}`;
    case 'forget':
      return subject.isMove ? 'mirror' : `forget ${subject.forget}`;
    case 'removals':
      return `run ${subject.run}`;
    case 'backup':
      return `backup ${nameText(subject.name)}`;
    case 'unreadable':
      return 'not readable';
  }
}

/** Details of the entry, in one line. */
export function detailText(
  { action, subject, fromRun, definitions }: ShownEntry,
  timeText: (at: string) => string,
): string {
  switch (subject.about) {
    case 'acceptance': {
      const { reason, until, measured, path, withdrawalReason } = subject;
      const why = withdrawalReason === null ? '' : `withdrawn for: ${nameText(withdrawalReason)}; `;
      const accepted = action === 'unaccept' ? `accepted by ${byText(subject)}, ` : '';
      const value =
        measured === null ? '' : `; ${measuredText(measured, path)}, against ${measuredFromText(measured)}`;
      return `${why}${accepted}reason: ${nameText(reason)}${until === null ? '' : `; until ${timeText(until)}`}${value}`;
    }
    case 'snapshot':
      return `run ${subject.run}`;
    case 'restore':
      // Only a restore whose process died has no time of its end.
      if (action === 'end' && subject.outcome === 'interrupted' && subject.finishedAt === null)
        return 'interrupted: its process died; recorded by the process that noticed it';
      if (action === 'end' || action === 'abandon') return subject.outcome;
      if (action === 'look_up') return `before an undo: ${subject.outcome}`;
      return subject.undoes === null
        ? `from ${fromText(subject.from, fromRun)}`
        : `undoes restore ${subject.undoes}`;
    case 'forget': {
      const { runCount, sources } = subject;
      const runs = runCount === 0 ? 'no runs' : `${plural(runCount, 'run')}: ${rangesText(subject.runs)}`;
      if (!subject.isMove) return runs;
      return `made of a mirror of ${sources.join(', ')}${runCount === 0 ? '' : `, without ${runs}`}`;
    }
    case 'removals':
      return removalsText(subject, definitions);
    case 'backup':
      return `${subject.run === null ? '' : `run ${subject.run}, `}root ${subject.root}, said to be made ${timeText(subject.madeAt)}`;
    case 'unreadable':
      return '';
  }
}

/** `22 records, of at most 30: 12 batch exports, 1 project with 9 records below`. */
export function removalsText(
  { atMost, collections }: Pick<RemovalsSubject, 'atMost' | 'collections'>,
  definitions: ShownEntry['definitions'],
): string {
  const kinds = [...Map.groupBy(collections, ({ kind }) => kind)].map(([kind, group]) => {
    const { accepted, below, removed } = summed(group);
    const { one, many } = definitions(kind).title;
    const with_ = below === 0 ? '' : ` with ${plural(below, 'record')} below`;
    return `${plural(accepted, one, many)}${with_}${removed === accepted ? '' : ` (${formatInteger(removed)} removed)`}`;
  });
  const { accepted, below } = summed(collections);
  return `${plural(accepted + below, 'record')}, of at most ${formatInteger(atMost)}: ${kinds.join(', ')}`;
}

function summed(collections: RemovalsSubject['collections']) {
  const sum = (key: 'accepted' | 'below' | 'removed'): number =>
    collections.reduce((total, each) => total + each[key], 0);
  return { accepted: sum('accepted'), below: sum('below'), removed: sum('removed') };
}

/** `{run, source, at_most, accepted, below, removed, collections: [{kind, scope, accepted, below, removed}]}`, with sums. */
function removalsDocument({ run, source, atMost, collections }: RemovalsSubject): object {
  return { run, source, at_most: atMost, ...summed(collections), collections };
}

/** The removals that were accepted in a run, for documents of the run. */
export function acceptedDocument(accepted: AcceptedRemovalsEntry | undefined): object | null {
  if (accepted === undefined) return null;
  const { entry, by, via, subject } = accepted;
  return { entry, by, via, ...removalsDocument(subject) };
}

/** `baseline (run 3)`: the run of a name may change. */
function fromText(from: string, fromRun: number | null): string {
  return fromRun === null || from === `run:${fromRun}`
    ? nameText(from)
    : `${nameText(from)} (run ${fromRun})`;
}

/** `1–3, 7`. */
export function rangesText(ranges: readonly (readonly [number, number])[]): string {
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
}

const CSV_COLUMNS = [
  ...['entry', 'at', 'by', 'via', 'action', 'what', 'details', 'source'],
  ...['kind', 'id', 'path', 'from', 'to', 'baseline', 'reason', 'until'],
  ...['snapshot', 'run', 'restore', 'backup', 'root', 'hash', 'is_altered', 'withdrawal_reason'],
] as const;

type CsvCells = Partial<Record<(typeof CSV_COLUMNS)[number], string>>;

/**
 * A line for each entry, times in UTC; safe to open in a spreadsheet.
 * @param entries null for an entry that is left out, which yields an empty text
 */
export function* auditCsv(entries: Iterable<ShownEntry | null>): Generator<string> {
  yield csvLine(CSV_COLUMNS);
  for (const entry of entries) {
    if (entry === null) {
      yield '';
      continue;
    }
    const cells: CsvCells = {
      entry: String(entry.entry),
      at: entry.at,
      by: entry.by,
      via: entry.via,
      action: entry.action,
      what: subjectText(entry),
      details: detailText(entry, (at) => at),
      source: entry.source ?? '',
      ...subjectCells(entry.subject),
      hash: entry.hash,
      is_altered: String(entry.isAltered),
    };
    yield csvLine(CSV_COLUMNS.map((column) => cells[column] ?? ''));
  }
}

function subjectCells(subject: AuditSubject): CsvCells {
  switch (subject.about) {
    case 'acceptance': {
      const { kind, id, path, reason, until, measured, withdrawalReason } = subject;
      const cells = { kind, id, path, reason, until: until ?? '', withdrawal_reason: withdrawalReason ?? '' };
      return { ...cells, ...(measured === null ? {} : measuredCells(measured)) };
    }
    case 'snapshot':
      return { snapshot: subject.name, run: String(subject.run) };
    case 'removals':
      return { run: String(subject.run) };
    case 'restore':
      return { restore: String(subject.restore) };
    case 'backup':
      return { backup: subject.name, run: String(subject.run ?? ''), root: subject.root };
    case 'forget':
    case 'unreadable':
      return {};
  }
}

/**
 * `{entry, at, by, via, action, source, acceptance?, snapshot?, restore?, forget?, removals?, backup?, hash, is_altered}`; an
 * unreadable entry has nothing on its subject.
 */
export function auditEntryDocument(shown: ShownEntry): object {
  const { entry, at, by, via, action, source, hash, subject, isAltered } = shown;
  const about = subject.about === 'unreadable' ? {} : { [subject.about]: subjectDocument(shown, subject) };
  return { entry, at, by, via, action, source, ...about, hash, is_altered: isAltered };
}

function subjectDocument(
  { recordName, source, fromRun }: ShownEntry,
  subject: Exclude<AuditSubject, { readonly about: 'unreadable' }>,
): object {
  switch (subject.about) {
    case 'acceptance': {
      const { kind, scope, id, path, fingerprint, reason, acceptedAt, by, via, until, measured } = subject;
      return {
        ...{ kind, scope, id, name: recordName, path, fingerprint, reason },
        ...{ accepted_at: acceptedAt, by, via, until },
        ...(subject.withdrawalReason === null ? {} : { withdrawal_reason: subject.withdrawalReason }),
        measured,
      };
    }
    case 'snapshot': {
      const { name, run, pinnedAt, by, via, isBaseline } = subject;
      return { name, run, source, pinned_at: pinnedAt, by, via, is_baseline: isBaseline };
    }
    case 'restore': {
      const { restore, planHash, from, undoes, startedAt, by, via, finishedAt, outcome } = subject;
      const times = { started_at: startedAt, by, via, finished_at: finishedAt };
      return { restore, source, plan: planHash, from, from_run: fromRun, undoes, outcome, ...times };
    }
    case 'forget': {
      const { forget, sources, policy, runs, runCount } = subject;
      return { forget, sources, policy, runs, run_count: runCount };
    }
    case 'removals':
      return removalsDocument(subject);
    case 'backup': {
      const { name, run, root, madeAt, sources } = subject;
      return { name, run, root, made_at: madeAt, sources };
    }
  }
}

const ACTION_TEXTS: Partial<Record<AuditAction, string>> = {
  unaccept: 'withdraw acceptance',
  not_baseline: 'no longer baseline',
  end: 'end of restore',
  look_up: 'look up before undo',
  accept_removals: 'accept removals',
  move: 'move mirror',
  restore_backup: 'restore backup',
};

/** An action in words; documents and filters of commands use its name. */
export function auditActionText(action: AuditAction): string {
  return ACTION_TEXTS[action] ?? action;
}
