/** The files that are committed for a state: the YAML tree of `export --output`, without secrets and volatile fields. */
import { createHash } from 'node:crypto';
import { definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { kindsAbove } from '../catalog/lineage.ts';
import type { Embedding, ResourceDefinition } from '../catalog/resource-definition.ts';
import { changesInside, volatileFields } from '../catalog/volatile-names.ts';
import type { GitConfig } from '../config/git.ts';
import type { SourceConfig } from '../config/config.ts';
import { withoutUrlSecrets } from '../catalog/masks.ts';
import { shownId } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  parseLossless,
  setOwn,
} from '../core/json.ts';
import { parseLosslessYaml, YamlMistake } from '../core/yaml.ts';
import { type Secret, type SecretSearch, searchFor } from '../core/secret.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { yamlDocument } from '../report/export/documents.ts';
import { recordPath, recordPathOfYaml } from '../report/export/file-name.ts';
import { extentCollections } from '../state/export-extent.ts';
import { type ResolvedState, resolvedStateOf } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { fingerprintsName, type Redaction, redactionWith } from '../sync/redaction.ts';

export const MANIFEST_NAME = '.tidemark-export.json';

interface TreeFile {
  /** Relative to the top of the tree. */
  readonly path: string;
  readonly text: string;
  readonly kind: Kind;
  readonly name: string;
}

/** One source's records as of its latest published run, as files. The same state gives the same bytes. */
export class RecordTree {
  readonly resolvedState: ResolvedState;
  readonly kinds: readonly Kind[];
  readonly #mirror: Mirror;
  readonly #source: SourceConfig;
  readonly #redaction: Redaction;
  readonly #key: Uint8Array;
  readonly #search: SecretSearch | null;

  /**
   * @param secrets must not be in any file
   * @throws TidemarkError `not_found` if no run was published yet
   */
  constructor(mirror: Mirror, source: SourceConfig, git: GitConfig, secrets: readonly Secret[]) {
    this.resolvedState = resolvedStateOf(mirror, LATEST, { source: source.name });
    this.kinds = git.kinds;
    this.#mirror = mirror;
    this.#source = source;
    this.#key = mirror.acceptances.fingerprintKey();
    this.#redaction = redactionWith(this.#key);
    this.#search = searchFor(secrets);
  }

