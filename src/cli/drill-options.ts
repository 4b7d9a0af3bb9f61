/** What `drill` takes beside what every comparison takes. */

/** A share of the records in percent: above 0, at most 100. */
export function percentage(text: string): number {
  const value = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0 || value > 100) {
    throw new Error('expected a number above 0 and at most 100');
  }
  return value;
}
