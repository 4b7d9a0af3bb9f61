/**
 * The mirror served over the interface's own paths, read-only (docs/replica.md). One function from a request to an
 * answer, whoever listens: `serve`, or the daemon beside its other pages.
 */
import type { Kind, ResourceDefinition } from '../../catalog/definition.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { Point } from '../../state/point.ts';
import { type Interface, type StoreView, createInterface } from '../interface.ts';
import type { PageSize } from '../page.ts';
import { type SealedPoint, pointAsked } from './as-of.ts';
import { createCallers } from './callers.ts';
import { HeldMirror } from './held-mirror.ts';
import { MirrorStore } from './mirror-store.ts';
import { refuseReadingAction } from './refusals.ts';
import { readState } from './replica-state.ts';
import { StateMemory } from './state-memory.ts';

/** wire-notes.md, Lists: 100 by default. A maximum, since memory is bounded by pages in flight. */
export const REPLICA_PAGE_SIZE: PageSize = { default: 100, max: 10_000 };

export interface ReplicaOptions {
  /** Where the mirror is configured to be: watched for another file in its place. */
  readonly mirrorPath: string;
  /** Opens it for reading; called again whenever it has to be. */
  readonly openMirror: () => Mirror;
  /** The source whose records are served. */
  readonly source: string;
  /** The catalog as that source has it. */
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  /** Any of them opens it; without one, only requests addressed to this machine are answered. */
  readonly tokens: readonly Secret[];
  /** What stands before `/api/`, without a slash at its end; empty at the root. */
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

/** Opens nothing yet: the first request does. */
export function createReplica(options: ReplicaOptions): Replica {
  const { clock, log, source, definitionOf } = options;
  const held = new HeldMirror(options, () => new StateMemory());
  const answer = createInterface({
    mount: options.pathPrefix,
    authenticate: createCallers(options.tokens),
    read: (query, work) =>
      held.use((mirror, memory) => {
        const point = pointAsked(mirror, query, source, clock.now());
        const name = nameOf(point);
        const state = memory.take(name, () => readState(mirror, source, point, definitionOf));
        const isSameState = (): boolean => nameOf(pointAsked(mirror, query, source, clock.now())) === name;
        const later = (work: () => void): void =>
          held.again(mirror, () => {
            if (isSameState()) work();
          });
        const view: StoreView = {
          store: new MirrorStore(mirror, state, definitionOf, later),
          headers: stateHeaders(point, clock.now()),
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

/** Names what a state holds. As of a past run it is read in another way. */
function nameOf({ run, root, isLatest }: SealedPoint): string {
  return `${isLatest ? 'latest' : 'past'} ${run} ${root}`;
}

function stateHeaders({ run, at }: Point, now: number): Record<string, string> {
  return {
    'X-Tidemark-Run': String(run),
    'X-Tidemark-As-Of': at,
    'X-Tidemark-Age': String(Math.max(0, Math.floor((now - Date.parse(at)) / 1000))),
  };
}
