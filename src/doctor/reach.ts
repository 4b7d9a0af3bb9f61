/**
 * What a key reaches of a source, kind by kind and organization by organization, within a bounded number of requests: a
 * page or two of each collection in a few scopes.
 */
import type { ProbeClient } from '../api/read-client.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { teamIds } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { TidemarkError } from '../core/errors.ts';
import { getOwn, isJsonObject, parseLossless } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import { serviceError } from '../sync/retrieve.ts';
import { parentLimits, wantedKinds } from '../sync/run-extent.ts';
import { clockSkew, findPageCap, MOST_SCOPES, type KindReach, type SourceReach } from './source-reach.ts';
import {
  type CollectionProbe,
  type ProbeContext,
  type ProbeState,
  notReached,
  probeCollection,
  probeObject,
} from './collection-probe.ts';

/** Records asked for of a list that nothing hangs below. */
const ROWS = 2;

interface ReachOptions {
  readonly source: SourceConfig;
  readonly client: ProbeClient;
  readonly signal: AbortSignal;
  readonly monotonicMs: () => number;
  /** Organizations that an earlier run knew: looked below where the list itself is denied. */
  readonly knownOrganizations: readonly string[];
  /** Organizations that the mirror holds now. */
  readonly heldOrganizations: number;
  /** Only these kinds and what leads to them; null for all that the source includes. */
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

/** Looks; failures of the service are in the result. @throws the abort reason when interrupted */
export async function reachSource(options: ReachOptions): Promise<SourceReach> {
  return await new Reach(options).run();
}

class Reach {
  readonly #options: ReachOptions;
  readonly #context: ProbeContext;
  readonly #wanted: readonly ResourceDefinition[];
  readonly #kinds: KindReach[] = [];
  #fatal: TidemarkError | null = null;

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
    const permissions =
      this.#fatal === null ? await keyPermissions(client, source.keyPath, this.#options.signal) : null;
    const order = new Map(source.definitions.map(({ kind }, index) => [kind, index]));
    const { requests, bytes } = client.stats();
    return {
      source,
      organizations: organizations.map(({ id, text }) => ({ id, name: text === null ? null : nameIn(text) })),
      organizationCount: count,
      kinds: this.#kinds.toSorted((a, b) => (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0)),
      fatal: this.#fatal,
      skew: clockSkew(client.clockSamples()),
      pageCap,
      permissions,
      requests,
      bytes,
      tookMs: monotonicMs() - startedAt,
    };
  }

