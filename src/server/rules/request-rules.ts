/** Checks request bodies, field by field, in the order of the documentation. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, isRawNumber } from '../../core/json.ts';
import { invalid } from '../wire-error.ts';

export interface RequestRules {
  /** Fields that are accepted; other members of a body are ignored. */
  readonly fields: readonly FieldDefinition[];
  /** Required to create; never null, and texts not blank. */
  readonly required: readonly string[];
  /** Further fields that must not be null. */
  readonly notNull: readonly string[];
  /** Further checks by field name. `attr` is the value's path, for the error. */
  readonly checks: Readonly<Record<string, (value: JsonValue, attr: string) => void>>;
}

/**
 * The accepted members of a body, in the order of the documentation, with their values unchanged.
 * @param prefix the body's path in the request, e.g. `2__` for the third of a list
 * @throws WireError 400 for the first field that is missing or wrong
 */
export function acceptBody(
  rules: RequestRules,
  body: JsonValue,
  mode: 'create' | 'update',
  prefix = '',
): JsonObject {
  if (!isJsonObject(body)) {
    const got = Array.isArray(body) ? 'list' : typeOf(body);
    throw invalid(null, 'invalid', `Invalid data. Expected a dictionary, but got ${got}.`);
  }
  const accepted: JsonObject = {};
  for (const field of rules.fields) {
    const value = getOwn(body, field.name);
    const attr = prefix + field.name;
    if (value === undefined) {
      if (mode === 'create' && rules.required.includes(field.name)) {
        throw invalid(attr, 'required', 'This field is required.');
      }
      continue;
    }
    checkField(rules, field, value, attr);
    accepted[field.name] = value;
  }
  return accepted;
}

function checkField(rules: RequestRules, field: FieldDefinition, value: JsonValue, attr: string): void {
  const isRequired = rules.required.includes(field.name);
  if (value === null) {
    if (isRequired || rules.notNull.includes(field.name)) {
      throw invalid(attr, 'null', 'This field may not be null.');
    }
    return;
  }
  checkType(field, value, attr);
  if (isRequired && typeof value === 'string' && value.trim() === '') {
    throw invalid(attr, 'blank', 'This field may not be blank.');
  }
  rules.checks[field.name]?.(value, attr);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;

/** @throws WireError 400 if the value does not have the field's type, or is not among its values */
export function checkType(
  field: Pick<FieldDefinition, 'type' | 'values'>,
  value: JsonValue,
  attr: string,
): void {
  switch (field.type) {
    case 'string':
      if (typeof value !== 'string') throw invalid(attr, 'invalid', 'Not a valid string.');
      if (field.values !== null && !field.values.includes(value)) {
        throw invalid(attr, 'invalid_choice', `"${value}" is not a valid choice.`);
      }
      return;
    case 'uuid':
      if (typeof value !== 'string' || !UUID.test(value)) {
        throw invalid(attr, 'invalid', 'Must be a valid UUID.');
      }
      return;
    case 'timestamp':
      if (typeof value !== 'string' || !TIMESTAMP.test(value) || Number.isNaN(Date.parse(value))) {
        throw invalid(attr, 'invalid', 'Datetime has wrong format. Use an ISO 8601 time.');
      }
      return;
    case 'integer':
      if (!isInteger(value)) throw invalid(attr, 'invalid', 'A valid integer is required.');
      return;
    case 'number':
      if (typeof value !== 'number' && !isRawNumber(value)) {
        throw invalid(attr, 'invalid', 'A valid number is required.');
      }
      return;
    case 'boolean':
      if (typeof value !== 'boolean') throw invalid(attr, 'invalid', 'Must be a valid boolean.');
      return;
    case 'object':
      if (!isJsonObject(value)) {
        throw invalid(attr, 'not_a_dict', `Expected a dictionary of items but got type "${typeOf(value)}".`);
      }
      return;
    case 'array':
      if (!Array.isArray(value)) {
        throw invalid(attr, 'not_a_list', `Expected a list of items but got type "${typeOf(value)}".`);
      }
      return;
    case 'any':
      return;
  }
}

function isInteger(value: JsonValue): boolean {
  return typeof value === 'number'
    ? Number.isInteger(value)
    : isRawNumber(value) && /^-?\d+$/.test(value.rawJSON);
}

function typeOf(value: JsonValue): string {
  if (value === null) return 'null';
  return isRawNumber(value) ? 'number' : typeof value;
}
