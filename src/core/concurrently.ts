/**
 * Runs `work` for each item, at most `limit` at a time, started in order. After the first error, also one of the
 * iterable, no more are started; it is thrown once the running ones have ended.
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
