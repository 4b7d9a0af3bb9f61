/** `tidemark restore --resume [N]`: goes on with a restore that was approved, without what it has done. */
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { placeOf } from '../restore/record-place.ts';
import { readResumable, type ResumableRestore } from '../restore/resume.ts';
import { plannedPlaces } from '../restore/undo-standing.ts';
import { undoneState } from '../restore/undo-state.ts';
import { printNote, type CommandContext } from './context.ts';
import { desiredOf } from './plan-desired.ts';
import { lookupIn } from './plan-show.ts';
import type { RestoreOptions } from './restore.ts';
import { restoreNumber } from './restore-number.ts';
import { type DesiredLookup, sendPlan } from './restore-send.ts';
import { type RestoreSession, journalOf, openSession } from './restore-session.ts';
import { readForUndo } from './undo.ts';

/** Options that say nothing new about what was approved. */
const HARMLESS: ReadonlySet<string> = new Set(['resume', 'apply', 'yes', 'format']);

/**
 * Sends without asking: the plan was approved when it was begun. Exit as `restore --apply`.
 * @throws TidemarkError `usage` with any other choice, or when there is nothing to go on with
 */
export async function resumeRestore(context: CommandContext, options: RestoreOptions): Promise<ExitCode> {
  const others = Object.entries(options).filter(
    ([name, value]) => value !== undefined && !HARMLESS.has(name),
  );
  if (others.length > 0) {
    throw new TidemarkError('usage', '--resume goes on with what was approved, and takes no other choice', {
      hint: 'give --resume alone, or with the number of the restore',
    });
  }
  const { resume } = options;
  const number = typeof resume === 'string' ? restoreNumber(resume) : undefined;
  const session = openSession(context, { command: 'restore', writes: true, needsNoMirror: false });
  try {
    const resumable = readResumable(journalOf(session), session.source.name, number);
    const { row, plan } = resumable;
    printNote(context, [`going on with restore ${row.restore} of ${row.startedAt}`]);
    return await sendPlan(session, {
      plan,
      desired: await desiredFor(session, resumable),
      restore: row.restore,
      ...(row.undoes === null ? {} : { undoes: row.undoes }),
    });
  } finally {
    session.close();
  }
}

async function desiredFor(session: RestoreSession, { row, plan }: ResumableRestore): Promise<DesiredLookup> {
  if (row.undoes === null) return desiredOf(session, plan);
  const { undoing } = await readForUndo(session, row.undoes, row.approved['forceChanged'] === true);
  const lookup = lookupIn(
    undoneState(journalOf(session), row.undoes, { ...undoing, resumed: row.restore }).state,
  );
  // Live holds by now what the undo itself has made: only what was desired when it was planned is.
  const { standing } = row.approved;
  const planned = plannedPlaces(plan, Array.isArray(standing) ? standing.map(String) : []);
  return (key) => (planned.has(placeOf(key.kind, key.scope, key.id)) ? lookup(key) : undefined);
}
