/** Drift that somebody accepted, with the reason: kept in the mirror, so that it goes where its backups go. */
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
  keyText,
  latestEntry,
  madeVia,
  madeViaOf,
  MEASURED,
  type RowKey,
} from './audited-rows.ts';
import type { Connection } from './database.ts';
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
  /** Stands for the place and the accepted value, which the audit log has in `Measured`. */
  readonly fingerprint: string;
  /** RFC 6901, with `[id=…]` for an element that is matched by its id; empty for a record that came or went. */
  readonly path: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly acceptedAt: string;
  /** Who accepted it. */
  readonly by: string;
  /** How the program knew who accepted it, by the audit log; left out where it does not say. */
  readonly via?: string;
  /** ISO 8601; from then on it no longer holds. */
  readonly until?: string;
}

/** What was accepted, as it was shown: in the audit log only. Secrets are masked. */
export interface Measured {
  /** Of the record; `changed` of one of its fields. */
  readonly change: 'added' | 'removed' | 'changed';
  /** Left out where there was nothing; of an entire record, its fields by pointer. */
  readonly from?: JsonValue;
  readonly to?: JsonValue;
  /** The values are texts then: parts of their JSON, in which `…` marks what was left out. */
  readonly shortened?: true;
  /** The state that it was measured from, with the name of the snapshot that was the baseline. */
  readonly baseline: MeasuredState & { readonly name?: string };
  /** The state that had the accepted value. */
  readonly state: MeasuredState;
}

/** As in `StateReference`. */
interface MeasuredState {
  readonly ref: string;
  readonly run?: number;
  readonly at?: string;
}

/** One that was compared with the audit log. */
export interface CheckedAcceptance extends DriftAcceptance {
  /** What it has against the log, after `the acceptance of …`: it does not count then. Left out for one that is as it was accepted. */
  readonly contradiction?: string;
  /** True for one that the log has and the table has no more. */
  readonly isGone?: true;
}

const FINGERPRINT_KEY_BYTES = 32;

export class AcceptanceStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Accepted drift, of one source or of all; by source, kind, scope, id and path. */
  list(source?: string): DriftAcceptance[] {
    return this.#access.read((connection) => readAcceptances(connection, source));
  }

  /** As `list`, each compared with the audit log; after them, those that are gone though the log has them. */
  checked(source?: string): CheckedAcceptance[] {
    return this.#access.read((connection) => checkAcceptances(connection, source));
  }

  /** Rows, of one source or of all, whose kind, scope or path nothing can be made of: what is wrong with each, in a line. No other method has them. */
  unreadable(source?: string): string[] {
    return this.#access.read((connection) => unreadableLines(connection, source));
  }

  /** What was accepted, as `measuredIn` has it; null also where its entry was altered. */
  measured({ source, kind, scope, id, path }: DriftAcceptance): Measured | null {
    const key = [source, kind, scopeKey(scope), id, path];
    return this.#access.read((connection) => {
      const latest = latestEntry(connection, 'acceptances', key);
      return latest === undefined || !isAsWritten(connection, latest)
        ? null
        : measuredIn(latest, lastMove(connection));
    });
  }

  /** The random bytes from which this mirror's drift fingerprints are made: the same as long as it lives. */
  fingerprintKey(): Uint8Array {
    return this.#access.read(readFingerprintKey);
  }

  /**
   * Replaces the one of the same source, kind, scope, id and path, and ends those that are gone though the log has them under
   * another id of the record. Returns it with who accepted it.
   * @param earlier the fingerprint of the one that it replaces as well: of the record under another id
   * @param measured what was accepted, for the audit log
   * @throws TidemarkError `mirror_corrupt` where one of them is not as it was accepted
   */
  add(
    acceptance: Omit<DriftAcceptance, 'by' | 'via'>,
    earlier?: string,
    measured?: Measured,
  ): DriftAcceptance {
    const [added] = this.addAll([{ acceptance, earlier, measured }]);
    if (added === undefined) throw new TypeError('one was given');
    return added;
  }

  /** As `add`, of several: all or none. */
  addAll(
    given: readonly {
      readonly acceptance: Omit<DriftAcceptance, 'by' | 'via'>;
      readonly earlier?: string | undefined;
      readonly measured?: Measured | undefined;
    }[],
  ): DriftAcceptance[] {
    const { actor } = this.#access;
    const all = given.map(({ acceptance, ...rest }) => {
      // The log is append-only: what is in it cannot be masked later.
      const reason = this.#access.recordedText(acceptance.reason, 'the reason');
      return { ...rest, added: { ...acceptance, reason, by: actor.by, via: actor.via } };
    });
    this.#access.change((writer) =>
      writer
        .transaction(() => {
          for (const { added, earlier, measured } of all) {
            const { source, acceptedAt: at } = added;
            if (earlier !== undefined)
              dropAcceptances(writer, { source, fingerprint: earlier }, { actor, at });
            endGoneElsewhere(writer, added, actor);
            storeAcceptance(writer, added, actor, measured);
          }
        })
        .immediate(),
    );
    return all.map(({ added }) => added);
  }

  /**
   * Returns what was withdrawn; undefined if there was none.
   * @param why for the audit log
   * @throws TidemarkError `mirror_corrupt` for one that is not as it was accepted, or that nobody accepted
   */
  withdraw(source: string, fingerprint: string, why?: string): DriftAcceptance | undefined {
    const { actor, clock } = this.#access;
    const at = isoTime(clock.now());
    const reason = this.#recordedReason(why);
    const dropped = this.#access.change((writer) =>
      writer
        .transaction(() => dropAcceptances(writer, { source, fingerprint }, { actor, at, reason }))
        .immediate(),
    );
    return dropped[0];
  }

  /** As `withdraw`, for one that is gone though the log has it: only an entry is written. Returns whether one was. */
  withdrawGone(
    { source, kind, scope, id, path }: Omit<DriftAcceptance, 'fingerprint'>,
    why?: string,
  ): boolean {
    const reason = this.#recordedReason(why);
    const { actor, clock } = this.#access;
    const key = [source, kind, scopeKey(scope), id, path];
    const at = isoTime(clock.now());
    return this.#access.change((writer) =>
      writer
        .transaction(() =>
          recordEndOfGone(writer, actor, { action: 'unaccept', at, about: 'acceptances', key, reason }),
        )
        .immediate(),
    );
  }

  /** As of `add`. */
  #recordedReason(why: string | undefined): string | undefined {
    return why === undefined ? undefined : this.#access.recordedText(why, 'the reason');
  }
}

