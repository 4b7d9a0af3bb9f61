/** `tidemark sandbox`: the entire interface, read and write, over a store in memory (docs/sandbox.md). */
import { hostname } from 'node:os';
import type { Operation } from '../catalog/definition.ts';
import type { Profile } from '../config/override-options.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import type { ListeningAt } from '../core/local-url.ts';
import { type Logger, silentLogger } from '../core/logger.ts';
import { type AccessKey, createAuthenticator } from './authorization.ts';
import { type Interface, createInterface } from './interface.ts';
import { createListener } from './listener.ts';
import { DataFile } from './memory/data-file.ts';
import { secureRandom } from './memory/identity.ts';
import { type StoredRecord, MemoryStore } from './memory/memory-store.ts';
import { ProfiledStore } from './memory/profiled-store.ts';
import { acceptedBy, answerAs } from './profile-answers.ts';
import { type PageSize, DEFAULT_PAGE_SIZE } from './page.ts';
import { type Seed, EMPTY_SEED } from './seed/seed.ts';
import { createThrottle } from './interface.ts';

type SeedName = 'demo' | 'empty';

interface SandboxOptions {
  readonly clock: Clock;
  /** Numbers in [0, 1) for ids and tokens; cryptographic chance when absent. */
  readonly random?: () => number;
  readonly log?: Logger;
  readonly keys: readonly AccessKey[];
  /** What a new sandbox holds; an existing data file is used unchanged. */
  readonly seed: SeedName | Seed;
  /** Data file (`--data`); memory only when absent. */
  readonly file?: string;
  readonly pageSize?: PageSize;
  /** IP addresses and CIDR ranges of trusted proxies; none when absent. */
  readonly trustedProxies?: readonly string[];
  /** Requests that each key may send; no limit when null or absent. */
  readonly rate?: { readonly perMinute: number } | null;
  /** The deployment that it answers as; the API as documented when absent. */
  readonly profile?: Profile;
}

interface Sandbox {
  /** Starts to listen; port 0 picks a free one. Throws `port_in_use`, or `usage` for an address not of this machine. */
  listen(address: { readonly host: string; readonly port: number }): Promise<ListeningAt>;
  /** Stops listening and closes the data file. */
  close(): Promise<void>;
  /** Reads and writes past the API: `write` and `discard` know no rules. */
  readonly store: MemoryStore;
  /** Every record as the API answers it to the first key's user, without regard to permissions. */
  snapshot(): Iterable<StoredRecord>;
}

// The demo is loaded only where it is wanted.
const SEEDS: Readonly<Record<SeedName, () => Promise<Seed>>> = {
  demo: async () => (await import('./seed/demo.ts')).demoSeed(),
  empty: () => Promise.resolve(EMPTY_SEED),
};

/**
 * @throws TidemarkError `usage` without a key, `file_system` or `read_only` for a data file that cannot be used, `mirror_locked`
 * for one that another sandbox uses
 */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const log = options.log ?? silentLogger;
  const { clock } = options;
  const file = options.file === undefined ? null : new DataFile(options.file);
  const effects = { clock, random: options.random ?? secureRandom, file };
  const { profile } = options;
  const store =
    profile === undefined ? new MemoryStore(effects) : new ProfiledStore(effects, acceptedBy(profile));
  const keys = await openStore(store, file, options);
  const authenticate = createAuthenticator(keys);
  const documented = createInterface({
    mount: '',
    authenticate,
    read: (_query, work) => work({ store, headers: {} }),
    readingAction: readingAnswer,
    writer: store,
    pageSize: options.pageSize ?? DEFAULT_PAGE_SIZE,
    throttle:
      options.rate === undefined || options.rate === null
        ? null
        : createThrottle(options.rate.perMinute, clock),
    log,
  });
  const serve =
    profile === undefined ? documented : answerAs(profile, { documented, authenticate, store, clock });
  const listener = createListener(logged(serve, log), log, options.trustedProxies);
  return {
    listen: (address) => listener.listen(address),
    close: async () => {
      await listener.close();
      file?.close();
    },
    store,
    snapshot: () => store.snapshot({ userUuid: keys[0]?.userUuid ?? null, organizations: null }),
  };
}

/** Each request at debug: no key, and of a query, which may search for an address, nothing. */
function logged(serve: Interface, log: Logger): Interface {
  return async (request) => {
    const answer = await serve(request);
    const [path = ''] = request.target.split('?');
    log.debug({ method: request.method, path, status: answer.status }, 'request answered');
    return answer;
  };
}

/** Fills the store from its file or seed; returns the keys, each with its user. */
async function openStore(
  store: MemoryStore,
  file: DataFile | null,
  options: SandboxOptions,
): Promise<AccessKey[]> {
  if (options.keys.length === 0) {
    throw new TidemarkError('usage', 'a sandbox without a key could not be called', {
      hint: 'give it at least one key',
    });
  }
  try {
    const since = isoTime(options.clock.now());
    file?.lock({ command: 'sandbox', pid: process.pid, host: hostname(), since });
    if (file?.exists === true) store.load(file.read());
    else store.insert(typeof options.seed === 'string' ? await SEEDS[options.seed]() : options.seed);
    const keys = options.keys.map((key, index) => withUser(store, key, index));
    file?.rewrite(store.commits());
    return keys;
  } catch (error) {
    file?.close();
    throw asTidemarkError(options.file === undefined ? error : asFileError(error, options.file, 'opened'));
  }
}

function withUser(store: MemoryStore, key: AccessKey, index: number): AccessKey {
  const userUuid = key.userUuid ?? store.firstUser() ?? undefined;
  if (userUuid === undefined) return key;
  if (!store.hasUser(userUuid)) store.addUser(userUuid, `key-${index + 1}@sandbox.example`);
  return { ...key, userUuid };
}

// What the GET operations beside list and retrieve answer. interface.md marks most "200 none"; where it shows no answer at
// all, docs/sandbox.md lists the choice.

/** By the operation's path; the rest answers 200 without a body. */
const BODY_BY_PATH: Readonly<Record<string, string>> = {
  '/api/organizations/:organization_id/projects/:id/activity/':
    '{"count":0,"next":null,"previous":null,"results":[]}',
  '/api/organizations/:organization_id/projects/:id/is_generating_demo_data/':
    '{"is_generating_demo_data":false}',
};

/** JSON text of the answer, or null for an empty one. */
export function readingAnswer(operation: Operation): string | null {
  return BODY_BY_PATH[operation.path] ?? null;
}
