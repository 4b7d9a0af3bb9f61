/** The columns of a kind in its view of the mirror and its Parquet file. */
import { definitionOf } from './catalog.ts';
import type { FieldDefinition } from './definition.ts';
import { SCOPE_KIND } from './lineage.ts';
import type { ResourceDefinition } from './resource-definition.ts';

/** Columns that all kinds have, with the same meaning. */
const SHARED_COLUMNS = ['id', 'name', 'source', 'organization_id', 'organization', 'project_id'] as const;

/** A documented field with such a name and another meaning becomes `field_NAME`. */
const OWN_COLUMNS: readonly string[] = [
  ...SHARED_COLUMNS,
  ...['role_id', 'first_seen_at', 'last_changed_at', 'body'],
];

export interface KindColumn {
  readonly name: string;
  readonly value: FieldDefinition | (typeof SHARED_COLUMNS)[number] | 'role_id';
}

/**
 * The shared columns (the id as text, even if it is a number in the body), the role if the kind has one, then the
 * documented fields. Secrets are in the body only.
 */
export function kindColumns(definition: ResourceDefinition): KindColumn[] {
  const fields = definition.fields.filter(({ name, isSecret }) => !isSecret || isOwn(definition, name));
  const shared = SHARED_COLUMNS.map((name) => ({ name, value: name }));
  const role = definition.scope.includes('role_id') ? [{ name: 'role_id', value: 'role_id' } as const] : [];
  const documented = fields
    .filter(({ name }) => !isOwn(definition, name))
    .map((field) => ({
      name: OWN_COLUMNS.includes(field.name) ? `field_${field.name}` : field.name,
      value: field,
    }));
  return [...shared, ...role, ...documented];
}

/** True if the field has the meaning that the column of that name has for all kinds. */
function isOwn({ idPath }: ResourceDefinition, field: string): boolean {
  return field === 'name' || (field === 'id' && idPath.join('/') === 'id');
}

/** Pointer to the project named in a record, for kinds that are not listed by project; undefined for most. */
export function projectPointer({ scope, references }: ResourceDefinition): string | undefined {
  if (scope.includes('project_id')) return undefined;
  return references.find(({ kind, pointer }) => kind === SCOPE_KIND.project_id && !pointer.includes('*'))
    ?.pointer;
}

/** The key of a project that web pages contain (docs/security.md). It is not documented, so the catalog has no field for it. */
const PROJECT_KEY = 'api_token';

/** The secret members of the records of another kind that a field shows. They are omitted from its column. */
export function secretMembers({ restore }: ResourceDefinition, field: string): readonly string[] {
  return restore.follows
    .filter((each) => each.field === field)
    .flatMap(({ kind }) => [
      ...definitionOf(kind)
        .fields.filter(({ isSecret }) => isSecret)
        .map(({ name }) => name),
      ...(kind === SCOPE_KIND.project_id ? [PROJECT_KEY] : []),
    ]);
}
