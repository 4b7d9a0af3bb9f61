/** File names for records: safe for any id, unique also on file systems that ignore case. */
import { createHash } from 'node:crypto';
import { isKind } from '../../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { parseYaml } from '../../core/yaml.ts';

const LONGEST = 120;

/**
 * One path segment for an id: everything but letters, digits, `-` and `_` is percent-encoded. A long id, or one with capitals
 * (some file systems ignore case), gets a part of its hash.
 */
export function fileSegment(id: string): string {
  const bytes = Buffer.from(id, 'utf8');
  let name = '';
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    name +=
      /[A-Za-z0-9_-]/.test(character) || (character === '.' && name !== '')
        ? character
        : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  // A lone surrogate has no UTF-8: only a hash over UTF-16 distinguishes such ids.
  const isAmbiguous = name.length > LONGEST || /[A-Z]/.test(id) || !id.isWellFormed() || name === '';
  if (!isAmbiguous) return name;
  const mark = createHash('sha256').update(Buffer.from(id, 'utf16le')).digest('hex').slice(0, 12);
  return `${name.slice(0, LONGEST)}~${mark}`;
}

/** Folders and file of a record below the export's directory, e.g. `organizations/ORG/roles/ID`, without extension. */
export function recordPath(record: {
  readonly source: string | null;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}): string[] {
  const parents = SCOPE_KEYS.flatMap((key) => {
    const value = record.scope[key];
    return value === undefined ? [] : [`${key.replace('_id', '')}-${fileSegment(value)}`];
  });
  return [
    ...(record.source === null ? [] : [fileSegment(record.source)]),
    record.kind,
    ...parents,
    fileSegment(record.id),
  ];
}

/**
 * Where an export would write the record of this YAML, e.g. `members/organization-o/m.yaml`; undefined for any other text.
 * Only reads the part before the body.
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
