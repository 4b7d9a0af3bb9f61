/**
 * The results of jobs in `jobs.summary`, read by health, metrics, dashboard, API and notices. They never contain a body, a secret, or the
 * name of a person. Keys may be added, never renamed: rows of older versions stay in the mirror.
 */
import { scopeText } from '../../catalog/catalog.ts';
import type { Scope, Severity } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import type { EarlierFinding } from '../../diff/drift.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { SweepOutcome } from '../../mirror/sweep-result.ts';
import type { RunOutcome } from '../../sync/outcome.ts';
import { deniedAdvice } from '../../sync/sweep.ts';

/** The most sweeps, findings and problems in a summary; the others are counted. */
export const NAMED_SWEEPS = 100;
export const NAMED_FINDINGS = 300;
export const NAMED_COLLECTIONS = 300;
export const NAMED_PROBLEMS = 50;

/** A sweep that was not complete. */
export interface UnreadSweep {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly outcome: SweepOutcome;
  readonly held: number;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly hint: string | null;
  /** The permission that the key lacks. */
  readonly permission: string | null;
}

/** A sweep with records that need attention. */
interface UnfinishedSweep {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Records that the walk missed and a request by id found. */
  readonly leaked: number;
  /** Parent records that a later run reads. */
  readonly pending: number;
}

/** The sweeps of one kind together. */
export interface KindSweeps {
  readonly kind: Kind;
  readonly sweeps: number;
  /** Records read. */
  readonly records: number;
  /** Of all its sweeps together, and of the longest one. */
  readonly durationMs: number;
  readonly longestMs: number;
}

export interface SyncSummary {
  readonly job: 'sync';
  /** Null if there was no run. */
  readonly outcome: RunOutcome | null;
  readonly requests: number;
  readonly retries: number;
  /** Responses with status 429. */
  readonly throttled: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Absent records whose removal is held. */
  readonly held: number;
  /** Sweeps by outcome; outcomes that did not occur are left out. */
  readonly sweeps: Readonly<Partial<Record<SweepOutcome, number>>>;
  readonly kinds: readonly KindSweeps[];
  /** At most `NAMED_SWEEPS`, in the order of the run. */
  readonly unread: readonly UnreadSweep[];
  /** Likewise; left out if there are none. */
  readonly unfinished?: readonly UnfinishedSweep[];
}

/** One open finding of drift. */
export interface FindingSummary {
  readonly fingerprint: string;
  readonly severity: Severity;
  readonly kind: Kind;
  readonly scope: Scope;
  /** Replaced if it is a secret itself. */
  readonly id: string;
  /** Replaced likewise, and null if it would name a person. */
  readonly name: string | null;
  /** Of a person or an invite, if its level is part of the change: the level, which says more than an id. */
  readonly level?: number;
  /** Of a person's membership in a role: the role. */
  readonly in?: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** RFC 6901 pointer; empty for a record that was added or removed. */
  readonly path: string;
  /** The path with `[id=…]` for elements that are matched by their id; left out if it is the same. */
  readonly place?: string;
  /** Set if it is open because its acceptance differs from the audit log. */
  readonly reopened?: 'contradicted';
}

export interface DriftSummary {
  readonly job: 'drift';
  /** False if no baseline is set: then everything else is zero. */
  readonly hasBaseline: boolean;
  /** The runs that were compared. */
  readonly from: number | null;
  readonly to: number | null;
  /** The number of open findings, in all and by severity. */
  readonly open: number;
  readonly severities: Readonly<Record<Severity, number>>;
  readonly accepted: number;
  readonly ignored: number;
  /** Open findings, worst first, at most `NAMED_FINDINGS`. */
  readonly findings: readonly FindingSummary[];
  /** By fingerprint, the same findings before restores gave records other ids, the latest first. Left out if there are none. */
  readonly earlier?: Readonly<Record<string, readonly EarlierFinding[]>>;
  readonly compared: { readonly collections: number; readonly records: number };
  /** The number of collections that could not be compared in their present state: each may hide drift. */
  readonly skipped: number;
  /** These collections, at most `NAMED_COLLECTIONS`. Left out if there are none. */
  readonly uncompared?: readonly { readonly kind: Kind; readonly scope: Scope }[];
}

