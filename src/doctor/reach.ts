/**
 * What a key can read of a source, by kind and organization, with a bounded number of requests: a page or two of each
 * collection in a few scopes.
 */
import type { ProbeClient } from '../api/read-client.ts';
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { parentsOf, SCOPE_KIND, scopeKeyNaming } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { TidemarkError } from '../core/errors.ts';
import { getOwn, isJsonObject, parseLossless } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import { Discovery } from '../sync/discovery.ts';
import type { MovedAddress } from '../sync/removals.ts';
import { serviceError } from '../sync/retrieve.ts';
import { parentLimits, wantedKinds } from '../sync/run-extent.ts';
import {
  type CollectionProbe,
  type ProbeContext,
  type ProbeState,
  notReached,
  probeCollection,
  probeObject,
} from './collection-probe.ts';
import { clockSkew, findPageCap, MOST_SCOPES, type KindReach, type SourceReach } from './source-reach.ts';

const ROWS = 2; // requested of a list without kinds below it

interface ReachOptions {
  readonly source: SourceConfig;
  readonly client: ProbeClient;
  readonly signal: AbortSignal;
  readonly monotonicMs: () => number;
  /** Organizations of an earlier run: what is below them is probed if the list itself is denied. */
  readonly knownOrganizations: readonly string[];
  /** The number of organizations in the mirror. */
  readonly heldOrganizations: number;
  /** Given if the mirror has them from another address than the configured one. */
  readonly moved: MovedAddress | null;
  /** Only these kinds and what leads to them; null for everything that the source includes. */
  readonly kinds: readonly Kind[] | null;
}

const FATAL: ReadonlySet<string> = new Set([
  'unauthorized',
  'unreachable',
  'timeout',
  'unresponsive',
  'redirected',
  'malformed',
  'throttled',
]);

/** Probes the source; failures of the service are in the result. @throws the abort reason when interrupted */
export async function reachSource(options: ReachOptions): Promise<SourceReach> {
  return await new Reach(options).run();
}

/** For a service that never sent a byte: it may not be an HTTP service at all. */
function withSilenceHint(fatal: TidemarkError | null): TidemarkError | null {
  if (fatal === null || (fatal.code !== 'timeout' && fatal.code !== 'unresponsive')) return fatal;
  return new TidemarkError(fatal.code, fatal.message, {
    hint: 'check the host, the port, http:// or https://, and any firewall or VPN on the way',
    isRetryable: fatal.isRetryable,
    cause: fatal,
  });
}

class Reach {
  readonly #options: ReachOptions;
  readonly #context: ProbeContext;
  readonly #wanted: readonly ResourceDefinition[];
  readonly #kinds: KindReach[] = [];
  /** By collection. */
  readonly #probes = new Map<string, CollectionProbe>();
  #fatal: TidemarkError | null = null;
  /** True if the entire list of organizations has none that an earlier run knew. */
  #isElsewhere = false;

  constructor(options: ReachOptions) {
    const { source, client, signal } = options;
    this.#options = options;
    this.#context = { client, signal, pageSize: source.pageSize };
    const wanted = wantedKinds(source, options.kinds);
    this.#wanted = source.definitions.filter(({ kind }) => wanted.has(kind));
  }

