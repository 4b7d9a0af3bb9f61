/** JSON pointers (RFC 6901), which name the fields of records everywhere. */
import { type JsonValue, isJsonObject } from './json.ts';

/** Escapes a member name or array index for use between two slashes. */
export function escapeSegment(segment: string): string {
  return segment.includes('~') || segment.includes('/')
    ? segment.replaceAll('~', '~0').replaceAll('/', '~1')
    : segment;
}

/** The pointer of these segments; the empty pointer is the entire document. */
export function pointerTo(segments: readonly string[]): string {
  return segments.map((segment) => `/${escapeSegment(segment)}`).join('');
}

/** One member without escapes, like almost every pointer. */
const PLAIN = /^\/([^/~]+)$/;

/**
 * The decoded segments of a pointer; none for the empty pointer.
 * @throws RangeError if the text is not a pointer: it does not begin with a slash, or a `~` is not `~0` or `~1`
 */
export function splitPointer(pointer: string): string[] {
  if (pointer === '') return [];
  const plain = PLAIN.exec(pointer)?.[1];
  if (plain !== undefined) return [plain];
  if (!pointer.startsWith('/') || /~(?![01])/.test(pointer)) {
    throw new RangeError(`not a JSON pointer: ${JSON.stringify(pointer)}`);
  }
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The value at a pointer; undefined if the document has none there. */
export function resolvePointer(document: JsonValue, pointer: string): JsonValue | undefined {
  let value: JsonValue | undefined = document;
  for (const segment of splitPointer(pointer)) {
    if (Array.isArray(value)) {
      // RFC 6901, 4: an index has no leading zeros, so that every element has only one pointer.
      value = /^(?:0|[1-9][0-9]*)$/.test(segment) ? value[Number(segment)] : undefined;
    } else if (isJsonObject(value)) {
      value = Object.hasOwn(value, segment) ? value[segment] : undefined;
    } else {
      return undefined;
    }
  }
  return value;
}

/** True if the path matches the pattern, in which `*` matches any member or element. */
export function isAt(pattern: readonly string[], path: readonly string[]): boolean {
  return (
    pattern.length === path.length && pattern.every((part, index) => part === '*' || part === path[index])
  );
}
