/** `tidemark drift`: what drifted from the baseline, except accepted and ignored drift; worst first. */
import { activityKinds, scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Severity } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { mirroredKinds } from '../config/mirrored-kinds.ts';
import { namesItsSource } from '../config/mirrors.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import type { ExitCode } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import { localTime, plural } from '../core/wording.ts';
import { diffExitCode } from '../diff/change.ts';
import { placeOf } from '../diff/compare.ts';
import { type Finding, withThreshold } from '../diff/drift.ts';
import { changeSeverity } from '../diff/severity.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { interruptedRestore, type UnendedRestore, unendedText } from '../mirror/unfinished-restore.ts';
import { CONTRADICTED, driftDocument } from '../report/drift-document.ts';
import { namedPlaces } from '../report/notes.ts';
import { maskedPlace, withMaskedId } from '../report/mask.ts';
import { byText, nameText } from '../report/value-text.ts';
import { kindsOutsideDrift, type SourceDrift } from '../state/drift.ts';
import { forgottenNotes } from '../state/runs.ts';
import { heldLines, heldReport, removalsWithin, sourceLookup } from '../state/held-names.ts';
import { alteredRows, type Sealed, sealedRun, sealNotes } from '../state/intact.ts';
import { parentNames } from '../state/parent-names.ts';
import { parseReference } from '../state/reference.ts';
import { comparisonNotes, notesInText } from './run-comparison.ts';
import { isOneOutput, ofSource, printNote, type CommandContext } from './context.ts';
import { type ComparisonOptions, comparisonMode, knownTo, sourcesOf, CHANGES_SHOWN } from './diff.ts';
import { type FoundDrift, findDrift, isAtLeast, requireBaseline } from './drift-place.ts';
import { filterOf } from './filter-options.ts';
import { codeWithLack, lackOfLatest, LACKS_NOTHING } from './latest-state.ts';
import { withRealIds } from './real-ids.ts';
import {
  comparisonReason,
  deliver,
  formatOf,
  renderDocument,
  reportEach,
  type ReportFormat,
  type SourceReport,
} from './report-output.ts';
import { isOfMirror, snapshotNames, StateOpener } from './state-opener.ts';
import { readConfigToShow } from './unmasked-keys.ts';

interface DriftOptions extends ComparisonOptions {
  readonly from?: string;
  readonly live?: boolean;
  readonly severity?: Severity;
}

type FormattedOptions = DriftOptions & { readonly format: ReportFormat };

/** Exit 0 no open drift, 2 drift, 3 something could not be compared, 1 nothing could, 4 no baseline is set, 5 every request was refused. */
export async function drift(context: CommandContext, asked: DriftOptions): Promise<ExitCode> {
  const formats = ['text', 'json', 'markdown', 'html', 'junit', 'sarif'] as const;
  const options = { ...asked, format: formatOf(context, asked, formats) };
  const mode = comparisonMode(options);
  const now = systemClock.now();
  const from = parseReference(options.from ?? 'baseline', now, { snapshots: snapshotNames(context) });
  const to = parseReference(options.live === true ? 'live' : 'latest', now);
  const keys = [from, to].some(({ form }) => form === 'live') ? 'required' : 'unused';
  const config = readConfigToShow(context, keys);
  using opener = new StateOpener(context, config, 'drift');
  // Comparing an export with live needs no mirror. Without one nothing is accepted, and parents are shown by their ids.
  if ([from, to].some(isOfMirror)) requireBaseline(opener.mirror(), from);
  const { signal } = context;
  const sources = sourcesOf(context, config, opener, [from, to]);
  const resolved = await withRealIds(options, config, knownTo(context, opener, sources, [from, to]));
  const filter = filterOf(resolved.options);
  const named = sources.flatMap((source) =>
    source !== null && resolved.sources.includes(source) ? source : [],
  );
  if (opener.mirrorIfAny() === null)
    printNote(context, [
      'without a mirror nothing counts as accepted, and fingerprints identify the place only',
    ]);
  let altered: readonly string[] | undefined;
  const results = await reportEach(named, { signal, opener }, async (source) => {
    const found = await findDrift(config, opener, {
      source,
      from,
      to,
      filter,
      mode,
      fields: options.field ?? [],
      now: systemClock.now(),
      signal,
      ...(options.id === undefined ? {} : { typedIds: options.id }),
    });
    const isOfLatest = to.form === 'latest';
    // The live state and exports have no root hash of this mirror.
    const ofMirror = isOfMirror(to) ? found.document.to : isOfMirror(from) ? found.document.from : null;
    // `altered` is computed once for all sources.
    const head =
      ofMirror === null
        ? null
        : sealedRun(opener.mirror(), ofMirror.run, (altered ??= alteredRows(opener.mirror())));
    return driftReport(context, options, opener, found, {
      config,
      head,
      isOfLatest,
      isNamed: namesItsSource(config),
      isOneOf: named.length > 1,
      unmirrored: neverMirrored(config, opener.mirrorIfAny(), source),
    });
  });
  return await deliver(context, options, results);
}

