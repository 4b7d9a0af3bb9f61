/** `tidemark diff [FROM] [TO]`: what differs between two states of a source, or between two sources. */
import { definitionOf, activityKinds } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { withoutFallbackPointers } from '../catalog/shown-fields.ts';
import type { Config } from '../config/config.ts';
import { excludedKinds, isExcludedBy } from '../config/mirrored-kinds.ts';
import { mirrorConfigs, namesItsSource } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { type ExitCode, TidemarkError } from '../core/errors.ts';
import { type DiffDocument, diffExitCode } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { renderJson } from '../report/mask.ts';
import { namedPlaces } from '../report/notes.ts';
import type { ReportOptions } from '../report/options.ts';
import { compareSources } from '../state/compare-sources.ts';
import { compareStates } from '../state/compare.ts';
import { type StateFilter, UUID } from '../state/filter.ts';
import { forgottenNotes } from '../state/runs.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { parentNames } from '../state/parent-names.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import { LATEST, type Reference, parseReference } from '../state/reference.ts';
import { readLoadedConfig } from '../wire.ts';
import { kindsOfNeither } from '../state/unasked.ts';
import { comparisonNotes, notesInText } from './run-comparison.ts';
import { type CommandContext, isOneOutput, ofSource, printNote } from './context.ts';
import { codeWithLack, type LackOfLatest, LACKS_NOTHING, withLack } from './latest-state.ts';
import type { SourceState } from './named-parents.ts';
import { type KnownTo, withRealIds } from './real-ids.ts';
import { sourcesToRead } from './record.ts';
import { pairWarnings } from './drift-place.ts';
import { filterOf, type FilterOptions } from './filter-options.ts';
import { lossNotes } from './recorded-loss.ts';
import {
  type OutputOptions,
  type ReportFormat,
  type SourceReport,
  comparisonReason,
  deliver,
  formatOf,
  renderDocument,
  reportEach,
} from './report-output.ts';
import { isOfMirror, snapshotNames, StateOpener } from './state-opener.ts';
import { noteUnmaskedKeys, readConfigToShow } from './unmasked-keys.ts';

/** The filters of a comparison, and its depth. */
export interface ComparisonOptions extends OutputOptions, FilterOptions {
  readonly field?: readonly string[];
  readonly managedOnly?: boolean;
  readonly all?: boolean;
}

/** Formats for people, which include the warnings; with the others, stderr has them. */
export const CHANGES_SHOWN: readonly ReportFormat[] = ['text', 'markdown', 'html'];

interface DiffOptions extends ComparisonOptions {
  readonly from?: string;
  readonly to?: string;
  readonly toSource?: string;
}

type FormattedOptions = DiffOptions & { readonly format: ReportFormat };

/**
 * Exit 0 no differences, 2 differences, 3 something could not be compared, 1 nothing could, 5 every request was refused. With several
 * sources and none named, each is compared, and the codes are combined (3 before 2 before 0).
 */
