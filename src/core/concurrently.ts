/**
 * Runs `work` over the items, at most `limit` at a time, in order of arrival. The first error stops the rest from
 * starting and is thrown once those under way have ended; so is one of the items themselves.
 */
export async function eachConcurrently<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const lane = async (): Promise<void> => {
    for (;;) {
      if (failures.length > 0) return;
      try {
        const next = iterator.next();
        if (next.done === true) return;
        await work(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, limit) }, lane));
  if (failures.length > 0) throw failures[0];
}
