/** Drift that somebody accepted, with the reason. It is kept in the mirror, so that backups have it too. */
import { randomBytes } from 'node:crypto';
import { and, asc, eq, getTableColumns, sql } from 'drizzle-orm';
import { scopeKey } from '../catalog/catalog.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { Actor } from '../core/actor.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { MirrorAccess } from './access.ts';
import { recordAction, recordEndOfGone } from './audit-log.ts';
import {
  type ContradictedRow,
  contradictedRows,
  isAsWritten,
  latestEntry,
  madeVia,
  madeViaOf,
  MEASURED,
  type RowKey,
} from './audited-rows.ts';
import { type Connection, transact } from './database.ts';
import { excluded, param, paramsOf, prepared, unlessGiven } from './query.ts';
import { RecreatedIds } from './recreated-ids.ts';
import { readIdMap } from './id-map.ts';
import { isSealed, isUnlikeSealed, sealRow } from './row-seals.ts';
import { DamagedRow, knownKind, storedPath, storedScope, textOf } from './stored-names.ts';
import { acceptances, fingerprintKey } from './schema/retention-tables.ts';
import { alteredLogText } from './hidden-runs.ts';
import { lastMove } from './verify-chain.ts';

export interface DriftAcceptance extends RecordKey {
  /** Name of the source. */
  readonly source: string;
  /** Of the place and the accepted value. The value itself is in the audit log (`Measured`). */
  readonly fingerprint: string;
  /** RFC 6901, with `[id=…]` for an element that is matched by its id; empty for a record that was added or removed. */
  readonly path: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly acceptedAt: string;
  /** Who accepted it. */
  readonly by: string;
  /** How the program knew who accepted it, by the audit log; left out if the log does not say. */
  readonly via?: string;
  /** ISO 8601; the acceptance expires then. */
  readonly until?: string;
}

/** What was accepted, as it was shown. Only the audit log has it. Secrets are masked. */
export interface Measured {
  /** `added` and `removed` are said of the record, `changed` of one of its fields. */
  readonly change: 'added' | 'removed' | 'changed';
  /** Left out if there was no value. For an entire record, its fields by pointer. */
  readonly from?: JsonValue;
  readonly to?: JsonValue;
  /** Then the values are texts: parts of their JSON, with `…` for what was left out. */
  readonly shortened?: true;
  /** The state that drift was measured from, with the name of the baseline snapshot. */
  readonly baseline: MeasuredState & { readonly name?: string };
  /** The state with the accepted value. */
  readonly state: MeasuredState;
}

/** As in `StateReference`. */
interface MeasuredState {
  readonly ref: string;
  readonly run?: number;
  readonly at?: string;
}

/** An acceptance that was compared with the audit log. */
export interface CheckedAcceptance extends DriftAcceptance {
  /** How it contradicts the log, to follow `the acceptance of …`; then it has no effect. Left out if it is as it was accepted. */
  readonly contradiction?: string;
  /** True if the log has it and the table does not. */
  readonly isGone?: true;
}

const FINGERPRINT_KEY_BYTES = 32;

/** An acceptance to store. */
interface NewAcceptance {
  readonly acceptance: Omit<DriftAcceptance, 'by' | 'via'>;
  /** The fingerprint of another acceptance that it replaces: of the record under another id. */
  readonly earlier?: string | undefined;
  /** What was accepted, for the audit log. */
  readonly measured?: Measured | undefined;
}

export type AcceptanceStore = ReturnType<typeof acceptanceStore>;

