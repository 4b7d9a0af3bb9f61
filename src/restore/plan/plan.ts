/** A plan, from which text, JSON, exit code and apply are made (design.md, Restore; `tidemark.plan/1`), and the planner's input. */
import type { CollectionKey } from '../../catalog/order.ts';
import { hash } from 'node:crypto';
import type { Method, Scope, KindRate } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { type ExitCode, EXIT, TidemarkError } from '../../core/errors.ts';
import { isRestoreCommand } from '../../core/hints.ts';
import { defined } from '../../core/defined.ts';
import { type JsonObject, getOwn, isJsonObject, parseLossless, type JsonValue } from '../../core/json.ts';
import type { Secret } from '../../core/secret.ts';
import { canonicalText } from '../../diff/canonical.ts';
import type { Skipped, StateReference, ParsedRecord } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { AcceptedFinding } from '../../diff/drift.ts';
import type { IgnoreTest } from '../../diff/rules.ts';

export type StepAction = 'create' | 'update' | 'act' | 'remove' | 'blocked' | 'manual';

// `R` is the type by which steps refer to each other: their number, or, before their order is known, their key (`Draft`).

/** A known text, or the id of the record that a step creates. */
export type KnownOrStep<R = number> = { readonly value: string } | { readonly step: R };

export type Parameter<R = number> = { readonly name: string } & KnownOrStep<R>;

/**
 * A pointer of the body whose value is filled in when the step is applied; until then the body has a description there. `step`: the
 * id of the record that the step creates, as a number if the desired body has one; `configuration`: the configured secret for this
 * place of the desired record; `desired`: the secret in clear text at the same pointer of the desired record.
 */
export type Fill<R = number> = { readonly pointer: string } & (
  | { readonly from: 'step'; readonly step: R; readonly as: 'text' | 'number' }
  | { readonly from: 'configuration' }
  | { readonly from: 'desired' }
);

export interface PathPlan<R = number> {
  /** A path from the catalog, with `:name` parameters. */
  readonly template: string;
  readonly parameters: readonly Parameter<R>[];
}

export interface PlannedRequest<R = number> extends PathPlan<R> {
  /** The kind of the request: `invites` if a member is invited. */
  readonly kind: Kind;
  readonly method: Method;
  /** The method of the write client that sends it. */
  readonly role: 'create' | 'update' | 'remove' | 'act';
  /** The name of the action of an `act`; else null. */
  readonly act: string | null;
  /** The path that is tried first, for display; with `{id of step 3}` for an id that is not known yet. */
  readonly path: string;
  /** Null for removals. Without the values of `fills`. */
  readonly body: JsonObject | null;
  readonly fills: readonly Fill<R>[];
  /** The path from the profile, tried before the documented one; null if the profile has none. */
  readonly alternative: PathPlan<R> | null;
}

/** What must still hold when the step is applied. */
type Precondition<R = number> =
  /** The live record still has this `managedDigest`. */
  | { readonly state: 'present'; readonly id: string; readonly digest: string }
  /** No live record of the collection has this natural key (`naturalKeyDigest`); null if it has none. */
  | { readonly state: 'absent'; readonly digest: string | null }
  /** An earlier step of the same record was applied. */
  | { readonly state: 'after'; readonly step: R };

/** How to undo a step. Secrets are masked, and listed in `withheld`. */
export type Inverse =
  | { readonly action: 'remove' }
  | { readonly action: 'create'; readonly body: JsonObject; readonly withheld: readonly string[] }
  | {
      readonly action: 'update';
      /** The old values. */
      readonly body: JsonObject;
      /** Fields that had no value. */
      readonly absent: readonly string[];
      readonly withheld: readonly string[];
    }
  | { readonly action: 'act'; readonly act: string };

/** A secret without which the step cannot be sent. */
export interface SecretNeed {
  /** Pointers into the body, any one of which is enough. */
  readonly any_of: readonly string[];
  /**
   * `redacted`: the mirror never stored it; `hidden`: the journal has Tidemark's mask; `masked`: the mirror has the service's mask; left
   * out if the service shows nothing.
   */
  readonly because?: 'redacted' | 'hidden' | 'masked';
  /** What is wrong with the variable or file that the configuration names for it; left out if it names none. */
  readonly unset?: string;
}

