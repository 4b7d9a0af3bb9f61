/** A plain applier of RFC 6902 `add`, `remove` and `replace`, to prove patches; strict about places that do not exist. */
import { type JsonValue, isJsonObject, setOwn } from '../../src/core/json.ts';
import { splitPointer } from '../../src/core/json-pointer.ts';
import type { patchOperations } from '../../src/report/patch.ts';

export function applyPatch(
  document: JsonValue,
  operations: ReturnType<typeof patchOperations>,
): JsonValue | undefined {
  let root: JsonValue | undefined = structuredCopy(document);
  for (const operation of operations) {
    const segments = splitPointer(operation.path);
    const last = segments.pop();
    if (last === undefined) {
      root = operation.op === 'remove' ? undefined : structuredCopy(operation.value);
      continue;
    }
    let parent: JsonValue | undefined = root;
    for (const segment of segments) {
      if (Array.isArray(parent)) parent = parent[index(segment, parent.length - 1)];
      else if (isJsonObject(parent) && Object.hasOwn(parent, segment)) parent = parent[segment];
      else throw new Error(`no such place: ${operation.path}`);
    }
    if (Array.isArray(parent)) {
      if (operation.op === 'add') {
        parent.splice(index(last, parent.length), 0, structuredCopy(operation.value));
      } else {
        const at = index(last, parent.length - 1);
        if (operation.op === 'remove') parent.splice(at, 1);
        else parent[at] = structuredCopy(operation.value);
      }
    } else if (isJsonObject(parent)) {
      if (operation.op !== 'add' && !Object.hasOwn(parent, last))
        throw new Error(`no such member: ${operation.path}`);
      if (operation.op === 'remove') Reflect.deleteProperty(parent, last);
      else setOwn(parent, last, structuredCopy(operation.value));
    } else {
      throw new Error(`no such place: ${operation.path}`);
    }
  }
  return root;
}

function index(segment: string, most: number): number {
  if (!/^(?:0|[1-9][0-9]*)$/.test(segment) || Number(segment) > most)
    throw new Error(`no such index: ${segment}`);
  return Number(segment);
}

/** `structuredClone` refuses raw numbers and drops nothing else that matters here. */
function structuredCopy(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(structuredCopy);
  if (!isJsonObject(value)) return value;
  const copy = {};
  for (const key of Object.keys(value)) setOwn(copy, key, structuredCopy(value[key]!));
  return copy;
}
