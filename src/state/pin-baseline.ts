/** Pins a state of one mirror of many as its baseline, in one step that can be repeated. */
import { definitionOf } from '../catalog/catalog.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { SeenCollection } from '../mirror/sweeps-as-of.ts';
import { resolvedStateOf } from './resolved-state.ts';
import type { Reference } from './reference.ts';
import { isPublished } from './runs.ts';

interface PinnedBaseline {
  /** `already` if the mirror had this baseline. */
  readonly outcome: 'set' | 'already';
  readonly run: number;
  /** The baseline before, if it was another one. */
  readonly instead: string | null;
}

/**
 * Pins a state under a name, and makes it the baseline.
 * @param options.isExact false takes a snapshot that already has the name, whatever its run
 * @throws TidemarkError as `SnapshotStore.pinBaseline` and `resolvedStateOf`
 */
export function pinBaseline(
  mirror: Mirror,
  name: string,
  {
    reference,
    isExact,
    source,
  }: { readonly reference: Reference; readonly isExact: boolean; readonly source?: string | undefined },
): PinnedBaseline {
  const known = mirror.snapshots.list().find((snapshot) => snapshot.name === name);
  const before = mirror.snapshots.baseline();
  const choice = source === undefined ? {} : { source };
  const run = known !== undefined && !isExact ? known.run : resolvedStateOf(mirror, reference, choice).run;
  mirror.snapshots.pinBaseline(name, run);
  if (before?.name === name && before.contradiction === undefined)
    return { outcome: 'already', run, instead: null };
  return { outcome: 'set', run, instead: before === undefined || before.name === name ? null : before.name };
}

/** Sources of which the mirror had nothing as of that run: drift from it fails for them. */
export function sourcesNotIn(mirror: Pick<Mirror, 'runs'>, run: number): string[] {
  return mirror.runs
    .sources()
    .filter((source) => !mirror.runs.list({ source }).some((each) => isPublished(each) && each.run <= run));
}

/**
 * Collections of all sources that no run up to this one read completely, without those that the service does not offer:
 * drift from it cannot compare them.
 */
export function collectionsNotIn(mirror: Pick<Mirror, 'runs'>, run: number): SeenCollection[] {
  return mirror.runs
    .sources()
    .flatMap((source) => mirror.runs.sweepsAsOf(source, run))
    .filter(
      ({ kind, lastRun, completeRun, errorCode, isRetired }) =>
        lastRun !== null &&
        completeRun === null &&
        errorCode !== 'not_found' &&
        !isRetired &&
        definitionOf(kind).reading !== 'each',
    );
}

const KINDS_NAMED = 5;

/** A note on the collections that a pinned run lacks; undefined if it lacks none. */
export function unreadNote(mirror: Pick<Mirror, 'runs'>, run: number): string | undefined {
  const unread = collectionsNotIn(mirror, run);
  if (unread.length === 0) return undefined;
  const kinds = [...new Set(unread.map(({ kind }) => kind))];
  const names = [...kinds.slice(0, KINDS_NAMED), ...(kinds.length > KINDS_NAMED ? ['…'] : [])].join(', ');
  const [are, them] = unread.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return `run ${run} is partial: ${plural(unread.length, 'collection')} ${are} not in it (${names}), and drift from it cannot compare ${them}; \`tidemark doctor\` says why`;
}
