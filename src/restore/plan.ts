/** A plan: everything that text, JSON, exit code and apply are made from (design.md, Restore; `tidemark.plan/1`). */
import type { Kind, Method, Scope } from '../catalog/definition.ts';
import { type ExitCode, EXIT } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { Skipped, StateReference } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';

export type StepAction = 'create' | 'update' | 'act' | 'remove' | 'blocked' | 'manual';

/** A path parameter: known, or the id that an earlier step gives. */
export type Parameter =
  { readonly name: string; readonly value: string } | { readonly name: string; readonly step: number };

/** Where a value that the plan does not hold comes from when the step is applied. */
type FillSource =
  /** The id that an earlier step gives; a number where the desired body has a number. */
  | { readonly from: 'step'; readonly step: number; readonly as: 'text' | 'number' }
  /** A secret of the configuration, for this place of the desired record. */
  | { readonly from: 'configuration' }
  /** A secret that stands in clear in the desired record, at the same place. */
  | { readonly from: 'desired' };

/** A place of the body that is filled on applying; until then a text stands there that tells what will be. */
export type Fill = { readonly pointer: string } & FillSource;

export interface PathPlan {
  /** A path of the catalog, with `:name` parameters. */
  readonly template: string;
  readonly parameters: readonly Parameter[];
}

export interface PlannedRequest extends PathPlan {
  /** The kind that the request is about: an invite, where a member is invited. */
  readonly kind: Kind;
  readonly method: Method;
  /** Which method of the write client sends it. */
  readonly role: 'create' | 'update' | 'remove' | 'act';
  /** Name of the action of an `act`; else null. */
  readonly act: string | null;
  /** The path as far as it is known, for people: `{id of step 3}` where it is not. */
  readonly path: string;
  /** Null for removals. Without the values of `fills`. */
  readonly body: JsonObject | null;
  readonly fills: readonly Fill[];
  /** Another path that takes the same body when this one answers 500; null where there is none. */
  readonly alternative: PathPlan | null;
}

/** What must still hold when the step is applied. */
export type Precondition =
  /** The live record is as it was planned against: `managedDigest` of it. */
  | { readonly state: 'present'; readonly id: string; readonly digest: string }
  /** No live record of the collection has this natural key (`naturalKeyDigest`); null where the kind has none. */
  | { readonly state: 'absent'; readonly digest: string | null }
  /** An earlier step of the same record was applied. */
  | { readonly state: 'after'; readonly step: number };

/** What puts back what the step overwrites. Secrets are left out and named. */
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
  readonly anyOf: readonly string[];
  /** `redacted`: the mirror never stored it; `masked`: it holds a mask; left out where the service shows nothing. */
  readonly because?: 'redacted' | 'masked';
}

/** Why a step is blocked, or needs a person: what to decide on. */
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

export interface PlanStep {
  /** From 1, in the order of execution. */
  readonly n: number;
  /** Steps of one level do not depend on each other. */
  readonly level: number;
  /** Steps that must have been applied before. */
  readonly after: readonly number[];
  readonly action: StepAction;
  readonly kind: Kind;
  /** Live ids, as far as known; else those of the desired record. */
  readonly scope: Scope;
  /** The live id; the desired record's where there is none yet. */
  readonly id: string;
  readonly name: string;
  /** From live to desired; secrets replaced by `[secret]`. */
  readonly fields: readonly FieldChange[];
  readonly request: PlannedRequest | null;
  readonly reason: string | null;
  readonly obstacle: Obstacle | null;
  readonly needs: readonly SecretNeed[];
  readonly precondition: Precondition | null;
  /** The record that it makes true, with the digest of its body; null for removals. */
  readonly desired: {
    readonly kind: Kind;
    readonly scope: Scope;
    readonly id: string;
    readonly digest: string;
  } | null;
  readonly inverse: Inverse | null;
}

/** A desired record that was found under another id. */
export interface Adoption {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly name: string;
  readonly desired_id: string;
  /** Where the desired state has it; left out by older plans: in the same place. */
  readonly desired_scope?: Scope;
  readonly live_id: string;
  /** `content`: it has no name, and live holds the very same. */
  readonly by: 'id_map' | 'natural_key' | 'content';
}

/** Records that no step is about though the states differ, and why. */
export interface LeftAlone {
  readonly kind: Kind;
  readonly count: number;
  readonly reason: string;
  /** Up to ten names. */
  readonly names: readonly string[];
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

export interface Plan {
  readonly from: StateReference;
  readonly to: StateReference;
  /** SHA-256 (hex) over what `apply` relies on: what it is allowed to do, and to what (`planHash`). */
  readonly hash: string;
  readonly steps: readonly PlanStep[];
  readonly adopted: readonly Adoption[];
  readonly left: readonly LeftAlone[];
  readonly refused: readonly Refusal[];
  /** What was asked for and could not be read; left out where there is nothing of it. */
  readonly skipped?: readonly Skipped[];
  readonly summary: Readonly<Record<StepAction, number>> & { readonly unchanged: number };
  /** `minutes`: the least that the rate allows; 0 when all fits in one burst. */
  readonly cost: {
    readonly requests: number;
    readonly minutes: number;
    /** Of the requests, those for removals; left out by older plans. */
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
export type PlanDocument = { readonly schema: 'tidemark.plan/1'; readonly plan: string } & Omit<Plan, 'hash'>;

export function planDocument({ hash, ...rest }: Plan): PlanDocument {
  return { schema: 'tidemark.plan/1', plan: hash, ...rest };
}
