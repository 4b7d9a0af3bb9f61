/** What an export contains: its records, read and counted, and how complete they are. */
import { KINDS, type Kind } from '../catalog/kinds.ts';
import { kindsAbove, SCOPE_KIND } from '../catalog/lineage.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import type { DatedExportRecord, ExportRecord } from '../report/export/documents.ts';
import type { ExportExtent } from '../state/export.ts';
import { extentCollections, unreadKinds } from '../state/export-extent.ts';
import { miscounted, requireCountedWithin } from '../state/intact.ts';
import { isSearched, leadingFilter } from '../state/filter.ts';
import { type ResolvedState, resolvedStateOf } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { askedCollections, leadingCollections, unaskedIn } from './export-notes.ts';
import { type FilterOptions, recordFilter } from './filter-options.ts';

/**
 * How complete the export is, so that a reader knows what a missing record means: the filter, the collections of which it has every
 * record as of the state (null: the latest of each source), and those that could not be read. A collection of which only some records
 * were requested by id is not complete.
 */
export function extentOf(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  {
    resolvedState,
    namesSource,
  }: { readonly resolvedState: ResolvedState | null; readonly namesSource: boolean },
): ExportExtent {
  const { sources: _, ...filter } = recordFilter(sources, options);
  const run = resolvedState?.run ?? null;
  const isAsked = askedCollections(mirror, sources, options, run);
  const leads = leadingCollections(mirror, sources, options, run);
  const points = sources
    .filter((source) => mirror.runs.latest(source) !== undefined)
    .map((source) => ({
      source,
      at: resolvedState ?? resolvedStateOf(mirror, LATEST, { source, isEvidence: true }),
    }));
  const named = <T extends object>(source: string, collections: readonly T[]): T[] =>
    collections.map((each) => ({ ...(namesSource ? { source } : {}), ...each }));
  const found = points.map(({ source, at }) => {
    const own = extentCollections(mirror, source, at, {
      isAsked: (place) => isAsked({ source, ...place }) && !isSearched(filter, place.kind),
      leads: (place) => leads({ source, ...place }),
    });
    return { whole: named(source, own.whole), stale: named(source, own.stale) };
  });
  const whole = found.flatMap((each) => each.whole);
  const notRead = points.flatMap(({ source, at }) =>
    named(source, unaskedIn(mirror, source, at.run, recordFilter([source], options))),
  );
  const unknown =
    resolvedState === null
      ? []
      : mirror.records.unknownFields(resolvedState.run, recordFilter(sources, options));
  const dependedOn = new Set([...(options.kind ?? KINDS), ...(leadingFilter(filter)?.kinds ?? [])]);
  const unreadOf = sources.map((source) => {
    const at = points.find((each) => each.source === source)?.at;
    const isRead =
      at !== undefined && mirror.runs.list({ source, isPublished: true, upTo: at.run, limit: 1 }).length > 0;
    const never = isRead ? unreadKinds(mirror, source, at) : new Set(KINDS);
    return { source, kinds: KINDS.filter((each) => dependedOn.has(each) && never.has(each)) };
  });
  const published = unreadOf.filter(({ source }) => points.some((each) => each.source === source));
  const unread = KINDS.filter((each) => published.every(({ kinds }) => kinds.includes(each)));
  const bySource = namesSource ? unreadOf.filter(({ kinds }) => kinds.length > 0) : [];
  // The document will also have records from other mirrors.
  const isJoined = namesSource && sources.length === 1;
  const stale = found.flatMap((each) => each.stale).filter((each) => isJoined || !unread.includes(each.kind));
  return {
    filter,
    whole,
    ...withoutEmpty({
      ...{ stale, volatile_unknown: unknown, unread, unread_by_source: bySource, not_read: notRead },
    }),
  };
}

function withoutEmpty<Lists extends Record<string, readonly unknown[]>>(lists: Lists): Partial<Lists> {
  return Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)) as Partial<Lists>;
}

/** The part of the extent that is about one kind. */
export function extentOfKind(
  {
    filter,
    whole,
    stale = [],
    volatile_unknown: unknown = [],
    unread = [],
    unread_by_source: bySource = [],
    not_read: notRead = [],
  }: ExportExtent,
  kind: Kind,
): ExportExtent {
  const isOwn = (each: { readonly kind: Kind }): boolean => each.kind === kind;
  const above = kindsAbove([kind]);
  const ownBySource = bySource.flatMap(({ source, kinds: all }) => {
    const kinds = all.filter((each) => each === kind || above.includes(each));
    return kinds.length === 0 ? [] : [{ source, kinds }];
  });
  return {
    filter: { ...filter, kinds: [kind] },
    whole: whole.filter(isOwn),
    ...withoutEmpty({
      stale: stale.filter((each) => isOwn(each) || above.includes(each.kind)),
      volatile_unknown: unknown.filter(isOwn),
      unread: unread.filter((each) => above.includes(each)),
      unread_by_source: ownBySource,
      not_read: notRead.filter(isOwn),
    }),
  };
}

