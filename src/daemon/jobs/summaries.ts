/**
 * The results of jobs in `jobs.summary`, read by health, metrics, dashboard, API and notices. They never contain a
 * body, a secret, or the name of a person. Keys may be added, never renamed: rows of older versions stay in the mirror.
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

/** Sweeps, findings and problems named in a summary; the rest is only counted. */
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

/** A sweep that left something to look at. */
interface UnfinishedSweep {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Records that the walk missed and a retrieve found. */
  readonly leaked: number;
  /** Parent records whose turn comes in a later run. */
  readonly pending: number;
}

/** The sweeps of one kind together. */
export interface KindSweeps {
  readonly kind: Kind;
  readonly sweeps: number;
  /** Records read. */
  readonly records: number;
  /** Of all its sweeps, and of the longest one. */
  readonly durationMs: number;
  readonly longestMs: number;
}

export interface SyncSummary {
  readonly job: 'sync';
  /** Null where no run came about. */
  readonly outcome: RunOutcome | null;
  readonly requests: number;
  readonly retries: number;
  /** Answers 429. */
  readonly throttled: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Absent records whose removal waits. */
  readonly held: number;
  /** Sweeps by outcome; outcomes that did not occur are left out. */
  readonly sweeps: Readonly<Partial<Record<SweepOutcome, number>>>;
  readonly kinds: readonly KindSweeps[];
  /** At most `NAMED_SWEEPS`, in the order of the run. */
  readonly unread: readonly UnreadSweep[];
  /** Likewise; left out if there is none. */
  readonly unfinished?: readonly UnfinishedSweep[];
}

/** One open finding of drift. */
export interface FindingSummary {
  readonly fingerprint: string;
  readonly severity: Severity;
  readonly kind: Kind;
  readonly scope: Scope;
  /** Replaced where it is a secret itself. */
  readonly id: string;
  /** Replaced likewise, and null where it would name a person. */
  readonly name: string | null;
  /** Of a person or an invite whose level came, went or changed: the level, which says more than an id. */
  readonly level?: number;
  /** Of a person's membership of something that has a name: of what. */
  readonly in?: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** RFC 6901 pointer; empty for a record that came or went. */
  readonly path: string;
  /** The path with `[id=…]` for elements that are matched by their id; left out where it is the same. */
  readonly place?: string;
  /** Given where it is open because its acceptance is not as the audit log has it. */
  readonly reopened?: 'contradicted';
}

export interface DriftSummary {
  readonly job: 'drift';
  /** False where no baseline is set: then there is nothing to measure from, and everything else is zero. */
  readonly hasBaseline: boolean;
  /** The runs that were compared. */
  readonly from: number | null;
  readonly to: number | null;
  /** Open findings in all, and by severity. */
  readonly open: number;
  readonly severities: Readonly<Record<Severity, number>>;
  readonly accepted: number;
  readonly ignored: number;
  /** Open findings, worst first, at most `NAMED_FINDINGS`. */
  readonly findings: readonly FindingSummary[];
  /** By fingerprint, what those were before restores gave records other ids: the latest first. Left out if there is none. */
  readonly earlier?: Readonly<Record<string, readonly EarlierFinding[]>>;
  readonly compared: { readonly collections: number; readonly records: number };
  /** Collections that could not be compared, or not in their present state: each may hide drift. */
  readonly skipped: number;
  /** Which they are, at most `NAMED_COLLECTIONS`. Left out if there is none. */
  readonly uncompared?: readonly { readonly kind: Kind; readonly scope: Scope }[];
}

export interface VerifySummary {
  readonly job: 'verify';
  readonly records: number;
  readonly revisions: number;
  readonly runs: number;
  /** In all. */
  readonly problems: number;
  /** One line each, at most `NAMED_PROBLEMS`; ids that are secrets are replaced. */
  readonly found: readonly string[];
  /** Hex; of the newest sealed run. Null if none is. */
  readonly root: string | null;
  /** That run; left out if none is. */
  readonly run?: number;
  readonly durationMs: number;
  /** What to do about the problems; left out by older versions, and without problems. */
  readonly hint?: string;
  /** True where records and history are intact, and only what people recorded was changed; else left out. */
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
  /** Why the space did not return; null where it did. */
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
  /** The run that was practised with. */
  readonly from: number | null;
  readonly kinds: readonly DrillKindSummary[];
  /** What a real restore would leave to do. */
  readonly tasks: number;
  readonly seconds: number;
}

