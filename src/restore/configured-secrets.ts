/** Secrets that the configuration supplies for records whose own ones the service never shows. */
import type { SecretRule } from '../config/config.ts';
import type { Secret } from '../core/secret.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { idText } from '../diff/match-records.ts';
import { resolvePointer } from '../core/json-pointer.ts';

export interface SecretLookup {
  /**
   * The value for that place of the record; undefined where the configuration has none.
   * @param isNamed only from a rule that says which records of the kind it is for; false when left out
   */
  find(record: ParsedRecord, pointer: string, isNamed?: boolean): Secret | undefined;
}

export const NO_SECRETS: SecretLookup = { find: () => undefined };

/** The first rule that matches a record and has the pointer wins, so that narrow rules go first. */
export function configuredSecrets(rules: readonly SecretRule[]): SecretLookup {
  const byKind = Map.groupBy(rules, (rule) => rule.kind);
  return {
    find: (record, pointer, isNamed = false) =>
      byKind
        .get(record.kind)
        ?.find(
          (rule) =>
            Object.hasOwn(rule.values, pointer) &&
            (!isNamed || Object.keys(rule.match).length > 0) &&
            matches(rule.match, record),
        )?.values[pointer],
  };
}

function matches(match: SecretRule['match'], record: ParsedRecord): boolean {
  return Object.entries(match).every(([pointer, text]) => {
    const value = resolvePointer(record.body, pointer);
    return value !== undefined && idText(value) === text;
  });
}
