/** What restore has to know of a kind beyond its fields: one part of a catalog row. */
import type { Kind } from './definition.ts';

/** A value of a body that decides something. */
export interface Condition {
  /** RFC 6901 pointer into the body. */
  readonly pointer: string;
  readonly value: boolean | string;
  /** One line for people: why it matters, or what to do. */
  readonly reason: string;
  /** Pointer to a live value that a person needs for it. */
  readonly shows?: string;
}

/** How a record that is missing comes back. */
export type Creation =
  /** POST to the collection. */
  | { readonly by: 'request' }
  /** POST, but only when the user asked for it: it changes more than the record (wire-notes.md, Restore). */
  | { readonly by: 'consent' }
  /** Not by any request; a person has to, or accepts an invitation made from these members of the body. */
  | {
      readonly by: 'invitation';
      readonly kind: Kind;
      /** Fields of the invitation with the pointers that their values come from. */
      readonly fields: Readonly<Record<string, string>>;
      readonly reason: string;
    };

/** A field that is set by actions rather than by PATCH. */
export interface StateField {
  readonly field: string;
  /** Sent on creation whatever is desired; the action follows. */
  readonly onCreation: boolean;
  /** `before`: ahead of other changes to the record, `after`: behind them. */
  readonly actions: readonly {
    readonly value: boolean;
    readonly action: string;
    readonly order: 'before' | 'after';
    /**
     * Fields that the action moves by itself: sent again after one that goes before. By themselves they are no reason for a
     * step: what an action has moved would be planned, and moved, again and again.
     */
    readonly moves: readonly string[];
  }[];
}

/** A request value that an answer holds elsewhere. */
interface DerivedField {
  readonly field: string;
  /** Pointers tried in turn. */
  readonly from: readonly string[];
  /** The kind whose id it is. */
  readonly kind: Kind;
}

/** A field that shows records of another kind: it follows when they come back, and is never written itself. */
interface FollowingField {
  readonly field: string;
  readonly kind: Kind;
}

/** A request-only value that an option of the command decides. */
interface RequestValue {
  readonly field: string;
  readonly option: 'sendEmail';
}

export interface RestoreRules {
  /** Why records of the kind are never written; null where they are. */
  readonly never: string | null;
  readonly creation: Creation;
  /** False for kinds that are never removed, whatever is asked. */
  readonly isRemovable: boolean;
  readonly state: StateField | null;
  readonly derived: readonly DerivedField[];
  readonly follows: readonly FollowingField[];
  readonly requestValues: readonly RequestValue[];
  /** Pointer to the organization that owns the record; one of another organization is not writable. */
  readonly owner: string | null;
  /** Where FROM holds the value and live does not, only a person can bring it back. */
  readonly byPerson: readonly Condition[];
  /** Where FROM holds the value, the record had ended: creating it again would give what had ended. */
  readonly endedWhen: readonly Condition[];
  /** A record is not missed when a live record of that kind holds the same value: an invite that was accepted. */
  readonly replacedBy: {
    readonly kind: Kind;
    readonly pointer: string;
    readonly target: string;
    readonly reason: string;
  } | null;
  /** Pointer to a level: of a collection's highest level there must always be one holder left. */
  readonly keepsHighest: string | null;
  /** True where the service takes a record's own name in other letters for a name that is taken, and refuses it. */
  readonly refusesLetterCase: boolean;
  /** True where creating a record takes the place of the one of that name: created first, none is lost if that is refused. */
  readonly replacesNamesake: boolean;
  /** True where the record of the key's own user is never changed or removed. */
  readonly protectsOwnUser: boolean;
  /**
   * Paths that take the same body and are used in place of the documented ones, which stay the second choice
   * (wire-notes.md, Restore). Parameters that are neither scope nor id are fields of the body.
   */
  readonly alternativePaths: Readonly<Partial<Record<'create' | 'update', string>>>;
}

/** Created, changed and removed by requests, without anything special. */
export const PLAIN_RESTORE: RestoreRules = {
  never: null,
  creation: { by: 'request' },
  isRemovable: true,
  state: null,
  derived: [],
  follows: [],
  requestValues: [],
  owner: null,
  byPerson: [],
  endedWhen: [],
  replacedBy: null,
  keepsHighest: null,
  refusesLetterCase: false,
  replacesNamesake: false,
  protectsOwnUser: false,
  alternativePaths: {},
};

/** Read, never written. */
export function neverRestored(reason: string): RestoreRules {
  return { ...PLAIN_RESTORE, never: reason, isRemovable: false };
}
