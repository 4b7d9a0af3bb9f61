/** Places inside JSON values: visited, read and set without touching the original. */
import { pointerTo, splitPointer, escapeSegment } from '../core/json-pointer.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';

/** The value with the member at these segments replaced; `undefined` drops it. Objects on the way are made. */
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
  const copy: JsonObject = {};
  const source = isJsonObject(value) ? value : {};
  for (const name of Object.keys(source)) {
    if (name !== segment) setOwn(copy, name, getOwn(source, name) ?? null);
    else {
      const inner = withMember(getOwn(source, name), rest, replacement);
      if (inner !== undefined) setOwn(copy, name, inner);
    }
  }
  if (!Object.hasOwn(source, segment)) {
    const inner = withMember(undefined, rest, replacement);
    if (inner !== undefined) setOwn(copy, segment, inner);
  }
  return copy;
}

/** Pointers of the existing places that a pattern names; `*` is every member or element. */
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

/** Pointers of every text in a value that the test accepts. */
export function textsWhere(value: JsonValue, test: (text: string) => boolean): string[] {
  const found: string[] = [];
  const stack: { value: JsonValue; path: readonly string[] }[] = [{ value, path: [] }];
  for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
    const { value: here, path } = at;
    if (typeof here === 'string') {
      if (test(here)) found.push(pointerTo(path));
    } else if (Array.isArray(here)) {
      here.forEach((element, index) => stack.push({ value: element, path: [...path, String(index)] }));
    } else if (isJsonObject(here)) {
      for (const name of Object.keys(here)) {
        const member = getOwn(here, name);
        if (member !== undefined) stack.push({ value: member, path: [...path, name] });
      }
    }
  }
  return found.sort();
}

/** The top-level member that a pointer leads into. */
export function topMember(pointer: string): string {
  return (pointer.split('/')[1] ?? '').replaceAll('~1', '/').replaceAll('~0', '~');
}

/** The pointer of a top-level member. */
export function memberPointer(name: string): string {
  return `/${escapeSegment(name)}`;
}
