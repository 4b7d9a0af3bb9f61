/** A plan: everything that text, JSON, exit code and apply are made from (design.md, Restore; `tidemark.plan/1`). */
import type { CollectionKey } from '../../catalog/order.ts';
import { hash } from 'node:crypto';
import type { Method, Scope, KindRate } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { type ExitCode, EXIT, TidemarkError } from '../../core/errors.ts';
import { isRestoreCommand } from '../../core/hints.ts';
import { type JsonObject, getOwn, isJsonObject, parseLossless, type JsonValue } from '../../core/json.ts';
import type { Secret } from '../../core/secret.ts';
import { canonicalText } from '../../diff/canonical.ts';
import type { Skipped, StateReference, ParsedRecord } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { AcceptedFinding } from '../../diff/drift.ts';
import type { IgnoreTest } from '../../diff/rules.ts';

export type StepAction = 'create' | 'update' | 'act' | 'remove' | 'blocked' | 'manual';

// Steps name each other by number; while the plan is made, and their order is not known yet, by key (`Draft`). `R` is which.

/** A known text, or the id that a step gives. */
export type KnownOrStep<R = number> = { readonly value: string } | { readonly step: R };

export type Parameter<R = number> = { readonly name: string } & KnownOrStep<R>;

/**
 * A pointer of the body that is filled when applying, and from where; until then it holds a text that describes the
 * value. `step`: the id that the step gives, as a number where the desired body has one; `configuration`: the secret for
 * this place of the desired record; `desired`: the secret in clear text at the same pointer of the desired record.
 */
export type Fill<R = number> = { readonly pointer: string } & (
  | { readonly from: 'step'; readonly step: R; readonly as: 'text' | 'number' }
  | { readonly from: 'configuration' }
  | { readonly from: 'desired' }
);

export interface PathPlan<R = number> {
  /** A path of the catalog, with `:name` parameters. */
  readonly template: string;
  readonly parameters: readonly Parameter<R>[];
}

export interface PlannedRequest<R = number> extends PathPlan<R> {
  /** The kind that the request is about: an invite, where a member is invited. */
  readonly kind: Kind;
  readonly method: Method;
  /** Which method of the write client sends it. */
  readonly role: 'create' | 'update' | 'remove' | 'act';
  /** Name of the action of an `act`; else null. */
  readonly act: string | null;
  /** The path that is used first, for people; `{id of step 3}` where it is not known yet. */
  readonly path: string;
  /** Null for removals. Without the values of `fills`. */
  readonly body: JsonObject | null;
  readonly fills: readonly Fill<R>[];
  /** The path that the profile names, which is used first; the documented one is the second choice. Null without one. */
  readonly alternative: PathPlan<R> | null;
}

/** What must still hold when the step is applied. */
type Precondition<R = number> =
  /** The live record is as it was planned against: `managedDigest` of it. */
  | { readonly state: 'present'; readonly id: string; readonly digest: string }
  /** No live record of the collection has this natural key (`naturalKeyDigest`); null where the kind has none. */
  | { readonly state: 'absent'; readonly digest: string | null }
  /** An earlier step of the same record was applied. */
  | { readonly state: 'after'; readonly step: R };

/** What restores what the step overwrites. Secrets are left out and named. */
export type Inverse =
  | { readonly action: 'remove' }
  | { readonly action: 'create'; readonly body: JsonObject; readonly withheld: readonly string[] }
  | {
      readonly action: 'update';
      /** Managed fields as they were. */
      readonly body: JsonObject;
      /** Fields that were not there. */
      readonly absent: readonly string[];
      readonly withheld: readonly string[];
    }
  | { readonly action: 'act'; readonly act: string };

/** A secret that the step cannot be sent without. */
export interface SecretNeed {
  /** Pointers into the body, any one of which is enough. */
  readonly any_of: readonly string[];
  /** `redacted`: the mirror never stored it; `hidden`: the journal has the mask of Tidemark; `masked`: the mirror holds that of the service; left out where the service shows nothing. */
  readonly because?: 'redacted' | 'hidden' | 'masked';
  /** What is wrong with the variable or file from which the configuration takes it; left out for any other need. */
  readonly unset?: string;
}

