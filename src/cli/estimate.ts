/** `tidemark estimate`: the requests and time of a sync, a live diff or a restore, before it starts. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Schedule, SourceConfig } from '../config/config.ts';
import { keyFingerprint } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import { byteSize, duration, formatInteger, plural } from '../core/wording.ts';
import { estimateFromMirror, estimateFromReach, waitFor } from '../doctor/estimate.ts';
import type { SourceEstimate, Basis, CollectionEstimate } from '../doctor/estimate.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { kindsToRead } from '../restore/plan/dependents.ts';
import { heldOnce } from '../state/held-names.ts';
import { resolveState } from '../state/resolved-state.ts';
import { wantedKinds } from '../sync/run-extent.ts';
import { recentRequests } from '../wire-client.ts';
import { readConfig, readLoadedConfig } from '../wire.ts';
import { print, printJson, printNote, type CommandContext, terminalWidth } from './context.ts';
import { openToInspect } from './doctor-report.ts';
import { limitsText } from './rate-text.ts';
import { probeSource } from './source-probe.ts';
import { type HourNeed, hourNeeds, type SyncCost, syncCosts, syncsInBusiestHour } from './sync-per-hour.ts';
import { renderTable } from '../report/table.ts';

interface EstimateOptions {
  readonly what?: string;
  readonly kind?: readonly Kind[];
  readonly full?: boolean;
  readonly from?: string;
}

const WHATS = ['sync', 'diff', 'restore'] as const;
type EstimatedCommand = (typeof WHATS)[number];

/** To check a record, write it and read it back. */
const REQUESTS_PER_STEP = 3;
/** Assumed if the service's response time is not known. */
const USUAL_REQUEST_MS = 200;

export async function estimate(context: CommandContext, options: EstimateOptions): Promise<ExitCode> {
  const what = estimatedCommand(options);
  const unchecked = readConfig(context, context.options, 'unused');
  const { mirror: opened, error } = openToInspect(context, unchecked, 'estimate');
  using mirror = opened;
  if (error !== null) printNote(context, [`the mirror cannot be used: ${error.message}`]);
  const names = unchecked.sources.map(({ name }) => name);
  const isInMirror = (name: string): boolean => mirror?.runs.latest(name) !== undefined;
  // A key is required only if a source has no run in the mirror.
  const config =
    names.length > 0 && names.every(isInMirror) ? unchecked : readConfig(context, context.options);
  const estimated: ShownEstimate[] = [];
  for (const source of config.sources)
    estimated.push(await estimateSource(context, source, mirror, config.rateLogBeside, what, options));
  const isScheduled = what === 'sync' && options.full !== true && options.kind === undefined;
  const shown = isScheduled ? withHourNeeds(context, estimated) : estimated;
  const width = terminalWidth(context);
  if (context.options.json === true) await printJson(context, estimateDocument(what, shown));
  else await print(context, `${shown.map((each) => renderEstimate(what, each, width)).join('\n\n')}\n`);
  return EXIT.done;
}

function withHourNeeds(context: CommandContext, shown: readonly ShownEstimate[]): ShownEstimate[] {
  const names = new Set(shown.map(({ source }) => source.name));
  const keys = new Set(shown.map(({ source }) => keyFingerprint(source)));
  const isOther = (source: SourceConfig): boolean => !names.has(source.name);
  const { schedule, costs, times } =
    context.ofSeveral?.once(scheduledSyncs) ??
    scheduledSyncs(context, (source) => isOther(source) && keys.has(keyFingerprint(source)));
  if (schedule === null) return [...shown];
  const scheduled = new Set(schedule.sources);
  const own = shown.filter(({ source }) => scheduled.has(source.name));
  const needOf = hourNeeds([...own, ...costs.filter(({ source }) => isOther(source))], schedule, times);
  return shown.map((each) => ({ ...each, needed: needOf(each.source) }));
}

/** The costs of scheduled syncs, also of sources that `--source` leaves out. */
function scheduledSyncs(
  context: CommandContext,
  isCounted: (source: SourceConfig) => boolean = () => true,
): { readonly schedule: Schedule | null; readonly costs: readonly SyncCost[]; readonly times: number } {
  const { config: file } = context.options;
  const loaded = readLoadedConfig(context, file === undefined ? {} : { config: file }, 'unused');
  const { sync: schedule } = loaded.schedules;
  if (schedule === null) return { schedule, costs: [], times: 0 };
  const scheduled = new Set(schedule.sources);
  const costs = syncCosts(context, loaded, (each) => scheduled.has(each.name) && isCounted(each));
  return { schedule, costs, times: syncsInBusiestHour(schedule) };
}