  /** The organizations to look below: those that the configuration names, else the first of the list. */
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
    const probe = this.#compared(await probeCollection(this.#context, root, {}, MOST_SCOPES), root);
    if (isWanted) this.#add(null, root, [probe], 1);
    this.#noteFatal(probe);
    const seen = probe.seen.slice(0, MOST_SCOPES);
    const known = seen.length > 0 ? [] : knownOrganizations.slice(0, MOST_SCOPES);
    return {
      organizations: [...seen, ...known.map((id) => ({ id, text: null }))],
      count: seen.length > 0 ? probe.records : null,
    };
  }

  /** An empty list of organizations beside a mirror that holds some: gone, or no longer shown to this key. */
  #compared(probe: CollectionProbe, { title }: ResourceDefinition): CollectionProbe {
    const { heldOrganizations } = this.#options;
    if (probe.state !== 'empty' || heldOrganizations === 0) return probe;
    const held = plural(heldOrganizations, title.one, title.many);
    const error = new TidemarkError('walk_unproven', `the list is empty; the mirror holds ${held}`, {
      hint: 'check that the key belongs to a user who still sees them',
    });
    return { ...probe, state: 'failing', error };
  }

  async #below(organizations: readonly { id: string; text: string | null }[]): Promise<void> {
    const inOrganization = this.#wanted.filter(({ discovery }) => discovery.from === 'organizations');
    const found = new Map<string, CollectionProbe>();
    const work = organizations.flatMap(({ id }) =>
      inOrganization.map((definition) => ({ id, definition, scope: { organization_id: id } })),
    );
    await this.#each(work, async ({ id, definition, scope }) => {
      const isParent = definition.kind === 'projects' || definition.kind === 'roles';
      const probe = await probeCollection(this.#context, definition, scope, isParent ? MOST_SCOPES : ROWS);
      found.set(`${definition.kind} ${id}`, probe);
      this.#add(id, definition, [probe], 1);
    });
    await this.#belowRoles(organizations, found);
    await this.#belowProjects(organizations, found);
  }

  async #belowRoles(
    organizations: readonly { id: string }[],
    found: ReadonlyMap<string, CollectionProbe>,
  ): Promise<void> {
    const definitions = this.#wanted.filter(({ discovery }) => discovery.from === 'roles');
    let left = MOST_SCOPES;
    for (const [index, { id }] of organizations.entries()) {
      const roles = found.get(`roles ${id}`);
      const scopes = (roles?.seen ?? [])
        .slice(0, fairShare(left, organizations.length - index))
        .map((role) => ({
          organization_id: id,
          role_id: role.id,
        }));
      left -= scopes.length;
      for (const definition of definitions) {
        await this.#kindIn(id, definition, scopes, roles, (scope) =>
          probeCollection(this.#context, definition, scope, ROWS),
        );
      }
    }
  }

  async #belowProjects(
    organizations: readonly { id: string; text: string | null }[],
    found: ReadonlyMap<string, CollectionProbe>,
  ): Promise<void> {
    const { projects: named } = parentLimits(this.#options.source);
    const feeds = this.#wanted.filter(({ discovery }) => discovery.from === 'projects');
    const objects = this.#wanted.filter(({ discovery }) => discovery.from === 'session_recordings');
    if (feeds.length + objects.length === 0) return;
    let left = MOST_SCOPES;
    for (const [index, { id, text }] of organizations.entries()) {
      const listed = found.get(`projects ${id}`);
      const known = new Set([
        ...(listed?.seen ?? []).map((project) => project.id),
        ...(text === null ? [] : teamIds(text)),
      ]);
      const allowed = [...known].filter((project) => named === 'all' || named.includes(project));
      const scopes = allowed
        .slice(0, fairShare(left, organizations.length - index))
        .map((project) => ({ project_id: project }));
      left -= scopes.length;
      const heads = new Map<string, CollectionProbe>();
      const total = Math.max(allowed.length, named === 'all' ? (listed?.records ?? 0) : 0);
      for (const feed of feeds) {
        const probeFeed = async (scope: Scope): Promise<CollectionProbe> => {
          const probe = await probeCollection(this.#context, feed, scope, ROWS);
          if (feed.kind === 'session_recordings') heads.set(scope.project_id ?? '', probe);
          return probe;
        };
        await this.#kindIn(id, feed, scopes, listed, probeFeed, total);
      }
      for (const definition of objects) {
        const first = scopes.filter(({ project_id }) => heads.get(project_id)?.seen[0] !== undefined);
        await this.#kindIn(
          id,
          definition,
          first,
          [...heads.values()].find(({ seen }) => seen.length > 0) ?? [...heads.values()][0] ?? listed,
          (scope) => {
            const recording = heads.get(scope.project_id ?? '')?.seen[0]?.id ?? '';
            return probeObject(this.#context, definition, scope, recording);
          },
          // A project without recordings has nothing to share.
          total - (scopes.length - first.length),
        );
      }
    }
  }

  /** One kind of one organization over its scopes; without any, what its parent said decides. */
  async #kindIn(
    organization: string,
    definition: ResourceDefinition,
    scopes: readonly Scope[],
    parent: CollectionProbe | undefined,
    probe: (scope: Scope) => Promise<CollectionProbe>,
    collections = parent?.records ?? scopes.length,
  ): Promise<void> {
    const probes: CollectionProbe[] = [];
    await this.#each(scopes, async (scope) => {
      probes.push(await probe(scope));
    });
    if (probes.length === 0) {
      const scope = { organization_id: organization };
      const isNothingBelow = parent?.state === 'empty';
      probes.push(isNothingBelow ? { ...notReached(scope), state: 'empty', records: 0 } : notReached(scope));
    }
    this.#add(organization, definition, probes, Math.max(collections, scopes.length));
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

/** What is left of the budget, divided among the remaining ones: none gets nothing while there is enough. */
function fairShare(left: number, still: number): number {
  return Math.ceil(left / Math.max(1, still));
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

// The key's permissions, if the deployment reports them (wire-notes.md, Errors).

/** The permissions as the service names them, `*` for all; null if it does not report them. */
async function keyPermissions(
  client: ProbeClient,
  keyPath: string | undefined,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  if (keyPath === undefined) return null;
  try {
    const text = await client.text(`/${keyPath.replace(/^\/+/, '')}`, signal);
    return text === null ? null : permissionsIn(JSON.parse(text));
  } catch (error) {
    serviceError(error, signal);
    // Only a courtesy of some deployments: what it says badly, or not at all, stops nothing.
    return null;
  }
}

function permissionsIn(body: unknown): readonly string[] | null {
  if (typeof body !== 'object' || body === null || !('scopes' in body)) return null;
  const { scopes } = body;
  return Array.isArray(scopes) && scopes.every((each) => typeof each === 'string') ? scopes : null;
}
