/** Serves the mirror over the paths of the API, read-only (docs/replica.md), for `serve` and for the daemon. */
import type { Scope, ScopeKey, Operation } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { NOT_MIRRORED } from '../../catalog/not-mirrored.ts';
import { isLoopback } from '../../core/local-url.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordPage } from '../../mirror/record-page.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { SeenCollection } from '../../mirror/sweeps-as-of.ts';
import { hiddenNewest } from '../../state/intact.ts';
import { type ResolvedState, resolveState } from '../../state/resolved-state.ts';
import { STORED_STATE_FORMS } from '../../state/reference.ts';
import { type AccessKey, type Authenticate, createAuthenticator } from '../authorization.ts';
import { type Interface, type StoreView, createInterface } from '../interface.ts';
import type { PageSize } from '../page.ts';
import type { PageWindow, ReadableStore, StorePage } from '../store.ts';
import { permissionDenied, invalid, notFound, type WireError, notHeld } from '../wire-error.ts';
import { HeldMirror, readState, type ReplicaState, type HeldCollection } from './replica-state.ts';

/** wire-notes.md, Lists: 100 by default. With a maximum, so that pages in flight do not take too much memory. */
export const REPLICA_PAGE_SIZE: PageSize = { default: 100, max: 10_000 };

export interface ReplicaOptions {
  /** The configured path of the mirror: if the file there is replaced, it is opened again. */
  readonly mirrorPath: string;
  /** Opens it for reading. */
  readonly openMirror: () => Mirror;
  /** The source whose records are served. */
  readonly source: string;
  /** The definitions of that source. */
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  /** The current tokens, each of which is accepted; without any, only requests addressed to this machine are answered. */
  readonly tokens: () => readonly Secret[];
  /** Path before `/api/`, without a trailing slash; empty at the root. */
  readonly pathPrefix: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Replica {
  /** Answers one request; never rejects. */
  readonly answer: Interface;
  /** Closes the mirror; a later request opens it again. */
  close(): void;
}

/** A replica; the mirror is opened by the first request. */
export function createReplica(options: ReplicaOptions): Replica {
  const { clock, log, source, definitionOf } = options;
  const held = new HeldMirror(options, () => new StateMemory());
  const answer = createInterface({
    mount: options.pathPrefix,
    authenticate: createCallers(options.tokens),
    read: (query, work) =>
      held.use((mirror, memory) => {
        const resolvedState = requestedState(mirror, query, source, clock.now());
        const name = nameOf(resolvedState);
        const state = memory.take(name, () => readState(mirror, source, resolvedState, definitionOf));
        const isSameState = (): boolean =>
          nameOf(requestedState(mirror, query, source, clock.now())) === name;
        const later = (work: () => void): void =>
          held.again(mirror, () => {
            if (isSameState()) work();
          });
        const view: StoreView = {
          store: new MirrorStore(mirror, state, definitionOf, later),
          headers: stateHeaders(resolvedState, clock.now()),
        };
        return work(view);
      }),
    readingAction: refuseReadingAction,
    writer: null,
    pageSize: REPLICA_PAGE_SIZE,
    throttle: null,
    log,
  });
  return { answer, close: () => held.close() };
}

/** Identifies the contents of a state, and how it is read: past runs are read in another way. */
function nameOf({ run, root, isLatest }: SealedState): string {
  return `${isLatest ? 'latest' : 'past'} ${run} ${root}`;
}

function stateHeaders({ run, at }: ResolvedState, now: number): Record<string, string> {
  return {
    'X-Tidemark-Run': String(run),
    'X-Tidemark-As-Of': at,
    'X-Tidemark-Age': String(Math.max(0, Math.floor((now - Date.parse(at)) / 1000))),
  };
}

/** How many states are kept: for a dashboard on the latest state, and a few walks through earlier ones. */
const STATES = 4;

/** The states that were requested last. */
class StateMemory {
  /** Least recently used first. */
  readonly #states = new Map<string, ReplicaState>();