function estimatedCommand({ what = 'sync', from, full }: EstimateOptions): EstimatedCommand {
  const found = WHATS.find((each) => each === what);
  if (found === undefined) {
    const near = suggest(what, WHATS);
    throw new TidemarkError('usage', `cannot estimate ${JSON.stringify(what)}`, {
      hint: near === undefined ? `use one of ${WHATS.join(', ')}` : `did you mean ${near}?`,
    });
  }
  if (from !== undefined && found !== 'restore')
    throw new TidemarkError('usage', '--from names the state of a restore', {
      hint: 'write `tidemark estimate restore`',
    });
  if (full === true && found !== 'sync')
    throw new TidemarkError(
      'usage',
      '--full applies to a sync; a live diff and a restore always read complete lists',
    );
  return found;
}

async function estimateSource(
  context: CommandContext,
  source: SourceConfig,
  mirror: Mirror | null,
  rateLogBeside: string,
  what: EstimatedCommand,
  options: EstimateOptions,
): Promise<ShownEstimate> {
  const kinds = kindsOf(source, what, options);
  const now = systemClock.now();
  const parents = what === 'sync' ? 'budget' : options.kind !== undefined ? 'all' : 'all_or_none';
  const run = mirror?.runs.latest(source.name);
  let found: SourceEstimate;
  if (mirror === null || run === undefined) {
    const reach = await probeSource(context, source, mirror, rateLogBeside, options.kind ?? null);
    if (reach.fatal !== null) throw reach.fatal;
    const own = reach.kinds.filter(({ kind }) => kinds.has(kind));
    found = estimateFromReach({ ...reach, kinds: own }, parents);
  } else {
    const isWhole = what !== 'sync' || options.full === true;
    found = estimateFromMirror({ mirror, source, run, kinds, isWhole, parents, now });
  }
  const reading = sum(found.collections);
  const back = what === 'restore' && mirror !== null ? comingBack(mirror, source, options) : null;
  const steps = back?.steps ?? null;
  const requests = reading + (back?.looks ?? 0) + (steps ?? 0) * REQUESTS_PER_STEP;
  const recent = recentRequests(source, rateLogBeside);
  const waitMs = Math.max(
    waitFor(requests, source.rate, recent, now),
    ...(source.rate.kinds ?? []).map((limits) =>
      waitFor(
        sum(found.collections.filter(({ kind }) => limits.kinds.includes(kind))),
        limits,
        recentRequests(source, rateLogBeside, limits.kinds[0]),
        now,
      ),
    ),
  );
  const perRequest = found.requestMs ?? USUAL_REQUEST_MS / Math.max(1, source.rate.concurrency);
  return {
    ...found,
    steps,
    held: back?.held ?? 0,
    requests,
    recent: recent.length,
    needed: null,
    ms: Math.max(waitMs, requests * perRequest),
  };
}

function sum(collections: readonly { readonly requests: number }[]): number {
  return collections.reduce((total, { requests }) => total + requests, 0);
}

function kindsOf(source: SourceConfig, what: EstimatedCommand, { kind }: EstimateOptions): ReadonlySet<Kind> {
  if (what !== 'restore') return wantedKinds(source, kind ?? null);
  const definitions = new Map(source.definitions.map((each) => [each.kind, each]));
  const needed = kindsToRead(new Set(kind ?? CATALOG.map((each) => each.kind)), (each) => {
    const definition = definitions.get(each);
    if (definition === undefined) throw new Error(`a source without a definition of ${each}`);
    return definition;
  });
  return wantedKinds(source, needed);
}

/**
 * The least number of steps of a restore, by the differences between the state and the latest run and the removals that it holds (`held`
 * of them); and the requests for single records (`looks`).
 */
function comingBack(
  mirror: Mirror,
  source: SourceConfig,
  { from = 'latest', kind }: EstimateOptions,
): Record<'steps' | 'held' | 'looks', number> {
  const resolvedState = resolveState(mirror, from, { source: source.name, now: systemClock.now() });
  const latest = mirror.runs.latest(source.name);
  if (latest === undefined) return { steps: 0, held: 0, looks: 0 };
  const written = new Map(
    source.definitions
      .filter((each) => each.restore.never === null && (kind?.includes(each.kind) ?? true))
      .map((each) => [each.kind, each]),
  );
  const held = heldOnce(mirror, source.name)
    .filter((each) => written.has(each.kind))
    .reduce((total, { records, below }) => total + records + below, 0);
  let steps = held;
  let looks = 0;
  if (latest.run === resolvedState.run) return { steps, held, looks };
  const filter = { sources: [source.name], kinds: [...written.keys()] };
  for (const changed of mirror.records.changesBetween(resolvedState.run, latest.run, filter)) {
    if (changed.before === changed.after || changed.before === undefined) continue;
    steps += 1;
    const definition = written.get(changed.kind);
    const isGone = changed.after === undefined;
    if (isGone && definition !== undefined && definition.operation('retrieve') !== undefined) looks += 1;
  }
  return { steps, held, looks };
}

// The estimate as text and as `tidemark.estimate/1`.