export async function diff(context: CommandContext, asked: DiffOptions): Promise<ExitCode> {
  const formats = ['text', 'json', 'markdown', 'html', 'junit', 'sarif', 'patch'] as const;
  const options = { ...asked, format: formatOf(context, asked, formats) };
  comparisonMode(options);
  const now = systemClock.now();
  const from = parseReference(options.from ?? 'latest', now, { snapshots: snapshotNames(context) });
  const to = parseReference(options.to ?? (options.toSource === undefined ? 'live' : 'latest'), now, {
    snapshots: snapshotNames(context),
  });
  const isLive = [from, to].some(({ form }) => form === 'live');
  const keys = isLive ? 'required' : 'unused';
  if (options.toSource !== undefined) {
    const pair = sourcePair(context, options.toSource);
    const loaded = readLoadedConfig(context, { ...context.options, source: pair }, keys);
    noteUnmaskedKeys(context, loaded);
    return diffTwoSources(context, options, mirrorConfigs(loaded), { from, to, pair });
  }
  const config = readConfigToShow(context, keys);
  using opener = new StateOpener(context, config, 'diff');
  const all = sourcesOf(context, config, opener, [from, to]);
  const resolved = await withRealIds(options, config, knownTo(context, opener, all, [from, to]));
  const sources = all.filter((source) => source === null || resolved.sources.includes(source));
  const whole = filterOf(resolved.options);
  const { signal } = context;
  const results = await reportEach(sources, { signal, opener }, async (source) => {
    const filter = isLive ? withKindsOfIds(whole, opener.mirrorIfAny(), source) : whole;
    const sides = await opener.openPair({ reference: from, source }, { reference: to, source }, { filter });
    const definitions = definitionsOf(options, config, source ?? config.sources[0]?.name ?? '');
    const document = await compareStates({
      ...sides,
      filter,
      mode: comparisonMode(options),
      fields: options.field ?? [],
      definitions,
      leaveOut: kindsOfNeither(
        config.sources.find(({ name }) => name === source),
        [sides.from, sides.to],
        filter,
      ),
      isExcluded: isExcludedBy(config, source ?? ''),
      ...(isOfMirror(from) && isOfMirror(to) ? { mirror: opener.mirror() } : {}),
      ...(options.id === undefined ? {} : { typedIds: options.id }),
      idMap: source === null ? [] : (opener.mirrorIfAny()?.restores.idMap(source) ?? []),
      signal,
    });
    const warnings = pairWarnings(sides);
    const mirror = opener.mirrorIfAny();
    const isInSync = from.form === 'latest' && to.form === 'live' && document.changes.length === 0;
    if (isInSync && options.format === 'text' && mirror !== null && source !== null)
      printNote(context, lossNotes(mirror, config, { document, source, filter }));
    const isNamed = source !== null && namesItsSource(config);
    const title = isNamed ? `Configuration changes of ${source}` : null;
    const isOneOf = sources.length > 1;
    // Against live, what the latest state lacks is listed as differences.
    const own = isLive
      ? { document, lack: LACKS_NOTHING }
      : withLack(document, {
          from: { reference: from, opener, source },
          to: { reference: to, opener, source },
        });
    const report = { ...own, source, definitions, warnings, title, isOneOf };
    return diffReport(context, options, opener, report);
  });
  return await deliver(context, options, results);
}

/** @param configs of their common mirror, or of the mirror of each */
async function diffTwoSources(
  context: CommandContext,
  options: FormattedOptions,
  configs: readonly Config[],
  { from, to, pair }: { from: Reference; to: Reference; pair: readonly [string, string] },
): Promise<ExitCode> {
  const [one, other] = pair;
  const [config, otherConfig] = pair.map((name) => configOf(configs, name)) as [Config, Config];
  if (config !== otherConfig) refuseRedacted([config, otherConfig]);
  using opener = new StateOpener(context, config, 'diff');
  using otherOpener = config === otherConfig ? opener : new StateOpener(context, otherConfig, 'diff');
  const sides = await opener.openPair(
    { reference: from, source: one },
    { reference: to, source: other },
    // Records are matched through their parents and by references: all lists are needed, whatever is reported.
    {
      filter: {},
      except: new Set(activityKinds().filter((kind) => options.kind?.includes(kind) !== true)),
    },
    otherOpener,
  );
  const definitions = definitionsOf(options, otherConfig, other);
  const { options: resolved, sources } = await withRealIds(options, config, {
    ...knownTo(context, opener, pair, [from, to]),
    states: () =>
      Promise.resolve([
        { source: one, state: sides.from },
        { source: other, state: sides.to },
      ]),
  });
  const lacking = pair.find((source) => !sources.includes(source));
  if (lacking !== undefined)
    throw new TidemarkError('usage', `the organization that was named is none of source ${lacking}`, {
      hint: 'give the ids: of both sources, if they differ',
    });
  const mirror = config === otherConfig ? opener.mirrorIfAny() : null;
  const document = compareSources({
    ...sides,
    filter: filterOf(resolved),
    mode: comparisonMode(options),
    fields: options.field ?? [],
    definitions,
    excluded: { from: excludedOf(config, one), to: excludedOf(otherConfig, other) },
    fingerprintKey: mirror === null ? null : () => mirror.acceptances.fingerprintKey(),
  });
  return await deliver(context, options, [
    diffReport(context, options, otherOpener, {
      // No title: both references name their sources.
      ...withLack(document, {
        from: { reference: from, opener, source: one },
        to: { reference: to, opener: otherOpener, source: other },
      }),
      ...{ source: other, definitions, title: null, isOneOf: false },
      removedFrom: { opener, source: one, definitions: definitionsOf(options, config, one) },
      warnings: document.warnings ?? [],
    }),
  ]);
}

