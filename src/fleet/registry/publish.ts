/**
 * Writes the result of a job on a cell to the registry: in one statement, or in one transaction if more records changed
 * than one statement takes. Everything depends on the row of the group, which is locked and must have the fence. The
 * statement is assembled from texts: Drizzle has no WITH in which one part writes what another returned.
 */
import { createHash } from 'node:crypto';
import { and, eq, type SQL, sql } from 'drizzle-orm';
import type { ErrorCode } from '../../core/errors.ts';
import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type {
  BaselineOrder,
  CellChange,
  CellFinding,
  CellRecord,
  CellRecordKey,
  CellReport,
  CellRun,
  Projection,
} from '../cell.ts';
import type { Database, Transaction } from './connection.ts';
import { type CellState, cells, changes, findings, groups, records, runs } from './schema.ts';

interface ProjectedFinding extends Omit<CellFinding, 'before' | 'after'> {
  /** JSON texts; written only if the cell's `showsValues` is set. */
  readonly before?: string;
  readonly after?: string;
}

export interface RateLogUpdate {
  /**
   * The requests that the limiter of the next holder has to count, with ages in place of times; if omitted, the log is
   * not changed.
   */
  readonly rateLog?: JsonValue | undefined;
  /** True if that includes what holders that vanished may have sent. */
  readonly countsVanished?: boolean;
}

export interface Publication extends RateLogUpdate {
  readonly cell: number;
  readonly group: number;
  readonly fence: number;
  /** `changedAt` of the cell when it was taken (ISO 8601). If the configuration changed since, the cell is due at once. */
  readonly configuredAt: string;
  /** Who publishes. */
  readonly worker: string;
  /** Runs that the registry lacks, oldest first; known runs are not changed. */
  readonly runs: readonly CellRun[];
  /** Why the job failed; null if it did not. A failed run counts as a failure too. */
  readonly error: {
    readonly code: ErrorCode;
    readonly message: string;
    /** True if the cell is synced in spite of this error, which then never causes a quarantine. */
    readonly isRefusal?: boolean;
    /** True if it does not count as a failure: the key may send nothing until the cell is due. */
    readonly waits?: boolean;
  } | null;
  /** The mirror now; null if it did not change, or is not known. */
  readonly mirror: {
    /** The newest run that it has, and its root hash in hex. */
    readonly run: number | null;
    readonly root: string | null;
    readonly version: number;
    readonly recordCount: number;
  } | null;
  /** The snapshot that the mirror measures drift from, null for none; omitted if that is not known. */
  readonly baseline?: CellReport['baseline'];
  /**
   * The baseline that was pending when the cell was taken; null for none. If another one was asked for since, the cell
   * is due at once.
   */
  readonly baselineOrder: BaselineOrder | null;
  /** That it was set, or why it cannot be; null while it is pending. */
  readonly baselineDone: { readonly error: string | null } | null;
  /** The mirror that was stored; null if none was. */
  readonly stored: { readonly key: string; readonly run: number } | null;
  /** The open findings, most severe first; `total` is null if they are no longer known. Null leaves them unchanged. */
  readonly findings: { readonly total: number | null; readonly listed: readonly ProjectedFinding[] } | null;
  /** Brings the projection to `run`: all records (`isWhole`), or those that changed. Null leaves it unchanged. */
  readonly records:
    (Pick<Projection, 'run' | 'isWhole' | 'removed'> & { readonly present: Iterable<CellRecord> }) | null;
  readonly changes: readonly CellChange[];
  /** Puts the cell into quarantine at once: trying again cannot help. */
  readonly quarantines?: boolean;
  /** Gives the group back in the same transaction. */
  readonly releases?: boolean;
  /** When the cell is due next, in milliseconds from now. A quarantined cell waits for at least an hour. */
  readonly dueInMs: number;
}

export interface PublishResult {
  readonly state: CellState;
  /** Jobs that failed one after another. */
  readonly failures: number;
  /** True if this failure put the cell into quarantine. */
  readonly isNewlyQuarantined: boolean;
  /** True if this job ended a quarantine. */
  readonly isReleased: boolean;
}

