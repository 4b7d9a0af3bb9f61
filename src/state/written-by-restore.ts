/**
 * Which changes a restore made: an applied step of its journal wrote the same fields of the same record, between the last
 * sight of the record as it was and the run that found it changed. No run reads while a restore writes: both hold the lock.
 */
import { familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { JsonValue } from '../core/json.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { RecordChange, WrittenBy } from '../diff/change.ts';
import { type FieldChange, placeOf } from '../diff/compare.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type RestoreRow, storedSteps } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** The part of a stored plan that says what a step wrote. */
interface WrittenStep extends Pick<RecordChange, 'kind' | 'scope' | 'id' | 'fields'> {
  readonly n: number;
  readonly action: string;
}

interface Written {
  readonly who: Pick<WrittenBy, 'by' | 'via'>;
  /** `kind id` → the steps that were applied, with when. */
  readonly steps: ReadonlyMap<string, readonly (WrittenStep & { readonly at: string })[]>;
}

/** How a text of a plan that replaces a secret begins. */
const SECRET = '[secret';

/** The restores of one source; a plan is read once, when a change may be of it. */
export class RestoreWrites {
  readonly #mirror: Pick<Mirror, 'restores'>;
  readonly #source: string;
  readonly #read = new Map<number, Written>();

  constructor(mirror: Pick<Mirror, 'restores'>, source: string) {
    this.#mirror = mirror;
    this.#source = source;
  }

  /**
   * The last restore that wrote fields of the change; undefined if none did.
   * @param window ISO 8601: the change happened after one and not after the other; `after` null if that is not known
   */
  of(
    change: Pick<RecordChange, 'kind' | 'scope' | 'id' | 'change' | 'fields'>,
    { after, until }: { readonly after: string | null; readonly until: string },
  ): WrittenBy | undefined {
    if (after === null || change.change === 'added') return undefined;
    const kinds = familyKinds(change.kind);
    for (const restore of this.#mirror.restores.numbersBetween(this.#source, after, until)) {
      const { who, steps } = this.#written(restore);
      const own = kinds
        .flatMap((kind) => steps.get(`${kind} ${change.id}`) ?? [])
        .filter(({ at, scope }) => at > after && at <= until && scopeKey(scope) === scopeKey(change.scope));
      if (change.change === 'removed') {
        if (own.some(({ action }) => action === 'remove')) return { restore, ...who };
        continue;
      }
      const sent = own.flatMap(({ action, fields }) => (action === 'remove' ? [] : fields));
      const paths = change.fields.filter((field) => isWrittenBy(field, sent)).map(({ path }) => path);
      if (paths.length > 0) return { restore, ...who, paths };
    }
    return undefined;
  }

  /** A change from one run of the source to the next, with `changed_by` where a restore made it. */
  marked(change: RecordChange, { from, to }: { readonly from: RunRow; readonly to: RunRow }): RecordChange {
    if (change.created_again !== undefined) return change;
    const window = { after: from.finishedAt ?? from.startedAt, until: to.finishedAt ?? to.startedAt };
    const by = this.of(change, window);
    return by === undefined ? change : { ...change, changed_by: by };
  }

  #written(restore: number): Written {
    const known = this.#read.get(restore);
    if (known !== undefined) return known;
    const row = this.#mirror.restores.get(restore);
    const planned = (storedSteps(row?.plan ?? '{}') as object[] as WrittenStep[]).filter(
      // Written by the planner, unless another program altered it.
      ({ scope, fields }) => scope instanceof Object && Array.isArray(fields),
    );
    const applied = new Map(
      this.#mirror.restores
        .steps(restore)
        .flatMap(({ n, outcome, endedAt, sentAt }) =>
          outcome === 'applied' ? [[n, endedAt ?? sentAt ?? ''] as const] : [],
        ),
    );
    const done = planned.flatMap((step) => {
      const at = applied.get(step.n);
      return at === undefined ? [] : [{ ...step, at }];
    });
    const read = {
      who: starterOf(row),
      steps: Map.groupBy(done, ({ kind, id }) => `${kind} ${id}`),
    };
    this.#read.set(restore, read);
    return read;
  }
}

/** Who started a restore, and how the program knew them, where the mirror has it. */
export function starterOf(row: Pick<RestoreRow, 'by' | 'via'> | undefined): Pick<WrittenBy, 'by' | 'via'> {
  if (row === undefined) return { by: 'unknown' };
  const { by, via } = row;
  return { by, ...(via === undefined ? {} : { via }) };
}

/** What a step sent, unless the field has another value by now: then somebody else changed it once more. */
function isWrittenBy(field: FieldChange, sent: readonly FieldChange[]): boolean {
  const place = placeOf(field);
  return sent.some((own) => {
    const at = placeOf(own);
    if (at !== place) return place.startsWith(`${at}/`) || at.startsWith(`${place}/`);
    if (typeof own.to === 'string' && own.to.startsWith(SECRET)) return true;
    return textOf(own.to) === textOf(field.to);
  });
}

function textOf(value: JsonValue | undefined): string | undefined {
  return value === undefined ? undefined : canonicalText(value);
}
