/** Why the latest state of a source is out of date: the last attempt to read the source failed, or a restore changed it since. */
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
  /** The newest restore whose changes no run has read yet. */
  readonly restoredSince: number | null;
  /** Lines for the report. */
  readonly notes: readonly string[];
  /** The same lines for stderr, with what to do. */
  readonly reason: readonly string[];
}

/** For a state that is not the latest of a mirror. */
export const LACKS_NOTHING: LackOfLatest = { failedRun: null, restoredSince: null, notes: [], reason: [] };

/**
 * Why the latest state is out of date, if it is.
 * @param readsNow a clause that says how to read the service instead
 */
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

/** The exit code: partial if the latest state is out of date, whatever was found, since that can hide anything. */
export function codeWithLack({ reason }: Pick<LackOfLatest, 'reason'>, code: ExitCode): ExitCode {
  return reason.length > 0 ? EXIT.partial : code;
}

interface OpenedSide {
  readonly reference: Reference;
  readonly opener: Pick<StateOpener, 'mirror'>;
  readonly source: string | null;
}

/** Adds to a diff why those of its sides that are the latest state of a source are out of date. */
export function withLack(
  document: DiffDocument,
  sides: { readonly from: OpenedSide; readonly to: OpenedSide },
): { readonly document: DiffDocument; readonly lack: Pick<LackOfLatest, 'notes' | 'reason'> } {
  const readsNow = '`live` in place of `latest` reads the service now';
  const lackOf = ({ reference, opener, source }: OpenedSide): LackOfLatest =>
    reference.form === 'latest' && source !== null
      ? lackOfLatest(opener.mirror(), source, readsNow)
      : LACKS_NOTHING;
  const [from, to] = [lackOf(sides.from), lackOf(sides.to)];
  // The sides can be of two sources: each line names its own.
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

function failedRunLines({ run, errorCode }: RunRow, readsNow: string): string[] {
  const why = errorCode === null ? '' : ` (${errorCode})`;
  return [
    `the latest state is older than the last attempt to read it: run ${run} failed${why}`,
    `  → \`tidemark runs show ${run}\` shows why; ${readsNow}`,
  ];
}

/** On a full disk, a failed sync could not even be recorded. */
function fullDiskLines(path: string): string[] {
  const full = fullDisk(path, spaceBeside(path));
  if (full?.isFull !== true) return [];
  return [
    `${full.message}, where a sync fails without being recorded: the latest state may be older than the last attempt to read it`,
    '  → free some space, then run `tidemark sync`',
  ];
}
