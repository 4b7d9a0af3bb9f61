/**
 * Separates changes in the form of records (the service added or dropped a field, or changed its type) from drift. Whatever may be
 * somebody's change remains drift: a field that only some records gained or lost, a writable field that records gained or lost
 * (somebody may have set it in all of them, and a restore would revert it), and a value that changed besides its type. A mere change
 * of type is explained in writable fields and single records too.
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { type JsonValue, isJsonObject, isRawNumber, parseLossless } from '../core/json.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { numberText, equalValues } from './canonical.ts';
import { type RecordKey, compareKeys } from '../catalog/order.ts';

/** A change of form that runs recorded, once for each kind, field and type of change. */
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

/** A change of form with the number of records of the diff that it explains. */
export interface ExplainedForm extends FormChange {
  readonly records: number;
}

export interface FormFacts {
  readonly forms: readonly FormChange[];
  /** The number of records of a kind that both states have and that were compared; null if unknown. */
  readonly bothSides: (kind: Kind) => number | null;
  /** True for a managed field, and for places within one. */
  readonly isManaged: (kind: Kind, field: string) => boolean;
  /** The field's values in the records that had it when the change of form was found, in the order of `compareKeys`. */
  readonly valuesThen: (form: FormChange) => Iterable<ValueThen>;
}

export interface ValueThen extends RecordKey {
  readonly value: JsonValue;
}

/** With one record, a change of form cannot be distinguished from a change of that record. */
const FEWEST_RECORDS = 2;
/** Fewer records may all have been changed by hand, unless the field is null. */
const FEWEST_WITH_VALUE = 5;

interface Occurrence {
  readonly change: RecordChange;
  readonly field: FieldChange;
}

/** A function that returns the change of form that explains a field's change, one of `changes`; undefined if none does. */
export function formExplainer(
  changes: readonly RecordChange[],
  facts: FormFacts,
): (change: RecordChange, field: FieldChange) => FormChange | undefined {
  const forms = new Map(facts.forms.map((form) => [keyOf(form.kind, form.field, form.change), form]));
  if (forms.size === 0) return () => undefined;
  const formOf = ({ kind }: RecordChange, field: FieldChange): FormChange | undefined =>
    forms.get(keyOf(kind, field.path, formChangeOf(field)));
  const found = new Map<FormChange, Occurrence[]>();
  for (const change of changes) {
    if (change.change !== 'changed') continue;
    for (const field of change.fields) {
      const form = formOf(change, field);
      if (form === undefined) continue;
      const own = found.get(form) ?? [];
      found.set(form, own);
      own.push({ change, field });
    }
  }
  const real = new Set<FieldChange>();
  for (const [form, own] of found) for (const field of realChanges(form, own, facts)) real.add(field);
  return (change, field) => {
    const form = change.change === 'changed' ? formOf(change, field) : undefined;
    return form === undefined || real.has(field) ? undefined : form;
  };
}

/** The field changes that a change of form does not explain. */
function realChanges(form: FormChange, own: readonly Occurrence[], facts: FormFacts): FieldChange[] {
  const fields = own.map(({ field }) => field);
  if (form.change === 'retyped') return fields.filter(({ from, to }) => !isSameValue(from, to));
  // Only if every record that both states have shows it: somebody may have changed some of them.
  const isEverywhere = own.length >= FEWEST_RECORDS && facts.bothSides(form.kind) === own.length;
  if (!isEverywhere || facts.isManaged(form.kind, form.field)) return fields;
  const valued =
    own.length < FEWEST_WITH_VALUE
      ? fields.filter(({ from, to }) => (to === undefined ? from : to) !== null)
      : [];
  return form.change === 'lost' ? valued : [...valued, ...changedSince(own, facts.valuesThen(form))];
}

/** The fields whose value changed again after they were gained. Merges both in key order. */
function changedSince(own: readonly Occurrence[], then: Iterable<ValueThen>): FieldChange[] {
  const changed: FieldChange[] = [];
  const ordered = own.toSorted((a, b) => compareKeys(a.change, b.change));
  let next = 0;
  for (const before of then) {
    let at = ordered[next];
    while (at !== undefined && compareKeys(at.change, before) < 0) at = ordered[++next];
    if (at === undefined) break;
    const { to } = at.field;
    const isOther = to !== undefined && !equalValues(before.value, to);
    if (isOther && compareKeys(at.change, before) === 0) changed.push(at.field);
  }
  return changed;
}

function formChangeOf({ from, to }: FieldChange): FormChange['change'] {
  return from === undefined ? 'gained' : to === undefined ? 'lost' : 'retyped';
}

function keyOf(kind: Kind, field: string, change: FormChange['change']): string {
  return `${kind} ${change} ${field}`;
}

/** Counts the records that each change of form explains, in the order in which they are added. */
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

/** True for one value in two types: 8 and "8", true and "true" or 1, a value and a list of only it, JSON and its text. */
function isSameValue(from: JsonValue | undefined, to: JsonValue | undefined): boolean {
  if (from === undefined || to === undefined) return false;
  return isWrittenAs(from, to) || isWrittenAs(to, from);
}

function isWrittenAs(value: JsonValue, other: JsonValue): boolean {
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