  async run(): Promise<SourceReach> {
    const { source, client, monotonicMs } = this.#options;
    const startedAt = monotonicMs();
    const { organizations, count } = await this.#organizations();
    if (this.#fatal === null) await this.#below(organizations);
    const pageCap = this.#fatal === null ? await findPageCap(this.#context, this.#kinds) : null;
    const reported =
      this.#fatal === null ? await keyPermissions(client, source.keyPath, this.#options.signal) : null;
    // Texts of the service may contain the key.
    const shown = (text: string): string => maskedMessage(text, [source.apiKey]);
    const permissions = reported?.map(shown) ?? null;
    const order = new Map(source.definitions.map(({ kind }, index) => [kind, index]));
    const { requests, bytes } = client.stats();
    return {
      source,
      organizations: organizations.map(({ id, text }) => {
        const name = text === null ? null : nameIn(text);
        return { id, name: name === null ? null : shown(name) };
      }),
      organizationCount: count,
      moved: this.#isElsewhere ? this.#options.moved : null,
      kinds: this.#kinds.toSorted((a, b) => (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0)),
      fatal: bytes === 0 ? withSilenceHint(this.#fatal) : this.#fatal,
      skew: clockSkew(client.clockSamples()),
      pageCap,
      permissions,
      requests,
      bytes,
      tookMs: monotonicMs() - startedAt,
    };
  }

  /** The organizations below which to probe: those that the configuration names, or the first ones of the list. */
  async #organizations(): Promise<{
    organizations: { id: string; text: string | null }[];
    count: number | null;
  }> {
    const { source, knownOrganizations } = this.#options;
    const root = source.definitions.find(({ discovery }) => discovery.from === 'root');
    if (root === undefined) return { organizations: [], count: 0 };
    const isWanted = this.#wanted.includes(root);
    const { organizations: named } = parentLimits(source);
    if (named !== 'all') {
      const ids = named.slice(0, MOST_SCOPES);
      const texts = new Map<string, string | null>();
      const probes: CollectionProbe[] = [];
      for (const id of isWanted ? ids : []) {
        const probe = await probeObject(this.#context, root, {}, id);
        texts.set(id, null);
        probes.push(probe.state === 'empty' ? { ...probe, state: 'not_offered' } : probe);
        this.#noteFatal(probe);
      }
      if (isWanted) this.#add(null, root, probes, named.length);
      return { organizations: ids.map((id) => ({ id, text: texts.get(id) ?? null })), count: named.length };
    }
    const found = await probeCollection(this.#context, root, {}, MOST_SCOPES);
    const probe = this.#compared(found, root);
    if (isWanted) this.#add(null, root, [probe], 1);
    this.#noteFatal(probe);
    const isWhole = found.error === null && (probe.records ?? Infinity) <= probe.seen.length;
    const isKnown = probe.seen.some(({ id }) => knownOrganizations.includes(id));
    this.#isElsewhere = isWhole && knownOrganizations.length > 0 && !isKnown;
    const seen = probe.seen.slice(0, MOST_SCOPES);
    const known = seen.length > 0 ? [] : knownOrganizations.slice(0, MOST_SCOPES);
    return {
      organizations: [...seen, ...known.map((id) => ({ id, text: null }))],
      count: seen.length > 0 ? probe.records : null,
    };
  }

  /** If the list of organizations is empty but the mirror has some, they are gone or no longer shown to this key. */
  #compared(probe: CollectionProbe, { title }: ResourceDefinition): CollectionProbe {
    const { heldOrganizations } = this.#options;
    if (probe.state !== 'empty' || heldOrganizations === 0) return probe;
    const held = plural(heldOrganizations, title.one, title.many);
    const error = new TidemarkError('walk_unproven', `the list is empty; the mirror holds ${held}`, {
      hint: 'check that the key belongs to a user who still sees them',
    });
    return { ...probe, state: 'failing', error };
  }

  /** Probes level by level a few collections of each kind in each organization, below the parents that were seen. */
  async #below(organizations: readonly { id: string; text: string | null }[]): Promise<void> {
    const { projects } = parentLimits(this.#options.source);
    const discovery = new Discovery({ organizations: 'all', projects, areProjectsTrusted: false });
    for (const { id, text } of organizations)
      discovery.found(SCOPE_KIND.organization_id, {}, id, text ?? '{}');
    const levels = Map.groupBy(this.#wanted, (definition) => parentsOf(definition).length);
    levels.delete(0);
    for (const [, level] of [...levels].toSorted(([a], [b]) => a - b)) {
      const asked = level.flatMap((definition) => this.#chosen(definition, discovery, organizations));
      const single = asked.flatMap((row) => row.scopes.map((scope) => ({ row, scope })));
      await this.#each(single, async ({ row: { definition, probes }, scope }) => {
        const probe = await this.#probe(definition, scope);
        probes.push(probe);
        this.#probes.set(collectionKey({ kind: definition.kind, scope }), probe);
        for (const { id, text } of probe.seen) discovery.found(definition.kind, scope, id, text);
      });
      for (const { organization, definition, probes, collections, parent } of asked) {
        if (probes.length === 0) probes.push(unprobed(organization, parent));
        this.#add(organization, definition, probes, collections);
      }
    }
  }

  /** The collections of a kind to probe in each organization, within the rest of the budget. */
  #chosen(
    definition: ResourceDefinition,
    discovery: Discovery,
    organizations: readonly { id: string }[],
  ): ChosenScopes[] {
    const { from } = definition.discovery;
    const all = Map.groupBy(discovery.scopesOf(definition), ({ path }) => path.organization_id);
    const isNarrowed = definition.scope.includes('project_id') && this.#options.source.projects !== 'all';
    let left = MOST_SCOPES;
    return organizations.map(({ id }, index) => {
      const known = (all.get(id) ?? []).map(({ scope }) => scope);
      // The rest of the budget is divided among the remaining organizations.
      const within = known.slice(0, Math.ceil(left / (organizations.length - index)));
      left -= within.length;
      const isObject = definition.reading === 'each';
      const scopes = isObject
        ? within.filter((scope) => this.#firstIn(definition, scope) !== undefined)
        : within;
      // The parents of an object are the records of a list, whose own parents are the scopes.
      const parent = isObject && from !== 'root' ? definitionOf(from).discovery.from : from;
      const lists = this.#kinds.find(({ kind, organization }) => kind === parent && organization === id);
      const listed = isNarrowed ? 0 : (lists?.probes[0]?.records ?? 0);
      const parents = this.#kinds.find(({ kind, organization }) => kind === from && organization === id);
      return {
        ...{ organization: id, definition, scopes, probes: [] },
        // Without those below a list without records: they do not exist.
        collections: Math.max(known.length, listed) - (within.length - scopes.length),
        parent: parents?.probes.find(({ seen }) => seen.length > 0) ?? parents?.probes[0],
      };
    });
  }

  async #probe(definition: ResourceDefinition, scope: Scope): Promise<CollectionProbe> {
    if (definition.reading === 'each')
      return await probeObject(this.#context, definition, scope, this.#firstIn(definition, scope) ?? '');
    const rows = scopeKeyNaming(definition.kind) === undefined ? ROWS : MOST_SCOPES;
    return await probeCollection(this.#context, definition, scope, rows);
  }

  /** The first record of the list of parents, for a kind with an object for each parent. */
  #firstIn({ discovery: { from } }: ResourceDefinition, scope: Scope): string | undefined {
    const list = from === 'root' ? undefined : this.#probes.get(collectionKey({ kind: from, scope }));
    return list?.seen[0]?.id;
  }

  async #each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
    const { source, signal } = this.#options;
    await eachConcurrently(items, Math.max(1, source.rate.concurrency), work);
    signal.throwIfAborted();
  }

  #add(
    organization: string | null,
    definition: ResourceDefinition,
    probes: readonly CollectionProbe[],
    collections: number,
  ): void {
    if (!this.#wanted.includes(definition)) return;
    const { kind } = definition;
    this.#kinds.push({ organization, kind, definition, state: worst(probes), probes, collections });
  }

  #noteFatal({ error }: CollectionProbe): void {
    if (error !== null && FATAL.has(error.code)) this.#fatal ??= error;
  }
}