function configOf(configs: readonly Config[], source: string): Config {
  const config = configs.find(({ sources }) => sources.some(({ name }) => name === source));
  if (config === undefined) throw new TidemarkError('internal', `${source} has no mirror`);
  return config;
}

function excludedOf({ sources }: Config, source: string): ReadonlySet<Kind> {
  const configured = sources.find(({ name }) => name === source);
  return new Set(configured === undefined ? [] : excludedKinds(configured));
}

/** Two mirrors store different fingerprints of the same secret: each would look like a difference. */
function refuseRedacted(configs: readonly Config[]): void {
  const redacted = configs.flatMap(({ sources }) => sources.filter(({ redact }) => redact));
  if (redacted.length === 0) return;
  throw new TidemarkError(
    'usage',
    `${redacted.map(({ name }) => name).join(' and ')} store fingerprints of secrets (redact), which mean nothing in another mirror`,
    {
      hint: 'compare both in one mirror: on copies of the two files, `tidemark mirror move --to FILE` makes one of them',
    },
  );
}

/** A patch is applied to bodies: it must name fields as they have them. */
function definitionsOf(
  { format }: FormattedOptions,
  config: Config,
  source: string,
): (kind: Kind) => ResourceDefinition {
  const definitions = definitionsFor(config, source);
  if (format !== 'patch') return definitions;
  const asReceived = new Map(KINDS.map((kind) => [kind, withoutFallbackPointers(definitions(kind))]));
  return (kind) => asReceived.get(kind) ?? definitions(kind);
}

function diffReport(
  context: CommandContext,
  options: FormattedOptions,
  opener: StateOpener,
  {
    document,
    source,
    definitions,
    warnings,
    lack,
    title,
    isOneOf,
    removedFrom,
  }: {
    document: DiffDocument;
    source: string | null;
    warnings: readonly string[];
    /** What is missing in the latest state, if that is one of the sides. */
    lack: Pick<LackOfLatest, 'notes' | 'reason'>;
    title: string | null;
    /** True if several sources are compared: notes name theirs. */
    isOneOf: boolean;
    /** If FROM is another source: the mirror and the definitions of its records. */
    removedFrom?: Pick<ReportOptions, 'definitions'> & { opener: StateOpener; source: string };
  } & Pick<ReportOptions, 'definitions'>,
): SourceReport {
  const mirror = opener.mirrorIfAny();
  const mirrorOfRemoved = removedFrom === undefined ? mirror : removedFrom.opener.mirrorIfAny();
  const sourceOfRemoved = removedFrom?.source ?? source;
  const shared: ReportOptions = {
    definitions,
    fileOf: opener.filesOfStates(),
    ...(title === null ? {} : { title }),
    showsSecrets: options.showSecrets === true,
    generatedAt: isoTime(systemClock.now()),
    ...(source === null ? {} : { source }),
    ...(mirror === null || source === null
      ? {}
      : { parentName: parentNames(mirror, source, definitions, document.to.run) }),
    ...(mirrorOfRemoved === null || sourceOfRemoved === null
      ? {}
      : {
          removedParentName: parentNames(
            mirrorOfRemoved,
            sourceOfRemoved,
            removedFrom?.definitions ?? definitions,
            document.from.run,
          ),
        }),
  };
  const placeOf = namedPlaces(shared);
  const notes = comparisonNotes(document, definitions, placeOf);
  const isForPeople = CHANGES_SHOWN.includes(options.format);
  const isHere = options.format === 'text' && options.output === undefined;
  // A report for people says what was left out; one that is printed together with stderr has all notes.
  const beside = !isForPeople
    ? notes
    : isHere && isOneOutput(context)
      ? []
      : comparisonNotes({ ...document, left_out: [] }, definitions, placeOf);
  const owner = isOneOf && source !== null ? source : undefined;
  printNote(
    context,
    (isForPeople ? beside : [...warnings, ...beside]).map((line) => ofSource(line, owner)),
  );
  return {
    source,
    exitCode: codeWithLack(lack, diffExitCode(document)),
    reason: [...lack.reason, ...comparisonReason(document, definitions, { mirror, source, placeOf })],
    json: () => renderJson(document, shared).trimEnd(),
    render: (format) =>
      renderDocument(context, document, format, {
        ...shared,
        notes: [
          ...warnings,
          ...lack.notes,
          ...(isHere
            ? notesInText(document, definitions, { placeOf, isVerbose: context.options.verbose === true })
            : [...forgottenNotes(document), ...notes]),
        ],
        isFile: options.output !== undefined,
      }),
  };
}

