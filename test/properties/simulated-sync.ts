/**
 * Syncs of a churning list by the decisions of the product (`PagingProof`, `createPageSize`, `isTooMany`) against a mirror that
 * is a map: what would be called complete, and what would be removed.
 */
import { HEAD, type PageAddress } from '../../src/api/target.ts';
import { PagingProof } from '../../src/api/paging-proof.ts';
import { PageSize } from '../../src/api/walk.ts';
import type { FetchedPage } from '../../src/api/paging-stats.ts';
import { isTooMany } from '../../src/sync/removals.ts';
import type { PagingProofEnd } from '../api/simulated-walk.ts';
import type { ChurningList, ServedPage } from './churning-list.ts';

/** The default of `removals` (config), with held removals confirmed by the very next run: the strictest case. */
const LIMITS = { maxRecords: 10, maxShare: 0.1, confirmAfterMs: 0 };

export interface SimulatedWalk extends PagingProofEnd {
  readonly requests: number;
}

/** What the stage would know: the pass that saw a record last, over all passes of a run. */
class Stage {
  readonly seen = new Map<string, number>();
  #pass = 0;
  distinct = 0;

  startPass(): void {
    this.#pass += 1;
    this.distinct = 0;
  }

  see(id: string): 'fresh' | 'again' | 'repeated' {
    const before = this.seen.get(id);
    if (before === this.#pass) return 'repeated';
    this.seen.set(id, this.#pass);
    this.distinct += 1;
    return before === undefined ? 'fresh' : 'again';
  }
}

export interface SyncEnd {
  readonly outcome: 'complete' | 'incomplete' | 'held';
  readonly reason: string | null;
  /** Records alive during all of the sync that no page showed. */
  readonly missed: readonly string[];
  /** Living records that left the mirror. */
  readonly falselyRemoved: readonly string[];
  readonly requests: number;
  /** Pages that a list standing still would need, one after the other. */
  readonly ideal: number;
  readonly isOnePage: boolean;
}

export class SimulatedMirror {
  readonly #list: ChurningList;
  readonly #isListOnly: boolean;
  readonly #held = new Set<string>();
  /** Id → version. */
  readonly #records = new Map<string, number>();

  constructor(list: ChurningList, isListOnly: boolean) {
    this.#list = list;
    this.#isListOnly = isListOnly;
  }

  sync(): SyncEnd {
    const list = this.#list;
    list.watch();
    const stage = new Stage();
    const versions = new Map<string, number>();
    const ideal = Math.max(1, Math.ceil(list.size / Math.min(list.spec.pageSize, list.spec.cap)));
    const walk = (): SimulatedWalk => this.#pass(stage, versions);
    const first = walk();
    let requests = first.requests;
    let outcome: SyncEnd['outcome'] = first.error === null ? 'complete' : 'incomplete';
    let reason = first.error?.message ?? null;
    const falselyRemoved: string[] = [];
    if (outcome === 'complete') {
      const absent = (): string[] => [...this.#records.keys()].filter((id) => !stage.seen.has(id));
      if (this.#isListOnly && !first.isOnePage && absent().length > 0) {
        const second = walk();
        requests += second.requests;
        if (second.error !== null) {
          outcome = 'incomplete';
          reason = second.error.message;
        }
      }
      const gone = outcome === 'complete' ? absent() : [];
      const waiting = gone.filter((id) => !this.#held.has(id));
      const isHeld = waiting.length > 0 && isTooMany(LIMITS, this.#records.size, gone.length);
      if (isHeld) outcome = 'held';
      for (const id of gone) {
        if (isHeld && waiting.includes(id)) {
          this.#held.add(id);
          continue;
        }
        if (!this.#isListOnly && list.isAlive(id)) {
          // A retrieve finds it: told as a leak.
          outcome = 'incomplete';
          reason = 'leaked';
          continue;
        }
        if (list.isAlive(id)) falselyRemoved.push(id);
        this.#records.delete(id);
      }
    }
    for (const [id, version] of versions) this.#records.set(id, version);
    for (const id of stage.seen.keys()) this.#held.delete(id);
    const missed = [...list.throughout].filter((id) => !stage.seen.has(id));
    return { outcome, reason, missed, falselyRemoved, requests, ideal, isOnePage: first.isOnePage };
  }

  #pass(stage: Stage, versions: Map<string, number>): SimulatedWalk {
    const { pageSize } = this.#list.spec;
    const proof = new PagingProof({
      acceptsQuery: true,
      isCountTrusted: true,
      stopsWhenKnown: false,
      canRestart: true,
      idPath: ['id'],
    });
    const size = new PageSize(pageSize);
    stage.startPass();
    let address: PageAddress = HEAD;
    for (let requests = 1; requests <= 20_000; requests += 1) {
      const offset = address.by === 'offset' ? address.offset : 0;
      const limit = size.limit();
      const page = this.#page(this.#list.serve(offset, limit), limit);
      size.arrived(page.records.length, limit, page.more);
      const foreseen = proof.prefetchAddress(page);
      const accepted = this.#accept(page, stage, versions);
      const step = proof.take(page, accepted, true);
      if ('end' in step) return { ...step.end, requests };
      if (foreseen !== null && step.pass === undefined && accepted.fresh > 0) {
        // What is asked for ahead must be what is asked for.
        if (JSON.stringify(foreseen) !== JSON.stringify(step.ask))
          throw new Error('foreseen another page than asked for');
      }
      if (step.pass !== undefined) {
        if (step.pass.isFresh) stage.startPass();
        size.wholeList(step.pass.count);
      }
      address = step.ask;
    }
    throw new Error('no verdict within 20,000 requests');
  }

  #page({ rows, count, hasMore, offset }: ServedPage, limit: number): FetchedPage {
    const { isDated } = this.#list.spec;
    return {
      records: rows.map(({ id, created }) => ({
        id,
        text: '{}',
        stableText: '{}',
        volatileText: '',
        createdAtText: isDated ? new Date(1_700_000_000_000 + created * 1000).toISOString() : undefined,
      })),
      keys: rows.map(({ id }) => id),
      withoutId: 0,
      count,
      more: hasMore,
      link: hasMore ? 'next' : null,
      cursor: null,
      limit,
      path: `/?offset=${offset}`,
      next: hasMore ? { offset: offset + rows.length, path: '/', isPositional: true, origin: null } : null,
    };
  }

  #accept(
    page: FetchedPage,
    stage: Stage,
    versions: Map<string, number>,
  ): { fresh: number; known: number; distinct: number; again: number } {
    let fresh = 0;
    let known = 0;
    let again = 0;
    for (const id of page.keys) {
      const version = this.#list.versionOf(id) ?? 0;
      versions.set(id, version);
      if (this.#records.get(id) === version) known += 1;
      const sight = stage.see(id);
      if (sight !== 'repeated') fresh += 1;
      if (sight === 'again') again += 1;
    }
    return { fresh, known, distinct: stage.distinct, again };
  }
}
