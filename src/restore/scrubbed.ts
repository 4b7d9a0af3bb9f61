/** A response may repeat what was sent: its secrets are removed before it is stored. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { HIDDEN } from './secret-values.ts';

/** What a service or a shortened message may put between the parts of a text: escapes, quotes, line ends. */
const BETWEEN = '[^]{0,8}?';
const BREAKS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s"'\\/]+/u;
/** The shortest start of a secret at the end of a shortened message that is one beyond doubt, characters. */
const LEAST_START = 4;

/** The text without these values, whole or, where it was cut off at its end, as far as they go. */
export function scrubbed(text: string, values: readonly string[]): string {
  const known = [...new Set(values)].filter((value) => value.trim() !== '');
  const longestFirst = known.sort((a, b) => b.length - a.length);
  let clean = text;
  for (const value of longestFirst) {
    const parts = value.split(BREAKS).filter((part) => part !== '');
    // Only marks: unchanged.
    const pattern = (parts.length === 0 ? [value] : parts).map(escaped).join(BETWEEN);
    clean = clean.replaceAll(new RegExp(pattern, 'giu'), HIDDEN);
  }
  return clean.endsWith('…') ? longestFirst.reduce(withoutStart, clean) : clean;
}

function escaped(part: string): string {
  return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

function withoutStart(text: string, value: string): string {
  const body = text.slice(0, -1).trimEnd();
  const line = value.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  for (let length = Math.min(line.length, body.length); length >= LEAST_START; length -= 1) {
    if (body.endsWith(line.slice(0, length).trimEnd())) {
      return `${body.slice(0, body.length - line.slice(0, length).trimEnd().length)}${HIDDEN}…`;
    }
  }
  return text;
}

/** The outcome of a request with the secrets that were sent taken out of what the service said. */
export function scrubbedOutcome<T extends { readonly outcome: string; readonly error?: TidemarkError }>(
  outcome: T,
  values: readonly string[],
): T {
  const { error } = outcome;
  if (error === undefined || values.length === 0) return outcome;
  const { hint, isRetryable, status, permission, retryAfterMs, field } = error;
  // Without its cause: that one has the message too.
  const clean = new TidemarkError(error.code, scrubbed(error.message, values), {
    isRetryable,
    ...(hint === undefined ? {} : { hint: scrubbed(hint, values) }),
    ...(status === undefined ? {} : { status }),
    ...(permission === undefined ? {} : { permission: scrubbed(permission, values) }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(field === undefined ? {} : { field: scrubbed(field, values) }),
  });
  return { ...outcome, error: clean };
}

const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi;

/** What the service said, for logs and stderr: without ids that are secrets (an invite's is its sign-up link). */
export function withoutSecretIds(text: string, definitions: readonly ResourceDefinition[]): string {
  const isSecret = definitions.some(({ fields, idPath }) =>
    fields.some((field) => field.isSecret && field.name === idPath.at(-1)),
  );
  return isSecret ? text.replaceAll(UUID, HIDDEN) : text;
}
