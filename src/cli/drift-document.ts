/** The JSON document `tidemark.drift/1`. */
import type { JsonObject, JsonValue } from '../core/json.ts';
import { isJsonObject, setOwn } from '../core/json.ts';
import type { Acceptance, Finding, OpenFinding } from '../diff/drift.ts';
import { maskedAt, maskedId, maskedPlace, withMaskedId } from '../report/mask.ts';
import { SEVERITIES } from '../diff/severity.ts';
import type { SourceDrift } from './drift-finding.ts';

/**
 * `{schema, source, from, to, compared, skipped, stale, left_out, findings: [{fingerprint, severity, kind, scope, id, name,
 * change, path, place?, from?, to?, reopened?}], accepted: [finding with acceptance], ignored: [finding with rule], withdrawable,
 * summary}`. Of the summary, `findings` and the severities count findings, `open` too; all else counts records, whose sum is
 * `compared.records`. `place` is given where `path` leads through an element with an id; acceptances name it as their `path`. `path` is empty for a record that came or went; its value is then an object of its fields by pointer.
 */
export function driftDocument(
  drift: SourceDrift,
  { below, showsSecrets }: { readonly below: number; readonly showsSecrets: boolean },
): object {
  const { document, open, accepted, ignored, stale } = drift;
  const shown = (finding: Finding): Finding => (showsSecrets ? finding : masked(drift, finding));
  return {
    schema: 'tidemark.drift/1',
    source: drift.source,
    from: document.from,
    to: document.to,
    compared: document.compared,
    skipped: document.skipped,
    stale: document.stale ?? [],
    left_out: document.left_out ?? [],
    findings: open.map((finding) => withReopened(shown(finding), finding)),
    accepted: accepted.map(({ finding, acceptance }) => ({
      ...shown(finding),
      acceptance: acceptanceDocument(acceptance),
    })),
    ignored: ignored.map(({ finding, rule }) => ({ ...shown(finding), rule })),
    withdrawable: stale.map((acceptance) => {
      const { kind, scope, id, path } = acceptance;
      const { definitions } = drift;
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
      ...Object.fromEntries(
        SEVERITIES.map((level) => [level, open.filter(({ severity }) => severity === level).length]),
      ),
      ...document.summary,
    },
  };
}

export function acceptanceDocument({ fingerprint, reason, acceptedAt, until }: Acceptance): object {
  return { fingerprint, reason, accepted_at: acceptedAt, until: until ?? null };
}

function withReopened(shown: Finding, { reopened }: OpenFinding): object {
  return {
    ...shown,
    ...(reopened === undefined
      ? {}
      : { reopened: { because: reopened.because, acceptance: acceptanceDocument(reopened.acceptance) } }),
  };
}

function masked({ definitions }: SourceDrift, finding: Finding): Finding {
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
