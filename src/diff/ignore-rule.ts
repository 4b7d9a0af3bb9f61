/** Drift that the configuration says not to report, each rule with its reason. */
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { isWidePattern } from './path-pattern.ts';
import { rulePattern } from './severity.ts';

/**
 * At least one of kind, id and path is given; those that are must all fit. A path of wildcards alone needs a kind or an
 * id beside it.
 */
export interface IgnoreRule {
  readonly kind?: Kind;
  readonly id?: string;
  /** A pattern as in `fieldPattern`. With it the rule never hides that a record came or went. */
  readonly path?: string;
  /** Why: shown with everything that the rule hides. */
  readonly reason: string;
}

/** The rules, ready to be asked; each answers with the first that fits. */
interface IgnoreTest {
  /** What hides a field's change (`field` given) or a record's coming or going (`field` null). */
  hides(change: RecordChange, field: FieldChange | null): IgnoreRule | undefined;
  /** A rule that hides nothing here, and only because it names an element by the index where it is. */
  misses(change: RecordChange, field: FieldChange | null): IgnoreRule | undefined;
}

/**
 * The rules, ready to be asked.
 * @throws TidemarkError `config_invalid` when a rule has no reason, would hide everything, or has a path that is no
 * pointer
 */
export function ignoreTest(rules: readonly IgnoreRule[]): IgnoreTest {
  const compiled = rules.map((rule) => {
    checkRule(rule);
    return { rule, pattern: rule.path === undefined ? null : rulePattern(rule.path) };
  });
  const isAbout = (rule: IgnoreRule, change: RecordChange): boolean =>
    (rule.kind === undefined || rule.kind === change.kind) &&
    (rule.id === undefined || rule.id === change.id);
  return {
    hides: (change, field) =>
      compiled.find(
        ({ rule, pattern }) =>
          isAbout(rule, change) && (pattern === null || (field !== null && pattern.matches(field))),
      )?.rule,
    misses: (change, field) =>
      compiled.find(
        ({ rule, pattern }) => isAbout(rule, change) && field !== null && pattern?.byIndex(field) === true,
      )?.rule,
  };
}

function checkRule({ kind, id, path, reason }: IgnoreRule): void {
  if (reason.trim() === '') {
    throw new TidemarkError('config_invalid', 'an ignore rule has no reason', {
      hint: 'say in `reason` why this drift does not matter: whoever reads the report sees it',
    });
  }
  if (kind !== undefined || id !== undefined) return;
  if (path === undefined) {
    throw new TidemarkError(
      'config_invalid',
      'an ignore rule names no kind, id or path: it would hide everything',
      { hint: 'give the rule a kind, an id or a path' },
    );
  }
  rulePattern(path);
  if (isWidePattern(path)) {
    throw new TidemarkError(
      'config_invalid',
      `an ignore rule for ${path} names no field: it would hide every change`,
      { hint: 'give the rule a kind or an id, or name a field in its path' },
    );
  }
}
