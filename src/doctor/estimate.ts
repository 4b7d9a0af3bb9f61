/** What a reading of a source will cost, collection by collection: the figures and how each is known. Pure. */
import { type Kind, type ResourceDefinition, type Scope, operationOf } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { pagesFor } from './pace.ts';

/** `last_run`: as it was then. `count`: from what the list says that it holds. `guess`: neither tells. */
export type Basis = 'last_run' | 'count' | 'guess';

export interface CollectionEstimate {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly requests: number;
  readonly bytes: number;
  readonly records: number | null;
  readonly basis: Basis;
}

export interface SourceEstimate {
  readonly source: SourceConfig;
  /** What the figures come from: `probe` where the service was looked at. */
  readonly from: 'mirror' | 'probe';
  readonly collections: readonly CollectionEstimate[];
  /** Milliseconds that one request takes, as far as is known; null where nothing tells. */
  readonly requestMs: number | null;
  readonly known: readonly string[];
  readonly guessed: readonly string[];
  /** Requests that looking took; 0 from the mirror. */
  readonly asked: number;
}

/**
 * How many parent records a kind read one by one is asked for: a sync's budget; in a live diff all of them where they are
 * no more than the budget, else none; all of them where the kind is asked for by name (src/state/live-state.ts).
 */
export type ParentRule = 'budget' | 'all_or_none' | 'all';

/** What is known of one collection before it is read. */
export interface Prospect {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Records of the list; for single objects per parent record, those of the parent's list. Null: not known. */
  readonly records: number | null;
  readonly recordBytes: number | null;
  readonly pageCap: number | null;
  /** Pages that the same reading took last time; null where there was none. */
  readonly lastPages: number | null;
  readonly parents: ParentRule;
  /** True for a feed of which only the head is read. */
  readonly isHead: boolean;
  /** Records that the last list did not show, and that are kept until that is settled. */
  readonly held?: number;
  /** True where the service refused it the last time: one request says it again. */
  readonly isRefused: boolean;
}

/** The envelope and what else an answer holds beside its records. */
const ANSWER_BYTES = 150;
/** A record that nobody saw yet: the mean of what organizations have configured. */
const RECORD_BYTES = 700;

/** Absent records of one collection that a live reading looks for (src/state/live-absence.ts). */
const LOOKED_UP_AT_MOST = 200;
/** Those that a sync looks for where it holds the removals (src/sync/absence.ts). */
const SAMPLED_AT_MOST = 10;

export function estimateOf(prospect: Prospect, source: SourceConfig): CollectionEstimate {
  const { definition, scope, records, recordBytes, lastPages, isHead, isRefused, pageCap } = prospect;
  const { kind } = definition;
  const perRecord = recordBytes ?? RECORD_BYTES;
  const made = (requests: number, rows: number, basis: Basis): CollectionEstimate => ({
    ...{ kind, scope, requests, records, basis },
    bytes: Math.round(rows * perRecord + requests * ANSWER_BYTES),
  });
  if (isRefused) return made(1, 0, 'last_run');
  if (definition.reading === 'each') {
    const { sharingPerRun } = source.recordings;
    const budget = sharingPerRun === 'all' || prospect.parents === 'all' ? Infinity : sharingPerRun;
    const known = records ?? (budget === Infinity ? 0 : budget);
    const asked = known <= budget ? known : prospect.parents === 'all_or_none' ? 0 : budget;
    return made(asked, asked, records === null ? 'guess' : 'count');
  }
  const page = Math.min(source.pageSize, pageCap ?? source.pageSize);
  if (isHead) {
    const pages = lastPages ?? 1;
    return made(pages, Math.min(records ?? page, pages * page), lastPages === null ? 'guess' : 'last_run');
  }
  const pages = lastPages ?? (records === null ? 1 : pagesFor(records, source.pageSize, pageCap));
  const rows = records ?? page;
  const most = prospect.parents === 'budget' ? SAMPLED_AT_MOST : LOOKED_UP_AT_MOST;
  const isLooked = operationOf(definition, 'retrieve') !== undefined;
  const looks = isLooked ? Math.min(prospect.held ?? 0, most) : 0;
  // Where rows are a reduced form, each record is asked for by itself.
  const retrieved = definition.listing.needsRetrieve ? rows : 0;
  const basis = lastPages === null ? (records === null ? 'guess' : 'count') : 'last_run';
  return made(pages + retrieved + looks, rows * (retrieved > 0 ? 2 : 1), basis);
}