function driftReport(
  context: CommandContext,
  options: FormattedOptions,
  opener: StateOpener,
  all: FoundDrift,
  {
    config,
    head,
    isOfLatest,
    isNamed,
    isOneOf,
    unmirrored,
  }: {
    readonly config: Config;
    /** The run of the newer state that is of the mirror. */
    readonly head: Sealed | null;
    readonly isOfLatest: boolean;
    readonly isNamed: boolean;
    /** True if several sources are compared: notes name theirs. */
    readonly isOneOf: boolean;
    readonly unmirrored: ReadonlySet<Kind>;
  },
): SourceReport {
  const { found, below } = aboveThreshold(all, options.severity);
  const { source, definitions, severityOf, fingerprintOf, document } = found;
  const mirror = opener.mirrorIfAny();
  const parents = mirror === null ? {} : { parentName: parentNames(mirror, source, definitions) };
  const placeOf = namedPlaces({ definitions, ...parents });
  const beside = comparisonNotes(document, definitions, placeOf);
  const leftOut = document.left_out ?? [];
  const isVerbose = context.options.verbose === true;
  const activity = new Set(isVerbose ? [] : kindsOutsideDrift(filterOf(options)));
  const isActivityLeftOut = leftOut.some(({ kind }) => activity.has(kind) && !unmirrored.has(kind));
  // A line about activity in each drift would be noise: without --verbose it is a few words after the counts.
  const noted = { ...document, left_out: leftOut.filter(({ kind }) => !activity.has(kind)) };
  const besideHere = comparisonNotes(noted, definitions, placeOf);
  const isForPeople = CHANGES_SHOWN.includes(options.format);
  const isHere = options.format === 'text' && options.output === undefined;
  const lack =
    isOfLatest && mirror !== null
      ? lackOfLatest(mirror, source, '`tidemark drift --live` reads the service now')
      : LACKS_NOTHING;
  const interrupted = mirror === null ? null : interruptedRestore(mirror, source);
  const interruptedLines = interrupted === null ? [] : [interruptedText(interrupted)];
  const removals =
    isOfLatest && mirror !== null
      ? removalsWithin(mirror, source, sourceLookup(config), all.missing, options.kind)
      : null;
  const held =
    removals === null
      ? null
      : heldReport(removals, definitions, isNamed ? source : null, narrowingOptions(options));
  const heldAbove = heldLines(removals?.above ?? [], definitions);
  const lines = [
    ...(isForPeople
      ? isHere && isOneOutput(context)
        ? []
        : comparisonNotes({ ...document, left_out: [] }, definitions, placeOf)
      : [
          ...all.warnings,
          ...interruptedLines,
          ...heldLines(removals?.held ?? [], definitions),
          ...heldAbove,
          ...besideHere,
        ]),
    ...all.contradictions,
  ];
  printNote(
    context,
    lines.map((line) => ofSource(line, isOneOf ? source : undefined)),
  );
  const notes = (isActivityNamed: boolean, areIgnoredListed: boolean): string[] => [
    ...all.warnings,
    ...lack.notes,
    ...interruptedLines,
    ...(held?.lines ?? []),
    ...heldAbove,
    ...driftNotes(found, below, options, {
      isActivityLeftOut: isActivityLeftOut && !isActivityNamed,
      areIgnoredListed,
    }),
  ];
  const shared = {
    definitions,
    severityOf,
    fingerprintOf,
    fileOf: opener.filesOfStates(),
    source,
    title: `Configuration drift${isNamed ? ` of ${source}` : ''}`,
    isWorstFirst: true,
    findings: found.open,
    forms: found.forms,
    showsSecrets: options.showSecrets === true,
    generatedAt: isoTime(systemClock.now()),
    ...parents,
    isFile: options.output !== undefined,
    ...(held === null ? {} : { lead: held.lead, next: held.next }),
  };
  return {
    source,
    exitCode: codeWithLack(lack, diffExitCode(document)),
    reason: [...lack.reason, ...comparisonReason(document, definitions, { mirror, source, placeOf })],
    json: () =>
      JSON.stringify(
        driftDocument(found, {
          below,
          showsSecrets: shared.showsSecrets,
          failedRun: lack.failedRun,
          head,
          restoredSince: lack.restoredSince,
        }),
        null,
        2,
      ),
    render: (format) => {
      // As text, only the numbers of accepted and ignored findings, without --verbose.
      const isListed = format !== 'text' || isVerbose;
      const sealed = format === 'html' || format === 'markdown' ? sealNotes(head) : [];
      const sealedLast = format === 'text' && isVerbose ? sealNotes(head) : [];
      return renderDocument(context, document, format, {
        ...shared,
        ...(format === 'text' ? { timeText: localTime } : {}),
        ...(isListed ? { accepted: found.accepted, ignored: found.ignored } : {}),
        notes: isHere
          ? [...notes(false, isListed), ...notesInText(noted, definitions, { placeOf, isVerbose })]
          : [...sealed, ...notes(true, isListed), ...forgottenNotes(document), ...beside],
        ...(sealedLast.length === 0 ? {} : { next: [...(held?.next ?? []), ...sealedLast] }),
      });
    },
  };
}

