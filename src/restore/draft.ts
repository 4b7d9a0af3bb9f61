/** Steps while the plan is being made: they name each other by key, since their order is not known yet. */
import type { Method, Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { JsonObject } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { recordKeyText } from './record-place.ts';
import type { Inverse, Obstacle, PlanStep, SecretNeed, StepAction } from './plan.ts';

/** A known text, or the id that the step of that key gives. */
export type KnownOrStepId = { readonly value: string } | { readonly step: string };

export type DraftFill = { readonly pointer: string } & (
  | { readonly from: 'step'; readonly step: string; readonly as: 'text' | 'number' }
  | { readonly from: 'configuration' }
  | { readonly from: 'desired' }
);

export interface DraftPath {
  readonly template: string;
  readonly parameters: Readonly<Record<string, KnownOrStepId>>;
}

export interface DraftRequest extends DraftPath {
  readonly kind: Kind;
  readonly method: Method;
  readonly role: 'create' | 'update' | 'remove' | 'act';
  readonly act: string | null;
  readonly body: JsonObject | null;
  readonly fills: readonly DraftFill[];
  readonly alternative: DraftPath | null;
}

export type DraftPrecondition =
  | { readonly state: 'present'; readonly id: string; readonly digest: string }
  | { readonly state: 'absent'; readonly digest: string | null }
  | { readonly state: 'after'; readonly step: string };

export interface Draft {
  readonly key: string;
  readonly action: StepAction;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly name: string;
  readonly fields: readonly FieldChange[];
  readonly request: DraftRequest | null;
  readonly reason: string | null;
  readonly obstacle: Obstacle | null;
  readonly needs: readonly SecretNeed[];
  readonly precondition: DraftPrecondition | null;
  readonly desired: PlanStep['desired'];
  readonly inverse: Inverse | null;
  /** Keys of the steps that come before. */
  readonly after: readonly string[];
}

/** The key of a step: the record that it is about and what it does to it. */
export function draftKey(
  record: { readonly kind: Kind; readonly scope: Scope; readonly id: string },
  what: string,
): string {
  return `${recordKeyText(record.kind, record.scope, record.id)}\0${what}`;
}

/** The same step, not to be sent. */
export function blocked(draft: Draft, obstacle: Obstacle, reason: string): Draft {
  return { ...draft, action: 'blocked', request: null, precondition: null, inverse: null, obstacle, reason };
}
