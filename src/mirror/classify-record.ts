/** What a received record is to the mirror's current one, when their hashes differ or cannot be compared. */
import type { Kind } from '../catalog/definition.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import { hashStart, scanBody } from './fingerprint.ts';
import { differsInLayoutOnly } from './layout.ts';
import { type SealingRule, ruleAt } from './sealing.ts';

/** A current record, as far as a comparison needs it. */
export interface CurrentRow {
  readonly record: number;
  /** The first bytes of its hash. */
  readonly hashStart: Buffer;
  readonly run: number;
  readonly body: string;
}

export interface RecordChange {
  readonly action:
    | 'fresh' // the mirror never had it
    | 'returned' // it was removed earlier
    | 'unchanged' // nothing is written
    | 'volatile' // only volatile members moved: the body is replaced in place, no revision
    | 'rewritten' // equal by comparison, other text: a revision that diff and log do not show
    | 'changed';
  /** The record's number; 0 for a fresh one. */
  readonly record: number;
}

/** What happens to a record that the mirror has or had. */
export type KnownAction = Exclude<RecordChange['action'], 'fresh'>;

/** True for a record that the mirror does not hold now. */
export function isAddition(judgement: RecordChange | null | undefined): boolean {
  return judgement?.action === 'fresh' || judgement?.action === 'returned';
}

/** Under which count a record goes. */
export function countOf(action: KnownAction): 'added' | 'changed' | 'unchanged' {
  if (action === 'returned') return 'added';
  return action === 'changed' ? 'changed' : 'unchanged';
}

export function classifyRecord(
  kind: Kind,
  current: CurrentRow,
  received: ScannedRecord,
  hash: Buffer,
  rules: readonly SealingRule[],
  isEqual: (kind: Kind, oldText: string, newText: string) => boolean,
): RecordChange {
  const { record } = current;
  if (current.body === received.text) return { action: 'unchanged', record };
  if (hasSameStableText(current, received, hash, rules)) return { action: 'volatile', record };
  if (!isEqual(kind, current.body, received.text)) return { action: 'changed', record };
  if (differsInLayoutOnly(current.body, received.text)) return { action: 'unchanged', record };
  return { action: 'rewritten', record };
}

/**
 * True when the record may be replaced in place: its stable text is the same under the rule of today and under the one
 * of its revision, whose hash is sealed and has to stay true.
 */
function hasSameStableText(
  current: CurrentRow,
  received: ScannedRecord,
  hash: Buffer,
  rules: readonly SealingRule[],
): boolean {
  const now = rules.at(-1);
  const then = ruleAt(rules, current.run);
  if (now === undefined || then === undefined || now === then)
    return current.hashStart.equals(hashStart(hash));
  const isSame = (rule: SealingRule): boolean =>
    scanBody(current.body, rule.volatileFields).stableText ===
    scanBody(received.text, rule.volatileFields).stableText;
  return isSame(now) && isSame(then);
}