/** This many failed jobs in a row put a cell into quarantine: it is retried once an hour. */
const FAILURES_TO_QUARANTINE = 5;
const QUARANTINE = sql`interval '1 hour'`;

/** Separates the error of a job from the reason why workers have left the cell to others since then. */
export const NOW_LEFT = '; since then left to other workers: ';

/** The first part of the error: that of the job. */
export function failureOf(error: typeof cells.error): SQL {
  return sql`split_part(${error}, ${NOW_LEFT}, 1)`;
}

/** Records that one statement takes: about a megabyte of JSON. */
const CHUNK = 1000;

/** See `Registry.publish`. */
export async function publish(db: Database, publication: Publication): Promise<PublishResult | null> {
  const { records: projection } = publication;
  if (projection === null) return publishRest(db, publication, { present: [], isAll: false });
  const chunks = inChunks(projection.present, CHUNK);
  const first = chunks.next();
  const firstChunk = first.done === true ? [] : first.value;
  const second = first.done === true ? first : chunks.next();
  if (second.done === true)
    return publishRest(db, publication, { present: firstChunk, isAll: projection.isWhole });
  return db.transaction(async (tx) => {
    const held = await tx
      .select({ id: groups.id })
      .from(groups)
      .where(and(eq(groups.id, publication.group), eq(groups.fence, publication.fence)))
      .for('update');
    if (held.length === 0) return null;
    if (projection.isWhole) await tx.delete(records).where(eq(records.cell, publication.cell));
    await tx.execute(upsertRecords(publication.cell, firstChunk));
    let present = second.value;
    for (let next = chunks.next(); next.done !== true; next = chunks.next()) {
      await tx.execute(upsertRecords(publication.cell, present));
      present = next.value;
    }
    return publishRest(tx, publication, { present, isAll: false });
  });
}

