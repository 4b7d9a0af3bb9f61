/**
 * What a moved mirror (`move.ts`) has as a whole, apart from the rows of its sources: snapshots, audit log, forgets, and the hash chain.
 * Gathered from the parts, and written after all of them were copied. SQL as text, as there.
 */
import type { Actor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { recordedActor, recordRow, recordUnpinned } from './audit-log.ts';
import { type AuditEntry, AUDITED_TABLES, entryHash, isAsRecorded, recordedRows } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { digestReplaced, linkOf, readStoredForgets, type StoredForget } from './forget-records.ts';
import { chain } from './forget-seals.ts';
import { rangesOf } from './retention.ts';
import { rowSealer, sealRow } from './row-seals.ts';
import { MOVED_POLICY, readSealed, drain } from './verify-chain.ts';

/** Conditions: rows of the sources in `temp.own`; `$` stands for the schema (the file). */
export const BY_ID = 'source IN (SELECT id FROM $.sources WHERE name IN (SELECT name FROM temp.own))';
export const BY_NAME = 'source IN (SELECT name FROM temp.own)';

/** A condition with the schema in place of `$`. */
export function ownIn(schema: 'part' | 'main', condition: string): string {
  return condition.replaceAll('$', schema);
}

interface PinnedRow {
  readonly name: string;
  readonly run: number;
  readonly pinnedAt: string;
  readonly by: string;
  readonly isBaseline: number;
  /** The sources of its part. */
  readonly sources: readonly string[];
}

interface Tip {
  readonly root: Buffer;
  readonly sources: readonly string[];
  /** Old numbers of the runs that are not taken. */
  readonly dropped: readonly number[];
  /** All sealed runs, with their new numbers. */
  readonly roots: readonly { readonly run: number; readonly root: Buffer }[];
}

/** When a mirror was moved, and by whom. */
export interface MoveFacts {
  readonly at: string;
  readonly actor: Actor;
}

interface TakenPart {
  readonly index: number;
  readonly sources: readonly string[];
  /** Old run number → new one; null if all are kept. */
  readonly runs: ReadonlyMap<number, number> | null;
  /** Added to the numbers of its restores. */
  readonly restoreOffset: number;
}

/** Gathers the shared rows of all parts, and writes them. */
export class SharedRows {
  readonly facts: MoveFacts;
  readonly snapshots: PinnedRow[] = [];
  readonly entries: { readonly entry: AuditEntry; readonly part: number }[] = [];
  readonly forgets: {
    readonly row: StoredForget;
    readonly part: number;
    readonly replaced: { run: number; root: Buffer; into: number | null }[];
  }[] = [];
  readonly tips: Tip[] = [];
  /** By part. */
  readonly restoreOffsets: number[] = [];
  readonly runNumbers: ((run: number) => number)[] = [];
  readonly lastEntries: { readonly run: number; readonly part: number; readonly entry: number }[] = [];

  constructor(facts: MoveFacts) {
    this.facts = facts;
  }

  /** Gathers the rows of the part that is attached as `part`; its sources are in `temp.own`. */
  take(target: Connection, { index: part, sources, runs, restoreOffset }: TakenPart): void {
    const numberOf = (run: number): number => (runs === null ? run : (runs.get(run) ?? run));
    const own = ownIn('part', BY_ID);
    this.restoreOffsets.push(restoreOffset);
    this.runNumbers.push(numberOf);
    for (const row of target
      .prepare<[], Omit<PinnedRow, 'sources' | 'run'> & { run: number | null }>(
        `SELECT name, (SELECT max(r.run) FROM part.runs r WHERE r.run <= s.run AND r.root IS NOT NULL AND r.${own}) AS run,
           pinned_at AS pinnedAt, pinned_by AS "by", is_baseline AS isBaseline FROM part.snapshots s ORDER BY name`,
      )
      .all())
      if (row.run !== null) this.snapshots.push({ ...row, run: numberOf(row.run), sources });
    const entries = target
      .prepare<[], AuditEntry>(
        `SELECT * FROM part.audit_log WHERE CASE about
           WHEN 'acceptances' THEN json_extract(member, '$[0]') IN (SELECT name FROM temp.own)
           WHEN 'restores' THEN json_extract(member, '$[0]') IN (SELECT restore FROM part.restores WHERE ${BY_NAME})
           WHEN 'removals' THEN json_extract(row, '$.source') IN (SELECT name FROM temp.own)
           WHEN 'backups' THEN EXISTS (SELECT 1 FROM json_each(row, '$.sources') WHERE value IN (SELECT name FROM temp.own))
           ELSE true END ORDER BY entry`,
      )
      .all();
    for (const entry of entries) this.entries.push({ entry, part });
    this.lastEntries.push(
      ...target
        .prepare<[], { run: number; entry: number }>(
          `SELECT run, last_entry AS entry FROM part.runs WHERE last_entry IS NOT NULL AND ${own}`,
        )
        .all()
        .map(({ run, entry }) => ({ run: numberOf(run), part, entry })),
    );
    for (const row of readPart<StoredForget>(target, FORGET_COLUMNS, 'forgets', 'forget')) {
      const replaced = target
        .prepare<[number], { run: number; root: Buffer; into: number | null }>(
          'SELECT run, root, into_run AS "into" FROM part.replaced_roots WHERE forget = ?',
        )
        .all(row.forget)
        .map(({ run, root, into }) => ({
          run: numberOf(run),
          root,
          into: into === null ? null : numberOf(into),
        }));
      this.forgets.push({ row: { ...row, tipRun: numberOf(row.tipRun) }, part, replaced });
    }
    const roots = target
      .prepare<[], { run: number; root: Buffer }>(
        'SELECT run, root FROM part.runs WHERE root IS NOT NULL ORDER BY run',
      )
      .all();
    const tip = roots.at(-1);
    if (tip === undefined) return;
    const dropped = target
      .prepare<[], number>(`SELECT run FROM part.runs WHERE NOT ${own} ORDER BY run`)
      .pluck()
      .all();
    this.tips.push({
      root: tip.root,
      sources: sourcesIn(target),
      dropped,
      roots: roots.map(({ run, root }) => ({ run: numberOf(run), root })),
    });
  }

  /** Writes snapshots, audit log, forgets and all seals after all parts were copied; returns lines about changed snapshots. */
  write(target: Connection): string[] {
    const { actor, at } = this.facts;
    sealRow(target, 'fingerprint_key', [1]);
    const seal = rowSealer(target, 'runs');
    for (const run of target.prepare<[], number>('SELECT run FROM runs').pluck().all()) seal([run]);
    const sealId = rowSealer(target, 'id_map');
    for (const { key } of target
      .prepare<[], { key: string }>('SELECT json_array(source, kind, new_scope, new_id) AS key FROM id_map')
      .all())
      sealId(JSON.parse(key) as string[]);
    const notes = writeSnapshots(target, this);
    const isSealed = readSealed(target).length > 0;
    const forgetOf = isSealed ? writeForgets(target, this) : new Map<string, number>();
    writeEntries(target, this, { isSealed, forgetOf });
    if (isSealed) sealAgain(target);
    for (const about of AUDITED_TABLES) {
      for (const { member } of recordedRows(target, about)) {
        const key = JSON.parse(member) as (string | number)[];
        if (!isAsRecorded(target, about, key)) recordRow(target, actor, { action: 'move', at, about, key });
      }
    }
    endGone(target, this);
    return notes;
  }
}

const FORGET_COLUMNS = `forget, at, forgotten_by AS "by", policy, sources, runs, run_count AS runCount, tip_run AS tipRun,
  root_before AS rootBefore, root_after AS rootAfter, replaced_digest AS replacedDigest, link`;

function readPart<Row>(target: Connection, columns: string, table: string, key: string): Row[] {
  return target.prepare<[], Row>(`SELECT ${columns} FROM part.${table} ORDER BY ${key}`).all();
}

function sourcesIn(target: Connection): string[] {
  return target.prepare<[], string>('SELECT name FROM part.sources ORDER BY name').pluck().all();
}

/**
 * A snapshot is one state of all sources. Snapshots with the same name in several files become one if it shows each source as it was
 * pinned; otherwise each gets the names of its sources as a suffix.
 */
function writeSnapshots(target: Connection, { snapshots }: SharedRows): string[] {
  const add = target.prepare(
    'INSERT INTO snapshots (name, run, pinned_at, pinned_by, is_baseline) VALUES (?, ?, ?, ?, ?)',
  );
  const sealed = readSealed(target);
  const latestAt = (sources: readonly string[], run: number): number | undefined =>
    sealed.findLast((each) => sources.includes(each.source) && each.run <= run)?.run;
  const notes: string[] = [];
  const written: { row: PinnedRow; name: string }[] = [];
  for (const [name, rows] of Map.groupBy(snapshots, (row) => row.name)) {
    const run = Math.max(...rows.map((row) => row.run));
    const [first] = rows;
    if (first === undefined) continue;
    if (rows.every((row) => latestAt(row.sources, run) === row.run)) {
      written.push({ row: { ...first, run, sources: rows.flatMap(({ sources }) => sources) }, name });
      continue;
    }
    for (const row of rows) {
      const own = `${name}-${row.sources.join('-')}`;
      written.push({ row, name: own });
      notes.push(`snapshot ${name} of ${row.sources.join(', ')} is ${own} now`);
    }
  }
  const baselines = written.filter(({ row }) => row.isBaseline === 1);
  if (baselines.length > 1)
    notes.push(
      `no baseline is set: they differ (${baselines.map(({ name }) => name).join(', ')}); choose one with \`tidemark snapshots baseline NAME\``,
    );
  for (const { row, name } of written)
    add.run(name, row.run, row.pinnedAt, row.by, row.isBaseline === 1 && baselines.length === 1 ? 1 : 0);
  return notes;
}

/** Writes the forgets of the parts in the order of their times, and one for each part. Returns their new numbers. */
function writeForgets(target: Connection, { forgets, tips, facts }: SharedRows): Map<string, number> {
  const numbers = new Map<string, number>();
  const replace = target.prepare(
    'INSERT INTO replaced_roots (forget, run, root, into_run) VALUES (?, ?, ?, ?)',
  );
  const add = target.prepare(
    `INSERT INTO forgets (forget, at, forgotten_by, policy, sources, runs, run_count, tip_run, root_before, root_after, replaced_digest, link)
     VALUES (@forget, @at, @by, @policy, @sources, @runs, @runCount, @tipRun, @rootBefore, @rootAfter, @replacedDigest, @link)`,
  );
  let before: StoredForget | undefined;
  const write = (
    row: Omit<StoredForget, 'forget' | 'replacedDigest' | 'link'>,
    roots: readonly { run: number; root: Buffer; into: number | null }[],
  ): number => {
    const forget = (before?.forget ?? 0) + 1;
    for (const { run, root, into } of roots) replace.run(forget, run, root, into);
    const stored = { ...row, forget, replacedDigest: digestReplaced(target, forget) };
    before = { ...stored, link: linkOf(stored, before) };
    add.run(before);
    return forget;
  };
  const isOne = tips.length === 1;
  const ordered = isOne ? forgets : forgets.toSorted((one, other) => (one.row.at < other.row.at ? -1 : 1));
  for (const { row, part, replaced } of ordered) numbers.set(`${part} ${row.forget}`, write(row, replaced));
  const tipRun = readSealed(target).at(-1)?.run ?? 0;
  const by = recordedActor(facts.actor).by;
  for (const { root, sources, dropped, roots } of tips) {
    write(
      {
        ...{ at: facts.at, by, policy: MOVED_POLICY, sources: JSON.stringify(sources) },
        ...{ runs: JSON.stringify(rangesOf(dropped)), runCount: dropped.length, tipRun },
        // `sealAgain` corrects the last one.
        ...{ rootBefore: root, rootAfter: root },
      },
      roots.map((each) => ({ ...each, into: null })),
    );
  }
  return numbers;
}

/** Writes the entries in order of time, chains them again, and stores the latest one that each run covers. */
function writeEntries(
  target: Connection,
  { entries, lastEntries, restoreOffsets, runNumbers }: SharedRows,
  { isSealed, forgetOf }: { readonly isSealed: boolean; readonly forgetOf: ReadonlyMap<string, number> },
): void {
  const add = target.prepare(
    `INSERT INTO audit_log (entry, at, "by", via, action, about, member, row, root, hash)
     VALUES (@entry, @at, @by, @via, @action, @about, @member, @row, @root, @hash)`,
  );
  const numbers = new Map<
    number,
    { readonly old: number; readonly entry: number; readonly hash: Buffer }[]
  >();
  let [before, count]: [Buffer | null, number] = [null, 0];
  const ordered = new Set(entries.map(({ part }) => part)).size > 1 ? entries.toSorted(byTime) : entries;
  for (const { entry: old, part } of ordered) {
    const numbering = { offset: restoreOffsets[part] ?? 0, numberOf: runNumbers[part], forgetOf };
    const member = memberOf(old, part, numbering);
    // A mirror without sealed runs has no forgets either, nor the roots of other sources' runs.
    if (member === null) continue;
    count += 1;
    const facts = { ...old, entry: count, member, root: isSealed ? old.root : null };
    const hash = entryHash(facts, before);
    add.run({ ...facts, hash });
    numbers.set(part, [...(numbers.get(part) ?? []), { old: old.entry, entry: count, hash }]);
    before = hash;
  }
  const cover = target.prepare('UPDATE runs SET last_entry = ?, last_entry_hash = ? WHERE run = ?');
  for (const { run, part, entry } of lastEntries) {
    const covered = numbers.get(part)?.findLast(({ old }) => old <= entry);
    cover.run(covered?.entry ?? null, covered?.hash ?? null, run);
  }
}

function byTime(one: SharedRows['entries'][number], other: SharedRows['entries'][number]): number {
  if (one.part === other.part) return one.entry.entry - other.entry.entry;
  return one.entry.at === other.entry.at ? one.part - other.part : one.entry.at < other.entry.at ? -1 : 1;
}

interface NewNumbers {
  /** Added to the numbers of restores. */
  readonly offset: number;
  readonly numberOf: ((run: number) => number) | undefined;
  readonly forgetOf: ReadonlyMap<string, number>;
}

function memberOf(
  { about, member }: AuditEntry,
  part: number,
  { offset, numberOf, forgetOf }: NewNumbers,
): string | null {
  if (about !== 'restores' && about !== 'forgets' && about !== 'removals') return member;
  const [number = 0] = JSON.parse(member) as number[];
  if (about === 'restores') return JSON.stringify([number + offset]);
  if (about === 'removals') return JSON.stringify([numberOf?.(number) ?? number]);
  const forget = forgetOf.get(`${part} ${number}`);
  return forget === undefined ? null : JSON.stringify([forget]);
}

function sealAgain(target: Connection): void {
  const last = readStoredForgets(target).at(-1);
  if (last === undefined) throw new TidemarkError('internal', 'a move left no mark');
  const every = new Set(readSealed(target).map(({ run }) => run));
  const root = drain(chain(target, last.link, every));
  target.prepare('UPDATE forgets SET root_after = ? WHERE forget = ?').run(root, last.forget);
}

/** Ends snapshots that are in the log only: they are older than the first run of these sources, or were renamed. */
function endGone(target: Connection, { facts: { actor, at } }: SharedRows): void {
  const gone = target
    .prepare<[], { member: string; row: string }>(
      `SELECT member, row FROM audit_log a
       WHERE about = 'snapshots' AND entry = (SELECT max(entry) FROM audit_log b WHERE b.about = a.about AND b.member = a.member)
         AND action <> 'unpin' AND json_extract(member, '$[0]') NOT IN (SELECT name FROM snapshots) ORDER BY entry`,
    )
    .all();
  for (const row of gone) recordUnpinned(target, actor, at, row);
}
