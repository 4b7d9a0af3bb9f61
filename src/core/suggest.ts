/** "Did you mean": the candidate nearest to a mistyped word. */

/** The end of a message about a mistyped word, `; did you mean NAME?`; empty if no candidate is near. */
export function didYouMean(
  word: string,
  candidates: Iterable<string>,
  quote: (name: string) => string = String,
): string {
  const near = suggest(word, candidates);
  return guessText(near === undefined ? undefined : quote(near));
}

/** The same for a guess that was found in another way. */
export function guessText(near: string | undefined): string {
  return near === undefined ? '' : `; did you mean ${near}?`;
}

/**
 * The candidate that `word` was probably meant to be; undefined if none is near. Case does not count. At most a third
 * of the letters, and never more than three, may differ. The first of equally near ones wins.
 */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase();
  // Longer than all our names, so a comparison would only take time.
  if (wanted === '' || wanted.length > 100) return undefined;
  let best: string | undefined;
  let bestDistance = Math.min(3, Math.max(1, Math.floor(wanted.length / 3))) + 1;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - wanted.length) >= bestDistance) continue;
    const distance = editDistance(wanted, candidate.toLowerCase());
    // A candidate in which all letters differ is not similar.
    if (distance < bestDistance && distance < candidate.length) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/**
 * Damerau–Levenshtein distance in its restricted form (optimal string alignment): insertions, deletions,
 * substitutions and swaps of neighbours each count one.
 * @internal
 */
export function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_unused, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(
        at(previous, j) + 1, // deletion
        at(current, j - 1) + 1, // insertion
        at(previous, j - 1) + cost, // substitution
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, at(beforePrevious, j - 2) + 1);
      }
      current.push(least);
    }
    beforePrevious = previous;
    previous = current;
  }
  return at(previous, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
