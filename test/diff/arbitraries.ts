/** Arbitrary JSON with the keys and numbers that break naive code, and bodies that differ by a few edits. */
import fc from 'fast-check';
import type { FieldDefinition } from '../../src/catalog/definition.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { owned, volatile, writable } from '../../src/catalog/fields.ts';
import { type JsonObject, type JsonValue, isJsonObject, parseLossless, setOwn } from '../../src/core/json.ts';

export const testFields: readonly FieldDefinition[] = [
  writable('name', 'string', 'A name.'),
  writable('set', 'array', 'An array without order.', { isUnordered: true }),
  writable('list', 'array', 'An array with order.'),
  owned('owned', 'any', 'Response only.'),
  volatile('moving', 'any', 'Moves by itself.'),
];
export const testDefinition = changedDefinition(definitionOf('batch_exports'), {
  fields: testFields,
  nameFrom: ['/name'],
});

const nastyKeys = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  '/',
  '~',
  '~1',
  'a/b',
  'a~b',
  '0',
  '-',
  'id',
  '\u202e',
  '\ud800',
  'é',
  '*',
];
export const key = fc.oneof(
  fc.constantFrom(...nastyKeys),
  fc.constantFrom('name', 'set', 'list', 'owned', 'moving'),
  fc.string({ maxLength: 4 }),
);
const number = fc
  .oneof(
    fc.integer().map(String),
    fc.constantFrom(
      '0',
      '-0',
      '1.10',
      '1.1',
      '1e2',
      '100',
      '12345678901234567890',
      '12345678901234567891',
      '1e400',
    ),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  )
  .map(parseLossless);
const scalar: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  number,
  fc.string({ maxLength: 5 }),
  fc.constantFrom('', '\ud800', '\u001b[31m', '<script>'),
);

function objectOf(entries: [string, JsonValue][]): JsonObject {
  const object: JsonObject = {};
  for (const [name, value] of entries) setOwn(object, name, value);
  return object;
}

export const json: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue; object: JsonObject }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    scalar,
    fc.array(tie('value'), { maxLength: 4 }),
    tie('object'),
    // Arrays of objects that carry an id, mostly unique ones.
    fc
      .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 6 }), tie('object')), {
        maxLength: 5,
        selector: ([id]) => id,
      })
      .map((elements) =>
        elements.map(([id, object]) => {
          const element = objectOf(Object.entries(object));
          setOwn(element, 'id', id);
          return element;
        }),
      ),
  ),
  object: fc.array(fc.tuple(key, tie('value')), { maxLength: 5 }).map(objectOf),
})).value;

export const body: fc.Arbitrary<JsonObject> = fc.array(fc.tuple(key, json), { maxLength: 6 }).map(objectOf);

/** The same value with the keys of every object in reverse order. */
export function reversedKeys(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(reversedKeys);
  if (!isJsonObject(value)) return value;
  return objectOf(
    Object.keys(value)
      .reverse()
      .map((name) => [name, reversedKeys(value[name]!)]),
  );
}

/** A body and another one that shares most of it: members replaced, dropped and added, arrays turned round. */
export const bodyPair: fc.Arbitrary<[JsonObject, JsonObject]> = fc.oneof(
  fc.tuple(body, body),
  fc
    .tuple(
      body,
      fc.array(
        fc.tuple(fc.nat(), fc.constantFrom('replace', 'drop', 'add', 'reverse', 'shift', 'dig'), key, json),
        { maxLength: 4 },
      ),
    )
    .map(([from, edits]): [JsonObject, JsonObject] => {
      let to: JsonValue = reversedKeys(from);
      for (const [at, how, name, value] of edits) to = edit(to, at, how, name, value);
      return [from, to as JsonObject];
    }),
);

function edit(target: JsonValue, at: number, how: string, name: string, value: JsonValue): JsonValue {
  if (Array.isArray(target)) {
    if (how === 'reverse') return target.toReversed();
    if (how === 'shift') return target.slice(1);
    if (how === 'add')
      return [...target.slice(0, at % (target.length + 1)), value, ...target.slice(at % (target.length + 1))];
    return target.map((element, index) =>
      index === at % target.length ? edit(element, at, how, name, value) : element,
    );
  }
  if (!isJsonObject(target)) return how === 'dig' ? target : value;
  const names = Object.keys(target);
  const chosen = names[at % names.length];
  const copy = objectOf(names.map((member) => [member, target[member]!]));
  if (chosen === undefined || how === 'add') setOwn(copy, name, value);
  else if (how === 'drop') Reflect.deleteProperty(copy, chosen);
  else if (how === 'replace') setOwn(copy, chosen, value);
  else setOwn(copy, chosen, edit(target[chosen]!, at, how, name, value));
  return copy;
}