interface ChosenScopes {
  readonly organization: string;
  readonly definition: ResourceDefinition;
  readonly scopes: readonly Scope[];
  readonly probes: CollectionProbe[];
  /** Known collections. */
  readonly collections: number;
  /** The probe of the list of parents. */
  readonly parent: CollectionProbe | undefined;
}

/** The result for a kind without a collection to probe: empty if the list of parents is empty. */
function unprobed(organization: string, parent: CollectionProbe | undefined): CollectionProbe {
  const probe = notReached({ organization_id: organization });
  return parent?.state === 'empty' ? { ...probe, state: 'empty', records: 0 } : probe;
}

const WORST_FIRST: readonly ProbeState[] = [
  'failing',
  'denied',
  'not_offered',
  'readable',
  'empty',
  'not_reached',
];

function worst(probes: readonly CollectionProbe[]): ProbeState {
  return WORST_FIRST.find((state) => probes.some((probe) => probe.state === state)) ?? 'not_reached';
}

function nameIn(text: string): string | null {
  const body = parseLossless(text);
  const name = isJsonObject(body) ? getOwn(body, 'name') : undefined;
  return typeof name === 'string' ? name : null;
}

/**
 * The permissions of the key as the service names them, `*` for all; null if the deployment does not report them
 * (wire-notes.md, Errors). At most one request.
 */
export async function keyPermissions(
  client: Pick<ProbeClient, 'text'>,
  keyPath: string | undefined,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  if (keyPath === undefined) return null;
  try {
    const text = await client.text(`/${keyPath.replace(/^\/+/, '')}`, signal);
    return text === null ? null : permissionsIn(JSON.parse(text));
  } catch (error) {
    serviceError(error, signal);
    // Optional: a failure or a malformed response does not matter.
    return null;
  }
}

function permissionsIn(body: unknown): readonly string[] | null {
  if (typeof body !== 'object' || body === null || !('scopes' in body)) return null;
  const { scopes } = body;
  return Array.isArray(scopes) && scopes.every((each) => typeof each === 'string') ? scopes : null;
}
