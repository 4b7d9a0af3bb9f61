/** `tidemark verify --audit FILE`: whether what `tidemark audit` once wrote is in the audit log, as it was written. */
import { readFileSync } from 'node:fs';
import { parse as parseCsv } from 'csv-parse/sync';
import type { Config } from '../config/config.ts';
import { EXIT, type ExitCode, TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import { AuditWalk } from '../daemon/http/audit-entries.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { auditCsv, auditEntryDocument, rangesText, type ShownEntry } from '../report/audit-report.ts';
import { foldedPair, nameText } from '../report/value-text.ts';

/** The cells of an entry by column; of JSON, the members of a member too, like `acceptance/reason`. */
type Cells = ReadonlyMap<string, string>;

/** A file that `tidemark audit` wrote. */
interface AuditFile {
  readonly path: string;
  readonly form: 'csv' | 'json';
  /** In the order of the file. */
  readonly entries: readonly Cells[];
  /** Of JSON: the hashes that it has of the entire log then; null where it has none. */
  readonly head: { readonly entry: string; readonly hash: string; readonly root: string } | null;
}

/** @throws TidemarkError `reference_unknown` for what `tidemark audit` did not write as CSV or JSON */
export function readAuditFile(path: string): AuditFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') throw noAuditFile(path, error, 'there is no file');
    throw asFileError(error, path, 'read');
  }
  try {
    const file = text.startsWith('{') ? jsonFile(path, text) : csvFile(path, text);
    const isEntry = (cells: Cells): boolean =>
      /^[1-9]\d*$/.test(cells.get('entry') ?? '') && cells.has('hash') && cells.has('by');
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
  const [head, ...rows] = csvRows(text);
  if (head?.includes('entry') !== true) return null;
  return { path, form: 'csv', head: null, entries: rows.map((row) => rowCells(head, row)) };
}

function csvRows(text: string): string[][] {
  return parseCsv(text);
}

function rowCells(head: readonly string[], row: readonly string[]): Cells {
  return new Map(head.map((column, index) => [column, row[index] ?? '']));
}

function jsonFile(path: string, text: string): AuditFile | null {
  const document = parseLossless(text);
  if (!isJsonObject(document) || document['schema'] !== 'tidemark.audit_log/1') return null;
  const { entries, head = null } = document;
  if (!Array.isArray(entries) || !entries.every(isJsonObject)) return null;
  const found = isJsonObject(head) ? documentCells(head) : null;
  const cell = (name: string): string => found?.get(name) ?? '';
  return {
    ...{ path, form: 'json', entries: entries.map(documentCells) },
    head: found === null ? null : { entry: cell('entry'), hash: cell('hash'), root: cell('root') },
  };
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

/** The cells that the same command would write of an entry now. */
function cellsNow(form: AuditFile['form'], entry: ShownEntry): Cells {
  if (form === 'json')
    return documentCells(parseLossless(JSON.stringify(auditEntryDocument(entry))) as JsonObject);
  const [head = [], row = []] = csvRows([...auditCsv([entry])].join(''));
  return rowCells(head, row);
}

interface AlteredEntry {
  readonly entry: number;
  /** Null where one of the two has no such field. */
  readonly fields: readonly {
    readonly field: string;
    readonly file: string | null;
    readonly log: string | null;
  }[];
}

/** As `verify` reports it. */
interface ComparedFile {
  readonly document: Readonly<Record<string, unknown>>;
  readonly lines: readonly string[];
  readonly reasons: readonly string[];
  readonly exitCode: ExitCode;
}

const ENTRIES_SHOWN = 20;
const VALUE_SHOWN = 60; // characters

/**
 * Exit 0 where each entry of the file is in the log, with the same hash and the same contents, in the same order; 1 where
 * one is not; 3 where the log has others up to the last of them, or the file has none.
 */
export function compareAuditFile(mirror: Mirror, config: Config, file: AuditFile): ComparedFile {
  const byEntry = new Map(file.entries.map((cells) => [Number(cells.get('entry')), cells]));
  const last = byEntry.keys().reduce((most, each) => Math.max(most, each), Number(file.head?.entry ?? 0));
  const altered: AlteredEntry[] = [];
  const missing: number[] = [];
  let newer = 0;
  const added = new Set(byEntry.keys());
  const always = { since: { at: '' }, until: { at: '\uFFFF' }, notes: [] };
  for (const shown of new AuditWalk(mirror, config, { period: always })) {
    const cells = byEntry.get(shown.entry);
    if (shown.entry > last) newer += 1;
    else if (cells === undefined) missing.push(shown.entry);
    if (cells === undefined) continue;
    added.delete(shown.entry);
    const fields = differences(cells, cellsNow(file.form, shown), shown);
    if (fields.length > 0) altered.push({ entry: shown.entry, fields });
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
  const unread = [
    ...(missing.length === 0 ? [] : [missingText(missing)]),
    ...(byEntry.size === 0 ? ['it has no entry: nothing was compared'] : []),
  ];
  const more = wrong.length - ENTRIES_SHOWN;
  const same = byEntry.size - altered.length - added.size;
  return {
    document: {
      audit_file: { file: file.path, same, altered, added: [...added], missing, moved, head: hashes },
    },
    lines: [
      `${plural(byEntry.size, 'entry', 'entries')} of ${file.path} compared: ${same} as in the audit log` +
        (altered.length === 0 ? '' : `, ${altered.length} altered`) +
        (added.size === 0 ? '' : `, ${added.size} not in it`) +
        (missing.length === 0 ? '' : `; ${missing.length} of the log not in the file`) +
        (newer === 0 ? '' : `; the log has ${plural(newer, 'newer entry', 'newer entries')}`),
    ],
    reasons: [
      ...wrong.slice(0, ENTRIES_SHOWN),
      ...(more > 0 ? [`… and ${more} more: --json lists them`] : []),
      ...unread,
    ].map((reason) => `${file.path}: ${reason}`),
    exitCode: wrong.length > 0 ? EXIT.failed : unread.length > 0 ? EXIT.partial : EXIT.done,
  };
}

function differences(file: Cells, log: Cells, { subject }: ShownEntry): AlteredEntry['fields'] {
  // Of which sources a snapshot is the state depends on those that the mirror has by now.
  const isOfOthers = (field: string): boolean => subject.about === 'snapshot' && field.endsWith('source');
  return [...new Set([...file.keys(), ...log.keys()])]
    .filter((field) => file.get(field) !== log.get(field) && !isOfOthers(field))
    .map((field) => ({ field, file: file.get(field) ?? null, log: log.get(field) ?? null }));
}

function alteredText({ entry, fields }: AlteredEntry): string {
  const parts = fields.map(({ field, file, log }) => {
    const [own, theirs] = foldedPair(quoted(file), quoted(log), VALUE_SHOWN);
    return `${nameText(field)} is ${own}, in the audit log ${theirs}`;
  });
  return `entry ${entry} is not as in the audit log: ${parts.join('; ')}`;
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
    ...(isRoot ? [] : [`the root of its head, ${head.root}, is not in the chain`]),
  ].map(nameText);
}
