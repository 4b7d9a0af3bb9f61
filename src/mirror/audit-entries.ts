/** The audit log as people read it: each entry with what it is about. `audit-log.ts` writes it, `verify-audit.ts` checks it. */
import { and, desc, eq, lte } from 'drizzle-orm';
import { TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import {
  type AcceptedCollection,
  type RecordedRemovals,
  type RestoredBackup,
  runOfBackup,
} from './audit-log.ts';
import { type DriftAcceptance, type Measured, measuredIn } from './acceptances.ts';
import {
  AUDITED_TABLES,
  type AuditedTable,
  type AuditEntry,
  entryHash,
  madeViaUntil,
  WITHDRAWAL_REASON,
} from './audited-rows.ts';
import type { MirrorAccess } from './access.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import type { RestoreRow } from './restores.ts';
import type { SnapshotRow } from './snapshots.ts';
import { isMove, lastMove } from './verify-chain.ts';
import { knownKind, storedScope, textOf } from './stored-names.ts';
import { auditLog } from './schema/retention-tables.ts';

/** What an entry is about, as it was after the entry; for `unaccept` and `unpin`, as it was before. */
export type AuditSubject =
  | (Omit<DriftAcceptance, 'until' | 'via'> & {
      readonly about: 'acceptance';
      /** How the program knew who accepted it; undefined if no entry says so. */
      readonly via?: string | undefined;
      readonly until: string | null;
      /** Why it was withdrawn; null in other entries, and if nobody gave a reason. */
      readonly withdrawalReason: string | null;
      /** What was accepted; null if the entry does not have it. */
      readonly measured: Measured | null;
    })
  | (Omit<SnapshotRow, 'via'> & { readonly about: 'snapshot'; readonly via?: string | undefined })
  | (Pick<
      RestoreRow,
      'restore' | 'source' | 'planHash' | 'from' | 'undoes' | 'startedAt' | 'by' | 'finishedAt'
    > & {
      readonly about: 'restore';
      readonly via?: string | undefined;
      readonly outcome: string;
      /** True if the mirror was moved since the restore began: runs that its plan names may have other numbers now. */
      readonly isRenumbered: boolean;
    })
  | {
      readonly about: 'forget';
      readonly forget: number;
      readonly sources: readonly string[];
      /** As in `forgets.policy`. */
      readonly policy: unknown;
      /** The runs that were removed, as ranges. */
      readonly runs: readonly (readonly [first: number, last: number])[];
      readonly runCount: number;
      /** True for an entry of `mirror move`: this file was made from one with these sources, without these runs. */
      readonly isMove: boolean;
    }
  | RemovalsSubject
  /** Another program altered the entry so that it cannot be read. */
  | { readonly about: 'unreadable' }
  | (Omit<RestoredBackup, 'run'> & {
      readonly about: 'backup';
      /** Its present number; null if the mirror was moved since into one that does not know the run. */
      readonly run: number | null;
    });

/** Removals that somebody accepted in a run. */
export interface RemovalsSubject {
  readonly about: 'removals';
  readonly run: number;
  readonly source: string;
  /** The largest number of removals that was accepted. */
  readonly atMost: number;
  /** `removed`: of the collection, in the run. */
  readonly collections: readonly (AcceptedCollection & { readonly removed: number })[];
}

export interface AuditLogEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by' | 'via' | 'action'> {
  readonly subject: AuditSubject;
  /** In hex. */
  readonly hash: string;
  /** True if its hash is wrong: the entry, or the one before it, is not as it was written. */
  readonly isAltered: boolean;
}

/** Entries read at a time. */
const PAGE = 500;

/** One more than a page: the hash of the page's last entry covers the one before it. */
const NEWEST = prepared((db) =>
  db
    .select()
    .from(auditLog)
    .where(lte(auditLog.entry, param('from')))
    .orderBy(desc(auditLog.entry))
    .limit(PAGE + 1),
);

