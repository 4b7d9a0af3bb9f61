/** `tidemark.drift/1` as `tidemark drift --json` prints it, every secret masked. */
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { isJsonObject, setOwn } from '../../core/json.ts';
import type { Acceptance, Finding, OpenFinding } from '../../diff/drift.ts';
import { SEVERITIES } from '../../diff/severity.ts';
import { maskedAt, maskedId, maskedPlace, withMaskedId } from '../../report/mask.ts';
import type { SourceDrift } from './drift-now.ts';

export function driftDocument(drift: SourceDrift): object {
  const { document, open, accepted, ignored, stale, definitions } = drift;
  return {
    schema: 'tidemark.drift/1',
    source: drift.source,
    from: document.from,
    to: document.to,
    compared: document.compared,
    skipped: document.skipped,
    stale: document.stale ?? [],
    left_out: document.left_out ?? [],
    findings: open.map((finding) => withReopened(maskedFinding(drift, finding), finding)),
    accepted: accepted.map(({ finding, acceptance }) => ({
      ...maskedFinding(drift, finding),
      acceptance: acceptanceDocument(acceptance),
    })),
    ignored: ignored.map(({ finding, rule }) => ({ ...maskedFinding(drift, finding), rule })),
    withdrawable: stale.map((acceptance) => ({
      kind: acceptance.kind,
      scope: acceptance.scope,
      id: maskedId(acceptance.id, definitions(acceptance.kind)),
      path: maskedPlace(acceptance.path, definitions(acceptance.kind)),
      ...acceptanceDocument(acceptance),
    })),
    summary: {
      open: open.length,
      findings: { open: open.length, accepted: accepted.length, ignored: ignored.length, below_threshold: 0 },
      ...severityCounts(open),
      ...document.summary,
    },
  };
}

/** How many findings there are of each severity. */
export function severityCounts(findings: readonly Finding[]): Record<Finding['severity'], number> {
  return Object.fromEntries(
    SEVERITIES.map((level) => [level, findings.filter(({ severity }) => severity === level).length]),
  ) as Record<Finding['severity'], number>;
}

/** A finding with what is secret in it replaced: values, ids, places. */
export function maskedFinding({ definitions }: Pick<SourceDrift, 'definitions'>, finding: Finding): Finding {
  const definition = definitions(finding.kind);
  const { from, to, path } = finding;
  const value = (of: JsonValue): JsonValue => {
    if (finding.change === 'changed' || !isJsonObject(of)) return maskedAt(path, of, definition);
    // A whole record's value is an object of its fields by pointer.
    const whole: JsonObject = {};
    for (const [pointer, field] of Object.entries(of))
      setOwn(whole, pointer, maskedAt(pointer, field, definition));
    return whole;
  };
  return withMaskedId(
    {
      ...finding,
      ...(finding.place === undefined ? {} : { place: maskedPlace(finding.place, definition) }),
      ...(from === undefined ? {} : { from: value(from) }),
      ...(to === undefined ? {} : { to: value(to) }),
    },
    definition,
  );
}

function withReopened(shown: Finding, { reopened }: OpenFinding): object {
  if (reopened === undefined) return shown;
  return {
    ...shown,
    reopened: { because: reopened.because, acceptance: acceptanceDocument(reopened.acceptance) },
  };
}

function acceptanceDocument({ fingerprint, reason, acceptedAt, until }: Acceptance): object {
  return { fingerprint, reason, accepted_at: acceptedAt, until: until ?? null };
}
