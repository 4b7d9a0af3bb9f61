/** Drift that the configuration says not to report, each rule with its reason. */
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { rulePattern } from './severity.ts';

/** At least one of kind, id and path is given; those that are must all fit. */
export interface IgnoreRule {
  readonly kind?: Kind;
  readonly id?: string;
  /** A pattern as in `pathPattern`. With it the rule never hides that a record came or went. */
  readonly path?: string;
  /** Why: shown with everything that the rule hides. */
  readonly reason: string;
}

/** The first rule that hides a field's change (`field` given) or a record's coming or going (`field` null). */
export type IgnoreTest = (change: RecordChange, field: FieldChange | null) => IgnoreRule | undefined;

/**
 * The rules, ready to be asked.
 * @throws TidemarkError `config_invalid` when a rule has no reason, would hide everything, or has a path that is no
 * pointer
 */
export function ignoreTest(rules: readonly IgnoreRule[]): IgnoreTest {
  const compiled = rules.map((rule) => {
    if (rule.reason.trim() === '') {
      throw new TidemarkError('config_invalid', 'an ignore rule has no reason', {
        hint: 'say in `reason` why this drift does not matter: whoever reads the report sees it',
      });
    }
    if (rule.kind === undefined && rule.id === undefined && rule.path === undefined) {
      throw new TidemarkError(
        'config_invalid',
        'an ignore rule names no kind, id or path: it would hide everything',
        {
          hint: 'give the rule a kind, an id or a path',
        },
      );
    }
    return { rule, matches: rule.path === undefined ? null : rulePattern(rule.path) };
  });
  return (change, field) =>
    compiled.find(
      ({ rule, matches }) =>
        (rule.kind === undefined || rule.kind === change.kind) &&
        (rule.id === undefined || rule.id === change.id) &&
        (matches === null || (field !== null && matches(field.path))),
    )?.rule;
}
