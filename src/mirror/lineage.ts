/**
 * The history of a record that had several ids, from the histories of these ids: under which id it continued, run by run. An id may
 * return (the service undeletes a record that a restore had created again). Pure.
 */
interface Step {
  readonly run: number;
  readonly id: string;
  readonly change: string;
}

interface Family<T extends Step> {
  /** By id, the steps of each id that the mirror has seen, newest first. */
  readonly histories: ReadonlyMap<string, readonly T[]>;
  /** The ids that this one replaced by the id map, the nearest first. */
  readonly earlier: (id: string) => readonly string[];
}

/**
 * The steps of the record that the id `own` belongs to, newest first. If one run saw one id and missed another, the removal is
 * earlier (later in the list) than the step of the id that continues. Two ids that exist at the same time are two records, each with
 * its own later history, unless one of them ends unchanged.
 */
export function lineageOf<T extends Step>(own: string, family: Family<T>): readonly T[] {
  // Before an id existed, the record had the id that it replaced.
  const known = [own, ...family.earlier(own)].flatMap((id) => {
    const steps = family.histories.get(id) ?? [];
    return steps.find(isThere) ?? steps[0] ?? [];
  });
  const [newest] = known;
  if (newest === undefined) return [];
  const lines = [...family.histories.keys()]
    .map((id) => lineFrom(id, family))
    .filter((line) => line.includes(newest));
  const [best] = lines.sort(
    (a, b) => rank(b) - rank(a) || (b[0]?.run ?? 0) - (a[0]?.run ?? 0) || b.length - a.length,
  );
  return best ?? [];
}

/** Lines that end with a record that is there come first. */
function rank([newest]: readonly Step[]): number {
  return newest !== undefined && isThere(newest) ? 1 : 0;
}

function isThere({ change }: Step): boolean {
  return change !== 'removed';
}

/** The steps from the newest one of an id backwards, from each id to the one before it. */
function lineFrom<T extends Step>(id: string, family: Family<T>): T[] {
  const line: T[] = [];
  let steps: readonly T[] = family.histories.get(id) ?? [];
  for (;;) {
    const arrival = steps.findIndex((step, index) => isThere(step) && steps[index + 1]?.change === 'removed');
    const end = arrival === -1 ? steps.length : arrival + 1;
    line.push(...steps.slice(0, end));
    const came = steps[end - 1];
    if (came === undefined) return line;
    steps = before(came, family);
  }
}

/** The steps of the id that the record had before it got this one. */
function before<T extends Step>(came: T, { histories, earlier }: Family<T>): readonly T[] {
  const { id, run } = came;
  const ancestors = earlier(id);
  const isReturn = histories.get(id)?.some((step) => step.run < run) === true;
  let best: { readonly until: number; readonly steps: readonly T[] } | undefined;
  for (const other of new Set([...ancestors, ...histories.keys()])) {
    const all = histories.get(other) ?? [];
    const past = all.filter((step) => step.run < run);
    const [last] = past;
    if (last === undefined) continue;
    const next = all.findLast((step) => step.run >= run);
    const found = ((): typeof best => {
      if (!isThere(last)) return { until: last.run, steps: past };
      // It existed until this run missed it.
      if (next?.change === 'removed' && next.run === run) return { until: run, steps: [next, ...past] };
      // It was still seen beside this one: until its removal was confirmed, or because it is a record of its own.
      const isReplaced = next?.change === 'removed' || (!isReturn && ancestors.includes(other));
      return isReplaced ? { until: run, steps: past } : undefined;
    })();
    if (found !== undefined && (best === undefined || found.until > best.until)) best = found;
  }
  return best?.steps ?? [];
}
