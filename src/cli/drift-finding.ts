/** Drift of one source, as `drift` and `drift accept` find it. */
import type { Kind, ResourceDefinition, Severity } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Drift } from '../diff/drift.ts';
import { assessDrift } from '../diff/drift.ts';
import type { IgnoreRule } from '../diff/ignore-rule.ts';
import type { SeverityOf, SeverityRule } from '../diff/severity.ts';
import { severities } from '../diff/severity.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { compareStates } from '../state/compare.ts';
import type { StateFilter } from '../state/filter.ts';
import type { Reference } from '../state/reference.ts';
import { definitionsFor } from './source-definitions.ts';
import type { StateOpener } from './state-opener.ts';
import { isOfMirror } from './state-opener.ts';
import { unlistedKinds } from './unlisted-kinds.ts';

const NOT_CONFIGURED = 'they fill by themselves, which is no drift; name the kind with --kind to compare it';

export interface DriftQuestion {
  readonly source: string;
  readonly from: Reference;
  readonly to: Reference;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  readonly fields: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface SourceDrift extends Drift {
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly severityOf: SeverityOf;
}

/**
 * Compares and judges. Kinds that fill by themselves are left out unless the filter names them: a new recording is no
 * configuration drift.
 * @throws TidemarkError as `compareStates`, and when a state cannot be opened
 */
export async function findDrift(
  config: Config,
  opener: StateOpener,
  question: DriftQuestion,
): Promise<SourceDrift> {
  const { source, from, to, filter, mode, fields, now } = question;
  const definitions = definitionsFor(config, source);
  const { ignore, severities: overrides } = rulesFor(config, source);
  const severityOf = severities(definitions, overrides);
  const left = unlistedKinds().filter((kind) => filter.kinds?.includes(kind) !== true);
  const sides = await opener.openPair(
    { reference: from, source },
    { reference: to, source },
    { filter, except: new Set(left) },
  );
  const diff = compareStates({
    ...sides,
    filter,
    mode,
    fields,
    definitions,
    leaveOut: new Map(filter.kinds === undefined ? left.map((kind) => [kind, NOT_CONFIGURED]) : []),
    ...(isOfMirror(from) && isOfMirror(to) ? { mirror: opener.mirror() } : {}),
  });
  const acceptances = opener.mirrorIfAny()?.acceptances(source) ?? [];
  const drift = assessDrift({ source, diff, rules: ignore, acceptances, severityOf, now });
  return { ...drift, source, definitions, severityOf };
}

function rulesFor(
  config: Config,
  source: string,
): { ignore: readonly IgnoreRule[]; severities: readonly SeverityRule[] } {
  const isHere = (rule: { readonly source?: string | undefined }): boolean =>
    rule.source === undefined || rule.source === source;
  return {
    ignore: config.drift.ignore.filter(isHere).map(({ kind, id, path, reason }) => ({
      ...(kind === undefined ? {} : { kind }),
      ...(id === undefined ? {} : { id }),
      ...(path === undefined ? {} : { path }),
      reason,
    })),
    severities: config.drift.severities.filter(isHere).map(({ kind, path, severity }) => ({
      ...(kind === undefined ? {} : { kind }),
      ...(path === undefined ? {} : { path }),
      severity,
    })),
  };
}

/** True for what matters at least as much as the threshold. */
export function isAtLeast(severity: Severity, threshold: Severity | undefined): boolean {
  const order: readonly Severity[] = ['critical', 'high', 'medium', 'low'];
  return threshold === undefined || order.indexOf(severity) <= order.indexOf(threshold);
}

/** @throws TidemarkError `not_found`, before anything is read, when drift would be measured from a baseline that is not set */
export function requireBaseline(mirror: Mirror, from: Reference): void {
  if (from.form !== 'baseline' || mirror.baseline() !== undefined) return;
  throw new TidemarkError('not_found', 'no baseline is set: there is nothing to measure drift from', {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`; or name one with --from',
  });
}
