/** Finds and replaces places inside JSON values, without changing the original. */
import { pointerTo, splitPointer, escapeSegment } from '../core/json-pointer.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';

/** The value with the member at these segments replaced, or removed if `undefined`. Missing objects on the way are created. */
export function withMember(
  value: JsonValue | undefined,
  segments: readonly string[],
  replacement: JsonValue | undefined,
): JsonValue | undefined {
  const [segment, ...rest] = segments;
  if (segment === undefined) return replacement;
  if (Array.isArray(value)) {
    return value.flatMap((element, index) => {
      if (String(index) !== segment) return [element];
      const inner = withMember(element, rest, replacement);
      return inner === undefined ? [] : [inner];
    });
  }
  if (!isJsonObject(value) && replacement === undefined) return value;
  const source = isJsonObject(value) ? value : {};
  const inner = withMember(getOwn(source, segment), rest, replacement);
  // Spreading and `fromEntries` treat a member called `__proto__` like any other.
  if (inner !== undefined) return { ...source, [segment]: inner };
  return Object.fromEntries(Object.entries(source).filter(([name]) => name !== segment));
}

/** Pointers of the existing places that match a pattern; `*` is any member or element. */
export function placesOf(value: JsonValue, pattern: string): string[] {
  const found: string[] = [];
  const walk = (at: JsonValue, rest: readonly string[], path: readonly string[]): void => {
    const [segment, ...more] = rest;
    if (segment === undefined) {
      found.push(pointerTo(path));
    } else if (Array.isArray(at)) {
      at.forEach((element, index) => {
        if (segment === '*' || segment === String(index)) walk(element, more, [...path, String(index)]);
      });
    } else if (isJsonObject(at)) {
      for (const name of segment === '*' ? Object.keys(at) : [segment]) {
        const member = getOwn(at, name);
        if (member !== undefined) walk(member, more, [...path, name]);
      }
    }
  };
  walk(value, splitPointer(pattern), []);
  return found;
}

/**
 * Pointers of the values inside a value that the test accepts, sorted; of nested ones only the outer.
 * @param test also gets the last segment of the pointer; undefined for the value itself
 */
export function placesWhere(
  value: JsonValue,
  test: (value: JsonValue, segment: string | undefined) => boolean,
): string[] {
  const found: string[] = [];
  const stack: { value: JsonValue; path: readonly string[] }[] = [{ value, path: [] }];
  for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
    const { value: here, path } = at;
    if (test(here, path.at(-1))) found.push(pointerTo(path));
    else if (Array.isArray(here)) {
      here.forEach((element, index) => stack.push({ value: element, path: [...path, String(index)] }));
    } else if (isJsonObject(here)) {
      for (const [name, member] of Object.entries(here)) stack.push({ value: member, path: [...path, name] });
    }
  }
  return found.sort();
}

/** Pointers of every text in a value that the test accepts. */
export function textsWhere(value: JsonValue, test: (text: string) => boolean): string[] {
  return placesWhere(value, (here) => typeof here === 'string' && test(here));
}

/** The top-level member of a pointer. */
export function topMember(pointer: string): string {
  return (pointer.split('/')[1] ?? '').replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The pointer of a top-level member. */
export function memberPointer(name: string): string {
  return `/${escapeSegment(name)}`;
}
