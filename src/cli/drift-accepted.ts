/** `tidemark drift accepted` lists acceptances; `drift unaccept` withdraws them. */
import { scopeKey, scopeText } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { plural, localTime } from '../core/wording.ts';
import { MatchedIds } from '../diff/match-records.ts';
import type { DriftAcceptance } from '../mirror/acceptances.ts';
import { acceptedBodies, acceptedName } from '../daemon/http/audit-entries.ts';
import {
  acceptanceDocument,
  contradictionText,
  maskedMeasured,
  measuredFromText,
  measuredText,
} from '../report/drift-document.ts';
import { maskedId, maskedPlace } from '../report/mask.ts';
import { placeText } from '../report/notes.ts';
import { byText, nameText } from '../report/value-text.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import { RecreatedReferences, shownIds, soleIds } from '../state/recreated-ids.ts';
import { LATEST } from '../state/reference.ts';
import { parentNames } from '../state/parent-names.ts';
import { openConfiguredMirror } from '../wire.ts';
import { openForChange } from './when-free.ts';
import { withParentIds } from './named-parents.ts';
import { idsOfRecords } from './not-known.ts';
import { kindArgument, lookUpRecord, sourcesToRead } from './record.ts';
import type { Located } from './command-row.ts';
import { print, printJson, printNote, type CommandContext, terminalWidth } from './context.ts';
import { isAskedFor, placeByIndex } from './drift-place.ts';
import { renderTable } from '../report/table.ts';
import { alteredLogLines } from '../state/intact.ts';
import { printAltered } from './verification-note.ts';
import { readConfigToShow } from './unmasked-keys.ts';

/** Exit code 1 if an acceptance contradicts the audit log, or if the log was altered. */
export async function acceptedDrift(context: CommandContext): Promise<ExitCode> {
  const config = readConfigToShow(context);
  using mirror = openConfiguredMirror(config, 'read', 'drift accepted', context.pid);
  const now = systemClock.now();
  const sources = sourcesToRead(config, mirror);
  const latest = new Map(sources.map((source) => [source, mirror.runs.latest(source)?.run]));
  const accepted = sources
    .flatMap((source) => mirror.acceptances.checked(source))
    .map((acceptance) => {
      const definition = definitionsFor(config, acceptance.source)(acceptance.kind);
      const isKnown = acceptance.contradiction === undefined || acceptance.isGone === true;
      const measured = isKnown ? mirror.acceptances.measured(acceptance) : null;
      // A record that was removed since has its name in the states that the acceptance was measured in.
      const runs = [latest.get(acceptance.source), measured?.state.run, measured?.baseline.run];
      const known = runs.filter((run) => run !== undefined);
      return {
        ...acceptance,
        ...masked(acceptance, definition),
        measured: maskedMeasured(measured, acceptance.path, definition),
        name: acceptedName(mirror, acceptance, definition, known),
        isOver: acceptance.until !== undefined && !(Date.parse(acceptance.until) > now),
      };
    });
  const uncounted = [
    ...accepted.flatMap(
      (each) => contradictionText(each, each.source, definitionsFor(config, each.source)) ?? [],
    ),
    ...sources.flatMap((source) => mirror.acceptances.unreadable(source)),
  ];
  const log = alteredLogLines(mirror, uncounted);
  const exit = printAltered(context, [...uncounted.map((line) => `does not count: ${line}`), ...log]);
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.drift_accepted/1',
      accepted: accepted.map((each) => ({
        ...recordOf(each),
        ...acceptanceDocument(each),
        is_over: each.isOver,
        contradiction: each.contradiction ?? null,
        measured: each.measured,
      })),
      warnings: [...uncounted, ...log],
    });
    return exit;
  }
  if (accepted.length === 0) {
    await print(context, 'no drift was accepted\n');
    return exit;
  }
  const placesOf = new Map(
    sources.map((source) => {
      const definitions = definitionsFor(config, source);
      return [source, { definitions, parentName: parentNames(mirror, source, definitions) }];
    }),
  );
  const table = renderTable(
    ['kind', 'name', 'id', 'where', 'field', 'value', 'against', 'until', 'accepted', 'by', 'reason'],
    accepted.map((each) => {
      const { source, kind, name, id, scope, path, measured, until, isOver, acceptedAt, reason } = each;
      const names = placesOf.get(source);
      const place = names === undefined ? scopeText(scope) : placeText(scope, names, { hasIds: false });
      return [
        kind,
        nameText(name),
        nameText(id),
        [...(sources.length > 1 ? [source] : []), place].filter((part) => part !== '').join(', ') || '·',
        fieldText(path),
        measured === null ? '·' : measuredText(measured, path),
        measured === null ? '·' : measuredFromText(measured),
        until === undefined ? '·' : `${localTime(until)}${isOver ? ' (over)' : ''}`,
        localTime(acceptedAt),
        byText(each),
        nameText(reason),
      ];
    }),
    [],
    { width: terminalWidth(context) },
  );
  await print(context, `${table}\n`);
  return exit;
}

