/** The audit log as people read it: each entry with what it is about. `audit-log.ts` writes it, `verify-audit.ts` checks it. */
import { asc } from 'drizzle-orm';
import type { RecordKey } from '../catalog/order.ts';
import { TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import type { AuditEntry, RestoredBackup } from './audit-log.ts';
import type { Connection } from './database.ts';
import { prepared } from './query.ts';
import { knownKind, storedScope } from './stored-names.ts';
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
      readonly until: string | null;
    })
  | {
      readonly about: 'snapshot';
      readonly name: string;
      readonly run: number;
      readonly pinnedAt: string;
      readonly by: string;
      readonly isBaseline: boolean;
    }
  | {
      readonly about: 'restore';
      readonly restore: number;
      readonly source: string;
      readonly planHash: string;
      readonly from: string;
      /** The run that it was when the plan was made; null for any other state, and where the plan cannot be read. */
      readonly fromRun: number | null;
      readonly undoes: number | null;
      readonly startedAt: string;
      readonly by: string;
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
    }
  | ({ readonly about: 'backup' } & RestoredBackup);

export interface AuditLogEntry extends Pick<AuditEntry, 'entry' | 'at' | 'by' | 'via' | 'action'> {
  readonly subject: AuditSubject;
  /** In hex. */
  readonly hash: string;
}

const ENTRIES = prepared((db) => db.select().from(auditLog).orderBy(asc(auditLog.entry)).prepare());

/** All entries, oldest first. @throws TidemarkError `mirror_corrupt` for one that cannot be read */
export function readAuditLog(connection: Connection): AuditLogEntry[] {
  const runs = plannedRuns(connection);
  return ENTRIES(connection)
    .all()
    .map((row) => {
      const { entry, at, by, via, action, hash } = row;
      return { entry, at, by, via, action, hash: hash.toString('hex'), subject: subjectOf(row, runs) };
    });
}

type PlannedRuns = ReadonlyMap<number, number | null>;

/** Of each restore, which run its reference was when the plan was made. */
function plannedRuns(connection: Connection): PlannedRuns {
  return new Map(
    connection
      .prepare<[], [restore: number, run: number | null]>(
        `SELECT restore, iif(json_valid(plan), plan ->> '$.from.run', NULL) FROM restores`,
      )
      .raw()
      .all(),
  );
}

/** The names of the columns, as `audit-log.ts` records them. */
interface Stored {
  readonly acceptances: Readonly<
    Record<'fingerprint' | 'reason' | 'accepted_at' | 'accepted_by', string> & { until: string | null }
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
  readonly backups: Readonly<{ run: number; root: string; made_at: string; sources: readonly string[] }>;
}

function subjectOf({ entry, about, member, row }: AuditEntry, runs: PlannedRuns): AuditSubject {
  try {
    const key = JSON.parse(member) as readonly (string | number)[];
    const [first = ''] = key;
    const stored: unknown = JSON.parse(row);
    switch (about) {
      case 'acceptances': {
        const [source = '', kind = '', scope = '', id = '', path = ''] = key.map(String);
        const { accepted_at: acceptedAt, accepted_by: by, ...rest } = stored as Stored['acceptances'];
        const place = { source, kind: knownKind(kind), scope: storedScope(scope), id, path };
        return { about: 'acceptance', ...place, ...rest, acceptedAt, by };
      }
      case 'snapshots': {
        const { run, pinned_at: pinnedAt, pinned_by: by, is_baseline: mark } = stored as Stored['snapshots'];
        return { about: 'snapshot', name: String(first), run, pinnedAt, by, isBaseline: mark === 1 };
      }
      case 'restores': {
        const { source, undoes, outcome, ...rest } = stored as Stored['restores'];
        return {
          about: 'restore',
          restore: Number(first),
          source,
          planHash: rest.plan_hash,
          from: rest.from_ref,
          fromRun: runs.get(Number(first)) ?? null,
          undoes,
          startedAt: rest.started_at,
          by: rest.started_by,
          finishedAt: rest.finished_at,
          outcome,
        };
      }
      case 'forgets': {
        const { sources, policy, runs, run_count: runCount } = stored as Stored['forgets'];
        return {
          about: 'forget',
          forget: Number(first),
          sources: JSON.parse(sources) as string[],
          policy: JSON.parse(policy) as unknown,
          runs: JSON.parse(runs) as [number, number][],
          runCount,
        };
      }
      case 'backups': {
        const { run, root, made_at: madeAt, sources } = stored as Stored['backups'];
        return { about: 'backup', name: String(first), run, root, madeAt, sources };
      }
    }
  } catch (cause) {
    if (cause instanceof TidemarkError) throw cause;
    throw new TidemarkError('mirror_corrupt', `entry ${entry} of the audit log cannot be read`, {
      hint: `\`tidemark verify\` says what else is damaged; ${RESTORE_HINT}`,
      cause,
    });
  }
}
