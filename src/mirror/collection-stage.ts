/** The stage of one collection in a run: compares what was read with the mirror, and takes the decisions on absent records. */
import type { CollectionKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseReceived } from '../core/json.ts';
import { type ScannedRecord, MOST_NESTING, RecordSyntaxError, nestsDeeperThan } from '../core/json-scan.ts';
import {
  type AbsentCounts,
  type AbsentRecord,
  type AbsentShare,
  NONE_ABSENT,
  absentRecords,
  countAbsent,
  decideAbsences,
} from './absence.ts';
import {
  type KnownAction,
  type StagedChange,
  classifyRecord,
  countOf,
  isAddition,
  stableHash,
  volatileMark,
} from './classify-record.ts';
import { type Connection, translated } from './database.ts';
import type { KindShapes } from './field-shapes.ts';
import type { SealingRule } from './run-seals.ts';
import type { SeenRecords, StageStatements, Verdict } from './stage.ts';

/** What the stages of a run's collections share. */
interface StageContext {
  readonly writer: Connection;
  readonly path: string;
  readonly statements: StageStatements;
  readonly seen: SeenRecords;
  readonly shapesOf: (kind: Kind) => KindShapes;
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** As in `RunOptions`. */
  readonly redact: ((kind: Kind, record: ScannedRecord) => ScannedRecord) | undefined;
  /** A number that no other pass of the run has. */
  readonly nextPass: () => number;
  /** Throws if the run has ended, or the stage is broken. */
  readonly check: () => void;
  /** Marks the stage as broken by a failed write: nothing in it may be published. */
  readonly breakStage: (cause: unknown) => void;
}

/** What a stage needs to know of its collection. */
interface CollectionFacts extends CollectionKey {
  readonly id: number;
  readonly known: number;
  /** True if an earlier run removed any record of it: only then can one return. */
  readonly hasRemoved: boolean;
  /** The kind's sealing rules, oldest first; the last one holds now. */
  readonly rules: readonly SealingRule[];
}

interface PageCounts {
  /** Records seen for the first time in this pass. */
  readonly fresh: number;
  /** How many of these an earlier pass of this run saw. */
  readonly again: number;
  /** Records that the mirror has exactly as received. */
  readonly known: number;
  /** Distinct records of this pass so far. */
  readonly distinct: number;
  /** The collection's totals in this run so far. */
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  /** Records of this page that the mirror does not have; if a later page repeats one, that page lists it again. */
  readonly addedIds: readonly string[];
}

export interface StageCounts {
  readonly added: number;
  readonly changed: number;
  /** Records that are equal; volatile members or the formatting may have changed. */
  readonly unchanged: number;
  /** Distinct records of the latest pass. */
  readonly distinct: number;
}

/** A record that the mirror cannot store. */
interface UnkeptRecord {
  readonly id: string;
  /** Continues "a record …". */
  readonly reason: string;
}

/** The most records that are reported as not stored: a long list of them must not fill the memory. */
const MOST_UNKEPT = 1000;