interface UnacceptOptions {
  readonly kind: string;
  readonly id: string;
  readonly field?: readonly string[];
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  readonly reason?: string;
  readonly as?: string;
}

/** Finds the mirror with an acceptance of the record. */
export function locateAcceptance(options: UnacceptOptions): Located {
  const kind = kindArgument(options.kind);
  return {
    isWritten: true,
    what: `an acceptance of ${kind} ${nameText(options.id)}`,
    isIn: (mirror, config) => {
      const own = acceptancesOf(mirror, sourcesToRead(config, mirror), kind);
      if (own.length === 0) return false;
      if (own.some(hasId(mirror, config, options.id))) return true;
      const idsOf = idsOfRecords(mirror);
      const { row } = lookUpRecord(mirror, config, options);
      return own.some(({ source, id }) => idsOf(source, kind, id).includes(row.id));
    },
  };
}

/** The acceptances of a kind, also those that another program deleted. */
function acceptancesOf(mirror: Mirror, sources: readonly string[], kind: Kind) {
  return sources
    .flatMap((source) => mirror.acceptances.checked(source))
    .filter((acceptance) => acceptance.kind === kind);
}

/** Whether an acceptance is of the record with this id, which may be masked, or from before or after a restore that created it again. */
function hasId(mirror: Mirror, config: Config, text: string): (acceptance: DriftAcceptance) => boolean {
  const idsOf = idsOfRecords(mirror);
  return ({ source, kind, id }) => {
    const definition = definitionsFor(config, source)(kind);
    return idsOf(source, kind, id).some((each) => each === text || maskedId(each, definition) === text);
  };
}

