/** Finds the record that KIND and ID of a command stand for: by id, else by name; also if it is removed. */
import { SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { shownText } from '../catalog/masks.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeText } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { guessText, suggest } from '../core/suggest.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { recordName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RecordRow } from '../mirror/records.ts';
import { isMaskedId, maskedId, withMaskedId } from '../report/mask.ts';
import { nameText, quotedName } from '../report/value-text.ts';
import { type NamedRecord, requireCountedWithin, requireIntact } from '../state/intact.ts';
import { LATEST } from '../state/reference.ts';
import { EXCLUDED } from '../state/unasked.ts';
import { kindName, type Located } from './command-row.ts';
import {
  idsOfRecords,
  isUnknownIn,
  type NotKnown,
  notKnownIn,
  notKnownLines,
  requireTurn,
  unknownRecord,
  unknownsIn,
} from './not-known.ts';
import {
  damageFoundBy,
  hasNames,
  listCommand,
  type NamePlaces,
  type Namesake,
  namesakesIn,
  statesAt,
  withParentIds,
} from './named-parents.ts';
import {
  atLatestId,
  first,
  formerNamesakes,
  idsMaskedAs,
  namesakeNotes,
  namesOf,
  nearest,
  partlyNamed,
  REMOVED_READ,
  removedByName,
  searchByName,
} from './record-names.ts';

/** The record that the user means. */
export interface RecordQuestion {
  readonly kind: string;
  /** The remote id (a secret one also as reports mask it), or the record's complete name. */
  readonly id: string;
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
  /** A point in time: names of that time count too. */
  readonly at?: string;
  /** True if a record of that name which was removed from another source also counts. */
  readonly countsRemoved?: boolean;
  /** True if former names count too, and, if no name is equal to the text, the only record whose name contains it. */
  readonly isPartEnough?: boolean;
}

export interface FoundRecord {
  readonly row: RecordRow;
  readonly definition: ResourceDefinition;
  /** One line for stderr, if the record was found by its name, or other sources may have one too. */
  readonly note?: string;
}

const PART = 'is part of the name of';
const FORMER = 'was the name of';
const FORMER_PART = 'was part of the name of';
const CANDIDATES_SHOWN = 10;

/** Finds the record, like `findRecord`; the note also names other sources that may have it in lists that no run read. */
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
 * @throws TidemarkError `usage` for an unknown kind, or if several records match (they are listed); `reference_unknown` if
 * none does, with the nearest id or name; `mirror_corrupt` if no current one does and rows of the mirror were deleted
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
  } = withParentIds(question, config, mirror, {
    ...{ sources: all, states },
    ...(question.isPartEnough === true ? { formerly: formerParents(config, mirror) } : {}),
    ...places,
  });
  const filter = { sources, ...defined({ organizations: organization, projects: project }) };
  const found = (row: RecordRow): FoundRecord => ({
    row,
    definition: definitionsFor(config, row.source)(kind),
  });
  const byId = mirror.records.find(kind, question.id, filter);
  if (byId.length === 0 && isMaskedId(question.id))
    for (const id of idsMaskedAs(mirror, config, kind, question.id, filter))
      byId.push(...mirror.records.find(kind, id, filter));
  if (byId.length > 1) throw ambiguous(byId.map(found), question.id, 'is in');
  // A record that another program deleted from the mirror would look as if it was removed, or never existed.
  const ofKind = { ...filter, kinds: [kind] };
  const requireCounted = (): void => requireCountedWithin(mirror, ofKind);
  if (byId[0]?.isRemoved === true) requireCounted();
  if (byId[0] !== undefined) return found(byId[0]);

  const named = { kind, name: question.id };
  const rowsOf = (keys: readonly Pick<Namesake, 'source' | 'scope' | 'id'>[]): FoundRecord[] =>
    keys.flatMap(({ id, scope, source }) =>
      mirror.records.find(kind, id, { ...filter, sources: [source ?? ''], scope }).map((row) => found(row)),
    );
  // Names of that time come first: today another record may have this one.
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
  const formerParts =
    rows.length + former.length + parts.length > 0 || question.isPartEnough !== true
      ? []
      : formerNamesakes(config, mirror, question.id, ofKind, true);
  const formerly = rowsOf(atLatestId(mirror, kind, formerParts));
  if (formerly.length > 1) throw ambiguous(formerly, question.id, FORMER_PART);
  const only = rows[0] ?? former[0] ?? parts[0] ?? formerly[0];
  if (only === undefined || only.row.isRemoved) requireCounted();
  if (only === undefined) {
    const definition = definitionsFor(config, sources[0] ?? '')(kind);
    const near = hasNames(definition) ? nearest(mirror, config, definition, question.id, filter) : undefined;
    // A record that another program altered may have had this name.
    const damage = hasNames(definition) ? damageOf(mirror, config, kind, filter) : undefined;
    requireTurn(mirror, [kind], question.id, filter);
    const unknowns = unknownsIn(
      { mirror, config, sources, run: null },
      { kind: [kind], ...(organization && { organization }), ...(project && { project }) },
    );
    const never = unknowns.kinds.filter((each) => each.kind === kind && !each.isScoped);
    if (isUnknownIn(sources, never)) throw neverRead(config, definition, sources, never);
    throw notFound(definition, question.id, { near, isCut: search.isCut, damage, never }, unknowns);
  }
  const others = [...new Set(removed.map(({ row }) => row.source))].join(', ');
  const namesakes =
    question.isPartEnough !== true || only.row.isRemoved || !isAmong(only, current)
      ? []
      : formerNamesakes(config, mirror, question.id, ofKind).filter(
          // Records that were removed from another source are named below.
          ({ source, isLast }) => source === only.row.source || !isLast,
        );
  const isElse = removed.some(({ row }) => !rows.some((each) => each.row.record === row.record));
  const hasOthers = isElse || namesakes.some(({ source }) => source !== only.row.source);
  const note = [
    `${recordNote(only, question.id, then.length + former.length > 0, formerParts[0]?.name)}${hasOthers ? `, of ${only.row.source}` : ''}`,
    ...namesakeNotes(mirror, [only.row], namesakes),
  ].join('; ');
  return {
    ...only,
    note: isElse ? `${note}; one of that name was removed from ${others}: name it with --source` : note,
  };
}

