/** What the mirror knows of changes of form between two states of a source (`diff/form-change.ts`). */
import { type Kind, type ResourceDefinition, fieldsByName } from '../catalog/definition.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FormChange, FormFacts, ValueThen } from '../diff/form-change.ts';
import { resolvePointer, splitPointer } from '../diff/pointer.ts';
import { skipTest } from '../diff/skip.ts';
import { parseState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type StateFilter, filterParts } from './filter.ts';
import type { LoadedState } from './state.ts';

interface Compared {
  readonly source: string;
  readonly filter: StateFilter;
  /** Definitions in force for the source. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

/** Reads records only of kinds whose form changed. */
export function formFacts(
  mirror: Mirror,
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  diff: DiffDocument,
  { source, filter, definitions }: Compared,
): FormFacts {
  const counts = new Map<Kind, number>();
  const countOf = (kind: Kind): number => {
    const isSkipped = skipTest([...diff.skipped, ...(diff.left_out ?? [])]);
    const organizations = filter.organizations ?? [];
    const parts = filterParts({ ...filter, kinds: [kind] }, () => [
      ...new Set([...from.projectsOf(organizations), ...to.projectsOf(organizations)]),
    ]);
    let count = 0;
    for (const part of parts)
      for (const key of to.keys?.(part) ?? to.records(part)) if (!isSkipped(key)) count += 1;
    return count - diff.changes.filter((each) => each.kind === kind && each.change === 'added').length;
  };
  // The mirror reads in the order of `compareKeys`; one record is held.
  function* valuesThen({ kind, field, runs }: FormChange): Generator<ValueThen> {
    for (const record of mirror.readRecordsAt(runs.at(-1) ?? 0, { sources: [source], kinds: [kind] })) {
      const value = resolvePointer(parseState(record).body, field);
      if (value !== undefined) yield { kind, scope: record.scope, id: record.id, value };
    }
  }
  return {
    forms: formsBetween(mirror, source, from, to),
    bothSides: (kind) => {
      // Of some named records nothing can be told of the kind.
      if (filter.ids !== undefined) return null;
      const count = counts.get(kind) ?? countOf(kind);
      counts.set(kind, count);
      return count;
    },
    isManaged: (kind, field) => {
      const [name = ''] = splitPointer(field);
      return fieldsByName(definitions(kind)).get(name)?.isWritable === true;
    },
    valuesThen,
  };
}

/** What the runs after FROM up to TO found; up to the latest one where TO is live. Of an export nothing is known. */
function formsBetween(mirror: Mirror, source: string, from: LoadedState, to: LoadedState): FormChange[] {
  const isLive = to.reference.ref === 'live';
  if (from.point === null || (to.point === null && !isLive)) return [];
  const until = to.point?.run ?? Infinity;
  const forms = new Map<string, FormChange>();
  for (const { run, kind, field, change, before, after } of mirror
    .schemaChanges({ source, sinceRun: from.point.run + 1 })
    .toReversed()) {
    if (run > until || change === 'unwatched') continue;
    const name = JSON.stringify([kind, field, change]);
    const earlier = forms.get(name);
    forms.set(name, {
      kind,
      field,
      change,
      before: earlier?.before ?? before,
      after,
      runs: [...(earlier?.runs ?? []), run],
    });
  }
  return [...forms.values()];
}
