/** The catalog: all kinds of the API, parents before children. */
import { type Scope, SCOPE_KEYS } from './definition.ts';
import { type Kind, type KindRow, KINDS, ROWS } from './kinds.ts';
import { type ResourceDefinition, compileDefinition } from './resource-definition.ts';

export const CATALOG: readonly ResourceDefinition[] = ROWS.map((row) => compileDefinition(knownKinds(row)));

/** Returns the row after checking that every kind that it refers to exists. @throws Error for a mistake in the catalog */
function knownKinds(row: (typeof ROWS)[number]): KindRow {
  const { creation, derived, follows, replacedBy } = row.restore;
  const { from } = row.discovery;
  const others = [
    ...(from === 'root' ? [] : [from]),
    ...[...row.references, ...derived, ...follows].map(({ kind }) => kind),
    ...(creation.by === 'invitation' ? [creation.kind] : []),
    ...(replacedBy === null ? [] : [replacedBy.kind]),
  ];
  for (const name of others)
    if (!isKind(name)) throw new Error(`the catalog has no row for ${name}, to which ${row.kind} refers`);
  return row as KindRow;
}

const BY_KIND: ReadonlyMap<Kind, ResourceDefinition> = new Map(CATALOG.map((row) => [row.kind, row]));

/** The definition of a kind. Every `Kind` has one. */
export function definitionOf(kind: Kind): ResourceDefinition {
  const definition = BY_KIND.get(kind);
  if (definition === undefined) throw new Error(`the catalog has no row for ${kind}`);
  return definition;
}

export function isKind(name: string): name is Kind {
  return (KINDS as readonly string[]).includes(name);
}

/**
 * Fills in a path of the catalog. Every value is percent-encoded, so that an id with `/`, `%2F`, `..` or a space cannot
 * address anything but one record.
 */
export function fillPath(path: string, values: Readonly<Record<string, string | undefined>>): string {
  const parts = partsOf(path);
  let filled = parts[0] ?? '';
  for (let at = 1; at < parts.length; at += 2) {
    const name = parts[at] ?? '';
    const value = values[name];
    if (value === undefined) throw new Error(`path ${path} needs ${name}`);
    filled += encodePathSegment(value) + (parts[at + 1] ?? '');
  }
  return filled;
}

const PARTS = new Map<string, readonly string[]>();

/** The parts of a path of the catalog: literal text and parameter names, alternating. Cached. */
function partsOf(path: string): readonly string[] {
  const known = PARTS.get(path);
  if (known !== undefined) return known;
  const parts = path.split(/:([a-z_]+)/);
  PARTS.set(path, parts);
  return parts;
}

/** Percent-encodes one path segment, including `.` and `..`, which URL parsers would resolve. */
export function encodePathSegment(value: string): string {
  if (/^[\w-]+$/.test(value)) return value;
  // A lone surrogate cannot be encoded in a URL. It becomes U+FFFD, as in URL parsers.
  const encoded = encodeURIComponent(value.toWellFormed());
  return encoded === '.' || encoded === '..' ? encoded.replaceAll('.', '%2E') : encoded;
}

/** A text that is equal for equal scopes: JSON with the keys in the order of `SCOPE_KEYS`. */
export function scopeKey(scope: Scope): string {
  const ordered: Record<string, string> = {};
  for (const key of SCOPE_KEYS) {
    const value = scope[key];
    if (value !== undefined) ordered[key] = value;
  }
  return JSON.stringify(ordered);
}

/** Kinds whose records are created by use, not by configuration. They are compared only if named. */
export function activityKinds(): Kind[] {
  return CATALOG.filter(({ reading }) => reading !== 'list').map(({ kind }) => kind);
}

/** A text that identifies a collection, whatever the order of the keys in its scope. */
export function collectionKey({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}

const FAMILIES: ReadonlyMap<Kind, readonly Kind[]> = new Map(
  CATALOG.map(({ kind, family }) => [
    kind,
    family === null ? [kind] : CATALOG.filter((other) => other.family === family).map((other) => other.kind),
  ]),
);

/** The kinds of the kind's family, including itself, in catalog order; only itself if it has no family. */
export function familyKinds(kind: Kind): readonly Kind[] {
  return FAMILIES.get(kind) ?? [kind];
}

/** `organization 0190…, role 7`; empty for the root. */
export function scopeText(scope: Scope): string {
  return SCOPE_KEYS.flatMap((key) => {
    const value = scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')} ${value}`];
  }).join(', ');
}

/** `roles (organization 0190…)`; only the kind at the root. */
export function collectionText(kind: Kind, scope: Scope, placeText = scopeText): string {
  const where = placeText(scope);
  return where === '' ? kind : `${kind} (${where})`;
}

/** True if the records of the kind are named by an e-mail address, and so are persons. */
export function isPersonKind({ nameFrom }: ResourceDefinition): boolean {
  return nameFrom.some((pointer) => pointer.includes('email'));
}
