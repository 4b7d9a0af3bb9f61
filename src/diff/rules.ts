/** Ignore rules of the configuration for drift, and the patterns by which rules select fields. */
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import { TidemarkError } from '../core/errors.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { type FieldChange, placeOf } from './compare.ts';

/**
 * At least one of kind, id and path is given; all that are given must match. A path of wildcards only also needs a kind or an id.
 */
export interface IgnoreRule {
  readonly kind?: Kind;
  readonly id?: string;
  /** A pattern as in `rulePattern`. A rule with a path never hides that a record came or went. */
  readonly path?: string;
  /** Shown with everything that the rule hides. */
  readonly reason: string;
}

type RuledRecord = Pick<RecordKey, 'kind' | 'id'>;
type RuledField = Pick<FieldChange, 'path' | 'place'>;

/** The compiled rules. Each test returns the first rule that fits. */
export interface IgnoreTest {
  /** The rule that hides a field's change (`field` given), or that a record came or went (`field` null). */
  readonly hides: (record: RuledRecord, field: RuledField | null) => IgnoreRule | undefined;
  /** A rule that hides nothing here, and only because it names an element by its present index. */
  readonly misses: (record: RuledRecord, field: RuledField | null) => IgnoreRule | undefined;
}

/**
 * Compiles the rules.
 * @throws TidemarkError `config_invalid` when a rule has no reason, would hide everything, or has a path that is not a pointer
 */
export function ignoreTest(rules: readonly IgnoreRule[]): IgnoreTest {
  const compiled = rules.map((rule) => ({ rule, pattern: checkedPattern(rule) }));
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

/** The pattern of a rule; null if it has no path. */
function checkedPattern({ kind, id, path, reason }: IgnoreRule): FieldPattern | null {
  if (reason.trim() === '') {
    throw new TidemarkError('config_invalid', 'an ignore rule has no reason', {
      hint: 'give the reason in `reason`; reports show it',
    });
  }
  const pattern = path === undefined ? null : rulePattern(path);
  if (kind !== undefined || id !== undefined) return pattern;
  if (path === undefined) {
    throw new TidemarkError(
      'config_invalid',
      'an ignore rule names no kind, id or path: it would hide everything',
      { hint: 'give the rule a kind, an id or a path' },
    );
  }
  if (splitPointer(path).every((part) => part === '*' || part === '**')) {
    throw new TidemarkError(
      'config_invalid',
      `an ignore rule for ${path} names no field: it would hide every change`,
      { hint: 'give the rule a kind or an id, or name a field in its path' },
    );
  }
  return pattern;
}

/** A compiled pattern over the places of changes. */
interface FieldPattern {
  readonly matches: (field: RuledField) => boolean;
  /** True if the pattern matches only by an element's present index. */
  readonly byIndex: (field: RuledField) => boolean;
}

/**
 * Compiles a pattern: a JSON pointer in which a segment `*` stands for any one segment and `**` for any number of them, also none. It
 * matches the places that it names and everything below them, never a place above: a rule for `/destination/config` does not match a
 * change that replaces `/destination`. An element that is matched by its id is named by `[id=…]` or `*`, never by its index, since
 * another element may be there tomorrow.
 * @throws TidemarkError `config_invalid` when the path is not a pointer
 */
export function rulePattern(path: string): FieldPattern {
  const parts = patternParts(path);
  const matchesPath = (pointer: string): boolean => matches(parts, splitPointer(pointer));
  const matchesField = (field: RuledField): boolean => matchesPath(placeOf(field));
  return {
    matches: matchesField,
    byIndex: (field) => field.place !== undefined && matchesPath(field.path) && !matchesField(field),
  };
}

function patternParts(path: string): string[] {
  try {
    return splitPointer(path);
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

/** Advances all reachable positions of the pattern together: no backtracking, whatever the pattern. */
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

/** Adds the position after each `**`, which may stand for nothing. */
function closure(parts: readonly string[], positions: Set<number>): Set<number> {
  for (const position of positions) if (parts[position] === '**') positions.add(position + 1);
  return positions;
}
