/** Divides the differences of a diff into open, accepted and ignored findings. Pure. */
import type { Severity } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { whoText } from '../core/actor.ts';
import type { JsonValue } from '../core/json.ts';
import type { DiffDocument, RecordChange } from './change.ts';
import { type FieldChange, placeOf } from './compare.ts';
import { type FingerprintOf, findingValue } from './fingerprint.ts';
import { type ExplainedForm, type FormFacts, ExplainedForms, formExplainer } from './form-change.ts';
import { type IgnoreRule, ignoreTest } from './rules.ts';
import type { RecordKey } from '../catalog/order.ts';
import { skipTest } from './states.ts';
import { type SeverityOf, compareSeverities } from './severity.ts';

/** One changed field, or a record that came or went (`path` empty). The path is a pointer into the state that is checked for drift. */
export interface Finding extends RecordKey, Omit<FieldChange, 'from_path'> {
  readonly fingerprint: string;
  readonly severity: Severity;
  readonly name: string;
  readonly change: RecordChange['change'];
}

/** An accepted value (`drift accept`). It holds for exactly this fingerprint: if the value changes again, the finding is open again. */
export interface Acceptance extends RecordKey {
  readonly fingerprint: string;
  /** The finding's place, or its path if it has none. */
  readonly path: string;
  readonly reason: string;
  readonly acceptedAt: string;
  /** Who accepted it. */
  readonly by: string;
  /** How that person was identified; left out if the audit log does not say. */
  readonly via?: string;
  /** ISO 8601; from then on the finding is open again. */
  readonly until?: string;
  /** How it contradicts the audit log; such an acceptance has no effect. */
  readonly contradiction?: string;
  /** True if the audit log has it and the mirror no longer does: to withdraw it, accept it again first. */
  readonly isGone?: true;
}

/** E.g. `accepted by ada (root@host) on 2026-03-01 until 2026-04-01: intended`. */
export function acceptedText(
  { by, via, acceptedAt, until, reason }: Pick<Acceptance, 'by' | 'via' | 'acceptedAt' | 'until' | 'reason'>,
  timeText: (at: string) => string = (at) => at.slice(0, 10),
): string {
  const end = until === undefined ? '' : ` until ${timeText(until)}`;
  return `accepted by ${whoText({ by, via })} on ${timeText(acceptedAt)}${end}: ${reason}`;
}

export interface OpenFinding extends Finding {
  /** The acceptance that no longer holds: the value changed again, it expired, or it contradicts the audit log. */
  readonly reopened?: {
    readonly acceptance: Acceptance;
    readonly because: 'value' | 'expired' | 'contradicted';
  };
}

/** Records, each counted once: the sum is `compared.records`. */
export interface DriftSummary {
  /** Records with open findings, by their change. */
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Equal on both sides. */
  readonly unchanged: number;
  /** The service no longer shows them, but their removal, or that of a record above them, is held: equal in the mirror. Left out if zero. */
  readonly held?: number;
  /** Records that differ without an open finding. Each is counted once: below the threshold before accepted before ignored before reshaped. */
  readonly below_threshold: number;
  readonly accepted: number;
  readonly ignored: number;
  /** Records that differ only because the service changed the form of its records. */
  readonly reshaped: number;
}

/** A diff narrowed to the open findings. */
interface DriftDocument extends DiffDocument {
  readonly summary: DriftSummary;
}

/** A finding with the acceptance that holds for it. */
export interface AcceptedFinding {
  readonly finding: Finding;
  readonly acceptance: Acceptance;
  /** True if the compared state no longer has the record: the finding is about its last version. */
  readonly isOfGone?: true;
  /** Given if the value changed again after it was accepted: `finding` has the present value. */
  readonly changedSince?: {
    /** The finding with the accepted value; null if that is no longer known. */
    readonly accepted: Finding | null;
    /** The latest run with the accepted value; null if there is none. */
    readonly run: number | null;
  };
}

