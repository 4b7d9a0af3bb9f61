/** `tidemark sandbox`: the entire API, read and write, over a store in memory (docs/sandbox.md). */
import { hostname } from 'node:os';
import type { Operation } from '../catalog/definition.ts';
import type { Profile } from '../config/override-options.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import type { ListeningAt } from '../core/local-url.ts';
import { type Logger, silentLogger } from '../core/logger.ts';
import { type AccessKey, createAuthenticator } from './authorization.ts';
import { type Interface, createInterface, createThrottle } from './interface.ts';
import { createListener } from './listener.ts';
import { DataFile } from './memory/data-file.ts';
import { secureRandom } from './memory/identity.ts';
import { type StoredRecord, MemoryStore } from './memory/memory-store.ts';
import { ProfiledStore } from './memory/profiled-store.ts';
import { acceptedBy, answerAs } from './profile-answers.ts';
import { type PageSize, DEFAULT_PAGE_SIZE } from './page.ts';
import { type Seed, EMPTY_SEED } from './seed/seed.ts';

type SeedName = 'demo' | 'empty';

interface SandboxOptions {
  readonly clock: Clock;
  /** Random numbers in [0, 1) for ids and tokens; by default cryptographic ones. */
  readonly random?: () => number;
  readonly log?: Logger;
  readonly keys: readonly AccessKey[];
  /** The contents of a new sandbox; not used if the data file exists. */
  readonly seed: SeedName | Seed;
  /** Data file (`--data`); if omitted, everything is in memory only. */
  readonly file?: string;
  readonly pageSize?: PageSize;
  /** IP addresses and CIDR ranges of trusted proxies. */
  readonly trustedProxies?: readonly string[];
  /** How many requests each key may send; null or omitted for no limit. */
  readonly rate?: { readonly perMinute: number } | null;
  /** The profile of the deployment that it imitates; by default the API as documented. */
  readonly profile?: Profile;
}

interface Sandbox {
  /** Starts to listen; port 0 picks a free one. Throws `port_in_use`, or `usage` if this machine does not have the address. */
  listen(address: { readonly host: string; readonly port: number }): Promise<ListeningAt>;
  /** Stops listening and closes the data file. */
  close(): Promise<void>;
  /** For reading and writing without the API: `write` and `discard` have no rules. */
  readonly store: MemoryStore;
  /** Every record as the API answers it to the owner of the first key, without regard to permissions. */
  snapshot(): Iterable<StoredRecord>;
}

// The demo is loaded only if it is used.
const SEEDS: Readonly<Record<SeedName, () => Promise<Seed>>> = {
  demo: async () => (await import('./seed/demo.ts')).demoSeed(),
  empty: () => Promise.resolve(EMPTY_SEED),
};

/**
 * @throws TidemarkError `usage` without a key, `file_system` or `read_only` for a data file that cannot be used,
 * `mirror_locked` for one that another sandbox uses
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

/** Logs each request at level debug, without its key, and without its query, which may contain personal data. */
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

/**
 * Answers to GET operations other than list and retrieve, by path; all others answer 200 without a body. interface.md
 * marks most "200 none"; docs/sandbox.md lists the choice for those that it does not describe.
 */
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
