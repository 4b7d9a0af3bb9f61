/** `tidemark log KIND ID`: a record's revisions, newest first, each with what changed and between which two runs. */
import { definitionsFor } from '../config/source.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import { recordLog, type LogEntry } from '../diff/history.ts';
import { recordName } from '../diff/change.ts';
import { maskedFields, withMaskedId } from '../report/mask.ts';
import { fieldsForPeople } from '../report/diff-report.ts';
import type { Fact, Item, ReportDocument } from '../report/document.ts';
import { changeText, notReadText } from '../report/notes.ts';
import { renderText } from '../report/render-text.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { recordHistory } from '../state/record-history.ts';
import { openForReading, printAltered } from './verification-note.ts';
import { printNote, type CommandContext, lineOptions, printJson } from './context.ts';
import {
  missingText,
  recordReport,
  notesOf,
  otherIdFacts,
  shownRenewal,
  seenAtText,
} from './record-heading.ts';
import { lookUpRecord, type FoundRecord, type RecordQuestion } from './record.ts';
import { printPage } from './pager.ts';
import { readConfigToShow } from './unmasked-keys.ts';

interface LogOptions extends RecordQuestion {
  readonly all?: boolean;
  readonly limit?: number;
  readonly showSecrets?: boolean;
}

/** Fields shown of a revision that added or removed the entire record: more would bury the history. */
const FIELDS_SHOWN = 4;

/** Exit code 1 if another program altered the history, which is printed nevertheless. */
export async function log(context: CommandContext, options: LogOptions): Promise<ExitCode> {
  const config = readConfigToShow(context);
  using mirror = openForReading(context, config, 'log');
  const found = lookUpRecord(
    mirror,
    config,
    { ...options, isPartEnough: true, countsRemoved: true },
    { note: (line) => printNote(context, [line]) },
  );
  const { row, definition } = found;
  const resolvedState = resolvedStateOf(mirror, LATEST, { source: row.source, isEvidence: true });
  const history = recordHistory(mirror, row, resolvedState.run, definitionsFor(config, row.source));
  const entries = history.withRestores(
    recordLog(definition, history.revisions, {
      mode: options.all === true ? 'all_but_volatile' : 'default',
      sightingBefore: history.sightingBefore,
      seenBy: history.seenBy,
    }),
  );
  const shown = entries.slice(0, options.limit ?? entries.length);
  const body = history.revisions.find((revision) => revision.body !== null)?.body;
  const name = typeof body === 'string' ? recordName(definition, parseLossless(body), row.id) : row.id;
  const altered = history.altered();
  const unread = history.notReadSince();
  const missing = mirror.runs.heldSince(row) ?? null;
  const exit = printAltered(context, altered);
  printNote(context, notesOf(found.note));
  if (context.options.json === true) {
    const revisions = shown.map((entry) => masked(entry, found, options));
    const { kind, scope, id, source } = row;
    const own = options.showSecrets === true ? { id, name } : withMaskedId({ id, name }, definition);
    const marks = { is_altered: exit !== EXIT.done, warnings: altered };
    const document = {
      ...{ schema: 'tidemark.log/1', kind, scope, ...own, source, ...marks },
      ...{ missing_since: missing, not_read_since: unread, revisions },
    };
    await printJson(context, document);
    return exit;
  }
  const more = entries.length - shown.length;
  const named = { name, showsSecrets: options.showSecrets === true, altered };
  const facts: readonly Fact[] = [
    ...otherIdFacts(history.idChanges, found, options),
    ...(history.lastSeen === null ? [] : [['last seen', seenAtText(history.lastSeen)] as const]),
    ...(missing === null ? [] : [missingText(missing)]),
    ...(unread === null ? [] : [notReadText(unread)]),
  ];
  const report: ReportDocument = {
    ...recordReport(mirror, config, found, named, facts),
    summary: plural(entries.length, 'revision'),
    parts: [
      {
        type: 'records',
        layout: 'blocks',
        groups: [{ items: shown.map((entry) => entryItem(masked(entry, found, options), found)) }],
      },
    ],
    ...(more > 0 ? { next: [`${plural(more, 'older revision')} not shown (--limit)`] } : {}),
  };
  await printPage(context, renderText(report, lineOptions(context)));
  return exit;
}

function masked(entry: LogEntry, found: FoundRecord, options: LogOptions): LogEntry {
  if (options.showSecrets === true) return entry;
  const { definition } = found;
  const { created_again: again } = entry;
  return {
    ...entry,
    fields: maskedFields(entry.fields, definition),
    ...(entry.returned === undefined ? {} : { returned: maskedFields(entry.returned, definition) }),
    ...(again === undefined ? {} : { created_again: shownRenewal(again, found, options) }),
  };
}

function entryItem(entry: LogEntry, { definition, row }: FoundRecord): Item {
  const { change, returned } = entry;
  const { created_again: again, volatile_unknown: unknown } = entry;
  const came = returned === undefined ? change : 'returned';
  const isWhole = change !== 'changed' && returned === undefined;
  const fields = returned ?? fieldsForPeople(entry, definition);
  const shown = isWhole ? fields.slice(0, FIELDS_SHOWN) : fields;
  const rest = fields.slice(shown.length);
  return {
    kind: row.kind,
    change,
    name: changeText({ ...entry, change: came, id: again?.id ?? row.id }),
    outcome: `${again === undefined && entry.changed_by === undefined ? 'by' : 'seen by'} ${seenAtText(entry)}`,
    lines: [
      windowText(entry),
      ...(returned?.length === 0 ? ['as it was before'] : []),
      ...(unknown === undefined ? [] : [`not known, since volatile then: ${unknown.join(', ')}`]),
    ],
    fields: shown,
    foldedFields: rest,
    ...(rest.length === 0 ? {} : { hint: `${plural(rest.length, 'more field')}: --json has them all` }),
  };
}

/** Which runs the change happened between. */
function windowText({ change, last_seen_before: before, returned }: LogEntry): string {
  if (before === null) return 'first seen here; it may be older';
  if (change !== 'added') return `previous version last seen in ${seenAtText(before)}`;
  return `${returned === undefined ? 'not there yet' : 'still away'} in ${seenAtText(before)}`;
}
