/** Finds records by name: a current or former one, or a part of it. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { collectionKey } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { formatInteger } from '../core/wording.ts';
import { recordName, storedName } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RecordRow } from '../mirror/records.ts';
import { isSecretId, maskedId } from '../report/mask.ts';
import { nameText } from '../report/value-text.ts';
import { LATEST } from '../state/reference.ts';
import { idsOfRecords } from './not-known.ts';
import { bestNamed, hasNames, lastNamed, type Namesake, REMOVED } from './named-parents.ts';

const NAMESAKES_SHOWN = 3;
export const REMOVED_READ = 20_000; // removed records searched: each is decoded from its history
const REPLACED_READ = 50_000; // replaced versions searched: each is decoded from its history
const NEAR_READ = 10_000; // records searched for a similar id or name

/** Ids of records of a kind, including removed ones, whose masked form is `text`. */
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
 * Records with exactly this name, else with this name in another letter case; removed ones only if no current one has it.
 * `isCut`: only the first `REMOVED_READ` removed records were searched.
 */
export function searchByName(
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

/** The sources in which records of the kind have names. */
function sourcesWithNames(config: Config, kind: Kind, sources: readonly string[]): string[] {
  return sources.filter((source) => hasNames(definitionsFor(config, source)(kind)));
}

/** Removed records whose last name was exactly this, else this in another letter case. */
export function removedByName(
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

/** A record with a former name. */
interface FormerNamesake extends ReturnType<typeof lastNamed> {
  /** The first run in which it no longer had the name. */
  readonly until: number;
  /** True if that run removed it, and it is still removed. */
  readonly isLast: boolean;
}

/** Records that had this name before, or one that contains it, among the first `REPLACED_READ` versions; `where` has the current name. */
export function formerNamesakes(
  config: Config,
  mirror: Mirror,
  text: string,
  filter: RecordFilter & Required<Pick<RecordFilter, 'sources' | 'kinds'>>,
  isPart = false,
): FormerNamesake[] {
  return filter.sources.flatMap((source) => {
    const kinds = filter.kinds.filter((kind) => hasNames(definitionsFor(config, source)(kind)));
    const replaced = mirror.records.replaced({ ...filter, sources: [source], kinds });
    const named = (record: typeof replaced extends Iterable<infer Row> ? Row : never) => ({
      ...lastNamed(config, record),
      until: record.until,
    });
    const found = bestNamed(text, Iterator.from(replaced).take(REPLACED_READ), named, isPart);
    // Of each record, the newest version with that name.
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

/** A text for each other record that had the name of those that are meant: until when, its id, and its name now. */
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
  return more > 0 ? [...texts, `${formatInteger(more)} more had that name`] : texts;
}

/** The records of these kinds that have this name in the newest state, or were removed with it. */
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

/** The first records, as many as are searched for similar ids and names. */
export const first = <T>(records: Iterable<T>): Iterable<T> => Iterator.from(records).take(NEAR_READ);

/** The names of the first records of a kind. */
export function* namesOf(
  mirror: Mirror,
  config: Config,
  kind: Kind,
  filter: RecordFilter,
): Generator<string> {
  for (const { source, id, body } of first(mirror.records.read({ ...filter, kinds: [kind] }))) {
    const definition = definitionsFor(config, source)(kind);
    if (!hasNames(definition)) return;
    const name = recordName(definition, parseLossless(body), id);
    if (name !== id) yield name;
  }
}

/** The records, among the first current and the first removed ones, whose names contain the text in any letter case. */
export function partlyNamed(
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
      // Names that contain secrets can also be found as reports show them, masked.
      const names = [storedName(definition, value, id), recordName(definition, value, id)];
      if (!names.some((name) => name !== id && name.toLowerCase().includes(part.toLowerCase()))) continue;
      const rows = mirror.records.find(kind, id, { sources: [source], scope });
      found.push(...rows.map((row) => ({ ...row, body: row.body ?? body })));
    }
  }
  return atLatestId(mirror, kind, found);
}

/** Keeps one key of each record that has several ids since it was created again: the latest one, preferably of a record that exists. */
export function atLatestId<T extends Key>(mirror: Mirror, kind: Kind, keys: readonly T[]): T[] {
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

/** The id or name, among the first records, that is most like the text. */
export function nearest(
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
