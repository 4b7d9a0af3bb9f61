/** Who acts. Recorded with what people decide and start (acceptances, pins, restores, forgets). */
import { hostname, userInfo } from 'node:os';
import { TidemarkError } from './errors.ts';

export interface Actor {
  /** The name in lists and reports. */
  readonly by: string;
  /** How the program knows them: user and host of the command, or how they logged in to the daemon, such as `token@http`. */
  readonly via: string;
}

/** As many as texts and pages show, because two names that are cut could look the same. */
export const MOST_CHARACTERS = 200;

/** The actor of everything that the daemon does on its own. */
export const SCHEDULE: Actor = { by: 'schedule@daemon', via: 'schedule@daemon' };

/**
 * The user of this process, `user@host`, with the name given with `--as`, if any.
 * @throws TidemarkError `usage` for a text that is not a name
 */
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
    // A container may run with a user id that has no user.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** The name as it is recorded, trimmed and in NFKC form; undefined if it is empty or has a `nameProblem`. */
export function actorName(text: string): string | undefined {
  const name = composed(text);
  return name === '' || nameProblem(name) !== null ? undefined : name;
}

/** Why a text is not a name, as a predicate after `it`; null if it is one, or is empty. */
export function nameProblem(text: string): string | null {
  const name = composed(text);
  if (name.length > MOST_CHARACTERS) return `is longer than ${MOST_CHARACTERS} characters`;
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name)) return 'has characters that cannot be printed';
  // A name must not imitate the brackets that `whoText` adds, even with characters that only look like them.
  const seen = name.replaceAll(/[\p{Default_Ignorable_Code_Point}\p{M}\u2800]/gu, '').trim();
  return /[\p{Ps}--[\[\{]][^\p{Ps}]*@[^\p{Ps}]*[\p{Pe}--[\]\}]]$/v.test(seen)
    ? 'ends as if with an origin, like (root@host)'
    : null;
}

/** A text that is equal for the same name typed in another way or in full width. */
function composed(text: string): string {
  return text.normalize('NFKC').trim();
}

// What started a run or a job, as stored in one column of its row.

const REQUEST = 'request';
const REQUEST_OF = `${REQUEST} of `;
const COMMAND = 'command';
const COMMAND_OF = `${COMMAND} of `;

/**
 * The trigger of a run or job requested from the daemon: `request of ann (token@http)`, or `request` without an actor.
 */
export function requestTrigger(actor: Actor | undefined): 'request' | `request of ${string}` {
  return actor === undefined ? REQUEST : `${REQUEST_OF}${whoText(actor)}`;
}

/** The trigger of a run by a command: `command of ann@host`, `command of ann (root@host)`. */
export function commandTrigger(actor: Actor): `command of ${string}` {
  return `${COMMAND_OF}${whoText(actor)}`;
}

/** A person in lists and reports. `via` is null or missing if it is not known. */
export interface Named {
  readonly by: string;
  readonly via?: string | null | undefined;
}

/** The name, followed in brackets by how the program knew the person, if known and different. */
export function whoText({ by, via }: Named): string {
  return via === undefined || via === null || by === via ? by : `${by} (${via})`;
}

/**
 * True if a filter for a person means this one: it is the text shown (`ann (root@host)`), how the program knew them
 * (`root@host`), the name with any origin (`ann (*)`), or only the name. A name with an @ alone does not match, because
 * anybody can give the name of another machine's user.
 */
export function isMeantBy(text: string, { by, via }: Actor): boolean {
  const forms = [whoText({ by, via }), `${by} (${via})`, via, `${by} (*)`, ...(by.includes('@') ? [] : [by])];
  return forms.some((form) => form.toLowerCase() === text.toLowerCase());
}

interface Trigger {
  readonly trigger: string;
  /** Null, as is `via`, if nobody requested it or this is not known. */
  readonly by: string | null;
  readonly via: string | null;
}

/** Splits a trigger into what started the run or job, who requested it, and how the program knew them. */
export function splitTrigger(trigger: string): Trigger {
  for (const [started, startedBy] of [
    [REQUEST, REQUEST_OF],
    [COMMAND, COMMAND_OF],
  ] as const) {
    if (!trigger.startsWith(startedBy)) continue;
    const who = trigger.slice(startedBy.length);
    // A name may have brackets too, so the last ones count.
    const [, by = who, via = who] = /^(.*) \((.*)\)$/.exec(who) ?? [];
    return { trigger: started, by, via };
  }
  return { trigger, by: null, via: null };
}
