/** Who acts: recorded with what people decide and start (acceptances, pins, restores, forgets). */
import { hostname, userInfo } from 'node:os';
import { TidemarkError } from './errors.ts';

export interface Actor {
  /** As lists and reports name them. */
  readonly by: string;
  /** How the program knows them: user and host of the command, or what the daemon let them in by, such as `token@http`. */
  readonly via: string;
}

/** As many as texts and pages show of a name: two that are cut could look like one. */
export const MOST_CHARACTERS = 200;

/** Who does what nobody asked the daemon for. */
export const SCHEDULE: Actor = { by: 'schedule@daemon', via: 'schedule@daemon' };

/** The user of this process, `user@host`; under the name given with `--as`, if any. @throws TidemarkError `usage` for no name */
export function commandActor(as?: string): Actor {
  const via = `${userName()}@${hostname()}`;
  const by = as === undefined ? via : actorName(as);
  if (by !== undefined) return { by, via };
  throw new TidemarkError('usage', '--as is not a name', {
    hint: `give one with at most ${MOST_CHARACTERS} printable characters that does not end like (root@host), or leave it out for ${via}`,
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

/** A name that can be recorded, without the space around it and in compatible form (NFKC); undefined for one that is empty or has a `nameProblem`. */
export function actorName(text: string): string | undefined {
  const name = composed(text);
  return name === '' || nameProblem(name) !== null ? undefined : name;
}

/** Why a text is not a name, after `it`; null where it is one, or is empty. */
export function nameProblem(text: string): string | null {
  const name = composed(text);
  if (name.length > MOST_CHARACTERS) return `is longer than ${MOST_CHARACTERS} characters`;
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return 'has characters that cannot be printed';
  // `whoText` adds what the program knows in that form: a name must not imitate it, in whichever brackets look like these.
  const seen = name.replaceAll(/[\p{Default_Ignorable_Code_Point}\p{M}\u2800]/gu, '').trim();
  return /[\p{Ps}--[\[\{]][^\p{Ps}]*@[^\p{Ps}]*[\p{Pe}--[\]\}]]$/v.test(seen)
    ? 'ends as if with an origin, like (root@host)'
    : null;
}

/** The same name, typed in another way or in full width, is the same text. */
function composed(text: string): string {
  return text.normalize('NFKC').trim();
}

// What started a run or a job, as its row has it: one column for both.

const REQUEST = 'request';
const REQUEST_OF = `${REQUEST} of `;
const COMMAND = 'command';
const COMMAND_OF = `${COMMAND} of `;

/**
 * The trigger of a run or job that somebody asked the daemon for: `request of ann (token@http)`; without a name where
 * nobody gave one.
 */
export function requestTrigger(actor: Actor | undefined): 'request' | `request of ${string}` {
  return actor === undefined ? REQUEST : `${REQUEST_OF}${whoText(actor)}`;
}

/** The trigger of a run that a command did itself: `command of ann@host`, `command of ann (root@host)`. */
export function commandTrigger(actor: Actor): `command of ${string}` {
  return `${COMMAND_OF}${whoText(actor)}`;
}

/** Somebody as lists and reports know them: `via` null or left out where it is not known. */
export interface Named {
  readonly by: string;
  readonly via?: string | null | undefined;
}

/** The name, and in brackets how the program knew them, where that says more and is known. */
export function whoText({ by, via }: Named): string {
  return via === undefined || via === null || by === via ? by : `${by} (${via})`;
}

/**
 * True where a text that somebody asks for means this person: it is as shown (`ann (root@host)`), says how the program knew them
 * (`root@host`), is the name with any origin (`ann (*)`), or the name alone. Not alone where it has an @: anybody may give the
 * name of another machine's user, who did none of it.
 */
export function isMeantBy(text: string, { by, via }: Actor): boolean {
  const forms = [whoText({ by, via }), `${by} (${via})`, via, `${by} (*)`, ...(by.includes('@') ? [] : [by])];
  return forms.some((form) => form.toLowerCase() === text.toLowerCase());
}

interface Trigger {
  readonly trigger: string;
  /** Null where nobody asked for it, or that is not known; so is `via`. */
  readonly by: string | null;
  readonly via: string | null;
}

/** What started a run or job, who asked for it, and how that is known. */
export function splitTrigger(trigger: string): Trigger {
  for (const [started, startedBy] of [
    [REQUEST, REQUEST_OF],
    [COMMAND, COMMAND_OF],
  ] as const) {
    if (!trigger.startsWith(startedBy)) continue;
    const who = trigger.slice(startedBy.length);
    // A name may have brackets too: what the program knows is in the last ones.
    const [, by = who, via = who] = /^(.*) \((.*)\)$/.exec(who) ?? [];
    return { trigger: started, by, via };
  }
  return { trigger, by: null, via: null };
}