function* inChunks<T>(all: Iterable<T>, size: number): Generator<T[], undefined> {
  let chunk: T[] = [];
  for (const each of all) {
    chunk.push(each);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
  return undefined;
}

interface LastRecords {
  readonly present: readonly CellRecord[];
  /** True if these are all: the others of the cell are deleted. */
  readonly isAll: boolean;
}

/** Publishes everything except the records of earlier chunks, in one statement. */
async function publishRest(
  db: Database | Transaction,
  publication: Publication,
  lastRecords: LastRecords,
): Promise<PublishResult | null> {
  const { cell, group, fence, worker, mirror, stored, error, dueInMs } = publication;
  const last = publication.runs.at(-1);
  const failed = error ?? (last?.outcome === 'failed' ? { code: last.errorCode, message: last.error } : null);
  const isRefusal = error?.isRefusal === true && last?.outcome !== 'failed';
  const waits = error?.waits === true;
  const isFailed = sql`${failed !== null && !waits}::boolean`;
  // If nothing was due, or no request could be sent, an earlier failure still counts.
  const hasNoneRead = last === undefined || last.outcome === 'failed';
  const isIdle =
    waits && hasNoneRead
      ? sql`(${cells.failures} > 0)`
      : sql`(${(failed === null || isRefusal) && last === undefined}::boolean and ${cells.lastOutcome} is not distinct from 'failed')`;
  const failures = sql`case when ${isIdle} then ${cells.failures} when ${isRefusal}::boolean then 1 when ${isFailed} then ${cells.failures} + 1 else 0 end`;
  const isQuarantined = sql`(${isFailed} and not ${isRefusal}::boolean and (${publication.quarantines === true}::boolean or ${cells.failures} + 1 >= ${FAILURES_TO_QUARANTINE}))`;
  const baselineOrder = sql`${publication.baselineOrder === null ? null : JSON.stringify(publication.baselineOrder)}::jsonb`;
  const isSameOrder = sql`${cells.baselineOrder} is not distinct from ${baselineOrder}`;
  const due = sql`case when ${cells.changedAt} = ${publication.configuredAt}::timestamptz and ${isSameOrder} then now() + ${Math.max(0, Math.round(dueInMs))} * interval '1 millisecond' else now() end`;
  const isComplete = publication.runs.some(({ outcome }) => outcome === 'complete');
  const isPublished = publication.runs.some(({ outcome }) => outcome !== 'failed');
  const set: readonly (SQL | null)[] = [
    sql`failures = ${failures}`,
    sql`error_code = case when ${isIdle} then ${cells.errorCode} else ${failed?.code ?? null} end`,
    sql`error = case when ${isIdle} then ${failureOf(cells.error)} else ${failed?.message ?? null} end`,
    sql`quarantined_at = case when ${isQuarantined} then coalesce(${cells.quarantinedAt}, now()) when ${isIdle} then ${cells.quarantinedAt} end`,
    sql`state = case when ${cells.state} = 'checked_out' then ${cells.state} when ${isQuarantined} or ${isIdle} and ${cells.quarantinedAt} is not null then 'quarantined' else 'active' end`,
    sql`due_at = case when ${isQuarantined} then greatest(${due}, now() + ${QUARANTINE}) else ${due} end`,
    last === undefined || (waits && hasNoneRead) ? null : sql`last_outcome = ${last.outcome}`,
    isPublished ? sql`published_at = now()` : null,
    isComplete ? sql`complete_at = now()` : null,
    mirror === null
      ? null
      : sql`last_run = ${mirror.run}, root = ${mirror.root}, mirror_version = ${mirror.version}, record_count = ${mirror.recordCount}`,
    publication.baseline === undefined
      ? null
      : sql`baseline = ${publication.baseline?.name ?? null}, baseline_run = ${publication.baseline?.run ?? null}::integer`,
    publication.baselineDone === null
      ? // Once there is a baseline, the error of an earlier attempt is over.
        (publication.baseline ?? null) === null
        ? null
        : sql`baseline_error = case when ${cells.baseline} is not null then ${cells.baselineError} end`
      : sql`baseline_order = case when not ${isSameOrder} then ${cells.baselineOrder} end, baseline_error = ${publication.baselineDone.error}`,
    stored === null ? null : sql`stored_key = ${stored.key}, stored_run = ${stored.run}, stored_at = now()`,
    publication.findings === null ? null : sql`finding_count = ${publication.findings.total}::integer`,
    publication.records === null ? null : sql`projected_run = ${publication.records.run}`,
  ];
  const parts: SQL[] = [
    sql`prior as (select state from ${cells} where id = ${cell})`,
    sql`fenced as (update ${groups} set ${groupParts(publication)} where id = ${group} and fence = ${fence} returning id)`,
    sql`published as (update ${cells} set ${sql.join(
      set.filter((each) => each !== null),
      sql`, `,
    )} from fenced where ${cells.id} = ${cell} and ${cells.group} = fenced.id and ${cells.state} <> 'retired' returning ${cells.id}, ${cells.state}, ${cells.failures}, ${cells.showsValues})`,
    ...runParts(publication, worker, fence),
    ...findingParts(publication),
    ...recordParts(publication, lastRecords),
    ...changeParts(publication),
  ];
  const { rows } = await db.execute<{ state: CellState; failures: number; prior: CellState }>(
    sql`with ${sql.join(parts, sql`, `)} select published.state, published.failures, prior.state as prior from published, prior`,
  );
  const [row] = rows;
  if (row === undefined) return null;
  return {
    state: row.state,
    failures: row.failures,
    isNewlyQuarantined: row.state === 'quarantined' && row.prior !== 'quarantined',
    isReleased: row.state === 'active' && row.prior === 'quarantined',
  };
}

/**
 * When the ages of a rate log were taken, by PostgreSQL's clock as the worker knows it. A report may wait before it is
 * written; a later time would make requests look younger, and the next holder would count those twice that it also
 * knows itself.
 */
function ratesTakenAt(rateLog: JsonValue): SQL {
  const at = isJsonObject(rateLog) ? rateLog['at'] : undefined;
  return typeof at === 'number' ? sql`least(now(), to_timestamp(${at / 1000}::float8))` : sql`now()`;
}

/** The columns of a group that a rate log changes; none without one. */
export function rateLogColumns({ rateLog, countsVanished = false }: RateLogUpdate): Record<string, unknown> {
  if (rateLog === undefined) return {};
  const counted = countsVanished ? { uncountedSince: null, uncountedUntil: null } : {};
  return { rateLog, rateLogAt: ratesTakenAt(rateLog), ...counted };
}

function groupParts({ rateLog, countsVanished, releases }: Publication): SQL {
  return sql.join(
    [
      sql`held_at = now()`,
      ...(rateLog === undefined
        ? []
        : [sql`rate_log = ${JSON.stringify(rateLog)}::jsonb, rate_log_at = ${ratesTakenAt(rateLog)}`]),
      ...(rateLog !== undefined && countsVanished === true
        ? [sql`uncounted_since = null, uncounted_until = null`]
        : []),
      ...(releases === true ? [sql`holder = null`] : []),
    ],
    sql`, `,
  );
}

function runParts({ runs: given }: Publication, worker: string, fence: number): SQL[] {
  if (given.length === 0) return [];
  return [
    sql`new_runs as (insert into ${runs} (cell_id, run, outcome, started_at, finished_at, requests, retries, added, changed, removed, unchanged, root, error_code, error, worker, fence)
      select published.id, given.*, ${worker}, ${fence}::bigint from published, jsonb_to_recordset(${jsonParam(given)}::jsonb) as given (run int, outcome text, "startedAt" timestamptz, "finishedAt" timestamptz, requests int, retries int, added int, changed int, removed int, unchanged int, root text, "errorCode" text, error text)
      on conflict do nothing)`,
  ];
}

function findingParts({ cell, findings: given }: Publication): SQL[] {
  if (given === null) return [];
  const listed = given.listed.map((each) => ({
    ...keyOf(each),
    path: each.path,
    name: each.name,
    change: each.change,
    severity: each.severity,
    // A finding that was open under another id of the record continues.
    keys: [each, ...each.otherKeys].map(keyOf),
    before: each.before === undefined ? null : new RawJson(each.before),
    after: each.after === undefined ? null : new RawJson(each.after),
  }));
  return [
    // Depends on `published`: if the fence was lost, nothing is deleted.
    sql`old_findings as (delete from ${findings} using published where cell_id = published.id returning kind, scope, remote_id, path, since)`,
    sql`given_findings as materialized (select row_number() over () as n, given.* from jsonb_to_recordset(${jsonParam(listed)}::jsonb) as given (kind text, scope text, id text, path text, name text, change text, severity text, keys jsonb, before jsonb, after jsonb))`,
    sql`known_findings as (select given.n, min(old.since) as since
      from given_findings given cross join jsonb_to_recordset(given.keys) as at (scope text, id text)
      join ${findings} old on old.cell_id = ${cell} and old.kind = given.kind and old.scope = at.scope and old.remote_id = at.id and old.path = given.path group by given.n)`,
    sql`new_findings as (insert into ${findings} (cell_id, kind, scope, remote_id, path, name, change, severity, since, before, after)
      select published.id, given.kind, given.scope, given.id, given.path, given.name, given.change, given.severity, coalesce(known.since, now()),
        case when published.shows_values then given.before end, case when published.shows_values then given.after end
      from published cross join given_findings given left join known_findings known using (n))`,
  ];
}

const RECORD_FORM = sql`given (kind text, scope text, id text, name text, organization text, body jsonb)`;

function recordParam(present: readonly CellRecord[]): SQL {
  return jsonParam(
    present.map((each) => ({
      ...keyOf(each),
      name: each.name,
      organization: each.organization,
      body: new RawJson(each.body),
    })),
  );
}

const REPLACED = sql`on conflict (cell_id, kind, scope, remote_id) do update set name = excluded.name, organization_id = excluded.organization_id, body = excluded.body`;

function upsertRecords(cell: number, present: readonly CellRecord[]): SQL {
  return sql`insert into ${records} (cell_id, kind, scope, remote_id, name, organization_id, body)
    select ${cell}, given.* from jsonb_to_recordset(${recordParam(present)}::jsonb) as ${RECORD_FORM} ${REPLACED}`;
}

function recordParts({ records: projection }: Publication, { present, isAll }: LastRecords): SQL[] {
  if (projection === null) return [];
  const parts: SQL[] = [];
  if (present.length > 0) {
    parts.push(
      sql`given_records as materialized (select given.* from jsonb_to_recordset(${recordParam(present)}::jsonb) as ${RECORD_FORM})`,
      sql`new_records as (insert into ${records} (cell_id, kind, scope, remote_id, name, organization_id, body)
      select published.id, given.* from published, given_records as given ${REPLACED})`,
    );
  }
  if (isAll) {
    const isGiven =
      present.length === 0
        ? sql`false`
        : sql`exists (select from given_records as given where given.kind = ${records.kind} and given.scope = ${records.scope} and given.id = remote_id)`;
    parts.push(
      sql`other_records as (delete from ${records} using published where cell_id = published.id and not ${isGiven})`,
    );
  }
  if (projection.removed.length > 0) {
    parts.push(sql`old_records as (delete from ${records} using published, jsonb_to_recordset(${jsonParam(projection.removed.map(keyOf))}::jsonb) as given (kind text, scope text, id text)
      where cell_id = published.id and ${records.kind} = given.kind and ${records.scope} = given.scope and remote_id = given.id)`);
  }
  return parts;
}

function changeParts({ changes: given }: Publication): SQL[] {
  if (given.length === 0) return [];
  const rows = given.map(({ run, name, change, paths, ...key }) => ({
    ...keyOf(key),
    ...{ run, name, change, paths },
  }));
  return [
    sql`new_changes as (insert into ${changes} (cell_id, run, kind, scope, remote_id, name, change, paths)
      select published.id, given.* from published, jsonb_to_recordset(${jsonParam(rows)}::jsonb) as given (run int, kind text, scope text, id text, name text, change text, paths jsonb)
      on conflict do nothing)`,
  ];
}

const ID_CHARACTERS = 500;

/** The key with shortened ids: they are indexed, and PostgreSQL limits index entries to a third of a page. */
function keyOf({ kind, scope, id }: CellRecordKey): CellRecordKey {
  return { kind, scope: shortened(scope), id: shortened(id) };
}

function shortened(text: string): string {
  if (text.length <= ID_CHARACTERS) return text;
  const digest = createHash('sha256').update(text).digest('hex');
  return `${text.slice(0, ID_CHARACTERS - digest.length - 1)}…${digest}`;
}

/** A JSON text that is inserted unchanged, so that numbers stay exact. */
class RawJson {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Rows as one parameter. */
function jsonParam(rows: readonly object[]): SQL {
  const texts = rows.map((row) => {
    const members = Object.entries(row).map(
      ([name, value]: [string, unknown]) =>
        `${JSON.stringify(name)}:${value instanceof RawJson ? value.text : JSON.stringify(value ?? null)}`,
    );
    return `{${members.join(',')}}`;
  });
  return sql`${storableNumbers(storableJson(`[${texts.join(',')}]`))}`;
}

/** PostgreSQL's texts cannot have U+0000 or half of a surrogate pair: both become U+FFFD. */
function storableJson(json: string): string {
  if (!/\\u(?:0000|d[89a-f])/i.test(json)) return json.toWellFormed();
  return json
    .replaceAll(
      /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\(?:u([0-9a-f]{4})|.)/gi,
      (escape, high, _low, unit) =>
        high === undefined && unit !== undefined && /^(?:0000|d[89a-f]..)$/i.test(unit as string)
          ? '\\ufffd'
          : escape,
    )
    .toWellFormed();
}

/** Most digits of a number, before and after the point together: PostgreSQL allows 16,383 after the point. */
const NUMBER_DIGITS = 16_000;
/** A text without a match has no number with more digits. */
const MAYBE_BEYOND = new RegExp(`\\d[eE][+-]?\\d{4}|\\d{${NUMBER_DIGITS / 2}}`);

/** Numbers that are too long for PostgreSQL become texts with the same characters. */
function storableNumbers(json: string): string {
  if (!MAYBE_BEYOND.test(json)) return json;
  return json.replaceAll(
    /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.]*(?:[eE]([+-]?\d+))?/g,
    (token, exponent?: string) =>
      token.startsWith('"') || Math.abs(Number(exponent ?? 0)) + token.length <= NUMBER_DIGITS
        ? token
        : `"${token}"`,
  );
}
