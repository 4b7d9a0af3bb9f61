/** `?as_of=REF`: which state of the mirror a request is about. */
import { TidemarkError } from '../../core/errors.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { type Point, resolvePoint } from '../../state/point.ts';
import { invalid } from '../wire-error.ts';

const AS_OF = 'as_of';

const LATEST = 'latest';
const FORMS = 'It takes latest, baseline, run:N, snapshot:NAME or a time like 2026-03-01T12:00Z.';

/** A point, and the root that seals all history up to its run. */
export interface SealedPoint extends Point {
  readonly root: string;
}

/**
 * The point that the query names; without `as_of` the latest.
 * @param now milliseconds since the epoch
 * @throws WireError 400 for what names no state that the mirror holds; TidemarkError `not_found` when nothing of the
 * source was ever published
 */
export function pointAsked(mirror: Mirror, query: URLSearchParams, source: string, now: number): SealedPoint {
  const [text = LATEST, ...more] = query.getAll(AS_OF);
  if (more.length > 0) throw invalid(AS_OF, 'invalid', 'as_of: given more than once.');
  try {
    // Asked for with nearly every request, and one look-up where a reference takes several.
    const latest = text === LATEST ? mirror.latestRun(source) : undefined;
    if (latest !== undefined) {
      const at = latest.finishedAt ?? latest.startedAt;
      return { ref: text, run: latest.run, at, isLatest: true, root: rootOf(latest) };
    }
    const point = resolvePoint(mirror, text, { source, now });
    return { ...point, root: rootOf(mirror.run(point.run)) };
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    if (error.code !== 'reference_unknown' && error.code !== 'usage') throw error;
    throw invalid(AS_OF, 'invalid', `as_of: ${error.message}. ${FORMS}`);
  }
}

function rootOf(run: RunRow | undefined): string {
  return run?.root ?? '';
}
