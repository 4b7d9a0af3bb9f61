/** What servers put in place of a secret (wire-notes.md, Secrets). Written back, it would destroy the real one. */

/** A text that matches one of these is a mask, not a value. */
export const MASK_PATTERNS: readonly RegExp[] = [
  // "********", "••••••••", "xxxxxxxx" with or without the last characters of the real value.
  /^[*•●]{3,}.{0,8}$/u,
  /^[xX]{8,}.{0,4}$/,
  // "**************** … SECRET FIELD ****************"
  /^\*+.*secret field.*\*+$/i,
  /^[[<({]?(?:redacted|masked|hidden|secret|filtered|omitted)(?:[:=][^\])}>]*)?[\])}>]$/i,
];

/** True for a text that stands in place of a secret. */
export function isMask(text: string, patterns: readonly RegExp[] = MASK_PATTERNS): boolean {
  return patterns.some((pattern) => pattern.test(text));
}
