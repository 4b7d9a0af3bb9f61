/** Records that are parsed when somebody looks into them: most of a state stands on both sides in the same text. */
import type { Kind, Scope } from '../catalog/definition.ts';
import type { JsonValue } from '../core/json.ts';
import { parseLossless } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';

/** A body as received, and as parsed once it was. One may belong to a record of each side. */
export interface BodyText {
  readonly text: string;
  value?: JsonValue;
}

const HELD = Symbol('body text');

/** `body` throws `malformed` as `parseLossless` does, when it is first looked at. */
export function textRecord(
  { kind, scope, id }: { readonly kind: Kind; readonly scope: Scope; readonly id: string },
  held: BodyText,
): ParsedRecord {
  const record: ParsedRecord = {
    kind,
    scope,
    id,
    get body() {
      return (held.value ??= parseLossless(held.text));
    },
  };
  // Not enumerable: a copy of the record, with another body, must not pass for one that holds this text.
  return Object.defineProperty(record, HELD, { value: held });
}

/** True for records of two sides that hold the very same text. False tells nothing. */
export function shareText(one: ParsedRecord, other: ParsedRecord): boolean {
  const held = heldBy(one);
  return held !== undefined && held === heldBy(other);
}

function heldBy(record: ParsedRecord): BodyText | undefined {
  return (record as { readonly [HELD]?: BodyText })[HELD];
}
