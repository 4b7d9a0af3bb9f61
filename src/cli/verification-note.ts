/** Warnings of commands that read or change a mirror which another program altered. */
import { formatInteger, localTime, plural } from '../core/wording.ts';
import { summaryOf } from '../daemon/jobs/summaries.ts';
import { readLastJobs } from '../daemon/last-jobs.ts';
import type { Verification } from '../doctor/mirror-health.ts';
import { isDamageFound } from '../daemon/notices/run-transitions.ts';
import type { Config } from '../config/config.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import { type CommandContext, printNote, printReason } from './context.ts';

/** How many problems the last verification found, and when it ended (ISO 8601); null if there was none. */
export function lastVerification(mirror: Mirror): Verification | null {
  const [job] = readLastJobs(mirror).of('verify');
  if (job === undefined) return null;
  const problems = summaryOf('verify', job)?.problems ?? (isDamageFound(job) ? 1 : null);
  return problems === null ? null : { problems, at: job.finishedAt ?? job.startedAt };
}

/** A line if the last verification found problems; else empty. */
export function verificationNote(mirror: Mirror): string[] {
  const last = lastVerification(mirror);
  if (last === null || last.problems === 0) return [];
  return [
    `the last verification (${localTime(last.at)}) found ${plural(last.problems, 'problem')} in ${mirror.path}: ` +
      '`tidemark verify` lists them and says what to do; a sync does not repair them',
  ];
}

/** Opens the mirror for a command that shows its content, and prints the warning. */
export function openForReading(context: CommandContext, config: Config, command: string): Mirror {
  const mirror = openConfiguredMirror(config, 'read', command, context.pid);
  try {
    printNote(context, verificationNote(mirror));
    return mirror;
  } catch (error) {
    mirror.close();
    throw error;
  }
}

/** At most this many lines are printed; `verify` has all. */
const LINES_PRINTED = 3;

/** Prints on stderr what another program altered, before that is shown nevertheless. Returns exit code 1 if there is any. */
export function printAltered(context: CommandContext, altered: readonly string[]): ExitCode {
  if (altered.length === 0) return EXIT.done;
  const more = altered.length - LINES_PRINTED;
  printReason(context, [
    ...altered.slice(0, LINES_PRINTED),
    ...(more > 0 ? [`and ${formatInteger(more)} more`] : []),
    '  → `tidemark verify` names everything that was changed',
  ]);
  return EXIT.failed;
}
