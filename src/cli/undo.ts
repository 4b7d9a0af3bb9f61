/** `tidemark undo RESTORE`: the plan that takes a restore back; with `--apply`, carries it out. */
import { systemClock } from '../core/clock.ts';
import { TidemarkError, type ExitCode } from '../core/errors.ts';
import { ownUserIn, planSide } from '../restore/plan/gather.ts';
import { configuredSecrets } from '../restore/secrets.ts';
import { undoneState } from '../restore/undo/state.ts';
import {
  planUndo,
  undoKinds,
  undoneInWords,
  type UndoOptions,
  existingNamesakes,
} from '../restore/undo/undo.ts';
import { sourceOfRestore } from '../restore/apply/resume.ts';
import type { CommandContext } from './context.ts';
import { requireConsent } from './plan.ts';
import { planFormat, type PlanFormat } from './plan.ts';
import { lookupIn, showAndSend } from './plan.ts';
import { restoreNumber } from './restore-session.ts';
import { type RestoreSession, journalOf, openSession, closedAfter } from './restore-session.ts';

interface UndoCommandOptions {
  readonly restore: string;
  readonly apply?: boolean;
  readonly yes?: boolean;
  readonly forceChanged?: boolean;
  readonly format?: PlanFormat;
  readonly as?: string;
}

/** Exit codes as `restore`. */
export async function undo(context: CommandContext, options: UndoCommandOptions): Promise<ExitCode> {
  planFormat(context, options);
  const number = restoreNumber(options.restore);
  if (options.apply === true) requireConsent(context, options, `tidemark undo ${number}`);
  else if (options.yes === true)
    throw new TidemarkError('usage', '--yes agrees to what --apply sends', { hint: 'give --apply as well' });
  const session = await openSession(context, {
    command: 'undo',
    writes: options.apply === true,
    needsNoMirror: false,
    as: options.as,
    sourceIn: (mirror) => sourceOfRestore(mirror, number),
  });
  return closedAfter(session, async () => {
    const { source, definitions } = session;
    const mirror = journalOf(session);
    const row = mirror.restores.get(number);
    if (row === undefined || row.source !== source.name) {
      throw new TidemarkError('reference_unknown', `there is no restore ${number} of source ${source.name}`, {
        hint: '`tidemark restores` lists them',
      });
    }
    if (undoKinds(mirror, number, definitions).length === 0) {
      throw new TidemarkError('usage', `restore ${number} applied nothing: there is nothing to take back`, {
        hint: `\`tidemark restores show ${number}\` shows its result; ids that it recorded as continued stay so`,
      });
    }
    const undone = undoneInWords(mirror, number);
    const { undoing, notes } = await readForUndo(session, number, options.forceChanged === true);
    const plan = planUndo(mirror, number, undoing);
    const { state } = undoneState(mirror, number, undoing);
    const existing = existingNamesakes(plan, state.records, definitions);
    const approved = {
      ...(options.forceChanged === undefined ? {} : { forceChanged: options.forceChanged }),
      ...(existing.length === 0 ? {} : { standing: existing }),
    };
    return await showAndSend(
      session,
      {
        plan,
        desired: lookupIn(state),
        notes: [...(undone === null ? [] : [undone]), ...notes],
        approved,
        undoes: number,
      },
      options,
    );
  });
}

/** What undoing a restore is planned from: the records as they are now. */
export async function readForUndo(
  session: RestoreSession,
  restore: number,
  forceChanged: boolean,
): Promise<{ readonly undoing: UndoOptions; readonly notes: readonly string[] }> {
  const { source, definitions } = session;
  const filter = { kinds: undoKinds(journalOf(session), restore, definitions) };
  const known = await session.readLive(filter);
  const live = planSide(known, filter);
  const notes: string[] = [];
  return {
    undoing: {
      live: { ...live, reference: { ...live.reference, source: source.name } },
      known,
      definitions,
      secrets: configuredSecrets(source.secrets),
      forceChanged,
      rate: source.rate,
      ownUserId: ownUserIn(source, definitions, live.records, notes),
      now: systemClock.now(),
    },
    notes,
  };
}
