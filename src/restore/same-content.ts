/** Records without a name: identified by their content. */
import { scopeKey } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { valueDigest } from '../diff/canonical.ts';
import { comparedMembers, equalValues } from '../diff/compare.ts';
import { recordName } from '../diff/name.ts';
import type { MatchedIds } from '../diff/match-records.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { naturalKeyDigest } from './live-records.ts';
import type { PlanStep } from './plan.ts';
import { differencesFrom, sentFields } from './read-back.ts';
import { writableFields } from './unmanaged-settings.ts';

type ByName = Pick<KindMatch, 'missing' | 'extra' | 'ambiguous'>;

/**
 * Desired records without a natural key that live holds with the very same content under another id: made again by hand.
 * One on each side is a pair; several cannot be distinguished.
 */
export function matchByContent(
  definition: ResourceDefinition,
  { missing, extra, ambiguous }: ByName,
  counterparts: MatchedIds,
): ByName & Pick<KindMatch, 'pairs'> {
  const none = { pairs: [], missing, extra, ambiguous };
  if (missing.length === 0 || extra.length === 0 || definition.naturalKey.length === 0) return none;
  if (writableFields(definition).length === 0 || definition.restore.creation.by !== 'request') return none;
  const contents = new Map<string, { desired: ParsedRecord[]; live: ParsedRecord[] }>();
  const add = (side: 'desired' | 'live', record: ParsedRecord): void => {
    const scope = side === 'live' ? record.scope : counterparts.scope(record.scope);
    const digest = scope === null ? null : contentDigest(definition, record.body);
    if (scope === null || digest === null) return;
    const key = `${scopeKey(scope)} ${digest}`;
    const own = contents.get(key) ?? { desired: [], live: [] };
    own[side].push(record);
    contents.set(key, own);
  };
  for (const record of missing) add('desired', record);
  if (contents.size === 0) return none;
  for (const record of extra) add('live', record);
  const both = [...contents.values()].filter(({ desired, live }) => desired.length > 0 && live.length > 0);
  const matched = new Set(both.flatMap(({ desired, live }) => [...desired, ...live]));
  return {
    pairs: both.flatMap(({ desired: [from, ...others], live: [to, ...more] }) =>
      from !== undefined && to !== undefined && others.length + more.length === 0
        ? [{ desired: from, live: to }]
        : [],
    ),
    missing: missing.filter((record) => !matched.has(record)),
    extra: extra.filter((record) => !matched.has(record)),
    ambiguous: [
      ...ambiguous,
      ...both
        .filter(({ desired, live }) => desired.length + live.length > 2)
        .map(({ desired, live }) => ({ name: nameOf(definition, desired[0] ?? live[0]), desired, live })),
    ],
  };
}

function nameOf(definition: ResourceDefinition, record: ParsedRecord | undefined): string {
  return record === undefined ? '' : recordName(definition, record.body, record.id);
}

/** Null for a record that has a name, or nothing that restore manages. */
function contentDigest(definition: ResourceDefinition, body: JsonValue): string | null {
  if (!isJsonObject(body) || naturalKeyDigest(definition, body) !== null) return null;
  const members = comparedMembers(definition, body, 'managed');
  return members.length === 0 ? null : valueDigest(members);
}

/** True for a live record that holds everything that the step sends, if that identifies it. */
export function holdsContent(
  definition: ResourceDefinition,
  step: PlanStep,
  sent: JsonValue | null,
  live: JsonValue,
): boolean {
  if (!isJsonObject(sent) || !isJsonObject(live)) return false;
  const derived = definition.restore.derived.flatMap(({ field, from }) => {
    const value = getOwn(sent, field);
    return value === undefined ? [] : [{ value, from }];
  });
  const isOther = derived.some(({ value, from }) =>
    from.every((pointer) => !equalValues(resolvePointer(live, pointer) ?? null, value)),
  );
  if (isOther || derived.length + sentFields(definition, sent, live).length === 0) return false;
  return differencesFrom(definition, step, sent, live).length === 0;
}

export interface KindMatch {
  readonly definition: ResourceDefinition;
  readonly pairs: readonly { readonly desired: ParsedRecord; readonly live: ParsedRecord }[];
  /** Desired, and not found live. */
  readonly missing: readonly ParsedRecord[];
  /** Live, and not desired. */
  readonly extra: readonly ParsedRecord[];
  readonly ambiguous: readonly {
    readonly name: string;
    readonly desired: readonly ParsedRecord[];
    readonly live: readonly ParsedRecord[];
    /** The run that found the desired one gone, if that is the reason: the live one is another desired record too. */
    readonly goneSince?: number;
  }[];
  /** All live records of the kind. */
  readonly live: readonly ParsedRecord[];
}
