/** What the mirror knows of changes of form between two states of a source (`diff/form-change.ts`). */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/definition.ts';
import type { JsonValue } from '../core/json.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FormChange, FormFacts } from '../diff/form-change.ts';
import type { RecordKey } from '../diff/order.ts';
import { resolvePointer } from '../diff/pointer.ts';
import { skipTest } from '../diff/skip.ts';
import { parseState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { StateFilter } from './filter.ts';
import { filterParts } from './filter.ts';
import type { LoadedState } from './state.ts';

interface Compared {
  readonly source: string;
  readonly filter: StateFilter;
}

/** Reads records only of kinds whose form changed. */
export function formFacts(
  mirror: Mirror,
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  diff: DiffDocument,
  { source, filter }: Compared,
): FormFacts {
  const counts = new Map<Kind, number>();
  const values = new Map<FormChange, ReadonlyMap<string, JsonValue>>();
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
  const valuesOf = ({ kind, field, runs }: FormChange): ReadonlyMap<string, JsonValue> => {
    const found = new Map<string, JsonValue>();
    for (const record of mirror.readRecordsAt(runs.at(-1) ?? 0, { sources: [source], kinds: [kind] })) {
      const value = resolvePointer(parseState(record).body, field);
      if (value !== undefined) found.set(keyText(record), value);
    }
    return found;
  };
  return {
    forms: formsBetween(mirror, source, from, to),
    bothSides: (kind) => {
      // Of some named records nothing can be told of the kind.
      if (filter.ids !== undefined) return null;
      const count = counts.get(kind) ?? countOf(kind);
      counts.set(kind, count);
      return count;
    },
    valueThen: (form, key) => {
      const known = values.get(form) ?? valuesOf(form);
      values.set(form, known);
      return known.get(keyText(key));
    },
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

function keyText({ scope, id }: RecordKey): string {
  return JSON.stringify([scopeKey(scope), id]);
}
