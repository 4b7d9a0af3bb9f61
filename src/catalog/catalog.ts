/** The catalog: every kind of the API, parents before children. */
import { type Scope, SCOPE_KEYS } from './definition.ts';
import { type Kind, type KindRow, KINDS, ROWS } from './kinds.ts';
import { type ResourceDefinition, compileDefinition } from './resource-definition.ts';

export const CATALOG: readonly ResourceDefinition[] = ROWS.map((row) => compileDefinition(knownKinds(row)));

/** The row, once every kind that it refers to is one. @throws Error for a mistake in the catalog */
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

/** The row of a kind. Every `Kind` has one. */
export function definitionOf(kind: Kind): ResourceDefinition {
  const definition = BY_KIND.get(kind);
  if (definition === undefined) throw new Error(`the catalog has no row for ${kind}`);
  return definition;
}

export function isKind(name: string): name is Kind {
  return (KINDS as readonly string[]).includes(name);
}

/**
 * Fills a path of the catalog. Every value is percent-encoded, so an id with `/`, `%2F`, `..` or a space addresses
 * one record and nothing else.
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

/** What is in a path of the catalog, and the names of what it is filled with, in turn. Found once for each. */
function partsOf(path: string): readonly string[] {
  const known = PARTS.get(path);
  if (known !== undefined) return known;
  const parts = path.split(/:([a-z_]+)/);
  PARTS.set(path, parts);
  return parts;
}

/** Percent-encodes one path segment; `.` and `..` too, which URL parsers would otherwise resolve. */
export function encodePathSegment(value: string): string {
  if (/^[\w-]+$/.test(value)) return value;
  // A lone surrogate cannot be encoded in a URL; it becomes U+FFFD, as URL parsers do.
  const encoded = encodeURIComponent(value.toWellFormed());
  return encoded === '.' || encoded === '..' ? encoded.replaceAll('.', '%2E') : encoded;
}

/** A scope as text that is equal for equal scopes: JSON with the keys in `SCOPE_KEYS` order. */
export function scopeKey(scope: Scope): string {
  const ordered: Record<string, string> = {};
  for (const key of SCOPE_KEYS) {
    const value = scope[key];
    if (value !== undefined) ordered[key] = value;
  }
  return JSON.stringify(ordered);
}

/** Their records are created by use, not by configuration: compared only where the kind is named. */
export function activityKinds(): Kind[] {
  return CATALOG.filter(({ reading }) => reading !== 'list').map(({ kind }) => kind);
}

/** One text for each collection, the same whatever the order of its scope's keys. */
export function collectionKey({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}

const FAMILIES: ReadonlyMap<Kind, readonly Kind[]> = new Map(
  CATALOG.map(({ kind, family }) => [
    kind,
    family === null ? [kind] : CATALOG.filter((other) => other.family === family).map((other) => other.kind),
  ]),
);

/** The kinds of the kind's family, itself included, in catalog order; only itself where it has none. */
export function familyKinds(kind: Kind): readonly Kind[] {
  return FAMILIES.get(kind) ?? [kind];
}

/** `organization 0190…, role 7`, or nothing for the root. */
export function scopeText(scope: Scope): string {
  return SCOPE_KEYS.flatMap((key) => {
    const value = scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')} ${value}`];
  }).join(', ');
}

/** `roles (organization 0190…)`, or the kind alone at the root. */
export function collectionText(kind: Kind, scope: Scope, placeText = scopeText): string {
  const where = placeText(scope);
  return where === '' ? kind : `${kind} (${where})`;
}

/** True where records are named by an e-mail address: who is named so is a person. */
export function isPersonKind({ nameFrom }: ResourceDefinition): boolean {
  return nameFrom.some((pointer) => pointer.includes('email'));
}
