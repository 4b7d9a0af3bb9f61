/** `tidemark export`: writes the mirror's records as NDJSON, JSON, YAML, CSV, Parquet or import blocks, to stdout, a file or a directory. */
import { resolve } from 'node:path';
import { KINDS, type Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { excludedKinds, mirroredKinds } from '../config/mirrored-kinds.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { namesOf } from '../config/mirrors.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { RESTORE_OR_NEW_HINT } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { ExportExtent } from '../state/export.ts';
import { alteredHistory, alteredRuns } from '../state/intact.ts';
import { type ResolvedState, resolvedStateOf, resolveState } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { unreadOfSources } from '../state/unread-in-period.ts';
import { maskedId } from '../report/mask.ts';
import { unknownFieldsText } from '../report/notes.ts';
import { limitedNotes, mayMissChanges, unreadDocument, unreadReason } from '../report/unread-notes.ts';
import { readConfig } from '../wire.ts';
import { openForReading, printAltered } from './verification-note.ts';
import { printNote, printReason, type CommandContext } from './context.ts';
import { ExportContent, extentOf } from './export-content.ts';
import { historyPieces, mergedInHistory, requireHistoryOptions, runsSince } from './export-history.ts';
import type { ExportFormat } from './export-directory.ts';
import {
  askedCollections,
  limitedCollections,
  limitedText,
  neverReadNotes,
  newestOnlyText,
  sampledNotes,
  staleCollections,
  staleText,
  unaskedNotes,
  unpublishedSources,
  unreadText,
} from './export-notes.ts';
import { statesAt } from './named-parents.ts';
import { notKnownIn, notKnownLines, requireEverKnown, requireKnown, unreadQuestion } from './not-known.ts';
import { withRealIds } from './real-ids.ts';
import { formerIdNote } from './record-heading.ts';
import { sourcesToRead } from './record.ts';
import { writeAtomically } from './atomic-file.ts';
import {
  isTable,
  formatOfFile,
  reportFile,
  type Shape,
  toDirectory,
  toFile,
  toStdout,
  writeToStdout,
} from './export-output.ts';
import { type FilterOptions, filterText, recordFilter } from './filter-options.ts';

interface ExportOptions extends FilterOptions {
  readonly format?: ExportFormat;
  readonly output?: string;
  readonly at?: string;
  readonly history?: boolean;
  readonly since?: string;
}

/**
 * Exit 3 if a list of the exported records was not read completely (stderr names it), or if a history may lack changes (as for
 * `changes`); not for records that are requested by id. Exit 1 if nothing was published yet, and for an unknown id, organization or
 * project: then nothing is written; also if another program altered the history. With exit 3, and for an altered history, the records
 * are written nevertheless.
 */
export async function exportRecords(context: CommandContext, asked: ExportOptions): Promise<ExitCode> {
  const config = readConfig(context, context.options, 'unused');
  const ofFile = formatOfFile(context, asked.output, asked.format);
  const format = asked.format ?? ofFile ?? (context.options.json === true ? 'json' : 'ndjson');
  const isHistory = asked.history === true;
  const file = ofFile === null || asked.output === undefined ? null : resolve(context.cwd, asked.output);
  if (isHistory) requireHistoryOptions(format, asked, file);
  else if (asked.since !== undefined) {
    throw new TidemarkError('usage', '--since selects runs of the history, and an export is one state', {
      hint: 'add --history, or name the state with --at',
    });
  } else if (isTable(format) && asked.output === undefined && asked.kind?.length !== 1) {
    throw new TidemarkError('usage', `${format === 'csv' ? 'CSV' : 'Parquet'} on stdout holds one kind`, {
      hint: 'name it with --kind, or write one file per kind with --output DIR',
    });
  }
  if (file !== null && !isHistory && isTable(format) && asked.kind?.length !== 1) {
    throw new TidemarkError(
      'usage',
      `${asked.output ?? ''} names one file, and ${format === 'csv' ? 'CSV' : 'Parquet'} has one for each kind`,
      { hint: 'name one kind with --kind, or a directory with --output' },
    );
  }
  if (format === 'parquet' && asked.output === undefined && context.stdout.isTTY === true) {
    throw new TidemarkError('usage', 'Parquet is binary and not for a terminal', {
      hint: 'write it to a file: `… --format parquet > FILE.parquet`',
    });
  }
  using mirror = openForReading(context, config, 'export');
  try {
    const all = sourcesToRead(config, mirror);
    if (format === 'terraform-imports' && ((asked.output !== undefined && file === null) || all.length > 1))
      throw new TidemarkError('usage', 'import blocks are one file for one source', {
        hint: `name a file, as --output imports.tf, and a source with --source (${namesOf(all)})`,
      });
    const { options: named, sources } = await withRealIds(asked, config, {
      mirror: () => mirror,
      sources: all,
      states: () => Promise.resolve(statesAt(mirror, all, asked.at ?? asked.since)),
      takesFormerNames: true,
      note: (line) => printNote(context, [line]),
    });
    const unpublished = unpublishedSources(mirror, sources);
    const [only, ...others] = sources;
    const choice = { ...(only === undefined || others.length > 0 ? {} : { source: only }), isEvidence: true };
    const resolvedState =
      named.at === undefined ? null : resolveState(mirror, named.at, { ...choice, now: systemClock.now() });
    const run = resolvedState === null || resolvedState.ref === 'latest' ? null : resolvedState.run;
    const place = { mirror, config, sources };
    const options =
      run === null || named.id === undefined ? named : { ...named, id: idsThen(context, place, run, named) };
    // On stdout, records of other mirrors may follow.
    const isOfSeveral = context.ofSeveral !== undefined && asked.output === undefined;
    const namesSource = others.length > 0 || isOfSeveral;
    const content = new ExportContent(mirror, recordFilter(sources, options), run, {
      namesSource: format === 'parquet' || namesSource,
    });
    const filter = { ...recordFilter(sources, options), followsIds: isHistory };
    const neverRead = neverReadNotes(mirror, config, sources, options.kind);
    if (isHistory) requireEverKnown(options, filter, place);
    else requireKnown(options, 'state', content.look(), { ...place, run });
    const question = unreadQuestion(context, mirror, all, { sources, options });

    const isAsked = askedCollections(mirror, sources, options, run);
    const altered = alteredHistory(mirror, {
      ...{ since: 0, upTo: isHistory ? Number.MAX_SAFE_INTEGER : content.run },
      collections: new Set(mirror.runs.collections().flatMap((each) => (isAsked(each) ? [each.id] : []))),
    });
    const exit = printAltered(context, [
      ...altered,
      ...(isHistory ? alteredRuns(mirror).filter((line) => !altered.includes(`altered: ${line}`)) : []),
    ]);
    if (isHistory) {
      const since = asked.since === undefined ? undefined : runsSince(mirror, sources, asked.since);
      const unread = unreadOfSources(mirror, config, {
        ...question,
        ...(since === undefined ? { isWithin: () => true } : since.of),
      });
      const dropped = unread.flatMap(({ forgottenLines }) => forgottenLines);
      const isPartial = unread.some(mayMissChanges);
      let revisions = 0;
      const definitions = (source: string): ((kind: Kind) => ResourceDefinition) =>
        definitionsFor(config, source);
      const pieces = historyPieces(mirror, filter, format, {
        definitions,
        runs: since?.runs,
        count: () => (revisions += 1),
      });
      if (file === null) await writeToStdout(context, pieces, format);
      else {
        await writeAtomically(file, pieces, context);
        await reportFile(context, file, {
          format,
          run: content.run,
          unread: unreadDocument(unread),
          counted: plural(revisions, 'revision'),
        });
      }
      printNote(context, [
        ...(since?.notes ?? mergedInHistory(mirror, sources)).filter((line) => !dropped.includes(line)),
        ...(revisions > 0
          ? []
          : [
              `${isPartial ? 'in what could be read, ' : ''}${nothingText(options, { since: asked.since, isAll: !isOfSeveral })}`,
            ]),
        ...nothingOf(unpublished),
        // With --kind, they are in the reason below.
        ...(options.kind === undefined ? neverRead : []),
        ...unaskedNotes(mirror, sources, null, recordFilter(sources, options)),
        ...sampledNotes(mirror, sources, options, {
          kinds: stillRead(config, sources, options.kind ?? KINDS),
          run: null,
        }),
      ]);
      const [only, ...others] = sources;
      const titles = definitions(others.length === 0 ? (only ?? '') : '');
      printNote(context, limitedNotes(unread, titles));
      printReason(context, unreadReason(unread, titles));
      return exit === EXIT.done && isPartial ? EXIT.partial : exit;
    }
    const extent = extentOf(mirror, sources, options, { resolvedState, namesSource });
    const held = options.kind ?? heldKinds(config, mirror, content);
    const isDirectory = options.output !== undefined && file === null;
    const namesFiles = isDirectory && format !== 'yaml';
    const unread = held.filter((kind) => extent.unread?.includes(kind) === true);
    const shape: Shape = {
      format,
      // On its own, a table of an unread kind is written with its columns.
      kinds: isDirectory ? held.filter((kind) => !unread.includes(kind)) : held,
      extent,
      of: stateOf(mirror, sources, resolvedState),
    };
    const stale = staleCollections(mirror, sources, options, run);
    const limited = limitedCollections(extent, only ?? '');
    const older = [...stale, ...limited];
    const unreadBy = filterText(options) === '' ? undefined : unreadText(options, stale, run);
    const bySource = (extent.unread_by_source ?? []).map(({ source, kinds }) => ({
      source,
      kinds: held.filter((kind) => kinds.includes(kind)),
    }));
    const notKnown =
      options.id === undefined
        ? []
        : notKnownIn(mirror, config, question.sources, { ...options, kind: question.filter.kinds });
    // A record that is requested by id was found; `notKnown` says whether another list may have it too.
    const unproven = options.id === undefined ? stale.filter(({ outcome }) => outcome !== 'held') : [];
    const isUnread =
      notKnown.length > 0 ||
      unproven.length > 0 ||
      sources.some((source) => {
        if (options.id !== undefined) return false;
        if (unpublished.includes(source)) return true;
        const own = bySource.find((each) => each.source === source)?.kinds ?? unread;
        if (stillRead(config, [source], own).length > 0) return true;
        if (options.kind === undefined || !content.isEmpty({ source })) return false;
        const isOwn = (each: { readonly source: string }): boolean => each.source === source;
        return own.length > 0 || unreadText(options, stale.filter(isOwn), run) !== undefined;
      });
    if (options.output === undefined) await toStdout(context, content, shape);
    else if (file !== null) await toFile(context, file, content, shape, older);
    else {
      const removed = await toDirectory(context, resolve(context.cwd, options.output), content, shape, older);
      if (removed > 0 && options.kind !== undefined)
        printNote(context, [
          'a directory holds one export: files of kinds that --kind leaves out were removed; without --kind, all are written again',
        ]);
    }

    const excluded = excludedNote(config, mirror, sources, {
      held: options.kind ?? (namesFiles ? held : KINDS),
      isNamed: options.kind !== undefined || !namesFiles,
    });
    // Why something is missing: a reason with exit code 3, a note with 0.
    const missing = [
      ...nothingOf(unpublished),
      ...(content.count > 0 || unreadBy === undefined ? [] : [unreadBy]),
      ...unreadNote(run, stillRead(config, sources, unread)),
      ...bySource.flatMap(({ source, kinds }) =>
        sources.length === 1 || unpublished.includes(source)
          ? []
          : unreadNote(
              run,
              stillRead(config, [source], kinds).filter((kind) => !unread.includes(kind)),
              ` of ${source}`,
            ),
      ),
      ...(options.kind === undefined ? [] : excluded),
    ];
    printNote(context, [
      ...(resolvedState?.note === undefined ? [] : [resolvedState.note]),
      ...unknownNote(run, shape.extent),
      ...(content.count > 0 || unreadBy !== undefined ? [] : [nothingText(options, { isAll: !isOfSeveral })]),
      ...(isUnread ? [] : missing),
      ...(namesFiles ? notMirrored(config, options.kind ?? KINDS, held) : []),
      ...(options.kind === undefined ? excluded : []),
      ...unaskedNotes(mirror, sources, run, recordFilter(sources, options)),
      ...sampledNotes(mirror, sources, options, { kinds: stillRead(config, sources, held), run }),
      ...staleText(
        stale.filter((each) => !unproven.includes(each)),
        run,
        systemClock.now(),
        content.hasSource,
      ),
      ...limitedText(limited, options, (source) => definitionsFor(config, source), content.hasSource),
      ...newestOnlyText(mirror, sources, options, resolvedState),
    ]);
    printReason(context, [
      ...staleText(unproven, run, systemClock.now(), content.hasSource),
      ...(isUnread ? missing : []),
      ...notKnownLines(notKnown),
    ]);
    return exit === EXIT.done && isUnread ? EXIT.partial : exit;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new TidemarkError('mirror_corrupt', `${mirror.path} is damaged: a record's body is not JSON`, {
      hint: `run \`tidemark verify\`; ${RESTORE_OR_NEW_HINT}`,
      cause: error,
    });
  }
}

/** The requested ids; for an id that a restore gave later, the one that the record had at the run. */
function idsThen(
  context: CommandContext,
  { mirror, config, sources }: { mirror: Mirror; config: Config; sources: readonly string[] },
  run: number,
  options: FilterOptions,
): readonly string[] {
  const held = [...mirror.records.keysAt(run, { ...recordFilter(sources, options), followsIds: true })];
  const maps = new Map(sources.map((source) => [source, new RecreatedIds(mirror.restores.idMap(source))]));
  return (options.id ?? []).flatMap((id) => {
    if (held.some((each) => each.id === id)) return [id];
    const former = held.filter((each) => maps.get(each.source)?.all(each.kind, each.id).includes(id));
    for (const { source, kind, id: was } of former) {
      const definition = definitionsFor(config, source)(kind);
      printNote(context, [formerIdNote(maskedId(id, definition), maskedId(was, definition))]);
    }
    return former.length === 0 ? [id] : former.map((each) => each.id);
  });
}

/**
 * The kinds that a source mirrors (without a configuration: that the mirror has collections of), and those with records from before. For
 * any other kind, an empty file would say that there are no records.
 */
function heldKinds({ sources }: Config, mirror: Mirror, content: ExportContent): readonly Kind[] {
  const mirrored = new Set(
    sources.length > 0
      ? sources.flatMap((source) => [...mirroredKinds(source)])
      : content.sources.flatMap((source) => mirror.runs.collections(source).map(({ kind }) => kind)),
  );
  return KINDS.filter((kind) => mirrored.has(kind) || !content.isEmpty({ kind }));
}

/** The kinds that later runs will read; all without a configuration. */
function stillRead(
  { sources: configured }: Config,
  sources: readonly string[],
  kinds: readonly Kind[],
): Kind[] {
  const own = configured.filter(({ name }) => sources.includes(name));
  return kinds.filter((kind) => own.length === 0 || own.some((source) => mirroredKinds(source).has(kind)));
}

function notMirrored({ sources }: Config, all: readonly Kind[], held: readonly Kind[]): string[] {
  const missing = all.filter((kind) => !held.includes(kind));
  if (missing.length === 0) return [];
  const them = missing.length === 1 ? 'it' : 'them';
  const why =
    sources.length > 0
      ? `the configuration does not mirror ${them}`
      : `the mirror has no collection of ${them}`;
  return [`no file for ${missing.join(', ')}: ${why}`];
}

function nothingOf(unpublished: readonly string[]): string[] {
  return unpublished.map((source) => `nothing of ${source} is in the mirror yet: run \`tidemark sync\``);
}

/** Kinds that are missing in the export because the configuration of a source excludes them. */
function excludedNote(
  { sources: configured }: Config,
  mirror: Mirror,
  sources: readonly string[],
  { held, isNamed }: { readonly held: readonly Kind[]; readonly isNamed: boolean },
): string[] {
  if (sources.length === 1 && !isNamed) return [];
  return configured
    .filter(({ name }) => sources.includes(name))
    .flatMap((source) => {
      const known = new Set(mirror.runs.collections(source.name).map(({ kind }) => kind));
      const kinds = excludedKinds(source).filter((kind) => held.includes(kind) && !known.has(kind));
      const of = sources.length === 1 ? '' : ` of ${source.name}`;
      return kinds.length === 0
        ? []
        : [
            `nothing of ${kinds.join(', ')}${of}: the configuration excludes ${kinds.length === 1 ? 'the kind' : 'them'}`,
          ];
    });
}

/** Kinds whose fields are listed; `volatile_unknown` of the JSON document has them all. */
const KINDS_NAMED = 3;

function unreadNote(run: number | null, kinds: readonly Kind[], of = ''): string[] {
  if (kinds.length === 0) return [];
  const them = kinds.length === 1 ? 'it' : 'them';
  const since = run === null ? `has not read ${them} yet` : `had not read ${them} by run ${run}`;
  return [`nothing of ${kinds.join(', ')}${of}: the mirror ${since}`];
}

function unknownNote(run: number | null, { volatile_unknown: unknown = [] }: ExportExtent): string[] {
  if (run === null || unknown.length === 0) return [];
  const named = unknown.slice(0, KINDS_NAMED).map(({ kind, fields }) => `${kind}: ${fields.join(', ')}`);
  const more = unknown.length - named.length;
  if (more > 0) named.push(`and of ${plural(more, 'more kind')}`);
  return [unknownFieldsText(`as of run ${run}`, named.join('; '))];
}

function stateOf(
  mirror: Mirror,
  sources: readonly string[],
  resolvedState: ResolvedState | null,
): Shape['of'] {
  const [source, ...others] = sources;
  if (source === undefined || (resolvedState === null && others.length > 0)) return null;
  const { run, at } = resolvedState ?? resolvedStateOf(mirror, LATEST, { source, isEvidence: true });
  return { run, at };
}

/** @param isAll false if records of other mirrors follow */
function nothingText(
  options: FilterOptions,
  { since, isAll }: { readonly since?: string | undefined; readonly isAll: boolean },
): string {
  const filters = filterText(options);
  const end = isAll ? ': the export is empty' : '';
  if (since !== undefined)
    return `no run since ${since} changed anything${filters === '' ? '' : ` that matches ${filters}`}${end}`;
  return filters === '' ? `the mirror holds no records${end}` : `nothing matches ${filters}${end}`;
}