/**
 * What an entry of an acceptance says that was accepted; null where it does not. Without the numbers that runs had before
 * the latest move, which may be those of other runs now.
 * @param move as `lastMove`
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
  // One that was named by its number goes by its time.
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
    .orderBy(asc(source), asc(kind), asc(scope), asc(remoteId), asc(path))
    .prepare();
});

/** Without those that cannot be read: another program altered or inserted them, so that they count for nothing. */
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
  // Its id may be a secret.
  const lineOf = (of: unknown, problem: string | null): string[] =>
    problem === null ? [] : [`an acceptance of ${textOf(of)} cannot be read: ${problem}`];
  return [
    ...ACCEPTANCES(connection)
      .all({ source: source ?? null })
      .flatMap((row) => lineOf(row.source, placeProblem(row))),
    ...gone.flatMap(({ key }) => lineOf(key[0] ?? '', goneProblem(key))),
  ];
}

/** The same of one that is gone, by its key in the audit log. */
function goneProblem(key: RowKey): string | null {
  // What is not a text was altered, too.
  const [source = '', kind = '', scope = '', remoteId = '', path = ''] = key as readonly string[];
  return placeProblem({ source, kind, scope, remoteId, path });
}

/** Why nothing can be made of where a row is about; null where it is as it should be. */
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
    // Written otherwise, it would be another row of the same place, which the audit log does not know.
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
  const says = new Map(contradicted.map((row) => [keyText(row.key), row.says]));
  const stored = readAcceptances(connection, source);
  const unproved = stored.length === 0 ? undefined : unprovedText(connection);
  return [
    ...stored.map((acceptance): CheckedAcceptance => {
      const { kind, scope, id, path } = acceptance;
      const contradiction =
        says.get(keyText([acceptance.source, kind, scopeKey(scope), id, path])) ?? unproved;
      return contradiction === undefined ? acceptance : { ...acceptance, contradiction };
    }),
    ...contradicted.filter(({ isGone }) => isGone).flatMap((row) => goneAcceptance(connection, row)),
  ];
}

/** Why no acceptance is proved: an entry that is gone, or was altered, may have withdrawn any of them. Undefined where the log is as it was written. */
function unprovedText(connection: Connection): string | undefined {
  const altered = alteredLogText(connection);
  return altered === null ? undefined : `rests on a log that ${altered}`;
}

/** One that is gone, as the log has it. */
function goneAcceptance(
  connection: Connection,
  { key, recorded, says }: ContradictedRow,
): CheckedAcceptance[] {
  const [source = '', kind = '', scope = '', id = '', path = ''] = key.map(String);
  // `unreadableLines` has those of which nothing can be made.
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
    .onConflictDoUpdate({ target: [source, kind, scope, remoteId, path], set: excluded(rest) })
    .prepare();
});

function storeAcceptance(
  writer: Connection,
  acceptance: DriftAcceptance,
  actor: Actor,
  measured?: Measured,
): void {
  const { id, until = null, ...rest } = acceptance;
  const { source, kind, path } = rest;
  const scope = scopeKey(rest.scope);
  const key = [source, kind, scope, id, path];
  const recorded = {
    ...({ action: 'accept', at: rest.acceptedAt, about: 'acceptances', key } as const),
    ...(measured === undefined ? {} : { measured: JSON.stringify(measured) }),
  };
  recordAction(writer, actor, recorded, () => {
    STORE(writer).run({ ...rest, remoteId: id, scope, until });
  });
}

/** Ends those of the same path that are gone under the other ids of the record. */
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
  // As it is stored: Drizzle would make bytes of anything.
  db
    .select({ key: sql<unknown>`${fingerprintKey.key}` })
    .from(fingerprintKey)
    .prepare(),
);

const SET_FINGERPRINT_KEY = prepared((db) =>
  db.insert(fingerprintKey).values(paramsOf(fingerprintKey)).prepare(),
);

/** Makes the key of this mirror's fingerprints, unless there is one, or was: with another, every fingerprint would seem to be of another value. */
export function makeFingerprintKey(writer: Connection): void {
  if (FINGERPRINT_KEY(writer).get() !== undefined || isSealed(writer, 'fingerprint_key', [1])) return;
  writer
    .transaction(() => {
      SET_FINGERPRINT_KEY(writer).run({ id: 1, key: randomBytes(FINGERPRINT_KEY_BYTES) });
      sealRow(writer, 'fingerprint_key', [1]);
    })
    .immediate();
}

/**
 * The key of this mirror's fingerprints, 32 bytes.
 * @throws TidemarkError `mirror_corrupt` where it is gone or altered: with another one no acceptance would match
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
const OF_FINGERPRINT = prepared((db) =>
  db.select(WITH_VIA).from(acceptances).where(GIVEN_BY_FINGERPRINT).prepare(),
);
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
    )
    .prepare();
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
    // Another program may have stored no texts.
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