interface ShownEstimate extends SourceEstimate {
  /** Steps of a restore, as far as known from the mirror; null for anything else. */
  readonly steps: number | null;
  /** How many of the steps are for records whose removal is held, so that the latest state still has them. */
  readonly held: number;
  /** All requests, including those of the steps. */
  readonly requests: number;
  /** Requests of the last hour that the limits still count. */
  readonly recent: number;
  /** What the busiest hour of the schedule needs; null except for a scheduled sync. */
  readonly needed: HourNeed;
  /** Milliseconds. */
  readonly ms: number;
}

const BASES: Readonly<Record<Basis, string>> = {
  last_run: 'last run',
  count: 'count',
  guess: 'guess',
};

interface KindEstimate {
  readonly kind: Kind;
  readonly collections: number;
  readonly requests: number;
  readonly bytes: number;
  readonly records: number | null;
  /** The least certain basis of its collections. */
  readonly basis: Basis;
}

function byKind(collections: readonly CollectionEstimate[]): KindEstimate[] {
  return [...Map.groupBy(collections, ({ kind }) => kind)].map(([kind, rows]) => ({
    kind,
    collections: rows.length,
    requests: sum(rows),
    bytes: bytesOf(rows),
    records: rows.some(({ records }) => records === null)
      ? null
      : rows.reduce((total, { records }) => total + (records ?? 0), 0),
    basis:
      (['guess', 'count', 'last_run'] as const).find((basis) => rows.some((row) => row.basis === basis)) ??
      'guess',
  }));
}

function bytesOf(rows: readonly Pick<CollectionEstimate, 'bytes'>[]): number {
  return rows.reduce((total, { bytes }) => total + bytes, 0);
}

function renderEstimate(what: EstimatedCommand, shown: ShownEstimate, width: number | undefined): string {
  const { source, collections, requests, recent, ms, steps, held, known, guessed, asked, from } = shown;
  const limits = limitsText(source.rate);
  const lines = [
    `${what} of ${source.name}: about ${plural(requests, 'request')}, ${duration(ms)}, ${byteSize(bytesOf(collections))}`,
    '',
    renderTable(
      ['kind', 'lists', 'records', 'requests', 'size', 'known from'],
      byKind(collections).map((row) => [
        row.kind,
        formatInteger(row.collections),
        row.records === null ? '?' : formatInteger(row.records),
        formatInteger(row.requests),
        byteSize(row.bytes),
        BASES[row.basis],
      ]),
      ['left', 'right', 'right', 'right', 'right', 'left'],
      { width },
    ),
    '',
    `rate: ${limits === null ? 'no limit' : `at most ${limits}`}${recent > 0 ? `; ${plural(recent, 'request')} of the last hour count` : ''}`,
    ...warningsOf(shown).map((line) => `warning: ${line}`),
    ...known.map((line) => `known: ${line}`),
    ...guessed.map((line) => `guessed: ${line}`),
    ...aboutWhat(what, steps, held),
    from === 'mirror'
      ? 'asked: nothing, the mirror has the answer'
      : `asked: ${plural(asked, 'request')} to find out`,
  ];
  return lines.map((line) => (line.includes('\n') ? line : escapeControlCharacters(line))).join('\n');
}

function warningsOf({ needed }: ShownEstimate): string[] {
  return needed === null || needed.warning === null ? [] : [needed.warning];
}

function aboutWhat(what: EstimatedCommand, steps: number | null, held: number): string[] {
  if (what === 'diff')
    return ['of `latest` against `live`: a diff of two states of the mirror sends nothing'];
  if (what !== 'restore') return [];
  if (steps === null)
    return ['guessed: no steps are counted, as there is no mirror; each step costs 3 requests more'];
  return [
    `guessed: ${plural(steps, 'step')} at 3 requests, by what changed between that state and the latest run${held === 0 ? '' : ` and the ${plural(held, 'removal')} that it holds back`}; what changed since costs 3 each`,
  ];
}

function estimateDocument(what: EstimatedCommand, shown: readonly ShownEstimate[]): object {
  return {
    schema: 'tidemark.estimate/1',
    what,
    sources: shown.map((each) => ({
      source: each.source.name,
      from: each.from,
      requests: each.requests,
      minutes: Math.round((each.ms / 60_000) * 100) / 100,
      bytes: bytesOf(each.collections),
      steps: each.steps,
      rate: {
        per_minute: each.source.rate.perMinute,
        per_hour: each.source.rate.perHour,
        used: each.recent,
        needed_per_hour: each.needed?.requests ?? null,
        kinds: (each.source.rate.kinds ?? []).map(({ kinds, perMinute, perHour }) => ({
          ...{ kinds, per_minute: perMinute, per_hour: perHour },
        })),
      },
      collections: each.collections.map(({ kind, scope, requests, bytes, records, basis }) => ({
        ...{ kind, scope, requests, bytes, records, basis },
      })),
      known: each.known,
      guessed: each.guessed,
      asked: each.asked,
      warnings: warningsOf(each),
    })),
  };
}
