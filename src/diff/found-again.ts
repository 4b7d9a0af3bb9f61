/** Records that a plan found under other ids than those of the desired state: which of them no restore has recorded yet. */

interface FoundRecord {
  readonly kind: string;
  readonly desired_id: string;
  readonly live_id: string;
  readonly by: string;
}

/** Those that applying the plan records, also where it sends nothing. */
export function newlyFound<T extends FoundRecord>({ adopted }: { readonly adopted: readonly T[] }): T[] {
  return adopted.filter(({ by }) => by !== 'id_map');
}

/** How many ids continue others once the plan is applied: one record may be in the lists of several organizations. */
export function continuedIds(plan: { readonly adopted: readonly FoundRecord[] }): number {
  return new Set(newlyFound(plan).map((each) => `${each.kind} ${each.desired_id} ${each.live_id}`)).size;
}
