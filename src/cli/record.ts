/** Resolves a command's KIND and ID to one record: by id, else by name; removed records are found too. */
import { SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { shownText } from '../catalog/masks.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { collectionKey, scopeText } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { isExcludedBy } from '../config/mirrored-kinds.ts';
import { definitionsFor } from '../config/source.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { count, plural } from '../core/wording.ts';
import { recordName, storedName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RecordRow } from '../mirror/records.ts';
import { isMaskedId, isSecretId, maskedId, withMaskedId } from '../report/mask.ts';
import { nameText, quotedName } from '../report/value-text.ts';
import { requireCountedWithin, requireIntact } from '../state/intact.ts';
import type { NamedRecord } from '../state/state.ts';
import { LATEST } from '../state/reference.ts';
import { EXCLUDED, neverAsked } from '../state/unasked.ts';
import { kindName, type Located } from './command-row.ts';
import { doubtsAbout, idsOfRecords, requireTurn } from './known-ids.ts';
import { notKnownIn, notKnownLines } from './not-known.ts';
import {
  bestNamed,
  damageFoundBy,
  hasNames,
  lastNamed,
  listCommand,
  type NamePlaces,
  type Namesake,
  namesakesIn,
  REMOVED,
  statesAt,
  withParentIds,
} from './named-parents.ts';

/** What the user asks for. */
export interface RecordQuestion {
  readonly kind: string;
  /** Remote id, a secret one as reports mask it too, or the record's complete name. */
  readonly id: string;
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  /** A point in time: names of the organization and project then count too. */
  readonly at?: string;
  /** True counts a record too that was removed from another source than that whose record has the name now. */
  readonly countsRemoved?: boolean;
  /** True finds the only record whose name contains the text, where no name is equal to it. */
  readonly isPartEnough?: boolean;
}

export interface FoundRecord {
  readonly row: RecordRow;
  readonly definition: ResourceDefinition;
  /** Given when the record was found by its name, or other sources may have one: one line for stderr. */
  readonly note?: string;
}

const PART = 'is part of the name of';
const FORMER = 'was the name of';
const CANDIDATES_SHOWN = 10;
const NAMESAKES_SHOWN = 3;
const REMOVED_READ = 20_000; // removed records whose last name is looked at: each is decoded from its history
const REPLACED_READ = 50_000; // replaced versions whose name is looked at: each is decoded from its history
const NEAR_READ = 10_000; // records among which one is sought that was probably meant

/** Finds the record, as `findRecord`; the note also names other sources that may have one, of which no run read it. */
export function lookUpRecord(
  mirror: Mirror,
  config: Config,
  question: RecordQuestion,
  places: Partial<NamePlaces> = {},
): FoundRecord {
  const found = findRecord(mirror, config, question, places);
  const { kind, id, source } = found.row;
  const isBelow = question.organization !== undefined || question.project !== undefined;
  const others = isBelow ? [] : sourcesToRead(config, mirror).filter((each) => each !== source);
  const lines = notKnownLines(notKnownIn(mirror, config, others, { id: [id], kind: [kind] }));
  if (lines.length === 0) return found;
  return { ...found, note: [...(found.note === undefined ? [] : [found.note]), ...lines].join('; ') };
}

/**
 * Finds the record.
 * @throws TidemarkError `usage` for an unknown kind, or when several records fit (they are listed); `reference_unknown`
 * when none does, with the nearest id or name; `mirror_corrupt` when none does, or a removed one, and records are deleted
 */
function findRecord(
  mirror: Mirror,
  config: Config,
  question: RecordQuestion,
  places: Partial<NamePlaces> = {},
): FoundRecord {
  const kind = kindArgument(question.kind);
  const all = sourcesToRead(config, mirror);
  const states = statesAt(mirror, all, question.at);
  const {
    options: { organization, project },
    sources,
  } = withParentIds(question, config, mirror, { sources: all, states, ...places });
  const filter = {
    sources,
    ...(organization === undefined ? {} : { organizations: organization }),
    ...(project === undefined ? {} : { projects: project }),
  };
  const found = (row: RecordRow): FoundRecord => ({
    row,
    definition: definitionsFor(config, row.source)(kind),
  });
  const byId = mirror.records.find(kind, question.id, filter);
  if (byId.length === 0 && isMaskedId(question.id))
    for (const id of idsMaskedAs(mirror, config, kind, question.id, filter))
      byId.push(...mirror.records.find(kind, id, filter));
  if (byId.length > 1) throw ambiguous(byId.map(found), question.id, 'is in');
  // What another program deleted would pass for removed, or for never there.
  const ofKind = { ...filter, kinds: [kind] };
  const requireCounted = (): void => requireCountedWithin(mirror, ofKind);
  if (byId[0]?.isRemoved === true) requireCounted();
  if (byId[0] !== undefined) return found(byId[0]);

  const named = { kind, name: question.id };
  const rowsOf = (keys: readonly Pick<Namesake, 'source' | 'scope' | 'id'>[]): FoundRecord[] =>
    keys.flatMap(({ id, scope, source }) =>
      mirror.records.find(kind, id, { ...filter, sources: [source ?? ''], scope }).map((row) => found(row)),
    );
  // By the names of that time first: another record may have this one by now.
  const past =
    question.at === LATEST.text ? [] : states.filter(({ source }) => sources.includes(source ?? ''));
  const then = rowsOf(past.flatMap((state) => namesakesIn(config, state, question.id, ofKind)));
  const search = searchByName(mirror, config, named, filter);
  const current = rowsOf(search.matches);
  const idsOf = idsOfRecords(mirror);
  const isAmong = ({ row: { id, source } }: FoundRecord, those: readonly FoundRecord[]): boolean =>
    those.some(({ row }) => row.source === source && idsOf(source, kind, row.id).includes(id));
  const isCurrent = current.some(({ row }) => !row.isRemoved);
  const gone = !isCurrent
    ? []
    : rowsOf(removedByName(mirror, config, named, filter).matches).filter((each) => !isAmong(each, current));
  const removed = gone.filter(({ row }) => !current.some((each) => each.row.source === row.source));
  const now = question.countsRemoved === true ? [...current, ...removed] : current;
  const rows =
    then.length > 0
      ? [...current.filter((each) => isAmong(each, then)), ...then.filter((each) => !isAmong(each, current))]
      : now;
  if (rows.length > 1) throw ambiguous(rows, question.id, 'is the name of');
  const former =
    rows.length > 0 || question.isPartEnough !== true
      ? []
      : rowsOf(atLatestId(mirror, kind, formerNamesakes(config, mirror, question.id, ofKind)));
  if (former.length > 1) throw ambiguous(former, question.id, FORMER);
  const parts =
    rows.length + former.length > 0
      ? []
      : partlyNamed(mirror, config, { kind, part: question.id }, filter).map(found);
  if (parts.length > 1 || (parts.length === 1 && question.isPartEnough !== true))
    throw ambiguous(parts, question.id, PART);
  const only = rows[0] ?? former[0] ?? parts[0];
  if (only === undefined || only.row.isRemoved) requireCounted();
  if (only === undefined) {
    const definition = definitionsFor(config, sources[0] ?? '')(kind);
    const near = hasNames(definition) ? nearest(mirror, config, definition, question.id, filter) : undefined;
    // One that another program altered may have another name by now.
    const damage = hasNames(definition) ? damageOf(mirror, config, kind, filter) : undefined;
    requireTurn(mirror, [kind], question.id, filter);
    const unasked = linesIfUnread(mirror, config, definition, sources);
    const doubts = doubtsAbout(
      { mirror, config, sources, run: null },
      { kind: [kind], ...(organization && { organization }), ...(project && { project }) },
    );
    throw unknownRecord(definition, question.id, near, { isCut: search.isCut, damage, unasked, ...doubts });
  }
  const others = [...new Set(removed.map(({ row }) => row.source))].join(', ');
  const namesakes =
    question.isPartEnough !== true || only.row.isRemoved || !isAmong(only, current)
      ? []
      : formerNamesakes(config, mirror, question.id, ofKind).filter(
          // Those that were removed from another source are named below.
          ({ source, isLast }) => source === only.row.source || !isLast,
        );
  const isElse = removed.some(({ row }) => !rows.some((each) => each.row.record === row.record));
  const hasOthers = isElse || namesakes.some(({ source }) => source !== only.row.source);
  const note = [
    `${recordNote(only, question.id, then.length + former.length > 0)}${hasOthers ? `, of ${only.row.source}` : ''}`,
    ...namesakeNotes(mirror, [only.row], namesakes),
  ].join('; ');
  return {
    ...only,
    note: isElse ? `${note}; one of that name was removed from ${others}: name it with --source` : note,
  };
}

/** Of other records that had the name of those that are meant, a text each: until when, the id, and its name now. */
export function namesakeNotes(
  mirror: Mirror,
  meant: readonly Pick<RecordRow, 'source' | 'kind' | 'id'>[],
  found: readonly FormerNamesake[],
): string[] {
  const idsOf = idsOfRecords(mirror);
  const own = new Set(
    meant.flatMap(({ source, kind, id }) => idsOf(source, kind, id).map((each) => `${source} ${each}`)),
  );
  const others = [
    ...Map.groupBy(found, ({ source, id }) => `${source} ${id}`)
      .entries()
      .flatMap(([key, same]) => (own.has(key) ? [] : same.slice(0, 1))),
  ];
  const texts = others.slice(0, NAMESAKES_SHOWN).map(({ source, id, definition, until, where, isLast }) => {
    const of = meant.some((each) => each.source === source) ? '' : ` of ${source}`;
    const when = isLast
      ? `another one${of} of that name was removed in run ${until}`
      : `another one${of} had that name until run ${until}`;
    return `${when}: id ${nameText(maskedId(id, definition))}${isLast ? '' : `, ${where}`}`;
  });
  const more = others.length - texts.length;
  return more > 0 ? [...texts, `${count(more)} more had that name`] : texts;
}

/** What is wrong with the first records of the kind, where they are not those that were stored. */
function damageOf(
  mirror: Mirror,
  config: Config,
  kind: Kind,
  filter: RecordFilter & { readonly sources: readonly string[] },
): TidemarkError | undefined {
  for (const source of filter.sources) {
    const latest = mirror.runs.latest(source);
    if (latest === undefined) continue;
    const definition = definitionsFor(config, source)(kind);
    const records: NamedRecord[] = [];
    for (const { scope, id, body } of first(
      mirror.records.read({ ...filter, sources: [source], kinds: [kind] }),
    )) {
      const { name } = withMaskedId(
        { id, name: recordName(definition, parseLossless(body), id) },
        definition,
      );
      records.push({ kind, scope, id, name: nameText(name) });
    }
    const damage = damageFoundBy(config, () => requireIntact(mirror, source, latest.run, records));
    if (damage !== undefined) return damage;
  }
  return undefined;
}

/** The record that `drift accept` is about. */
export function locateRecord(question: RecordQuestion): Located {
  return {
    isWritten: true,
    what: `${question.kind} ${nameText(question.id)}`,
    isIn: (mirror, config) => {
      lookUpRecord(mirror, config, question);
      return true;
    },
  };
}

/** One line for stderr: `"Snowflake" is batch export Persons → Snowflake, 0190…`. */
export function recordNote({ row, definition }: FoundRecord, text: string, isFormer = false): string {
  const id = maskedId(row.id, definition);
  const asked = shownText(text, definition);
  const name = row.body === null ? asked : recordName(definition, parseLossless(row.body), row.id);
  // What was given in full need not be repeated.
  const isSame = name.toLowerCase() === asked.toLowerCase() || name === row.id;
  const before = isSame || isFormer ? '' : `${nameText(name)}, `;
  const after = !isSame && isFormer ? `, now named ${nameText(name)}` : '';
  return `${quotedName(asked)} is ${definition.title.one} ${before}${nameText(id)}${after}`;
}

/** Ids of records of a kind, removed ones too, that are masked like this. */
export function idsMaskedAs(
  mirror: Mirror,
  config: Config,
  kind: Kind,
  text: string,
  filter: RecordFilter & { readonly sources: readonly string[] },
): string[] {
  const isMeant = ({ source, id }: { readonly source: string; readonly id: string }): boolean =>
    maskedId(id, definitionsFor(config, source)(kind)) === text;
  const own = filter.sources.filter((source) => isSecretId(definitionsFor(config, source)(kind)));
  if (own.length === 0) return [];
  const all = { ...filter, sources: own, kinds: [kind] };
  const ids = new Set<string>();
  for (const records of [mirror.records.read(all), mirror.records.removed(all)])
    for (const record of records) if (isMeant(record)) ids.add(record.id);
  return [...ids];
}

type Key = Pick<RecordRow, 'source' | 'scope' | 'id'> & Partial<Pick<RecordRow, 'isRemoved'>>;

/**
 * Records of exactly this name, else of this name in other letter case; removed ones only if no current one has it.
 * `isCut`: there are more removed ones than were searched.
 */
function searchByName(
  mirror: Mirror,
  config: Config,
  { kind, name }: { readonly kind: Kind; readonly name: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): { matches: readonly Key[]; isCut: boolean } {
  const sources = sourcesWithNames(config, kind, filter.sources);
  const current = sources.flatMap((source) => {
    const pointers = definitionsFor(config, source)(kind).nameFrom;
    return [...mirror.records.named({ kind, name, pointers }, { ...filter, sources: [source] })];
  });
  const matches = bestNamed(name, current, (record) => lastNamed(config, record));
  if (matches.length > 0 || sources.length === 0) return { matches, isCut: false };
  return removedByName(mirror, config, { kind, name }, filter);
}

/** Those of the sources whose records of the kind have names. */
function sourcesWithNames(config: Config, kind: Kind, sources: readonly string[]): string[] {
  return sources.filter((source) => hasNames(definitionsFor(config, source)(kind)));
}

/** Removed records of exactly this name, else of this name in other letter case. */
function removedByName(
  mirror: Mirror,
  config: Config,
  { kind, name }: { readonly kind: Kind; readonly name: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): { matches: readonly Key[]; isCut: boolean } {
  const sources = sourcesWithNames(config, kind, filter.sources);
  const removed = mirror.records.removedBodies({ ...filter, sources, kinds: [kind] });
  let read = 0;
  const matches = bestNamed(name, Iterator.from(removed).take(REMOVED_READ + 1), (record) => {
    read += 1;
    return lastNamed(config, record);
  });
  return { matches: atLatestId(mirror, kind, matches), isCut: read > REMOVED_READ };
}

/** A record by a name that it had before. */
interface FormerNamesake extends ReturnType<typeof lastNamed> {
  /** The run in which it had the name no longer. */
  readonly until: number;
  /** True where that run removed it and it is removed. */
  readonly isLast: boolean;
}

/** Records by the names that they had before, in as many versions as are looked through; `where` says what each is named now. */
export function formerNamesakes(
  config: Config,
  mirror: Mirror,
  text: string,
  filter: RecordFilter & Required<Pick<RecordFilter, 'sources' | 'kinds'>>,
): FormerNamesake[] {
  return filter.sources.flatMap((source) => {
    const kinds = filter.kinds.filter((kind) => hasNames(definitionsFor(config, source)(kind)));
    const replaced = mirror.records.replaced({ ...filter, sources: [source], kinds });
    const found = bestNamed(text, Iterator.from(replaced).take(REPLACED_READ), (record) => ({
      ...lastNamed(config, record),
      until: record.until,
    }));
    // Each record's newest version of that name.
    return [...Map.groupBy(found, (each) => `${collectionKey(each)} ${each.id}`).values()].flatMap(
      ([each]) =>
        each === undefined
          ? []
          : mirror.records
              .find(each.kind, each.id, { sources: [source], scope: each.scope })
              .map(({ body, run }) => {
                const now = body === null ? null : recordName(each.definition, parseLossless(body), each.id);
                const where = now === null ? REMOVED : `now named ${nameText(now)}`;
                return { ...each, where, isLast: now === null && run === each.until };
              }),
    );
  });
}

/** The records of these kinds that have this name in the newest state, or had it last. */
export function namesakesOf(
  mirror: Mirror,
  config: Config,
  { kinds, name }: { readonly kinds: readonly Kind[]; readonly name: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): Namesake[] {
  return kinds.flatMap((kind) =>
    searchByName(mirror, config, { kind, name }, filter).matches.flatMap(({ source, scope, id }) =>
      mirror.records.find(kind, id, { sources: [source], scope }).map(({ isRemoved }) => ({
        ...{ kind, scope, id, source, name, where: isRemoved ? REMOVED : LATEST.text },
        definition: definitionsFor(config, source)(kind),
      })),
    ),
  );
}

/** What else a text that is neither an id nor a name may mean. */
interface NearRecords {
  /** Records whose name contains it, one that several lists show once. */
  readonly parts: readonly FoundRecord[];
  /** The name, among the first records of each kind, that was probably meant. */
  readonly near: string | undefined;
}

export function recordsNear(
  mirror: Mirror,
  config: Config,
  { kinds, text }: { readonly kinds: readonly Kind[]; readonly text: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): NearRecords {
  const found = kinds.flatMap((kind) =>
    partlyNamed(mirror, config, { kind, part: text }, filter).map((row) => ({
      row,
      definition: definitionsFor(config, row.source)(kind),
    })),
  );
  // The list of its own family comes before the one that shows all.
  const parts = [...new Map(found.toReversed().map((each) => [each.row.id, each])).values()].toReversed();
  const names = kinds.flatMap((kind) => [...namesOf(mirror, config, kind, filter)]);
  return { parts, near: parts.length > 0 ? undefined : suggest(text, names) };
}

/** @throws TidemarkError `usage` that lists them */
export function throwSeveral(parts: readonly FoundRecord[], text: string): never {
  throw ambiguous(parts, text, PART);
}

const first = <T>(records: Iterable<T>): Iterable<T> => Iterator.from(records).take(NEAR_READ);

function* namesOf(mirror: Mirror, config: Config, kind: Kind, filter: RecordFilter): Generator<string> {
  for (const { source, id, body } of first(mirror.records.read({ ...filter, kinds: [kind] }))) {
    const definition = definitionsFor(config, source)(kind);
    if (!hasNames(definition)) return;
    const name = recordName(definition, parseLossless(body), id);
    if (name !== id) yield name;
  }
}

/** Records, among the first ones and the first removed ones, whose names contain the text, in any letter case. */
function partlyNamed(
  mirror: Mirror,
  config: Config,
  { kind, part }: { readonly kind: Kind; readonly part: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): RecordRow[] {
  const found: RecordRow[] = [];
  const all = { ...filter, kinds: [kind] };
  for (const records of [mirror.records.read(all), mirror.records.removedBodies(all)]) {
    for (const { source, scope, id, body } of first(records)) {
      const definition = definitionsFor(config, source)(kind);
      if (!hasNames(definition)) break;
      const value = parseLossless(body);
      // Masked as well, as reports show it.
      const names = [storedName(definition, value, id), recordName(definition, value, id)];
      if (!names.some((name) => name !== id && name.toLowerCase().includes(part.toLowerCase()))) continue;
      const rows = mirror.records.find(kind, id, { sources: [source], scope });
      found.push(...rows.map((row) => ({ ...row, body: row.body ?? body })));
    }
  }
  return atLatestId(mirror, kind, found);
}

/** Each record once that was created again, and so has several ids: under the latest of those given, if it
 * can be one that is there. */
function atLatestId<T extends Key>(mirror: Mirror, kind: Kind, keys: readonly T[]): T[] {
  const bySource = Map.groupBy(keys, ({ source }) => source);
  return [...bySource].flatMap(([source, own]) => {
    if (own.length < 2) return own;
    const recreated = new RecreatedIds(mirror.restores.idMap(source));
    const given = new Set(own.map(({ id }) => id));
    const there = new Set(own.flatMap(({ id, isRemoved }) => (isRemoved === false ? [id] : [])));
    return own.filter((key) => {
      const ids = recreated.places(kind, key).map(({ id }) => id);
      return (ids.find((id) => there.has(id)) ?? ids.find((id) => given.has(id))) === key.id;
    });
  });
}

/** The id or name among the first records that was probably meant. */
function nearest(
  mirror: Mirror,
  config: Config,
  definition: ResourceDefinition,
  text: string,
  filter: RecordFilter,
): string | undefined {
  const { kind } = definition;
  // A secret id must not be shown after a typing mistake.
  const keys = isSecretId(definition) ? [] : [...first(mirror.records.keys({ ...filter, kinds: [kind] }))];
  const near = suggest(
    text,
    keys.map(({ id }) => id),
  );
  return near ?? suggest(text, namesOf(mirror, config, kind, filter));
}

function ambiguous(found: readonly FoundRecord[], text: string, verb: string): TidemarkError {
  const isPart = verb === PART;
  const shown = found.slice(0, CANDIDATES_SHOWN).map(({ row, definition }) => {
    const id = maskedId(row.id, definition);
    const where = [`source ${row.source}`, scopeText(row.scope)].filter((part) => part !== '').join(', ');
    const name =
      (isPart || verb === FORMER) && row.body !== null
        ? `${nameText(recordName(definition, parseLossless(row.body), id))}: `
        : '';
    return `${name}${row.kind} ${nameText(id)} (${nameText(where)}${row.isRemoved ? ', removed' : ''})`;
  });
  const more = found.length - shown.length;
  const rows = found.map(({ row }) => row);
  const differs = (of: (row: RecordRow) => string | undefined): boolean => new Set(rows.map(of)).size > 1;
  const ways = [
    ...(differs((row) => row.source) ? ['--source NAME'] : []),
    ...SCOPE_KEYS.filter((key) => key !== 'role_id' && differs((row) => row.scope[key])).map(
      (key) => `--${key.replace('_id', '')} ID`,
    ),
    ...(differs((row) => row.id) ? ['the id instead of the name'] : []),
  ];
  const nameOne = `name one with ${ways.join(', or ')}`;
  // Name and id are the same: neither distinguishes them.
  const areNamesakes = found.length > 1 && !differs((row) => row.id);
  const summary = `${isPart ? quotedName(text) : nameText(text)} ${verb} ${plural(found.length, verb === 'is in' ? 'place' : 'record')}`;
  return new TidemarkError(
    'usage',
    [`${summary}:`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'),
    {
      hint: isPart
        ? found.length === 1
          ? 'give the name in full, or the id; a part is enough only where nothing is changed without a question'
          : areNamesakes
            ? nameOne
            : 'give one name in full, or the id'
        : nameOne,
    },
  );
}

function unknownRecord(
  definition: ResourceDefinition,
  text: string,
  near: string | undefined,
  {
    isCut,
    damage,
    unasked,
    unread,
    stale,
    hint,
  }: {
    readonly isCut: boolean;
    readonly damage: TidemarkError | undefined;
    readonly unasked: readonly string[];
  } & ReturnType<typeof doubtsAbout>,
): TidemarkError {
  const word = quotedName(text);
  const { title } = definition;
  const what = hasNames(definition) ? 'with the id or name' : 'with the id';
  const byEmail = definition.nameFrom[0]?.endsWith('email') === true;
  const naming = byEmail ? `${title.many} are named by their email address; ` : '';
  const note = isCut
    ? `; of more than ${count(REMOVED_READ)} removed ones, only the first were looked through for the name`
    : '';
  const meant = near === undefined ? '' : `; did you mean ${quotedName(near)}?`;
  const more = [...(damage === undefined ? [] : [damage.message]), ...unread, ...stale, ...unasked];
  const ofDamage = damage?.hint === undefined ? '' : `${damage.hint}; `;
  if (unread.length > 0)
    return new TidemarkError(
      'never_read',
      [
        `no ${title.one} ${what} ${word} was read, and whether there is one is not known${meant}`,
        ...more,
      ].join('\n'),
      { hint: `${ofDamage}${hint}` },
    );
  return new TidemarkError(
    'reference_unknown',
    [`the mirror has no ${title.one} ${what} ${word}${meant}`, ...more].join('\n'),
    {
      hint: `${ofDamage}${naming}${listCommand(definition)} lists them; \`tidemark status\` says how fresh they are${note}`,
    },
  );
}

/**
 * Why there may be such records: a line for each source of which no run read the kind.
 * @throws TidemarkError `never_read` where that is every source
 */
function linesIfUnread(
  mirror: Mirror,
  config: Config,
  definition: ResourceDefinition,
  sources: readonly string[],
): string[] {
  const { kind, title } = definition;
  const unread = sources.flatMap((source) => {
    const { run = null } = mirror.runs.latest(source) ?? {};
    const never =
      run === null ? `nothing of source ${source} was read yet` : neverAsked(mirror, { source, run })(kind);
    const isExcluded = isExcludedBy(config, source)(kind);
    return never === null ? [] : [{ source, isExcluded, reason: isExcluded ? EXCLUDED : never }];
  });
  const [first] = unread;
  if (first === undefined || unread.length < sources.length)
    return unread.map(({ source, reason }) => `${title.many} of ${source} are not known: ${reason}`);
  const { source, isExcluded, reason } = first;
  const sync = `\`tidemark sync${sources.length > 1 || config.configured.length > 1 ? ` --source ${source}` : ''}\``;
  throw new TidemarkError(
    'never_read',
    `the mirror has not read any ${title.many}: ${reason}${isExcluded ? '; no run read it' : ''}`,
    { hint: isExcluded ? `${includeKindHint(config, source, definition)}, then run ${sync}` : `run ${sync}` },
  );
}

/** Which option leaves a kind in. */
function includeKindHint({ sources }: Config, source: string, { reading }: ResourceDefinition): string {
  const isOff = sources.find(({ name }) => name === source)?.recordings.sharingPerRun === 0;
  return reading === 'each' && isOff
    ? 'set recordings.sharingPerRun to more than 0'
    : 'leave the kind in (kinds.include, kinds.exclude)';
}

// A kind given as an argument.

/** @throws TidemarkError `usage` with the nearest kind */
export function kindArgument(text: string): Kind {
  try {
    return kindName(text) as Kind;
  } catch (error) {
    throw new TidemarkError('usage', `there is no kind ${JSON.stringify(text)}`, {
      hint: error instanceof Error ? error.message : '`tidemark catalog` lists them',
    });
  }
}

// The sources that a mirror holds, whatever the configuration names today.

/** The configured sources; without any, a command that only reads the mirror takes what the mirror holds. */
export function sourcesToRead(config: Config, mirror: Mirror): string[] {
  return config.sources.length > 0 ? config.sources.map(({ name }) => name) : mirror.runs.sources();
}
