/** The JSON document `tidemark.drift/1`, for the command line and the daemon. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SEVERITIES } from '../catalog/definition.ts';
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

/** Drift of one source, with the catalog as that source has it. */
interface ShownDrift extends Drift {
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

interface DriftDocumentOptions {
  /** Open findings that are left out, since they matter less than what was asked for. */
  readonly below: number;
  readonly showsSecrets: boolean;
  /** The newest run of the source, if it failed and TO is the state before it (`failedRunDocument`). */
  readonly failedRun: object | null;
  /** The run that shows of which mirror this is, with its root hash; null if it cannot. */
  readonly head: Sealed | null;
  /** The newest restore that TO has nothing of yet; null if there is none. */
  readonly restoredSince: number | null;
}

/**
 * `{schema, source, from, to, head, failed_run, restored_since, compared, skipped, stale, left_out, schema_changes: [{kind, field, change, before, after, runs,
 * records}], findings: [{fingerprint, severity, kind, scope, id, name, change, path, place?, moved?, from?, to?, reopened?}], accepted: [finding with acceptance], ignored: [finding with rule], withdrawable,
 * summary}`. Of the summary, `findings` and the severities count findings, `open` too; all else counts records, whose sum is
 * `compared.records`. `place` is given where `path` leads through an element with an id; acceptances name it as their `path`. `path` is empty for a record that came or went; its value is then an object of its fields by pointer.
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
    ...(document.volatile_unknown === undefined ? {} : { volatile_unknown: document.volatile_unknown }),
    ...(document.volatile_fields === undefined ? {} : { volatile_fields: document.volatile_fields }),
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

/** Why a finding is open though the mirror has an acceptance of it. */
export const CONTRADICTED = 'the audit log does not prove its acceptance';

/** A line that says what an acceptance has against the audit log; null where nothing. Its id may be a secret and is left out, as are those in its place. */
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
export function severityCounts(findings: readonly Finding[]): Record<Finding['severity'], number> {
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
      ...(finding.place === undefined ? {} : { place: maskedPlace(finding.place, definition) }),
      ...(from === undefined ? {} : { from: value(from) }),
      ...(to === undefined ? {} : { to: value(to) }),
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

/** Characters of an accepted value, as JSON, that the audit log keeps. */
const MEASURED_LIMIT = 1_000;
/** Of those, for the value: the rest is for what says how much was left out. */
const MEASURED_SHARE = 850;
/** As reports name the state that drift is measured from. */
const BASELINE = 'baseline';

/**
 * What is accepted with a finding, for the audit log: secrets masked, long values shortened so that the difference stays.
 * @param baseline the snapshot that is the baseline now: named where it still is what was compared
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
    baseline: {
      ...stateOf(fromState),
      ...(isBaseline && baseline !== undefined ? { name: baseline.name } : {}),
    },
    state: stateOf(toState),
  };
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit).toWellFormed()}…`;
}

function stateOf({ ref, run, at }: StateReference): Measured['state'] {
  return { ref, ...(run === undefined ? {} : { run }), ...(at === undefined ? {} : { at }) };
}

/** What was accepted, masked by the definition in force: a field may have become a secret since. */
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

/** Characters of an accepted value in a line. */
const MEASURED_LINE = 100;

/** `false → true`; `added` or `removed` with the fields of an entire record. */
export function measuredText({ change, from, to, shortened }: Measured, path: string): string {
  if (isMaskedChange({ path, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }))
    return MASKED_CHANGE;
  const [before, after] =
    shortened === true
      ? foldedPair(shortenedText(from), shortenedText(to), MEASURED_LINE)
      : foldedValues(from, to, MEASURED_LINE);
  if (change !== 'changed') return `${change} ${change === 'added' ? after : before}`;
  return `${before} → ${after}`;
}

/** Values as JSON, empty where there was none. */
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
    reopened: {
      ...{ because, acceptance: acceptanceDocument(acceptance) },
      ...(contradiction === undefined ? {} : { contradiction }),
    },
  };
}
