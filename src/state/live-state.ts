/**
 * The current state of a source, read into a temporary mirror with the code of a sync: the same walks, proofs and
 * outcomes. Sends only GET, and reads only the collections that the filter needs.
 */
import { definitionOf, collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { StateReference } from '../diff/change.ts';
import { type CollectionKey, type RecordKey, compareKeys, compareScopes } from '../catalog/order.ts';
import { type RecordState, sortRecords } from '../diff/states.ts';
import type { SyncEvents } from '../sync/events.ts';
import { wantedKinds } from '../sync/run-extent.ts';
import type { SweepReport } from '../sync/outcome.ts';
import { redactionWith } from '../sync/redaction.ts';
import { syncSource, type RunReport } from '../sync/run.ts';
import { type StateFilter, selectsRecord } from './filter.ts';
import { type Absence, type AbsenceOptions, type LiveLists, resolveLiveAbsences } from './live-absence.ts';
import { LiveParents, projectsIn } from './live-parents.ts';
import type { UnknownRecord, Coverage, LoadedState } from './state.ts';
import { type Reader, type TemporaryMirror, openTemporaryMirror } from './temporary-mirror.ts';
import { EXCLUDED } from './unasked.ts';

export interface LiveOptions extends Omit<AbsenceOptions, 'against'> {
  /** Kinds that are not read unless the filter names them. */
  readonly except?: ReadonlySet<Kind>;
  /** The state that live is compared with: its records that no list shows are looked up (`live-absence.ts`). */
  readonly against?: LoadedState;
  readonly reader: Reader;
  /** The key of the mirror that live is compared with: with `redact`, both sides have the same fingerprints. */
  readonly fingerprintKey?: Uint8Array;
  readonly events: SyncEvents;
}

/**
 * Reads live. `coverage` reports collections that could not be read; only local errors and interruptions are thrown. The
 * caller closes the client, and the state, which deletes the temporary mirror.
 */
export async function readLive(options: LiveOptions): Promise<LoadedState> {
  const { source, filter } = options;
  const temporary = openTemporaryMirror(options.reader);
  try {
    const only = parentsIn(filter);
    const included = wantedKinds(source, null, only);
    const kinds =
      filter.kinds ?? KINDS.filter((kind) => included.has(kind) && options.except?.has(kind) !== true);
    // A kind with a request per parent is expensive: it is read in full only if the filter names it.
    const isCheap = (kind: Kind): boolean => definitionOf(kind).reading !== 'each';
    const first = filter.kinds === undefined ? kinds.filter(isCheap) : kinds;
    const report = await readOnce(options, temporary, first, only);
    const state = new LiveState(options, temporary, report, new Set(kinds));
    for (const kind of kinds) if (!first.includes(kind)) await readEach(options, temporary, state, kind);
    const { against } = options;
    if (against !== undefined) await resolveLiveAbsences(state, { ...options, against });
    return state;
  } catch (error) {
    temporary.discard();
    throw error;
  }
}

async function readOnce(
  options: LiveOptions,
  { mirror }: TemporaryMirror,
  kinds: readonly Kind[],
  only: Pick<StateFilter, 'organizations' | 'projects'>,
): Promise<RunReport> {
  const { client, events, log, reader, signal, source, fingerprintKey } = options;
  return syncSource({
    mirror,
    // All records of a kind read one by one: a part would look like removals. No time limit: the user can interrupt it.
    source: {
      ...source,
      sync: { maxDurationMs: 0 },
      recordings: { ...source.recordings, sharingPerRun: 'all' },
    },
    client,
    clock: reader.clock,
    log,
    events,
    signal,
    trigger: 'live',
    kinds,
    only,
    isFull: false,
    acceptRemovals: 0,
    ...defined({ fingerprintKey }),
  });
}

/**
 * Reads a kind that costs a request per parent: entire collections, the smallest first, with as many requests in all as a
 * sync may make for the kind in one run.
 */
async function readEach(
  options: LiveOptions,
  temporary: TemporaryMirror,
  state: LiveState,
  kind: Kind,
): Promise<void> {
  const { source, filter } = options;
  const { from } = definitionOf(kind).discovery;
  const { sharingPerRun } = source.recordings;
  const parents = temporary.mirror.runs
    .collections(source.name)
    .filter((each) => each.kind === from)
    .sort((a, b) => a.records - b.records || compareScopes(a.scope, b.scope));
  const small: string[] = [];
  let left = sharingPerRun === 'all' ? Infinity : sharingPerRun;
  for (const { scope, records } of parents) {
    const project = scope.project_id;
    if (project === undefined || state.coverage(from as Kind, scope).how !== 'read') continue;
    if (records <= left) {
      small.push(project);
      left -= records;
    } else {
      const count = formatInteger(records);
      state.leaveOut(
        kind,
        scope,
        `it costs a request for each of ${count} recordings; --kind ${kind} reads it`,
      );
    }
  }
  if (small.length === 0) return;
  const { sweeps } = await readOnce(options, temporary, [kind], parentsIn({ ...filter, projects: small }));
  state.add(sweeps.filter((sweep) => sweep.kind === kind));
}

/** The parents that the filter names. */
function parentsIn(filter: StateFilter): Pick<StateFilter, 'organizations' | 'projects'> {
  return defined({ organizations: filter.organizations, projects: filter.projects });
}

class LiveState implements LoadedState, LiveLists {
  readonly reference: StateReference;
  readonly source: string;
  readonly resolvedState = null;
  readonly #options: LiveOptions;
  readonly #temporary: TemporaryMirror;
  readonly #kinds: ReadonlySet<Kind>;
  #parents: LiveParents;
  readonly #sweeps = new Map<string, SweepReport>();
  readonly #leftOut = new Map<string, string>();
  readonly #absences = new Map<string, Absence>();
  /** Records that no list showed, in the order of `compareKeys`. */
  #found: readonly RecordState[] = [];

  constructor(options: LiveOptions, temporary: TemporaryMirror, report: RunReport, kinds: ReadonlySet<Kind>) {
    this.#options = options;
    this.#temporary = temporary;
    this.#kinds = kinds;
    this.source = options.source.name;
    this.reference = { ref: 'live', at: report.finished_at };
    this.add(report.sweeps);
    this.#parents = this.#lookAtParents();
  }

  #lookAtParents(): LiveParents {
    return new LiveParents(
      this.#options.source,
      (kind, scope) => this.#sweeps.get(collectionKey({ kind, scope })),
      (filter) => this.records(filter),
      this.#options.against,
    );
  }

  pagesOf(kind: Kind, scope: Scope): number | null {
    const sweep = this.#sweeps.get(collectionKey({ kind, scope }));
    return sweep?.outcome === 'complete' ? sweep.pages : null;
  }

  settle(absence: Absence): void {
    const key = collectionKey(absence);
    const before = this.#absences.get(key);
    const { leaked, unknown, error } = absence;
    const { count, unconfirmed } =
      absence.unconfirmed >= (before?.unconfirmed ?? 0) ? absence : (before ?? absence);
    this.#absences.set(key, {
      ...absence,
      leaked: leaked + (before?.leaked ?? 0),
      unknown: unknown.union(before?.unknown ?? new Set()),
      ...{ count, unconfirmed },
      error: before?.error ?? error,
    });
    this.#found = sortRecords([...this.#found, ...absence.found.map((record) => this.#redacted(record))]);
    this.#parents = this.#lookAtParents();
  }

  /** A record that was looked up by id did not pass the stage, which redacts. */
  #redacted(record: RecordState): RecordState {
    const { source, fingerprintKey } = this.#options;
    if (!source.redact) return record;
    const definition =
      source.definitions.find(({ kind }) => kind === record.kind) ?? definitionOf(record.kind);
    const key = fingerprintKey ?? this.#temporary.mirror.acceptances.fingerprintKey();
    return { ...record, body: redactionWith(key).text(definition, record.body) };
  }

  async readAgain(kinds: readonly Kind[]): Promise<void> {
    const options = this.#options;
    const { sweeps } = await readOnce(options, this.#temporary, kinds, parentsIn(options.filter));
    this.add(sweeps.filter(({ kind }) => kinds.includes(kind)));
  }

  add(sweeps: readonly SweepReport[]): void {
    for (const sweep of sweeps) this.#sweeps.set(collectionKey(sweep), sweep);
  }

  leaveOut(kind: Kind, scope: Scope, reason: string): void {
    this.#leftOut.set(collectionKey({ kind, scope }), reason);
  }

  collections(): readonly CollectionKey[] {
    return [...this.#sweeps.values()];
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    const reason = this.#leftOut.get(collectionKey({ kind, scope }));
    if (reason !== undefined) return { how: 'left_out', reason };
    const sweep = this.#sweeps.get(collectionKey({ kind, scope }));
    if (sweep?.outcome === 'complete')
      return { how: 'read', ...staleness(this.#absences.get(collectionKey({ kind, scope }))) };
    if (!this.#kinds.has(kind) && sweep === undefined)
      return { how: 'left_out', reason: EXCLUDED, isOfKind: true };
    const parent = this.#parents.of(scope);
    if (parent === 'gone') return { how: 'absent' };
    if (sweep !== undefined) return unread(sweep);
    return parent === 'there' ? { how: 'unread', reason: 'it was not read', code: null } : parent;
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    const { unknown, error } = this.#absences.get(collectionKey({ kind, scope })) ?? {};
    if (unknown !== undefined && unknown.size > 0) {
      return {
        covers: (id) => unknown.has(id),
        reason: `not in the list, and retrieving failed: ${error?.message ?? 'no answer'}`,
        isUnproven: true,
      };
    }
    const { organizations } = this.#options.source;
    if (definitionOf(kind).discovery.from !== 'root' || organizations === 'all') return null;
    return {
      covers: (id) => !organizations.includes(id),
      reason: 'outside the organizations that the configuration names',
    };
  }

  records(filter: StateFilter): Iterable<RecordState> {
    const listed = this.#temporary.mirror.records.read({ ...filter });
    return this.#withFound(filter, listed, ({ kind, scope, id, body }) => ({ kind, scope, id, body }));
  }

  keys(filter: StateFilter): Iterable<RecordKey> {
    return this.#withFound(filter, this.#temporary.mirror.records.keys({ ...filter }), (key) => key);
  }

  /** Listed records and those found by id, in the order of `compareKeys`. */
  *#withFound<L extends RecordKey, T extends RecordKey>(
    filter: StateFilter,
    listed: Iterable<L>,
    toResult: (record: L) => T,
  ): Generator<T | RecordState> {
    const found = this.#found.filter((record) => selectsRecord(filter, record));
    let next = 0;
    for (const record of listed) {
      for (let first = found[next]; first !== undefined; first = found[next]) {
        if (compareKeys(first, record) > 0) break;
        yield first;
        next += 1;
      }
      yield toResult(record);
    }
    yield* found.slice(next);
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return projectsIn((filter) => this.records(filter), organizations);
  }

  /** What was just read needs no check. */
  checked(): LoadedState {
    return this;
  }

  close(): void {
    this.#temporary.discard();
  }
}

/** Why a proved list may still be wrong; empty if every absence from it was confirmed. */
function staleness(
  absence: Absence | undefined,
): Pick<Extract<Coverage, { how: 'read' }>, 'stale' | 'leak' | 'isUnconfirmed'> {
  const { leaked = 0, count = 0, unconfirmed = 0 } = absence ?? {};
  const leak = `the list did not show ${plural(leaked, 'record')} that ${leaked === 1 ? 'exists' : 'exist'}`;
  const rest = `of ${plural(count, 'record')} that the list does not show, ${formatInteger(count - unconfirmed)} were looked up, ${formatInteger(unconfirmed)} ${unconfirmed === 1 ? 'was' : 'were'} not`;
  const parts = [...(leaked > 0 ? [leak] : []), ...(unconfirmed > 0 ? [rest] : [])];
  if (parts.length === 0) return {};
  return { stale: parts.join('; '), ...(leaked === 0 ? { isUnconfirmed: true } : { leak }) };
}

function unread({ outcome, error }: SweepReport): Coverage {
  const what = outcome === 'missing' ? 'not offered by the service' : outcome;
  return {
    how: 'unread',
    reason: error === null ? what : `${what}: ${error.message}`,
    code: error?.code ?? null,
    ...(error === null || error.permission === null ? {} : { permission: error.permission }),
  };
}
