/** Drift that somebody accepted, with the reason: kept in the mirror, so that it goes where its backups go. */
import { randomBytes } from 'node:crypto';
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { MirrorAccess } from './access.ts';
import type { Connection } from './database.ts';
import { sealRow } from './row-seals.ts';

export interface DriftAcceptance {
  /** Name of the source. */
  readonly source: string;
  /** Stands for the place and the accepted value; the value itself is not kept. */
  readonly fingerprint: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  /** RFC 6901, with `[id=…]` for an element that is matched by its id; empty for a record that came or went. */
  readonly path: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly acceptedAt: string;
  /** ISO 8601; from then on it no longer holds. */
  readonly until?: string;
}

interface StoredAcceptance extends Omit<DriftAcceptance, 'scope' | 'until'> {
  readonly scope: string;
  readonly until: string | null;
}

const FINGERPRINT_KEY_BYTES = 32;

const COLUMNS = `source, fingerprint, kind, scope, remote_id AS id, path, reason, accepted_at AS acceptedAt, until`;

export class AcceptanceStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Accepted drift, of one source or of all; by source, kind, scope, id and path. */
  list(source?: string): DriftAcceptance[] {
    return this.#access.read((connection) => readAcceptances(connection, source));
  }

  /** The random bytes from which this mirror's drift fingerprints are made: the same as long as it lives. */
  fingerprintKey(): Uint8Array {
    return this.#access.read(readFingerprintKey);
  }

  /** Replaces the one of the same source, kind, scope, id and path. */
  add(acceptance: DriftAcceptance): void {
    this.#access.change((writer) => storeAcceptance(writer, acceptance));
  }

  /** Returns what was withdrawn; undefined if there was none. */
  withdraw(source: string, fingerprint: string): DriftAcceptance | undefined {
    return this.#access.change((writer) => dropAcceptance(writer, source, fingerprint));
  }
}

function readAcceptances(connection: Connection, source?: string): DriftAcceptance[] {
  return connection
    .prepare<{ source: string | null }, StoredAcceptance>(
      `SELECT ${COLUMNS} FROM acceptances WHERE :source IS NULL OR source = :source
       ORDER BY source, kind, scope, remote_id, path`,
    )
    .all({ source: source ?? null })
    .map(acceptanceOf);
}

function storeAcceptance(writer: Connection, acceptance: DriftAcceptance): void {
  const { source, fingerprint, kind, scope, id, path, reason, acceptedAt, until = null } = acceptance;
  const place = scopeKey(scope);
  writer
    .transaction(() => {
      writer
        .prepare(
          `INSERT OR REPLACE INTO acceptances (source, fingerprint, kind, scope, remote_id, path, reason, accepted_at, until)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(source, fingerprint, kind, place, id, path, reason, acceptedAt, until);
      sealRow(writer, 'acceptances', [source, kind, place, id, path]);
    })
    .immediate();
}

/** Makes the key of this mirror's fingerprints, unless there is one. */
export function makeFingerprintKey(writer: Connection): void {
  if (writer.prepare('SELECT 1 FROM fingerprint_key').get() !== undefined) return;
  writer
    .transaction(() => {
      writer
        .prepare('INSERT INTO fingerprint_key (id, key) VALUES (1, ?)')
        .run(randomBytes(FINGERPRINT_KEY_BYTES));
      sealRow(writer, 'fingerprint_key', [1]);
    })
    .immediate();
}

/**
 * The key of this mirror's fingerprints, 32 bytes.
 * @throws TidemarkError `mirror_corrupt` where it is gone or damaged: under another one no acceptance would hold
 */
function readFingerprintKey(connection: Connection): Uint8Array {
  const key = connection.prepare('SELECT key FROM fingerprint_key').pluck().get();
  if (key instanceof Uint8Array && key.length === FINGERPRINT_KEY_BYTES) return key;
  const state = key === undefined ? 'is gone from the mirror' : 'cannot be read: the mirror is damaged';
  throw new TidemarkError('mirror_corrupt', `the key of the drift fingerprints ${state}`, {
    hint: 'restore the mirror from a copy; or run `tidemark sync`, which makes another one, and accept the drift again',
  });
}

function dropAcceptance(
  writer: Connection,
  source: string,
  fingerprint: string,
): DriftAcceptance | undefined {
  const dropped = writer
    .transaction(() => {
      const rows = writer
        .prepare<[string, string], StoredAcceptance>(
          `DELETE FROM acceptances WHERE source = ? AND fingerprint = ? RETURNING ${COLUMNS}`,
        )
        .all(source, fingerprint);
      for (const { kind, scope, id, path } of rows)
        sealRow(writer, 'acceptances', [source, kind, scope, id, path]);
      return rows;
    })
    .immediate();
  return dropped[0] === undefined ? undefined : acceptanceOf(dropped[0]);
}

function acceptanceOf({ scope, until, ...rest }: StoredAcceptance): DriftAcceptance {
  return { ...rest, scope: JSON.parse(scope) as Scope, ...(until === null ? {} : { until }) };
}
