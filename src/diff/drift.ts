/** A diff read as drift: what is open, what was accepted, what the configuration ignores. Pure. */
import type { Severity } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { whoText } from '../core/actor.ts';
import type { JsonValue } from '../core/json.ts';
import type { DiffDocument, RecordChange } from './change.ts';
import { type FieldChange, placeOf } from './compare.ts';
import type { MovedElement } from './elements.ts';
import { type FingerprintOf, findingValue } from './fingerprint.ts';
import { type ExplainedForm, type FormFacts, ExplainedForms, formExplainer } from './form-change.ts';
import { type IgnoreRule, ignoreTest } from './rules.ts';
import type { RecordKey } from '../catalog/order.ts';
import { skipTest } from './states.ts';
import { type SeverityOf, compareSeverities } from './severity.ts';

/** One thing that drifted: a field of a changed record, or a record that came or went (`path` empty). */
export interface Finding extends RecordKey {
  readonly fingerprint: string;
  readonly severity: Severity;
  readonly name: string;
  readonly change: RecordChange['change'];
  /** RFC 6901 pointer into the state that is checked for drift. */
  readonly path: string;
  /** As in `FieldChange`: what acceptances and rules go by. */
  readonly place?: string;
  /** As in `FieldChange`. */
  readonly moved?: readonly MovedElement[];
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** An accepted value (`drift accept`): it holds for exactly this fingerprint, so a further change opens again. */
export interface Acceptance extends RecordKey {
  readonly fingerprint: string;
  /** The finding's place, its path where it has none. */
  readonly path: string;
  readonly reason: string;
  readonly acceptedAt: string;
  /** Who accepted it. */
  readonly by: string;
  /** How the program knew who accepted it; left out where the audit log does not say. */
  readonly via?: string;
  /** ISO 8601; from then on the finding is open again. */
  readonly until?: string;
  /** Why it counts for nothing: what it has against the audit log. */
  readonly contradiction?: string;
  /** True for one that the log has and the mirror has no more: it can be withdrawn once it is accepted again. */
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
  /** The acceptance that does not hold: its value changed again, its time is over, or it is not as the audit log has it. */
  readonly reopened?: {
    readonly acceptance: Acceptance;
    readonly because: 'value' | 'expired' | 'contradicted';
  };
}

/** Records, each counted once: the sum is `compared.records`. */
export interface DriftSummary {
  /** Something of these is open. */
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  /** Equal on both sides. */
  readonly unchanged: number;
  /** The service no longer shows them, and their removal, or that of a record above them, is held: equal as far as the mirror goes. Left out if none are. */
  readonly held?: number;
  /** They differ, and nothing of that is open: what is below the threshold takes precedence over what was accepted, that before what is ignored. */
  readonly below_threshold: number;
  readonly accepted: number;
  readonly ignored: number;
  /** They differ only where the service changed the form of its records. */
  readonly reshaped: number;
}

/** A diff narrowed to what is open. */
interface DriftDocument extends DiffDocument {
  readonly summary: DriftSummary;
}

/** A finding that is not open, with the acceptance that holds for it. */
export interface AcceptedFinding {
  readonly finding: Finding;
  readonly acceptance: Acceptance;
  /** True where the state that was compared has the record no more: the finding is that of its last version. */
  readonly isOfGone?: true;
  /** Given where the value changed again after that: the finding is of what it is now. */
  readonly changedSince?: {
    /** The finding with the accepted value; null where that is not known any more. */
    readonly accepted: Finding | null;
    /** The latest run that has the accepted value; null for none. */
    readonly run: number | null;
  };
}

export interface Drift {
  /** The diff with only what is open; its summary counts that. What was compared and skipped stays. */
  readonly document: DriftDocument;
  /** Worst first, then in the order of the diff. */
  readonly open: readonly OpenFinding[];
  readonly accepted: readonly AcceptedFinding[];
  readonly ignored: readonly { readonly finding: Finding; readonly rule: IgnoreRule }[];
  /** Changes of form that explain differences, which are then no findings. */
  readonly forms: readonly ExplainedForm[];
  /** Open findings that a rule names by an index only, though their elements are matched by id. */
  readonly missed: readonly { readonly finding: Finding; readonly rule: IgnoreRule }[];
  /** Acceptances of what was compared and no longer differs: they can be withdrawn. */
  readonly stale: readonly Acceptance[];
  /** Acceptances that are not as the audit log has them: they count for nothing. */
  readonly contradicted: readonly Acceptance[];
  /** What an open finding was before a restore created its record again, or one that it names: the latest first. */
  readonly earlier: (finding: Pick<Finding, 'fingerprint'>) => readonly EarlierFinding[];
}

/** The same finding under earlier ids. */
export interface EarlierFinding extends Omit<RecordKey, 'kind'> {
  readonly fingerprint: string;
}

/** The ids that records had before one of the restores. */
export interface EarlierIds {
  readonly key: (key: RecordKey) => RecordKey;
  /** @param path with `[id=…]` for elements */
  readonly place: (kind: Kind, path: string) => string;
  /** @param pointer where the value is in a record of the kind */
  readonly value: (kind: Kind, pointer: string, value: JsonValue) => JsonValue;
}

export interface DriftInput {
  readonly fingerprintOf: FingerprintOf;
  /** From the baseline to the state that is checked. */
  readonly diff: DiffDocument;
  readonly rules: readonly IgnoreRule[];
  readonly acceptances: readonly Acceptance[];
  /** The key by which the diff has the record of an acceptance, if a restore gave it another id since; left out, its own. */
  readonly shownKey?: (key: RecordKey) => RecordKey;
  /** The same for the place of an acceptance, which may name the id of an element. */
  readonly shownPlace?: (kind: Kind, path: string) => string;
  /**
   * What acceptances were made under, of the records that `ask` asks for under ids that stay as they are; left out, no record
   * was created again. The latest first.
   */
  readonly earlierIds?: (ask: (ids: EarlierIds) => unknown) => readonly EarlierIds[];
  /** Changes of form between the two states; left out, none is known. */
  readonly forms?: FormFacts;
  /** True where the comparison would have shown drift at this record and place; left out, everywhere. */
  readonly covers?: (key: RecordKey, path: string) => boolean;
  readonly severityOf: SeverityOf;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Classifies the findings of a diff. Changes of form come first, and ignore rules take precedence over acceptances.
 * @throws TidemarkError `config_invalid` for a rule without reason, or one that is too wide or has no proper path
 */
export function assessDrift(input: DriftInput): Drift {
  const ignores = ignoreTest(input.rules);
  const isSkipped = skipTest([...input.diff.skipped, ...(input.diff.left_out ?? [])]);
  const shownKey = (acceptance: Acceptance): RecordKey => input.shownKey?.(acceptance) ?? acceptance;
  const shownPlace = (acceptance: Acceptance): string =>
    placeKey(shownKey(acceptance), input.shownPlace?.(acceptance.kind, acceptance.path) ?? acceptance.path);
  const byPlace = Map.groupBy(input.acceptances, shownPlace);
  const opened = new Map<string, readonly [RecordChange, FieldChange | null]>();
  const seen = new Set<string>();
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
      seen.add(place);
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
        // What nobody accepted, nobody withdraws.
        acceptance.contradiction === undefined &&
        !seen.has(shownPlace(acceptance)) &&
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

/** True for an acceptance of the same value, if its place or the value named records by ids that they had then, or it was of a secret in clear. */
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

/** A finding as it was before each of the restores that changed an id of it. */
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
  const { from, to, ...where } = findingValue(change, field);
  return {
    fingerprint: input.fingerprintOf(change, field),
    severity: input.severityOf(change, field),
    kind: change.kind,
    scope: change.scope,
    id: change.id,
    name: change.name,
    change: change.change,
    ...where,
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

/**
 * @param acceptances all at the place of the finding: one, or one for each id that the record had
 * @param isOfValue true for an acceptance of the value that was found
 */
function acceptanceOf(
  acceptances: readonly Acceptance[],
  isOfValue: (acceptance: Acceptance) => boolean,
  now: number,
): { holds?: Acceptance; reopened?: NonNullable<OpenFinding['reopened']> } {
  const isOver = (acceptance: Acceptance): boolean =>
    // Negated, so that a date that cannot be read ends the acceptance instead of making it eternal.
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
 * The fingerprint of the acceptance that a new one of this finding replaces though it was made under another id of the record;
 * undefined without one, and for one that does not count.
 */
export function acceptedEarlier(
  drift: Pick<Drift, 'open' | 'accepted'>,
  finding: Finding,
): string | undefined {
  const acceptance =
    drift.accepted.find(({ finding: own }) => own.fingerprint === finding.fingerprint)?.acceptance ??
    drift.open.find(({ fingerprint }) => fingerprint === finding.fingerprint)?.reopened?.acceptance;
  if (acceptance === undefined || acceptance.contradiction !== undefined) return undefined;
  const place = placeOf(finding);
  return placeKey(acceptance, acceptance.path) === placeKey(finding, place)
    ? undefined
    : acceptance.fingerprint;
}

/** The drift with only these of its findings' fields left: a record with none of them is below the threshold. */
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
