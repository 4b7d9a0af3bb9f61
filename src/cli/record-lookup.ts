/** The one record that a command's KIND and ID mean: by id, else by its name; removed records are found too. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { SCOPE_KEYS } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { recordName } from '../diff/name.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RecordRow } from '../mirror/records.ts';
import { isSecretId, shownId } from '../report/mask.ts';
import { nameText } from '../report/sections.ts';
import { kindName } from './command-row.ts';
import { sourcesToRead } from './mirrored-sources.ts';
import { definitionsFor } from './source-definitions.ts';
import { scopeText } from './wording.ts';

/** What the user asks for. */
export interface RecordQuestion {
  readonly kind: string;
  /** Remote id, or the record's whole name. */
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
const NAMES_READ = 100_000; // records whose names are looked through before an id counts as unknown

/**
 * Finds the record.
 * @throws TidemarkError `usage` for an unknown kind, or when several records fit (they are listed); `reference_unknown`
 * when none does, with the nearest id or name
 */
export function lookUpRecord(mirror: Mirror, config: Config, question: RecordQuestion): FoundRecord {
  const kind = knownKind(question.kind);
  const sources = sourcesToRead(config, mirror);
  const filter: RecordFilter = {
    sources,
    ...(question.organization === undefined ? {} : { organizations: question.organization }),
    ...(question.project === undefined ? {} : { projects: question.project }),
  };
  const found = (row: RecordRow): FoundRecord => ({
    row,
    definition: definitionsFor(config, row.source)(kind),
  });
  const byId = mirror.findRecords(kind, question.id, filter);
  if (byId.length > 1) throw ambiguous(byId.map(found), question.id, 'stands in');
  if (byId[0] !== undefined) return found(byId[0]);

  const { matches, names, ids } = namesakes(mirror, config, kind, question.id, filter);
  const rows = matches.flatMap((key) =>
    mirror
      .findRecords(kind, key.id, { ...filter, sources: [key.source], scope: key.scope })
      .map((row) => found(row)),
  );
  if (rows.length > 1) throw ambiguous(rows, question.id, 'is the name of');
  const [only] = rows;
  if (only === undefined)
    throw unknownRecord(definitionsFor(config, sources[0] ?? '')(kind), question.id, ids, names);
  const id = shownId(only.row, only.definition);
  return {
    ...only,
    remark: `"${nameText(question.id)}" is ${only.definition.title.one} ${nameText(id)}`,
  };
}

/** @throws TidemarkError `usage` with the nearest kind */
function knownKind(text: string): Kind {
  try {
    return kindName(text) as Kind;
  } catch (error) {
    throw new TidemarkError('usage', `there is no kind ${JSON.stringify(text)}`, {
      hint: error instanceof Error ? error.message : '`tidemark catalog` lists them',
    });
  }
}

type Key = Pick<RecordRow, 'source' | 'scope' | 'id'>;

/** Records of exactly this name, of this name in other case where none has it exactly, removed ones only then. */
function namesakes(
  mirror: Mirror,
  config: Config,
  kind: Kind,
  name: string,
  filter: RecordFilter,
): { matches: readonly Key[]; names: ReadonlySet<string>; ids: ReadonlySet<string> } {
  const names = new Set<string>();
  const ids = new Set<string>();
  const exact: Key[] = [];
  const loose: Key[] = [];
  const look = (key: Key, body: string): void => {
    const own = recordName(definitionsFor(config, key.source)(kind), parseLossless(body), key.id);
    ids.add(key.id);
    names.add(own);
    if (own === name) exact.push(key);
    else if (own.toLowerCase() === name.toLowerCase()) loose.push(key);
  };
  for (const record of mirror.readRecords({ ...filter, kinds: [kind] })) {
    look(record, record.body);
    if (ids.size >= NAMES_READ) break;
  }
  if (exact.length + loose.length > 0) return { matches: exact.length > 0 ? exact : loose, names, ids };
  for (const removed of mirror.removedRecords({ ...filter, kinds: [kind] })) {
    if (ids.size >= NAMES_READ) break;
    const [row] = mirror.findRecords(kind, removed.id, {
      sources: [removed.source],
      scope: removed.scope,
    });
    const last =
      row === undefined ? undefined : mirror.revisionsOf(row).find((revision) => revision.body !== null);
    if (typeof last?.body === 'string') look(removed, last.body);
  }
  return { matches: exact.length > 0 ? exact : loose, names, ids };
}

function ambiguous(found: readonly FoundRecord[], text: string, verb: string): TidemarkError {
  const shown = found.slice(0, CANDIDATES_SHOWN).map(({ row, definition }) => {
    const id = shownId(row, definition);
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
  ids: ReadonlySet<string>,
  names: ReadonlySet<string>,
): TidemarkError {
  // A secret id must not be told to whoever mistypes one.
  const near = isSecretId(definition)
    ? suggest(
        text,
        [...names].filter((name) => !ids.has(name)),
      )
    : (suggest(text, ids) ?? suggest(text, names));
  const word = `"${nameText(text)}"`;
  return new TidemarkError(
    'reference_unknown',
    `the mirror knows no ${definition.title.one} with the id or name ${word}${near === undefined ? '' : `; did you mean "${nameText(near)}"?`}`,
    {
      hint: `\`tidemark export --kind ${definition.kind}\` lists them; \`tidemark status\` says how fresh they are`,
    },
  );
}