  /** The files, ordered by catalog, scope and id. @throws TidemarkError `git` for a record that contains a configured secret */
  *files(): Generator<TreeFile> {
    const { name: source, definitions } = this.#source;
    const byKind = new Map(definitions.map((definition) => [definition.kind, definition]));
    const filter = { sources: [source], kinds: this.kinds };
    for (const record of this.#mirror.records.readAt(this.resolvedState.run, filter, { isChecked: true })) {
      const definition = byKind.get(record.kind) ?? definitionOf(record.kind);
      const value = withoutVolatile(definition, parseLossless(this.#redaction.text(definition, record.body)));
      const body = JSON.stringify(value);
      if (this.#holdsSecret([...Object.values(record.scope), record.id, value]))
        throw new TidemarkError(
          'git',
          `${record.kind} ${shownId(definition, record.id)} holds a secret of the configuration: nothing is committed`,
          {
            hint: `leave the kind out with git.exclude, or name the field as secret under definitions.${record.kind}`,
          },
        );
      const key = { ...record, source: null };
      yield {
        path: `${recordPath(key).join('/')}.yaml`,
        text: yamlDocument({ ...key, body }),
        kind: record.kind,
        name: nameIn(definition, value) ?? record.id,
      };
    }
  }

  #holdsSecret(record: JsonValue): boolean {
    if (this.#search === null) return false;
    const text = JSON.stringify(record);
    return this.#search.isIn(text) || (text.includes('\\') && isWithin(record, this.#search));
  }

  /** The manifest, like that of `export --output`: which kinds the tree has, and which collections are complete. */
  manifest(kinds: ReadonlySet<Kind>): string {
    const { name: source } = this.#source;
    const above = kindsAbove(this.kinds);
    const { whole, stale } = extentCollections(this.#mirror, source, this.resolvedState, {
      isAsked: ({ kind }) => this.kinds.includes(kind),
      leads: ({ kind }) => above.includes(kind),
    });
    const document = {
      schema: 'tidemark.export_manifest/1',
      format: 'yaml',
      source,
      fingerprints: fingerprintsName(this.#key),
      paths: [...kinds].map((kind) => `${kind}/`).sort(),
      filter: { kinds: this.kinds },
      whole,
      ...(stale.length === 0 ? {} : { stale }),
    };
    return `${JSON.stringify(document, null, 2)}\n`;
  }
}

/** True if a text or the name of a member contains a secret, compared without JSON escapes. */
function isWithin(value: JsonValue, search: SecretSearch): boolean {
  if (typeof value === 'string') return search.isIn(value);
  if (Array.isArray(value)) return value.some((element) => isWithin(element, search));
  if (!isJsonObject(value)) return false;
  return Object.entries(value).some(([name, member]) => search.isIn(name) || isWithin(member, search));
}

function withoutVolatile(definition: ResourceDefinition, body: JsonValue): JsonValue {
  if (!isJsonObject(body)) return body;
  const volatile = volatileFields(definition);
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(body)) {
    if (!volatile.has(name)) setOwn(kept, name, steady(member, definition.embedding.inside.get(name)));
  }
  return kept;
}

/** The value without the volatile members of embedded records and users. */
function steady(value: JsonValue, embedding: Embedding | undefined): JsonValue {
  if (embedding === undefined) return value;
  if (Array.isArray(value)) return value.map((element) => steady(element, embedding.inside.get('*')));
  if (!isJsonObject(value)) return value;
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    if (embedding.holds !== 'nothing' && changesInside(name)) continue;
    setOwn(kept, name, steady(member, embedding.inside.get(name)));
  }
  return kept;
}

function nameIn(definition: ResourceDefinition, body: JsonValue): string | null {
  for (const pointer of definition.nameFrom) {
    const name = resolvePointer(body, pointer);
    if (typeof name === 'string' && name !== '') return withoutUrlSecrets(name, '[secret]');
  }
  return null;
}

/** The hash that git gives a blob with this text. */
export function blobName(text: string, format: 'sha1' | 'sha256'): string {
  const bytes = Buffer.from(text, 'utf8');
  return createHash(format).update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}

/** The kind and name of the record in a committed file; null if Tidemark did not write the file. */
export function committedRecord(
  path: string,
  text: string,
  source: SourceConfig,
): { readonly kind: Kind; readonly name: string } | null {
  if (recordPathOfYaml(text) !== path) return null;
  try {
    const [document] = parseLosslessYaml(text);
    const value = document?.value ?? null;
    if (!isJsonObject(value)) return null;
    const [kind, id] = [getOwn(value, 'kind'), getOwn(value, 'id')];
    const definition = source.definitions.find((each) => each.kind === kind);
    if (definition === undefined || typeof id !== 'string') return null;
    return { kind: definition.kind, name: nameIn(definition, getOwn(value, 'body') ?? null) ?? id };
  } catch (error) {
    if (error instanceof YamlMistake) return null;
    throw error;
  }
}

/**
 * Checks that the tree with this manifest belongs to the source.
 * @throws TidemarkError `git` for the tree of another source, and for one of `tidemark export`, which leaves secrets in clear
 */
export function requireOwnManifest(text: string, source: string, where: string): void {
  const manifest = parsedObject(text);
  const owner = manifest?.['source'];
  if (typeof manifest?.['fingerprints'] !== 'string' || typeof owner !== 'string')
    throw new TidemarkError(
      'git',
      `${where} was written by \`tidemark export\`, which does not replace secrets: nothing is committed over it`,
      {
        hint: 'set git.path to another place; a secret that was committed has to be replaced at the service',
      },
    );
  if (owner !== source)
    throw new TidemarkError('git', `${where} belongs to the source ${JSON.stringify(owner.slice(0, 60))}`, {
      hint: 'set git.path to a place of its own for each source',
    });
}

function parsedObject(text: string): JsonObject | null {
  try {
    const value = parseLossless(text);
    return isJsonObject(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
