/** `tidemark verify --audit FILE`: compares a file that `tidemark audit` once wrote with the audit log. */
import { readFileSync } from 'node:fs';
import { parse as parseCsv } from 'csv-parse/sync';
import { MASK } from '../catalog/masks.ts';
import type { Config } from '../config/config.ts';
import { namesOf } from '../config/mirrors.ts';
import { EXIT, type ExitCode, TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import { AuditWalk } from '../daemon/http/audit-entries.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { auditCsv, auditEntryDocument, rangesText, type ShownEntry } from '../report/audit-report.ts';
import { foldedPair, nameText } from '../report/value-text.ts';

/** The cells of an entry by column; in JSON, also nested members, such as `acceptance/reason`. */
type Cells = ReadonlyMap<string, string>;

/** A file that `tidemark audit` wrote. */
interface AuditFile {
  readonly path: string;
  readonly form: 'csv' | 'json';
  /** In the order of the file. */
  readonly entries: readonly Cells[];
  /** The newest entry when a JSON file was written; null if the file has none, and for several mirrors. */
  readonly head: Head | null;
  /** In JSON of several mirrors, where each entry has a `mirror`: the heads of their logs, by source; else null. */
  readonly heads: ReadonlyMap<string, Head> | null;
}

interface Head {
  readonly entry: string;
  readonly hash: string;
  readonly root: string;
}

/** Reads the file. @throws TidemarkError `reference_unknown` if `tidemark audit` did not write it as CSV or JSON */
export function readAuditFile(path: string): AuditFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') throw noAuditFile(path, error, 'there is no file');
    throw asFileError(error, path, 'read');
  }
  // Some program turned the LF of each CRLF into CRLF. Only the first line is checked: reasons may have any line ends.
  if (/^[^\r\n]*\r\r\n/.test(text)) throw noAuditFile(path, undefined, 'line ends are doubled (CR CR LF) in');
  try {
    const file = text.startsWith('{') ? jsonFile(path, text) : csvFile(path, text);
    const isEntry = (cells: Cells): boolean =>
      /^[1-9]\d*$/.test(cells.get('entry') ?? '') &&
      ['hash', 'by', ...(file?.heads instanceof Map ? ['mirror'] : [])].every((column) => cells.has(column));
    if (file?.entries.every(isEntry) === true) return file;
  } catch (cause) {
    throw noAuditFile(path, cause);
  }
  throw noAuditFile(path);
}

function noAuditFile(path: string, cause?: unknown, what?: string): TidemarkError {
  const message = what === undefined ? `${path} is not an audit log as CSV or JSON` : `${what} ${path}`;
  return new TidemarkError('reference_unknown', message, {
    hint: 'name a file as `tidemark audit --format csv --output FILE` or `--format json` wrote it, which no other program has saved since',
    cause,
  });
}

function csvFile(path: string, text: string): AuditFile | null {
  const [head, ...rows]: string[][] = parseCsv(text);
  if (head?.includes('entry') !== true) return null;
  return { path, form: 'csv', head: null, heads: null, entries: rows.map((row) => rowCells(head, row)) };
}

function rowCells(head: readonly string[], row: readonly string[]): Cells {
  return new Map(head.map((column, index) => [column, row[index] ?? '']));
}

function jsonFile(path: string, text: string): AuditFile | null {
  const document = parseLossless(text);
  if (!isJsonObject(document) || document['schema'] !== 'tidemark.audit_log/1') return null;
  const { entries, head = null, heads = null } = document;
  if (!Array.isArray(entries) || !entries.every(isJsonObject)) return null;
  return {
    ...{ path, form: 'json', entries: entries.map(documentCells) },
    head: isJsonObject(head) ? headIn(documentCells(head)) : null,
    heads: Array.isArray(heads)
      ? new Map(
          heads
            .filter(isJsonObject)
            .map(documentCells)
            .map((cells) => [cells.get('mirror') ?? '', headIn(cells)]),
        )
      : null,
  };
}

function headIn(cells: Cells): Head {
  const [entry = '', hash = '', root = ''] = ['entry', 'hash', 'root'].map((name) => cells.get(name));
  return { entry, hash, root };
}