/**
 * All entries, newest first, read page by page: entries that are written meanwhile are left out, and no transaction is open between
 * two pages.
 * @throws TidemarkError `mirror_corrupt` for an entry that cannot be read although it is as it was written
 */
export function* readAuditLog(access: Pick<MirrorAccess, 'read'>): Generator<AuditLogEntry, undefined> {
  const move = access.read(lastMove);
  const renumbered = new Set(access.read((connection) => renumberedRestores(connection, move)));
  let from: number | undefined = Number.MAX_SAFE_INTEGER;
  while (from !== undefined) {
    const start: number = from;
    const rows = access.read((connection) => NEWEST(connection).all({ from: start }));
    for (const [index, row] of rows.slice(0, PAGE).entries()) {
      const { entry, hash } = row;
      const isAltered = !entryHash(row, rows[index + 1]?.hash ?? null).equals(hash);
      const subject = orUnreadable(isAltered, () =>
        subjectOf(row, {
          move,
          isRenumbered: renumbered.has(row.member),
          via: access.read((connection) => madeViaUntil(connection, row)),
          run: row.about === 'backups' ? access.read((connection) => runOfBackup(connection, entry)) : null,
        }),
      );
      const texts = { at: textOf(row.at), by: textOf(row.by), via: textOf(row.via) };
      const action = textOf(row.action) as AuditLogEntry['action'];
      yield { entry, ...texts, action, hash: hash.toString('hex'), subject, isAltered };
    }
    from = rows[PAGE]?.entry;
  }
  return undefined;
}

