/**
 * The shape of one row of the catalog: everything Tidemark knows about a kind. Adding a kind is adding a row; an
 * `if (kind === …)` elsewhere means that this type lacks a field. Which kinds there are follows from the rows
 * (`kinds.ts`): here `Name` stands for the name of any of them.
 */
import type { SecretSearch } from '../core/secret.ts';

/** The parent path values that name a collection. */
export const SCOPE_KEYS = ['organization_id', 'project_id', 'role_id'] as const;
export type ScopeKey = (typeof SCOPE_KEYS)[number];
/** E.g. `{ organization_id: '…', role_id: '…' }`; empty for organizations. Key order is that of `SCOPE_KEYS`. */
export type Scope = Readonly<Partial<Record<ScopeKey, string>>>;

/**
 * The documented type of a value. Never enforced on read: the service may send anything, and what comes is kept. It
 * decides the SQL type of the generated column and what the sandbox accepts.
 */
export type FieldType =
  'string' | 'uuid' | 'timestamp' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'any';

/** How much a change of a field matters in a drift report, from what must be seen at once to what can wait. */
export const SEVERITIES = ['critical', 'high', 'medium', 'low'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** The secrets that a value needs, by a text inside it (its type). */
export interface SecretsNeeded {
  /** Pointer below the field, e.g. `/type`. */
  readonly by: string;
  /** By that text: every entry must be met, by any one of its pointers. A text that is not named: not known. */
  readonly byText: Readonly<Record<string, readonly (readonly string[])[]>>;
}

export interface FieldDefinition {
  readonly name: string;
  readonly type: FieldType;
  /** Accepted in a request body. Everything else is server-owned. */
  readonly isWritable: boolean;
  /** Changes without a configuration change: never drift, never a revision. */
  readonly isVolatile: boolean;
  /** Holds a secret in clear in responses: masked in output. */
  readonly isSecret: boolean;
  /** JSON pointers below this field that hold secrets which the service omits or masks; `*` matches one segment. */
  readonly secretPointers: readonly string[];
  /** Which of these a value needs when it is sent completely; null if that is not known. */
  readonly secretsNeeded: SecretsNeeded | null;
  /** Accepted when a record is created, never afterwards; compared as managed only where it is writable too. */
  readonly isCreateOnly: boolean;
  /** PATCH merges the members of this object over what is stored: an omitted secret survives, and no member goes while the type is the same. */
  readonly isMerged: boolean;
  /** Pointer into the live body to a boolean that must be true before the field can be set; null for most. */
  readonly requires: string | null;
  /** An array whose order carries no meaning. */
  readonly isUnordered: boolean;
  /** Pointer into the body to where an answer shows the value when it leaves the field out: sent in its place. */
  readonly shownAt?: string;
  readonly severity: Severity;
  /** Closed set of values, where interface.md names one. */
  readonly values: readonly string[] | null;
  /** One line for the schema, the docs and `catalog`. */
  readonly description: string;
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** What an operation is to Tidemark. `action` operations beyond the five verbs carry a name. */
export type OperationRole = 'list' | 'retrieve' | 'create' | 'update' | 'remove' | 'action';

/** One method and path of interface.md, Endpoints. */
export interface Operation {
  readonly method: Method;
  /** With `:name` parameters, as interface.md writes it. */
  readonly path: string;
  readonly role: OperationRole;
  /** Name of an action, e.g. `pause`; null for the five verbs. */
  readonly action: string | null;
  /** API key scope that interface.md lists for it; null where it lists none. */
  readonly permission: string | null;
}

/** How the kind is read. */
type Reading =
  | 'list' // listed completely in every run
  | 'feed' // many and newest first: walked from the head; completely at its own interval
  | 'each'; // a single object per parent record, within a budget per run

/**
 * How a list of this kind answers. The defaults are what interface.md promises; a profile overrides them per kind
 * (wire-notes.md, Lists).
 */
interface ListingRules {
  /** Envelope members that may hold the records, tried in turn. A bare array is always taken. */
  readonly listKeys: readonly string[];
  /** False where the list answers wrongly to any query string: the first request goes without, `next` is followed. */
  readonly acceptsQuery: boolean;
  /** Query parameters sent with every list request beside limit and offset, e.g. `date_from`. */
  readonly query: Readonly<Record<string, string>>;
  /** False where `count` is known to be wrong: distinct keys that differ from it do not spoil the proof. */
  readonly isCountTrusted: boolean;
  /** True if a list row is a reduced form and only retrieve returns the complete record. */
  readonly needsRetrieve: boolean;
}

export const DEFAULT_LISTING: ListingRules = {
  listKeys: ['results'],
  acceptsQuery: true,
  query: {},
  isCountTrusted: true,
  needsRetrieve: false,
};

/** A member of a body that names a record of another kind: restore remaps it. */
interface Reference<Name extends string> {
  /** RFC 6901 pointer into the body; `*` stands for every element. */
  readonly pointer: string;
  readonly kind: Name;
  /** The member of the target that the value equals, as a pointer; usually `/id`. */
  readonly target: string;
}

/** Limits of a kind's requests beside those of the key (wire-notes.md, Rates); 0 = no limit. */
export interface KindRate {
  readonly perMinute: number;
  readonly perHour: number;
}

/** As a file of `kinds/` says it, and a profile may change it. `compileDefinition` makes what the program works with. */
export interface KindDefinition<Name extends string> {
  readonly kind: Name;
  /** For people: singular and plural. */
  readonly title: { readonly one: string; readonly many: string };
  /** Path of the collection with `:name` parameters. For kinds read `each`: path of the single object. */
  readonly path: string;
  /** Path parameters that form the scope, in path order. */
  readonly scope: readonly ScopeKey[];
  /**
   * The kind whose records each have a collection of this one, or a single object where it is read `each`; `root`: one
   * collection in the entire source.
   */
  readonly discovery: { readonly from: 'root' | Name };
  readonly reading: Reading;
  /** Member names that lead to the remote id in a body; empty for kinds read `each` (the parent's id is theirs). */
  readonly idPath: readonly string[];
  readonly idType: 'uuid' | 'integer' | 'string';
  /** The path parameter that stands for the id, as interface.md names it. */
  readonly idParameter: string;
  /** Pointers that together name a record for people and for matching by hand-made counterparts. */
  readonly naturalKey: readonly string[];
  /** Long secrets of the configuration: no record is shown with them. A loaded configuration adds them. */
  readonly withheld?: SecretSearch;
  /** Pointers tried in turn for a record's display name. */
  readonly nameFrom: readonly string[];
  /** Pointer to when a record was created, where that is not `/created_at`. Many kinds show no such time. */
  readonly createdAt?: string;
  /** Permissions: documented by interface.md or, where it is silent, by wire-notes.md. */
  readonly permission: { readonly read: string; readonly write: string; readonly isDocumented: boolean };
  readonly operations: readonly Operation[];
  /** Documented fields in documented order; empty for the families whose payload is not shown. */
  readonly fields: readonly FieldDefinition[];
  /** True where interface.md shows the fields: only then are writable fields known without a profile. */
  readonly hasDocumentedFields: boolean;
  /** True where only the configuration says which fields are writable: others may be, too. */
  readonly isOpenedByHand?: boolean;
  readonly references: readonly Reference<Name>[];
  readonly listing: ListingRules;
  /** The service's own limit for the kind. A kind read one by one counts with its parent's kind. */
  readonly rate?: KindRate;
  /** Kinds whose list can show the same record under the same id (the pipeline families share the plugin rows). */
  readonly family: string | null;
  /** True where its list shows what the lists of its family show: such a record is compared once, in the other list. */
  readonly isUnionOfFamily?: true;
  /** Pointers to what a body holds of other records, each before what is below it; `*` is every element. */
  readonly embeds?: { readonly records?: readonly string[]; readonly users?: readonly string[] };
  /** Response-only arrays without order in kinds whose payload is not shown: names of members that no row describes. */
  readonly sets?: readonly string[];
  readonly restore: RestoreRules<Name>;
}

/** A row with its kind's name as a type. The kinds that it refers to are checked when the catalog is made. */
export function defineKind<const Name extends string>(
  row: KindDefinition<string> & { readonly kind: Name },
): KindDefinition<string> & { readonly kind: Name } {
  return row;
}

/** A value of a body that decides something. */
interface Condition {
  /** RFC 6901 pointer into the body. */
  readonly pointer: string;
  readonly value: boolean | string;
  /** One line for people: why it matters, or what to do. */
  readonly reason: string;
}

/** What only a person can bring back. */
export interface PersonCondition extends Omit<Condition, 'value'> {
  /** Due where FROM has this value and live does not; left out: where FROM has a text and live has another one. */
  readonly value?: Condition['value'];
  /** Pointer to a live value that a person needs for it. */
  readonly shows?: string;
  /** Where live has this value, it has been done. */
  readonly doneWhen?: Pick<Condition, 'pointer' | 'value'>;
}

/** How a record that is missing comes back. */
export type Creation<Name extends string> =
  /** POST to the collection. */
  | { readonly by: 'request' }
  /** POST, but only when the user asked for it: it changes more than the record (wire-notes.md, Restore). */
  | { readonly by: 'consent' }
  /** Not by any request; a person has to, or accepts an invitation made from these members of the body. */
  | {
      readonly by: 'invitation';
      readonly kind: Name;
      /** Fields of the invitation with the pointers that their values come from. */
      readonly fields: Readonly<Record<string, string>>;
      readonly reason: string;
    };
/** A field that is set by actions rather than by PATCH. */
export interface ActionField {
  readonly field: string;
  /** Sent on creation whatever is desired; the action follows. */
  readonly onCreation: boolean;
  /** `before`: ahead of other changes to the record, `after`: behind them. */
  readonly actions: readonly {
    readonly value: boolean;
    readonly action: string;
    readonly order: 'before' | 'after';
    /**
     * Further fields that the action sets: sent again if the action precedes the update, and not sent while the action is
     * blocked. A difference in these fields alone plans no step, since the action would change them again.
     */
    readonly alsoSets: readonly string[];
  }[];
}

/** A request value that an answer holds elsewhere. */
interface DerivedField<Name extends string> {
  readonly field: string;
  /** Pointers tried in turn. */
  readonly from: readonly string[];
  /** The kind whose id it is. */
  readonly kind: Name;
}

/** A field that shows records of another kind: it follows when they come back, and is never written itself. */
interface FollowingField<Name extends string> {
  readonly field: string;
  readonly kind: Name;
}

/** A request-only value that an option of the command decides. */
interface RequestValue {
  readonly field: string;
  readonly option: 'sendEmail';
}

export interface RestoreRules<Name extends string> {
  /** Why records of the kind are never written; null where they are. */
  readonly never: string | null;
  /** What of a record the API does not offer, so that one created again lacks it: for people; null where it offers all. */
  readonly lacks: string | null;
  readonly creation: Creation<Name>;
  /** False for kinds that are never removed, whatever is asked. */
  readonly isRemovable: boolean;
  readonly state: ActionField | null;
  readonly derived: readonly DerivedField<Name>[];
  readonly follows: readonly FollowingField<Name>[];
  readonly requestValues: readonly RequestValue[];
  /** Pointer to the organization that owns the record; one of another organization is not writable. */
  readonly owner: string | null;
  /** What no request brings back, and a person can. */
  readonly byPerson: readonly PersonCondition[];
  /** Where FROM holds the value, the record had ended: creating it again would give what had ended. */
  readonly endedWhen: readonly Condition[];
  /** A record is not missed when a live record of that kind holds the same value: an invite that was accepted. */
  readonly replacedBy: {
    readonly kind: Name;
    readonly pointer: string;
    readonly target: string;
    readonly reason: string;
  } | null;
  /** Pointer to a level: of a collection's highest level there must always be one holder left. */
  readonly keepsHighest: string | null;
  /** True where the service takes a record's own name in other letters for a name that is taken, and refuses it. */
  readonly refusesLetterCase: boolean;
  /**
   * Where the service takes a natural key once, ignoring case, and refuses it for a second record: in a collection, or in
   * the entire source; null where several records may have it.
   */
  readonly uniqueName: 'collection' | 'source' | null;
  /** True where creating a record takes the place of the one of that name: created first, none is lost if that is refused. */
  readonly replacesNamesake: boolean;
  /** True where the record of the key's own user is never changed or removed. */
  readonly protectsOwnUser: boolean;
  /**
   * Paths that take the same body and are used in place of the documented ones, which stay the second choice
   * (wire-notes.md, Restore). Parameters that are neither scope nor id are fields of the body.
   */
  readonly alternativePaths: Readonly<Partial<Record<'create' | 'update', string>>>;
}