/** Why a step is blocked, or needs manual work, as a code. */
export type Obstacle =
  | 'ambiguous'
  /** Undo: the record changed since the restore. */
  | 'changed_since'
  | 'collection_not_read'
  | 'consent'
  | 'cycle'
  | 'depends_on_blocked'
  | 'ended'
  | 'immutable'
  | 'last_holder'
  /** Names must be unique, and another record has this one. */
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
  /** The path of the step's field; empty for the entire record. */
  readonly path: string;
  readonly by: string;
  /** How that person was identified; left out if the audit log does not say. */
  readonly via?: string;
  /** ISO 8601. */
  readonly accepted_at: string;
  /** ISO 8601; left out if it does not expire. */
  readonly until?: string;
  readonly reason: string;
  /** The accepted value without secrets, if live has another one or no longer has the record; left out if it was absent. */
  readonly value?: JsonValue;
  /** Given if the value changed again after that; for an entire record, if any value did. */
  readonly changed_since?: true;
  /** The latest run with the accepted value, if it changed since. */
  readonly run?: number;
}

/** Drift that a rule (`drift.ignore`) hides. */
export interface IgnoredPlace {
  /** The path of the step's field; empty for the entire record. */
  readonly path: string;
  /** The reason of the rule. */
  readonly reason: string;
}

export interface PlanStep<R = number> {
  /** From 1, in the order of execution; steps that are not sent come last. */
  readonly n: number;
  /** Steps of one level do not depend on each other. */
  readonly level: number;
  /** Steps that must be applied first. */
  readonly after: readonly R[];
  readonly action: StepAction;
  readonly kind: Kind;
  /** Live ids as far as known, else those of the desired record. */
  readonly scope: Scope;
  /** The live id, or that of the desired record if there is none yet. */
  readonly id: string;
  readonly name: string;
  /** From live to desired; secrets replaced by `[secret]`. */
  readonly fields: readonly FieldChange[];
  readonly request: PlannedRequest<R> | null;
  readonly reason: string | null;
  readonly obstacle: Obstacle | null;
  readonly needs: readonly SecretNeed[];
  readonly precondition: Precondition<R> | null;
  /** The record that it restores, with the digest of its body; null for removals. */
  readonly desired: {
    readonly kind: Kind;
    readonly scope: Scope;
    readonly id: string;
    readonly digest: string;
  } | null;
  readonly inverse: Inverse | null;
  /** Given for a removal that, as far as is known now, cannot be undone (`reason` says why). */
  readonly final?: true;
  /** Accepted drift that the step reverts; left out if empty. */
  readonly accepted?: readonly AcceptedPlace[];
  /** Drift that a rule ignores and nobody accepted, which the step reverts; left out if empty. */
  readonly ignored?: readonly IgnoredPlace[];
  /** Places that the step sets to the accepted value instead of the desired one; left out if empty. */
  readonly kept?: readonly AcceptedPlace[];
  /** For a creation: the keys and tokens of the recorded record that the service replaces by new ones; left out if empty. */
  readonly assigned?: readonly string[];
}

/** A step while the plan is made. `blocked`, without a request, until it is known that it can be sent. */
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
  /** Its scope in the desired state. */
  readonly desired_scope: Scope;
  readonly live_id: string;
  /** `content`: it has no name, and one live record has exactly the same content. */
  readonly by: 'id_map' | 'natural_key' | 'content';
}

/** Records that differ and that the plan leaves as they are. */
export interface UntouchedRecords {
  readonly kind: Kind;
  readonly count: number;
  readonly reason: string;
  /** Up to ten names. */
  readonly names: readonly string[];
  /** Given if the reason is that it was accepted as drift. */
  readonly accepted?: AcceptedPlace;
  /** Given if the reason is a rule that ignores it. */
  readonly ignored?: IgnoredPlace;
}

/** Adds a record to `UntouchedRecords`. */
export type AddUntouched = (
  kind: Kind,
  reason: string,
  name: string,
  why?: Partial<Pick<UntouchedRecords, 'accepted' | 'ignored'>>,
) => void;

/** Why the entire plan must not be applied. */
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

/** Records of a kind that refer to records that a plan creates. */
export interface Referring {
  readonly kind: Kind;
  readonly count: number;
  /** The first few, in the order of the state. */
  readonly names: readonly string[];
}