export interface GitSummary {
  readonly job: 'git';
  /** Whose state is committed; null where no repository is configured. */
  readonly run: number | null;
  /** Null where nothing was to be committed. */
  readonly commit: string | null;
  readonly branch: string | null;
  readonly isPushed: boolean;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

interface BackupSummary {
  readonly job: 'backup';
  /** Null if none was made; then only `job` is there beside it, and `targets` if none of them could take it. */
  readonly file: string | null;
  readonly run?: number;
  /** As stored, and before it was packed. */
  readonly bytes?: number;
  readonly plainBytes?: number;
  readonly isEncrypted?: boolean;
  /** Old backups that retention removed. */
  readonly removed?: number;
  /** Those in which one was due: null where it was stored, else why it could not be. */
  readonly targets?: readonly {
    readonly address: string;
    readonly error: string | null;
    /** It has none of the backups that were stored there (`hasStoredIn` reads this). */
    readonly isEmptied?: boolean;
  }[];
  /** Names of those in the targets that are not in the chain of the mirror. */
  readonly contradicting?: readonly string[];
  /** How the command after a backup ended; null without one. */
  readonly command?: string | null;
  readonly durationMs?: number;
}

/** A job that failed before it had a summary stores an empty object. @internal */
export interface SummaryByJob {
  readonly sync: SyncSummary;
  readonly drift: DriftSummary;
  readonly verify: VerifySummary;
  readonly forget: ForgetSummary;
  readonly drill: DrillSummary;
  readonly git: GitSummary;
  readonly backup: BackupSummary;
}

/** The summary of a job of that name; null for another job, one without an end, and one without a summary. */
export function summaryOf<Name extends keyof SummaryByJob>(
  name: Name,
  row: Pick<JobRow, 'name' | 'summary'>,
): SummaryByJob[Name] | null {
  if (row.name !== name || row.summary['job'] !== name) return null;
  // Written by this program alone, by `storedSummary`.
  return row.summary as unknown as SummaryByJob[Name];
}

/** The summary of a job that refused, since what people recorded is not as the audit log has it. @param hint what to do */
export function refusalSummary(hint: string): JobRow['summary'] {
  return { isOfAuditLog: true, hint };
}

/** What to do about what a job refused for; null for one that did not refuse. */
export function refusalOf({ name, summary }: Pick<JobRow, 'name' | 'summary'>): string | null {
  const { isOfAuditLog, hint } = summary;
  return name !== 'verify' && isOfAuditLog === true && typeof hint === 'string' ? hint : null;
}

/** True for a backup job that found a directory without the backups that were stored there. */
export function hasEmptiedTarget(row: Pick<JobRow, 'name' | 'summary'>): boolean {
  return summaryOf('backup', row)?.targets?.some(({ isEmptied }) => isEmptied === true) === true;
}

/** The summary as `finishJob` takes it. */
export function storedSummary(summary: SummaryByJob[keyof SummaryByJob] | null): JobRow['summary'] {
  return summary === null ? {} : (JSON.parse(JSON.stringify(summary)) as Record<string, JsonValue>);
}

/** True for a drift job that had no state of its source to measure from: tried again, it fails again. */
export function lacksBaseline({ name, errorCode }: Pick<JobRow, 'name' | 'errorCode'>): boolean {
  return name === 'drift' && errorCode === ('reference_unknown' satisfies ErrorCode);
}

// What a partial sync did not read, in words.

/** Kinds that a line names; more are only counted. */
const KINDS_NAMED = 3;

/**
 * A line a cause, as `tidemark sync` has them: `members (organization 0190…) and 1 other: denied: …`. What was skipped follows
 * from the others. @param isCut true where the run had more of them: then the numbers are those at least
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

/** True where the run had more sweeps that were not complete than its summary names. */
export function isUnreadCut({ sweeps, unread }: Pick<SyncSummary, 'sweeps' | 'unread'>): boolean {
  const { complete: _read, ...others } = sweeps;
  return Object.values(others).reduce((sum, each) => sum + each, 0) > unread.length;
}

/** Other advice than permissions that a hint has room for. */
const HINTS = 2;

/** What to do, with all permissions that are missing: the key is mended once. Null where nothing is known to help. */
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
