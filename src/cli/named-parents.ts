/** `--organization` and `--project`: replaces names by ids, which it looks up in the states that a command works with. */
import { scopeText } from '../catalog/catalog.ts';
import type { ScopeKey } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { CollectionKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { ownerOf } from '../config/mirrors.ts';
import { definitionsFor } from '../config/source.ts';
import { systemClock } from '../core/clock.ts';
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import { withSource } from '../core/hints.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { plural } from '../core/wording.ts';
import { storedName } from '../diff/change.ts';
import type { RecordState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { isSecretId, maskedId } from '../report/mask.ts';
import { nameText, quotedName } from '../report/value-text.ts';
import { filterParts, type StateFilter } from '../state/filter.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { resolvedStateOf, resolveState } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import type { NamedRecord } from '../state/intact.ts';
import type { LoadedState } from '../state/state.ts';

export interface ParentOptions {
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
}

/** A state that the command works with. */
export interface SourceState {
  /** Null for an export of no configured source. */
  readonly source: string | null;
  readonly state: LoadedState;
}

export interface NamePlaces {
  readonly sources: readonly string[];
  /** States to search besides the newest one of each source. */
  readonly states?: readonly SourceState[];
  /** True if the command also reads the service, which may have ids that no stored state has. */
  readonly readsLive?: boolean;
  /** Called for each name, with a line that says what it stands for. */
  readonly note?: (line: string) => void;
  /** Finds records that had the name before, if no record has it now; left out if only current names count. */
  readonly formerly?: (
    kind: Kind,
    name: string,
    within: StateFilter,
    sources: readonly string[],
  ) => Namesake[];
}

/** The options with ids in place of names, and the sources in which all names are known; elsewhere the ids are other records. */
export interface ResolvedParents<T> {
  readonly options: T;
  readonly sources: readonly string[];
}

/** No record of this mirror has the id or the name; one of another mirror may. */
export class UnknownParent extends TidemarkError {}

const SHOWN = 10; // records of one name

/** The `where` of a record that is removed: the name is the last that it had. */
export const REMOVED = 'removed';

type Parent = keyof ParentOptions;

const KEYS = { organization: 'organization_id', project: 'project_id' } as const satisfies Record<
  Parent,
  ScopeKey
>;

/** A record that has the given name. */
export interface Namesake extends NamedRecord {
  readonly source: string | null;
  /** The reference of the state that has it, or `REMOVED`. */
  readonly where: string;
  readonly definition: ResourceDefinition;
}

/** True if the mirror does not know all of these as ids: then other states have to be searched. */
export function areNamesAmong(
  asked: ParentOptions,
  mirror: Mirror | null,
  sources: readonly string[],
): boolean {
  return (['organization', 'project'] as const).some((parent) =>
    asked[parent]?.some((text) => sourcesWithId(mirror, [], sources, parent, text).length === 0),
  );
}

/**
 * Replaces each name by the id that it stands for. What any of the states has as an id is never taken for a name.
 * @throws TidemarkError `usage` if several records have the name, in one state or in different ones; `mirror_corrupt` if the
 * record found is not as it was stored; `UnknownParent` if no state has it
 */
export function withParentIds<T extends ParentOptions>(
  asked: T,
  config: Config,
  mirror: Mirror | null,
  places: NamePlaces,
): ResolvedParents<T> {
  const stored = places.states ?? [];
  const isOfMirror = places.sources.length > 0 && mirror !== null;
  const states = [
    ...(isOfMirror && areNamesAmong(asked, mirror, places.sources) ? newestOf(mirror, places.sources) : []),
    ...stored,
  ];
  const choice = new SourceChoice(places.sources);
  const idsOf = (parent: Parent, below?: readonly string[]): readonly string[] | undefined => {
    const kind = SCOPE_KIND[KEYS[parent]];
    const filter = { kinds: [kind], ...(below === undefined ? {} : { organizations: below }) };
    const { sources } = choice;
    const within = states.filter(({ source }) => source === null || sources.includes(source));
    return asked[parent]?.flatMap((text) => {
      const having = sourcesWithId(mirror, states, places.sources, parent, text);
      if (having.length > 0) {
        choice.take(having, true);
        return [text];
      }
      const current = within.flatMap((place) => namesakesIn(config, place, text, filter));
      const last =
        current.length > 0 || mirror === null
          ? current
          : sources.flatMap((source) => removedNamesakes(config, mirror, source, text, filter));
      const found = last.length > 0 ? last : (places.formerly?.(kind, text, filter, sources) ?? []);
      if (found.length === 0) {
        // The service may have organizations whose ids do not look like ids.
        const names = within.flatMap((place) => allNamed(config, place, kind).map(({ name }) => name));
        const isOfService = parent === 'organization' && namesWith(text, names).length === 0;
        if (places.readsLive === true && (isOfService || ID.test(text))) return [text];
        throw unknownParent(config, mirror, within, parent, text);
      }
      requireNamesIntact(within, found);
      const ids = onlyIds(mirror, text, found);
      if (places.readsLive === true && ID.test(text))
        throw new TidemarkError(
          'usage',
          `${text} is the name of ${parent} ${ids.join(', ')}, and may be the id of one that only the service has`,
          { hint: `give the id: --${parent} ${ids.join(', ')}` },
        );
      const own = choice.take(found.map(({ source }) => source));
      places.note?.(`${quotedName(text)} is ${parent} ${ids.map(nameText).join(', ')}${own}`);
      return ids;
    });
  };
  const organization = idsOf('organization');
  const project = idsOf('project', organization);
  return {
    options: {
      ...asked,
      ...defined({ organization, project }),
    },
    sources: choice.sources,
  };
}

/** What an id looks like: such a text is not a mistyped name. */
export const ID = /^(?:\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** The state of each source at `at`. A source that had none then is left out: the command itself reports that. */
export function statesAt(mirror: Mirror, sources: readonly string[], at: string | undefined): SourceState[] {
  if (at === undefined) return [];
  return sources.flatMap((source) => {
    try {
      const resolvedState = resolveState(mirror, at, { source, now: systemClock.now() });
      return [{ source, state: openMirrorState(mirror, source, resolvedState) }];
    } catch (error) {
      if (error instanceof TidemarkError) return [];
      throw error;
    }
  });
}

function newestOf(mirror: Mirror, sources: readonly string[]): SourceState[] {
  return sources.flatMap((source) =>
    mirror.runs.latest(source) === undefined
      ? []
      : [{ source, state: openMirrorState(mirror, source, resolvedStateOf(mirror, LATEST, { source })) }],
  );
}

/** The sources that have or had the record, or something below it; null for a state of no source. */
function sourcesWithId(
  mirror: Mirror | null,
  states: readonly SourceState[],
  sources: readonly string[],
  parent: Parent,
  text: string,
): (string | null)[] {
  const kind = SCOPE_KIND[KEYS[parent]];
  const isBelow = ({ scope }: CollectionKey): boolean => scope[KEYS[parent]] === text;
  const held =
    mirror === null
      ? []
      : [...mirror.records.find(kind, text, { sources }), ...mirror.runs.collections().filter(isBelow)];
  const having = states.filter(
    ({ state }) =>
      state.collections().some(isBelow) ||
      [...(state.keys?.({ kinds: [kind] }) ?? state.records({ kinds: [kind] }))].some(
        ({ id }) => id === text,
      ),
  );
  return [...held, ...having]
    .map(({ source }) => source)
    .filter((source) => source === null || sources.includes(source));
}

/** Narrows the sources to those that know every name given. */
export class SourceChoice {
  sources: readonly string[];
  readonly #all: readonly string[];
  #isNarrowed = false;

  constructor(sources: readonly string[]) {
    this.sources = sources;
    this.#all = sources;
  }

  /**
   * Takes note of the sources that know a name, and drops the other sources: there, the same id is another record. For an id
   * (`isId`), no source is dropped.
   * @returns ` of source …` for a message if sources were dropped, else an empty text
   * @throws TidemarkError `usage` if what was given before is known in other sources
   */
  take(found: readonly (string | null)[], isId = false): string {
    if (found.includes(null)) return '';
    const own = this.#all.filter((source) => found.includes(source));
    const isOther = isId
      ? !this.sources.some((source) => own.includes(source))
      : this.#isNarrowed && !this.sources.every((source) => own.includes(source));
    if (isOther)
      throw new TidemarkError('usage', 'the names and ids given are in different sources', {
        hint: 'name one source with --source, or give ids instead of names',
      });
    if (isId) return '';
    this.sources = this.sources.filter((source) => own.includes(source));
    this.#isNarrowed = true;
    return own.length === this.#all.length ? '' : ` of source ${this.sources.join(', ')}`;
  }
}

/** True for kinds whose records have names of their own; recordings are named after the person that they show. */
export function hasNames({ nameFrom, naturalKey, idPath }: ResourceDefinition): boolean {
  return nameFrom.length > 0 && naturalKey.some((pointer) => pointer !== `/${idPath.join('/')}`);
}

/** The records of a state that have this name, among the kinds with names. */
export function namesakesIn(
  config: Config,
  { source, state }: SourceState,
  text: string,
  filter: StateFilter,
): Namesake[] {
  const definitions = definitionsFor(config, source ?? config.sources[0]?.name ?? '');
  const kinds = (filter.kinds ?? KINDS).filter((kind) => hasNames(definitions(kind)));
  const where = state.reference.ref;
  return kinds.flatMap((kind) =>
    filterParts({ ...filter, kinds: [kind] }, state).flatMap((part) =>
      bestNamed(text, state.records(part), (record) =>
        namesake(definitions(kind), record, { source, where }),
      ),
    ),
  );
}

/** Removed records whose last name this was. */
function removedNamesakes(
  config: Config,
  mirror: Mirror,
  source: string,
  text: string,
  filter: StateFilter,
): Namesake[] {
  const removed = mirror.records.removedBodies({ ...filter, sources: [source] });
  return bestNamed(text, removed, (record) => lastNamed(config, record));
}

/** A record of the mirror, with the name that its body has. */
export function lastNamed(config: Config, record: MirrorRecord): Namesake & { readonly source: string } {
  const { source, kind } = record;
  return { ...namesake(definitionsFor(config, source)(kind), record, { source, where: REMOVED }), source };
}

function namesake(
  definition: ResourceDefinition,
  { kind, scope, id, body }: RecordState,
  place: Pick<Namesake, 'source' | 'where'>,
): Namesake {
  return { kind, scope, id, ...place, definition, name: storedName(definition, parseLossless(body), id) };
}

/** @throws TidemarkError `mirror_corrupt` if one of the records is not as it was stored: it may have had another name */
export function requireNamesIntact(states: readonly SourceState[], found: readonly Namesake[]): void {
  for (const { state, source } of states)
    state.requireIntact?.(
      found.filter((each) => each.source === source && each.where === state.reference.ref),
    );
}

/** The records with exactly this name, else with this name in another letter case; with `isPart`, names that contain it count too. */
export function bestNamed<T, Named extends Namesake>(
  text: string,
  records: Iterable<T>,
  of: (record: T) => Named,
  isPart = false,
): Named[] {
  const loose: Named[] = [];
  const lower = text.toLowerCase();
  for (const record of records) {
    const found = of(record);
    const name = found.name.toLowerCase();
    if (isPart ? name.includes(lower) && found.name !== found.id : name === lower) loose.push(found);
  }
  const exact = loose.filter(({ name }) => name === text);
  return exact.length > 0 ? exact : loose;
}

/**
 * The ids of the record found: several if a restore created it again.
 * @throws TidemarkError `usage` if they are different records; lists the ids, and where each has the name
 */
export function onlyIds(mirror: Mirror | null, text: string, found: readonly Namesake[]): readonly string[] {
  const ids = [...new Set(found.map(({ id }) => id))];
  const bySource = [...Map.groupBy(found, ({ source }) => source)];
  const isOne = bySource.every(([source, own]) => {
    const recreated = new RecreatedIds(
      mirror === null || source === null ? [] : mirror.restores.idMap(source),
    );
    const [first] = own;
    const same = first === undefined ? [] : recreated.all(first.kind, first.id);
    return ids.every((id) => same.includes(id));
  });
  if (isOne) return ids;
  const lines = [...Map.groupBy(found, ({ kind, id }) => `${kind} ${id}`).values()].flatMap((own) => {
    const [first] = own;
    if (first === undefined) return [];
    const places = own.map(({ source, scope, where }) =>
      [...(source === null ? [] : [`source ${source}`]), scopeText(scope), where]
        .filter((part) => part !== '')
        .join(', '),
    );
    return `${first.kind} ${nameText(maskedId(first.id, first.definition))} (${[...new Set(places)].map(nameText).join('; ')})`;
  });
  const shown = lines.slice(0, SHOWN);
  const more = lines.length - shown.length;
  const ways = [...(bySource.length > 1 ? ['--source NAME'] : []), 'the id instead of the name'];
  throw new TidemarkError(
    'usage',
    [
      `${nameText(text)} is the name of ${plural(lines.length, 'record')}:`,
      ...shown,
      ...(more > 0 ? [`and ${more} more`] : []),
    ].join('\n'),
    { hint: `name one with ${ways.join(', or ')}` },
  );
}

/** The `mirror_corrupt` error that `check` throws, if any, with `--source` in the commands of its hint. */
export function damageFoundBy(config: Config, check: () => void): TidemarkError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (!(error instanceof TidemarkError) || error.code !== 'mirror_corrupt') throw error;
    const owner = ownerOf(config);
    return owner === null
      ? error
      : new TidemarkError(error.code, error.message, {
          hint: withSource(error.hint ?? '', owner),
          cause: error,
        });
  }
}

/** All records of the kind in a state. */
function allNamed(config: Config, { source, state }: SourceState, kind: Kind): Namesake[] {
  const definition = definitionsFor(config, source ?? config.sources[0]?.name ?? '')(kind);
  return [...state.records({ kinds: [kind] })].map((record) =>
    namesake(definition, record, { source, where: state.reference.ref }),
  );
}

const GUESSES = 3; // names proposed at most because they contain the given text

function namesWith(text: string, names: Iterable<string>): string[] {
  const part = text.toLowerCase();
  return [...new Set(names)].filter((name) => name.toLowerCase().includes(part)).slice(0, GUESSES);
}

/** The command that lists only the names of a kind's records, and their ids unless these are secret. */
export function listCommand(definition: ResourceDefinition): string {
  const pointers = isSecretId(definition) ? [] : ['/id'];
  const [name] = definition.nameFrom;
  if (name !== undefined) pointers.push(`/body${name}`);
  const places = pointers.map((pointer) => pointer.replaceAll('/', '.'));
  return `\`tidemark export --kind ${definition.kind} | jq -c '[${places.join(', ')}]'\``;
}

function unknownParent(
  config: Config,
  mirror: Mirror | null,
  states: readonly SourceState[],
  parent: Parent,
  text: string,
): UnknownParent {
  const key = KEYS[parent];
  const kind = SCOPE_KIND[key];
  const ids = new Set<string>();
  const names = new Set<string>();
  let damage: TidemarkError | undefined;
  for (const { source, state } of states) {
    for (const { scope } of state.collections()) if (scope[key] !== undefined) ids.add(scope[key]);
    const all = allNamed(config, { source, state }, kind);
    for (const { id, name } of all) {
      ids.add(id);
      names.add(name);
    }
    // A record that another program altered may have had this name.
    damage ??= damageFoundBy(config, () => state.requireIntact?.(all));
  }
  const near = suggest(text, ids) ?? suggest(text, names);
  const guesses = near === undefined ? namesWith(text, names) : [near];
  const guess = guesses.length === 0 ? '' : `; did you mean ${guesses.map(nameText).join(' or ')}?`;
  const who = mirror === null ? 'export' : 'mirror';
  return new UnknownParent(
    damage === undefined ? 'reference_unknown' : 'mirror_corrupt',
    `the ${who} has no ${parent} ${nameText(text)}${guess}${damage === undefined ? '' : `\n${damage.message}`}`,
    {
      hint: `${damage?.hint === undefined ? '' : `${damage.hint}; `}${listCommand(definitionsFor(config, config.sources[0]?.name ?? '')(kind))} lists those that the mirror holds`,
    },
  );
}
