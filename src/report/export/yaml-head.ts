/** Recognises a record's YAML file as one that an export wrote. */
import { isKind } from '../../catalog/catalog.ts';
import { SCOPE_KEYS, type Scope } from '../../catalog/definition.ts';
import { parseYaml } from '../../core/yaml.ts';
import { recordPath } from './file-name.ts';

/**
 * Where an export would write the record whose YAML this is, e.g. `members/organization-o/m.yaml`; undefined for any
 * other text. Reads what is before the body only.
 */
export function recordPathOfYaml(text: string): string | undefined {
  const end = text.indexOf('\nbody:');
  if (end === -1) return undefined;
  let head: unknown;
  try {
    head = parseYaml(text.slice(0, end + 1));
  } catch {
    // YAMLParseError: somebody else's file.
    return undefined;
  }
  if (typeof head !== 'object' || head === null) return undefined;
  const { source = null, kind, scope, id, ...others } = head as Partial<Record<string, unknown>>;
  if (Object.keys(others).length > 0 || typeof kind !== 'string' || !isKind(kind)) return undefined;
  if ((source !== null && typeof source !== 'string') || typeof id !== 'string' || !isScope(scope))
    return undefined;
  return `${recordPath({ source, kind, scope, id }).join('/')}.yaml`;
}

function isScope(value: unknown): value is Scope {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.entries(value).every(
      ([key, part]) => (SCOPE_KEYS as readonly string[]).includes(key) && typeof part === 'string',
    )
  );
}