function documentCells(document: JsonObject): Cells {
  const cells = new Map<string, string>();
  for (const [name, value] of Object.entries(document)) {
    if (!isJsonObject(value)) cells.set(name, cellText(value));
    else for (const [inner, each] of Object.entries(value)) cells.set(`${name}/${inner}`, cellText(each));
  }
  return cells;
}

function cellText(value: JsonValue): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : canonicalText(value);
}

/** The cells that the same command would write for an entry now. */
function cellsNow(form: AuditFile['form'], entry: ShownEntry): Cells {
  if (form === 'json')
    return documentCells(parseLossless(JSON.stringify(auditEntryDocument(entry))) as JsonObject);
  const [head = [], row = []]: string[][] = parseCsv([...auditCsv([entry])].join(''));
  return rowCells(head, row);
}

interface Differing {
  readonly entry: number;
  readonly fields: readonly Difference[];
}

/** Null if one of the two has no such field. */
interface Difference {
  readonly field: string;
  readonly file: string | null;
  readonly log: string | null;
}

/** What `verify` prints of hashes or entries that were kept elsewhere. */
export interface NotedSeals {
  /** Members of the JSON document. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly lines: readonly string[];
  /** Why the exit code is not 0; empty if it is. */
  readonly reasons: readonly string[];
  readonly exitCode: ExitCode;
}

const ENTRIES_SHOWN = 20;
const TEXTS_SHOWN = 5;
const VALUE_SHOWN = 60; // characters

/**
 * Compares the entries. Exit 0 if each entry of the file is in the log, with the same hash and contents, in the same order; 1 if
 * not; 3 if only texts differ that no hash covers, if the file lacks entries of the log up to its last one, if entries are of a mirror
 * that is not verified here, or if the file is empty.
 * @param several the sources whose mirrors are verified together, and whether this is the first of them
 */
export function compareAuditFile(
  mirror: Mirror,
  config: Config,
  { file, others }: MirrorPart,
  several?: { readonly isFirst: boolean; readonly sources: readonly string[] },
): NotedSeals {
  const byEntry = new Map(file.entries.map((cells) => [Number(cells.get('entry')), cells]));
  const last = byEntry.keys().reduce((most, each) => Math.max(most, each), Number(file.head?.entry ?? 0));
  const known = new Set(file.entries.flatMap((cells) => [...cells.keys()]));
  const altered: Differing[] = [];
  const otherTexts: Differing[] = [];
  const missing: number[] = [];
  let newer = 0;
  let isMoved = false;
  let hasHashOfLog = byEntry.size === 0;
  const added = new Set(byEntry.keys());
  const always = { since: { at: '' }, until: { at: '\uFFFF' }, notes: [] };
  for (const shown of new AuditWalk(mirror, config, { period: always })) {
    const { entry, action, hash } = shown;
    const cells = byEntry.get(entry);
    if (entry > last) newer += 1;
    else if (cells === undefined) missing.push(entry);
    if (cells !== undefined) {
      added.delete(entry);
      hasHashOfLog ||= cells.get('hash') === hash;
      const fields = differences(cells, cellsNow(file.form, shown));
      const isSealed = fields.some((field) => isCovered(field, shown, { known, isMoved }));
      if (isSealed) altered.push({ entry, fields });
      else if (fields.length > 0) otherTexts.push({ entry, fields });
    }
    isMoved ||= action === 'move';
  }
  missing.reverse();
  const moved = file.entries.flatMap((cells, index) => {
    const [before, own] = [file.entries[index - 1]?.get('entry') ?? Infinity, cells.get('entry')];
    return Number(own) < Number(before) ? [] : [{ entry: Number(own), after: Number(before) }];
  });
  const hashes = headReasons(mirror, file);
  const wrong = [
    ...altered.map(alteredText),
    ...[...added].map((entry) => `entry ${entry} is not in the audit log`),
    ...moved.map(({ entry, after }) =>
      entry === after
        ? `entry ${entry} is there twice`
        : `entry ${entry} comes after entry ${after}: the newest come first`,
    ),
    ...hashes,
  ];
  const unasked = several === undefined ? [] : others.filter((name) => !several.sources.includes(name));
  const unread = [
    ...(missing.length === 0 ? [] : [missingText(missing)]),
    ...(byEntry.size === 0 ? ['it has no entry: nothing was compared'] : []),
    ...(several?.isFirst === true && unasked.length > 0
      ? [
          `${plural(unasked.length, 'entry', 'entries')} of ${namesOf([...new Set(unasked)])} ${unasked.length === 1 ? 'was' : 'were'} not compared: no such mirror is verified here`,
        ]
      : []),
  ];
  const more = wrong.length - ENTRIES_SHOWN;
  const same = byEntry.size - altered.length - otherTexts.length - added.size;
  const named = several === undefined ? file.path : `${file.path}, ${config.sources[0]?.name ?? ''}`;
  return {
    document: {
      audit_file: {
        ...{ file: file.path, same, altered, other_texts: otherTexts },
        ...{ added: [...added], missing, moved, head: hashes },
      },
    },
    lines: [
      `${plural(byEntry.size, 'entry', 'entries')} of ${file.path} compared: ${same} as in the audit log` +
        (otherTexts.length === 0 ? '' : `, ${otherTexts.length} with other names or texts`) +
        (altered.length === 0 ? '' : `, ${altered.length} altered`) +
        (added.size === 0 ? '' : `, ${added.size} not in it`) +
        (missing.length === 0 ? '' : `; ${missing.length} of the log not in the file`) +
        (newer === 0 ? '' : `; the log has ${plural(newer, 'newer entry', 'newer entries')}`) +
        (several !== undefined || others.length === 0
          ? ''
          : `; ${others.length} of another mirror (${[...new Set(others)].join(', ')}) not compared`),
    ],
    reasons: [
      ...[
        ...(hasHashOfLog
          ? []
          : [
              'no entry of it has a hash of this log: it is of another mirror, or from before a `mirror move`',
            ]),
        ...wrong.slice(0, ENTRIES_SHOWN),
        ...(more > 0 ? [`… and ${more} more: --json lists them`] : []),
        ...unread,
      ].map((reason) => `${named}: ${reason}`),
      ...otherTextLines(named, otherTexts),
    ],
    exitCode:
      wrong.length > 0 ? EXIT.failed : unread.length + otherTexts.length > 0 ? EXIT.partial : EXIT.done,
  };
}