export function acceptanceStore(access: MirrorAccess) {
  const { actor, clock } = access;
  const recordedReason = (why: string | undefined): string | undefined =>
    why === undefined ? undefined : access.recordedText(why, 'the reason');
  const addAll = (given: readonly NewAcceptance[]): DriftAcceptance[] => {
    const all = given.map(({ acceptance, ...rest }) => {
      // The log is append-only: a secret in it could not be masked later.
      const reason = access.recordedText(acceptance.reason, 'the reason');
      return { ...rest, added: { ...acceptance, reason, by: actor.by, via: actor.via } };
    });
    access.change((writer) =>
      transact(writer, () => {
        for (const { added, earlier, measured } of all) {
          const { source, acceptedAt: at } = added;
          if (earlier !== undefined) dropAcceptances(writer, { source, fingerprint: earlier }, { actor, at });
          endGoneElsewhere(writer, added, actor);
          storeAcceptance(writer, added, actor, measured);
        }
      }),
    );
    return all.map(({ added }) => added);
  };
  return {
    ...access.reads({
      /** Accepted drift of one source or of all, by source, kind, scope, id and path. */
      list: readAcceptances,
      /** As `list`, each compared with the audit log; then those that are gone although the log has them. */
      checked: checkAcceptances,
      /** A line for each row, of one source or of all, whose kind, scope or path is unreadable. The other methods leave these rows out. */
      unreadable: unreadableLines,
      /** What was accepted, as in `measuredIn`; null also if its entry was altered. */
      measured: (connection, acceptance: DriftAcceptance): Measured | null => {
        const latest = latestEntry(connection, 'acceptances', keyOf(acceptance));
        const isIntact = latest !== undefined && isAsWritten(connection, latest);
        return isIntact ? measuredIn(latest, lastMove(connection)) : null;
      },
      /** The random key of this mirror's fingerprints; it never changes. */
      fingerprintKey: readFingerprintKey,
    }),

    /**
     * Replaces the acceptance of the same source, kind, scope, id and path. Ends those that are gone although the log has them under
     * another id of the record. Returns it with who accepted it.
     * @throws TidemarkError `mirror_corrupt` if one of them is not as it was accepted
     */
    add: (
      acceptance: NewAcceptance['acceptance'],
      earlier?: string,
      measured?: Measured,
    ): DriftAcceptance => {
      const [added] = addAll([{ acceptance, earlier, measured }]);
      if (added === undefined) throw new TypeError('one was given');
      return added;
    },

    /** As `add`, for several: all or none. */
    addAll,

    /**
     * Returns the acceptance that was withdrawn; undefined if there was none.
     * @param why for the audit log
     * @throws TidemarkError `mirror_corrupt` if it is not as it was accepted, or nobody accepted it
     */
    withdraw: (source: string, fingerprint: string, why?: string): DriftAcceptance | undefined => {
      const facts = { actor, at: isoTime(clock.now()), reason: recordedReason(why) };
      const dropped = access.change((writer) =>
        transact(writer, () => dropAcceptances(writer, { source, fingerprint }, facts)),
      );
      return dropped[0];
    },

    /** As `withdraw`, for one that is gone although the log has it: writes an entry only. Returns false if it wrote none. */
    withdrawGone: (acceptance: Omit<DriftAcceptance, 'fingerprint'>, why?: string): boolean => {
      const reason = recordedReason(why);
      const ended = { action: 'unaccept', at: isoTime(clock.now()), about: 'acceptances', reason } as const;
      return access.change((writer) =>
        transact(writer, () => recordEndOfGone(writer, actor, { ...ended, key: keyOf(acceptance) })),
      );
    },
  };
}

/**
 * What was accepted, by an entry about an acceptance; null if the entry does not have it. Run numbers from before the latest move
 * are left out, since they may be those of other runs now.
 * @param move from `lastMove`
 */
export function measuredIn(
  { entry, row }: { readonly entry: number; readonly row: string },
  move: number,
): Measured | null {
  const { [MEASURED]: measured } = parseLossless(row) as { readonly [MEASURED]?: Measured };
  if (measured === undefined) return null;
  if (entry > move) return measured;
  return { ...measured, baseline: withoutRun(measured.baseline), state: withoutRun(measured.state) };
}

function withoutRun<T extends MeasuredState>(state: T): T {
  // A state that was named by its run's number is named by its time.
  const known = { ...state, ref: state.ref.startsWith('run:') ? (state.at ?? 'run') : state.ref };
  Reflect.deleteProperty(known, 'run');
  return known;
}

const WITH_VIA = {
  ...getTableColumns(acceptances),
  via: sql<string | null>`${sql.raw(madeVia('acceptances'))}`.as('via'),
};

const ACCEPTANCES = prepared((db) => {
  const { source, kind, scope, remoteId, path } = acceptances;
  return db
    .select(WITH_VIA)
    .from(acceptances)
    .where(unlessGiven('source', eq(source, param('source'))))
    .orderBy(asc(source), asc(kind), asc(scope), asc(remoteId), asc(path));
});

/** Without unreadable ones: another program altered or inserted them, so they have no effect. */
function readAcceptances(connection: Connection, source?: string): DriftAcceptance[] {
  return ACCEPTANCES(connection)
    .all({ source: source ?? null })
    .filter((row) => placeProblem(row) === null)
    .map(acceptanceOf);
}

function unreadableLines(connection: Connection, source?: string): string[] {
  const gone = contradictedRows(connection, 'acceptances', source === undefined ? [] : [source]).filter(
    ({ isGone, recorded }) => isGone && recorded !== null,
  );
  // Without the record's id, which may be a secret.
  const lineOf = (storedSource: unknown, problem: string | null): string[] =>
    problem === null ? [] : [`an acceptance of ${textOf(storedSource)} cannot be read: ${problem}`];
  return [
    ...ACCEPTANCES(connection)
      .all({ source: source ?? null })
      .flatMap((row) => lineOf(row.source, placeProblem(row))),
    ...gone.flatMap(({ key }) => lineOf(key[0] ?? '', goneProblem(key))),
  ];
}

