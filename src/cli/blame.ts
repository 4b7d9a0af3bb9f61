/** `tidemark blame KIND ID`: every field of a record, with its value and since when it has had it. */
import { MemberNames } from '../catalog/masks.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import {
  recordBlame,
  recordLog,
  renewalsOf,
  withWriters,
  type BlameField,
  type SeenAt,
} from '../diff/history.ts';
import { recordName } from '../diff/change.ts';
import { maskedAt, maskedPlace, withMaskedId } from '../report/mask.ts';
import type { Fact, TablePart } from '../report/document.ts';
import { renderText } from '../report/render-text.ts';
import { notReadText, restoreText, unknownFieldsText } from '../report/notes.ts';
import { pathText } from '../report/value-text.ts';
import { resolveState } from '../state/resolved-state.ts';
import { perhapsMissing, recordHistory } from '../state/record-history.ts';
import { openConfiguredMirror } from '../wire.ts';
import { lineOptions, print, printJson, printNote, terminalWidth, type CommandContext } from './context.ts';
import {
  knownName,
  missingText,
  perhapsMissingDocument,
  perhapsMissingText,
  notThereYet,
  recordReport,
  notesOf,
  otherIdFacts,
  shownRenewal,
  seenAtText,
} from './record-heading.ts';
import { lookUpRecord, type RecordQuestion } from './record.ts';
import { printAltered } from './verification-note.ts';
import { localMinute, localTime, plural } from '../core/wording.ts';
import { readConfigToShow } from './unmasked-keys.ts';

interface BlameOptions extends RecordQuestion {
  readonly at?: string;
  readonly all?: boolean;
  readonly deep?: boolean;
  readonly showSecrets?: boolean;
}

/** Exit code 1 if another program altered the record's history, which is printed nevertheless; 0 also if the record did not exist yet. */
export async function blame(context: CommandContext, options: BlameOptions): Promise<ExitCode> {
  const config = readConfigToShow(context);
  using mirror = openConfiguredMirror(config, 'read', 'blame', context.pid);
  const question = { ...options, isPartEnough: true, countsRemoved: true };
  const found = lookUpRecord(mirror, config, question, { note: (line) => printNote(context, [line]) });
  const { row, definition } = found;
  const resolvedState = resolveState(mirror, options.at ?? 'latest', {
    source: row.source,
    isEvidence: true,
    now: systemClock.now(),
  });
  const history = recordHistory(mirror, row, resolvedState.run, definitionsFor(config, row.source));
  const { revisions, seenBy, firstSeen: first, lastSeen } = history;
  const showsSecrets = options.showSecrets === true;
  const depth = {
    mode: options.all === true ? 'all_but_volatile' : 'default',
    sightingBefore: history.sightingBefore,
    seenBy,
  } as const;
  const log = history.withRestores(recordLog(definition, revisions, depth));
  const names = new MemberNames(definition);
  const fields = withWriters(
    recordBlame(definition, revisions, { ...depth, isDeep: options.deep === true }),
    log,
  ).map((field) =>
    showsSecrets
      ? field
      : {
          ...field,
          path: maskedPlace(field.path, definition, names),
          value: maskedAt(field.path, field.value, definition),
        },
  );
  const [newest] = revisions;
  const removed = newest?.body === null ? { run: newest.run, at: newest.at } : null;
  const present = revisions.find((revision) => revision.body !== null);
  const name =
    typeof present?.body === 'string'
      ? recordName(definition, parseLossless(present.body), row.id)
      : knownName(mirror, found);
  const unread = history.notReadSince();
  const held = mirror.runs.heldSince(row);
  const missing = held !== undefined && held.run <= resolvedState.run ? held : null;
  const perhaps =
    missing === null && removed === null ? perhapsMissing(mirror, row, resolvedState.run) : null;
  const altered = history.altered();
  const exit = printAltered(context, altered);
  const unknown = [...(present?.notKept ?? [])]
    .flatMap(([field, kept]) => (kept === null ? [field] : []))
    .sort();
  printNote(context, [
    ...notesOf(found.note, resolvedState.note),
    ...(unknown.length === 0
      ? []
      : [unknownFieldsText(`as of run ${resolvedState.run}`, unknown.join(', '))]),
  ]);
  if (context.options.json === true) {
    const { kind, scope, id, source } = row;
    await printJson(context, {
      schema: 'tidemark.blame/1',
      kind,
      scope,
      ...(showsSecrets ? { id, name } : withMaskedId({ id, name }, definition)),
      source,
      run: resolvedState.run,
      at: resolvedState.at,
      ...(resolvedState.forgotten === undefined ? {} : { forgotten: resolvedState.forgotten }),
      is_altered: exit !== EXIT.done,
      warnings: altered,
      first_seen: first,
      last_seen: lastSeen,
      removed,
      missing_since: missing,
      ...(perhaps === null ? {} : { perhaps_missing: perhapsMissingDocument(perhaps) }),
      not_read_since: unread,
      created_again: renewalsOf(history.idChanges).map((each) => shownRenewal(each, found, options)),
      ...(unknown.length === 0 ? {} : { volatile_unknown: unknown }),
      fields,
    });
  } else {
    const named = { name, showsSecrets, altered, run: resolvedState.run };
    const facts: readonly Fact[] =
      first === null
        ? []
        : [
            ...otherIdFacts(history.idChanges, found, options),
            ['first seen', seenAtText(first)],
            ...(lastSeen === null ? [] : [['last seen', seenAtText(lastSeen)] as const]),
            ...(removed === null ? [] : [['removed', seenAtText(removed)] as const]),
            ...(missing === null ? [] : [missingText(missing)]),
            ...(perhaps === null ? [] : [perhapsMissingText(perhaps)]),
            ...(unread === null || missing !== null || perhaps !== null ? [] : [notReadText(unread)]),
          ];
    const report = {
      ...recordReport(mirror, config, found, named, facts),
      summary:
        first === null
          ? `did not exist yet, as of ${seenAtText(resolvedState)}`
          : plural(fields.length, 'field'),
      parts: fields.length === 0 ? [] : [fieldTable(fields, terminalWidth(context) === undefined)],
    };
    await print(context, renderText(report, lineOptions(context)));
  }
  if (first === null)
    printNote(context, [notThereYet(mirror, found, seenAtText(resolvedState), showsSecrets)]);
  return exit;
}

/** A line per field; columns for the last different value and for who wrote it only if a field has these. Times as in the list of runs. */
function fieldTable(fields: readonly BlameField[], hasZone: boolean): TablePart {
  const whenText = ({ run, at, may_be_earlier: mayBeEarlier }: SeenAt): string =>
    `${(hasZone ? localTime : localMinute)(at)} run ${run}${mayBeEarlier === true ? ' or earlier' : ''}`;
  const isChanged = fields.some((field) => field.last_seen_before !== null);
  const isWritten = fields.some((field) => field.changed_by !== undefined);
  const columns = [
    'field',
    'since',
    ...(isChanged ? ['last different'] : []),
    ...(isWritten ? ['by'] : []),
    'value',
  ];
  return {
    type: 'table',
    columns,
    align: columns.map(() => 'left'),
    hasValues: true,
    rows: fields.map((field) => {
      const { since, last_seen_before: before, changed_by: by, is_unknown_before: isUnknown } = field;
      return [
        pathText(field),
        `${whenText(since)}${isUnknown === true ? ' or earlier' : ''}`,
        ...(isChanged ? [before === null ? '·' : whenText(before)] : []),
        ...(isWritten ? [by === undefined ? '·' : restoreText(by)] : []),
        JSON.stringify(field.value),
      ];
    }),
  };
}
