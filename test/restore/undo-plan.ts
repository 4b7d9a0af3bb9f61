/** The plan of an undo against the rig's live state. */
import type { Plan } from '../../src/restore/plan/plan.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { planUndo, undoKinds } from '../../src/restore/undo/undo.ts';
import { type Rig, planState } from './apply-rig.ts';
import { posthog } from './states.ts';

/** As the command plans it: from the kinds that it reads, no others; `readsAll` gives it everything that live has. */
export function undoPlan(
  rig: Rig,
  restore: number,
  forceChanged = false,
  { definitions = posthog, readsAll = false, secrets = NO_SECRETS } = {},
): Plan {
  const kinds = new Set(undoKinds(rig.mirror(), restore, posthog));
  return planUndo(rig.mirror(), restore, {
    live: planState(rig.live().filter(({ kind }) => readsAll || kinds.has(kind))),
    definitions,
    secrets,
    forceChanged,
    rate: { perMinute: 0, perHour: 0 },
    ownUserId: 'nobody',
    now: 0,
  });
}
