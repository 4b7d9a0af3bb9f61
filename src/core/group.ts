/** The items in groups of equal keys, in the order of their first items. No group is empty. */
export function groupsBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => unknown): [Item, ...Item[]][] {
  return [...Map.groupBy(items, keyOf).values()] as [Item, ...Item[]][];
}
