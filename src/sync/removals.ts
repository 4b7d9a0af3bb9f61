/** When removals are accepted, and when they are held (design.md, The sync: Absence). Pure. */
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isoTime } from '../core/clock.ts';
import type { AcceptedCollection } from '../mirror/audit-log.ts';

export interface RemovalLimits {
  readonly maxRecords: number;
  /** Share of the collection, 0 to 1. */
  readonly maxShare: number;
  readonly confirmAfterMs: number;
}

/** The largest number of removals in one sweep of a collection without confirmation. */
export function removalLimit(limits: RemovalLimits, known: number): number {
  return Math.max(limits.maxRecords, Math.floor(known * limits.maxShare));
}

/** True when that many removals from a collection of `known` records must be confirmed: too many, or all of them. */
export function isTooMany(limits: RemovalLimits, known: number, absent: number): boolean {
  return absent > 0 && (absent > removalLimit(limits, known) || absent >= known);
}

/** An absence first found at this time (ISO 8601) or before, and found again now, is confirmed. */
export function confirmationCutoff(limits: RemovalLimits, nowMs: number): string {
  return isoTime(nowMs - limits.confirmAfterMs);
}

/** How many held removals the user accepts in this run: a maximum that the collections share; and what was accepted. */
export class AcceptedRemovals {
  readonly atMost: number;
  readonly collections: AcceptedCollection[] = [];
  /** What the run holds: what accepting it takes. */
  readonly held: AcceptedCollection[] = [];
  readonly #kinds: readonly Kind[] | null;
  #left: number;

  /** @param kinds of which removals are accepted; null for all: a run of some kinds reads the lists that lead to them too */
  constructor(ceiling: number, kinds: readonly Kind[] | null) {
    this.atMost = ceiling;
    this.#kinds = kinds;
    this.#left = ceiling;
  }

  /** Takes the records of a collection, and those below them, from the maximum if all of them fit; returns whether they did. */
  take(collection: AcceptedCollection): boolean {
    const count = collection.accepted + collection.below;
    if (count > this.#left || this.#kinds?.includes(collection.kind) === false) return false;
    this.#left -= count;
    this.collections.push(collection);
    return true;
  }
}

/**
 * The command that removes what a run holds of a kind: with all of that kind, as a number that does not cover them accepts none.
 * @param kinds that the run read; null for all
 */
export function acceptCommand(
  held: readonly AcceptedCollection[],
  {
    kind,
    source,
    kinds,
  }: { readonly kind: Kind; readonly source: string; readonly kinds: readonly Kind[] | null },
): string {
  const own = held.filter((each) => each.kind === kind);
  const all = own.reduce((sum, { accepted, below }) => sum + accepted + below, 0);
  const isOnly = kinds === null && own.length === held.length;
  const which = own.length > 1 ? 'all that is held of this kind' : all === 1 ? 'it' : 'them';
  return `\`tidemark sync --accept-removals ${all}${isOnly ? '' : ` --kind ${kind}`} --source ${source}\` removes ${which} now`;
}

const KINDS = 3; // more are not named in a command

interface Missing {
  readonly kind: Kind;
  readonly below: number;
  /** Of its kind and those below, what restore cannot create (`uncreatableKinds`). */
  readonly uncreatable?: readonly Kind[];
}

/**
 * The command that shows what is missing, and what restores it: a command with the kinds of what is missing below it too, since
 * a restore of the others alone would leave those out; without what the profile leaves to a person, whose plan would be blocked.
 * @param source for the commands; null with a single one
 */
export function lookCommands(
  held: readonly Missing[],
  source: string | null,
): { readonly look: string; readonly restoring: (them: 'it' | 'them') => string } {
  const closed = new Set(held.flatMap(({ uncreatable = [] }) => uncreatable));
  const open = kindsMissing(held).filter((kind) => !closed.has(kind));
  // Of these the plan has no request without it.
  const invited = open.filter((kind) => definitionOf(kind).restore.creation.by === 'invitation');
  const [option, how] =
    invited.length === 0 ? ['', ''] : [' --invite-missing', `, ${invited.join(' and ')} by invites`];
  const restore = `\`tidemark restore${lookOptions(open, source)}${option}\``;
  const names = [...closed].join(' and ');
  const never = [...closed].every((kind) => definitionOf(kind).restore.never !== null);
  return {
    look: `\`tidemark diff latest live${lookOptions(kindsMissing(held), source)}\``,
    restoring: (them) => {
      if (closed.size === 0) return `${restore} plans to restore ${them}${how}`;
      const cannot = never
        ? `restore never creates ${names}`
        : `restore cannot create ${names} with this profile: create ${open.length > 0 ? 'those' : them} by hand, or configure a profile that can write ${open.length > 0 ? 'those' : them}`;
      return open.length === 0 ? cannot : `${restore} plans to restore the others${how} (${cannot})`;
    },
  };
}

/** Kinds that a restore with these definitions creates no record of: of what is missing, and of what is below it. */
export function uncreatableKinds(
  { kind, below }: Missing,
  definitions: (kind: Kind) => ResourceDefinition,
): Kind[] {
  const kinds = kindsMissing([{ kind, below }]);
  // Nothing can be created below what is missing.
  return isCreatable(definitions(kind)) ? kinds.filter((each) => !isCreatable(definitions(each))) : kinds;
}

/** False for a kind that is never restored, or of which the profile has no field that requests may set. */
export function isCreatable({ restore, fields }: ResourceDefinition): boolean {
  if (restore.never !== null) return false;
  if (restore.creation.by === 'invitation') return true;
  return fields.some(({ isWritable, isVolatile }) => isWritable && !isVolatile);
}

function kindsMissing(held: readonly Missing[]): Kind[] {
  const all = [
    ...new Set(held.flatMap(({ kind, below }) => [kind, ...(below === 0 ? [] : createdBelow(kind))])),
  ];
  const own = all.filter((kind) => definitionOf(kind).isUnionOfFamily !== true);
  return own.length === 0 ? all : own;
}

function lookOptions(kinds: readonly Kind[], source: string | null): string {
  return [
    ...(source === null ? [] : [` --source ${source}`]),
    ...(kinds.length > KINDS ? [] : kinds.map((kind) => ` --kind ${kind}`)),
  ].join('');
}

/** The commands for what several lists hold, a line each: to look, to restore, and for each kind to remove all of it here. */
export function heldCommands(
  held: readonly (Missing & { readonly records: number })[],
  source: string,
): string[] {
  const { look, restoring } = lookCommands(held, source);
  const accepting = [...Map.groupBy(held, ({ kind }) => kind)].map(([kind, own]) => {
    const all = own.reduce((sum, { records, below }) => sum + records + below, 0);
    return `\`tidemark sync --accept-removals ${all} --kind ${kind} --source ${source}\` removes all held ${kind} now`;
  });
  return [`${look} shows them, ${restoring('them')}; -v lists each`, ...accepting];
}

/** The kinds of records below one of this kind that a restore can create again. */
export function createdBelow(kind: Kind): Kind[] {
  const key = scopeKeyNaming(kind);
  return CATALOG.filter(
    ({ scope, restore }) => key !== undefined && scope.includes(key) && restore.never === null,
  ).map((row) => row.kind);
}
