/** `--managed-only`: kinds of which nothing can be written, so that whatever differs is not for a restore to change. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { ComparisonMode } from '../diff/compare.ts';

/** The kinds to leave out in this mode, each with the reason: those without a field that a request may set. */
export function unmanagedKinds(
  mode: ComparisonMode,
  definitions: (kind: Kind) => ResourceDefinition,
): ReadonlyMap<Kind, string> {
  if (mode !== 'managed') return new Map();
  const unmanaged = CATALOG.map(({ kind }) => definitions(kind)).filter(
    ({ fields }) =>
      !fields.some(({ isWritable, isCreateOnly, isVolatile }) => (isWritable || isCreateOnly) && !isVolatile),
  );
  return new Map(unmanaged.map(({ kind }) => [kind, NOTHING_WRITABLE]));
}

const NOTHING_WRITABLE =
  'no field of it is known to be writable, so that none is managed; leave --managed-only out to compare it';
