/** Short forms in notices: the one who is told has a telephone, not a terminal. */

/** What a notice is about, before its colon. */
export function subjectName(source: string): string {
  return source === '' ? 'mirror' : source;
}

/** `45 min`, `26 h`. */
export function span(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}
