/** Records that are parsed when somebody looks into them: most of a state stands on both sides in the same text. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';

/** A body as received, and as parsed once it was. One may belong to a record of each side. */
export interface BodyText {
  readonly text: string;
  value?: JsonValue;
}

type Place = Pick<ParsedRecord, 'kind' | 'scope' | 'id'>;

/** One getter for all of a hundred thousand records; a member of each, so that a copy made by spreading has a body too. */
const BODY = {
  enumerable: true,
  get(this: TextRecord): JsonValue {
    return this.parsed();
  },
};

class TextRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  declare readonly body: JsonValue;
  readonly #held: BodyText;

  constructor({ kind, scope, id }: Place, held: BodyText) {
    this.kind = kind;
    this.scope = scope;
    this.id = id;
    this.#held = held;
    Object.defineProperty(this, 'body', BODY);
  }

  parsed(): JsonValue {
    return (this.#held.value ??= parseLossless(this.#held.text));
  }

  static heldBy(record: ParsedRecord): BodyText | undefined {
    return #held in record ? record.#held : undefined;
  }
}

/** `body` throws `malformed` as `parseLossless` does, when it is first looked at. */
export function textRecord(place: Place, held: BodyText): ParsedRecord {
  return new TextRecord(place, held);
}

/** True for records of two sides that hold the very same text. False tells nothing. */
export function shareText(one: ParsedRecord, other: ParsedRecord): boolean {
  const held = TextRecord.heldBy(one);
  return held !== undefined && held === TextRecord.heldBy(other);
}