/** The options that select records, other than --kind, as given. */
function narrowingOptions({ organization = [], project = [], id = [] }: DriftOptions): string {
  const all = Object.entries({ organization, project, id });
  return all.flatMap(([name, values]) => values.map((value) => ` --${name} ${shellWord(value)}`)).join('');
}

/** Activity kinds that the configuration excludes and the mirror has no records of: nobody expects them to be compared. */
function neverMirrored(config: Config, mirror: Mirror | null, source: string): ReadonlySet<Kind> {
  const configured = config.sources.find(({ name }) => name === source);
  const latest = mirror?.runs.latest(source);
  if (mirror === null || configured === undefined || latest === undefined) return new Set();
  const mirrored = mirroredKinds(configured);
  const excluded = activityKinds().filter((kind) => !mirrored.has(kind));
  const counts = mirror.records.countsAt(latest.run, { sources: [source], kinds: excluded });
  const held = new Set(counts.filter(({ records }) => records > 0).map(({ kind }) => kind));
  return new Set(excluded.filter((kind) => !held.has(kind)));
}

function interruptedText(row: UnendedRestore): string {
  const name = `restore ${row.restore}`;
  return `${unendedText(name, row)}, so some of this may be its own: \`tidemark restore --resume ${row.restore}\` continues it`;
}

/** The drift without findings below the threshold, and how many these are. */
function aboveThreshold(
  all: SourceDrift,
  threshold: Severity | undefined,
): { found: SourceDrift; below: number } {
  if (threshold === undefined) return { found: all, below: 0 };
  const open = all.open.filter(({ severity }) => isAtLeast(severity, threshold));
  const document = withThreshold(all, (change, field) =>
    isAtLeast(
      field === null ? changeSeverity(change, all.severityOf) : all.severityOf(change, field),
      threshold,
    ),
  );
  return { found: { ...all, open, document }, below: all.open.length - open.length };
}

/** ` in 13 records`; empty if each record has only one finding. */
function recordsText(findings: readonly Finding[]): string {
  const records = new Set(findings.map(({ kind, scope, id }) => JSON.stringify([kind, scopeKey(scope), id])))
    .size;
  return records === findings.length ? '' : ` in ${plural(records, 'record')}`;
}

/** Counts, and notes about findings and acceptances. */
function driftNotes(
  { document, open, accepted, ignored, missed, stale, definitions }: SourceDrift,
  below: number,
  { severity: threshold, showSecrets }: DriftOptions,
  { isActivityLeftOut, areIgnoredListed }: Record<'isActivityLeftOut' | 'areIgnoredListed', boolean>,
): string[] {
  const nameOf = (finding: Finding): string =>
    nameText(showSecrets === true ? finding.name : withMaskedId(finding, definitions(finding.kind)).name);
  const reopened = open.filter((finding) => finding.reopened !== undefined);
  const { at } = document.to;
  // For example accepted with --live: the newest run does not have the value yet.
  const early = stale.filter(({ acceptedAt }) => at !== undefined && acceptedAt > at);
  return [
    `${plural(open.length, 'finding')} open${recordsText(open)}, ${accepted.length} accepted, ${ignored.length} ignored by rule` +
      (ignored.length === 0 || areIgnoredListed ? '' : ' (`--verbose` lists them)') +
      (below === 0 ? '' : `, ${below} below ${threshold ?? ''} not shown`) +
      (isActivityLeftOut ? '; activity data not compared' : ''),
    ...reopened.map((finding) => {
      const { kind, path, reopened: again } = finding;
      const where = `${kind} ${nameOf(finding)}${path === '' ? '' : ` ${nameText(path)}`}`;
      if (again?.because === 'contradicted') return `not accepted: ${where}: ${CONTRADICTED}`;
      const why = again?.because === 'expired' ? 'its acceptance expired' : 'its value changed again';
      const by = again === undefined ? '' : ` by ${byText(again.acceptance)}`;
      return `accepted before${by}, open again: ${where}: ${why}`;
    }),
    ...missed.map(({ finding, rule }) => {
      const place = maskedPlace(placeOf(finding), definitions(finding.kind));
      return `not ignored by the rule for ${nameText(rule.path ?? '')}: its index may be another element's tomorrow; write ${nameText(place)}, or * for any`;
    }),
    ...(early.length === 0
      ? []
      : [
          `${plural(early.length, 'acceptance')} made after this state was read, of what does not drift in it: the value is accepted once it is read, unless \`tidemark drift unaccept\` withdraws that`,
        ]),
    ...(stale.length === early.length
      ? []
      : [
          `${plural(stale.length - early.length, 'acceptance')} of what no longer drifts: the value is accepted if it comes back, unless \`tidemark drift unaccept\` withdraws that`,
        ]),
  ];
}