/** Finds organizations and projects by their former names. */
function formerParents(config: Config, mirror: Mirror): NonNullable<NamePlaces['formerly']> {
  return (kind, name, { organizations }, sources) =>
    formerNamesakes(config, mirror, name, {
      ...{ sources, kinds: [kind] },
      ...(organizations === undefined ? {} : { organizations }),
    });
}

/** The error if one of the first records of the kind is not as it was stored. */
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
export function recordNote(
  { row, definition }: FoundRecord,
  text: string,
  isFormer = false,
  formerName?: string,
): string {
  const id = maskedId(row.id, definition);
  const asked = shownText(text, definition);
  const name = row.body === null ? asked : recordName(definition, parseLossless(row.body), row.id);
  // A name that was given in full is not repeated.
  const isSame = name.toLowerCase() === asked.toLowerCase() || name === row.id;
  const before = isSame || isFormer ? '' : `${nameText(name)}, `;
  const after =
    formerName !== undefined
      ? `, named ${nameText(shownText(formerName, definition))} before`
      : !isSame && isFormer
        ? `, now named ${nameText(name)}`
        : '';
  return `${quotedName(asked)} is ${definition.title.one} ${before}${nameText(id)}${after}`;
}

/** What a text that is neither an id nor a name may mean. */
interface NearRecords {
  /** Records whose name contains it; a record that is in several lists is here once. */
  readonly parts: readonly FoundRecord[];
  /** The most similar name among the first records of each kind. */
  readonly near: string | undefined;
}

/** Finds records whose name contains the text, else the most similar name. */
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
  // The list of a component's family comes before the list of all plugins.
  const parts = [...new Map(found.toReversed().map((each) => [each.row.id, each])).values()].toReversed();
  const names = kinds.flatMap((kind) => [...namesOf(mirror, config, kind, filter)]);
  return { parts, near: parts.length > 0 ? undefined : suggest(text, names) };
}