/** The sources to compare; a single null if only exports are compared and no source is named. */
export function sourcesOf(
  context: CommandContext,
  config: Config,
  opener: StateOpener,
  references: readonly Reference[],
): readonly (string | null)[] {
  const named = context.options.source?.length ?? 0;
  if (references.every(({ form }) => form === 'file'))
    return [named === 1 ? (context.options.source?.[0] ?? null) : null];
  const sources = references.some(isOfMirror)
    ? sourcesToRead(config, opener.mirror())
    : config.sources.map(({ name }) => name);
  if (sources.length > 1 && named !== 1 && references.some(({ form }) => form === 'file')) {
    throw new TidemarkError('usage', 'an export is compared with one source, and several are configured', {
      hint: `name it with --source: ${sources.join(', ')}`,
    });
  }
  return sources;
}

/** How the records are found that names and masked ids on the command line mean. */
export function knownTo(
  context: CommandContext,
  opener: StateOpener,
  sources: readonly (string | null)[],
  references: readonly Reference[],
): KnownTo {
  const named = sources.length === 0 ? [null] : sources;
  return {
    note: (line) => printNote(context, [line]),
    mirror: () => opener.mirrorIfAny(),
    sources: sources.filter((source) => source !== null),
    readsLive: references.some(({ form }) => form === 'live'),
    isWithinStates: references.every(({ form }) => form !== 'live'),
    states: async () => {
      const states: SourceState[] = [];
      for (const reference of references.filter(({ form }) => form !== 'live'))
        for (const source of named) {
          try {
            states.push({ source, state: await opener.open(reference, source, { filter: {} }) });
          } catch (error) {
            // Reported when the source is compared.
            if (!(error instanceof TidemarkError)) throw error;
          }
        }
      return states;
    },
  };
}

/** @throws TidemarkError `usage`, with the configured sources, unless two different ones are named */
function sourcePair(context: CommandContext, toSource: string): readonly [string, string] {
  const [one, ...others] = context.options.source ?? [];
  if (one !== undefined && others.length === 0 && one !== toSource) return [one, toSource];
  const { config } = context.options;
  const { sources } = readLoadedConfig(context, config === undefined ? {} : { config }, 'unused');
  const names = sources.map(({ name }) => name);
  throw new TidemarkError('usage', '--to-source compares two different sources', {
    hint:
      names.length < 2
        ? `a second one is needed: ${names[0] ?? 'no source'} is the only one configured`
        : `name the other one with --source, once: tidemark diff --source A --to-source B; configured are: ${names.join(', ')}`,
  });
}

export function comparisonMode({ managedOnly, all }: ComparisonOptions): ComparisonMode {
  if (managedOnly === true && all === true) {
    throw new TidemarkError('usage', '--managed-only and --all exclude each other', {
      hint: 'leave one of them out',
    });
  }
  return managedOnly === true ? 'managed' : all === true ? 'all' : 'default';
}

/**
 * The filter with the kinds of its ids, so that live only these are read, if the latest state of the mirror has all ids; otherwise the
 * filter unchanged. Also if an id is of a kind that is not read as lists: naming such a kind would request more.
 */
function withKindsOfIds(filter: StateFilter, mirror: Mirror | null, source: string | null): StateFilter {
  const { ids = [], kinds } = filter;
  if (mirror === null || source === null || kinds !== undefined || ids.length === 0) return filter;
  if (mirror.runs.latest(source) === undefined || !ids.every((id) => UUID.test(id))) return filter;
  const latest = openMirrorState(mirror, source, resolvedStateOf(mirror, LATEST, { source }));
  const found = new Map<string, Set<Kind>>();
  for (const { kind, id } of latest.keys?.({ ids }) ?? latest.records({ ids }))
    found.set(id, (found.get(id) ?? new Set<Kind>()).add(kind));
  const all = [...new Set([...found.values()].flatMap((own) => [...own]))];
  const isPlain = all.every((kind) => definitionOf(kind).reading === 'list');
  return ids.every((id) => found.has(id)) && isPlain ? { ...filter, kinds: all } : filter;
}