interface Narrowing {
  readonly kind?: Kind;
  readonly source?: string;
}

/** The records of an export: read from the requested state, counted, and compared with the counts of the mirror. */
export class ExportContent {
  readonly #mirror: Mirror;
  readonly #filter: RecordFilter & { readonly sources: readonly string[] };
  readonly #run: number | null;
  readonly #namesSource: boolean;
  /** The run of the state, also for the latest one. */
  readonly run: number;
  #records = 0;

  /** `run`: null for the latest state. */
  constructor(
    mirror: Mirror,
    filter: RecordFilter & { readonly sources: readonly string[] },
    run: number | null,
    { namesSource }: { readonly namesSource: boolean },
  ) {
    this.#namesSource = namesSource;
    this.#mirror = mirror;
    this.#filter = filter;
    this.#run = run;
    this.run = run ?? this.#latest();
  }

  get sources(): readonly string[] {
    return this.#filter.sources;
  }

  /** True if each record names its source, as there are several. */
  get hasSource(): boolean {
    return this.sources.length > 1;
  }

  /** The number of records that `records` and `dated` have yielded. */
  get count(): number {
    return this.#records;
  }

  /** The records, without counting them. */
  look(narrowing: Narrowing = {}): Generator<ExportRecord> {
    return this.#named(this.#read(this.#narrowed(narrowing)));
  }

  /**
   * The records, counted.
   * @throws TidemarkError `mirror_corrupt` at a record that does not match its hash, and at the end if their number is not that of the
   *   mirror
   */
  records(narrowing: Narrowing = {}): Generator<ExportRecord> {
    const records = this.#read(this.#narrowed(narrowing), { isChecked: true });
    return this.#counted(narrowing, this.#named(records));
  }

  /** The same with the times of each record, for a table. */
  dated(narrowing: Narrowing = {}): Generator<DatedExportRecord> {
    const records = this.#mirror.records.dated(this.#run, this.#narrowed(narrowing));
    return this.#counted(narrowing, this.#named(records));
  }

  *#named<Row extends MirrorRecord>(
    records: Iterable<Row>,
  ): Generator<Omit<Row, 'source'> & { readonly source: string | null }> {
    for (const record of records) yield { ...record, source: this.#namesSource ? record.source : null };
  }

  *#counted<Row>(narrowing: Narrowing, records: Iterable<Row>): Generator<Row> {
    const filter = {
      ...this.#narrowed(narrowing),
      sources: narrowing.source === undefined ? this.sources : [narrowing.source],
    };
    requireCountedWithin(this.#mirror, filter);
    const expected = this.#mirror.records
      .countsAt(this.run, filter)
      .reduce((sum, { records }) => sum + records, 0);
    let found = 0;
    for (const record of records) {
      found += 1;
      this.#records += 1;
      yield record;
    }
    // Not an error if a new run changed the latest state between counting and reading.
    if (found === expected || (this.#run === null && this.#latest() !== this.run)) return;
    throw miscounted(this.#mirror, { counted: expected, read: found });
  }

  /** The organizations and projects of the state, whatever the export is narrowed to. */
  parents(): Iterable<ExportRecord> {
    const { organization_id, project_id } = SCOPE_KIND;
    return this.#read({ sources: this.sources, kinds: [organization_id, project_id] });
  }

  isEmpty(narrowing: Narrowing): boolean {
    for (const _record of this.look(narrowing)) return false;
    return true;
  }

  #read(filter: RecordFilter, how: { readonly isChecked?: boolean } = {}): Iterable<MirrorRecord> {
    return this.#run === null
      ? this.#mirror.records.read(filter, how)
      : this.#mirror.records.readAt(this.#run, filter, { ...how, isKnownOnly: true });
  }

  #narrowed({ kind, source }: Narrowing): RecordFilter {
    return {
      ...this.#filter,
      ...(kind === undefined ? {} : { kinds: [kind] }),
      ...(source === undefined ? {} : { sources: [source] }),
    };
  }

  #latest(): number {
    return Math.max(...this.sources.map((source) => this.#mirror.runs.latest(source)?.run ?? 0));
  }
}
