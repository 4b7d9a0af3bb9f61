/** Records that a plan found under other ids than in the desired state, as far as no restore has recorded it yet. */

interface FoundRecord {
  readonly kind: string;
  readonly desired_id: string;
  readonly live_id: string;
  readonly by: string;
}

/** Those that applying the plan will record, even if it sends nothing. */
export function newlyFound<T extends FoundRecord>({ adopted }: { readonly adopted: readonly T[] }): T[] {
  return adopted.filter(({ by }) => by !== 'id_map');
}

/** The number of records that continue under another id once the plan is applied; one may be in the lists of several organizations. */
export function continuedIds(plan: { readonly adopted: readonly FoundRecord[] }): number {
  return new Set(newlyFound(plan).map((each) => `${each.kind} ${each.desired_id} ${each.live_id}`)).size;
}