/** Exit 0 if something was withdrawn; 1 if nothing of the record was accepted; 4 if there is no such record. */
export async function unacceptDrift(context: CommandContext, asked: UnacceptOptions): Promise<ExitCode> {
  const kind = kindArgument(asked.kind);
  const reason = asked.reason?.trim();
  if (reason === '')
    throw new TidemarkError('usage', '--reason is empty', { hint: 'say why, or leave it out' });
  const config = readConfigToShow(context);
  using mirror = await openForChange(context, config, 'drift unaccept', asked.as);
  const { options, sources } = withParentIds(asked, config, mirror, {
    sources: sourcesToRead(config, mirror),
    // The mirror does not know the id of a record that was accepted with --live.
    readsLive: true,
    note: (line) => printNote(context, [line]),
  });
  const shown = (acceptance: DriftAcceptance): Pick<DriftAcceptance, 'id' | 'path'> =>
    masked(acceptance, definitionsFor(config, acceptance.source)(kind));
  const acceptances = acceptancesOf(mirror, sources, kind);
  const isOfId = hasId(mirror, config, options.id);
  const idsOf = idsOfRecords(mirror);
  // If no acceptance has the id, it is a name, or nothing of the record was accepted.
  const found = acceptances.some(isOfId) ? null : lookUpRecord(mirror, config, options, { sources });
  if (found?.note !== undefined) printNote(context, [found.note]);
  const isRecord = (acceptance: DriftAcceptance): boolean =>
    found === null
      ? isOfId(acceptance)
      : acceptance.source === found.row.source &&
        idsOf(acceptance.source, kind, acceptance.id).includes(found.row.id) &&
        (acceptance.id !== found.row.id || scopeKey(acceptance.scope) === scopeKey(found.row.scope));
  const isMeant = (acceptance: DriftAcceptance): boolean =>
    isRecord(acceptance) && isWithin(acceptance) && isAskedFor(namesOf(acceptance), options.field);
  /** The place as stored, as shown, with the current ids of recreated records, and by index. */
  const namesOf = (acceptance: DriftAcceptance): string[] => {
    const { source, path } = acceptance;
    const names = [path, maskedPlace(path, definitionsFor(config, source)(kind))];
    if (options.field === undefined || !path.includes('/[id=')) return names;
    return [
      ...names,
      shownPlace(acceptance),
      ...[...acceptedBodies(mirror, acceptance)].flatMap((body) => placeByIndex(path, body) ?? []),
    ];
  };
  const placesOf = new Map<string, RecreatedReferences>();
  const shownPlace = ({ source, path }: DriftAcceptance): string => {
    const references = placesOf.get(source) ?? namesToday(mirror, source, definitionsFor(config, source));
    placesOf.set(source, references);
    return references.renamedPlace(kind, path);
  };
  const isWithin = ({ scope }: DriftAcceptance): boolean =>
    (scope.organization_id === undefined ||
      options.organization?.includes(scope.organization_id) !== false) &&
    (scope.project_id === undefined || options.project?.includes(scope.project_id) !== false);
  const withdrawn = acceptances.filter(isMeant).flatMap((acceptance): DriftAcceptance[] => {
    const { source, fingerprint, contradiction, isGone } = acceptance;
    if (isGone !== true) return [mirror.acceptances.withdraw(source, fingerprint, reason) ?? []].flat();
    if (!mirror.acceptances.withdrawGone(acceptance, reason)) return [];
    printNote(context, [
      `the acceptance of ${fieldText(shown(acceptance).path)} ${contradiction ?? ''}: the audit log has its withdrawal now`,
    ]);
    return [acceptance];
  });
  if (withdrawn.length === 0) {
    const others = acceptances
      .filter((acceptance) => isRecord(acceptance) && isWithin(acceptance))
      .map((each) => fieldText(shown(each).path));
    throw new TidemarkError(
      'not_found',
      `nothing of ${kind} ${nameText(options.id)}${options.field === undefined ? '' : ` at ${options.field.join(' or ')}`} was accepted`,
      {
        hint:
          others.length === 0
            ? '`tidemark drift accepted` lists what was'
            : `accepted for it: ${others.join(', ')}`,
      },
    );
  }
  if (context.options.json === true) {
    await printJson(context, {
      schema: 'tidemark.drift_unaccept/1',
      withdrawn: withdrawn.map((each) => ({
        ...recordOf({ ...each, ...shown(each) }),
        ...acceptanceDocument(each),
      })),
    });
  } else {
    const fields = withdrawn.map((each) => fieldText(shown(each).path)).join(', ');
    await print(context, `${plural(withdrawn.length, 'acceptance')} withdrawn: ${fields}\n`);
  }
  return EXIT.done;
}

/** Names records that restores created again by their ids in the latest run, as drift does. */
function namesToday(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): RecreatedReferences {
  const recreated = new RecreatedIds(mirror.restores.idMap(source));
  if (recreated.isEmpty || mirror.runs.latest(source) === undefined)
    return new RecreatedReferences(definitions, new MatchedIds());
  const latest = openMirrorState(mirror, source, resolvedStateOf(mirror, LATEST, { source }));
  return new RecreatedReferences(definitions, shownIds(soleIds(recreated, latest, latest)));
}

function masked(
  { id, path }: DriftAcceptance,
  definition: ResourceDefinition,
): Pick<DriftAcceptance, 'id' | 'path'> {
  return { id: maskedId(id, definition), path: maskedPlace(path, definition) };
}

function fieldText(path: string): string {
  return path === '' ? 'record' : nameText(path);
}

function recordOf({ source, kind, scope, id, path }: DriftAcceptance): object {
  return { source, kind, scope, id, path };
}
