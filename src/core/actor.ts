/** Who acts: recorded with what people decide and start (acceptances, pins, restores, forgets). */
import { hostname, userInfo } from 'node:os';
import { TidemarkError } from './errors.ts';

export interface Actor {
  /** As lists and reports name them. */
  readonly by: string;
  /** How the program knows them: user and host of the command, or what the daemon let them in by, such as `token@http`. */
  readonly via: string;
}

const MOST_CHARACTERS = 100;

/** Who does what nobody asked the daemon for. */
export const SCHEDULE: Actor = { by: 'schedule@daemon', via: 'schedule@daemon' };

/** The user of this process, `user@host`; under the name given with `--as`, if any. @throws TidemarkError `usage` for no name */
export function commandActor(as?: string): Actor {
  const via = `${userName()}@${hostname()}`;
  const by = as === undefined ? via : actorName(as);
  if (by !== undefined) return { by, via };
  throw new TidemarkError('usage', '--as is not a name', {
    hint: `give one with at most ${MOST_CHARACTERS} printable characters, or leave it out for ${via}`,
  });
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a number that no user of it has.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** A name that can be recorded, without the space around it; undefined for one that is empty, too long or not printable. */
export function actorName(text: string): string | undefined {
  const name = text.trim();
  const isName = name !== '' && name.length <= MOST_CHARACTERS && !/[\p{C}\p{Zl}\p{Zp}]/u.test(name);
  return isName ? name : undefined;
}

// What started a run or a job, as its row has it: one column for both.

const REQUEST = 'request';
const REQUEST_OF = `${REQUEST} of `;
const COMMAND = 'command';
const COMMAND_OF = `${COMMAND} of `;

/** The trigger of a run or job that somebody asked the daemon for: `request of ann@host`; without a name where nobody gave one. */
export function requestTrigger(by: string | undefined): 'request' | `request of ${string}` {
  return by === undefined ? REQUEST : `${REQUEST_OF}${by}`;
}

/** The trigger of a run that a command did itself: `command of ann@host`. */
export function commandTrigger(by: string): `command of ${string}` {
  return `${COMMAND_OF}${by}`;
}

/** What started a run or job, and who asked for it; null where nobody did, or that is not known. */
export function splitTrigger(trigger: string): { readonly trigger: string; readonly by: string | null } {
  for (const [started, startedBy] of [
    [REQUEST, REQUEST_OF],
    [COMMAND, COMMAND_OF],
  ] as const)
    if (trigger.startsWith(startedBy)) return { trigger: started, by: trigger.slice(startedBy.length) };
  return { trigger, by: null };
}