/** Why a step is blocked, or needs manual work: what to decide on. */
export type Obstacle =
  | 'ambiguous'
  /** An undo: the record is not as the restore left it. */
  | 'changed_since'
  | 'collection_not_read'
  | 'consent'
  | 'cycle'
  | 'depends_on_blocked'
  | 'ended'
  | 'immutable'
  | 'last_holder'
  /** The service takes a name once, and another record has it. */
  | 'name_taken'
  | 'needs_person'
  | 'no_value'
  | 'not_creatable'
  | 'not_replaceable'
  | 'not_writable'
  | 'other_organization'
  | 'other_owner'
  | 'own_user'
  | 'reference_unknown'
  | 'secret_missing';

/** Drift that somebody accepted. */
export interface AcceptedPlace {
  /** As that of the step's field; empty for the record as a whole. */
  readonly path: string;
  readonly by: string;
  /** How the program knew who accepted it; left out where the audit log does not say. */
  readonly via?: string;
  /** ISO 8601. */
  readonly accepted_at: string;
  /** ISO 8601; left out where it has no end. */
  readonly until?: string;
  readonly reason: string;
  /** The accepted value where live has another one, or the record no more, without secrets; else left out, as where it was none. */
  readonly value?: JsonValue;
  /** Given where the value changed again after that; for an entire record, some value of it. */
  readonly changed_since?: true;
  /** The latest run that has the accepted value, if it changed since. */
  readonly run?: number;
}

/** What a rule (`drift.ignore`) hides from whoever looks at the drift. */
export interface IgnoredPlace {
  /** As that of the step's field; empty for the record as a whole. */
  readonly path: string;
  /** That of the rule. */
  readonly reason: string;
}

export interface PlanStep<R = number> {
  /** From 1, in the order of execution; those that are not sent come last. */
  readonly n: number;
  /** Steps of one level do not depend on each other. */
  readonly level: number;
  /** Steps that must have been applied before. */
  readonly after: readonly R[];
  readonly action: StepAction;
  readonly kind: Kind;
  /** Live ids, as far as known; else those of the desired record. */
  readonly scope: Scope;
  /** The live id; the desired record's if there is none yet. */
  readonly id: string;
  readonly name: string;
  /** From live to desired; secrets replaced by `[secret]`. */
  readonly fields: readonly FieldChange[];
  readonly request: PlannedRequest<R> | null;
  readonly reason: string | null;
  readonly obstacle: Obstacle | null;
  readonly needs: readonly SecretNeed[];
  readonly precondition: Precondition<R> | null;
  /** The record that it makes true, with the digest of its body; null for removals. */
  readonly desired: {
    readonly kind: Kind;
    readonly scope: Scope;
    readonly id: string;
    readonly digest: string;
  } | null;
  readonly inverse: Inverse | null;
  /** Of a removal that an undo could not take back, as far as is known now (`reason` says why); else left out. */
  readonly final?: true;
  /** What the step sets back though it was accepted as drift; left out if nothing. */
  readonly accepted?: readonly AcceptedPlace[];
  /** What the step sets back though `drift` leaves it out by rule, and nobody accepted it; left out if nothing. */
  readonly ignored?: readonly IgnoredPlace[];
  /** What a creation, or a change of what changed since, sets as it was accepted, not as the desired record has it; left out if nothing. */
  readonly kept?: readonly AcceptedPlace[];
  /** Of a creation, the keys and tokens of the recorded record in whose place the service assigns others; left out without any. */
  readonly assigned?: readonly string[];
}

/** A step while the plan is made. `blocked`, and without a request, until it is known that it can be sent. */
export interface Draft extends Omit<PlanStep<string>, 'n' | 'level' | 'request'> {
  readonly key: string;
  readonly request: DraftRequest | null;
}

export type DraftRequest = Omit<PlannedRequest<string>, 'path'>;