export interface Drift {
  /** The diff, its changes and summary narrowed to open findings. */
  readonly document: DriftDocument;
  /** Worst first, then in the order of the diff. */
  readonly open: readonly OpenFinding[];
  readonly accepted: readonly AcceptedFinding[];
  readonly ignored: readonly { readonly finding: Finding; readonly rule: IgnoreRule }[];
  /** Changes of form that explain differences, which are therefore no findings. */
  readonly forms: readonly ExplainedForm[];
  /** Open findings that a rule names only by index, although their elements are matched by id. */
  readonly missed: readonly { readonly finding: Finding; readonly rule: IgnoreRule }[];
  /** Acceptances whose place was compared and no longer differs: they can be withdrawn. */
  readonly stale: readonly Acceptance[];
  /** Acceptances that contradict the audit log: they have no effect. */
  readonly contradicted: readonly Acceptance[];
  /** An open finding as it was before a restore created its record again, or a record that it names: the latest first. */
  readonly earlier: (finding: Pick<Finding, 'fingerprint'>) => readonly EarlierFinding[];
}

/** The same finding under earlier ids. */
export interface EarlierFinding extends Omit<RecordKey, 'kind'> {
  readonly fingerprint: string;
}

/** The ids that records had before a restore. */
export interface EarlierIds {
  readonly key: (key: RecordKey) => RecordKey;
  /** @param path with `[id=…]` for elements */
  readonly place: (kind: Kind, path: string) => string;
  /** @param pointer to the value in a record of the kind */
  readonly value: (kind: Kind, pointer: string, value: JsonValue) => JsonValue;
}

