/**
 * How much a change matters.
 *
 * | change | severity |
 * |---|---|
 * | of a field | that of its top-level field in the catalog; medium if the catalog does not know it |
 * | record added | high if its kind has a critical field, else medium; low for kinds that users do not configure (feeds) |
 * | record removed | critical if other collections are below its kind, else high; low for feeds |
 *
 * The severity of a record's change is the highest among its parts. The first rule that matches overrides it.
 */
import { CATALOG } from '../catalog/catalog.ts';
import { type Severity, SEVERITIES } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import { rulePattern } from './rules.ts';
import { splitPointer } from '../core/json-pointer.ts';

/** Negative when `a` is the graver one. */
export function compareSeverities(a: Severity, b: Severity): number {
  return SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b);
}

/** The worst of these; low if there are none. */
export function worst(severities: Iterable<Severity>): Severity {
  return [...severities].sort(compareSeverities)[0] ?? 'low';
}

/** Overrides a severity. Without `path`, the rule is for additions and removals of records. */
export interface SeverityRule {
  readonly kind?: Kind;
  /** A pattern as in `rulePattern`. */
  readonly path?: string;
  readonly severity: Severity;
}

/** Severity of one field's change (`field` given), or of a record that came or went (`field` null). */
export type SeverityOf = (change: RecordChange, field: FieldChange | null) => Severity;

/**
 * The severities in force.
 * @throws TidemarkError `config_invalid` when a rule's path is not a JSON pointer
 */
export function severities(
  definitions: (kind: Kind) => ResourceDefinition,
  rules: readonly SeverityRule[] = [],
): SeverityOf {
  const compiled = rules.map((rule) => ({
    rule,
    pattern: rule.path === undefined ? null : rulePattern(rule.path),
  }));
  return (change, field) => {
    const override = compiled.find(
      ({ rule, pattern }) =>
        (rule.kind === undefined || rule.kind === change.kind) &&
        (field === null ? pattern === null : pattern?.matches(field) === true),
    );
    if (override !== undefined) return override.rule.severity;
    const definition = definitions(change.kind);
    return field === null ? recordSeverity(definition, change.change) : fieldSeverity(definition, field);
  };
}

/** The severity of a record's change as a whole. */
export function changeSeverity(change: RecordChange, severityOf: SeverityOf): Severity {
  return change.change === 'changed'
    ? worst(change.fields.map((field) => severityOf(change, field)))
    : severityOf(change, null);
}

function fieldSeverity(definition: ResourceDefinition, field: FieldChange): Severity {
  const name = splitPointer(field.path)[0];
  // A field that the catalog does not know may be a setting of a family whose payload is not documented.
  return definition.fieldsByName.get(name ?? '')?.severity ?? 'medium';
}

function recordSeverity(definition: ResourceDefinition, change: RecordChange['change']): Severity {
  if (definition.reading === 'feed') return 'low';
  if (change === 'removed') {
    const isParent = CATALOG.some((row) => row.discovery.from === definition.kind);
    return isParent ? 'critical' : 'high';
  }
  return definition.fields.some((field) => field.severity === 'critical') ? 'high' : 'medium';
}