/** A desired record that was found under another id. */
export interface Adoption {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly name: string;
  readonly desired_id: string;
  /** Where the desired state has it. */
  readonly desired_scope: Scope;
  readonly live_id: string;
  /** `content`: it has no name, and live holds the very same. */
  readonly by: 'id_map' | 'natural_key' | 'content';
}

/** Records that no step is about though the states differ, and why. */
export interface UntouchedRecords {
  readonly kind: Kind;
  readonly count: number;
  readonly reason: string;
  /** Up to ten names. */
  readonly names: readonly string[];
  /** Given for what is left because it was accepted as drift. */
  readonly accepted?: AcceptedPlace;
  /** Given for what is left because `drift` leaves it out by rule. */
  readonly ignored?: IgnoredPlace;
}

/** Lists a record that no step is about though the states differ. */
export type AddUntouched = (
  kind: Kind,
  reason: string,
  name: string,
  why?: Partial<Pick<UntouchedRecords, 'accepted' | 'ignored'>>,
) => void;

/** Kinds of which records are created without what the API does not offer of them. */
interface Lacking {
  readonly kinds: readonly Kind[];
  readonly reason: string;
}

/** Why the plan as a whole must not be applied. */
export interface Refusal {
  readonly guard:
    | 'share_of_updates'
    | 'share_of_removals'
    | 'max_removals'
    | 'empty_desired'
    | 'stale_desired'
    | 'other_organization';
  readonly kind: Kind | null;
  readonly reason: string;
  readonly hint: string;
}

/** Records of a kind that name what a plan creates. */
export interface Referring {
  readonly kind: Kind;
  readonly count: number;
  /** The first few, in the order of the state. */
  readonly names: readonly string[];
}

export interface Plan {
  readonly from: StateReference;
  readonly to: StateReference;
  /** The command that plans the same again, with the filters that were given; left out where no `restore` made the plan. */
  readonly command?: string;
  /** SHA-256 (hex) over what `apply` relies on: what it is allowed to do, and to what (`planHash`). */
  readonly hash: string;
  readonly steps: readonly PlanStep[];
  readonly adopted: readonly Adoption[];
  readonly left: readonly UntouchedRecords[];
  readonly refused: readonly Refusal[];
  /** What was requested and could not be read; left out if empty. */
  readonly skipped?: readonly Skipped[];
  /** Left out if empty. */
  readonly lacking?: readonly Lacking[];
  /** What to know before it is sent, a line each; left out if empty. */
  readonly warnings?: readonly string[];
  /** Desired records below those that it creates which the filters leave out, by kind; left out if there are none. */
  readonly unselected?: readonly { readonly kind: Kind; readonly count: number }[];
  /** Desired records which the filters leave out and that name, by its old id, what it creates; by kind; left out if there are none. */
  readonly referring?: readonly Referring[];
  readonly summary: Readonly<Record<StepAction, number>> & {
    readonly unchanged: number;
    /** Records of which it is not known whether the service has them (`skipped`); left out if there are none. */
    readonly not_known?: number;
  };
  /** `minutes`: the least that the rate allows; 0 when all fits in one burst. */
  readonly cost: {
    readonly requests: number;
    readonly minutes: number;
    /** Of the requests, those for removals; left out if there are none. */
    readonly removals?: number;
  };
}

/** True for steps that send a request. */
export function isExecutable(step: Pick<PlanStep, 'action'>): boolean {
  return step.action !== 'blocked' && step.action !== 'manual';
}

/**
 * Exit code of a plan (design.md, Commands): 6 where a guard refuses it, 3 with blocked or manual steps or where something
 * could not be read, 2 with steps, else 0.
 */
export function planExitCode(plan: Plan): ExitCode {
  if (plan.refused.length > 0) return EXIT.unsafe;
  if ((plan.skipped ?? []).length > 0) return EXIT.partial;
  if (plan.steps.some((step) => !isExecutable(step))) return EXIT.partial;
  return plan.steps.length > 0 ? EXIT.differences : EXIT.done;
}