export interface VerifySummary {
  readonly job: 'verify';
  readonly records: number;
  readonly revisions: number;
  readonly runs: number;
  /** The number of all problems. */
  readonly problems: number;
  /** One line each, at most `NAMED_PROBLEMS`; ids that are secrets are replaced. */
  readonly found: readonly string[];
  /** The root hash of the newest run that has one, hex; null for none. */
  readonly root: string | null;
  /** That run; left out for none. */
  readonly run?: number;
  readonly durationMs: number;
  /** What to do about the problems; left out by older versions, and without problems. */
  readonly hint?: string;
  /** True if records and history are intact, and only what people recorded was changed; otherwise left out. */
  readonly isOfAuditLog?: boolean;
}

export interface ForgetSummary {
  readonly job: 'forget';
  /** Runs. */
  readonly kept: number;
  readonly forgotten: number;
  readonly revisions: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Why the space was not freed; null if it was. */
  readonly cleanupError: string | null;
}

interface DrillKindSummary {
  readonly kind: Kind;
  readonly records: number;
  readonly comesBack: number;
  readonly needsSecret: number;
  readonly needsPerson: number;
  readonly cannot: number;
  readonly unknown: number;
  /** 0 to 1. */
  readonly score: number;
  /** False for kinds that no restore writes. */
  readonly restored: boolean;
}

export interface DrillSummary {
  readonly job: 'drill';
  readonly outcome: 'equal' | 'short';
  /** 0 to 1. */
  readonly score: number;
  /** The run that was restored. */
  readonly from: number | null;
  readonly kinds: readonly DrillKindSummary[];
  /** The number of manual tasks that a real restore would leave. */
  readonly tasks: number;
  readonly seconds: number;
}

