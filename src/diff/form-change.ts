/**
 * Separates changes in the form of records (a field that the service added, dropped or changed the type of) from drift.
 * Whatever such a change may hide stays drift: a field that only some records gained or lost, a writable field that
 * records gained or lost (somebody may have set it in all of them, and a restore would revert it), and a value that
 * changed besides its type. A mere change of type is explained in writable fields and single records too.
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { type JsonValue, isJsonObject, isRawNumber, parseLossless } from '../core/json.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { numberText, equalValues } from './canonical.ts';
import { type RecordKey, compareKeys } from '../catalog/order.ts';

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
  /** Records of a kind that both states hold and that were compared; null where that is not known. */
  readonly bothSides: (kind: Kind) => number | null;
  /** True for a field that is compared and restored, and for places within one. */
  readonly isManaged: (kind: Kind, field: string) => boolean;
  /** The field's values when the form was found to have changed, of the records that had it, in the order of `compareKeys`. */
  readonly valuesThen: (form: FormChange) => Iterable<ValueThen>;
}

export interface ValueThen extends RecordKey {
  readonly value: JsonValue;
}

/** Finds what explains a field's change; undefined where nothing does. Only for the changes that it was made with. */
type ExplainField = (change: RecordChange, field: FieldChange) => FormChange | undefined;

/** A single record cannot distinguish a change of form from a change of its own. */
const FEWEST_RECORDS = 2;
/** So few may all have been set by hand, unless there is no value: a field that is new and null says nothing. */
const FEWEST_WITH_VALUE = 5;

interface Occurrence {
  readonly change: RecordChange;
  readonly field: FieldChange;
}

export function formExplainer(changes: readonly RecordChange[], facts: FormFacts): ExplainField {
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

/** What a change of form does not explain. */
function realChanges(form: FormChange, own: readonly Occurrence[], facts: FormFacts): FieldChange[] {
  const fields = own.map(({ field }) => field);
  if (form.change === 'retyped') return fields.filter(({ from, to }) => !isSameValue(from, to));
  // Where every record that both states hold shows it, it was not some of them that somebody configured.
  const isEverywhere = own.length >= FEWEST_RECORDS && facts.bothSides(form.kind) === own.length;
  if (!isEverywhere || facts.isManaged(form.kind, form.field)) return fields;
  const valued =
    own.length < FEWEST_WITH_VALUE
      ? fields.filter(({ from, to }) => (to === undefined ? from : to) !== null)
      : [];
  return form.change === 'lost' ? valued : [...valued, ...changedSince(own, facts.valuesThen(form))];
}

/** What became another value after the field was gained. Of both, one record is looked at at a time. */
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

/** True for one value written as two types: 8 and "8", true and "true" or 1, a value and a list of it alone, JSON and its text. */
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