function orUnreadable(isAltered: boolean, read: () => AuditSubject): AuditSubject {
  try {
    return read();
  } catch (error) {
    if (!isAltered || !(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') throw error;
    return { about: 'unreadable' };
  }
}

/** Members of the restores from before the latest move, which writes an entry for each restore that it takes over. */
function renumberedRestores(connection: Connection, move: number): string[] {
  return connection
    .prepare<[number], string>(
      `SELECT DISTINCT member FROM audit_log WHERE about = 'restores' AND entry <= ?`,
    )
    .pluck()
    .all(move);
}

export interface AcceptedRemovalsEntry extends Pick<AuditLogEntry, 'entry' | 'by' | 'via'> {
  readonly subject: RemovalsSubject;
}

/** Who accepted removals in a run, and which; undefined if nobody did. @throws TidemarkError `mirror_corrupt` */
export function readAcceptedRemovals(connection: Connection, run: number): AcceptedRemovalsEntry | undefined {
  const row = OF_REMOVALS(connection).get({ member: JSON.stringify([run]) });
  if (row === undefined) return undefined;
  const subject = subjectOf(row, { move: 0, isRenumbered: false, run: null, via: undefined });
  if (subject.about !== 'removals') return undefined;
  const { entry, by, via } = row;
  return { entry, by, via, subject };
}

const OF_REMOVALS = prepared((db) =>
  db
    .select()
    .from(auditLog)
    .where(and(eq(auditLog.about, 'removals'), eq(auditLog.member, param('member'))))
    .orderBy(desc(auditLog.entry))
    .limit(1),
);

/** The entry's `row` by table, as `audit-log.ts` writes it. */
interface Stored {
  readonly acceptances: Readonly<
    Record<'fingerprint' | 'reason' | 'accepted_at' | 'accepted_by', string> & {
      until: string | null;
      [WITHDRAWAL_REASON]?: string;
    }
  >;
  readonly snapshots: Readonly<
    Record<'run' | 'is_baseline', number> & Record<'pinned_at' | 'pinned_by', string>
  >;
  readonly restores: Readonly<
    Record<'source' | 'plan_hash' | 'from_ref' | 'started_at' | 'started_by' | 'outcome', string> & {
      undoes: number | null;
      finished_at: string | null;
    }
  >;
  readonly forgets: Readonly<Record<'sources' | 'policy' | 'runs', string> & { run_count: number }>;
  readonly removals: RecordedRemovals;
  readonly backups: Readonly<{ run: number; root: string; made_at: string; sources: readonly string[] }>;
}

/** Facts about an entry that its `row` does not have. */
interface Context {
  /** As `lastMove`. */
  readonly move: number;
  /** For a restore. */
  readonly isRenumbered: boolean;
  /** For a backup. */
  readonly run: number | null;
  /** For an acceptance, a snapshot or a restore: how the program knew who made it. */
  readonly via: string | undefined;
}

/** @throws TidemarkError `mirror_corrupt` */
function subjectOf(stored: AuditEntry, context: Context): AuditSubject {
  try {
    if (hasWrongType(stored)) throw new TypeError('not stored as text');
    const subject = statedSubject(stored, context);
    if (Object.entries(subject).some(([name, value]) => value === undefined && name !== 'via'))
      throw new TypeError('a part of it is missing');
    return subject;
  } catch (cause) {
    if (cause instanceof TidemarkError) throw cause;
    throw new TidemarkError('mirror_corrupt', `entry ${stored.entry} of the audit log cannot be read`, {
      hint: `\`tidemark verify\` says what else is damaged; ${RESTORE_HINT}`,
      cause,
    });
  }
}

function statedSubject(
  { entry, about, member, row }: AuditEntry,
  { move, isRenumbered, run: backupRun, via }: Context,
): AuditSubject {
  const key = JSON.parse(member) as readonly (string | number)[];
  const [first = ''] = key;
  const stated: unknown = JSON.parse(row);
  switch (about) {
    case 'acceptances': {
      const [source = '', kind = '', scope = '', id = '', path = ''] = key.map(String);
      const { accepted_at: acceptedAt, accepted_by: by, ...other } = stated as Stored['acceptances'];
      const { [WITHDRAWAL_REASON]: withdrawalReason = null, ...rest } = other;
      const place = { source, kind: knownKind(kind), scope: storedScope(scope), id, path };
      const measured = measuredIn({ entry, row }, move);
      return { about: 'acceptance', ...place, ...rest, withdrawalReason, acceptedAt, by, via, measured };
    }
    case 'snapshots': {
      const { run, pinned_at: pinnedAt, pinned_by: by, is_baseline: mark } = stated as Stored['snapshots'];
      return { about: 'snapshot', name: String(first), run, pinnedAt, by, via, isBaseline: mark === 1 };
    }
    case 'restores': {
      const { source, undoes, outcome, ...rest } = stated as Stored['restores'];
      return {
        about: 'restore',
        restore: Number(first),
        source,
        planHash: rest.plan_hash,
        from: rest.from_ref,
        isRenumbered,
        undoes,
        startedAt: rest.started_at,
        by: rest.started_by,
        via,
        finishedAt: rest.finished_at,
        outcome,
      };
    }
    case 'forgets': {
      const { sources, policy, runs, run_count: runCount } = stated as Stored['forgets'];
      return {
        about: 'forget',
        forget: Number(first),
        sources: JSON.parse(sources) as string[],
        policy: JSON.parse(policy) as unknown,
        isMove: isMove({ policy }),
        runs: JSON.parse(runs) as [number, number][],
        runCount,
      };
    }
    case 'removals': {
      const { source, at_most: atMost, collections } = stated as Stored['removals'];
      return {
        ...{ about: 'removals', run: Number(first), source, atMost },
        collections: collections.map(({ kind, scope, ...counts }) => ({
          ...{ kind: knownKind(kind), scope: storedScope(scope), ...counts },
        })),
      };
    }
    case 'backups': {
      const { root, made_at: madeAt, sources } = stated as Stored['backups'];
      return { about: 'backup', name: String(first), run: backupRun, root, madeAt, sources };
    }
  }
}

/** SQLite lets other programs store a BLOB in a text column. */
function hasWrongType({ at, by, via, action, about }: AuditEntry): boolean {
  const isKnown =
    AUDITED_TABLES.includes(about as AuditedTable) || about === 'backups' || about === 'removals';
  return (
    !isKnown || [by, via, action].some((text) => typeof text !== 'string') || Number.isNaN(Date.parse(at))
  );
}