/** @throws TidemarkError `usage`, with a list of the records whose names contain the text */
export function throwSeveral(parts: readonly FoundRecord[], text: string): never {
  throw ambiguous(parts, text, PART);
}

function ambiguous(found: readonly FoundRecord[], text: string, verb: string): TidemarkError {
  const isPart = verb === PART;
  const shown = found.slice(0, CANDIDATES_SHOWN).map(({ row, definition }) => {
    const id = maskedId(row.id, definition);
    const where = [`source ${row.source}`, scopeText(row.scope)].filter((part) => part !== '').join(', ');
    const name =
      (isPart || verb === FORMER || verb === FORMER_PART) && row.body !== null
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
  // The candidates have the same name and the same id: neither distinguishes them.
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

function notFound(
  definition: ResourceDefinition,
  text: string,
  {
    near,
    isCut,
    damage,
    never,
  }: {
    readonly near: string | undefined;
    readonly isCut: boolean;
    readonly damage: TidemarkError | undefined;
    readonly never: readonly NotKnown[];
  },
  unknowns: ReturnType<typeof unknownsIn>,
): TidemarkError {
  const { title } = definition;
  const what = `${hasNames(definition) ? 'with the id or name' : 'with the id'} ${quotedName(text)}`;
  const byEmail = definition.nameFrom[0]?.endsWith('email') === true;
  const naming = byEmail ? `${title.many} are named by their email address; ` : '';
  const note = isCut
    ? `; of more than ${formatInteger(REMOVED_READ)} removed ones, only the first were looked through for the name`
    : '';
  const meant = guessText(near === undefined ? undefined : quotedName(near));
  const ofDamage = damage?.hint === undefined ? '' : `${damage.hint}; `;
  return unknownRecord(
    {
      none: `the mirror has no ${title.one} ${what}${meant}`,
      unread: `no ${title.one} ${what} was read, and whether there is one is not known${meant}`,
      more: damage === undefined ? [] : [damage.message],
      others: notKnownLines(never),
      hint: `${ofDamage}${naming}${listCommand(definition)} lists them; \`tidemark status\` says how fresh they are${note}`,
    },
    { ...unknowns, hint: `${ofDamage}${unknowns.hint}` },
  );
}

/** The error if no list of the kind was read in any source. */
function neverRead(
  config: Config,
  definition: ResourceDefinition,
  sources: readonly string[],
  [first]: readonly NotKnown[],
): TidemarkError {
  const { source, reason } = first ?? { source: '', reason: '' };
  const isExcluded = reason === EXCLUDED;
  const sync = `\`tidemark sync${sources.length > 1 || config.configured.length > 1 ? ` --source ${source}` : ''}\``;
  return new TidemarkError(
    'never_read',
    `the mirror has not read any ${definition.title.many}: ${reason}${isExcluded ? '; no run read it' : ''}`,
    { hint: isExcluded ? `${includeKindHint(config, source, definition)}, then run ${sync}` : `run ${sync}` },
  );
}

/** The option with which the kind would be read. */
function includeKindHint({ sources }: Config, source: string, { reading }: ResourceDefinition): string {
  const isOff = sources.find(({ name }) => name === source)?.recordings.sharingPerRun === 0;
  return reading === 'each' && isOff
    ? 'set recordings.sharingPerRun to more than 0'
    : 'leave the kind in (kinds.include, kinds.exclude)';
}

/** The kind that was given as an argument. @throws TidemarkError `usage` with the nearest kind */
export function kindArgument(text: string): Kind {
  try {
    return kindName(text) as Kind;
  } catch (error) {
    throw new TidemarkError('usage', `there is no kind ${JSON.stringify(text)}`, {
      hint: error instanceof Error ? error.message : '`tidemark catalog` lists them',
    });
  }
}

/** The configured sources; if there are none, all sources of the mirror. */
export function sourcesToRead(config: Config, mirror: Mirror): string[] {
  return config.sources.length > 0 ? config.sources.map(({ name }) => name) : mirror.runs.sources();
}
