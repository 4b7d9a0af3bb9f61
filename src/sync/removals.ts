/** When removals are accepted, and when they are held (design.md, The sync: Absence). Pure. */
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import { compareScopes } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isoTime } from '../core/clock.ts';
import { wordList } from '../core/wording.ts';
import type { AcceptedCollection } from '../mirror/audit-log.ts';
import type { SourceMove } from '../mirror/run-rows.ts';

export interface RemovalLimits {
  readonly maxRecords: number;
  /** A share of the collection, 0 to 1. */
  readonly maxShare: number;
  readonly confirmAfterMs: number;
}

/** The most removals in one sweep of a collection that need no confirmation. */
export function removalLimit(limits: RemovalLimits, known: number): number {
  return Math.max(limits.maxRecords, Math.floor(known * limits.maxShare));
}

/** True if this number of removals from a collection of `known` records must be confirmed: too many, or all of them. */
export function isTooMany(limits: RemovalLimits, known: number, absent: number): boolean {
  return absent > 0 && (absent > removalLimit(limits, known) || absent >= known);
}

/** A record that was absent at this time (ISO 8601) or before, and is again now, is confirmed as removed. */
export function confirmationCutoff(limits: RemovalLimits, nowMs: number): string {
  return isoTime(nowMs - limits.confirmAfterMs);
}

/** The previous and the current address of a source. */
export interface MovedAddress {
  readonly from: string;
  readonly to: string;
}

/** @param from the address of the records in the mirror; undefined for a new source */
export function movedAddress(
  from: string | undefined,
  { baseUrl }: { readonly baseUrl: URL },
): MovedAddress | null {
  return from === undefined || from === baseUrl.href ? null : { from, to: baseUrl.href };
}

export function movedText({ from, to }: MovedAddress): string {
  return `none of what was read at ${from} before is at ${to}, which seems to be a different account`;
}

/** About a new address with the same organizations: a copy, or the service under a new name. */
export function movedLine(source: string, { from, to, run, until }: SourceMove): string {
  const last = until === null ? '' : ` until run ${until}`;
  return `${source} was read at ${from}${last}, and from run ${run} on at ${to}: if that is a copy, give it a source of its own`;
}

export const MOVED_HINT = 'if that is a mistake, correct baseUrl and sync again; nothing was removed';

/** Until when removals are held if nobody accepts them. */
export interface HeldUntil {
  /** Runs after these times (ISO 8601) confirm the first and the last removal; null if only a person can. */
  readonly times: { readonly first: string; readonly last: string } | null;
  readonly moved: MovedAddress | null;
}

/** @param wait when the first and the last of the records were found absent, ISO 8601 */
export function heldUntil(
  wait: { readonly firstAt: string; readonly lastAt: string },
  { confirmAfterMs }: RemovalLimits,
  moved: MovedAddress | null,
): HeldUntil {
  const endOf = (since: string): string => {
    const end = Date.parse(since) + confirmAfterMs;
    // Another program altered the time, which `verify` reports. It is shown as it is.
    return Number.isNaN(end) ? since : isoTime(end);
  };
  const times = { first: endOf(wait.firstAt), last: endOf(wait.lastAt) };
  return { times: moved === null ? times : null, moved };
}

/** E.g. `held until you accept it or a run after 2026-03-04T05:06:07Z confirms it`, for removals of one or more lists. */
export function heldUntilText(held: readonly { readonly until?: HeldUntil | undefined }[]): string {
  const times = held.flatMap(({ until }) => until?.times ?? []);
  const first = times.map((each) => secondOf(each.first)).toSorted()[0];
  const last = times
    .map((each) => secondOf(each.last))
    .toSorted()
    .at(-1);
  if (first === undefined || last === undefined) return 'held until you accept it';
  return first === last
    ? `held until you accept it or a run after ${first} confirms it`
    : `held until you accept it or later runs confirm it, of the first after ${first}, of the last after ${last}`;
}

/** A time in UTC, rounded up to a second, so that the wait is over then. */
export function secondOf(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : `${isoTime(Math.ceil(ms / 1000) * 1000).slice(0, 19)}Z`;
}

/** Removals of a collection. Components have `ids`, because a component is in two lists and must count once. */
interface AskedRemovals extends AcceptedCollection {
  readonly ids?: readonly string[];
}

/** The held removals that the user accepts in this run, up to a maximum that all collections share. */
export class AcceptedRemovals {
  readonly atMost: number;
  readonly #taken: AskedRemovals[] = [];
  readonly #held: AskedRemovals[] = [];
  readonly #kinds: readonly Kind[] | null;
  #left: number;