/** @throws RecordSyntaxError */
function parsedRecord(id: string, text: string): unknown {
  try {
    return parseReceived(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new RecordSyntaxError(id, error.message);
  }
}

export class CollectionStage {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Current records of this collection in the mirror, before this run. */
  readonly known: number;
  /** True if an earlier run removed any record of this collection. */
  readonly hasRemoved: boolean;
  readonly #context: StageContext;
  readonly #facts: CollectionFacts;
  readonly #shapes: KindShapes;
  readonly #tally: { -readonly [Name in keyof StageCounts]: number } = {
    added: 0,
    changed: 0,
    unchanged: 0,
    distinct: 0,
  };
  /** How many staged records of this collection the mirror has or had. While there are none, a record that comes again is not looked up. */
  #changed = 0;
  #firstPass: number;
  #pass: number;
  /** By id: why the record cannot be stored, and the last pass that saw it. */
  readonly #unkept = new Map<string, { readonly reason: string; pass: number }>();

  constructor(context: StageContext, facts: CollectionFacts) {
    this.kind = facts.kind;
    this.scope = facts.scope;
    this.known = facts.known;
    this.hasRemoved = facts.hasRemoved;
    this.#context = context;
    this.#facts = facts;
    this.#shapes = context.shapesOf(facts.kind);
    this.#pass = context.nextPass();
    this.#firstPass = this.#pass;
  }

  /** Starts another pass over the collection, and the count of distinct records from 0; records seen by earlier passes stay marked. */
  startPass(): void {
    const isUntouched = this.#tally.distinct === 0 && this.#pass === this.#firstPass;
    this.#pass = this.#context.nextPass();
    if (isUntouched) this.#firstPass = this.#pass;
    this.#tally.distinct = 0;
  }

  /**
   * Once the latest pass has proved the list: drops new records that only earlier passes showed, because the list does not have them
   * any more. Records of the mirror stay marked as seen: a later run finds their removal.
   * @returns how many records were dropped
   */
  dropUnproven(): number {
    this.#context.check();
    if (this.#pass === this.#firstPass || this.#tally.added === 0) return 0;
    const { path, writer, statements } = this.#context;
    const drop = (): number => {
      const ids = statements.addedBefore.all(this.#facts.id, this.#pass);
      for (const id of ids) {
        const staged = statements.staged.get(this.#facts.id, id);
        if (staged?.action === 'fresh') this.#uncount(staged.body);
        else this.#changed -= 1;
        statements.unstage.run(this.#facts.id, id);
      }
      this.#tally.added -= ids.length;
      return ids.length;
    };
    return translated(path, () => this.#write(() => writer.transaction(drop)()));
  }

  counts(): StageCounts {
    return { ...this.#tally };
  }

  /** The first 1,000 records of this run that cannot be stored: the mirror keeps the versions that it has. */
  get unkept(): readonly UnkeptRecord[] {
    return [...this.#unkept].map(([id, { reason }]) => ({ id, reason }));
  }

  /**
   * Takes a page. A record whose hash the mirror has is marked as seen; any other is parsed, compared and staged. If a run receives
   * a record twice, the later text wins.
   * @throws RecordSyntaxError if a new or changed record is not JSON; then nothing of the page was staged
   */
  accept(received: readonly ScannedRecord[]): PageCounts {
    this.#context.check();
    const { redact } = this.#context;
    // A record that nests too deep is not stored, so it is not redacted: searching it for secrets might not end.
    const records =
      redact === undefined
        ? received
        : received.map((record) =>
            nestsDeeperThan(record.text, MOST_NESTING) ? record : redact(this.kind, record),
          );
    return translated(this.#context.path, () => {
      const { writer } = this.#context;
      // The look-ups are in the transaction too: otherwise each would lock the file again.
      writer.exec('BEGIN');
      const matches = this.#comparePage(records);
      return this.#write(() => {
        const counts = this.#markPage(matches);
        writer.exec('COMMIT');
        const { distinct, added, changed, unchanged } = this.#tally;
        const addedIds = matches.filter(({ change }) => isAddition(change)).map(({ id }) => id);
        return { ...counts, distinct, added, changed, unchanged, addedIds };
      });
    });
  }

  /** Reads only: if it throws, nothing of the page was staged. */
  #comparePage(records: readonly ScannedRecord[]): readonly Match[] {
    const matches: Match[] = [];
    try {
      for (const record of records) matches.push(this.#match(record));
      return matches;
    } catch (error) {
      for (const { change, received } of matches) if (change.action === 'fresh') this.#uncount(received.text);
      this.#context.writer.exec('ROLLBACK');
      throw error;
    }
  }

  /** Writes to the stage. The stage has no journal on disk, so a failed write makes all of it unusable. */
  #write<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.#context.breakStage(error);
      throw error;
    }
  }

  #markPage(matches: readonly Match[]): Pick<PageCounts, 'fresh' | 'again' | 'known'> {
    let fresh = 0;
    let again = 0;
    let known = 0;
    for (const match of matches) {
      const sighting = this.#mark(match);
      if (sighting !== 'in_this_pass') fresh += 1;
      if (sighting === 'in_earlier_pass') again += 1;
      if (match.change.action === 'unchanged') known += 1;
    }
    return { fresh, again, known };
  }

  #match(received: ScannedRecord): Match {
    const id = received.id;
    if (id === undefined)
      throw new TidemarkError('internal', `a record of ${this.kind} without an id was staged`);
    const hash = stableHash(received);
    const volatile = volatileMark(received.volatileText);
    const record = this.known === 0 ? undefined : this.#find(id, hash, volatile);
    const change: StagedChange | Unkept =
      record === undefined ? this.#classify(id, received, hash) : { action: 'unchanged', record };
    return { received, id, hash, volatile, change };
  }

  /** A hash made under an earlier sealing rule (which left out other volatile fields) cannot be compared with today's. */
  #find(id: string, hash: Buffer, volatile: number | null): number | undefined {
    const { statements } = this.#context;
    const { id: collection, rules } = this.#facts;
    const since = rules.at(-1)?.run;
    return rules.length <= 1 || since === undefined
      ? statements.matching.get(collection, id, hash, volatile)
      : statements.matchingSince.get(collection, id, hash, volatile, since);
  }

  #classify(id: string, received: ScannedRecord, hash: Buffer): StagedChange | Unkept {
    // Text with a known hash was parsed when it was first received; this text is new.
    const body = parsedRecord(id, received.text);
    const { statements, isEqual } = this.#context;
    const mayBeKnown = this.known > 0 || this.hasRemoved;
    const known = mayBeKnown ? statements.known.get(this.#facts.id, id) : undefined;
    const reason = this.#whyUnkept(received.text);
    if (reason !== null) {
      const record = known === undefined || known.hash === null ? 0 : known.record;
      return { action: 'unkept', record, reason };
    }
    if (known === undefined) {
      // Its fields are counted here, where it is parsed; those of changed records when they are published.
      this.#shapes.add(body);
      return { action: 'fresh', record: 0 };
    }
    return classifyRecord(this.kind, known, received, hash, this.#facts.rules, isEqual);
  }

  /**
   * Why SQLite would refuse the parsed text as a body: detected here, one record fails; while publishing, the entire run would.
   * SQLite refuses parsed text only for its depth or size, so short texts are not checked: checking each took 8 % of a first sync.
   */
  #whyUnkept(text: string): string | null {
    if (text.length < 2 * MOST_NESTING) return null;
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

  /** Marks a record that is exactly as in the mirror. */
  #markUnchanged(id: string, record: number): Sighting {
    const { seen } = this.#context;
    if (this.#pass === this.#firstPass && seen.passOf(record) === undefined) {
      seen.mark(record, this.#pass);
      this.#tally.unchanged += 1;
      this.#tally.distinct += 1;
      return 'first';
    }
    return this.#markKnown(id, record, 'unchanged', null);
  }

  /** A record that cannot be stored counts as seen: the mirror keeps the version that it has. */
  #markUnkept(id: string, { record, reason }: Unkept): Sighting {
    const before = this.#unkept.get(id);
    if (before !== undefined || this.#unkept.size < MOST_UNKEPT)
      this.#unkept.set(id, { reason, pass: this.#pass });
    if (record !== 0) return this.#markUnchanged(id, record);
    if (before?.pass === this.#pass) return 'in_this_pass';
    this.#tally.distinct += 1;
    return before === undefined ? 'first' : 'in_earlier_pass';
  }

  #mark(match: Match): Sighting {
    const { id, change } = match;
    switch (change.action) {
      case 'unchanged':
        return this.#markUnchanged(id, change.record);
      case 'unkept':
        return this.#markUnkept(id, change);
      case 'fresh':
        return this.#markFresh(match);
      default:
        return this.#markKnown(id, change.record, change.action, match);
    }
  }

  #markFresh({ id, hash, volatile, received: { text } }: Match): Sighting {
    const { statements } = this.#context;
    const collection = this.#facts.id;
    if (statements.stage.run(collection, id, null, 'fresh', this.#pass, hash, volatile, text).changes === 1) {
      this.#tally.added += 1;
      this.#tally.distinct += 1;
      return 'first';
    }
    const before = statements.staged.get(collection, id);
    // Its fields were counted when it was first staged.
    if (before !== undefined) this.#uncount(before.body);
    const isInThisPass = before?.pass === this.#pass;
    if (!isInThisPass || before.body !== text)
      statements.restage.run(this.#pass, hash, volatile, text, collection, id);
    if (isInThisPass) return 'in_this_pass';
    this.#tally.distinct += 1;
    return 'in_earlier_pass';
  }

  /** Marks a record that the mirror has or had; replaces the mark of an earlier page of this run. */
  #markKnown(id: string, record: number, action: KnownAction, match: Match | null): Sighting {
    const { statements, seen } = this.#context;
    const collection = this.#facts.id;
    const pass = seen.passOf(record);
    if (pass !== this.#pass) {
      seen.mark(record, this.#pass);
      this.#tally.distinct += 1;
    }
    if (pass !== undefined) {
      const before = this.#changed > 0 ? statements.staged.get(collection, id)?.action : undefined;
      this.#tally[countOf(before ?? 'unchanged')] -= 1;
      if (before !== undefined) {
        statements.unstage.run(collection, id);
        this.#changed -= 1;
      }
    }
    this.#tally[countOf(action)] += 1;
    if (action !== 'unchanged' && match !== null) {
      const { hash, volatile, received } = match;
      statements.stage.run(collection, id, record, action, this.#pass, hash, volatile, received.text);
      this.#changed += 1;
    }
    return pass === undefined ? 'first' : pass === this.#pass ? 'in_this_pass' : 'in_earlier_pass';
  }

  /**
   * Current records that no pass of this run saw, or a share of them, by id. `for await` yields to the event loop between slices;
   * verdicts may be given meanwhile.
   */
  absent(share?: AbsentShare): Iterable<AbsentRecord> & AsyncIterable<AbsentRecord> {
    this.#context.check();
    return absentRecords(this.#context.writer, this.#context.path, this.#facts.id, share);
  }

  /** Counts of these records; removals held at `heldBy` (ISO 8601) or earlier count as confirmed. */
  async countAbsent(heldBy: string): Promise<AbsentCounts> {
    this.#context.check();
    if (this.known === 0) return NONE_ABSENT;
    return await countAbsent(this.#context.writer, this.#context.path, this.#facts.id, heldBy);
  }

  /**
   * Gives all of these records, or a share of them, one verdict; returns how many.
   * @param heldAt since when newly held removals wait, ISO 8601; by default since the end of the run
   */
  async decideAbsent(verdict: 'remove' | 'hold', share?: AbsentShare, heldAt?: string): Promise<number> {
    const { writer, path, check } = this.#context;
    return await decideAbsences(writer, path, this.#facts.id, { verdict, share, heldAt }, (work) => {
      check();
      return translated(path, () => this.#write(work));
    });
  }

  /** The record exists after all; its held removal, if any, is dropped. (A record without a verdict stays unchanged.) */
  keep(id: string): void {
    this.#verdict(id, 'keep');
  }

  /** The record is gone: publishing writes its tombstone. */
  remove(id: string): void {
    this.#verdict(id, 'remove');
  }

  /** Absent, but too many are: kept until confirmed. */
  hold(id: string): void {
    this.#verdict(id, 'hold');
  }

  /** True if publishing would remove the record now. */
  willBeRemoved(id: string): boolean {
    this.#context.check();
    const { statements, path } = this.#context;
    return translated(path, () => statements.going.get(this.#facts.id, id) !== undefined);
  }

  #verdict(id: string, verdict: Verdict): void {
    this.#context.check();
    translated(this.#context.path, () => {
      const { statements, seen } = this.#context;
      const known = statements.known.get(this.#facts.id, id);
      // Nothing to decide: it is not in the mirror, or was seen after all.
      if (known === undefined || known.hash === null || seen.passOf(known.record) !== undefined) return;
      this.#write(() => statements.putVerdict.run(known.record, this.#facts.id, verdict));
    });
  }

  /** For kinds that are read one by one: the request for the parent record `id` was answered. */
  markChecked(id: string): void {
    this.#context.check();
    translated(this.#context.path, () =>
      this.#write(() => this.#context.statements.putChecked.run(this.#facts.id, id)),
    );
  }
}

/** A record that SQLite cannot store; `record` is its number if the mirror has an earlier version, else 0. */
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

/** When this run first saw the record. */
type Sighting = 'first' | 'in_earlier_pass' | 'in_this_pass';

interface Match {
  readonly received: ScannedRecord;
  readonly id: string;
  readonly hash: Buffer;
  readonly volatile: number | null;
  readonly change: StagedChange | Unkept;
}
