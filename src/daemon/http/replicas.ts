/** The replicas below `/replica`: one of each source, and of the only one without its name. */
import type { HttpBindings } from '@hono/node-server';
import type { Hono } from 'hono';
import type { Config } from '../../config/config.ts';
import { createApplication } from '../../server/listener.ts';
import type { TrustedProxies } from '../../server/client-address.ts';
import type { Replica } from '../../server/replica/replica.ts';
import { Refusal } from './refusal.ts';

interface Mounted {
  readonly replica: Replica;
  readonly application: Hono<{ Bindings: HttpBindings }>;
}

export class Replicas {
  readonly #create: (source: string, pathPrefix: string) => Replica | null;
  readonly #config: () => Config;
  readonly #proxies: TrustedProxies;
  readonly #closing = new AbortController();
  readonly #mounted = new Map<string, Mounted>();
  #madeFor: Config | null = null;

  constructor(
    create: (source: string, pathPrefix: string) => Replica | null,
    config: () => Config,
    proxies: TrustedProxies,
  ) {
    this.#create = create;
    this.#config = config;
    this.#proxies = proxies;
  }

  /**
   * What answers a path below `/replica`.
   * @throws Refusal 404 for a source that there is not, and where the replica has no token
   */
  at(path: string): Hono<{ Bindings: HttpBindings }> {
    const config = this.#config();
    if (this.#madeFor !== config) this.#discard();
    this.#madeFor = config;
    const names = config.sources.map(({ name }) => name);
    const [, first = ''] = /^\/replica\/([^/]*)/.exec(path) ?? [];
    const [only] = names;
    const source =
      first === 'api' && names.length === 1 ? only : names.find((name) => encodeURIComponent(name) === first);
    if (source === undefined) {
      throw new Refusal(
        404,
        'reference_unknown',
        'there is no replica at this path',
        'replicas are at /replica/SOURCE/api/, with the name of a source',
      );
    }
    const prefix = first === 'api' ? '/replica' : `/replica/${first}`;
    const known = this.#mounted.get(prefix);
    if (known !== undefined) return known.application;
    const replica = this.#create(source, prefix);
    if (replica === null) throw closed(config);
    const application = createApplication(replica.answer, this.#closing.signal, this.#proxies);
    this.#mounted.set(prefix, { replica, application });
    return application;
  }

  close(): void {
    this.#closing.abort(new Error('the server is closing'));
    this.#discard();
  }

  #discard(): void {
    for (const { replica } of this.#mounted.values()) replica.close();
    this.#mounted.clear();
  }
}

function closed({ replica: { tokenFile } }: Config): Refusal {
  const why =
    tokenFile === null
      ? 'the daemon has no replica: it answers whole records, and has no token of its own'
      : 'the daemon has no replica: replica.tokenFile gave no token';
  return new Refusal(404, 'not_found', why, 'set replica.token or replica.tokenFile');
}