/** As `placeProblem`, for one that is gone, by its key in the audit log. */
function goneProblem(key: RowKey): string | null {
  // `placeProblem` finds values that are not texts.
  const [source = '', kind = '', scope = '', remoteId = '', path = ''] = key as readonly string[];
  return placeProblem({ source, kind, scope, remoteId, path });
}

/** Why a row's place (kind, scope, id, path) is unreadable; null if it is not. */
function placeProblem({
  source,
  kind,
  scope,
  remoteId,
  path,
}: Pick<typeof acceptances.$inferSelect, 'source' | 'kind' | 'scope' | 'remoteId' | 'path'>): string | null {
  const other = [source, kind, scope, remoteId, path].find((value: unknown) => typeof value !== 'string');
  if (other !== undefined) return 'its place has a value that is not a text';
  try {
    knownKind(kind);
    // Another spelling of the scope would be another row for the same place, which the audit log does not have.
    if (scopeKey(storedScope(scope)) !== scope) return `there is no scope ${JSON.stringify(scope)}`;
    storedPath(path);
    return null;
  } catch (error) {
    if (error instanceof DamagedRow) return error.what;
    throw error;
  }
}

function checkAcceptances(connection: Connection, source?: string): CheckedAcceptance[] {
  const contradicted = contradictedRows(connection, 'acceptances', source === undefined ? [] : [source]);
  const says = new Map(contradicted.map((row) => [JSON.stringify(row.key), row.says]));
  const stored = readAcceptances(connection, source);
  const unproved = stored.length === 0 ? undefined : unprovedText(connection);
  return [
    ...stored.map((acceptance): CheckedAcceptance => {
      const contradiction = says.get(JSON.stringify(keyOf(acceptance))) ?? unproved;
      return contradiction === undefined ? acceptance : { ...acceptance, contradiction };
    }),
    ...contradicted.filter(({ isGone }) => isGone).flatMap((row) => goneAcceptance(connection, row)),
  ];
}

/** Why no acceptance is proved: an entry that is gone or altered may have withdrawn any of them. Undefined if the log is as it was written. */
function unprovedText(connection: Connection): string | undefined {
  const altered = alteredLogText(connection);
  return altered === null ? undefined : `rests on a log that ${altered}`;
}

/** An acceptance that is gone, as the log has it; none if it is unreadable. */
function goneAcceptance(
  connection: Connection,
  { key, recorded, says }: ContradictedRow,
): CheckedAcceptance[] {
  const [source = '', kind = '', scope = '', id = '', path = ''] = key.map(String);
  if (recorded === null || goneProblem(key) !== null) return [];
  const text = (fact: string): string => {
    const value = recorded[fact];
    return typeof value === 'string' ? value : '';
  };
  const place = { source, kind: knownKind(kind), scope: storedScope(scope), id, path };
  const via = madeViaOf(connection, 'acceptances', key);
  return [
    {
      ...place,
      ...{ fingerprint: text('fingerprint'), reason: text('reason') },
      ...{ acceptedAt: text('accepted_at'), by: text('accepted_by') },
      ...(via === undefined ? {} : { via }),
      ...(recorded['until'] === null ? {} : { until: text('until') }),
      contradiction: says,
      isGone: true,
    },
  ];
}

const STORE = prepared((db) => {
  const { source, kind, scope, remoteId, path, ...rest } = getTableColumns(acceptances);
  return db
    .insert(acceptances)
    .values(paramsOf(acceptances))
    .onConflictDoUpdate({ target: [source, kind, scope, remoteId, path], set: excluded(rest) });
});

function storeAcceptance(
  writer: Connection,
  acceptance: DriftAcceptance,
  actor: Actor,
  measured?: Measured,
): void {
  const { id, until = null, ...rest } = acceptance;
  const key = keyOf(acceptance);
  const recorded = {
    ...({ action: 'accept', at: rest.acceptedAt, about: 'acceptances', key } as const),
    ...(measured === undefined ? {} : { measured: JSON.stringify(measured) }),
  };
  recordAction(writer, actor, recorded, () => {
    STORE(writer).run({ ...rest, remoteId: id, scope: scopeKey(rest.scope), until });
  });
}

/** The key of an acceptance's row. */
function keyOf({
  source,
  kind,
  scope,
  id,
  path,
}: Pick<DriftAcceptance, 'source' | 'kind' | 'scope' | 'id' | 'path'>): RowKey {
  return [source, kind, scopeKey(scope), id, path];
}

