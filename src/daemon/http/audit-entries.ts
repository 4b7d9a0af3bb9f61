/** Searches the audit log for `tidemark audit` and the dashboard. Secrets in the entries are masked. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { scopeKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { isMeantBy, whoText } from '../../core/actor.ts';
import { TidemarkError } from '../../core/errors.ts';
import { type JsonValue, parseLossless } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import { recordName } from '../../diff/change.ts';
import type { DriftAcceptance, Measured } from '../../mirror/acceptances.ts';
import type { AuditAction } from '../../mirror/audit-actions.ts';
import type { AuditLogEntry, AuditSubject } from '../../mirror/audit-entries.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import { fileStamp } from '../../mirror/write-ahead-log.ts';
import { unlikeSealedText } from '../../mirror/verify-chain.ts';
import type { ShownEntry } from '../../report/audit-report.ts';
import { maskedMeasured } from '../../report/drift-document.ts';
import { maskedBody, maskedId, maskedPlace } from '../../report/mask.ts';
import { isWithin, type Period } from '../../state/period.ts';

/** A filter that is left out narrows nothing. */
export interface AuditFilter {
  readonly period: Period;
  readonly actions?: readonly AuditAction[] | undefined;
  /** Read by `isMeantBy`. */
  readonly by?: readonly string[] | undefined;
  readonly sources?: readonly string[] | undefined;
  /** Entries returned at most. */
  readonly limit?: number;
}

interface FoundEntries {
  /** Newest first. */
  readonly entries: readonly NamedEntry[];
  /** How many entries match the filter. */
  readonly count: number;
  /** How many entries there are. */
  readonly of: number;
  /** Numbers of all altered entries, whatever the filter; newest first. */
  readonly altered: readonly number[];
  /** Why the name of a record could not be read; null if all could be. */
  readonly damage: TidemarkError | null;
}

/** Entries between two turns of the event loop: to look up a name may take some milliseconds. */
const SLICE = 10;
/** The same for entries that do not match. */
const PASSED_SLICE = 500;

/**
 * Yields to other work in between.
 * @internal
 * @throws TidemarkError `mirror_corrupt` for an entry that cannot be read
 */
export async function findAuditEntries(
  mirror: Mirror,
  config: Config,
  filter: AuditFilter,
): Promise<FoundEntries> {
  const walk = new AuditWalk(mirror, config, filter);
  const entries: NamedEntry[] = [];
  for (const shown of walk.steps()) {
    if (shown !== null) entries.push(shown);
    if (shown === null ? walk.of % PASSED_SLICE === 0 : entries.length % SLICE === 0) await nextTurn();
  }
  const { count, of, altered, damage } = walk;
  return { entries, count, of, altered, damage };
}

/** How long a result is kept while the file of the mirror looks unchanged: a change may leave its size and times as they were. */
const KEPT_MS = 10 * 60_000;
/** Searches whose results are kept. */
const QUESTIONS_KEPT = 8;

interface KeptEntries {
  readonly stamp: string;
  readonly config: Config;
  readonly foundAt: number;
  readonly found: Promise<FoundEntries>;
}

/** Keeps the results of searches, so that an open page reads and checks the log again only after the mirror was written, or some minutes. */
export class AuditSearchCache {
  /** By question, the oldest first. */
  readonly #kept = new Map<string, KeptEntries>();

