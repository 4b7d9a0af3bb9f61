/** What of a kind restore may write. */
import type { FieldDefinition, ResourceDefinition } from '../catalog/definition.ts';
import { escapeSegment } from '../diff/pointer.ts';

/** Fields that a request may set: what is volatile is left to the service. */
export function writableFields(definition: ResourceDefinition): readonly FieldDefinition[] {
  return definition.fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile);
}

/** Fields that a creation may set. */
export function creatableFields(definition: ResourceDefinition): readonly FieldDefinition[] {
  return definition.fields.filter(
    ({ isWritable, isCreateOnly, isVolatile }) => (isWritable || isCreateOnly) && !isVolatile,
  );
}

/** The line of configuration that would make these fields writable. */
export function allowingLine(definition: ResourceDefinition, names: readonly string[]): string {
  const derived = definition.restore.derived.map(({ field }) => field);
  const wanted = derived.length > 0 ? derived : names;
  const known = new Set(definition.fields.map(({ name }) => name));
  const fields = wanted.map(
    (name) => `${yamlKey(name)}: { ${known.has(name) ? '' : 'type: any, '}writable: true }`,
  );
  return `definitions: { ${definition.kind}: { fields: { ${fields.join(', ')} } } }`;
}

function yamlKey(name: string): string {
  return /^[A-Za-z_][\w-]*$/.test(name) ? name : JSON.stringify(name);
}

/** The top-level member that a pointer leads into. */
export function topMember(pointer: string): string {
  return (pointer.split('/')[1] ?? '').replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The pointer of a top-level member. */
export function memberPointer(name: string): string {
  return `/${escapeSegment(name)}`;
}

/** Pointers of references that no creation can say, nor its path: the service chooses where the record hangs. */
export function unsendableReferences(definition: ResourceDefinition): string[] {
  const creatable = new Set(creatableFields(definition).map(({ name }) => name));
  const { references, restore, scope } = definition;
  return references
    .filter(({ pointer, kind }) => {
      const name = topMember(pointer);
      return (
        !creatable.has(name) &&
        !scope.some((key) => key === name) &&
        !restore.derived.some((each) => each.kind === kind)
      );
    })
    .map(({ pointer }) => pointer);
}
