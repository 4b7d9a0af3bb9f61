/** The JSON document `tidemark.drift/1`, for the command line and the daemon. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SEVERITIES } from '../catalog/definition.ts';
import { defined } from '../core/defined.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { type JsonObject, type JsonValue, isJsonObject, setOwn } from '../core/json.ts';
import type { Acceptance, Drift, Finding, OpenFinding } from '../diff/drift.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import type { StateReference } from '../diff/change.ts';
import type { Measured } from '../mirror/acceptances.ts';
import type { SnapshotRow } from '../mirror/snapshots.ts';
import type { Sealed } from '../state/intact.ts';
import { isMaskedChange, maskedAt, MASKED_CHANGE, maskedId, maskedPlace, withMaskedId } from './mask.ts';
import { foldedPair, foldedValue, foldedValues, nameText } from './value-text.ts';

/** Drift of one source, with the definitions of that source. */
interface ShownDrift extends Drift {
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

interface DriftDocumentOptions {
  /** The number of open findings below the requested severity, which are left out. */
  readonly below: number;
  readonly showsSecrets: boolean;
  /** The newest run of the source, if it failed and TO is the state before it (`failedRunDocument`). */
  readonly failedRun: object | null;
  /** A run with its root hash, which identifies the mirror; null if there is none. */
  readonly head: Sealed | null;
  /** The newest restore whose changes TO does not have yet; null if there is none. */
  readonly restoredSince: number | null;
}

/**
 * `{schema, source, from, to, head, failed_run, restored_since, compared, skipped, stale, left_out, schema_changes: [{kind,
 * field, change, before, after, runs, records}], findings: [{fingerprint, severity, kind, scope, id, name, change, path,
 * place?, moved?, from?, to?, reopened?}], accepted: [finding with acceptance], ignored: [finding with rule], withdrawable,
 * summary}`. In the summary, `open`, `findings` and the severities count findings; everything else counts records, whose sum
 * is `compared.records`. `place` is given if `path` leads through an element with an id; it is the `path` of acceptances.
 * `path` is empty for an added or removed record, whose value is an object of its fields by pointer.
 */
export function driftDocument(
  drift: ShownDrift,
  { below, showsSecrets, failedRun, head, restoredSince }: DriftDocumentOptions,
): object {
  const { document, open, accepted, ignored, stale, definitions } = drift;
  const shown = (finding: Finding): Finding => (showsSecrets ? finding : maskedFinding(drift, finding));
  return {
    schema: 'tidemark.drift/1',
    source: drift.source,
    from: document.from,
    to: document.to,
    head,
    failed_run: failedRun,
    restored_since: restoredSince,
    compared: document.compared,
    skipped: document.skipped,
    stale: document.stale ?? [],
    left_out: document.left_out ?? [],
    ...defined({
      volatile_unknown: document.volatile_unknown,
      volatile_fields: document.volatile_fields,
    }),
    schema_changes: drift.forms.map(formDocument),
    findings: open.map((finding) => withReopened(shown(finding), finding)),
    accepted: accepted.map(({ finding, acceptance }) => ({
      ...shown(finding),
      acceptance: acceptanceDocument(acceptance),
    })),
    ignored: ignored.map(({ finding, rule }) => ({ ...shown(finding), rule })),
    withdrawable: stale.map((acceptance) => {
      const { kind, scope, id, path } = acceptance;
      return {
        kind,
        scope,
        id: showsSecrets ? id : maskedId(id, definitions(kind)),
        path: showsSecrets ? path : maskedPlace(path, definitions(kind)),
        ...acceptanceDocument(acceptance),
      };
    }),
    summary: {
      open: open.length,
      findings: {
        open: open.length,
        accepted: accepted.length,
        ignored: ignored.length,
        below_threshold: below,
      },
      ...severityCounts(open),
      ...document.summary,
    },
  };
}

function formDocument({ kind, field, change, before, after, runs, records }: ExplainedForm): object {
  return { kind, field, change, before, after, runs, records };
}

export function acceptanceDocument({ fingerprint, reason, acceptedAt, by, via, until }: Acceptance): object {
  return { fingerprint, reason, accepted_at: acceptedAt, by, via, until: until ?? null };
}

/** Why a finding is open although the mirror has an acceptance of it. */
export const CONTRADICTED = 'the audit log does not prove its acceptance';

/** How an acceptance contradicts the audit log; null if it does not. Ids, which may be secret, are left out. */
export function contradictionText(
  { kind, path, contradiction, isGone }: Acceptance,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): string | null {
  if (contradiction === undefined) return null;
  const place = path === '' ? 'an entire record' : maskedPlace(path, definitions(kind));
  const wayOut = isGone === true ? '; accept it again, or withdraw it with `tidemark drift unaccept`' : '';
  return `the acceptance of ${place} of ${source} (${kind}) ${contradiction}${wayOut}`;
}

/** How many findings there are of each severity. */
export function severityCounts(
  findings: readonly Pick<Finding, 'severity'>[],
): Record<Finding['severity'], number> {
  return Object.fromEntries(
    SEVERITIES.map((level) => [level, findings.filter(({ severity }) => severity === level).length]),
  ) as Record<Finding['severity'], number>;
}

/** A finding with what is secret in it replaced: values, ids, places. */
export function maskedFinding({ definitions }: Pick<ShownDrift, 'definitions'>, finding: Finding): Finding {
  const definition = definitions(finding.kind);
  const { from, to, path } = finding;
  const value = (of: JsonValue): JsonValue => maskedSide(path, of, definition, finding.change !== 'changed');
  return withMaskedId(
    {
      ...finding,
      path: maskedPlace(path, definition),
      ...defined({
        place: finding.place && maskedPlace(finding.place, definition),
        from: from === undefined ? undefined : value(from),
        to: to === undefined ? undefined : value(to),
      }),
    },
    definition,
  );
}

/** The value of an entire record is an object of its fields by pointer. */
function maskedSide(
  path: string,
  value: JsonValue,
  definition: ResourceDefinition,
  isWhole: boolean,
): JsonValue {
  if (!isWhole || !isJsonObject(value)) return maskedAt(path, value, definition);
  const whole: JsonObject = {};
  for (const [pointer, field] of Object.entries(value))
    setOwn(whole, maskedPlace(pointer, definition), maskedAt(pointer, field, definition));
  return whole;
}

/** Characters of an accepted value, as JSON, in the audit log. */
const MEASURED_LIMIT = 1_000;
/** Characters for the value itself: the rest is for the marks of gaps. */
const MEASURED_SHARE = 850;
/** The reference of the baseline. */
const BASELINE = 'baseline';

/**
 * What is accepted with a finding, for the audit log: secrets masked, long values shortened so that their difference stays.
 * @param baseline the current baseline: named if it is the state that was compared
 */
export function measuredOf(
  drift: Pick<ShownDrift, 'definitions' | 'document'>,
  finding: Finding,
  baseline: Pick<SnapshotRow, 'name' | 'run'> | undefined,
): Measured {
  const { from, to, change } = maskedFinding(drift, finding);
  const isShortened = [from, to].some(
    (value) => value !== undefined && JSON.stringify(value).length > MEASURED_LIMIT,
  );
  const [before, after] = isShortened
    ? foldedValues(from, to, MEASURED_SHARE).map((text) => cut(text, MEASURED_LIMIT))
    : [from, to];
  const { from: fromState, to: toState } = drift.document;
  const isBaseline = fromState.ref === BASELINE && fromState.run === baseline?.run;
  return {
    change,
    ...(from === undefined || before === undefined ? {} : { from: before }),
    ...(to === undefined || after === undefined ? {} : { to: after }),
    ...(isShortened ? { shortened: true } : {}),
    baseline: { ...stateOf(fromState), ...(isBaseline ? defined({ name: baseline?.name }) : {}) },
    state: stateOf(toState),
  };
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit).toWellFormed()}…`;
}

function stateOf({ ref, run, at }: StateReference): Measured['state'] {
  return { ref, ...defined({ run, at }) };
}

/** What was accepted, masked by the current definition: a field may have become a secret since. */
export function maskedMeasured(
  measured: Measured | null,
  path: string,
  definition: ResourceDefinition,
): Measured | null {
  if (measured === null) return null;
  const { from, to, change } = measured;
  const isWhole = change !== 'changed';
  return {
    ...measured,
    ...(from === undefined ? {} : { from: maskedSide(path, from, definition, isWhole) }),
    ...(to === undefined ? {} : { to: maskedSide(path, to, definition, isWhole) }),
  };
}

const MEASURED_LINE = 100; // characters of an accepted value in a line

/** `false → true`; `added` or `removed` with the fields of an entire record. */
export function measuredText({ change, from, to, shortened }: Measured, path: string): string {
  if (isMaskedChange({ path, ...defined({ from, to }) })) return MASKED_CHANGE;
  const [before, after] =
    shortened === true
      ? foldedPair(shortenedText(from), shortenedText(to), MEASURED_LINE)
      : foldedValues(from, to, MEASURED_LINE);
  if (change !== 'changed') return `${change} ${change === 'added' ? after : before}`;
  return `${before} → ${after}`;
}

/** The values as JSON, empty without one. */
export function measuredCells(measured: Measured): Record<'from' | 'to' | 'baseline', string> {
  const { from, to, shortened } = measured;
  const [before, after] = [from, to].map((value) => {
    if (value === undefined) return '';
    return shortened === true ? shortenedText(value) : JSON.stringify(value);
  }) as [string, string];
  return { from: before, to: after, baseline: measuredFromText(measured) };
}

function shortenedText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? escapeControlCharacters(value) : foldedValue(value, MEASURED_LIMIT);
}

/** The state that it was measured from: `approved (run 3)`, `file:approved`. */
export function measuredFromText({ baseline: { ref, name = ref, run } }: Measured): string {
  return `${nameText(name)}${run === undefined || name === `run:${run}` ? '' : ` (run ${run})`}`;
}

function withReopened(shown: Finding, { reopened }: OpenFinding): object {
  if (reopened === undefined) return shown;
  const { because, acceptance } = reopened;
  const { contradiction } = acceptance;
  return {
    ...shown,
    reopened: { because, acceptance: acceptanceDocument(acceptance), ...defined({ contradiction }) },
  };
}
