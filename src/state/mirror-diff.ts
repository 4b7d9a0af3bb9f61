/** What differs between two runs of one mirror, at the cost of the changes between them. */
import type { Kind, ResourceDefinition, Scope } from '../catalog/definition.ts';
import type { DiffDocument, Skipped, StateReference } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { stepsOverPairs } from '../diff/pairs.ts';
import {
  type CompareOptions,
  type DiffSteps,
  type RecordState,
  type StatePair,
  inOneGo,
} from '../diff/states.ts';
import type { ChangedRecord } from '../mirror/changes-between.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { NewlyReadCollections } from './newly-read.ts';
import { openMirrorState } from './mirror-state.ts';

/** A published run, as the user named it. */
export interface RunPoint {
  readonly ref: string;
  readonly run: number;
  /** When the run ended, ISO 8601. */
  readonly at?: string;
  readonly forgotten?: StateReference['forgotten'];
}

interface PointDiffOptions {
  readonly mode: ComparisonMode;
  /** Leaves the records of one source: record keys are unique within a source only. */
  readonly filter: RecordFilter;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields?: readonly string[];
  /** Definitions in force; the catalog's own when left out. */
  readonly definitions?: (kind: Kind) => ResourceDefinition;
  /** What could not be read on one side: left out on both, and named in the document. */
  readonly skipped?: readonly Skipped[];
  /** Collections that are part of both states though they may hold no record. */
  readonly collections?: Iterable<{ readonly kind: Kind; readonly scope: Scope }>;
  readonly isUnknown?: CompareOptions['isUnknown'];
  /** What is made of the changes before they are compared: records that were created again as one (`recreated.ts`). */
  readonly through?: (changes: Iterable<ChangedRecord>) => Iterable<ChangedRecord>;
}

/**
 * What changed from one run to the other: the document that comparing all records of both would give (`diffStates` over
 * `readRecordsAt`), in every mode, but for what was only read for the first time (`first_read`), where the filter names
 * one source. A record without a revision in between reads the same as of both, since what moves without a revision is
 * not part of history. For the same reason `all` shows how volatile members differ between two revisions, and not how they moved
 * while a record had none.
 * @throws TidemarkError as `diffPairs`
 */
export function diffPoints(
  mirror: Mirror,
  from: RunPoint,
  to: RunPoint,
  options: PointDiffOptions,
): DiffDocument {
  const [source, ...others] = options.filter.sources ?? [];
  if (source === undefined || others.length > 0) return inOneGo(stepsOverPoints(mirror, from, to, options));
  const reads = new NewlyReadCollections(
    openMirrorState(mirror, source, { ref: from.ref, run: from.run, at: from.at ?? '', isLatest: false }),
  );
  const document = inOneGo(
    stepsOverPoints(mirror, from, to, {
      ...options,
      isUnknown: (key, change) => {
        const isFirst = reads.isUnknown(key, change);
        return options.isUnknown?.(key, change) === true || isFirst;
      },
    }),
  );
  const found = reads.found();
  return found.length === 0 ? document : { ...document, first_read: found };
}

/** As `diffPoints`, in steps. */
export function stepsOverPoints(
  mirror: Mirror,
  from: RunPoint,
  to: RunPoint,
  options: PointDiffOptions,
): DiffSteps {
  const { filter, collections, isUnknown, through, ...compare } = options;
  const changes = mirror.changesBetween(from.run, to.run, filter);
  return stepsOverPairs(
    {
      from: referenceOf(from),
      to: referenceOf(to),
      pairs: pairsOf(through === undefined ? changes : through(changes)),
      sizes: mirror.recordCountsAt(to.run, filter),
      ...(collections === undefined ? {} : { collections }),
    },
    { ...compare, ...(isUnknown === undefined ? {} : { isUnknown }) },
  );
}

function referenceOf({ ref, run, at, forgotten }: RunPoint): StateReference {
  return {
    ref,
    run,
    ...(at === undefined ? {} : { at }),
    ...(forgotten === undefined ? {} : { forgotten }),
  };
}

function* pairsOf(changes: Iterable<ChangedRecord>): Generator<StatePair> {
  for (const { kind, scope, id, before, after } of changes) {
    const state = (body: string | undefined): RecordState | undefined =>
      body === undefined ? undefined : { kind, scope, id, body };
    const [from, to] = [state(before), state(after)];
    if (to !== undefined) yield { from, to };
    else if (from !== undefined) yield { from, to: undefined };
  }
}
