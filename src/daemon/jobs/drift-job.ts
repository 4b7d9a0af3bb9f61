/** Drift of one source from the baseline to its latest state, as `tidemark drift` finds it. */
import { isPersonKind, scopeKey } from '../../catalog/catalog.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { EXIT } from '../../core/errors.ts';
import { diffExitCode } from '../../diff/change.ts';
import type { OpenFinding } from '../../diff/drift.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { severityCounts } from '../../report/drift-document.ts';
import { placeText, uncomparedCollections } from '../../report/notes.ts';
import { maskedId, maskedPlace, withMaskedId } from '../../report/mask.ts';
import { type SourceDrift, driftBetween } from '../../state/drift.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';
import { parentNames } from '../../state/parent-names.ts';
import { resolvedStateOf } from '../../state/resolved-state.ts';
import { BASELINE, LATEST, type Reference } from '../../state/reference.ts';
import { type DriftSummary, type FindingSummary, NAMED_COLLECTIONS, NAMED_FINDINGS } from './summaries.ts';
import { jobResult, type JobWork, sourceOf } from './work.ts';

type ParentName = ReturnType<typeof parentNames>;

/** The job: it ends `done` without a baseline, and whatever it finds; `partial` if it could not compare everything. */
export const DRIFT_JOB: Pick<JobWork, 'run'> = {
  run: async (context) => {
    const { config, mirror, effects, signal } = context;
    const source = sourceOf(context).name;
    // To have no baseline is a choice, not a failure.
    if (mirror.snapshots.baseline() === undefined) return jobResult('done', NO_BASELINE);
    const stateAt = (reference: Reference) =>
      openMirrorState(mirror, source, resolvedStateOf(mirror, reference, { source }));
    const [from, to] = [stateAt(BASELINE), stateAt(LATEST)];
    try {
      const found = await driftBetween(config, mirror, { from, to }, true, {
        source,
        filter: {},
        mode: 'default',
        fields: [],
        now: effects.clock.now(),
        signal,
      });
      const exitCode = diffExitCode(found.document);
      const outcome = exitCode === EXIT.partial ? 'partial' : 'done';
      return jobResult(outcome, summaryOf(found, mirror), { exitCode });
    } finally {
      from.close();
      to.close();
    }
  },
};

const NO_BASELINE: DriftSummary = {
  job: 'drift',
  hasBaseline: false,
  from: null,
  to: null,
  open: 0,
  severities: severityCounts([]),
  accepted: 0,
  ignored: 0,
  findings: [],
  compared: { collections: 0, records: 0 },
  skipped: 0,
};

function summaryOf(drift: SourceDrift, mirror: Mirror): DriftSummary {
  const { document, open, accepted, ignored } = drift;
  const named = open.slice(0, NAMED_FINDINGS);
  const uncompared = uncomparedCollections(document);
  return {
    job: 'drift',
    hasBaseline: true,
    from: document.from.run ?? null,
    to: document.to.run ?? null,
    open: open.length,
    severities: severityCounts(open),
    accepted: accepted.length,
    ignored: ignored.length,
    findings: findingSummaries(drift, named, parentNames(mirror, drift.source, drift.definitions)),
    ...earlierOf(drift, named),
    compared: { collections: document.compared.collections, records: document.compared.records },
    skipped: uncompared.length,
    ...(uncompared.length === 0 ? {} : { uncompared: uncompared.slice(0, NAMED_COLLECTIONS) }),
  };
}

function earlierOf(
  { earlier, definitions }: SourceDrift,
  findings: readonly OpenFinding[],
): Pick<DriftSummary, 'earlier'> {
  const found = findings.flatMap(({ fingerprint, kind }) => {
    const own = earlier({ fingerprint });
    const masked = own.map((each) => ({ ...each, id: maskedId(each.id, definitions(kind)) }));
    return own.length === 0 ? [] : [[fingerprint, masked] as const];
  });
  return found.length === 0 ? {} : { earlier: Object.fromEntries(found) };
}

function findingSummaries(
  drift: SourceDrift,
  findings: readonly OpenFinding[],
  parentName: ParentName,
): FindingSummary[] {
  const keyOf = ({ kind, scope, id }: RecordKey): string => JSON.stringify([kind, scopeKey(scope), id]);
  const levels = new Map(
    drift.document.changes.flatMap((change) => {
      const field = change.fields.find(({ path }) => path === '/level');
      const level = field?.to ?? field?.from;
      return typeof level === 'number' ? [[keyOf(change), level] as const] : [];
    }),
  );
  return findings.map((finding) => findingSummary(drift, finding, levels.get(keyOf(finding)), parentName));
}

/** @param level of a person, if the change of the record has one */
function findingSummary(
  { definitions }: SourceDrift,
  finding: OpenFinding,
  level: number | undefined,
  parentName: ParentName,
): FindingSummary {
  const definition = definitions(finding.kind);
  const { fingerprint, severity, kind, scope, id, name, change, path, place } = withMaskedId(
    finding,
    definition,
  );
  return {
    fingerprint,
    severity,
    kind,
    scope,
    id,
    name: isPersonKind(definition) ? null : name,
    ...(isPersonKind(definition) && level !== undefined ? { level } : {}),
    // The person is not named, so at least the role is.
    ...(isPersonKind(definition) && scope.role_id !== undefined
      ? { in: placeText(scope, { definitions, parentName }, { hasIds: false }) }
      : {}),
    change,
    path: maskedPlace(path, definition),
    ...(place === undefined || place === path ? {} : { place: maskedPlace(place, definition) }),
    ...(finding.reopened?.because === 'contradicted' ? { reopened: 'contradicted' } : {}),
  };
}