export interface GitSummary {
  readonly job: 'git';
  /** The run whose state is committed; null if no repository is configured. */
  readonly run: number | null;
  /** Null if there was nothing to commit. */
  readonly commit: string | null;
  readonly branch: string | null;
  readonly isPushed: boolean;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

interface BackupSummary {
  readonly job: 'backup';
  /** Null if no backup was made; then only `job` is set besides, and `targets` if none of them could take it. */
  readonly file: string | null;
  readonly run?: number;
  /** As stored, and before it was compressed. */
  readonly bytes?: number;
  readonly plainBytes?: number;
  readonly isEncrypted?: boolean;
  /** Old backups that retention removed. */
  readonly removed?: number;
  /** The targets in which a backup was due. */
  readonly targets?: readonly {
    readonly address: string;
    /** Why the backup could not be stored; null if it was. */
    readonly error: string | null;
    /** True if the target has lost all backups that were stored there (`hasStoredIn` reads this). */
    readonly isEmptied?: boolean;
  }[];
  /** Names of backups in the targets that are not in the chain of the mirror. */
  readonly contradicting?: readonly string[];
  /** How the command after a backup ended; null without one. */
  readonly command?: string | null;
  readonly durationMs?: number;
}

/** The summary of each job. A job that failed before it had one stores an empty object. */
export interface SummaryByJob {
  readonly sync: SyncSummary;
  readonly drift: DriftSummary;
  readonly verify: VerifySummary;
  readonly forget: ForgetSummary;
  readonly drill: DrillSummary;
  readonly git: GitSummary;
  readonly backup: BackupSummary;
}

/** The summary of a job of that name; null for another job, for one that has not ended, and for one without a summary. */
export function summaryOf<Name extends keyof SummaryByJob>(
  name: Name,
  row: Pick<JobRow, 'name' | 'summary'>,
): SummaryByJob[Name] | null {
  if (row.name !== name || row.summary['job'] !== name) return null;
  // Only `storedSummary` writes it.
  return row.summary as unknown as SummaryByJob[Name];
}

/** The summary of a job that refused because what people recorded differs from the audit log. @param hint what to do */
export function refusalSummary(hint: string): JobRow['summary'] {
  return { isOfAuditLog: true, hint };
}

/** The hint of a job that refused because of the audit log; null for one that did not. */
export function refusalOf({ name, summary }: Pick<JobRow, 'name' | 'summary'>): string | null {
  const { isOfAuditLog, hint } = summary;
  return name !== 'verify' && isOfAuditLog === true && typeof hint === 'string' ? hint : null;
}

/** True for a backup job that found a directory that has lost its backups. */
export function hasEmptiedTarget(row: Pick<JobRow, 'name' | 'summary'>): boolean {
  return summaryOf('backup', row)?.targets?.some(({ isEmptied }) => isEmptied === true) === true;
}

/** The summary as `finishJob` takes it. */
export function storedSummary(summary: SummaryByJob[keyof SummaryByJob] | null): JobRow['summary'] {
  return summary === null ? {} : (JSON.parse(JSON.stringify(summary)) as Record<string, JsonValue>);
}

/** True for a drift job that found no state of its source as of the baseline: it would fail again. */
export function lacksBaseline({ name, errorCode }: Pick<JobRow, 'name' | 'errorCode'>): boolean {
  return name === 'drift' && errorCode === ('reference_unknown' satisfies ErrorCode);
}

// Texts about what a partial sync did not read.

/** The most kinds in one line; more are counted. */
const KINDS_NAMED = 3;

/**
 * One line for each cause, as `tidemark sync` has them: `members (organization 0190…) and 1 other: denied: …`. Skipped sweeps follow from
 * the others, and are left out.
 * @param isCut true if the run had more unread sweeps: then the numbers are minimums
 */
export function unreadCauses(
  unread: readonly UnreadSweep[],
  isCut: boolean,
  placeText: (scope: Scope) => string = scopeText,
): string[] {
  const reached = unread.filter(({ outcome }) => outcome !== 'skipped');
  const own = reached.length > 0 ? reached : unread;
  const least = isCut ? 'at least ' : '';
  const alike = Map.groupBy(
    own,
    ({ outcome, message }) => `${outcome}${message === null ? '' : `: ${message}`}`,
  );
  return [...alike].map(([what, sweeps]) => {
    const kinds = [...Map.groupBy(sweeps, ({ kind }) => kind)];
    const names = kinds.map(([kind, [first, ...others]]) => {
      const place = first === undefined ? '' : placeText(first.scope);
      const more = others.length === 0 ? '' : ` and ${least}${plural(others.length, 'other')}`;
      return `${kind}${place === '' ? '' : ` (${place})`}${more}`;
    });
    return `${kinds.length > KINDS_NAMED ? `${least}${plural(sweeps.length, 'collection')} of ${kinds.length} kinds` : names.join(', ')}: ${what}`;
  });
}

/** True if the run had more incomplete sweeps than its summary names. */
export function isUnreadCut({ sweeps, unread }: Pick<SyncSummary, 'sweeps' | 'unread'>): boolean {
  const { complete: _read, ...others } = sweeps;
  return Object.values(others).reduce((sum, each) => sum + each, 0) > unread.length;
}

/** The most other hints besides permissions. */
const HINTS = 2;

/** What to do, with all missing permissions, so that the key has to be changed only once. Null if no advice is known. */
export function unreadHint(unread: readonly UnreadSweep[]): string | null {
  const denied = unread.filter(({ permission }) => permission !== null);
  const others = unread.flatMap(({ permission, hint }) =>
    permission === null && hint !== null ? [hint] : [],
  );
  const hints = [
    ...(denied.length === 0 ? [] : [deniedAdvice(denied)]),
    ...[...new Set(others)].slice(0, HINTS),
  ];
  return hints.length === 0 ? null : hints.join('; ');
}
