/** The one record that a command's KIND and ID mean: by id, else by its name; removed records are found too. */
import { type Kind, type ResourceDefinition, SCOPE_KEYS } from '../catalog/definition.ts';
import { scopeText } from '../catalog/scope-text.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source-definitions.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { count } from '../core/wording.ts';
import { recordName } from '../diff/name.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { MirrorRecord, RecordRow } from '../mirror/records.ts';
import { isMaskedId, isSecretId, maskedId } from '../report/mask.ts';
import { nameText } from '../report/sections.ts';
import { kindArgument } from './kind-argument.ts';
import { idsMaskedAs } from './masked-ids.ts';
import { sourcesToRead } from './mirrored-sources.ts';

/** What the user asks for. */
export interface RecordQuestion {
  readonly kind: string;
  /** Remote id, a secret one as reports mask it too, or the record's whole name. */
  readonly id: string;
  readonly organization?: readonly string[];
  readonly project?: readonly string[];
}

export interface FoundRecord {
  readonly row: RecordRow;
  readonly definition: ResourceDefinition;
  /** Given when the record was found by its name: one line for stderr. */
  readonly remark?: string;
}

const CANDIDATES_SHOWN = 10;
const REMOVED_READ = 20_000; // removed records whose last name is looked at: each is decoded from its history
const NEAR_READ = 10_000; // records among which one is sought that was probably meant

/**
 * Finds the record.
 * @throws TidemarkError `usage` for an unknown kind, or when several records fit (they are listed); `reference_unknown`
 * when none does, with the nearest id or name
 */
export function lookUpRecord(mirror: Mirror, config: Config, question: RecordQuestion): FoundRecord {
  const kind = kindArgument(question.kind);
  const sources = sourcesToRead(config, mirror);
  const filter = {
    sources,
    ...(question.organization === undefined ? {} : { organizations: question.organization }),
    ...(question.project === undefined ? {} : { projects: question.project }),
  };
  const found = (row: RecordRow): FoundRecord => ({
    row,
    definition: definitionsFor(config, row.source)(kind),
  });
  const byId = mirror.findRecords(kind, question.id, filter);
  if (byId.length === 0 && isMaskedId(question.id))
    for (const id of idsMaskedAs(mirror, config, kind, question.id, filter))
      byId.push(...mirror.findRecords(kind, id, filter));
  if (byId.length > 1) throw ambiguous(byId.map(found), question.id, 'stands in');
  if (byId[0] !== undefined) return found(byId[0]);

  const search = searchByName(mirror, config, { kind, name: question.id }, filter);
  const rows = search.matches.flatMap((key) =>
    mirror
      .findRecords(kind, key.id, { ...filter, sources: [key.source], scope: key.scope })
      .map((row) => found(row)),
  );
  if (rows.length > 1) throw ambiguous(rows, question.id, 'is the name of');
  const [only] = rows;
  if (only === undefined) {
    const definition = definitionsFor(config, sources[0] ?? '')(kind);
    const near = hasNames(definition) ? nearest(mirror, config, definition, question.id, filter) : undefined;
    throw unknownRecord(definition, question.id, near, search.isCut);
  }
  const id = maskedId(only.row.id, only.definition);
  return {
    ...only,
    remark: `"${nameText(question.id)}" is ${only.definition.title.one} ${nameText(id)}`,
  };
}

type Key = Pick<RecordRow, 'source' | 'scope' | 'id'>;

/** True for kinds whose records people tell apart by name. Recordings bear that of whom they show: it tells of none. */
function hasNames({ nameFrom, naturalKey, idPath }: ResourceDefinition): boolean {
  return nameFrom.length > 0 && naturalKey.some((pointer) => pointer !== `/${idPath.join('/')}`);
}

/**
 * Records of exactly this name, of this name in other case where none has it exactly, removed ones only where no other
 * has it. `isCut`: there are more removed ones than were looked at.
 */