export interface Plan {
  readonly from: StateReference;
  readonly to: StateReference;
  /** The command that makes the same plan again, with its filters; left out if it was not made by `restore`. */
  readonly command?: string;
  /** SHA-256 (hex) of everything that apply relies on (`planHash`). */
  readonly hash: string;
  readonly steps: readonly PlanStep[];
  readonly adopted: readonly Adoption[];
  readonly left: readonly UntouchedRecords[];
  readonly refused: readonly Refusal[];
  /** What was requested and could not be read; left out if empty. */
  readonly skipped?: readonly Skipped[];
  /** Kinds whose records are created without parts that the API does not offer; left out if empty. */
  readonly lacking?: readonly { readonly kinds: readonly Kind[]; readonly reason: string }[];
  /** What to know before applying, one line each; left out if empty. */
  readonly warnings?: readonly string[];
  /** By kind, desired records below created ones that the filters leave out; left out if empty. */
  readonly unselected?: readonly { readonly kind: Kind; readonly count: number }[];
  /** By kind, desired records that refer to created ones by their old ids and that the filters leave out; left out if empty. */
  readonly referring?: readonly Referring[];
  readonly summary: Readonly<Record<StepAction, number>> & {
    readonly unchanged: number;
    /** Records that may or may not exist in the service (`skipped`); left out if zero. */
    readonly not_known?: number;
  };
  /** `minutes`: the minimum that the rate allows; 0 if all requests fit into one burst. */
  readonly cost: {
    readonly requests: number;
    readonly minutes: number;
    /** The number of `requests` for removals; left out if zero. */
    readonly removals?: number;
  };
}

/** True for steps that send a request. */
export function isExecutable(step: Pick<PlanStep, 'action'>): boolean {
  return step.action !== 'blocked' && step.action !== 'manual';
}

/**
 * Exit code of a plan (design.md, Commands): 6 if a guard refuses it, 3 with blocked or manual steps or unread collections, 2 with
 * other steps, else 0.
 */
export function planExitCode(plan: Plan): ExitCode {
  if (plan.refused.length > 0) return EXIT.unsafe;
  if ((plan.skipped ?? []).length > 0) return EXIT.partial;
  if (plan.steps.some((step) => !isExecutable(step))) return EXIT.partial;
  return plan.steps.length > 0 ? EXIT.differences : EXIT.done;
}

type PlanDocument = { readonly schema: 'tidemark.plan/1'; readonly plan: string } & Omit<Plan, 'hash'>;

/** The document `tidemark.plan/1`: the plan with its hash as `plan`. */
export function planDocument({ hash, ...rest }: Plan): PlanDocument {
  return { schema: 'tidemark.plan/1', plan: hash, ...rest };
}

/**
 * The plan of a `tidemark.plan/1` document. The hash covers everything that apply relies on, so an edited plan is refused.
 * @throws TidemarkError `usage` when the text is not a plan, `unsafe_plan` when its hash does not match
 */
export function readPlan(text: string): Plan {
  return planIn(text, true);
}

/**
 * The plan of a restore in the mirror, only for display. It may have been edited: the comparison with the audit log warns about that.
 * Null if the text is not a plan at all.
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
  // Not validated further: only what the planner wrote has a matching hash.
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
    // Checked here, because the hash does not cover it: it has no influence on what is sent.
    ...(isRestoreCommand(command) ? { command } : {}),
    ...defined({ skipped, lacking, warnings, unselected, referring }),
    ...{ summary, cost },
  };
}

/** Null if parts of a plan are missing. */
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

/**
 * SHA-256 (hex) of the canonical text of everything that apply relies on and a person agrees to: the steps (requests, preconditions
 * with digests of the live records, digests of the desired bodies), refusals, records found under another id, what was not read, and
 * the sources and states. It does not cover when the plan was made and what it costs.
 */
export function planHash(plan: Omit<Plan, 'hash'>): string {
  const { from, to, steps, adopted, refused, skipped = [], summary } = plan;
  const pinned = {
    from: { ref: from.ref, run: from.run ?? null, source: from.source ?? null },
    to: { ref: to.ref, source: to.source ?? null },
    ...{ steps, refused, skipped, summary },
    // Sorted, because their order is that of the records and has no meaning.
    adopted: adopted.map((each) => canonicalText(each as unknown as JsonValue)).sort(),
  };
  // Plain JSON: optional members are left out, never undefined, so that a saved plan has the same hash.
  return hash('sha256', canonicalText(pinned as object as JsonValue), 'hex');
}

// The planner's input. It uses nothing else: no clock, no network, no mirror.

/** A collection of a state. If it is not complete, a record that is absent from it may exist. */
export interface PlanCollection extends CollectionKey {
  readonly isComplete: boolean;
  /** True if the service has no such collection, so that it has no records. */
  readonly isNotOffered?: true;
  /** Given if its list left out records that exist, and how: others may be missing too. */
  readonly leak?: string;
}