/** Ends acceptances of the same path that are gone, under the other ids of the record. */
function endGoneElsewhere(
  writer: Connection,
  { source, kind, id, path, acceptedAt: at }: DriftAcceptance,
  actor: Actor,
): void {
  const ids = new RecreatedIds(readIdMap(writer, source)).all(kind, id).filter((other) => other !== id);
  if (ids.length === 0) return;
  for (const { key, isGone } of contradictedRows(writer, 'acceptances', [source, kind]))
    if (isGone && ids.includes(String(key[3])) && key[4] === path)
      recordEndOfGone(writer, actor, { action: 'unaccept', at, about: 'acceptances', key });
}

const FINGERPRINT_KEY = prepared((db) =>
  // By `sql`, as it is stored: Drizzle would convert any value to bytes.
  db.select({ key: sql<unknown>`${fingerprintKey.key}` }).from(fingerprintKey),
);

const SET_FINGERPRINT_KEY = prepared((db) => db.insert(fingerprintKey).values(paramsOf(fingerprintKey)));

/** Makes the key of this mirror's fingerprints, unless there is or was one: with a new key, no fingerprint would match its value. */
export function makeFingerprintKey(writer: Connection): void {
  if (FINGERPRINT_KEY(writer).get() !== undefined || isSealed(writer, 'fingerprint_key', [1])) return;
  transact(writer, () => {
    SET_FINGERPRINT_KEY(writer).run({ id: 1, key: randomBytes(FINGERPRINT_KEY_BYTES) });
    sealRow(writer, 'fingerprint_key', [1]);
  });
}

/**
 * The key of this mirror's fingerprints, 32 bytes.
 * @throws TidemarkError `mirror_corrupt` if it is gone or altered
 */
function readFingerprintKey(connection: Connection): Uint8Array {
  const key = FINGERPRINT_KEY(connection).get()?.key;
  const isIntact = key instanceof Uint8Array && key.length === FINGERPRINT_KEY_BYTES;
  if (isIntact && !isUnlikeSealed(connection, 'fingerprint_key', [1])) return key;
  const state = key === undefined ? 'is gone from the mirror' : 'is not as it was made';
  throw new TidemarkError(
    'mirror_corrupt',
    `accepted and redacted values cannot be compared: the key of the drift fingerprints ${state}`,
    { hint: 'restore a backup; without one, move the mirror away and run `tidemark sync` for a new one' },
  );
}

const GIVEN_BY_FINGERPRINT = and(
  eq(acceptances.source, param('source')),
  eq(acceptances.fingerprint, param('fingerprint')),
);
const OF_FINGERPRINT = prepared((db) => db.select(WITH_VIA).from(acceptances).where(GIVEN_BY_FINGERPRINT));
const WITHDRAW = prepared((db) => {
  const given = paramsOf(acceptances);
  const { source, kind, scope, remoteId, path } = getTableColumns(acceptances);
  return db
    .delete(acceptances)
    .where(
      and(
        eq(source, given.source),
        eq(kind, given.kind),
        eq(scope, given.scope),
        eq(remoteId, given.remoteId),
        eq(path, given.path),
      ),
    );
});

function dropAcceptances(
  writer: Connection,
  which: Pick<DriftAcceptance, 'source' | 'fingerprint'>,
  { actor, at, reason }: { readonly actor: Actor; readonly at: string; readonly reason?: string | undefined },
): DriftAcceptance[] {
  const rows = OF_FINGERPRINT(writer).all(which);
  for (const { source, kind, scope, remoteId, path } of rows) {
    const key = [source, kind, scope, remoteId, path];
    recordAction(writer, actor, { action: 'unaccept', at, about: 'acceptances', key, reason }, () => {
      WITHDRAW(writer).run({ source, kind, scope, remoteId, path });
    });
  }
  return rows.map(acceptanceOf);
}

function acceptanceOf(
  row: typeof acceptances.$inferSelect & { readonly via: string | null },
): DriftAcceptance {
  const { kind, scope, remoteId, path, until, via, reason, acceptedAt, by, fingerprint, source } = row;
  return {
    source,
    // Another program may have stored other types.
    ...{ fingerprint: textOf(fingerprint), reason: textOf(reason) },
    ...{ acceptedAt: textOf(acceptedAt), by: textOf(by) },
    kind: knownKind(kind),
    scope: storedScope(scope),
    id: remoteId,
    path: storedPath(path),
    ...(via === null ? {} : { via: textOf(via) }),
    ...(until === null ? {} : { until: textOf(until) }),
  };
}
