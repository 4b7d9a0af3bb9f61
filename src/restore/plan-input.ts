/** What the planner is given. It reads nothing else: no clock, no network, no mirror. */
import type { Kind, KindRate, ResourceDefinition, Scope } from '../catalog/definition.ts';
import type { ParsedRecord, Skipped, StateReference } from '../diff/change.ts';
import type { SecretLookup } from './configured-secrets.ts';

/** A collection of a state. What is not whole proves nothing about what is absent from it. */
export interface PlanCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly isComplete: boolean;
  /** True where the service has no such collection: then nothing is in it. */
  readonly isNotOffered?: true;
}

/** One side: records of the affected collections, and of those that they hang from or refer to. */
export interface PlanState {
  readonly reference: StateReference;
  readonly records: readonly ParsedRecord[];
  readonly collections: readonly PlanCollection[];
}

export interface PlanOptions {
  /** Remove live records that the desired state does not have, at most this many; null: remove nothing. */
  readonly prune: { readonly maxRemovals: number } | null;
  /** Of a kind with at least `minRecords` live records no larger share may be changed, or removed. */
  readonly limits: { readonly maxShare: number; readonly minRecords: number };
  readonly createOrganizations: boolean;
  /** Null where it cannot be asked for. */
  readonly inviteMissing: boolean | null;
  /** Let the service mail invites. */
  readonly sendEmail: boolean;
  /** Id of the key's own user among `members`; null where it is not known, and then nobody of that level is touched. */
  readonly ownUserId: string | null;
  /** Oldest age of the desired state, milliseconds; null where the user named the state and so knows its age. */
  readonly maxAgeMs: number | null;
  readonly rate: KindRate & {
    /** Limits that kinds have of their own, beside those above. */
    readonly kinds?: readonly (KindRate & { readonly kinds: readonly Kind[] })[];
  };
}

/** design.md, Restore: 30 % of a kind with at least 10 records. */
export const DEFAULT_LIMITS: PlanOptions['limits'] = { maxShare: 0.3, minRecords: 10 };

export interface PlanInput {
  /** FROM of the command: what is wanted. */
  readonly desired: PlanState;
  readonly live: PlanState;
  /** Definitions in force: profile and overrides applied. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** The id that a record has since it was created again; undefined where it never was. */
  readonly idMap: (kind: Kind, id: string) => string | undefined;
  /**
   * The run that found a desired record gone, whose removal the mirror holds back; undefined for every other one. Its
   * namesake that came since may be that record, made again. None when left out.
   */
  readonly goneSince?: (record: ParsedRecord) => number | undefined;
  readonly secrets: SecretLookup;
  /**
   * What the mirror would hold in place of a secret at that pointer; undefined for what it holds as it is. Left out where it
   * holds secrets in clear.
   */
  readonly fingerprint?: (kind: Kind, pointer: string, secret: string) => string | undefined;
  /** What marks a masked value; those of the catalog when left out. */
  readonly masks?: readonly RegExp[];
  readonly options: PlanOptions;
  /** Records that steps may be about, on either side; all when left out. The others are only looked at. */
  readonly isAbout?: (record: ParsedRecord) => boolean;
  /** Fields that steps may change; all when left out. With it nothing is created or removed. */
  readonly isFieldAbout?: (path: string) => boolean;
  /** Fields of a live record that steps may change (pointers); all when left out. What is missing as a whole is no field. */
  readonly isOwnField?: (live: ParsedRecord, path: string) => boolean;
  /** What was asked for and could not be read: the plan says so. */
  readonly skipped?: readonly Skipped[];
  /** True in a drill: live is a sandbox, and what it gives is of no use elsewhere. */
  readonly isPractice?: true;
  /** Milliseconds since the epoch. */
  readonly now: number;
}