  /** @param kinds whose removals are accepted, since a run of some kinds also reads their parents; null for all */
  constructor(ceiling: number, kinds: readonly Kind[] | null) {
    this.atMost = ceiling;
    this.#kinds = kinds;
    this.#left = ceiling;
  }

  /** Accepts the removals of a collection and of the records below, if all of them fit. Returns whether they did. */
  take(collection: AskedRemovals): boolean {
    const counted = idsOfOthers(collection, this.#taken);
    const count = numberWithout(collection, counted) + collection.below;
    if (count > this.#left || this.#kinds?.includes(collection.kind) === false) return false;
    this.#left -= count;
    this.#taken.push(collection);
    return true;
  }

  hold(collection: AskedRemovals): void {
    this.#held.push(collection);
  }

  get collections(): AcceptedCollection[] {
    return countedOnce(this.#taken);
  }

  /** The removals that the run holds, as they would have to be accepted. */
  get held(): AcceptedCollection[] {
    return countedOnce(this.#held);
  }
}

/** Components count in the lists of their family, in whatever order the lists were read. */
function countedOnce(all: readonly AskedRemovals[]): AcceptedCollection[] {
  return all.flatMap((each) => {
    const { kind, scope, below } = each;
    const isUnion = definitionOf(kind).isUnionOfFamily === true;
    const accepted = isUnion ? numberWithout(each, idsOfOthers(each, all)) : each.accepted;
    return accepted + below === 0 ? [] : [{ kind, scope, accepted, below }];
  });
}

function numberWithout({ accepted, ids = [] }: AskedRemovals, counted: ReadonlySet<string>): number {
  return accepted - ids.filter((id) => counted.has(id)).length;
}

/** The ids in the other lists of the same family. */
function idsOfOthers({ kind, scope }: AskedRemovals, all: readonly AskedRemovals[]): ReadonlySet<string> {
  const { family } = definitionOf(kind);
  const isOther = (other: AskedRemovals): boolean =>
    family !== null &&
    other.kind !== kind &&
    definitionOf(other.kind).family === family &&
    compareScopes(other.scope, scope) === 0;
  return new Set(all.filter(isOther).flatMap(({ ids = [] }) => ids));
}

/**
 * The command that removes the held records of a kind. It needs the number of all of them, because a smaller one
 * accepts none. With `--kind` a run does not read the lists below, so if there are records below, the command removes
 * everything that is held.
 * @param kinds the kinds that the run read; null for all
 */
export function acceptCommand(
  held: readonly AcceptedCollection[],
  {
    kind,
    source,
    kinds,
  }: { readonly kind: Kind; readonly source: string; readonly kinds: readonly Kind[] | null },
): string {
  const ofKind = held.filter((each) => each.kind === kind);
  // If there are none of the kind, its records count in the lists of their family.
  const hasBelow = kinds === null && (ofKind.length === 0 || ofKind.some(({ below }) => below > 0));
  const own = hasBelow || ofKind.length === 0 ? held : ofKind;
  const all = own.reduce((sum, { accepted, below }) => sum + accepted + below, 0);
  const isOnly = kinds === null && own.length === held.length;
  const which =
    own.length > 1 ? `all that is held${hasBelow ? '' : ' of this kind'}` : all === 1 ? 'it' : 'them';
  return `\`tidemark sync --accept-removals ${all}${isOnly ? '' : ` --kind ${kind}`} --source ${source}\` removes ${which} now`;
}

/** The most kinds that a command names; with more, it names none. */
const KINDS = 3;

interface Missing {
  readonly kind: Kind;
  readonly below: number;
  /** Those of its kind and the kinds below that restore cannot create (`uncreatableKinds`). */
  readonly uncreatable?: readonly Kind[];
}

/**
 * The command that shows what is missing, and sentences about how to restore it. The restore command also names the
 * kinds of records below, which a restore of the parents alone would omit, but not the kinds that restore cannot create
 * with the profile, whose plan would be blocked.
 * @param source for the commands; null if there is only one
 * @param narrowed further options that select what is missing, each after a space
 * @returns `restoring`: what restore cannot create, and the command that restores the others, or only one of the two
 */
export function reviewCommands(
  held: readonly Missing[],
  source: string | null,
  narrowed = '',
): { readonly look: string; readonly restoring: (them: 'it' | 'them' | 'all') => string[] } {
  const closed = new Set(held.flatMap(({ uncreatable = [] }) => uncreatable));
  const open = kindsMissing(held).filter((kind) => !closed.has(kind));
  // Without `--invite-missing` the plan has no requests for these.
  const invited = open.filter((kind) => definitionOf(kind).restore.creation.by === 'invitation');
  const [option, how] =
    invited.length === 0 ? ['', ''] : [' --invite-missing', `, ${wordList(invited)} by invites`];
  const restore = `\`tidemark restore${lookOptions(open, source)}${narrowed}${option}\``;
  const names = wordList([...closed]);
  const never = [...closed].every((kind) => definitionOf(kind).restore.never !== null);
  return {
    look: `\`tidemark diff latest live${lookOptions(kindsMissing(held), source)}${narrowed}\``,
    restoring: (them) => {
      if (closed.size === 0) return [`${restore} plans to restore ${them}${how}`];
      const those = open.length > 0 ? 'those' : them;
      const cannot = never
        ? `restore never creates ${names}`
        : `restore cannot create ${names} with this profile: create ${those} by hand, or configure a profile that can write ${those}`;
      return open.length === 0 ? [cannot] : [cannot, `${restore} plans to restore the others${how}`];
    },
  };
}

/** The kinds, of what is missing and of the records below, that a restore with these definitions cannot create. */
export function uncreatableKinds(
  { kind, below }: Missing,
  definitions: (kind: Kind) => ResourceDefinition,
): Kind[] {
  const kinds = kindsMissing([{ kind, below }]);
  // Nothing can be created below what is missing.
  return isCreatable(definitions(kind)) ? kinds.filter((each) => !isCreatable(definitions(each))) : kinds;
}

/** False for a kind that is never restored, and for one without a field that requests may set in this profile. */
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

/** The held removals of a list. */
interface HeldList extends Missing {
  readonly kind: Kind;
  readonly records: number;
}

/**
 * The commands that remove held records of several kinds: all of them, then those of each kind. A run with `--kind`
 * does not read the lists below, so records with others below are removed only by a run of all kinds, with the number
 * of everything that is held.
 * @param held the lists in question
 * @param all all held lists of the source
 */
export function acceptCommands(
  held: readonly HeldList[],
  { all, source }: { readonly all: readonly HeldList[]; readonly source: string },
): { readonly command: string; readonly kinds: readonly Kind[] | null }[] {
  const countOf = (lists: readonly HeldList[]): number =>
    lists.reduce((sum, { records, below }) => sum + records + below, 0);
  const commandOf = (kinds: readonly Kind[] | null): { command: string; kinds: readonly Kind[] | null } => {
    const count = countOf(kinds === null ? all : held.filter(({ kind }) => kinds.includes(kind)));
    const limit = (kinds ?? []).map((kind) => ` --kind ${kind}`).join('');
    return { command: `\`tidemark sync --accept-removals ${count}${limit} --source ${source}\``, kinds };
  };
  const kinds = [...new Set(held.map(({ kind }) => kind))];
  const hasBelow = held.filter(({ below }) => below > 0).map(({ kind }) => kind);
  const alone = kinds.filter((kind) => !hasBelow.includes(kind));
  return [
    ...(hasBelow.length > 0 ? [commandOf(null)] : kinds.length > 1 ? [commandOf(kinds)] : []),
    ...alone.map((kind) => commandOf([kind])),
  ];
}

/**
 * A line for each command for the held records of several lists: to show them, restore them, and remove them here.
 * @param all all held lists of the source
 */
export function heldCommands(
  held: readonly (HeldList & { readonly until?: HeldUntil })[],
  { all, source }: { readonly all: readonly HeldList[]; readonly source: string },
): string[] {
  const { look, restoring } = reviewCommands(held, source);
  const [moved] = held.flatMap(({ until }) => until?.moved ?? []);
  return [
    ...(moved === undefined ? [] : [`${movedText(moved)}: ${MOVED_HINT}`]),
    `${look} shows them; -v lists each`,
    ...restoring('them'),
    ...acceptCommands(held, { all, source }).map(
      ({ command, kinds }) =>
        `${command} removes ${kinds === null ? 'everything that is held' : `all held ${wordList(kinds)}`} now`,
    ),
  ];
}

/** The kinds below this kind that a restore can create again. */
export function createdBelow(kind: Kind): Kind[] {
  const key = scopeKeyNaming(kind);
  return CATALOG.filter(
    ({ scope, restore }) => key !== undefined && scope.includes(key) && restore.never === null,
  ).map((row) => row.kind);
}
