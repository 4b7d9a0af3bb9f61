/** What the latest state of a source lacks: the last attempt to read the source failed, or a restore changed it since. */
import { EXIT, type ExitCode } from '../core/errors.ts';
import type { DiffDocument, StateReference } from '../diff/change.ts';
import { fullDisk, spaceBeside } from '../doctor/disk.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { failedRunDocument } from '../state/documents.ts';
import type { Reference } from '../state/reference.ts';
import { newestRunIfFailed, unreadRestores, unreadRestoreText } from '../state/runs.ts';
import { ofSource } from './context.ts';
import type { StateOpener } from './state-opener.ts';

export interface LackOfLatest {
  /** `failedRunDocument` of the newest run, if it failed. */
  readonly failedRun: object | null;
  /** The newest restore that no run has read. */
  readonly restoredSince: number | null;
  /** A line each, for the report. */
  readonly notes: readonly string[];
  /** The same with what to do, for stderr. */
  readonly reason: readonly string[];
}

/** Of a state that is not the latest of a mirror. */
export const LACKS_NOTHING: LackOfLatest = { failedRun: null, restoredSince: null, notes: [], reason: [] };

/** @param readsNow what reads the service in place of the latest state, a clause after the command that shows the failure */
export function lackOfLatest(mirror: Mirror, source: string, readsNow: string): LackOfLatest {
  const failed = newestRunIfFailed(mirror, source);
  const failedLines = failed === null ? fullDiskLines(mirror.path) : failedRunLines(failed, readsNow);
  const restored = unreadRestores(mirror, source)[0];
  const restoredLines = restored === undefined ? [] : [unreadRestoreText(restored)];
  return {
    failedRun: failed === null ? null : failedRunDocument(failed),
    restoredSince: restored?.restore ?? null,
    notes: [...failedLines.slice(0, 1), ...restoredLines],
    reason: [...failedLines, ...restoredLines],
  };
}

/** What the latest state lacks may hide anything: it comes before what was found. */
export function codeWithLack({ reason }: Pick<LackOfLatest, 'reason'>, code: ExitCode): ExitCode {
  return reason.length > 0 ? EXIT.partial : code;
}

interface OpenedSide {
  readonly reference: Reference;
  readonly opener: Pick<StateOpener, 'mirror'>;
  readonly source: string | null;
}

/** A diff with what is lacked by its sides that are the latest state of a source. */
export function withLack(
  document: DiffDocument,
  sides: { readonly from: OpenedSide; readonly to: OpenedSide },
): { readonly document: DiffDocument; readonly lack: Pick<LackOfLatest, 'notes' | 'reason'> } {
  const readsNow = '`live` in place of `latest` reads the service now';
  const [from, to] = [sides.from, sides.to].map(({ reference, opener, source }) =>
    reference.form === 'latest' && source !== null
      ? lackOfLatest(opener.mirror(), source, readsNow)
      : LACKS_NOTHING,
  ) as [LackOfLatest, LackOfLatest];
  // Of two sources, each line names its own.
  const lines = (key: 'notes' | 'reason'): string[] => [
    ...new Set([
      ...from[key].map((line) => ofSource(line, document.from.source)),
      ...to[key].map((line) => ofSource(line, document.to.source)),
    ]),
  ];
  return {
    document: { ...document, from: sideWithLack(document.from, from), to: sideWithLack(document.to, to) },
    lack: { notes: lines('notes'), reason: lines('reason') },
  };
}

function sideWithLack(side: StateReference, { failedRun, restoredSince }: LackOfLatest): StateReference {
  return {
    ...side,
    ...(failedRun === null ? {} : { failed_run: failedRun }),
    ...(restoredSince === null ? {} : { restored_since: restoredSince }),
  };
}

/** The newest attempt to read the source failed: its latest state is older than that. */
function failedRunLines({ run, errorCode }: RunRow, readsNow: string): string[] {
  const why = errorCode === null ? '' : ` (${errorCode})`;
  return [
    `the latest state is older than the last attempt to read it: run ${run} failed${why}`,
    `  → \`tidemark runs show ${run}\` shows why; ${readsNow}`,
  ];
}

/** Where the disk is full, a sync that failed for it could not be recorded either. */
function fullDiskLines(path: string): string[] {
  const full = fullDisk(path, spaceBeside(path));
  if (full?.isFull !== true) return [];
  return [
    `${full.message}, where a sync fails without being recorded: the latest state may be older than the last attempt to read it`,
    '  → free some space, then run `tidemark sync`',
  ];
}
