/** Rules of the configuration about drift: what to ignore and why, and the patterns that select fields. */
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import { TidemarkError } from '../core/errors.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { type FieldChange, placeOf } from './compare.ts';

/**
 * At least one of kind, id and path is given; all that are given must match. A path of only wildcards also needs a kind
 * or an id.
 */
export interface IgnoreRule {
  readonly kind?: Kind;
  readonly id?: string;
  /** A pattern as in `fieldPattern`. With it the rule never hides that a record came or went. */
  readonly path?: string;
  /** Why: shown with everything that the rule hides. */
  readonly reason: string;
}

/** What rules go by of a record, and of the change of a field. */
type RuledRecord = Pick<RecordKey, 'kind' | 'id'>;
type RuledField = Pick<FieldChange, 'path' | 'place'>;

/** The rules, ready to be asked; each answers with the first that fits. */
export interface IgnoreTest {
  /** What hides a field's change (`field` given) or a record's coming or going (`field` null). */
  readonly hides: (record: RuledRecord, field: RuledField | null) => IgnoreRule | undefined;
  /** A rule that hides nothing here, and only because it names an element by the index where it is. */
  readonly misses: (record: RuledRecord, field: RuledField | null) => IgnoreRule | undefined;
}

/**
 * The rules, ready to be asked.
 * @throws TidemarkError `config_invalid` when a rule has no reason, would hide everything, or has a path that is not a
 * pointer
 */
export function ignoreTest(rules: readonly IgnoreRule[]): IgnoreTest {
  const compiled = rules.map((rule) => {
    checkRule(rule);
    return { rule, pattern: rule.path === undefined ? null : rulePattern(rule.path) };
  });
  const isAbout = (rule: IgnoreRule, { kind, id }: RuledRecord): boolean =>
    (rule.kind === undefined || rule.kind === kind) && (rule.id === undefined || rule.id === id);
  return {
    hides: (record, field) =>
      compiled.find(
        ({ rule, pattern }) =>
          isAbout(rule, record) && (pattern === null || (field !== null && pattern.matches(field))),
      )?.rule,
    misses: (record, field) =>
      compiled.find(
        ({ rule, pattern }) => isAbout(rule, record) && field !== null && pattern?.byIndex(field) === true,
      )?.rule,
  };
}

function checkRule({ kind, id, path, reason }: IgnoreRule): void {
  if (reason.trim() === '') {
    throw new TidemarkError('config_invalid', 'an ignore rule has no reason', {
      hint: 'give the reason in `reason`; reports show it',
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

/** Compiles a rule's path; a mistake is one of the configuration. */
export function rulePattern(path: string): FieldPattern {
  try {
    return fieldPattern(path);
  } catch (error) {
    throw new TidemarkError(
      'config_invalid',
      `a rule's path is not a JSON pointer: ${JSON.stringify(path)}`,
      {
        hint: 'write it with a slash in front, `*` for one segment and `**` for any number: /destination/config/*',
        cause: error,
      },
    );
  }
}

// Patterns over JSON pointers: `*` is one segment, `**` any number of them.

/** Whether the pattern matches a pointer or a place above it. */
type PathPattern = (path: string) => boolean;

/**
 * A pattern is a JSON pointer in which a segment `*` stands for any one segment and `**` for any number of them, none
 * included. It matches the places it names and everything below them, never a place above: a rule for
 * `/destination/config` does not match a change that replaces `/destination`.
 * @throws RangeError when the text is not a pointer
 */
function pathPattern(pattern: string): PathPattern {
  const parts = splitPointer(pattern);
  return (path) => matches(parts, splitPointer(path));
}

/** Asked for a change's place; `byIndex` is called for a pattern that matches only by an element's present index. */
interface FieldPattern {
  readonly matches: (field: RuledField) => boolean;
  readonly byIndex: (field: RuledField) => boolean;
}

/**
 * A pattern over the places of changes: an element that is matched by its id is named by `[id=…]` or `*`. An index
 * never fits one, since another element may be there tomorrow.
 * @throws RangeError when the text is not a pointer
 */
function fieldPattern(pattern: string): FieldPattern {
  const matchesPath = pathPattern(pattern);
  const matchesField: FieldPattern['matches'] = (field) => matchesPath(placeOf(field));
  return {
    matches: matchesField,
    byIndex: (field) => field.place !== undefined && matchesPath(field.path) && !matchesField(field),
  };
}

/** True where no segment of the pattern names anything: it fits every field, or every field so deep. */
function isWidePattern(pattern: string): boolean {
  return splitPointer(pattern).every((part) => part === '*' || part === '**');
}

/** All positions of the pattern that can be reached are advanced together: no backtracking, whatever the pattern. */
function matches(parts: readonly string[], segments: readonly string[]): boolean {
  let positions = closure(parts, new Set([0]));
  for (const segment of segments) {
    if (positions.has(parts.length)) return true;
    const next = new Set<number>();
    for (const position of positions) {
      const part = parts[position];
      if (part === '**') next.add(position);
      else if (part === '*' || part === segment) next.add(position + 1);
    }
    positions = closure(parts, next);
  }
  return positions.has(parts.length);
}

/** Adds the positions behind each `**`, which may stand for nothing. */
function closure(parts: readonly string[], positions: Set<number>): Set<number> {
  for (const position of positions) if (parts[position] === '**') positions.add(position + 1);
  return positions;
}