export interface DriftInput {
  readonly fingerprintOf: FingerprintOf;
  /** From the baseline to the state that is checked. */
  readonly diff: DiffDocument;
  readonly rules: readonly IgnoreRule[];
  readonly acceptances: readonly Acceptance[];
  /** The present key of an acceptance's record, if a restore gave it another id since. Default: the same key. */
  readonly shownKey?: (key: RecordKey) => RecordKey;
  /** The same for the place of an acceptance, which may name the id of an element. */
  readonly shownPlace?: (kind: Kind, path: string) => string;
  /**
   * The earlier ids under which acceptances may have been made, the latest first. `ask` is called with ids that record which records
   * it looks up: only the ids of these are returned. Left out: no record was created again.
   */
  readonly earlierIds?: (ask: (ids: EarlierIds) => unknown) => readonly EarlierIds[];
  /** Changes of form between the two states. Default: none. */
  readonly forms?: FormFacts;
  /** True if the comparison would have shown drift at this record and place. Default: everywhere. */
  readonly covers?: (key: RecordKey, path: string) => boolean;
  readonly severityOf: SeverityOf;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Classifies the findings of a diff: first by changes of form, then by ignore rules, then by acceptances.
 * @throws TidemarkError `config_invalid` for a rule that has no reason, is too wide, or has an invalid path
 */
export function assessDrift(input: DriftInput): Drift {
  const ignores = ignoreTest(input.rules);
  const isSkipped = skipTest([...input.diff.skipped, ...(input.diff.left_out ?? [])]);
  const shownKey = (acceptance: Acceptance): RecordKey => input.shownKey?.(acceptance) ?? acceptance;
  const shownPlace = (acceptance: Acceptance): string =>
    placeKey(shownKey(acceptance), input.shownPlace?.(acceptance.kind, acceptance.path) ?? acceptance.path);
  const byPlace = Map.groupBy(input.acceptances, shownPlace);
  const opened = new Map<string, readonly [RecordChange, FieldChange | null]>();
  const comparedPlaces = new Set<string>();
  const open: OpenFinding[] = [];
  const accepted: AcceptedFinding[] = [];
  const ignored: { finding: Finding; rule: IgnoreRule }[] = [];
  const missed: { finding: Finding; rule: IgnoreRule }[] = [];
  const changes: RecordChange[] = [];
  const settled = { accepted: 0, ignored: 0, reshaped: 0 };
  const explain = input.forms === undefined ? null : formExplainer(input.diff.changes, input.forms);
  const explained = new ExplainedForms();
  for (const change of input.diff.changes) {
    const left: FieldChange[] = [];
    let isOpen = false;
    const [acceptedBefore, ignoredBefore] = [accepted.length, ignored.length];
    for (const field of change.change === 'changed' ? change.fields : [null]) {
      const finding = findingOf(input, change, field);
      const place = placeKey(change, placeOf(finding));
      comparedPlaces.add(place);
      const form = field === null ? undefined : explain?.(change, field);
      if (form !== undefined) {
        explained.add(form, change);
        continue;
      }
      const rule = ignores.hides(change, field);
      if (rule !== undefined) {
        ignored.push({ finding, rule });
        continue;
      }
      const isOfValue = (acceptance: Acceptance): boolean =>
        input.fingerprintOf(change, field, acceptance) === acceptance.fingerprint ||
        wasOfValue(input, change, field, acceptance);
      const verdict = acceptanceOf(byPlace.get(place) ?? [], isOfValue, input.now);
      if (verdict.holds !== undefined) {
        accepted.push({ finding, acceptance: verdict.holds });
        continue;
      }
      opened.set(finding.fingerprint, [change, field]);
      open.push(verdict.reopened === undefined ? finding : { ...finding, reopened: verdict.reopened });
      const miss = ignores.misses(change, field);
      if (miss !== undefined) missed.push({ finding, rule: miss });
      isOpen = true;
      if (field !== null) left.push(field);
    }
    if (isOpen) changes.push(change.change === 'changed' ? { ...change, fields: left } : change);
    else if (accepted.length > acceptedBefore) settled.accepted += 1;
    else settled[ignored.length > ignoredBefore ? 'ignored' : 'reshaped'] += 1;
  }
  return {
    document: {
      ...input.diff,
      changes,
      summary: {
        ...openCounts(changes),
        unchanged: input.diff.summary.unchanged,
        below_threshold: 0,
        ...settled,
      },
    },
    open: open.toSorted((a, b) => compareSeverities(a.severity, b.severity)),
    accepted,
    ignored,
    forms: explained.found(),
    missed,
    stale: input.acceptances.filter((acceptance) => {
      const key = shownKey(acceptance);
      return (
        // It is not in the audit log as it is, so it cannot be withdrawn.
        acceptance.contradiction === undefined &&
        !comparedPlaces.has(shownPlace(acceptance)) &&
        !isSkipped(key) &&
        input.covers?.(key, acceptance.path) !== false
      );
    }),
    contradicted: input.acceptances.filter(({ contradiction }) => contradiction !== undefined),
    earlier: ({ fingerprint }) => {
      const found = opened.get(fingerprint);
      return found === undefined ? [] : earlierOf(input, ...found, fingerprint);
    },
  };
}

/** True for an acceptance of the same value that was made with earlier ids in place or value, or over a secret in clear text. */
function wasOfValue(
  { earlierIds, fingerprintOf }: DriftInput,
  change: RecordChange,
  field: FieldChange | null,
  acceptance: Acceptance,
): boolean {
  const under = (value: EarlierIds['value'], isInClear?: true): string =>
    fingerprintOf(change, field, acceptance, {
      place: acceptance.path,
      value: (pointer, own) => value(change.kind, pointer, own),
      ...(isInClear === undefined ? {} : { isInClear }),
    });
  const isOf = (value: EarlierIds['value']): boolean =>
    under(value) === acceptance.fingerprint || under(value, true) === acceptance.fingerprint;
  if (isOf((_kind, _pointer, own) => own)) return true;
  const forms: boolean[] = [];
  const earlier = earlierIds?.((ids) => forms.push(isOf(ids.value))) ?? [];
  return forms.includes(true) || earlier.some((ids) => isOf(ids.value));
}

/** A finding as it was before each of the restores that changed an id in it. */
function earlierOf(
  { earlierIds, fingerprintOf }: DriftInput,
  change: RecordChange,
  field: FieldChange | null,
  own: string,
): EarlierFinding[] {
  const under = (ids: EarlierIds): EarlierFinding => {
    const { scope, id, kind } = ids.key(change);
    const fingerprint = fingerprintOf(
      change,
      field,
      { kind, scope, id },
      {
        place: field === null ? '' : ids.place(kind, placeOf(field)),
        value: (pointer, value) => ids.value(kind, pointer, value),
      },
    );
    return { fingerprint, scope, id };
  };
  const found = new Map<string, EarlierFinding>();
  for (const finding of (earlierIds?.(under) ?? []).map(under))
    if (finding.fingerprint !== own && !found.has(finding.fingerprint))
      found.set(finding.fingerprint, finding);
  return [...found.values()];
}

function findingOf(input: DriftInput, change: RecordChange, field: FieldChange | null): Finding {
  const { kind, scope, id, name } = change;
  return {
    fingerprint: input.fingerprintOf(change, field),
    severity: input.severityOf(change, field),
    ...{ kind, scope, id, name, change: change.change },
    ...findingValue(change, field),
  };
}

/**
 * The acceptance that holds, or the one that no longer does.
 * @param acceptances all at the place of the finding: one, or one for each id that the record had
 * @param isOfValue true for an acceptance of the value that was found
 */
function acceptanceOf(
  acceptances: readonly Acceptance[],
  isOfValue: (acceptance: Acceptance) => boolean,
  now: number,
): { holds?: Acceptance; reopened?: NonNullable<OpenFinding['reopened']> } {
  const isOver = (acceptance: Acceptance): boolean =>
    // Negated, so that an invalid date ends the acceptance instead of making it permanent.
    acceptance.until !== undefined && !(Date.parse(acceptance.until) > now);
  const same = acceptances.filter(
    (acceptance) => acceptance.contradiction === undefined && isOfValue(acceptance),
  );
  const holds = same.find((acceptance) => !isOver(acceptance));
  if (holds !== undefined) return { holds };
  const contradicted = acceptances.find(({ contradiction }) => contradiction !== undefined);
  if (contradicted !== undefined) return { reopened: { acceptance: contradicted, because: 'contradicted' } };
  const expired = same.at(-1);
  if (expired !== undefined) return { reopened: { acceptance: expired, because: 'expired' } };
  const other = acceptances.at(-1);
  return other === undefined ? {} : { reopened: { acceptance: other, because: 'value' } };
}

/**
 * The fingerprint of an acceptance of this finding that was made under another id of the record, and that a new acceptance replaces;
 * undefined if there is none, or if it contradicts the audit log.
 */
export function acceptedEarlier(
  drift: Pick<Drift, 'open' | 'accepted'>,
  finding: Finding,
): string | undefined {
  const acceptance =
    drift.accepted.find(({ finding: own }) => own.fingerprint === finding.fingerprint)?.acceptance ??
    drift.open.find(({ fingerprint }) => fingerprint === finding.fingerprint)?.reopened?.acceptance;
  if (acceptance === undefined || acceptance.contradiction !== undefined) return undefined;
  return placeKey(acceptance, acceptance.path) === placeKey(finding, placeOf(finding))
    ? undefined
    : acceptance.fingerprint;
}

/** The drift with only the findings above the threshold; a record with none of them counts as below it. */
export function withThreshold(
  drift: Drift,
  isAbove: (change: RecordChange, field: FieldChange | null) => boolean,
): DriftDocument {
  const { document } = drift;
  const changes = document.changes.flatMap((change) => {
    if (change.change !== 'changed') return isAbove(change, null) ? [change] : [];
    const fields = change.fields.filter((field) => isAbove(change, field));
    return fields.length === 0 ? [] : [{ ...change, fields }];
  });
  return {
    ...document,
    changes,
    summary: {
      ...document.summary,
      ...openCounts(changes),
      below_threshold: document.summary.below_threshold + document.changes.length - changes.length,
    },
  };
}

function openCounts(changes: readonly RecordChange[]): Pick<DriftSummary, RecordChange['change']> {
  const count = (change: RecordChange['change']): number =>
    changes.filter((candidate) => candidate.change === change).length;
  return { added: count('added'), removed: count('removed'), changed: count('changed') };
}

function placeKey(key: RecordKey, path: string): string {
  return JSON.stringify([key.kind, scopeKey(key.scope), key.id, path]);
}
