/**
 * Which changes a restore made: an applied step of its journal wrote the same fields of the same record, after the record
 * was last seen unchanged and before the run that found it changed. No run reads while a restore writes: both need the lock.
 */
import { familyKinds, scopeKey } from '../catalog/catalog.ts';
import { cached } from '../core/cached.ts';
import { defined } from '../core/defined.ts';
import type { JsonValue } from '../core/json.ts';
import { canonicalText } from '../diff/canonical.ts';
import type { RecordChange, WrittenBy } from '../diff/change.ts';
import { type FieldChange, placeOf } from '../diff/compare.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type RestoreRow, storedSteps } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** What a step of a stored plan wrote. */
interface WrittenStep extends Pick<RecordChange, 'kind' | 'scope' | 'id' | 'fields'> {
  readonly n: number;
  readonly action: string;
}

interface Written {
  readonly who: Pick<WrittenBy, 'by' | 'via'>;
  /** By `kind id`, the applied steps and when each was applied. */
  readonly steps: ReadonlyMap<string, readonly (WrittenStep & { readonly at: string })[]>;
}

/** The first characters of the text that replaces a secret in a plan. */
const SECRET = '[secret';

/** Finds the restores of one source that made changes; each plan is read once, on first use. */
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
   * @param window the change happened later than `after` (null if unknown) and not later than `until`, ISO 8601
   */
  of(
    change: Pick<RecordChange, 'kind' | 'scope' | 'id' | 'change' | 'fields'>,
    { after, until }: { readonly after: string | null; readonly until: string },
  ): WrittenBy | undefined {
    if (after === null || change.change === 'added') return undefined;
    const kinds = familyKinds(change.kind);
    for (const restore of this.#mirror.restores.numbersBetween(this.#source, after, until)) {
      const { who, steps } = cached(this.#read, restore, () => this.#written(restore));
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

  /** A change from one run of the source to the next, with `changed_by` if a restore made it. */
  marked(change: RecordChange, { from, to }: { readonly from: RunRow; readonly to: RunRow }): RecordChange {
    if (change.created_again !== undefined) return change;
    const window = { after: from.finishedAt ?? from.startedAt, until: to.finishedAt ?? to.startedAt };
    const by = this.of(change, window);
    return by === undefined ? change : { ...change, changed_by: by };
  }

  #written(restore: number): Written {
    const row = this.#mirror.restores.get(restore);
    const planned = (storedSteps(row?.plan ?? '{}') as object[] as WrittenStep[]).filter(
      // Another program may have altered the plan.
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
    return { who: starterOf(row), steps: Map.groupBy(done, ({ kind, id }) => `${kind} ${id}`) };
  }
}

/** Who started a restore, and how they were identified, if the mirror has it. */
export function starterOf(row: Pick<RestoreRow, 'by' | 'via'> | undefined): Pick<WrittenBy, 'by' | 'via'> {
  return row === undefined ? { by: 'unknown' } : { by: row.by, ...defined({ via: row.via }) };
}

/** True if a step sent the field, and it still has that value: otherwise somebody else changed it again. */
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