  /** @param key as `nameOf` */
  take(key: string, read: () => ReplicaState): ReplicaState {
    const state = this.#states.get(key) ?? read();
    this.#states.delete(key);
    this.#states.set(key, state);
    const [oldest] = this.#states.keys();
    if (this.#states.size > STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}

const ANYBODY_HERE: AccessKey = { key: '', permissions: 'all' };

/**
 * If there are tokens, requests need one as `Authorization: Bearer TOKEN`. Without tokens, only requests to `localhost`
 * or a loopback address are accepted, so that a web page whose host name resolves to this machine cannot read anything.
 */
function createCallers(tokens: ReplicaOptions['tokens']): Authenticate {
  return (credentials) => callersWith(tokens())(credentials);
}

function callersWith(tokens: readonly Secret[]): Authenticate {
  if (tokens.length > 0) {
    return createAuthenticator(tokens.map((token) => ({ key: token.reveal(), permissions: 'all' })));
  }
  return ({ host }) => {
    if (host === undefined || isLoopback(host.replace(/:\d+$/, ''))) return ANYBODY_HERE;
    throw permissionDenied(
      'This replica has no tokens: it only answers requests addressed to 127.0.0.1 or localhost.',
    );
  };
}

/** The parameter that names the state. */
const AS_OF = 'as_of';
/** Misspelt forms. The service ignores unknown parameters; here that would answer with the wrong state. */
const MEANT_AS_OF = /^(?:as[-_ .]?of|at)$/i;

const LATEST = 'latest';
const FORMS = `It takes ${STORED_STATE_FORMS}.`;

/** A state, with the root hash that covers all history up to its run. */
interface SealedState extends ResolvedState {
  readonly root: string;
}

/**
 * The state that the query names; without `as_of`, the latest.
 * @param now milliseconds since the epoch
 * @throws WireError 400 for a state that the mirror does not have, or a snapshot that another program altered;
 * TidemarkError `not_found` if nothing of the source was ever published
 */
function requestedState(mirror: Mirror, query: URLSearchParams, source: string, now: number): SealedState {
  const [text = LATEST, ...more] = query.getAll(AS_OF);
  if (more.length > 0) throw invalid(AS_OF, 'invalid', 'as_of: given more than once.');
  const wrong = [...query.keys()].find((name) => name !== AS_OF && MEANT_AS_OF.test(name));
  if (wrong !== undefined) throw invalid(wrong, 'invalid', `${wrong}: did you mean as_of?`);
  try {
    // Most requests are about the latest state, which needs one query; other references need several.
    const latest = text === LATEST ? mirror.runs.latest(source) : undefined;
    if (latest !== undefined && hiddenNewest(mirror, source) === null) {
      const at = latest.finishedAt ?? latest.startedAt;
      return { ref: text, run: latest.run, at, isLatest: true, root: rootOf(latest) };
    }
    const resolvedState = resolveState(mirror, text, { source, now });
    return { ...resolvedState, root: rootOf(mirror.runs.get(resolvedState.run)) };
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    // Only this state is refused: the records may be intact.
    if (error.isOfAuditLog) throw invalid(AS_OF, 'invalid', `as_of: ${error.message}. ${error.hint ?? ''}`);
    if (error.code !== 'reference_unknown' && error.code !== 'usage') throw error;
    throw invalid(AS_OF, 'invalid', `as_of: ${error.message}. ${FORMS}`);
  }
}

function rootOf(run: RunRow | undefined): string {
  return run?.root ?? '';
}

/**
 * False if the list was never read completely, so that records may be missing, or if removals are held, so that some
 * may be gone.
 */
const COMPLETE_HEADER = 'X-Tidemark-Complete';
/** When the list was last read completely: the newest run may have failed to read it, or not tried. */
const READ_AT_HEADER = 'X-Tidemark-Read-At';

/** A state of the mirror as a store. A list that was never read is refused, not shown as empty. */
class MirrorStore implements ReadableStore {
  readonly #mirror: Mirror;
  readonly #state: ReplicaState;
  readonly #definitionOf: (kind: Kind) => ResourceDefinition;
  readonly #later: (read: () => void) => void;

  /** @param later does work in the same state after the answer was sent, unless there is a new state by then */
  constructor(
    mirror: Mirror,
    state: ReplicaState,
    definitionOf: (kind: Kind) => ResourceDefinition,
    later: (read: () => void) => void,
  ) {
    this.#mirror = mirror;
    this.#state = state;
    this.#definitionOf = definitionOf;
    this.#later = later;
  }

  list(kind: Kind, scope: Scope, window: PageWindow): StorePage | undefined {
    const collection = this.#collection(kind, scope);
    if (collection === undefined) return undefined;
    // An empty list may belong to an organization that no longer exists.
    if (collection.records === 0 && !this.#hasParents(scope)) return undefined;
    const { pages } = this.#state;
    const { page, isOwn } = pages.take(this.#mirror, collection.list, window);
    const next = pages.following(collection.list, window, page, collection.records);
    const readAt = this.#state.readAt({ kind, scope });
    const whenSent = (): void => {
      if (isOwn) freePage(page);
      if (next !== null) this.#later(() => pages.readAhead(this.#mirror, collection.list, next));
    };
    return {
      whenSent,
      count: collection.records,
      records: page.bodies,
      headers: {
        [COMPLETE_HEADER]: String(collection.completeRun !== null && collection.outcome !== 'held'),
        ...(readAt === null ? {} : { [READ_AT_HEADER]: readAt }),
      },
    };
  }

  retrieve(kind: Kind, scope: Scope, id: string): string | undefined {
    const collection = this.#collection(kind, scope);
    if (collection === undefined) return undefined;
    const text = this.#mirror.records.bodyIn(collection.list, id);
    if (text === undefined && (collection.completeRun === null || this.#waitsForItsTurn(kind, scope, id)))
      throw noneHeld(this.#definitionOf(kind));
    return text;
  }

  /** True for a kind that is read one by one if its parent exists: then it was not read yet. */
  #waitsForItsTurn(kind: Kind, scope: Scope, id: string): boolean {
    const { reading, discovery } = this.#definitionOf(kind);
    if (reading !== 'each' || discovery.from === 'root') return false;
    const from = this.#state.collection(discovery.from, scope);
    return from !== undefined && this.#mirror.records.bodyIn(from.list, id) !== undefined;
  }

  organizationOf(projectId: string): string | undefined {
    return this.#holding('project_id', projectId, {})?.scope.organization_id;
  }

  /** The collection; undefined if it did not exist. @throws WireError if the mirror cannot know that */
  #collection(kind: Kind, scope: Scope): HeldCollection | undefined {
    const collection = this.#state.collection(kind, scope);
    if (collection?.isRetired === true) return undefined;
    if (collection?.wasRead === true) return collection;
    if (collection === undefined && !this.#hasParents(scope)) throw notFound();
    throw neverRead(this.#definitionOf(kind), collection ?? null);
  }

  #hasParents(scope: Scope): boolean {
    const named = Object.entries(scope) as [ScopeKey, string][];
    return named.every(([key, id]) => this.#holding(key, id, scope) !== undefined);
  }

  /** The collection with the record that a value of a scope names, if its own scope does not contradict the rest. */
  #holding(key: ScopeKey, id: string, scope: Scope): HeldCollection | undefined {
    return this.#state
      .ofKind(SCOPE_KIND[key])
      .find(
        ({ scope: above, list }) =>
          agrees(above, scope) && this.#mirror.records.bodyIn(list, id) !== undefined,
      );
  }
}

/** Freeing smaller pages is not worth it. */
const LEAST_FREED_BYTES = 64 * 1024;

/**
 * Frees the memory of a page that is no longer needed: otherwise the collector would run once for about thirty large
 * pages, which takes a third of the time of a walk.
 */
function freePage({ bodies }: RecordPage): void {
  const { buffer, byteLength } = bodies;
  // A small buffer shares its memory with others.
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  if (isWhole && byteLength >= LEAST_FREED_BYTES) buffer.transfer(0);
}

function agrees(above: Scope, scope: Scope): boolean {
  const named = Object.entries(above) as [ScopeKey, string][];
  return named.every(([key, value]) => scope[key] === undefined || scope[key] === value);
}

/**
 * The refusal of a collection that no run up to the state has read: 403 if the service denied it, otherwise 404.
 * @param seen the result of the last run; null if none has tried
 */
function neverRead(
  definition: ResourceDefinition,
  seen: Pick<SeenCollection, 'outcome' | 'error'> | null,
): WireError {
  const { many } = definition.title;
  const why = seen?.error === null || seen === null ? '' : ` ${ended(seen.error)}`;
  switch (seen?.outcome) {
    case 'denied':
      return permissionDenied(`The mirror holds no ${many}: the service denied the list to its key.${why}`);
    case 'missing':
      return notFound(`The mirror holds no ${many}: the service does not offer this list.${why}`);
    case undefined:
    case null:
    case 'skipped':
      return notFound(`The mirror holds no ${many}: this list was not read.${why}`);
    default:
      return notFound(`The mirror holds no ${many}: this list could not be read yet.${why}`);
  }
}

/** The refusal of a record that is not in the mirror, if its collection was never read completely. */
function noneHeld({ title, reading }: ResourceDefinition): WireError {
  return notFound(
    reading === 'each'
      ? `The mirror holds no such ${title.one}: not all of them were read yet.`
      : `The mirror holds no such ${title.one}, and it never read the complete list.`,
  );
}

/** Refuses a GET operation whose answers are not mirrored. @throws WireError 501, always */
function refuseReadingAction({ method, action }: Operation): never {
  const known = NOT_MIRRORED.find((each) => each.method === method && each.action === action);
  const why = known === undefined ? '' : ` (${known.reason})`;
  throw notHeld(`A mirror does not hold what "${action ?? ''}" answers${why}. Ask the service itself.`);
}

function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
