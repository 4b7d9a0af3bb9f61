/** The audit log as people read it: each entry with what it is about. `audit-log.ts` writes it, `verify-audit.ts` checks it. */
import { and, desc, eq, lte } from 'drizzle-orm';
import type { RecordKey } from '../catalog/order.ts';
import { TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import {
  type AcceptedCollection,
  type RecordedRemovals,
  type RestoredBackup,
  runOfBackup,
} from './audit-log.ts';
import { type Measured, measuredIn } from './acceptances.ts';
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
import { isMove, lastMove } from './verify-chain.ts';
import { knownKind, storedScope, textOf } from './stored-names.ts';
import { auditLog } from './schema/retention-tables.ts';

/** What an entry is about, as it was after the entry; after `unaccept` and `unpin`, as it was until then. */
export type AuditSubject =
  | (RecordKey & {
      readonly about: 'acceptance';
      readonly source: string;
      /** As in `acceptances.path`. */
      readonly path: string;
      readonly fingerprint: string;
      readonly reason: string;
      readonly acceptedAt: string;
      readonly by: string;
      /** How the program knew who accepted it; undefined where no entry says so. */
      readonly via?: string | undefined;
      readonly until: string | null;
      /** Why it was withdrawn; null in other entries, and where nobody said why. */
      readonly withdrawalReason: string | null;
      /** What was accepted; null in an entry that does not say. */
      readonly measured: Measured | null;
    })
  | {
      readonly about: 'snapshot';
      readonly name: string;
      readonly run: number;
      readonly pinnedAt: string;
      readonly by: string;
      readonly via?: string | undefined;
      readonly isBaseline: boolean;
    }
  | {
      readonly about: 'restore';
      readonly restore: number;
      readonly source: string;
      readonly planHash: string;
      readonly from: string;
      /** True where the mirror was moved since it began: runs that its plan names may have other numbers. */
      readonly isRenumbered: boolean;
      readonly undoes: number | null;
      readonly startedAt: string;
      readonly by: string;
      readonly via?: string | undefined;
      readonly finishedAt: string | null;
      readonly outcome: string;
    }
  | {
      readonly about: 'forget';
      readonly forget: number;
      readonly sources: readonly string[];
      /** As in `forgets.policy`. */
      readonly policy: unknown;
      /** The runs that went, as ranges. */
      readonly runs: readonly (readonly [first: number, last: number])[];
      readonly runCount: number;
      /** True for what `mirror move` records: the file was made of one with these sources, without these runs. */
      readonly isMove: boolean;
    }
  | RemovalsSubject
  /** Of an entry that another program altered so that it cannot be read. */
  | { readonly about: 'unreadable' }
  | (Omit<RestoredBackup, 'run'> & {
      readonly about: 'backup';
      /** The number that it has by now; null where the mirror was moved, and what it was moved into does not know the run. */
      readonly run: number | null;
    });

/** Removals that somebody accepted in a run. */
export interface RemovalsSubject {
  readonly about: 'removals';
  readonly run: number;
  readonly source: string;
  /** The most that was accepted. */
  readonly atMost: number;
  /** `removed`: of the collection, in the run. */
  readonly collections: readonly (AcceptedCollection & { readonly removed: number })[];
}

export interface AuditLogEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by' | 'via' | 'action'> {
  readonly subject: AuditSubject;
  /** In hex. */
  readonly hash: string;
  /** True where its hash does not fit: it is not as it was written, or the entry before it is not. */
  readonly isAltered: boolean;
}

/** Entries read at a time. */
const PAGE = 500;

/** One more than a page: what the last of the page follows. */
const NEWEST = prepared((db) =>
  db
    .select()
    .from(auditLog)
    .where(lte(auditLog.entry, param('from')))
    .orderBy(desc(auditLog.entry))
    .limit(PAGE + 1)
    .prepare(),
);

/**
 * All entries, newest first, read page by page: what is written meanwhile is left out, and nothing is held open between two
 * pages. @throws TidemarkError `mirror_corrupt` for one that cannot be read though it is as it was written
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

/** Members of the restores that were there before the latest move, which leaves an entry of each that it takes. */
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

/** Who accepted removals in a run, and which; undefined where nobody did. @throws TidemarkError `mirror_corrupt` */
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
    .limit(1)
    .prepare(),
);

/** The names of the columns, as `audit-log.ts` records them. */
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

interface Numbers {
  /** As `lastMove`. */
  readonly move: number;
  /** Of a restore. */
  readonly isRenumbered: boolean;
  /** Of a backup. */
  readonly run: number | null;
  /** Of an acceptance, a snapshot and a restore: how the program knew who made it. */
  readonly via: string | undefined;
}

/** @throws TidemarkError `mirror_corrupt` */
function subjectOf(stored: AuditEntry, numbers: Numbers): AuditSubject {
  const { entry } = stored;
  try {
    if (hasWrongType(stored)) throw new TypeError('not stored as text');
    const subject = statedSubject(stored, numbers);
    if (Object.entries(subject).some(([name, value]) => value === undefined && name !== 'via'))
      throw new TypeError('a part of it is missing');
    return subject;
  } catch (cause) {
    if (cause instanceof TidemarkError) throw cause;
    throw new TidemarkError('mirror_corrupt', `entry ${entry} of the audit log cannot be read`, {
      hint: `\`tidemark verify\` says what else is damaged; ${RESTORE_HINT}`,
      cause,
    });
  }
}

function statedSubject({ entry, about, member, row }: AuditEntry, numbers: Numbers): AuditSubject {
  const { via } = numbers;
  const key = JSON.parse(member) as readonly (string | number)[];
  const [first = ''] = key;
  const stated: unknown = JSON.parse(row);
  switch (about) {
    case 'acceptances': {
      const [source = '', kind = '', scope = '', id = '', path = ''] = key.map(String);
      const { accepted_at: acceptedAt, accepted_by: by, ...other } = stated as Stored['acceptances'];
      const { [WITHDRAWAL_REASON]: withdrawalReason = null, ...rest } = other;
      const place = { source, kind: knownKind(kind), scope: storedScope(scope), id, path };
      const measured = measuredIn({ entry, row }, numbers.move);
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
        isRenumbered: numbers.isRenumbered,
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
        collections: collections.map(({ kind, scope, ...numbers }) => ({
          ...{ kind: knownKind(kind), scope: storedScope(scope), ...numbers },
        })),
      };
    }
    case 'backups': {
      const { root, made_at: madeAt, sources } = stated as Stored['backups'];
      return { about: 'backup', name: String(first), run: numbers.run, root, madeAt, sources };
    }
  }
}

/** SQLite does not keep another program from storing a BLOB in a column of texts. */
function hasWrongType({ at, by, via, action, about }: AuditEntry): boolean {
  const isKnown =
    AUDITED_TABLES.includes(about as AuditedTable) || about === 'backups' || about === 'removals';
  return (
    !isKnown || [by, via, action].some((text) => typeof text !== 'string') || Number.isNaN(Date.parse(at))
  );
}