function searchByName(
  mirror: Mirror,
  config: Config,
  { kind, name }: { readonly kind: Kind; readonly name: string },
  filter: RecordFilter & { readonly sources: readonly string[] },
): { matches: readonly Key[]; isCut: boolean } {
  const named = filter.sources
    .map((source) => ({ source, definition: definitionsFor(config, source)(kind) }))
    .filter(({ definition }) => hasNames(definition));
  const current = namesakes(
    name,
    named.flatMap(({ source, definition }) => {
      const question = { kind, name, pointers: definition.nameFrom };
      return [...mirror.recordsNamed(question, { ...filter, sources: [source] })].map((record) => ({
        ...record,
        definition,
      }));
    }),
  );
  if (current.length > 0 || named.length === 0) return { matches: current, isCut: false };
  const definitions = new Map(named.map(({ source, definition }) => [source, definition]));
  const removed = mirror.removedBodies({ ...filter, sources: [...definitions.keys()], kinds: [kind] });
  let isCut = false;
  const matches = namesakes(
    name,
    (function* () {
      let read = 0;
      for (const record of removed) {
        isCut = read === REMOVED_READ;
        if (isCut) break;
        read += 1;
        const definition = definitions.get(record.source);
        if (definition !== undefined) yield { ...record, definition };
      }
    })(),
  );
  return { matches, isCut };
}

function namesakes(
  name: string,
  records: Iterable<MirrorRecord & { readonly definition: ResourceDefinition }>,
): readonly Key[] {
  const exact: Key[] = [];
  const loose: Key[] = [];
  for (const { source, scope, id, body, definition } of records) {
    const own = recordName(definition, parseLossless(body), id);
    if (own === name) exact.push({ source, scope, id });
    else if (own.toLowerCase() === name.toLowerCase()) loose.push({ source, scope, id });
  }
  return exact.length > 0 ? exact : loose;
}

/** The id or name among the first records that was probably meant. */
function nearest(
  mirror: Mirror,
  config: Config,
  definition: ResourceDefinition,
  text: string,
  filter: RecordFilter,
): string | undefined {
  const ids = new Set<string>();
  const names = new Set<string>();
  let read = 0;
  for (const { source, id, body } of mirror.readRecords({ ...filter, kinds: [definition.kind] })) {
    const name = recordName(definitionsFor(config, source)(definition.kind), parseLossless(body), id);
    // A secret id must not be told to whoever mistypes one.
    if (!isSecretId(definition)) ids.add(id);
    if (name !== id) names.add(name);
    read += 1;
    if (read === NEAR_READ) break;
  }
  return suggest(text, ids) ?? suggest(text, names);
}

function ambiguous(found: readonly FoundRecord[], text: string, verb: string): TidemarkError {
  const shown = found.slice(0, CANDIDATES_SHOWN).map(({ row, definition }) => {
    const id = maskedId(row.id, definition);
    const where = [`source ${row.source}`, scopeText(row.scope)].filter((part) => part !== '').join(', ');
    return `${row.kind} ${nameText(id)} (${nameText(where)}${row.isRemoved ? ', removed' : ''})`;
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
  const summary = `${nameText(text)} ${verb} ${found.length} ${verb === 'stands in' ? 'places' : 'records'}`;
  return new TidemarkError(
    'usage',
    [`${summary}:`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'),
    { hint: `name one with ${ways.join(', or ')}` },
  );
}

function unknownRecord(
  definition: ResourceDefinition,
  text: string,
  near: string | undefined,
  isCut: boolean,
): TidemarkError {
  const word = `"${nameText(text)}"`;
  const { kind, title } = definition;
  const what = hasNames(definition) ? 'with the id or name' : 'with the id';
  const remark = isCut
    ? `; of more than ${count(REMOVED_READ)} removed ones, only the first were looked through for the name`
    : '';
  return new TidemarkError(
    'reference_unknown',
    `the mirror knows no ${title.one} ${what} ${word}${near === undefined ? '' : `; did you mean "${nameText(near)}"?`}`,
    {
      hint: `\`tidemark export --kind ${kind}\` lists them; \`tidemark status\` says how fresh they are${remark}`,
    },
  );
}
