/** Whether a feed really is newest first: only then does a known page say that all behind it is known too. */
import type { ScannedRecord } from '../core/json-scan.ts';

interface HeadOrder {
  /** Looks at a page in received order. False from the first record on that is newer than one before it, or undated. */
  look(records: readonly ScannedRecord[]): boolean;
}

/**
 * Checks the order by a top-level timestamp; `member` null (the kind has none) means that no order can be relied on.
 * Pages overlap and may shift, so a page is compared with the start of the one before it.
 */
export function createHeadOrder(member: string | null): HeadOrder {
  let isOrdered = member !== null;
  let earlierStart = Number.POSITIVE_INFINITY;
  return {
    look: (records) => {
      if (!isOrdered || member === null) return false;
      let previous = earlierStart;
      for (const [index, { text }] of records.entries()) {
        const at = timeOf(text, member);
        if (at === null || at > previous) {
          isOrdered = false;
          return false;
        }
        previous = at;
        if (index === 0) earlierStart = at;
      }
      return true;
    },
  };
}

/** Milliseconds since the epoch; null where the record tells no time, which leaves the order unknown. */
function timeOf(text: string, member: string): number | null {
  const value = memberOf(text, member);
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

function memberOf(text: string, member: string): unknown {
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    return Object.hasOwn(body, member) ? body[member] : undefined;
  } catch (error) {
    // Whether the record may be kept is the sink's to say; here it only has no time.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