/** The entries of a file that belong to one mirror. */
interface MirrorPart {
  readonly file: AuditFile;
  /** For each entry of another mirror, the name of that. */
  readonly others: readonly string[];
}

/**
 * The part of a file about the configured mirror.
 * @throws TidemarkError `reference_unknown` if it is not clear which entries of the file belong to which mirror
 */
export function partOf(file: AuditFile, { sources, mirror, rateLogBeside }: Config): MirrorPart {
  const names = sources.map(({ name }) => name);
  if (file.heads !== null) {
    const [name = '', ...more] = names;
    if (more.length > 0)
      throw unclear(
        file,
        'is of several mirrors, and this one is of several sources',
        'name one source with --source',
      );
    const isOwn = (cells: Cells): boolean => cells.get('mirror') === name;
    return {
      file: { ...file, entries: file.entries.filter(isOwn), head: file.heads.get(name) ?? null },
      others: file.entries.filter((cells) => !isOwn(cells)).map((cells) => cells.get('mirror') ?? ''),
    };
  }
  const isOfOther = (cells: Cells): boolean => !['', 'null', ...names].includes(cells.get('source') ?? '');
  // A file about one mirror has a head, unless entries of the log were altered.
  if (file.form === 'json' && file.head === null && mirror !== rateLogBeside && file.entries.some(isOfOther))
    throw unclear(
      file,
      'is of several mirrors, and does not say of which mirror each entry is',
      'compare a file that `tidemark audit --json` of this version wrote, or one of a single mirror (`--source`)',
    );
  return { file, others: [] };
}

function unclear({ path }: AuditFile, what: string, hint: string): TidemarkError {
  return new TidemarkError('reference_unknown', `${path} ${what}`, { hint });
}

function differences(file: Cells, log: Cells): Difference[] {
  return (
    [...new Set([...file.keys(), ...log.keys()])]
      .filter((field) => file.get(field) !== log.get(field) && field !== 'mirror')
      // Not a column that is empty in this entry, and that the version which wrote the file did not have.
      .filter((field) => file.has(field) || log.get(field) !== '')
      .map((field) => ({ field, file: file.get(field) ?? null, log: log.get(field) ?? null }))
  );
}