/** One side: the records of the affected collections, of their parents, and of those that they refer to. */
export interface PlanState {
  readonly reference: StateReference;
  readonly records: readonly ParsedRecord[];
  readonly collections: readonly PlanCollection[];
}

export interface PlanOptions {
  /** Remove live records that the desired state does not have, at most this many; null: remove nothing. */
  readonly prune: { readonly maxRemovals: number } | null;
  /** At most this share of the live records of a kind may be changed, and at most this share removed, if it has at least `minRecords`. */
  readonly limits: { readonly maxShare: number; readonly minRecords: number };
  readonly createOrganizations: boolean;
  /** Null if the command has no such option. */
  readonly inviteMissing: boolean | null;
  /** Let the service mail invites. */
  readonly sendEmail: boolean;
  /** Leave accepted and ignored drift as it is. Default: false; null if the command has no such option. */
  readonly keepsAccepted?: boolean | null;
  /** The id of the key's own user among `members`; null if unknown: then no member of that level is changed. */
  readonly ownUserId: string | null;
  /** The maximum age of the desired state in milliseconds; null if the user named the state, and so knows its age. */
  readonly maxAgeMs: number | null;
  readonly rate: KindRate & {
    /** Additional limits of single kinds. */
    readonly kinds?: readonly (KindRate & { readonly kinds: readonly Kind[] })[];
  };
}

/** Secrets in the configuration, for records whose secrets the service never shows. */
export interface SecretLookup {
  /**
   * The value for that place of the record; undefined if the configuration has none.
   * @param isNamed only from a rule that says which records of the kind it is for; default: false
   */
  find(record: ParsedRecord, pointer: string, isNamed?: boolean): Secret | undefined;
  /** What is wrong with the variable or file that is to supply the value, if it is missing. */
  unset?(record: ParsedRecord, pointer: string): string | undefined;
}

/** Optional members stand for no restriction, or for nothing, if they are left out. */
export interface PlanInput {
  /** FROM of the command. */
  readonly desired: PlanState;
  readonly live: PlanState;
  /** Definitions in force: profile and overrides applied. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** The present id of a record that was created again; undefined if it never was. */
  readonly idMap: (kind: Kind, id: string) => string | undefined;
  /** For a desired record whose removal is held: the run that found it gone. A namesake that came since may be that record, recreated. */
  readonly goneSince?: (record: ParsedRecord) => number | undefined;
  /** The last run that saw such a record: it also has the records that went with it. Undefined if unknown. */
  readonly lastSeen?: (record: ParsedRecord) => number | undefined;
  readonly secrets: SecretLookup;
  /** What the mirror would store instead of a secret at that pointer; undefined if it stores it in clear text. */
  readonly fingerprint?: (kind: Kind, pointer: string, secret: string) => string | undefined;
  readonly options: PlanOptions;
  /** True for a record, on either side, for which steps may be planned. */
  readonly isInScope?: (record: ParsedRecord) => boolean;
  /** True for a field that steps may change. If it is given, nothing is created or removed. */
  readonly isFieldInScope?: (path: string) => boolean;
  /** True for a field of this live record that steps may change. Unlike `isFieldInScope`, it does not affect missing records. */
  readonly isOwnField?: (live: ParsedRecord, path: string) => boolean;
  /** True for a secret of a live record that is reported as overwritten, so that the plan need not mention it. */
  readonly isOverwrittenSecret?: (live: ParsedRecord, path: string) => boolean;
  /** Differences of live that somebody accepted as drift, with the acceptances that hold. */
  readonly accepted?: readonly AcceptedFinding[];
  /** The rule by which `drift` ignores a record (`field` null) or the change of a field. */
  readonly ignores?: IgnoreTest['hides'];
  /** Acceptances that contradict the audit log, and so have no effect: one warning each. */
  readonly contradictions?: readonly string[];
  /** What was requested and could not be read, for the plan. */
  readonly skipped?: readonly Skipped[];
  /** The name of a record that is blocked outside of the planner: steps that need it are blocked too. */
  readonly blockedName?: (kind: Kind, id: string) => string | undefined;
  /** True in a drill: live is a sandbox, so the ids and keys that it assigns are of no use elsewhere. */
  readonly isPractice?: true;
  /** Milliseconds since the epoch. */
  readonly now: number;
}
