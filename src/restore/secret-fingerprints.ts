/** `redact: true`: whether a configured secret is the one that was recorded, told by the fingerprint that stands in its place. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { resolvePointer, splitPointer } from '../diff/pointer.ts';
import { type Redaction, isRedacted } from '../sync/redaction.ts';
import { withMember } from './places.ts';
import type { PlanInput } from './plan-input.ts';

/** For `PlanInput.fingerprint`: the value as the mirror would hold it at that place. */
export function fingerprintsOf(
  redaction: Redaction,
  definitions: (kind: Kind) => ResourceDefinition,
): NonNullable<PlanInput['fingerprint']> {
  return (kind, pointer, secret) => {
    const body = withMember({}, splitPointer(pointer), secret) ?? {};
    const held = resolvePointer(
      parseLossless(redaction.text(definitions(kind), JSON.stringify(body))),
      pointer,
    );
    return typeof held === 'string' && isRedacted(held) ? held : undefined;
  };
}

/** True where the configuration has another secret for the place than the fingerprint that was recorded there. */
export function isOtherThanRecorded(
  { fingerprint, secrets }: PlanInput,
  record: ParsedRecord,
  pointer: string,
  recorded: JsonValue | undefined,
): boolean {
  if (fingerprint === undefined || typeof recorded !== 'string' || !isRedacted(recorded)) return false;
  const given = secrets.find(record, pointer);
  return given !== undefined && fingerprint(record.kind, pointer, given.reveal()) !== recorded;
}

/** True for a secret that differs from the recorded one and is what the configuration would have it set to. */
export function isAsConfigured(
  { fingerprint, secrets }: PlanInput,
  record: ParsedRecord,
  { path, from, to }: FieldChange,
): boolean {
  if (fingerprint === undefined || typeof from !== 'string' || typeof to !== 'string') return false;
  if (!isRedacted(from) || !isRedacted(to)) return false;
  const given = secrets.find(record, path);
  return given !== undefined && fingerprint(record.kind, path, given.reveal()) === from;
}

/** What a step tells of secrets that are not those that were recorded; null where there are none. */
export function otherSecretsText(pointers: readonly string[]): string | null {
  if (pointers.length === 0) return null;
  return `the configuration has another secret for ${pointers.join(', ')} than was recorded: that one is sent`;
}

export function asConfiguredText(paths: readonly string[]): string {
  return `live has the secret of the configuration at ${paths.join(', ')}, which is not the one that was recorded`;
}