/** Fields that no hash covers: current names, and sentences of the program. */
const TEXTS: ReadonlySet<string> = new Set(['what', 'details', 'acceptance/name', 'restore/from_run']);
/** Fields with numbers of runs, which a move changes or leaves out. */
const NUMBERED: ReadonlySet<string> = new Set(['baseline', 'acceptance/measured', 'run', 'backup/run']);
/** Fields that are masked according to the current definitions. */
const MASKED: ReadonlySet<string> = new Set(
  ['id', 'path', 'measured'].map((name) => `acceptance/${name}`).concat('id', 'path', 'from', 'to'),
);

/**
 * True if the hash of the entry covers the field, so that a difference means that somebody altered it.
 * @param known all fields of the file's entries
 * @param isMoved true if the mirror was moved after the entry
 */
function isCovered(
  { field, file, log }: Difference,
  { subject: { about } }: ShownEntry,
  { known, isMoved }: { readonly known: ReadonlySet<string>; readonly isMoved: boolean },
): boolean {
  if (TEXTS.has(field)) return false;
  // The sources of a snapshot are those that the mirror has now.
  if (about === 'snapshot' && field.endsWith('source')) return false;
  if (isMoved && NUMBERED.has(field) && (about === 'acceptance' || about === 'backup')) return false;
  // Another version may write more fields, or fewer.
  if (file === null) return known.has(field);
  if (log === null) return false;
  return !MASKED.has(field) || ![file, log].some((cell) => cell.includes(MASK));
}

function alteredText({ entry, fields }: Differing): string {
  const parts = fields.map(({ field, file, log }) => {
    const [own, theirs] = foldedPair(quoted(file), quoted(log), VALUE_SHOWN);
    return `${nameText(field)} is ${own}, in the audit log ${theirs}`;
  });
  return `entry ${entry} is not as in the audit log: ${parts.join('; ')}`;
}

function otherTextLines(named: string, entries: readonly Differing[]): string[] {
  const [first, ...others] = entries;
  if (first === undefined) return [];
  const texts = entries.flatMap(({ entry, fields }) => fields.map((field) => ({ entry, ...field })));
  const more = texts.length - TEXTS_SHOWN;
  const [are, them] = others.length === 0 ? ['is', 'it'] : ['are', 'them'];
  return [
    `${named}: ${plural(entries.length, 'entry', 'entries')} ${are} in the audit log, with the same hash and the contents that it covers, but the log shows other names or texts for ${them} now:`,
    ...texts.slice(0, TEXTS_SHOWN).map(({ entry, field, file, log }) => {
      const [own, now] = foldedPair(quoted(file), quoted(log), VALUE_SHOWN);
      return `  entry ${entry}: ${nameText(field)} is ${own} in the file, now ${now}`;
    }),
    ...(more > 0 ? [`  … and ${more} more: --json lists them`] : []),
    '  → a later sync, forget or move, another configuration or another version explains that; without one, somebody altered the file there',
  ];
}

function quoted(cell: string | null): string {
  return cell === null ? 'missing' : JSON.stringify(cell);
}

function missingText(missing: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const entry of missing) {
    const range = ranges.at(-1);
    if (range?.[1] === entry - 1) range[1] = entry;
    else ranges.push([entry, entry]);
  }
  const them = missing.length === 1 ? ['entry', 'is', 'it was'] : ['entries', 'are', 'they were'];
  return `${them[0]} ${rangesText(ranges)} of the audit log ${them[1]} not in it: ${them[2]} removed, or it was written with --since, --until, --action, --by or --source`;
}

function headReasons(mirror: Mirror, { head }: AuditFile): string[] {
  if (head === null) return [];
  const find = (seal: string) => (/^[0-9a-f]{64}$/.test(seal) ? mirror.findSeal(seal) : undefined);
  const found = find(head.hash);
  const isEntry = found?.status === 'entry' && String(found.entry) === head.entry;
  const isRoot = head.root === 'null' || find(head.root) !== undefined;
  return [
    ...(isEntry ? [] : [`its head, entry ${head.entry} with hash ${head.hash}, is not in the audit log`]),
    ...(isRoot ? [] : [`the root hash of its head, ${head.root}, is not in the chain`]),
  ].map(nameText);
}
