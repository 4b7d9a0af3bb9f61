/** One collection of a run: what was read of it, compared with what the mirror holds, and the verdicts on what is absent. */
import { TidemarkError } from '../core/errors.ts';
import { parseReceived } from '../core/json.ts';
import { type ScannedRecord, RecordSyntaxError, MOST_NESTING, nestsDeeperThan } from '../core/json-scan.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import {
  absentRecords,
  countAbsent,
  decideAbsences,
  type AbsentCounts,
  type AbsentRecord,
  type AbsentShare,
} from './absence.ts';
import type {
  CollectionFacts,
  CollectionStage,
  PageCounts,
  StageCounts,
  UnkeptRecord,
} from './collection-stage.ts';
import { translated } from './database.ts';
import type { KindShapes } from './field-shapes.ts';
import { hashStart, stableHash, volatileMark } from './classify-record.ts';
import {
  type StagedChange,
  type KnownAction,
  countOf,
  isAddition,
  classifyRecord,
} from './classify-record.ts';
import { type CurrentRow } from './stage.ts';
import type { StageContext } from './stage.ts';
import { VERDICT } from './stage.ts';

/** Records that cannot be kept and are reported by name; a list of nothing else must not fill the memory. */
const MOST_UNKEPT = 1000;

/** @throws RecordSyntaxError */
function parsedRecord({ id, received }: Match): unknown {
  try {
    return parseReceived(received.text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new RecordSyntaxError(id, error.message);
  }
}

/** Counts of one collection, updated by each record. */
interface Tally {
  added: number;
  changed: number;
  unchanged: number;
  distinct: number;
}

export function openCollectionStage(context: StageContext, facts: CollectionFacts): CollectionStage {
  return new StagedCollection(context, facts);
}

class StagedCollection implements CollectionStage {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly known: number;
  readonly hasRemoved: boolean;
  readonly #context: StageContext;
  readonly #facts: CollectionFacts;
  readonly #shapes: KindShapes;
  readonly #tally: Tally = { added: 0, changed: 0, unchanged: 0, distinct: 0 };
  /** Rows of `stage.moved` of this collection: while there are none, a record seen again is not looked up there. */
  #changed = 0;
  #firstWalk: number;
  #walk: number;
  /** By id: why it cannot be kept, and the last walk that saw it. */
  readonly #unkept = new Map<string, { readonly reason: string; walk: number }>();

  constructor(context: StageContext, facts: CollectionFacts) {
    this.kind = facts.kind;
    this.scope = facts.scope;
    this.known = facts.known;
    this.hasRemoved = facts.hasRemoved;
    this.#context = context;
    this.#facts = facts;
    this.#shapes = context.shapes.of(facts.kind);
    this.#walk = context.nextWalk();
    this.#firstWalk = this.#walk;
  }

  startWalk(): void {
    const isUntouched = this.#tally.distinct === 0 && this.#walk === this.#firstWalk;
    this.#walk = this.#context.nextWalk();
    if (isUntouched) this.#firstWalk = this.#walk;
    this.#tally.distinct = 0;
  }

  dropUnproven(): number {
    this.#context.check();
    if (this.#walk === this.#firstWalk || this.#tally.added === 0) return 0;
    const { path, writer } = this.#context;
    return translated(path, () =>
      this.#write(() => {
        const dropped = writer.transaction(() => this.#dropFresh() + this.#dropReturned())();
        this.#tally.added -= dropped;
        return dropped;
      }),
    );
  }

  /** Records that the mirror never had. */
  #dropFresh(): number {
    const { statements } = this.#context;
    const ids = statements.freshBefore.all(this.#facts.id, this.#walk);
    for (const id of ids) {
      const fresh = statements.fresh.get(this.#facts.id, id);
      if (fresh === undefined) continue;
      this.#uncount(statements.freshBody.get(fresh.n));
      statements.dropFreshBody.run(fresh.n);
      statements.dropFreshKey.run(this.#facts.id, id);
    }
    return ids.length;
  }

  /** Records that earlier runs removed. */
  #dropReturned(): number {
    const { statements } = this.#context;
    const records = this.#changed === 0 ? [] : statements.returnedBefore.all(this.#facts.id, this.#walk);
    for (const record of records) {
      statements.dropChanged.run(record);
      this.#changed -= 1;
    }
    return records.length;
  }

  counts(): StageCounts {
    return { ...this.#tally };
  }

  get unkept(): readonly UnkeptRecord[] {
    return [...this.#unkept].map(([id, { reason }]) => ({ id, reason }));
  }

  accept(received: readonly ScannedRecord[]): PageCounts {
    this.#context.check();
    const { redact } = this.#context;
    // A record that nests too deep is not kept, so it is not redacted: searching it for secrets might not end.
    const records =
      redact === undefined
        ? received
        : received.map((record) =>
            nestsDeeperThan(record.text, MOST_NESTING) ? record : redact(this.kind, record),
          );
    return translated(this.#context.path, () => {
      const { writer } = this.#context;
      // One transaction around the look-ups, too: otherwise each would lock the file again.
      writer.exec('BEGIN');
      const { matches, changes } = this.#comparePage(records);
      return this.#write(() => {
        const { fresh, again, known } = this.#markPage(matches, changes);
        writer.exec('COMMIT');
        const { distinct, added, changed, unchanged } = this.#tally;
        const addedIds = matches
          .filter((_match, index) => {
            const change = changes[index];
            return change?.action !== 'unkept' && isAddition(change);
          })
          .map(({ id }) => id);
        return { fresh, again, known, distinct, added, changed, unchanged, addedIds };
      });
    });
  }

  /** Only reads: when it throws, nothing of the page was staged. */
  #comparePage(records: readonly ScannedRecord[]): {
    matches: readonly Match[];
    changes: readonly (StagedChange | Unkept | null)[];
  } {
    const matches: Match[] = [];
    const changes: (StagedChange | Unkept | null)[] = [];
    try {
      for (const record of records) matches.push(this.#match(record));
      for (const match of matches) changes.push(match.record === 0 ? this.#classify(match) : null);
      return { matches, changes };
    } catch (error) {
      changes.forEach((change, index) => {
        if (change?.action === 'fresh') this.#uncount(matches[index]?.received.text);
      });
      this.#context.writer.exec('ROLLBACK');
      throw error;
    }
  }

  /** A write to the stage. It has no journal on disk, so a failed write makes all of it unusable. */
  #write<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.#context.breakStage(error);
      throw error;
    }
  }

  #markPage(
    matches: readonly Match[],
    changes: readonly (StagedChange | Unkept | null)[],
  ): { fresh: number; again: number; known: number } {
    let fresh = 0;
    let again = 0;
    let known = 0;
    matches.forEach((match, index) => {
      const change = changes[index] ?? null;
      const sighting =
        change === null
          ? this.#markUnchanged(match.record)
          : change.action === 'unkept'
            ? this.#markUnkept(match.id, change)
            : this.#mark(match, change);
      if (sighting !== 'in_this_walk') fresh += 1;
      if (sighting === 'in_earlier_walk') again += 1;
      if (change === null || change.action === 'unchanged') known += 1;
    });
    return { fresh, again, known };
  }

  /** `record` 0: unknown to the mirror, or not as the mirror holds it. */
  #match(received: ScannedRecord): Match {
    const id = received.id;
    if (id === undefined)
      throw new TidemarkError('internal', `a record of ${this.kind} without an id was staged`);
    const hash = stableHash(received);
    const volatile = volatileMark(received.volatileText);
    const record = this.known === 0 ? undefined : this.#find(id, hash, volatile);
    return { received, id, hash, volatile, record: record ?? 0 };
  }

  /** Hashes made under an earlier sealing rule (another set of volatile fields left out) cannot be compared with today's. */
  #find(id: string, hash: Buffer, volatile: number | null): number | undefined {
    const { statements } = this.#context;
    const start = hashStart(hash);
    const { rules } = this.#facts;
    const since = rules.at(-1)?.run;
    return rules.length <= 1 || since === undefined
      ? statements.matching.get(this.#facts.id, id, start, volatile)
      : statements.matchingSince(this.kind).get(this.#facts.id, id, start, volatile, since);
  }

  #classify(match: Match): StagedChange | Unkept {
    // Text with a known hash was parsed when it came first; this text is new.
    const body = parsedRecord(match);
    const { statements, isEqual } = this.#context;
    const current: CurrentRow | undefined =
      this.known === 0 ? undefined : statements.current(this.kind).get(this.#facts.id, match.id);
    const reason = this.#whyUnkept(match.received.text);
    if (reason !== null) return { action: 'unkept', record: current?.record ?? 0, reason };
    if (current === undefined) {
      const removed = this.#facts.hasRemoved ? statements.removed.get(this.#facts.id, match.id) : undefined;
      if (removed !== undefined) return { action: 'returned', record: removed };
      // Counted here since it is parsed here; changed records are counted when they are published.
      this.#shapes.add(body);
      return { action: 'fresh', record: 0 };
    }
    return classifyRecord(this.kind, current, match.received, match.hash, this.#facts.rules, isEqual);
  }

  /** Why SQLite would refuse the text as a body: detected here, one record fails; in publishing, the whole run would. */
  #whyUnkept(text: string): string | null {
    try {
      if (this.#context.statements.isJson.get(text) === 1) return null;
    } catch (error) {
      if (!isTooBig(error)) throw error;
      return 'is larger than SQLite keeps';
    }
    return nestsDeeperThan(text, MOST_NESTING)
      ? `nests more than ${MOST_NESTING} levels deep`
      : 'is not JSON to SQLite';
  }

  /** Subtracts a new record from the counts of fields. */
  #uncount(text: string | undefined): void {
    if (text !== undefined) this.#shapes.remove(JSON.parse(text));
  }

  /** A record exactly as the mirror holds it. */
  #markUnchanged(record: number): Sighting {
    const { seen } = this.#context;
    if (this.#walk === this.#firstWalk && seen.walkOf(record) === undefined) {
      seen.mark(record, this.#walk);
      this.#tally.unchanged += 1;
      this.#tally.distinct += 1;
      return 'first';
    }
    return this.#markChanged(record, 'unchanged', null);
  }

  /** A record that cannot be kept counts as seen: the mirror keeps the version that it has. */
  #markUnkept(id: string, { record, reason }: Unkept): Sighting {
    const before = this.#unkept.get(id);
    if (before !== undefined || this.#unkept.size < MOST_UNKEPT)
      this.#unkept.set(id, { reason, walk: this.#walk });
    if (record !== 0) return this.#markUnchanged(record);
    if (before?.walk === this.#walk) return 'in_this_walk';
    this.#tally.distinct += 1;
    return before === undefined ? 'first' : 'in_earlier_walk';
  }

  #mark(match: Match, change: StagedChange): Sighting {
    if (change.action === 'fresh') return this.#markFresh(match);
    return this.#markChanged(change.record, change.action, match);
  }

  #markFresh({ id, hash, volatile, received }: Match): Sighting {
    const { statements, nextFresh } = this.#context;
    const collection = this.#facts.id;
    const n = nextFresh();
    if (statements.addFreshKey.run(collection, id, n, this.#walk, hash, volatile).changes === 1) {
      statements.addFreshBody.run(n, received.text);
      this.#tally.added += 1;
      this.#tally.distinct += 1;
      return 'first';
    }
    const before = statements.fresh.get(collection, id);
    // Staged before, and counted then.
    if (before !== undefined) this.#uncount(statements.freshBody.get(before.n));
    statements.replaceFreshKey.run(this.#walk, hash, volatile, collection, id);
    if (before !== undefined) statements.replaceFreshBody.run(received.text, before.n);
    if (before?.walk === this.#walk) return 'in_this_walk';
    this.#tally.distinct += 1;
    return 'in_earlier_walk';
  }

  /** Marks a record that the mirror has or had; replaces how an earlier page of this run marked it. */
  #markChanged(record: number, action: KnownAction, match: Match | null): Sighting {
    const { statements, seen } = this.#context;
    const walk = seen.walkOf(record);
    if (walk !== this.#walk) {
      seen.mark(record, this.#walk);
      this.#tally.distinct += 1;
    }
    if (walk !== undefined) {
      const before = this.#changed > 0 ? statements.changedAction.get(record) : undefined;
      this.#tally[countOf(before === undefined ? 'unchanged' : statements.actionName(before))] -= 1;
      if (before !== undefined) {
        statements.dropChanged.run(record);
        this.#changed -= 1;
      }
    }
    this.#tally[countOf(action)] += 1;
    if (action !== 'unchanged' && match !== null) {
      statements.putChanged.run(
        record,
        this.#facts.id,
        match.id,
        statements.actionNumber(action),
        match.hash,
        match.volatile,
        match.received.text,
      );
      this.#changed += 1;
    }
    return walk === undefined ? 'first' : walk === this.#walk ? 'in_this_walk' : 'in_earlier_walk';
  }

  absent(share?: AbsentShare): Iterable<AbsentRecord> & AsyncIterable<AbsentRecord> {
    this.#context.check();
    return absentRecords(this.#context.writer, this.#context.path, this.#facts.id, share);
  }

  async countAbsent(heldBy: string): Promise<AbsentCounts> {
    this.#context.check();
    return await countAbsent(this.#context.writer, this.#context.path, this.#facts.id, heldBy);
  }

  async decideAbsent(verdict: 'remove' | 'hold', share?: AbsentShare): Promise<number> {
    const { writer, path, check } = this.#context;
    return await decideAbsences(writer, path, this.#facts.id, { verdict, share }, (work) => {
      check();
      return translated(path, () => this.#write(work));
    });
  }

  keep(id: string): void {
    this.#verdict(id, VERDICT.keep);
  }

  remove(id: string): void {
    this.#verdict(id, VERDICT.remove);
  }

  hold(id: string): void {
    this.#verdict(id, VERDICT.hold);
  }

  willBeRemoved(id: string): boolean {
    this.#context.check();
    const { statements, path } = this.#context;
    return translated(path, () => statements.going.get(this.#facts.id, id) !== undefined);
  }

  #verdict(id: string, verdict: number): void {
    this.#context.check();
    translated(this.#context.path, () => {
      const { statements, seen } = this.#context;
      const current = statements.current(this.kind).get(this.#facts.id, id);
      // Nothing to decide: not there, or seen after all.
      if (current === undefined || seen.walkOf(current.record) !== undefined) return;
      this.#write(() => statements.putVerdict.run(current.record, this.#facts.id, verdict));
    });
  }

  markChecked(id: string): void {
    this.#context.check();
    translated(this.#context.path, () =>
      this.#write(() => this.#context.statements.putChecked.run(this.#facts.id, id)),
    );
  }
}

/** A record that SQLite cannot hold; `record` is its number where the mirror has an earlier revision, else 0. */
interface Unkept {
  readonly action: 'unkept';
  readonly record: number;
  readonly reason: string;
}

function isTooBig(error: unknown): boolean {
  return (
    error instanceof RangeError ||
    (error instanceof Error && (error as { code?: unknown }).code === 'SQLITE_TOOBIG')
  );
}

/** Whether this run saw the record before. */
type Sighting = 'first' | 'in_earlier_walk' | 'in_this_walk';

interface Match {
  readonly received: ScannedRecord;
  readonly id: string;
  readonly hash: Buffer;
  readonly volatile: number | null;
  readonly record: number;
}