/** `tidemark.plan/1`: the plan with its schema named first and its hash as `plan`. */
type PlanDocument = { readonly schema: 'tidemark.plan/1'; readonly plan: string } & Omit<Plan, 'hash'>;

export function planDocument({ hash, ...rest }: Plan): PlanDocument {
  return { schema: 'tidemark.plan/1', plan: hash, ...rest };
}

// A saved plan, read back: it is what was approved, or it is refused.

/**
 * The plan of a `tidemark.plan/1` document. Everything that apply relies on is pinned by its hash, so that an edited plan is
 * refused.
 * @throws TidemarkError `usage` when the text is not a plan, `unsafe_plan` when its hash is another one
 */
export function readPlan(text: string): Plan {
  return planIn(text, true);
}

/**
 * The plan of a restore in the mirror, for showing it: also one that another program edited, of which the comparison with the audit log
 * warns. Nothing is sent for it. Null when nothing of a plan is left.
 */
export function shownPlan({ plan }: { readonly plan: string }): Plan | null {
  try {
    return planIn(plan, false);
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'usage') return null;
    throw error;
  }
}

function planIn(text: string, isChecked: boolean): Plan {
  const document = parsed(text);
  const hash = isJsonObject(document) ? getOwn(document, 'plan') : undefined;
  const steps = isJsonObject(document) ? getOwn(document, 'steps') : undefined;
  if (
    !isJsonObject(document) ||
    getOwn(document, 'schema') !== 'tidemark.plan/1' ||
    typeof hash !== 'string' ||
    !Array.isArray(steps)
  ) {
    throw notAPlan();
  }
  // The hash covers the shape of the steps too: only what the planner wrote has a matching one.
  const { plan, ...rest } = document as unknown as PlanDocument;
  const found = hashOf(rest);
  if (found === null && !isChecked) throw notAPlan();
  if (isChecked && found !== plan) {
    throw new TidemarkError('unsafe_plan', 'the plan was edited: its hash does not match', {
      hint: 'make a new plan with `tidemark restore --out FILE`; edit the desired state (an export), never the plan',
    });
  }
  const { from, to, command, adopted, left, refused, skipped, lacking, warnings, summary, cost } = rest;
  const { unselected, referring } = rest;
  return {
    ...{ from, to, hash: plan, steps: rest.steps, adopted, left, refused },
    // Of no influence on what is sent, so the hash does not cover it.
    ...(isRestoreCommand(command) ? { command } : {}),
    ...(skipped === undefined ? {} : { skipped }),
    ...(lacking === undefined ? {} : { lacking }),
    ...(warnings === undefined ? {} : { warnings }),
    ...(unselected === undefined ? {} : { unselected }),
    ...(referring === undefined ? {} : { referring }),
    ...{ summary, cost },
  };
}

/** Null for a document that lacks what a plan has. */
function hashOf(document: Omit<PlanDocument, 'schema' | 'plan'>): string | null {
  const { from, to, adopted, left, refused, summary } = document as Partial<PlanDocument>;
  const isWhole = [from, to, adopted, left, refused, summary].every((part) => part instanceof Object);
  return isWhole ? planHash(document) : null;
}

function parsed(text: string): JsonValue {
  try {
    return parseLossless(text);
  } catch (error) {
    throw notAPlan(error);
  }
}

function notAPlan(cause?: unknown): TidemarkError {
  return new TidemarkError('usage', 'the file is not a plan (`tidemark.plan/1`)', {
    hint: 'save one with `tidemark restore --out FILE`',
    ...(cause === undefined ? {} : { cause }),
  });
}

// The hash that pins a plan: equal exactly when the plans would do the same to the same.

/**
 * SHA-256 (hex) of the canonical text of everything that apply relies on and a person agrees to: the steps (requests,
 * preconditions with digests of the live records, digests of the desired bodies), what guards refuse, records found under
 * another id, what was not read, and the sources and states that are meant. When it was made and what it costs
 * takes no part.
 */