  /**
   * @param question identifies the search: the filter does not, as a period that ends now is different each time
   * @throws as `findAuditEntries`
   */
  async find(
    mirror: Mirror,
    config: Config,
    filter: AuditFilter,
    { question, now }: { readonly question: string; readonly now: number },
  ): Promise<FoundEntries & { readonly foundAt: number }> {
    const stamp = fileStamp(mirror.path);
    const kept = this.#kept.get(question);
    const isKept = kept?.stamp === stamp && kept.config === config && now - kept.foundAt < KEPT_MS;
    const { foundAt, found } = isKept
      ? kept
      : { foundAt: now, found: findAuditEntries(mirror, config, filter) };
    this.#kept.delete(question);
    this.#kept.set(question, { stamp, config, foundAt, found });
    const [oldest = question] = this.#kept.keys();
    if (this.#kept.size > QUESTIONS_KEPT) this.#kept.delete(oldest);
    try {
      return { ...(await found), foundAt };
    } catch (error) {
      this.#kept.delete(question);
      throw error;
    }
  }
}

/**
 * The entries that match a filter, newest first. Each iteration reads the log, so that few entries are in memory; entries that are
 * written after `survey` are left out.
 */
export class AuditWalk implements Iterable<NamedEntry> {
  readonly #mirror: Mirror;
  readonly #filter: AuditFilter;
  /** The newest entry that `survey` found. */
  #newest = Infinity;
  readonly #shown: (entry: AuditLogEntry) => NamedEntry;
  /** In the latest iteration so far: how many entries matched, and how many there were. */
  count = 0;
  of = 0;
  /** Numbers of the altered entries, also of those that did not match; newest first. */
  altered: number[] = [];
  /** Why the name of a record could not be read. */
  damage: TidemarkError | null = null;

  constructor(mirror: Mirror, config: Config, filter: AuditFilter) {
    this.#mirror = mirror;
    this.#filter = filter;
    this.#shown = prepareShown(mirror, config);
  }

  /** @throws TidemarkError `mirror_corrupt` for an entry that cannot be read */
  *[Symbol.iterator](): Generator<NamedEntry, undefined> {
    for (const shown of this.steps()) if (shown !== null) yield shown;
    return undefined;
  }

  /** A step for each entry of the log; null for one that does not match or is beyond the limit. */
  *steps(): Generator<NamedEntry | null, undefined> {
    const { limit = Infinity } = this.#filter;
    this.damage = null;
    for (const { entry, isAsked } of this.#entries()) {
      const shown = isAsked && this.count <= limit ? this.#shown(entry) : null;
      this.damage ??= shown?.damage ?? null;
      yield shown;
    }
    return undefined;
  }

