/** `tidemark show KIND ID`: one record, current or at a point in time. */
import { createColors } from 'picocolors';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import type { ExitCode } from '../core/errors.ts';
import { parseLossless, type JsonValue } from '../core/json.ts';
import { stringifyYaml } from '../core/yaml.ts';
import { type IdChange, renewalsOf, type SeenAt } from '../diff/history.ts';
import { recordName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RecordRow } from '../mirror/records.ts';
import type { Fact } from '../report/document.ts';
import { maskedBody, maskedId, withMaskedId } from '../report/mask.ts';
import { notReadText, unknownFieldsText } from '../report/notes.ts';
import { renderText } from '../report/render-text.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { folded } from '../report/value-text.ts';
import { alteredAuthors, alteredHistory, requireIntact } from '../state/intact.ts';
import { type ResolvedState, resolveState } from '../state/resolved-state.ts';
import {
  firstSeen,
  lastSeen,
  idChangesAt,
  type NotReadSince,
  notReadSince,
  type PerhapsMissing,
  perhapsMissing,
} from '../state/record-history.ts';
import { openConfiguredMirror } from '../wire.ts';
import { isColoured, lineOptions, printNote, type CommandContext, printJson } from './context.ts';
import {
  formerIdNote,
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
import { lookUpRecord, type FoundRecord, type RecordQuestion } from './record.ts';
import { printPage } from './pager.ts';
import { printAltered } from './verification-note.ts';
import { readConfigToShow } from './unmasked-keys.ts';

export interface ShowOptions extends RecordQuestion {
  readonly at?: string;
  readonly showSecrets?: boolean;
}

const LINE_LIMIT = 2_000; // characters of one line: a value can be a megabyte

/** `removed`: the body is the last one it had; `absent`: not seen yet at that time, no body. */
type State = 'present' | 'removed' | 'absent';

interface Shown {
  readonly state: State;
  readonly body: JsonValue | null;
  /** Fields whose values are not known. */
  readonly unknown: readonly string[];
  readonly name: string;
  readonly firstSeen: SeenAt | null;
  /** The run that brought the content that is shown. */
  readonly changed: SeenAt | null;
  readonly lastSeen: SeenAt | null;
  readonly removed: SeenAt | null;
  /** The run that did not find it, if its removal is held; else null. */
  readonly missingSince: SeenAt | null;
  /** If it may have been missing, because removals of its list were held then; else null. */
  readonly perhapsMissing: PerhapsMissing | null;
  /** If it was present when its collection was last read, and that was not read since; else null. */
  readonly notReadSince: NotReadSince | null;
}

/** Exit code 1 if another program altered the history up to that time, which is shown nevertheless; 0 also if the record did not exist yet. */
export async function show(context: CommandContext, options: ShowOptions): Promise<ExitCode> {
  const config = readConfigToShow(context);
  using mirror = openConfiguredMirror(config, 'read', 'show', context.pid);
  const asked = lookUpRecord(
    mirror,
    config,
    { ...options, isPartEnough: true },
    { note: (line) => printNote(context, [line]) },
  );
  const resolvedState = resolveState(mirror, options.at ?? 'latest', {
    source: asked.row.source,
    isEvidence: true,
    now: systemClock.now(),
  });
  const found = asKnownIn(mirror, asked, resolvedState.run, options.showSecrets === true);
  const shown = stateAt(mirror, found, resolvedState.run);
  const idChanges = idChangesAt(
    mirror,
    found.row,
    resolvedState.run,
    definitionsFor(config, found.row.source),
  );
  const sightings = [shown.firstSeen, shown.changed, shown.removed];
  const altered = [
    ...alteredHistory(mirror, {
      ...{ since: shown.firstSeen?.run ?? 0, upTo: resolvedState.run },
      collections: new Set([found.row.collection]),
    }),
    ...alteredAuthors(
      mirror,
      sightings.flatMap((each) => each?.run ?? []),
    ),
  ];
  const exit = printAltered(context, altered);
  printNote(context, notesOf(found.note, resolvedState.note));
  if (context.options.json === true) {
    await printJson(context, document(found, resolvedState, { ...shown, idChanges, altered }, options));
  } else {
    const named = {
      name: shown.name,
      showsSecrets: options.showSecrets === true,
      altered,
      run: resolvedState.run,
    };
    const [summary, ...when] = factsOf(
      resolvedState,
      shown,
      idChanges.some(({ id }) => id === found.row.id),
    );
    const facts = [...otherIdFacts(idChanges, found, options), ...when];
    const report = { ...recordReport(mirror, config, found, named, facts), summary, parts: [] };
    const heading = `${renderText(report, lineOptions(context))}\n`;
    await printPage(context, text(context, heading, found, shown, options));
  }
  if (shown.state === 'absent')
    printNote(context, [notThereYet(mirror, found, seenAtText(resolvedState), options.showSecrets === true)]);
  return exit;
}

/** If the record got its id after that run, the record with the id that it had then; the note says so. */
function asKnownIn(mirror: Mirror, found: FoundRecord, run: number, showsSecrets: boolean): FoundRecord {
  const { row, definition } = found;
  const isKnown = (of: RecordRow): boolean => mirror.records.asOf(of, run) !== undefined;
  if (isKnown(row)) return found;
  const { source, kind } = row;
  const former = new RecreatedIds(mirror.restores.idMap(source))
    .places(kind, row)
    .flatMap(({ scope, id }) => mirror.records.find(kind, id, { sources: [source], scope }))
    .find(isKnown);
  if (former === undefined) return found;
  const shown = (id: string): string => (showsSecrets ? id : maskedId(id, definition));
  const note = notesOf(found.note, formerIdNote(shown(row.id), shown(former.id))).join('; ');
  return { row: former, definition, note };
}

/** The record as of a run. */
function stateAt(mirror: Mirror, found: FoundRecord, run: number): Shown {
  const { row, definition } = found;
  const known = mirror.records.asOf(row, run);
  if (known === undefined)
    return {
      ...{ state: 'absent', body: null, unknown: [], name: knownName(mirror, found) },
      ...{ firstSeen: null, changed: null, lastSeen: null, removed: null },
      ...{ missingSince: null, perhapsMissing: null, notReadSince: null },
    };
  // Checked before the body is parsed, so the id takes the place of the name.
  requireIntact(mirror, row.source, run, [{ ...row, name: row.id }]);
  const body = parseLossless(known.body);
  const held = mirror.runs.heldSince(row);
  return {
    state: known.removed === null ? 'present' : 'removed',
    body,
    unknown: known.unknown,
    name: recordName(definition, body, row.id),
    firstSeen: firstSeen(mirror, known.first),
    changed: known.changed,
    lastSeen: lastSeen(mirror, row, known, run),
    removed: known.removed,
    missingSince: held !== undefined && held.run <= run ? held : null,
    perhapsMissing: known.removed === null ? perhapsMissing(mirror, row, run) : null,
    notReadSince: known.removed === null ? notReadSince(mirror, row, run) : null,
  };
}

function document(
  found: FoundRecord,
  resolvedState: ResolvedState,
  shown: Shown & { readonly idChanges: readonly IdChange[]; readonly altered: readonly string[] },
  options: ShowOptions,
): object {
  const { row, definition } = found;
  const { showSecrets } = options;
  const { body, perhapsMissing: perhaps } = shown;
  const own = { id: row.id, name: shown.name };
  return {
    schema: 'tidemark.show/1',
    kind: row.kind,
    scope: row.scope,
    ...(showSecrets === true ? own : withMaskedId(own, definition)),
    source: row.source,
    ref: resolvedState.ref,
    run: resolvedState.run,
    at: resolvedState.at,
    ...(resolvedState.forgotten === undefined ? {} : { forgotten: resolvedState.forgotten }),
    is_altered: shown.altered.length > 0,
    warnings: shown.altered,
    state: shown.state,
    first_seen: shown.firstSeen,
    changed: shown.changed,
    last_seen: shown.lastSeen,
    removed: shown.removed,
    missing_since: shown.missingSince,
    ...(perhaps === null ? {} : { perhaps_missing: perhapsMissingDocument(perhaps) }),
    not_read_since: shown.notReadSince,
    created_again: renewalsOf(shown.idChanges).map((each) => shownRenewal(each, found, options)),
    ...(shown.unknown.length === 0 ? {} : { volatile_unknown: shown.unknown }),
    body: body === null || showSecrets === true ? body : maskedBody(body, definition),
  };
}

function factsOf(
  resolvedState: ResolvedState,
  {
    state,
    firstSeen: first,
    changed,
    lastSeen: seen,
    removed,
    missingSince,
    perhapsMissing: perhaps,
    notReadSince: unread,
  }: Shown,
  hadOtherId: boolean,
): readonly [summary: string, ...Fact[]] {
  const asOf = `as of ${seenAtText(resolvedState)}`;
  if (first === null || changed === null) return [`did not exist yet, ${asOf}`];
  const missing =
    missingSince !== null ? missingText(missingSince) : perhaps === null ? null : perhapsMissingText(perhaps);
  const present = unread === null ? state : notReadText(unread);
  return [
    `${missing ?? present}, ${asOf}`,
    ...(removed === null ? [] : [['removed', seenAtText(removed)] as const]),
    ['first seen', `${seenAtText(first)}${hadOtherId ? ', under this id' : ''}`],
    ['changed', changed.run === first.run ? 'never since' : seenAtText(changed)],
    ...(seen === null ? [] : [['last seen', seenAtText(seen)] as const]),
  ];
}

function text(
  context: CommandContext,
  heading: string,
  { definition }: FoundRecord,
  { body, state, unknown }: Shown,
  { showSecrets }: ShowOptions,
): string {
  if (body === null) return heading;
  const masked = showSecrets === true ? body : maskedBody(body, definition);
  const hidden = JSON.stringify(masked) !== JSON.stringify(body);
  const { dim } = createColors(isColoured(context));
  const lines = stringifyYaml(masked)
    .trimEnd()
    .split('\n')
    .map((line) => folded(escapeControlCharacters(line), LINE_LIMIT));
  return [
    heading,
    ...(state === 'removed' ? [`${dim('# as it was before it was removed')}\n`] : []),
    ...(unknown.length === 0
      ? []
      : [`${dim(`# ${unknownFieldsText('as of this run', unknown.join(', '))}`)}\n`]),
    `${lines.join('\n')}\n`,
    ...(hidden ? [`${dim('# secret values are masked; --show-secrets prints them')}\n`] : []),
  ].join('');
}