export function planHash(plan: Omit<Plan, 'hash'>): string {
  const { from, to, steps, adopted, refused, skipped = [], summary } = plan;
  const pinned = {
    from: { ref: from.ref, run: from.run ?? null, source: from.source ?? null },
    to: { ref: to.ref, source: to.source ?? null },
    ...{ steps, refused, skipped, summary },
    // They are in the order of the records, which says nothing.
    adopted: adopted.map((each) => canonicalText(each as unknown as JsonValue)).sort(),
  };
  // Plain JSON by construction: optional members are left out, never undefined (a saved plan is hashed again when read).
  return hash('sha256', canonicalText(pinned as object as JsonValue), 'hex');
}

// What the planner is given. It reads nothing else: no clock, no network, no mirror.

/** A collection of a state. One that is not complete proves nothing about what is absent from it. */
export interface PlanCollection extends CollectionKey {
  readonly isComplete: boolean;
  /** True where the service has no such collection: then nothing is in it. */
  readonly isNotOffered?: true;
  /** What its list was caught at, where it did not show records that exist: it may lack others too. */
  readonly leak?: string;
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
  /** Leave drift that was accepted, or that a rule ignores, as it is; false when left out, null where it cannot be asked for. */
  readonly keepsAccepted?: boolean | null;
  /** Id of the key's own user among `members`; null if unknown, and then no member of that level is changed. */
  readonly ownUserId: string | null;
  /** Oldest age of the desired state, milliseconds; null where the user named the state and so knows its age. */
  readonly maxAgeMs: number | null;
  readonly rate: KindRate & {
    /** Limits that kinds have of their own, beside those above. */
    readonly kinds?: readonly (KindRate & { readonly kinds: readonly Kind[] })[];
  };
}

/** Secrets that the configuration supplies for records whose own ones the service never shows. */
export interface SecretLookup {
  /**
   * The value for that place of the record; undefined where the configuration has none.
   * @param isNamed only from a rule that says which records of the kind it is for; false when left out
   */
  find(record: ParsedRecord, pointer: string, isNamed?: boolean): Secret | undefined;
  /** What is wrong with the variable or file that the value is to come from, where it is not there. */
  unset?(record: ParsedRecord, pointer: string): string | undefined;
}

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
   * namesake that came since may be that record, recreated. None when left out.
   */
  readonly goneSince?: (record: ParsedRecord) => number | undefined;
  /** The last run that saw it, of such a record: what went with it at once was there then. Undefined where that is not known. */
  readonly lastSeen?: (record: ParsedRecord) => number | undefined;
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
  readonly isInScope?: (record: ParsedRecord) => boolean;
  /** Fields that steps may change; all when left out. With it nothing is created or removed. */
  readonly isFieldInScope?: (path: string) => boolean;
  /** Fields of a live record that steps may change (pointers); all when left out. What is missing as a whole is not a field. */
  readonly isOwnField?: (live: ParsedRecord, path: string) => boolean;
  /** True for a secret of a live record that is reported as overwritten, so that the plan says nothing of it; for none when left out. */
  readonly isOverwrittenSecret?: (live: ParsedRecord, path: string) => boolean;
  /** What live differs in and somebody accepted as drift, with the acceptances that hold; nothing when left out. */
  readonly accepted?: readonly AcceptedFinding[];
  /** The rule by which `drift` leaves out a record (`field` null) or the change of a field; for none when left out. */
  readonly ignores?: IgnoreTest['hides'];
  /** Acceptances that are not as the audit log has them, and so count for nothing: a warning each; none when left out. */
  readonly contradictions?: readonly string[];
  /** What was requested and could not be read, for the plan. */
  readonly skipped?: readonly Skipped[];
  /** The name of a record that the plan blocks without a step of the planner: what needs it is blocked with it. None when left out. */
  readonly blockedName?: (kind: Kind, id: string) => string | undefined;
  /** True in a drill: live is a sandbox, and what it gives is of no use elsewhere. */
  readonly isPractice?: true;
  /** Milliseconds since the epoch. */
  readonly now: number;
}
