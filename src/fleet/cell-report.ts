/** Reads from a cell's mirror what the registry is to know after the work on it: runs, changes, records, findings. */
import { createHash } from 'node:crypto';
import { activityKinds, isPersonKind } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { KINDS, type Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { type ErrorMessage, toErrorMessage } from '../core/child-process.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { firstWords, plural } from '../core/wording.ts';
import { parseCron } from '../daemon/schedule/cron.ts';
import { recordName } from '../diff/change.ts';
import { parseState } from '../diff/states.ts';
import { refusalOf } from '../daemon/jobs/summaries.ts';
import { AuditLogContradicted } from '../mirror/audited-rows.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { openMirror } from '../mirror/open.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { maskedAt, maskedBody, maskedId, maskedPlace, withMaskedId } from '../report/mask.ts';
import { driftBetween } from '../state/drift.ts';
import { diffRuns, openMirrorState } from '../state/mirror-diff.ts';
import { resolvedStateOf } from '../state/resolved-state.ts';
import { soleIds } from '../state/recreated-ids.ts';
import { BASELINE, LATEST, type Reference } from '../state/reference.ts';
import { isPublished, previousRun } from '../state/runs.ts';
import {
  type CellChange,
  type CellFinding,
  type CellOrder,
  type CellRecord,
  type CellRecordKey,
  type CellReport,
  type CellRun,
  MOST_PROJECTED,
  type Projection,
} from './cell.ts';

interface ReportOptions {
  readonly order: Pick<CellOrder, 'cell' | 'known' | 'showsValues'>;
  readonly config: Config;
  readonly clock: Clock;
  /** When the work began, by `clock`. */
  readonly begun: number;
  readonly signal: AbortSignal;
}

const MOST_FINDINGS = 10_000;
const MOST_CHANGES = 10_000;
/** Longest error of a collection in the error of its run, in characters. */
const MOST_OF_ERROR = 500;
const KINDS_NAMED = 3;
/** Starts are spread over the interval of the schedule, but over no more than this. */
const LONGEST_SPREAD_MS = 3_600_000;

/** The report of a cell, from the mirror of the configuration. */
export async function reportOf(
  options: ReportOptions,
): Promise<Omit<CellReport, 'chain' | 'storage' | 'requests' | 'baselineError'>> {
  const { order, config, clock, begun } = options;
  const { cell, known } = order;
  const mirror = openMirror(config.mirror, { mode: 'read', command: 'fleet', clock });
  try {
    const runs = mirror.runs
      .list({ source: cell })
      .filter(({ run, outcome }) => run > (known?.lastRun ?? 0) && outcome !== 'running')
      .reverse();
    const latest = mirror.runs.latest(cell);
    const definitions = definitionsFor(config, cell);
    const context = { ...options, mirror, definitions };
    const { damage, isContradicted, ...content } = await contentOf(context, runs, latest);
    const failed = failedJob(mirror, isoTime(begun));
    return {
      runs: runs.map((run) => runOf(mirror, run)),
      root: latest?.root ?? null,
      schemaVersion: latest === undefined ? null : mirror.schemaVersion,
      recordCount: latest === undefined ? 0 : recordCount(mirror, latest.run, cell),
      ...content,
      baseline: baselineOf(mirror),
      dueAt: dueAtOf(mirror, cell, config),
      error: failed === undefined ? damage : errorOf(failed),
      isRefusal: failed === undefined ? isContradicted : refusalOf(failed) !== null,
    };
  } finally {
    mirror.close();
  }
}

interface ReportContext extends ReportOptions {
  readonly mirror: Mirror;
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

interface Content extends Pick<CellReport, 'changes' | 'projection' | 'findings'> {
  /** Why everything, or the findings, are left out; null if nothing is. */
  readonly damage: ErrorMessage | null;
  /** True if only the baseline is damaged: it contradicts the audit log. */
  readonly isContradicted: boolean;
}

/**
 * The parts of the report that need the bodies of records. If a body is damaged, all are left out: the registry gets
 * the runs only.
 */
async function contentOf(
  context: ReportContext,
  runs: readonly RunRow[],
  latest: RunRow | undefined,
): Promise<Content> {
  try {
    const content = {
      changes: runs.filter(isPublished).flatMap((run) => changesOf(context, run)),
      projection: latest === undefined ? null : projectionOf(context, latest.run),
    };
    try {
      const findings = latest === undefined ? null : await findingsOf(context);
      return { ...content, findings, damage: null, isContradicted: false };
    } catch (thrown) {
      // Another program altered the baseline: the rest is intact.
      if (!(thrown instanceof AuditLogContradicted)) throw thrown;
      return { ...content, findings: null, damage: toErrorMessage(thrown), isContradicted: true };
    }
  } catch (thrown) {
    if (!(thrown instanceof TidemarkError) || thrown.code !== 'mirror_corrupt') throw thrown;
    const damage = toErrorMessage(thrown);
    return { changes: [], projection: null, findings: null, damage, isContradicted: false };
  }
}

/** Number of the newest run of a source, whatever its outcome; 0 for none. */
export function newestRun(mirror: Mirror, source: string): number {
  return mirror.runs.list({ source, limit: 1 })[0]?.run ?? 0;
}

function runOf(mirror: Mirror, row: RunRow): CellRun {
  const { run, startedAt, requests, retries, added, changed, removed, unchanged, root } = row;
  const { errorCode, error } =
    row.outcome === 'partial' && row.error === null ? whyPartial(mirror, run) : row;
  return {
    run,
    outcome: row.outcome === 'running' ? 'failed' : row.outcome,
    startedAt,
    finishedAt: row.finishedAt ?? startedAt,
    ...{ requests, retries, added, changed, removed, unchanged, root, errorCode, error },
  };
}

/** Why the run is partial: held removals first, since a person decides on them, then one error, and how many kinds have others. */
function whyPartial(mirror: Mirror, run: number): Pick<CellRun, 'errorCode' | 'error'> {
  const sweeps = mirror.runs.sweeps(run);
  const kindsOf = (some: typeof sweeps) => [...new Set(some.map(({ kind }) => kind))];
  const holding = sweeps.filter(({ held }) => held > 0);
  const failed = sweeps.filter(({ outcome, error }) => error !== null && outcome !== 'held');
  const first = failed.find(({ outcome }) => outcome !== 'skipped') ?? failed[0];
  const others = kindsOf(failed).length - 1;
  const removals = holding.reduce((sum, { held }) => sum + held, 0);
  const texts = [
    ...(removals === 0
      ? []
      : [
          `${plural(removals, 'removal')} of ${firstWords(kindsOf(holding), KINDS_NAMED, { noun: 'kind' })} held`,
        ]),
    ...(first === undefined ? [] : [`${first.kind}: ${(first.error ?? '').slice(0, MOST_OF_ERROR)}`]),
    ...(others > 0 ? [plural(others, 'more kind')] : []),
  ];
  return {
    errorCode: removals > 0 ? 'removals_held' : (first?.errorCode ?? null),
    error: texts.length === 0 ? null : texts.join('; '),
  };
}

function baselineOf(mirror: Mirror): CellReport['baseline'] {
  const baseline = mirror.snapshots.baseline();
  if (baseline === undefined || baseline.contradiction !== undefined) return null;
  return { name: baseline.name, run: baseline.run };
}

function recordCount(mirror: Mirror, run: number, source: string): number {
  return mirror.records.countsAt(run, { sources: [source] }).reduce((sum, { records }) => sum + records, 0);
}

/** A scope in the form of the registry's tables, `organization_id=…&role_id=…`. */
function scopeText(scope: Scope): string {
  const text = new URLSearchParams();
  for (const key of SCOPE_KEYS) {
    const value = scope[key];
    if (value !== undefined) text.set(key, value);
  }
  return text.toString();
}

function keyOf(
  { kind, scope, id }: Omit<CellRecordKey, 'scope'> & { readonly scope: Scope },
  definition: ResourceDefinition,
): CellRecordKey {
  return { kind, scope: scopeText(scope), id: maskedId(id, definition) };
}

/** The changes of a run; none of the first run, in which everything is new. */
function changesOf({ mirror, order, definitions }: ReportContext, run: RunRow): CellChange[] {
  const from = previousRun(mirror, run);
  if (from === undefined || run.added + run.changed + run.removed === 0) return [];
  const document = diffRuns(
    mirror,
    { ref: `run:${from.run}`, run: from.run },
    { ref: `run:${run.run}`, run: run.run },
    { mode: 'default', filter: { sources: [order.cell] }, definitions },
  );
  return document.changes.slice(0, MOST_CHANGES).map((change) => {
    const definition = definitions(change.kind);
    return {
      ...keyOf(change, definition),
      run: run.run,
      name: withMaskedId(change, definition).name,
      change: change.change,
      paths: change.change === 'changed' ? change.fields.map(({ path }) => path) : [],
    };
  });
}

/**
 * The records that differ from those that the registry shows; all if it shows none, or those of a run that the mirror
 * does not have.
 */
function projectionOf(context: ReportContext, run: number): Projection | null {
  const { mirror, order, definitions } = context;
  const { cell, known } = order;
  const shown = known?.projectedRun ?? null;
  if (shown === run) return null;
  const activity = activityKinds();
  const kinds = KINDS.filter((kind) => !activity.includes(kind));
  const filter = { sources: [cell], kinds };
  const from = shown === null ? undefined : mirror.runs.get(shown);
  const isWhole = from === undefined || !isPublished(from);
  if (isWhole && recordCount(mirror, run, cell) > MOST_PROJECTED) return null;
  const records: CellRecord[] = [];
  const removed: CellRecordKey[] = [];
  const add = (record: Parameters<typeof parseState>[0]): void => {
    const definition = definitions(record.kind);
    const { body } = parseState(record);
    const key = keyOf(record, definition);
    const name = recordName(definition, body, record.id);
    records.push({
      ...key,
      name: name === record.id ? key.id : name,
      organization: record.scope.organization_id ?? (record.kind === 'organizations' ? record.id : null),
      body: JSON.stringify(maskedBody(body, definition)),
    });
  };
  if (isWhole) for (const record of mirror.records.readAt(run, filter, { isChecked: true })) add(record);
  else {
    for (const change of mirror.records.changesBetween(from.run, run, filter)) {
      if (change.after === undefined) removed.push(keyOf(change, definitions(change.kind)));
      else add({ ...change, body: change.after });
      if (records.length > MOST_PROJECTED) return null;
    }
  }
  return { run, isWhole, records, removed };
}

/** The open findings, as drift of the daemon has them; null without a baseline. */
async function findingsOf(context: ReportContext): Promise<CellReport['findings']> {
  const { mirror, order, config, definitions, clock, signal } = context;
  const source = order.cell;
  if (mirror.snapshots.baseline() === undefined) return null;
  const stateAt = (reference: Reference) =>
    openMirrorState(mirror, source, resolvedStateOf(mirror, reference, { source }));
  const [from, to] = [stateAt(BASELINE), stateAt(LATEST)];
  try {
    const recreated = new RecreatedIds(mirror.restores.idMap(source));
    const { open } = await driftBetween(config, mirror, { from, to }, true, {
      source,
      filter: {},
      mode: 'default',
      fields: [],
      now: clock.now(),
      signal,
    });
    // As in drift: if a state has a record under two ids, these are two records.
    const sole = new Set(
      soleIds(recreated, from, to).flatMap(({ kind, ids }) => ids.map((id) => `${kind} ${id}`)),
    );
    const rows = open.slice(0, MOST_FINDINGS).map((finding): CellFinding => {
      const definition = definitions(finding.kind);
      const { name } = withMaskedId(finding, definition);
      const { change, path, severity, from: before, to: after } = finding;
      const key = keyOf(finding, definition);
      const others = sole.has(`${finding.kind} ${finding.id}`)
        ? recreated.places(finding.kind, finding).filter(({ id }) => id !== finding.id)
        : [];
      const valueOf = (value: typeof before) =>
        value === undefined ? undefined : maskedAt(path, value, definition);
      const [shownBefore, shownAfter] = order.showsValues ? [valueOf(before), valueOf(after)] : [];
      return {
        ...key,
        // A person's name is their address, which is masked in the id.
        name: isPersonKind(definition) ? key.id : name,
        change,
        path: maskedPlace(path, definition),
        severity,
        otherKeys: others.map((other) => keyOf({ ...other, kind: finding.kind }, definition)),
        ...(shownBefore === undefined ? {} : { before: shownBefore }),
        ...(shownAfter === undefined ? {} : { after: shownAfter }),
      };
    });
    return { count: open.length, rows };
  } finally {
    from.close();
    to.close();
  }
}

/**
 * The next due time of all schedules. The name of the cell determines by which share of its interval each is delayed,
 * so that starts are spread.
 */
function dueAtOf(mirror: Mirror, cell: string, { retention }: Config): string | null {
  const share = createHash('sha256').update(cell).digest().readUInt32BE() / 2 ** 32;
  const times = mirror.daemon
    .schedules()
    .filter(({ schedule }) => schedule !== 'forget' || retention !== null)
    .map(({ cron, zone, dueAt }) => {
      const spreadMs = Math.min(parseCron(cron, zone).intervalMs, LONGEST_SPREAD_MS);
      return Date.parse(dueAt) + Math.floor(share * spreadMs);
    });
  return times.length === 0 ? null : isoTime(Math.min(...times));
}

/** The newest job that failed since then; a job that was refused because of the audit log only if no other failed. */
function failedJob(mirror: Mirror, since: string): JobRow | undefined {
  const failed = mirror.daemon
    .jobs({ limit: 20 })
    .filter(
      ({ outcome, startedAt }) => startedAt >= since && (outcome === 'failed' || outcome === 'refused'),
    );
  return failed.find((row) => refusalOf(row) === null) ?? failed[0];
}

function errorOf({ name, errorCode, error }: JobRow): ErrorMessage {
  return {
    // Only this program writes it.
    code: (errorCode ?? 'internal') as ErrorCode,
    message: error ?? `${name} failed`,
    hint: null,
    isRetryable: true,
  };
}
