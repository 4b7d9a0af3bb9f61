/**
 * Changes of the form of a kind's records (a field gained, lost or retyped by the service) told apart from drift. What a
 * change of form may hide stays drift: a field that only some records gained or lost, and a value that became another one
 * while it was retyped.
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import type { JsonValue } from '../core/json.ts';
import { isJsonObject, isRawNumber, parseLossless } from '../core/json.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { numberText } from './decimal.ts';
import { equalValues } from './equal.ts';
import type { RecordKey } from './order.ts';

/** A change of form as runs recorded it, once per kind, field and sort of change. */
export interface FormChange {
  readonly kind: Kind;
  /** RFC 6901 pointer. */
  readonly field: string;
  readonly change: 'gained' | 'lost' | 'retyped';
  /** JSON types. */
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** The runs that found it, ascending. */
  readonly runs: readonly number[];
}

/** A change of form with the records of the diff that it explains. */
export interface ExplainedForm extends FormChange {
  readonly records: number;
}

export interface FormFacts {
  readonly forms: readonly FormChange[];
  /** Records of a kind that both states hold and that were compared; null where that cannot be told. */
  readonly bothSides: (kind: Kind) => number | null;
  /** What the field was when the form was found to have changed; undefined where the record had none, or was not there. */
  readonly valueThen: (form: FormChange, key: RecordKey) => JsonValue | undefined;
}

/** Finds what explains a field's change; undefined where nothing does. Only for the changes that it was made with. */
export type ExplainField = (change: RecordChange, field: FieldChange) => FormChange | undefined;

/** One record alone cannot tell a change of form from one of its own. */
const FEWEST_RECORDS = 2;

export function formExplainer(changes: readonly RecordChange[], facts: FormFacts): ExplainField {
  const forms = new Map(facts.forms.map((form) => [keyOf(form.kind, form.field, form.change), form]));
  if (forms.size === 0) return () => undefined;
  const formOf = ({ kind }: RecordChange, field: FieldChange): FormChange | undefined =>
    forms.get(keyOf(kind, field.path, sortOf(field)));
  const records = new Map<FormChange, number>();
  for (const change of changes) {
    if (change.change !== 'changed') continue;
    for (const field of change.fields) {
      const form = formOf(change, field);
      if (form !== undefined) records.set(form, (records.get(form) ?? 0) + 1);
    }
  }
  const isOfAll = new Map(
    [...records].map(([form, count]) => [form, isEverywhere(form, count, facts)] as const),
  );
  return (change, field) => {
    if (change.change !== 'changed') return undefined;
    const form = formOf(change, field);
    if (form === undefined) return undefined;
    if (form.change === 'retyped') return isSameValue(field.from, field.to) ? form : undefined;
    if (isOfAll.get(form) !== true) return undefined;
    if (form.change === 'lost') return form;
    const then = facts.valueThen(form, change);
    return then === undefined || (field.to !== undefined && equalValues(then, field.to)) ? form : undefined;
  };
}

/** True where every record that both states hold shows it: then it was not some of them that somebody configured. */
function isEverywhere(form: FormChange, count: number, { bothSides }: FormFacts): boolean {
  if (form.change === 'retyped') return true;
  return count >= FEWEST_RECORDS && bothSides(form.kind) === count;
}

function sortOf({ from, to }: FieldChange): FormChange['change'] {
  return from === undefined ? 'gained' : to === undefined ? 'lost' : 'retyped';
}

function keyOf(kind: Kind, field: string, change: FormChange['change']): string {
  return `${kind} ${change} ${field}`;
}

/** What each form explains, in the order of kinds as they are first met. */
export class ExplainedForms {
  readonly #records = new Map<FormChange, Set<string>>();

  add(form: FormChange, { scope, id }: RecordKey): void {
    const records = this.#records.get(form) ?? new Set<string>();
    this.#records.set(form, records.add(JSON.stringify([scopeKey(scope), id])));
  }

  found(): ExplainedForm[] {
    return [...this.#records].map(([form, records]) => ({ ...form, records: records.size }));
  }
}

/** True for one value told as two types: 8 and "8", true and "true" or 1, a value and a list of it alone, JSON and its text. */
export function isSameValue(from: JsonValue | undefined, to: JsonValue | undefined): boolean {
  if (from === undefined || to === undefined) return false;
  return isToldAs(from, to) || isToldAs(to, from);
}

function isToldAs(value: JsonValue, other: JsonValue): boolean {
  if (Array.isArray(other) && !Array.isArray(value))
    return other.length === 1 && other[0] !== undefined && equalValues(value, other[0]);
  if (typeof value === 'boolean' && isNumber(other)) return numberText(other) === (value ? '1' : '0');
  if (typeof other !== 'string' || typeof value === 'string') return false;
  if (typeof value === 'boolean') return other.toLowerCase() === String(value);
  const read = parsed(other);
  const isOneType = isNumber(value) ? isNumber(read) : isOpen(value) && isOpen(read);
  return read !== undefined && isOneType && equalValues(value, read);
}

function isOpen(value: JsonValue | undefined): boolean {
  return Array.isArray(value) || isJsonObject(value);
}

function isNumber(value: JsonValue | undefined): value is Parameters<typeof numberText>[0] {
  return typeof value === 'number' || isRawNumber(value);
}

function parsed(text: string): JsonValue | undefined {
  try {
    return parseLossless(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
