/**
 * The type of a row of the catalog: everything that Tidemark knows about a kind. To add a kind, add a row; an
 * `if (kind === …)` elsewhere means that this type lacks a field. The names of kinds follow from the rows (`kinds.ts`),
 * so in this module they are the type parameter `Name`.
 */
import type { SecretSearch } from '../core/secret.ts';

/** The path parameters that identify the parents of a collection. */
export const SCOPE_KEYS = ['organization_id', 'project_id', 'role_id'] as const;
export type ScopeKey = (typeof SCOPE_KEYS)[number];
/** E.g. `{ organization_id: '…', role_id: '…' }`; empty for organizations. The keys are in the order of `SCOPE_KEYS`. */
export type Scope = Readonly<Partial<Record<ScopeKey, string>>>;

/**
 * The documented type of a value. It decides the SQL type of the generated column and what the sandbox accepts. It is
 * not enforced on read: whatever the service sends is kept.
 */
export type FieldType =
  'string' | 'uuid' | 'timestamp' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'any';

/** How much a change of a field matters in a drift report, from urgent to unimportant. */
export const SEVERITIES = ['critical', 'high', 'medium', 'low'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** The secrets that a value needs, depending on a text inside it (its type). */
export interface SecretsNeeded {
  /** The pointer to that text below the field, e.g. `/type`. */
  readonly by: string;
  /** By that text: each entry needs a value at one of its pointers. For texts that are not listed, this is not known. */
  readonly byText: Readonly<Record<string, readonly (readonly string[])[]>>;
}

export interface FieldDefinition {
  readonly name: string;
  readonly type: FieldType;
  /** Accepted in a request body. All other fields belong to the server. */
  readonly isWritable: boolean;
  /** Changes without a configuration change, so a change is neither drift nor a revision. */
  readonly isVolatile: boolean;
  /** A clear-text secret in responses, masked in output. */
  readonly isSecret: boolean;
  /** JSON pointers below this field to secrets that the service omits or masks; `*` matches one segment. */
  readonly secretPointers: readonly string[];
  /** Which of these secrets are needed to send the entire value; null if that is not known. */
  readonly secretsNeeded: SecretsNeeded | null;
  /** Accepted only when a record is created; compared as managed only if it is also writable. */
  readonly isCreateOnly: boolean;
  /** PATCH merges the members of this object into the stored one, so that omitted members stay while the type is the same. */
  readonly isMerged: boolean;
  /** Pointer to a boolean of the live body that must be true before the field can be set; null for most. */
  readonly requires: string | null;
  /** An array whose order has no meaning. */
  readonly isUnordered: boolean;
  /** Pointer to where responses that omit the field show its value, which is sent in its place. */
  readonly shownAt?: string;
  readonly severity: Severity;
  /** The allowed values if interface.md lists them. */
  readonly values: readonly string[] | null;
  /** One line for the schema, the documentation and `catalog`. */
  readonly description: string;
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** The role of an operation: one of the five verbs, or an `action`, which has a name. */
export type OperationRole = 'list' | 'retrieve' | 'create' | 'update' | 'remove' | 'action';

/** One method and path of interface.md, Endpoints. */
export interface Operation {
  readonly method: Method;
  /** With `:name` parameters, as in interface.md. */
  readonly path: string;
  readonly role: OperationRole;
  /** The name of the action, e.g. `pause`; null for the five verbs. */
  readonly action: string | null;
  /** The API key scope that interface.md lists for it; null if none. */
  readonly permission: string | null;
}

/** How the kind is read. */
type Reading =
  | 'list' // listed completely in every run
  | 'feed' // many and newest first: walked from the head; completely at its own interval
  | 'each'; // a single object per parent record, within a budget per run

/**
 * How the service lists this kind. The defaults are those of interface.md; a profile overrides them per kind
 * (wire-notes.md, Lists).
 */
interface ListingRules {
  /** Envelope members that may have the records, tried in turn. A bare array is always accepted. */
  readonly listKeys: readonly string[];
  /** False if the list does not work with a query string: the first request has none, and `next` is followed. */
  readonly acceptsQuery: boolean;
  /** Query parameters of every list request in addition to limit and offset, e.g. `date_from`. */
  readonly query: Readonly<Record<string, string>>;
  /** False if `count` is known to be wrong, so that a different number of distinct keys does not invalidate the proof. */
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

/** A member of a body that refers to a record of another kind. Restore remaps it. */
interface Reference<Name extends string> {
  /** RFC 6901 pointer; `*` matches every element. */
  readonly pointer: string;
  readonly kind: Name;
  /** Pointer to the member of the target that has this value; usually `/id`. */
  readonly target: string;
}

/** Limits for requests of a kind, in addition to those of the key (wire-notes.md, Rates); 0 for no limit. */
export interface KindRate {
  readonly perMinute: number;
  readonly perHour: number;
}

/** A kind as declared in `kinds/` and perhaps changed by a profile. `compileDefinition` turns it into its final form. */
export interface KindDefinition<Name extends string> {
  readonly kind: Name;
  /** Singular and plural, for people. */
  readonly title: { readonly one: string; readonly many: string };
  /** Path of the collection with `:name` parameters; for kinds read `each`, path of the single object. */
  readonly path: string;
  /** The path parameters that form the scope, in path order. */
  readonly scope: readonly ScopeKey[];
  /**
   * The kind whose records each have a collection of this kind, or a single object if it is read `each`. `root`: the
   * source has one collection.
   */
  readonly discovery: { readonly from: 'root' | Name };
  readonly reading: Reading;
  /** Member names that lead to the remote id in a body; empty for kinds read `each`, which have the id of the parent. */
  readonly idPath: readonly string[];
  readonly idType: 'uuid' | 'integer' | 'string';
  /** The path parameter of the id, as in interface.md. */
  readonly idParameter: string;
  /** Pointers whose values together identify a record for people, and match it with a counterpart created by hand. */
  readonly naturalKey: readonly string[];
  /** Long secrets of the configuration, which are masked in all records shown. Added when a configuration is loaded. */
  readonly withheld?: SecretSearch;
  /** Pointers tried in turn for a record's display name. */
  readonly nameFrom: readonly string[];
  /** Pointer to the creation time if it is not `/created_at`. Many kinds have none. */
  readonly createdAt?: string;
  /** Permissions from interface.md (`isDocumented`) or, if it has none, from wire-notes.md. */
  readonly permission: { readonly read: string; readonly write: string; readonly isDocumented: boolean };
  readonly operations: readonly Operation[];
  /** Documented fields in documented order; empty for families whose payload is not documented. */
  readonly fields: readonly FieldDefinition[];
  /** True if interface.md documents the fields. Only then are writable fields known without a profile. */
  readonly hasDocumentedFields: boolean;
  /** True if only the configuration names the writable fields, so that others may be writable too. */
  readonly isOpenedByHand?: boolean;
  readonly references: readonly Reference<Name>[];
  readonly listing: ListingRules;
  /** The limit of the service for this kind. A kind read one by one counts with the kind of its parents. */
  readonly rate?: KindRate;
  /** Shared by kinds whose lists can show the same record with the same id, such as pipeline families with plugins. */
  readonly family: string | null;
  /** True if its list also has the records of the other lists of its family. These are compared only in the other list. */
  readonly isUnionOfFamily?: true;
  /** Pointers to parts of other records and users in a body, outer ones first; `*` matches every element. */
  readonly embeds?: { readonly records?: readonly string[]; readonly users?: readonly string[] };
  /** Names of undocumented members that are response-only arrays without order. */
  readonly sets?: readonly string[];
  readonly restore: RestoreRules<Name>;
}

/** A row with the kind's name as a type. The kinds that it refers to are checked when the catalog is built. */
export function defineKind<const Name extends string>(
  row: KindDefinition<string> & { readonly kind: Name },
): KindDefinition<string> & { readonly kind: Name } {
  return row;
}

/** A condition on a value of a body. */
interface Condition {
  /** RFC 6901 pointer. */
  readonly pointer: string;
  readonly value: boolean | string;
  /** Why it matters, or what to do; one line for people. */
  readonly reason: string;
}

/** Something that only a person can restore. */
export interface PersonCondition extends Omit<Condition, 'value'> {
  /** Applies if FROM has this value and live does not. If missing: if FROM has a text and live has a different one. */
  readonly value?: Condition['value'];
  /** Pointer to a live value that the person needs. */
  readonly shows?: string;
  /** If live has this value, it has been done. */
  readonly doneWhen?: Pick<Condition, 'pointer' | 'value'>;
}

/** How a missing record is created again. */
export type Creation<Name extends string> =
  /** By a POST to the collection. */
  | { readonly by: 'request' }
  /** By a POST, but only if the user allows it, because it changes more than the record (wire-notes.md, Restore). */
  | { readonly by: 'consent' }
  /** Not by a request: a person creates it, or accepts an invitation with these members of the body. */
  | {
      readonly by: 'invitation';
      readonly kind: Name;
      /** Fields of the invitation, with pointers to their values. */
      readonly fields: Readonly<Record<string, string>>;
      readonly reason: string;
    };
/** A field that is set by actions instead of PATCH. */
export interface ActionField {
  readonly field: string;
  /** The value sent on creation in any case; an action then sets the desired one. */
  readonly onCreation: boolean;
  /** `order`: before or after other changes to the record. */
  readonly actions: readonly {
    readonly value: boolean;
    readonly action: string;
    readonly order: 'before' | 'after';
    /**
     * Further fields that the action sets. They are sent again if the action precedes the update, and not sent while
     * the action is blocked. A difference only in these fields plans no step, since the action would change them again.
     */
    readonly alsoSets: readonly string[];
  }[];
}

/** A value of a request that responses have in another place. */
interface DerivedField<Name extends string> {
  readonly field: string;
  /** Pointers tried in turn. */
  readonly from: readonly string[];
  /** The kind whose id it is. */
  readonly kind: Name;
}

/** A field that shows records of another kind. It follows when they are restored and is never written itself. */
interface FollowingField<Name extends string> {
  readonly field: string;
  readonly kind: Name;
}

/** A request-only value that an option of the command sets. */
interface RequestValue {
  readonly field: string;
  readonly option: 'sendEmail';
}

export interface RestoreRules<Name extends string> {
  /** Why records of the kind are never written; null if they are. */
  readonly never: string | null;
  /** What the API cannot read or write, so that a record created again lacks it, for people; null if nothing. */
  readonly lacks: string | null;
  readonly creation: Creation<Name>;
  /** False for kinds that are never removed, even on request. */
  readonly isRemovable: boolean;
  readonly state: ActionField | null;
  readonly derived: readonly DerivedField<Name>[];
  readonly follows: readonly FollowingField<Name>[];
  readonly requestValues: readonly RequestValue[];
  /** Pointer to the organization that owns the record. Records of other organizations are not writable. */
  readonly owner: string | null;
  /** What a person can restore and no request can. */
  readonly byPerson: readonly PersonCondition[];
  /** If FROM has such a value, the record was no longer valid, and it is not created again. */
  readonly endedWhen: readonly Condition[];
  /** A record does not count as missing if a live record of that kind has the same value, as for an accepted invite. */
  readonly replacedBy: {
    readonly kind: Name;
    readonly pointer: string;
    readonly target: string;
    readonly reason: string;
  } | null;
  /** Pointer to a level. A collection must always keep a record with the highest level. */
  readonly keepsHighest: string | null;
  /** True if the service refuses a change of case in a record's own name, because it considers the name taken. */
  readonly refusesLetterCase: boolean;
  /**
   * Where a natural key must be unique, ignoring case: in a collection or in the entire source. Null if several records
   * may have the same.
   */
  readonly uniqueName: 'collection' | 'source' | null;
  /** True if creating a record replaces the one of that name. It is created first, so that none is lost if refused. */
  readonly replacesNamesake: boolean;
  /** True if the record of the key's own user is never changed or removed. */
  readonly protectsOwnUser: boolean;
  /**
   * Paths that accept the same body and are tried before the documented ones (wire-notes.md, Restore). Parameters that
   * are neither scope nor id are fields of the body.
   */
  readonly alternativePaths: Readonly<Partial<Record<'create' | 'update', string>>>;
}