  /** Reads the log without looking up names of records: how many entries there are, of which sources, and by whom (`whoText`). */
  survey(): {
    readonly count: number;
    readonly of: number;
    readonly sources: ReadonlySet<string>;
    readonly people: ReadonlySet<string>;
  } {
    const sources = new Set<string>();
    const people = new Set<string>();
    this.#newest = Infinity;
    for (const { entry, isAsked } of this.#entries()) {
      if (this.of === 1) this.#newest = entry.entry;
      const source = isAsked ? sourceOf(this.#mirror, entry.subject) : null;
      if (source !== null) sources.add(source);
      if (isAsked) people.add(whoText(entry));
    }
    return { count: this.count, of: this.of, sources, people };
  }

  *#entries(): Generator<{ readonly entry: AuditLogEntry; readonly isAsked: boolean }, undefined> {
    Object.assign(this, { count: 0, of: 0, altered: [] });
    for (const entry of this.#mirror.auditLog()) {
      if (entry.entry > this.#newest) continue;
      this.of += 1;
      if (entry.isAltered) this.altered.push(entry.entry);
      const isAsked = isAskedFor(entry, this.#filter);
      if (isAsked) this.count += 1;
      yield { entry, isAsked };
    }
    return undefined;
  }
}

function isAskedFor(
  { at, action, by, via, subject }: AuditLogEntry,
  { period, actions, by: people, sources }: AuditFilter,
): boolean {
  // What an unreadable entry was about, and when, is unknown.
  if (subject.about === 'unreadable') return true;
  return (
    isWithin(period, at) &&
    actions?.includes(action) !== false &&
    people?.some((text) => isMeantBy(text, { by, via })) !== false &&
    sources?.some((source) => isAbout(subject, source)) !== false
  );
}

type Readable = Exclude<AuditSubject, { readonly about: 'unreadable' }>;

/** True for an entry about the source; a snapshot is about all sources. */
function isAbout(subject: Readable, source: string): boolean {
  if (subject.about === 'snapshot') return true;
  return 'sources' in subject ? subject.sources.includes(source) : subject.source === source;
}

/** An entry, and why the name of its record could not be read; null if it could be, or has no record. */
type NamedEntry = ShownEntry & { readonly damage: TidemarkError | null };

type RecordName = Pick<NamedEntry, 'recordName' | 'damage'>;

/** Names of records that are kept in memory. */
const NAMES_KEPT = 10_000;

/** Prepares entries. The definitions and runs of a source, and a name at a time, are looked up once, however many entries need them. */
function prepareShown(mirror: Mirror, config: Config): (entry: AuditLogEntry) => NamedEntry {
  const definitionsOf = remembered((source) => definitionsFor(config, source));
  const runsOf = remembered((source) => mirror.runs.list({ source, isPublished: true }));
  const names = new Map<string, RecordName>();
  const nameOf = (
    record: AcceptedRecord & { readonly measured: Measured | null },
    definition: ResourceDefinition,
    at: string,
  ): RecordName => {
    const { source, kind, scope, id, measured } = record;
    const then = runsOf(source).find(({ finishedAt }) => finishedAt !== null && finishedAt <= at)?.run;
    const runs = [then, measured?.baseline.run].filter((run) => run !== undefined);
    const key = JSON.stringify([source, kind, scopeKey(scope), id, runs]);
    const name = names.get(key) ?? nameOrDamage(mirror, record, definition, runs);
    if (names.size >= NAMES_KEPT) names.clear();
    names.set(key, name);
    return name;
  };
  return (entry) => {
    const { subject } = entry;
    const source = sourceOf(mirror, subject);
    const definitions = definitionsOf(source ?? '');
    const shown = { ...entry, recordName: null, fromRun: null, damage: null, source, definitions };
    if (subject.about === 'acceptance') {
      const definition = definitions(subject.kind);
      const masked = {
        ...subject,
        id: maskedId(subject.id, definition),
        path: maskedPlace(subject.path, definition),
        measured: maskedMeasured(subject.measured, subject.path, definition),
      };
      return { ...shown, ...nameOf(subject, definition, entry.at), subject: masked };
    }
    if (subject.about === 'restore' && !subject.isRenumbered)
      return { ...shown, fromRun: mirror.restores.plannedRun(subject.restore) };
    return shown;
  };
}

function remembered<T>(look: (source: string) => T): (source: string) => T {
  const known = new Map<string, T>();
  return (source) => {
    const found = known.get(source) ?? look(source);
    known.set(source, found);
    return found;
  };
}

/** The one source that an entry is about; null for several. */
function sourceOf(mirror: Mirror, subject: AuditSubject): string | null {
  if (subject.about === 'unreadable') return null;
  if ('source' in subject) return subject.source;
  // A snapshot has the state of every source, whichever source its run was of.
  const [only = null, ...others] = subject.about === 'snapshot' ? mirror.runs.sources() : subject.sources;
  return others.length > 0 ? null : only;
}

/** In a damaged mirror, where the audit log matters most, a record with a damaged body goes by its id. */
function nameOrDamage(...of: Parameters<typeof acceptedName>): RecordName {
  try {
    return { recordName: acceptedName(...of), damage: null };
  } catch (thrown) {
    if (!(thrown instanceof TidemarkError) || thrown.code !== 'mirror_corrupt') throw thrown;
    return { recordName: null, damage: thrown };
  }
}

/** Entries, runs and rows that are named; more are counted. */
const NAMED = 5;

/**
 * What is wrong with the log and with runs, whose root hashes are printed with it, a line each; empty if nothing is. If no entry was altered,
 * the last entries may have been deleted: then the rows that they were about have no entry, and are listed.
 * @param altered numbers of the altered entries, newest first
 */
export function contradictedLines(altered: readonly number[], mirror: Mirror): string[] {
  const unlike = mirror.auditEntriesUnlikeSealed();
  // Several runs may have sealed the same entry.
  const sealed = [...Map.groupBy(unlike, ({ entry }) => entry).values()].flatMap(([first]) => first ?? []);
  const more = sealed.length - NAMED;
  const isWhole = altered.length + sealed.length === 0;
  const unexplained = isWhole ? mirror.rowsUnlikeAuditLog() : [];
  const runs = [...new Set([...mirror.runs.hidden(null), ...mirror.runs.alteredLines()])];
  if (isWhole && unexplained.length + runs.length === 0) return [];
  return [
    ...runs.slice(0, NAMED),
    ...(runs.length > NAMED ? [`  … and ${plural(runs.length - NAMED, 'more run')}`] : []),
    ...unexplained.slice(0, NAMED),
    ...(unexplained.length > NAMED ? [`  … and ${plural(unexplained.length - NAMED, 'more row')}`] : []),
    ...alteredText(altered.toReversed()),
    ...sealed.slice(0, NAMED).map(unlikeSealedText),
    ...(more > 0 ? [`  … and ${plural(more, 'more entry', 'more entries')} whose hash a run has`] : []),
    '  → `tidemark verify` says what else does not match',
  ];
}

/** Such lines without the indentation and arrows of a terminal. */
export function plainLines(lines: readonly string[]): string[] {
  return lines.map((line) => line.replace(/^ +(?:→ )?/, ''));
}

function alteredText(entries: readonly number[]): string[] {
  const [first, ...others] = entries;
  if (first === undefined) return [];
  const more = entries.length - NAMED;
  const named = `${entries.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return [
    others.length === 0
      ? `entry ${first} of the audit log is not as it was written, or does not follow the entry before it`
      : `entries ${named} of the audit log are not as they were written, or do not follow the entries before them`,
  ];
}

/** Says why records go by their ids, and what to do about it; empty for null. */
export function damageNotes(damage: TidemarkError | null): string[] {
  if (damage === null) return [];
  return [
    `${damage.message}; its records go by their ids here`,
    ...(damage.hint === undefined ? [] : [damage.hint]),
  ];
}

/** The record of an acceptance, or of its entry in the audit log. */
type AcceptedRecord = Pick<DriftAcceptance, 'source' | 'kind' | 'scope' | 'id'>;

/**
 * The bodies of a record as of these runs, then of the latest run, then of the baseline (which still has elements that are gone since). In
 * each, it is looked for by the id of the acceptance, then by the ids that restores mapped to or from it.
 */
export function* acceptedBodies(
  mirror: Mirror,
  { source, kind, scope, id }: AcceptedRecord,
  runs: readonly number[] = [],
): Generator<JsonValue> {
  let others: readonly { readonly scope: Scope; readonly id: string }[] | undefined;
  // The baseline is read, and checked, only if the other states did not suffice.
  const states = [() => mirror.runs.latest(source)?.run, () => mirror.snapshots.baseline()?.run];
  for (const state of [...runs.map((run) => () => run), ...states]) {
    const run = state();
    if (run === undefined) continue;
    const at = (place: { readonly scope: Scope; readonly id: string }): JsonValue[] => {
      const filter = { sources: [source], kinds: [kind], scope: place.scope, ids: [place.id] };
      return [...mirror.records.readAt(run, filter, { isChecked: true })].map(({ body }) =>
        parseLossless(body),
      );
    };
    yield* at({ scope, id });
    others ??= new RecreatedIds(mirror.restores.idMap(source))
      .places(kind, { scope, id })
      .filter((place) => place.id !== id);
    for (const place of others) yield* at(place);
  }
}

/** The name of the record of an acceptance, in the first state that has it, else its id; secrets masked. */
export function acceptedName(
  mirror: Mirror,
  record: AcceptedRecord,
  definition: ResourceDefinition,
  runs?: readonly number[],
): string {
  const id = maskedId(record.id, definition);
  for (const body of acceptedBodies(mirror, record, runs))
    return recordName(definition, maskedBody(body, definition), id);
  return id;
}
