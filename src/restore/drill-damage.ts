/** Damage for a drill: some records gone, some altered, by a chance that gives the same every time. Pure. */
import {
  type FieldDefinition,
  type Kind,
  type ResourceDefinition,
  type ScopeKey,
  operationOf,
} from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { idText } from '../diff/match-records.ts';
import { resolvePointer } from '../diff/pointer.ts';
import { placesOf } from './places.ts';
import { placeOf } from './record-place.ts';
import { writableFields } from './writable.ts';

interface Damaged {
  readonly records: readonly ParsedRecord[];
  readonly removed: number;
  readonly altered: number;
}

interface DamageOptions {
  /** Share of the records, 0 to 100. */
  readonly percent: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Whose memberships stay: nobody can take their own away. */
  readonly keyUser: string;
}

/**
 * Damages that share of the records: every second one is removed, with all that hangs from it or refers to it, the others
 * get another value in one of the fields that the service lets people change. Organizations are altered, never removed.
 */
export function damage(records: readonly ParsedRecord[], options: DamageOptions): Damaged {
  const { random, definitions, keyUser } = options;
  const candidates = records.filter(
    ({ kind, id }) => !(definitions(kind).restore.protectsOwnUser && id === keyUser),
  );
  const wanted = Math.min(candidates.length, Math.ceil((records.length * options.percent) / 100));
  const gone = new Set<string>();
  const altered = new Map<string, ParsedRecord>();
  for (const record of shuffled(candidates, random).slice(0, wanted)) {
    const definition = definitions(record.kind);
    const isRoot = definition.discovery.from === 'root';
    const other = isRoot || random() < 0.5 ? alteredRecord(definition, record, random) : null;
    if (other !== null) altered.set(keyOf(definition, record), other);
    else if (!isRoot) gone.add(keyOf(definition, record));
  }
  addDependents(records, gone, definitions);
  const kept: ParsedRecord[] = [];
  let changes = 0;
  for (const record of records) {
    const key = keyOf(definitions(record.kind), record);
    if (gone.has(key)) continue;
    const other = altered.get(key);
    if (other !== undefined) changes += 1;
    // Another kind may show the same record: it is altered there too.
    kept.push(other === undefined ? record : { ...record, body: other.body });
  }
  return { records: kept, removed: records.length - kept.length, altered: changes };
}

/** Kinds of one family share their records, and so the damage. */
function keyOf({ kind, family }: ResourceDefinition, { scope, id }: ParsedRecord): string {
  return family === null
    ? placeOf(kind, scope, id)
    : `${family}${placeOf(kind, scope, id).slice(kind.length)}`;
}

/** What goes with a record: its children, and whatever names it. Until nothing more does. */
function addDependents(
  records: readonly ParsedRecord[],
  gone: Set<string>,
  definitions: (kind: Kind) => ResourceDefinition,
): void {
  for (let before = -1; before !== gone.size;) {
    before = gone.size;
    const ids = new Set(
      records
        .filter((record) => gone.has(keyOf(definitions(record.kind), record)))
        .map(({ kind, id }) => `${kind} ${id}`),
    );
    for (const record of records) {
      const definition = definitions(record.kind);
      const isChild = (Object.entries(record.scope) as [ScopeKey, string][]).some(([key, id]) =>
        ids.has(`${SCOPE_KIND[key]} ${id}`),
      );
      if (isChild || namesOf(definition, record).some((name) => ids.has(name)))
        gone.add(keyOf(definition, record));
    }
  }
}

/** The records that a body names, as `kind id`. */
function namesOf({ references, restore }: ResourceDefinition, { body }: ParsedRecord): string[] {
  return [
    ...references.map(({ pointer, kind }) => ({ pointer, kind })),
    ...restore.derived.flatMap(({ from, kind }) => from.map((pointer) => ({ pointer, kind }))),
  ].flatMap(({ pointer, kind }) =>
    placesOf(body, pointer).flatMap((place) => {
      const value = resolvePointer(body, place);
      return value === undefined || value === null ? [] : [`${kind} ${idText(value)}`];
    }),
  );
}

/** The record with another value in one of its fields; null where nothing of it can be changed by a request. */
function alteredRecord(
  definition: ResourceDefinition,
  record: ParsedRecord,
  random: () => number,
): ParsedRecord | null {
  const { body } = record;
  if (!isJsonObject(body) || operationOf(definition, 'update') === undefined) return null;
  const choices = writableFields(definition).flatMap((field) => {
    const value = getOwn(body, field.name);
    const other = value === undefined ? undefined : otherValue(field, value);
    return other === undefined || isGuarded(field) ? [] : [{ name: field.name, other }];
  });
  const choice = choices[Math.floor(random() * choices.length)];
  return choice === undefined ? null : { ...record, body: { ...body, [choice.name]: choice.other } };
}

/** What only a creation sets, what waits for something else to be true, and what may hold secrets stays as it is. */
function isGuarded({ isCreateOnly, requires, isSecret, secretPointers }: FieldDefinition): boolean {
  return isCreateOnly || requires !== null || isSecret || secretPointers.length > 0;
}

function otherValue({ type, values }: FieldDefinition, value: JsonValue): JsonValue | undefined {
  if (type === 'boolean') return value !== true;
  if (type === 'integer') return value === 1 ? 8 : 1;
  if (type !== 'string') return undefined;
  return (
    values?.find((other) => other !== value) ?? `${typeof value === 'string' ? value : ''} (altered)`.trim()
  );
}

/** Fisher and Yates. */
function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const mixed = [...items];
  for (let last = mixed.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [mixed[last], mixed[other]] = [mixed[other] as T, mixed[last] as T];
  }
  return mixed;
}
