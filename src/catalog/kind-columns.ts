/** The columns that people see of a kind: of its view in the mirror, and of its Parquet file. */
import type { FieldDefinition, ScopeKey } from './definition.ts';
import type { ResourceDefinition } from './resource-definition.ts';

/** Columns that mean the same in every kind; a documented field of such a name that means something else is `field_NAME`. */
const OWN_COLUMNS = [
  ...['id', 'name', 'source', 'organization_id', 'organization', 'project_id', 'role_id'],
  ...['first_seen_at', 'last_changed_at', 'body'],
];

/** `id` and `name` are given where no documented field of that name is what the column shows. */
export interface KindColumn {
  readonly name: string;
  readonly value: FieldDefinition | ScopeKey | 'id' | 'name' | 'source';
}

/** Id, name, source, scope, then the documented fields. Secrets are in the body only, where nobody selects them by chance. */
export function kindColumns(definition: ResourceDefinition): KindColumn[] {
  const fields = definition.fields.filter(({ name, isSecret }) => !isSecret || isOwn(definition, name));
  const documented = (name: string): FieldDefinition | undefined =>
    fields.find((field) => field.name === name && isOwn(definition, name));
  const name = documented('name');
  const columns: KindColumn[] = [{ name: 'id', value: documented('id') ?? 'id' }];
  if (name !== undefined || definition.nameFrom.length > 0)
    columns.push({ name: 'name', value: name ?? 'name' });
  columns.push({ name: 'source', value: 'source' });
  for (const key of definition.scope) columns.push({ name: key, value: key });
  for (const field of fields) {
    if (isOwn(definition, field.name)) continue;
    const isTaken = OWN_COLUMNS.includes(field.name);
    columns.push({ name: isTaken ? `field_${field.name}` : field.name, value: field });
  }
  return columns;
}

/** True where the field is what the column of that name shows in every kind. */
function isOwn({ idPath }: ResourceDefinition, field: string): boolean {
  return field === 'name' || (field === 'id' && idPath.join('/') === 'id');
}
